// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of one load against a figure of another one, a point for each environment: the combinations of the factors other than `by`.

use super::bars::axis_label;
use super::plot::Plot;
use crate::analysis::cells;
use crate::analysis::environments::Others;
use crate::analysis::words::{several, Format};
use crate::file::Place;
use anyhow::{bail, Context, Result};
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::{sheet, HPos, Sheet};
use plumb_stats::correlation::{Correlation, FEWEST};
use std::collections::BTreeMap;

const HEIGHT: i32 = 420;
/// Pixels of a letter, and of a line of them, about.
const LETTER: i32 = 7;
const LINE: i32 = 14;

/// One figure of the level of `by` in each environment.
struct Figure {
    /// Axis label without unit.
    name: String,
    format: Format,
    values: BTreeMap<Vec<usize>, f64>,
}

pub(super) fn draw(plot: &Plot<'_>, by: usize) -> Result<String> {
    let levels = &plot.table.factors[by].levels;
    let [x, y] =
        plot.chart.places(levels).context("x and figure: LEVEL:FIGURE, with a level of the factor of by")?;
    let others = Others::of(plot.table, by);
    let (across, up) = (figure(plot, &others, &x)?, figure(plot, &others, &y)?);
    // On a logarithm 0 has no place.
    let there = |value: &&f64| **value > 0.0;
    let points: Vec<(String, f64, f64)> = across
        .values
        .iter()
        .filter_map(|(environment, x)| {
            let y = up.values.get(environment).filter(there)?;
            Some((others.name(environment), *Some(x).filter(there)?, *y))
        })
        .collect();
    let axis = |figure: &Figure, of: fn(&(String, f64, f64)) -> f64| {
        let label = figure.name.clone();
        Axis::log(label, points.iter().map(|p| of(p) * figure.format.by))
    };
    let (Some(along), Some(upward)) = (axis(&across, |p| p.1), axis(&up, |p| p.2)) else {
        bail!(
            "no environment has both {} and {} above 0",
            plot.chart.x.as_deref().unwrap_or_default(),
            plot.chart.figure
        );
    };
    let said = points
        .iter()
        .map(|(name, x, y)| format!("{name}: {}, {}", across.format.text(*x), up.format.text(*y)));
    let mut description = format!("{}; {}", subtitle(&points), said.collect::<Vec<_>>().join("; "));
    let mut all: Vec<&Vec<usize>> = across.values.keys().chain(up.values.keys()).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() > points.len() {
        description +=
            &format!("; {} without both above 0", several(all.len() - points.len(), "environment"));
    }
    let page = Sheet {
        title: plot.title(),
        subtitle: subtitle(&points),
        description,
        height: HEIGHT,
        left_letters: upward.ticks.iter().map(|t| t.1.chars().count()).max().unwrap_or(0),
        ..Sheet::default()
    };
    sheet(&page, |canvas| {
        canvas.vertical(&upward)?;
        canvas.horizontal(&along, true)?;
        let places: Vec<(i32, i32)> = points
            .iter()
            .filter_map(|(_, x, y)| {
                let (x, y) = (along.place(x * across.format.by)?, upward.place(y * up.format.by)?);
                Some((canvas.x(x), canvas.y(y)))
            })
            .collect();
        let mut taken: Vec<[i32; 4]> = places.iter().map(|(x, y)| [x - 4, y - 4, x + 4, y + 4]).collect();
        let (left, right, _, _) = canvas.ends();
        for (at, (name, ..)) in places.iter().zip(&points) {
            canvas.dot(*at, 0)?;
            let (place, side) = label(*at, name, (left, right), &mut taken);
            canvas.text(name, place, side)?;
        }
        Ok(())
    })
}

fn figure(plot: &Plot<'_>, others: &Others<'_>, place: &Place<'_>) -> Result<Figure> {
    let Some(unit) = plot.table.units.get(place.figure) else {
        bail!("no repetition has the figure {}", place.figure);
    };
    let by_environment = others.medians(&cells::of(plot.table, place.figure).0);
    let own = by_environment
        .into_iter()
        .filter_map(|(environment, of)| Some((environment, *of.get(&place.level)?)));
    let values: BTreeMap<Vec<usize>, f64> = own.collect();
    let format = Format::of(*unit, values.values().copied().fold(0.0, f64::max));
    let name = axis_label(place.figure, format.unit);
    Ok(Figure { name: format!("{}: {}", place.name, name), format, values })
}

