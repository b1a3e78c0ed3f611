// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of each cell as a bar with the interval of its median.

use super::plot::Plot;
use crate::analysis::cells::CellFigures;
use crate::analysis::words::{capital, title, Format};
use anyhow::Result;
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::HPos;
use plumb_report::chart::canvas::{sheet, Canvas, Sheet, INK};

/// Pixels of a bar with its distance to the next one, and of the bar.
const STEP: i32 = 22;
const BAR: i32 = 14;
const GAP: i32 = 10;
const NAME: usize = 44;

pub(super) fn draw(plot: &Plot<'_>, cells: &[CellFigures]) -> Result<String> {
    let mut cells: Vec<&CellFigures> = cells.iter().collect();
    let at = |c: &CellFigures, f: Option<usize>| f.map_or(0, |f| c.levels[f]);
    cells.sort_by_key(|c| (at(c, plot.over), at(c, plot.by), c.cell));
    let name = |cell: &CellFigures| -> String {
        let name = match (plot.over, plot.by) {
            (None, None) => cell.label.clone(),
            _ => format!("{} {}", plot.level(plot.over, cell), plot.level(plot.by, cell)).trim().to_string(),
        };
        match name.chars().count() > NAME {
            true => name.chars().take(NAME - 1).chain(['~']).collect(),
            false => name,
        }
    };
    // A bar has the colour of its `by` level, else of its `over` level.
    let coloured = plot.by.or(plot.over);
    let legend = match plot.by {
        Some(f) => plot.table.factors[f].levels.clone(),
        None => Vec::new(),
    };
    let highest = cells.iter().map(|c| c.median).fold(0.0, f64::max);
    let format = Format::of(plot.unit, highest);
    let ends = |c: &CellFigures| {
        [c.median, c.interval.map_or(c.median, |i| i.low), c.interval.map_or(c.median, |i| i.high)]
    };
    let values =
        || cells.iter().flat_map(|c| ends(c)).chain(plot.chart.lines.iter().copied()).map(|v| v * format.by);
    let label = axis_label(&plot.chart.figure, format.unit);
    let log = if plot.chart.log { Axis::log(label.clone(), values()) } else { None };
    let axis = log.unwrap_or_else(|| Axis::linear(label, values()));
    let jumps = |i: usize| i > 0 && plot.over.is_some_and(|f| cells[i].levels[f] != cells[i - 1].levels[f]);
    let mut tops = Vec::new();
    let mut height = 6;
    for i in 0..cells.len() {
        height += if jumps(i) { GAP } else { 0 };
        tops.push(height);
        height += STEP;
    }
    let described = cells.iter().map(|c| {
        let interval = match c.interval {
            Some(i) => format!(" ({} to {})", format.number(i.low), format.number(i.high)),
            None => String::new(),
        };
        format!("{}: {}{interval}", name(c), format.text(c.median))
    });
    let mut description = described.collect::<Vec<_>>().join("; ");
    let without = cells.iter().filter(|c| axis.place(c.median * format.by).is_none()).count();
    if without > 0 {
        description += &format!("; {without} of 0 have no bar on a logarithmic axis");
    }
    let names: Vec<String> = cells.iter().map(|c| name(c)).collect();
    let page = Sheet {
        title: plot.title(),
        description,
        height,
        left_letters: names.iter().map(|n| n.chars().count()).max().unwrap_or(0),
        legend,
        ..Sheet::default()
    };
    sheet(&page, |canvas| {
        canvas.horizontal(&axis, true)?;
        for (i, cell) in cells.iter().enumerate() {
            let number = coloured.map_or(0, |f| cell.levels[f]);
            bar(canvas, &axis, tops[i], number, cell, format.by)?;
            let (left, _, top, _) = canvas.ends();
            canvas.text(&names[i], (left - 8, top + tops[i] + BAR / 2), HPos::Right)?;
        }
        vertical_lines(canvas, &axis, &plot.chart.lines, format)
    })
}

fn bar(canvas: &Canvas<'_>, axis: &Axis, top: i32, number: usize, cell: &CellFigures, by: f64) -> Result<()> {
    let (_, _, above, _) = canvas.ends();
    let (top, middle, bottom) = (above + top, above + top + BAR / 2, above + top + BAR);
    let Some(end) = axis.place(cell.median * by) else { return Ok(()) };
    let begin = axis.place(0.0).unwrap_or(0.0);
    let (from, to) = (canvas.x(begin.min(end)), canvas.x(begin.max(end)));
    canvas.bar((from, top), (to.max(from + 1), bottom), number)?;
    let Some(interval) = cell.interval else { return Ok(()) };
    let low = canvas.x(axis.place(interval.low * by).unwrap_or(0.0));
    let Some(high) = axis.place(interval.high * by).map(|p| canvas.x(p)) else { return Ok(()) };
    canvas.line(&[(low, middle), (high, middle)], INK, 1)?;
    for x in [low, high] {
        canvas.line(&[(x, middle - 4), (x, middle + 4)], INK, 1)?;
    }
    Ok(())
}

/// The chart's own lines, with their values.
fn vertical_lines(canvas: &Canvas<'_>, axis: &Axis, lines: &[f64], format: Format) -> Result<()> {
    let (_, _, top, bottom) = canvas.ends();
    for line in lines {
        let Some(place) = axis.place(line * format.by) else { continue };
        canvas.dashed((canvas.x(place), top), (canvas.x(place), bottom), INK)?;
        canvas.text(&format.text(*line), (canvas.x(place), top - 8), HPos::Center)?;
    }
    Ok(())
}

/// A figure with its unit.
pub(super) fn axis_label(figure: &str, unit: &str) -> String {
    match unit {
        "" => capital(&title(figure)),
        unit => format!("{} [{unit}]", capital(&title(figure))),
    }
}
