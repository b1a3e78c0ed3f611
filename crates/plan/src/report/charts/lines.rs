// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure over a factor, one line for each level of another one.

use super::bars::axis_label;
use super::plot::Plot;
use crate::analysis::cells::CellFigures;
use crate::analysis::words::Format;
use anyhow::Result;
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::HPos;
use plumb_report::chart::canvas::{colour, sheet, Sheet, INK};
use plumb_trace::units;

/// Levels whose largest is so many times the smallest stand on a logarithm.
const LOG_FROM: f64 = 16.0;
const HEIGHT: i32 = 360;

pub(super) fn draw(plot: &Plot<'_>, cells: &[CellFigures]) -> Result<String> {
    let Some(over) = plot.over else { anyhow::bail!("lines need a factor to go over (over = ...)") };
    let factor = &plot.table.factors[over];
    let numbers = numbers(&factor.levels);
    let marks: Vec<(f64, String)> = numbers.iter().copied().zip(factor.levels.iter().cloned()).collect();
    let (low, high) = crate::analysis::cells::ends(&numbers);
    let across = Axis::named(factor.name.clone(), &marks, low > 0.0 && high / low >= LOG_FROM);
    let format = Format::of(plot.unit, cells.iter().map(|c| c.median).fold(0.0, f64::max));
    let ends = |c: &CellFigures| {
        [c.median, c.interval.map_or(c.median, |i| i.low), c.interval.map_or(c.median, |i| i.high)]
    };
    let values =
        || cells.iter().flat_map(ends).chain(plot.chart.lines.iter().copied()).map(|v| v * format.by);
    let label = axis_label(&plot.chart.figure, format.unit);
    let log = if plot.chart.log { Axis::log(label.clone(), values()) } else { None };
    let up = log.unwrap_or_else(|| Axis::linear(label, values()));
    let lines: Vec<(usize, String)> = match plot.by {
        Some(by) => plot.table.factors[by].levels.iter().cloned().enumerate().collect(),
        None => vec![(0, String::new())],
    };
    let of_line = |line: usize| -> Vec<&CellFigures> {
        let mut own: Vec<&CellFigures> =
            cells.iter().filter(|c| plot.by.is_none_or(|by| c.levels[by] == line)).collect();
        own.sort_by(|a, b| numbers[a.levels[over]].total_cmp(&numbers[b.levels[over]]));
        own
    };
    let described = lines.iter().map(|(line, name)| {
        let points = of_line(*line);
        let points =
            points.iter().map(|c| format!("{} {}", plot.level(Some(over), c), format.text(c.median)));
        format!("{name}: {}", points.collect::<Vec<_>>().join(", ")).trim_start_matches(": ").to_string()
    });
    let mut description = described.collect::<Vec<_>>().join("; ");
    let without = cells.iter().filter(|c| up.place(c.median * format.by).is_none()).count();
    if without > 0 {
        description += &format!("; {without} of 0 have no place on a logarithmic axis");
    }
    let page = Sheet {
        title: plot.title(),
        description,
        height: HEIGHT,
        left_letters: up.ticks.iter().map(|t| t.1.chars().count()).max().unwrap_or(0),
        legend: if plot.by.is_some() { lines.iter().map(|l| l.1.clone()).collect() } else { Vec::new() },
        ..Sheet::default()
    };
    sheet(&page, |canvas| {
        canvas.vertical(&up)?;
        canvas.horizontal(&across, false)?;
        let (left, right, _, _) = canvas.ends();
        for line in &plot.chart.lines {
            let Some(place) = up.place(line * format.by) else { continue };
            let y = canvas.y(place);
            canvas.dashed((left, y), (right, y), INK)?;
            canvas.text(&format.text(*line), (right - 4, y - 9), HPos::Right)?;
        }
        for (line, _) in &lines {
            // A value without a place ends the line: going on beyond it would invent one.
            let mut paths = vec![Vec::new()];
            for cell in of_line(*line) {
                let x = across.place(numbers[cell.levels[over]]).map(|p| canvas.x(p));
                let y = |value: f64| up.place(value * format.by).map(|p| canvas.y(p));
                let (Some(x), Some(middle)) = (x, y(cell.median)) else {
                    paths.push(Vec::new());
                    continue;
                };
                paths.last_mut().into_iter().for_each(|p| p.push((x, middle)));
                canvas.dot((x, middle), *line)?;
                if let Some((low, high)) = cell.interval.and_then(|i| y(i.low).zip(y(i.high))) {
                    canvas.line(&[(x, low), (x, high)], colour(*line), 1)?;
                    for end in [low, high] {
                        canvas.line(&[(x - 4, end), (x + 4, end)], colour(*line), 1)?;
                    }
                }
            }
            for path in paths.iter().filter(|p| p.len() > 1) {
                canvas.line(path, colour(*line), 2)?;
            }
        }
        Ok(())
    })
}

/// Levels' numbers: plain, of bytes (`64K`), of time (`10ms`); else their places.
pub(super) fn numbers(levels: &[String]) -> Vec<f64> {
    let all =
        |read: fn(&str) -> Option<f64>| -> Option<Vec<f64>> { levels.iter().map(|l| read(l)).collect() };
    let plain = |l: &str| l.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let bytes = |l: &str| units::parse_bytes(l).ok().map(|v| v as f64);
    let time = |l: &str| units::parse_duration(l).ok().map(|v| v as f64);
    all(plain)
        .or_else(|| all(bytes))
        .or_else(|| all(time))
        .unwrap_or_else(|| (0..levels.len()).map(|i| i as f64).collect())
}
