// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One paragraph: what is best, what cannot be told from it, what decides, what is worst,
//! and what speaks against the figures.

use super::cells::{CellFigures, Scale, NOT_VALID};
use super::words::{capital, list, percent, ratio, several, title, value, Format};
use super::{verdicts, Analysis};
use crate::table::{Table, Unit};
use std::collections::BTreeMap;

/// Parts of the variation that are told, at most,
const MOST_PARTS: usize = 3;
/// and at least so large.
const WORTH_TELLING: f64 = 0.02;
/// Names that are told in a row.
const MOST_NAMES: usize = 3;

/// Of a figure that is analysed but for this.
pub fn paragraph(analysis: &Analysis, table: &Table) -> String {
    let mut said = vec![first(analysis, table)];
    said.extend(as_good(analysis));
    said.extend(worst(analysis));
    said.extend(variation(analysis));
    said.extend(interaction(analysis));
    said.extend(kinds(table));
    said.extend(doubts(analysis, table));
    said.join(" ")
}

fn cell(analysis: &Analysis, number: usize) -> Option<&CellFigures> {
    analysis.cells.iter().find(|c| c.cell == number)
}

/// `6.13 ms (5.90 to 6.31)`.
fn figure(cell: &CellFigures, unit: Unit) -> String {
    let format = Format::of(unit, cell.median);
    match cell.interval {
        Some(i) => {
            format!("{} ({} to {})", format.text(cell.median), format.number(i.low), format.number(i.high))
        }
        None => format.text(cell.median),
    }
}

fn first(analysis: &Analysis, table: &Table) -> String {
    let name = title(&analysis.figure);
    let best = analysis.ranking.places.first().and_then(|p| cell(analysis, p.cell));
    let Some(best) = best else {
        let why =
            table.missing.first().map(|(label, why)| format!(": {label}: {}", why.trim_end_matches('.')));
        return format!("Nothing was measured of the {name}{}.", why.unwrap_or_default());
    };
    let all = analysis.cells.len();
    let (label, figure) = (&best.label, figure(best, analysis.unit));
    if all == 1 {
        return format!("{} of {label}, the only combination: {figure}.", capital(&name));
    }
    let is = match (analysis.unit, analysis.ranking.directed) {
        (Unit::Ns, _) => "takes the least",
        (_, true) => "reaches the most",
        (_, false) => "has the least",
    };
    format!("{}: of {all} combinations {label} {is}: {figure}.", capital(&name))
}

fn as_good(analysis: &Analysis) -> Option<String> {
    if analysis.ranking.unknown() {
        return Some(
            "With fewer than three repetitions there is no interval, so another may be as good.".into(),
        );
    }
    let names: Vec<String> = analysis.ranking.as_good().map(|p| p.label.clone()).collect();
    match names.len() {
        0 => None,
        n if n + 1 == analysis.cells.len() => Some("None of the others can be told from it.".into()),
        _ => Some(format!("Not distinguishable from it: {}.", list(&names, MOST_NAMES))),
    }
}

fn worst(analysis: &Analysis) -> Option<String> {
    let places = &analysis.ranking.places;
    let worst = places.last().filter(|_| places.len() > 1)?;
    let figure = value(cell(analysis, worst.cell)?.median, analysis.unit);
    let times = match (analysis.unit, worst.ratio) {
        (_, None) => String::new(),
        (Unit::Ns, Some(r)) => format!(", {} times as long", ratio(r)),
        (_, Some(r)) if r < 1.0 => format!(", {} of the best", percent(r)),
        (_, Some(r)) => format!(", {} times as much", ratio(r)),
    };
    let word = if analysis.ranking.directed { "Worst" } else { "Most" };
    Some(format!("{word} is {}: {figure}{times}.", worst.label))
}