/// The coefficient of the points that are drawn.
fn subtitle(points: &[(String, f64, f64)]) -> String {
    let values = |of: fn(&(String, f64, f64)) -> f64| points.iter().map(of).collect::<Vec<_>>();
    let environments = several(points.len(), "environment");
    match Correlation::of(&values(|p| p.1), &values(|p| p.2)) {
        Some(c) => format!(
            "r = {:.2} (95 %: {:.2} to {:.2}) of the logarithms, {environments}",
            c.r, c.interval.low, c.interval.high
        ),
        None if points.len() < FEWEST => format!("no coefficient: {environments}, {FEWEST} are needed"),
        None => format!("no coefficient: one of the two is the same in all {environments}"),
    }
}

/// Where a point's name stands: beside it, and clear of points and of the names before it where that is possible.
fn label(
    (x, y): (i32, i32),
    name: &str,
    (left, right): (i32, i32),
    taken: &mut Vec<[i32; 4]>,
) -> ((i32, i32), HPos) {
    let wide = LETTER * name.chars().count() as i32;
    let tries = [0, -9, 9, -18, 18, -27, 27].into_iter().flat_map(|dy| {
        let (top, bottom) = (y + dy - LINE / 2, y + dy + LINE / 2);
        [
            ([x + 7, top, x + 7 + wide, bottom], (x + 7, y + dy), true),
            ([x - 7 - wide, top, x - 7, bottom], (x - 7, y + dy), false),
        ]
    });
    let all: Vec<_> = tries.collect();
    let clear = |own: &[i32; 4]| {
        let meets = |o: &[i32; 4]| own[0] < o[2] && o[0] < own[2] && own[1] < o[3] && o[1] < own[3];
        own[0] > left && own[2] < right + 30 && !taken.iter().any(meets)
    };
    let (own, at, behind) = *all.iter().find(|(own, ..)| clear(own)).unwrap_or(&all[0]);
    taken.push(own);
    (at, if behind { HPos::Left } else { HPos::Right })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chart, drawn};
    use super::*;
    use crate::analysis::synthetic::Design;
    use crate::analysis::together;
    use crate::file::{Chart, ChartKind};
    use crate::table::{Table, Unit};

    /// Loads 0 and 1 go together over seven disks, nearly.
    fn table() -> Table {
        let mut table = Design::new(&[("disk", 7), ("load", 2)], 3)
            .table(|levels| 1e6 * (1 + levels[0] * levels[0]) as f64 * [1.0, 30.0][levels[1]], 0.3);
        table.factors[1].other_work = true;
        table.factors[1].levels = vec!["sync: all".into(), "base".into()];
        for row in &mut table.rows {
            row.figures.insert("elapsed".into(), row.figures["write.mean"]);
        }
        table.units.insert("elapsed".into(), Unit::Ns);
        table
    }

    fn asked(x: &str, y: &str) -> Chart {
        Chart { figure: y.into(), x: Some(x.into()), ..chart(ChartKind::Scatter, None, Some("load")) }
    }

    #[test]
    fn a_point_for_each_environment_and_the_coefficient_of_the_report() {
        let table = table();
        let got = drawn(&table, asked("sync: all:elapsed", "base:elapsed"));
        let svg = &got.drawn[0].svg;
        assert_eq!((got.drawn.len(), svg.matches("<circle").count()), (1, 7), "{svg}");
        let [together] = &together::of(&table, &cells::of(&table, "elapsed").0, "elapsed")[..] else {
            panic!("one factor of loads")
        };
        let c = together.pairs[0].correlation;
        let said = format!("r = {:.2} (95 %: {:.2} to {:.2})", c.r, c.interval.low, c.interval.high);
        assert!(svg.contains(&said) && c.r < 0.999, "{said}: {svg}");
        assert!((0..7).all(|i| svg.matches(&format!("disk{i}")).count() == 2), "named, and described: {svg}");
        assert!(
            svg.contains("sync: all: Elapsed time [") && svg.contains("base: Elapsed time [ms]"),
            "{svg}"
        );
    }

    #[test]
    fn an_environment_without_both_is_told_and_few_have_no_coefficient() {
        let mut table = table();
        table.rows.retain(|row| row.levels[0] < 3 || row.levels[1] == 0);
        let svg = &drawn(&table, asked("sync: all:elapsed", "base:write.mean")).drawn[0].svg;
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("no coefficient: 3 environments, 4 are needed"), "{svg}");
        assert!(svg.contains("4 environments without both"), "{svg}");
        table.rows.retain(|row| row.levels[1] == 0);
        let got = drawn(&table, asked("sync: all:elapsed", "base:elapsed"));
        assert!(got.drawn.is_empty() && got.notes[0].contains("no environment has both"), "{:?}", got.notes);
        let got = drawn(&table, asked("all:elapsed", "base:elapsed"));
        assert!(got.drawn.is_empty() && got.notes[0].contains("LEVEL:FIGURE"), "{:?}", got.notes);
    }
}
