// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure over two factors as a heat map: the levels of `over` along, those of `by` up, each value written in its field.

use super::bars::axis_label;
use super::lines::numbers;
use super::plot::Plot;
use crate::analysis::cells::{ends, CellFigures};
use crate::analysis::words::Format;
use anyhow::Result;
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::{sheet, Fill, HPos, Sheet};
use plumb_report::chart::scale;

/// Height of a row, pixels.
const ROW: i32 = 34;
/// Colours in the legend.
const LEGEND: usize = 5;

pub(super) fn draw(plot: &Plot<'_>, over: usize, by: usize, cells: &[CellFigures]) -> Result<String> {
    let factors = [over, by].map(|f| &plot.table.factors[f]);
    // By their numbers, whatever order the plan has them in.
    let ranked = factors.map(|factor| {
        let numbers = numbers(&factor.levels);
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        order
    });
    let axes = [0, 1].map(|side| {
        let names = ranked[side].iter().enumerate();
        let marks: Vec<(f64, String)> =
            names.map(|(i, l)| (i as f64, factors[side].levels[*l].clone())).collect();
        (factors[side].name.clone(), marks)
    });
    let medians: Vec<f64> = cells.iter().map(|c| c.median).collect();
    let (low, high) = ends(&medians);
    let format = Format::of(plot.unit, high);
    // Of values of 0 there is no logarithm: the description says so.
    let log = plot.chart.log && low > 0.0;
    let to = |value: f64| if log { value.ln() } else { value };
    let back = |value: f64| if log { value.exp() } else { value };
    let place = |value: f64| match to(high) - to(low) {
        span if span > 0.0 => (to(value) - to(low)) / span,
        _ => 0.0,
    };
    let at = |x: usize, y: usize| {
        let levels = (ranked[0][x], ranked[1][y]);
        cells.iter().find(|c| (c.levels[over], c.levels[by]) == levels)
    };
    let legend = if low < high { LEGEND } else { 1 };
    let steps = || (0..legend).rev().map(|i| i as f64 / (LEGEND - 1) as f64);
    let fill = |place: f64| Fill { rgb: scale::rgb(place), striped: false };
    let all = || (0..ranked[1].len()).flat_map(|y| (0..ranked[0].len()).map(move |x| (x, y)));
    let described = all().map(|(x, y)| {
        let value = at(x, y).map_or("not measured".into(), |c| format.text(c.median));
        format!("{} {}: {value}", axes[0].1[x].1, axes[1].1[y].1)
    });
    let page = Sheet {
        title: plot.title(),
        subtitle: axis_label(&plot.chart.figure, format.unit),
        description: described.collect::<Vec<_>>().join("; ")
            + if plot.chart.log && !log { "; colours are linear: a value is 0" } else { "" },
        height: ROW * ranked[1].len() as i32,
        left_letters: axes[1].1.iter().map(|mark| mark.1.chars().count()).max().unwrap_or(0),
        legend: steps().map(|p| format.text(back(to(low) + p * (to(high) - to(low))))).collect(),
        fills: steps().map(fill).collect(),
    };
    sheet(&page, |canvas| {
        // Before the fields, which cover the grid: its lines would strike the values out.
        let [along, up] = axes.clone().map(|(name, marks)| Axis::fields(name, &marks));
        canvas.vertical(&up)?;
        canvas.horizontal(&along, false)?;
        let (left, right, top, bottom) = canvas.ends();
        let (columns, rows) = (ranked[0].len() as i32, ranked[1].len() as i32);
        let edge = |i: usize| left + (right - left) * i as i32 / columns;
        let floor = |i: usize| bottom - (bottom - top) * i as i32 / rows;
        for (x, y) in all() {
            let (from, to) = ((edge(x), floor(y + 1)), (edge(x + 1), floor(y)));
            let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
            match at(x, y) {
                Some(cell) => {
                    canvas.area_of(from, to, fill(place(cell.median)))?;
                    canvas.text(&format.number(cell.median), middle, HPos::Center)?;
                }
                None => {
                    canvas.area_of(from, to, Fill { rgb: [0xff; 3], striped: false })?;
                    canvas.text("-", middle, HPos::Center)?;
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chart, drawn, table};
    use crate::file::{Chart, ChartKind};

    #[test]
    fn every_value_stands_in_its_field_and_what_is_missing_has_none() {
        let mut table = table();
        // size: 4K, 64K, 1M by disk: disk1 takes 8 times as long.
        table.factors[2].levels = vec!["16".into(), "2".into()];
        let asked = Chart { log: true, ..chart(ChartKind::Surface, Some("size"), Some("disk")) };
        let got = drawn(&table, asked.clone());
        let files: Vec<&str> = got.drawn.iter().map(|c| c.file.as_str()).collect();
        assert_eq!(files, ["chart-ext4----.svg", "chart-x-fs.svg"], "{:?}", got.notes);
        let svg = &got.drawn[0].svg;
        // The ground, six fields and the legend's five colours.
        assert_eq!(svg.matches("<rect").count(), 12, "{svg}");
        assert!(svg.contains("#FFFFD9") && svg.contains("#2699C6"), "from the least to the most: {svg}");
        assert!(svg.rfind("#DDDDDD") < svg.find("#2699C6"), "the grid lies below the fields: {svg}");
        // Levels in the order of their numbers: 2 before 16.
        let at = |words: &str| svg.find(words).unwrap_or_else(|| panic!("{words}: {svg}"));
        assert!(at("4K 2: ") < at("4K 16: "));
        table.rows.retain(|row| row.levels != [1, 0, 1]);
        let svg = &drawn(&table, asked).drawn[0].svg;
        assert_eq!(
            (svg.matches("<rect").count(), svg.matches("#FFFFFF").count()),
            (12, 2),
            "ground and field: {svg}"
        );
        assert!(svg.contains("64K 2: not measured"), "{svg}");
    }

    #[test]
    fn equal_values_have_one_colour() {
        let mut table = table();
        table.rows.iter_mut().for_each(|row| row.figures.values_mut().for_each(|v| *v = 0.0));
        let asked = Chart { log: true, ..chart(ChartKind::Surface, Some("size"), Some("disk")) };
        let svg = &drawn(&table, asked).drawn[0].svg;
        assert!(svg.matches("#FFFFD9").count() >= 6, "{svg}");
    }
}