fn variation(analysis: &Analysis) -> Option<String> {
    let parts = &analysis.effects.variation;
    if parts.is_empty() {
        return (analysis.cells.len() > 1).then(|| "All figures are equal.".into());
    }
    if analysis.cells.len() < 2 {
        return None;
    }
    let mut parts: Vec<_> = parts.iter().filter(|p| p.share >= WORTH_TELLING).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    let told: Vec<String> = parts
        .iter()
        .take(MOST_PARTS)
        .enumerate()
        .map(|(i, p)| match i {
            0 => format!("{} explains {} of the variation", capital(&p.what), percent(p.share)),
            _ => format!("{} {}", p.what, percent(p.share)),
        })
        .collect();
    let noise = if analysis.single() {
        "; with one repetition of each, noise cannot be distinguished from it"
    } else {
        ""
    };
    (!told.is_empty()).then(|| format!("{}{noise}.", told.join(", ")))
}

fn interaction(analysis: &Analysis) -> Option<String> {
    let one = analysis.effects.interactions.first()?;
    let [a, b] = &one.levels;
    let more = match analysis.effects.scale {
        Scale::Ratio => format!("{} times what each alone makes", ratio(one.effect)),
        Scale::Difference => {
            let sign = if one.effect < 0.0 { "less" } else { "more" };
            format!("{} {sign} than each alone makes", value(one.effect.abs(), analysis.unit))
        }
    };
    Some(format!("{a} and {b} together: {more}."))
}

fn kinds(table: &Table) -> Option<String> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for verdict in verdicts::of(table) {
        kinds.entry(verdict.kind).or_default().push(verdict.label);
    }
    let mut kinds: Vec<(String, Vec<String>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, labels)| std::cmp::Reverse(labels.len()));
    let told: Vec<String> =
        kinds.iter().map(|(kind, labels)| format!("{kind} in {}", list(labels, MOST_NAMES))).collect();
    (!told.is_empty()).then(|| format!("What limits: {}.", told.join("; ")))
}

fn doubts(analysis: &Analysis, table: &Table) -> Vec<String> {
    let mut said = Vec::new();
    let cells = &analysis.cells;
    let unsteady = cells.iter().filter(|c| c.unsteady > 0).count();
    if unsteady > 0 {
        said.push(format!(
            "{} {} not steady.",
            several(unsteady, "cell"),
            if unsteady == 1 { "is" } else { "are" }
        ));
    }
    let invalid = table.rows.iter().filter(|r| r.doubts.iter().any(|d| d.starts_with(NOT_VALID))).count();
    if invalid > 0 {
        let all = table.rows.len();
        said.push(format!("{invalid} of {} found their own figures not valid.", several(all, "repetition")));
    }
    let outliers: usize = cells.iter().map(|c| c.outliers.len()).sum();
    if outliers > 0 {
        let stand = if outliers == 1 { "stands" } else { "stand" };
        said.push(format!("{} {stand} apart from the others of the cell.", several(outliers, "repetition")));
    }
    if let Some(drift) = analysis.drift.as_ref().filter(|d| d.found) {
        said.push(format!(
            "From the first repetition to the last the figure moved by {}.",
            moved(drift, analysis.unit)
        ));
    }
    if !table.missing.is_empty() && !cells.is_empty() {
        said.push(format!("Without figures: {}.", missing(table)));
    }
    said
}

/// `+12 %`, or a difference with its unit.
pub fn moved(drift: &super::drift::Drift, unit: Unit) -> String {
    let sign = |v: f64| if v < 0.0 { "-" } else { "+" };
    match drift.scale {
        Scale::Ratio => format!("{}{}", sign(drift.change - 1.0), percent((drift.change - 1.0).abs())),
        Scale::Difference => format!("{}{}", sign(drift.change), value(drift.change.abs(), unit)),
    }
}

/// `1 combination (ext4 fsync) and 2 repetitions`.
fn missing(table: &Table) -> String {
    let there =
        |label: &str| table.rows.iter().any(|r| label.starts_with(&format!("{} (repetition ", r.label)));
    let (some, whole): (Vec<&String>, Vec<&String>) =
        table.missing.iter().map(|(label, _)| label).partition(|label| there(label));
    let mut parts = Vec::new();
    if !whole.is_empty() {
        let names: Vec<String> = whole.iter().map(|l| l.to_string()).collect();
        parts.push(format!("{} ({})", several(whole.len(), "combination"), list(&names, MOST_NAMES)));
    }
    if !some.is_empty() {
        parts.push(several(some.len(), "repetition"));
    }
    list(&parts, 2)
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{change, Design};
    use super::*;

    fn said(table: &Table) -> String {
        Analysis::of(table, "write.mean").expect("a figure").answer
    }

    #[test]
    fn the_paragraph_names_best_worst_reason_and_doubts() {
        let of = |l: &[usize]| 6e6 * [1.0, 3.0][l[0]] * [1.0, 1.004, 1.3][l[1]];
        let mut table = Design::new(&[("method", 2), ("fs", 3)], 5).table(of, 0.01);
        for label in ["method1 fs2", "method0 fs0"] {
            table
                .rows
                .iter_mut()
                .find(|r| r.label == label)
                .expect("there")
                .doubts
                .push("not steady: it fell".into());
        }
        table.rows[3].doubts.push("not valid: held back".into());
        table.missing.push(("method2 fs0".into(), "skipped".into()));
        table.missing.push(("method1 fs0 (repetition 6)".into(), "failed".into()));
        let words = said(&table);
        assert!(!words.contains("noise cannot"), "{words}");
        let begin = "Mean time of a write: of 6 combinations method0 fs";
        assert!(words.starts_with(begin), "{words}");
        for part in [
            "takes the least: 5.9",
            "Not distinguishable from it: method0 fs",
            "Worst is method1 fs2: 23.",
            "times as long. Method explains 9",
            "of the variation, fs ",
            "2 cells are not steady.",
            "1 of 30 repetitions found their own figures not valid.",
            "Without figures: 1 combination (method2 fs0) and 1 repetition.",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn one_combination_none_and_equal_ones() {
        let mut one = Design::new(&[], 3).table(|_| 6e6, 0.0);
        assert_eq!(said(&one), "Mean time of a write of all, the only combination: 6.00 ms (6.00 to 6.00).");
        one.rows.clear();
        one.missing.push(("all".into(), "no mkfs.xfs".into()));
        assert_eq!(said(&one), "Nothing was measured of the mean time of a write: all: no mkfs.xfs.");
        let equal = Design::new(&[("a", 2)], 3).table(|_| 6e6, 0.0);
        assert!(said(&equal).ends_with("All figures are equal."), "{}", said(&equal));
    }

    #[test]
    fn kinds_of_limits_outliers_drift_and_single_repetitions() {
        let mut table = Design::new(&[("a", 3)], 1).table(|l| 1e6 * (1 + l[0]) as f64, 0.0);
        for row in &mut table.rows {
            row.kind = Some(if row.levels == [0] { "CPU busy" } else { "lock contention" }.into());
        }
        let words = said(&table);
        assert!(words.contains("fewer than three repetitions"), "{words}");
        assert!(
            words.contains("of the variation; with one repetition of each, noise cannot be distinguished"),
            "{words}"
        );
        assert!(words.contains("What limits: lock contention in a1 and a2; CPU busy in a0."), "{words}");
        let mut table = Design::new(&[("a", 2)], 8).table(|_| 1e6, 0.01);
        change(&mut table, "a1", 3, |v| v * 2.0);
        assert!(said(&table).contains("1 repetition stands apart"), "{}", said(&table));
        for row in &mut table.rows {
            let grown = 1.0 + 0.05 * row.place as f64;
            row.figures.values_mut().for_each(|v| *v = 1e6 * grown);
        }
        assert!(said(&table).contains("the figure moved by +"), "{}", said(&table));
    }

    #[test]
    fn zeros_and_rates() {
        let mut table = Design::new(&[("a", 2)], 3).table(|l| 100.0 * (1 + l[0]) as f64, 0.0);
        table.units.insert("write.mean".into(), Unit::PerSecond);
        let words = said(&table);
        assert!(
            words.contains("a1 reaches the most: 200 1/s") && words.contains("50 % of the best"),
            "{words}"
        );
        table.rows.iter_mut().for_each(|r| r.figures.values_mut().for_each(|v| *v = 0.0));
        assert!(said(&table).contains("All figures are equal."), "{}", said(&table));
    }
}
