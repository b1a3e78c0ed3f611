// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report on the terminal: at most 100 columns, as far as names allow.

mod changes;
mod together;

use super::Report;
use crate::analysis::answer::moved;
use crate::analysis::cells::{CellFigures, Scale};
use crate::analysis::verdicts::CellVerdict;
use crate::analysis::words::{capital, list, percent, ratio, several, title, Format};
use crate::analysis::Analysis;
use crate::table::Unit;
use anyhow::Result;
use plumb_compare::run_directory::CHAIN;
use plumb_report::terminal::{self, wrapped};
use plumb_stats::repetitions::Interval;
use std::io::Write;

/// Letters of a combination's name in a table.
const NAME: usize = 40;
/// Recorded combinations whose chains of evidence stand in the report itself.
const MOST_CHAINS: usize = 4;
/// Figures beside the main one in its table's neighbour.
const MOST_COLUMNS: usize = 5;
/// Letters of a level's name in a table of several.
const LEVEL: usize = 24;
const MOST_DOUBTS: usize = 15;
const MOST_NAMES: usize = 6;

/// Writes it.
///
/// # Errors
/// The writer's.
pub fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{} ({})\n", report.title, report.name)?;
    writeln!(out, "{}\n", wrapped(&report.answer, 0))?;
    let said = [("Question", &report.purpose), ("Expected", &report.hypothesis)];
    for (name, words) in said {
        writeln!(out, "  {name:<9} {}", wrapped(words, 12))?;
    }
    let found = "what the first paragraph says; whether that was expected is for the reader to judge.";
    writeln!(out, "  {:<9} {}", "Found", wrapped(found, 12))?;
    if let Some(source) = &report.source {
        writeln!(out, "  {:<9} {}", "Repeats", wrapped(source, 12))?;
    }
    let [planned, there] = report.repetitions;
    let mut made = format!("{there} of {} have figures.", several(planned, "repetition"));
    if let Some(why) = &report.ended_early {
        made += &format!(" Ended early: {}.", why.trim_end_matches('.'));
    }
    writeln!(out, "  {:<9} {}", "Made", wrapped(&made, 12))?;
    if let Some(standing) = &report.standing {
        writeln!(out, "\nPending changes on this system; {}", wrapped(&standing.advice(), 2))?;
        for changed in &standing.changed {
            writeln!(out, "  {}", wrapped(changed, 4))?;
        }
    }
    if let Some((main, further)) = report.figures.split_first() {
        figure(main, out)?;
        others(main, further, out)?;
        for analysis in further {
            writeln!(out, "\n{}", wrapped(&analysis.answer, 0))?;
        }
    }
    doubts(report, out)?;
    verdicts(report, out)?;
    missing(report, out)?;
    if let Some(environment) = &report.environment {
        let told = ["kernel", "CPU", "virtual", "memory"];
        let lines = environment.lines();
        let facts = lines.iter().filter(|(name, _)| told.contains(name)).map(|(n, v)| format!("{n} {v}"));
        let all = format!("plumb {}; {}.", report.plumb, facts.collect::<Vec<_>>().join("; "));
        writeln!(out, "\nMade on\n  {}", wrapped(&all, 4))?;
    }
    if !report.charts.is_empty() || !report.chart_notes.is_empty() {
        writeln!(out, "\nCharts")?;
        for chart in &report.charts {
            writeln!(out, "  {}", report.dir.join(chart).display())?;
        }
        for note in &report.chart_notes {
            writeln!(out, "  {}", wrapped(note, 4))?;
        }
    }
    chains(report, out)?;
    go_on(report, out)
}

/// The chain of evidence of each recorded combination; where there are many, only where they lie.
fn chains(report: &Report, out: &mut dyn Write) -> Result<()> {
    let with = |v: &CellVerdict| {
        let path = report.dir.join(&v.dir).join(CHAIN);
        let text = std::fs::read_to_string(&path).ok().filter(|_| !v.dir.as_os_str().is_empty())?;
        Some((v.label.clone(), path, text))
    };
    let all: Vec<_> = report.verdicts.iter().filter_map(with).collect();
    for (label, path, text) in all.iter().filter(|_| all.len() <= MOST_CHAINS) {
        writeln!(out, "\nChain of evidence: {label} ({})", path.display())?;
        text.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    if let Some((_, path, _)) = all.first().filter(|_| all.len() > MOST_CHAINS) {
        writeln!(out, "\nChains of evidence of {} combinations: {} and so on", all.len(), path.display())?;
    }
    Ok(())
}

fn figure(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    combinations(analysis, out)?;
    effects(analysis, out)?;
    variation(analysis, out)?;
    changes::write(analysis, out)?;
    together::write(analysis, out)?;
    apart(analysis, out)
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['~']).collect()
}

/// The unit of a column, from the middle one of its figures.
fn format(cells: &[CellFigures], unit: Unit) -> Format {
    let mut medians: Vec<f64> = cells.iter().map(|c| c.median).collect();
    medians.sort_by(f64::total_cmp);
    Format::of(unit, medians.get(medians.len() / 2).copied().unwrap_or(0.0))
}

fn headed(what: &str, unit: &str) -> String {
    if unit.is_empty() {
        what.into()
    } else {
        format!("{what} [{unit}]")
    }
}

fn combinations(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    let format = format(&analysis.cells, analysis.unit);
    let order = if analysis.ranking.directed { "best first" } else { "least first" };
    writeln!(out, "\n{}, {order}", headed(&capital(&title(&analysis.figure)), format.unit))?;
    let best = if analysis.ranking.directed { "x best" } else { "x first" };
    let mut table = terminal::Table::new(&[
        "<combination",
        "median",
        "low",
        "high",
        "spread",
        "n",
        best,
        "low",
        "high",
        "<",
    ]);
    for place in &analysis.ranking.places {
        let Some(cell) = analysis.cells.iter().find(|c| c.cell == place.cell) else { continue };
        let ends = |interval: Option<Interval>, word: &dyn Fn(f64) -> String| match interval {
            Some(i) => [word(i.low), word(i.high)],
            None => ["-".into(), "-".into()],
        };
        let mut marks = Vec::new();
        if place.told_apart == Some(false) {
            marks.push("=".to_string());
        }
        if !cell.outliers.is_empty() {
            marks.push("outlier".into());
        }
        if cell.unsteady > 0 {
            marks.push("not steady".into());
        }
        let [low, high] = ends(cell.interval, &|v| format.number(v));
        let [least, most] = ends(place.interval, &ratio);
        table.row(vec![
            short(&cell.label, NAME),
            format.number(cell.median),
            low,
            high,
            cell.spread.map_or("-".into(), percent),
            cell.values.len().to_string(),
            place.ratio.map_or("-".into(), ratio),
            least,
            most,
            marks.join(", "),
        ]);
    }
    table.write(out)?;
    let mut note = "Median of n repetitions, low and high of its 95 % interval (bootstrap; none below 3); spread: from the \
                    smallest to the largest."
        .to_string();
    if analysis.ranking.as_good().next().is_some() {
        note += " =: cannot be told from the first.";
    }
    if analysis.left_out > 0 {
        note += &format!(" {} without this figure.", several(analysis.left_out, "repetition"));
    }
    writeln!(out, "  {}", wrapped(&note, 2))?;
    Ok(())
}

/// Medians of further figures beside the main one's order.
fn others(main: &Analysis, further: &[Analysis], out: &mut dyn Write) -> Result<()> {
    for some in further.chunks(MOST_COLUMNS) {
        let formats: Vec<Format> = some.iter().map(|a| format(&a.cells, a.unit)).collect();
        let heads: Vec<String> = some.iter().zip(&formats).map(|(a, f)| headed(&a.figure, f.unit)).collect();
        let head: Vec<&str> = ["<combination"].into_iter().chain(heads.iter().map(String::as_str)).collect();
        let mut table = terminal::Table::new(&head);
        for place in &main.ranking.places {
            let median = |(analysis, format): (&Analysis, &Format)| {
                let cell = analysis.cells.iter().find(|c| c.cell == place.cell);
                cell.map_or("-".into(), |c| format.number(c.median))
            };
            let medians = some.iter().zip(&formats).map(median);
            table.row([short(&place.label, NAME)].into_iter().chain(medians).collect());
        }
        writeln!(out, "\nOther figures, medians")?;
        table.write(out)?;
    }
    Ok(())
}

/// An effect and its interval as cells of a table.
fn effect(value: f64, interval: Option<Interval>, scale: Scale, format: Format) -> [String; 3] {
    let word = |v: f64| match scale {
        Scale::Ratio => ratio(v),
        Scale::Difference if v > 0.0 => format!("+{}", format.number(v)),
        Scale::Difference => format.number(v),
    };
    let end = |v: Option<f64>| v.map_or("-".into(), word);
    [word(value), end(interval.map(|i| i.low)), end(interval.map(|i| i.high))]
}

fn effects(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    let effects = &analysis.effects;
    let format = format(&analysis.cells, analysis.unit);
    let unit = match effects.scale {
        Scale::Ratio => "ratio to the mean of the factor's levels".to_string(),
        Scale::Difference => headed("difference from the mean of the factor's levels", format.unit),
    };
    if !effects.levels.is_empty() {
        writeln!(out, "\nEffect of each level: {unit}")?;
        let mut table = terminal::Table::new(&["<factor", "<level", "effect", "low", "high", "cells"]);
        let mut last = "";
        for one in &effects.levels {
            let name = if one.factor == last { String::new() } else { short(&one.factor, NAME) };
            last = &one.factor;
            let mut row = vec![name, short(&one.level, NAME)];
            row.extend(effect(one.effect, one.interval, effects.scale, format));
            row.push(one.cells.to_string());
            table.row(row);
        }
        table.write(out)?;
    }
    for note in &effects.notes {
        writeln!(out, "  {}", wrapped(note, 2))?;
    }
    if effects.tested == 0 {
        return Ok(());
    }
    if effects.interactions.is_empty() {
        let none = format!(
            "None make more or less than each alone: of {} tested together none is above 5 % and above chance.",
            several(effects.tested, "pair")
        );
        writeln!(out, "\nTwo levels together\n  {}", wrapped(&none, 2))?;
        return Ok(());
    }
    let unit = match effects.scale {
        Scale::Ratio => "ratio to what each alone makes".to_string(),
        Scale::Difference => headed("difference from what each alone makes", format.unit),
    };
    writeln!(out, "\nTwo levels together: {unit}")?;
    let mut table = terminal::Table::new(&["<levels", "<", "effect", "low", "high", "q"]);
    for one in &effects.interactions {
        let mut row = one.levels.iter().map(|l| short(l, NAME)).collect::<Vec<_>>();
        row.extend(effect(one.effect, Some(one.interval), effects.scale, format));
        row.push(if one.q < 0.0005 { "<0.001".into() } else { format!("{:.3}", one.q) });
        table.row(row);
    }
    table.write(out)?;
    let note = format!(
        "Those above 5 % of {} tested together; q: share of such finds that is chance.",
        several(effects.tested, "pair")
    );
    writeln!(out, "  {}", wrapped(&note, 2))?;
    Ok(())
}

fn variation(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    if analysis.cells.len() < 2 || analysis.effects.variation.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat explains the variation")?;
    let mut table = terminal::Table::new(&["<", "share"]);
    for part in &analysis.effects.variation {
        table.row(vec![part.what.clone(), percent(part.share)]);
    }
    table.write(out)?;
    if analysis.single() {
        let note =
            "With one repetition of each combination chance is in every share: noise cannot be distinguished \
                    (repeat = 3 or more).";
        writeln!(out, "  {}", wrapped(note, 2))?;
    }
    Ok(())
}

/// Outliers, cells that are not steady, drift.
fn apart(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    let mut lines = Vec::new();
    for cell in &analysis.cells {
        for one in &cell.outliers {
            let figure = Format::of(analysis.unit, one.value).text(one.value);
            lines.push(format!("{}, repetition {}: {figure}, {}", cell.label, one.repetition, one.why));
        }
    }
    for cell in analysis.cells.iter().filter(|c| c.unsteady > 0) {
        lines.push(format!(
            "{}: {} of {} not steady",
            cell.label,
            cell.unsteady,
            several(cell.values.len(), "repetition")
        ));
    }
    if let Some(drift) = analysis.drift.as_ref().filter(|d| d.found) {
        lines.push(format!(
            "From the first repetition to the last the figure moved by {} (correlation {} with the place in the order, p {})",
            moved(drift, analysis.unit),
            plumb_trace::units::digits(drift.correlation),
            plumb_trace::units::digits(drift.p)
        ));
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat stands apart")?;
    for line in lines {
        writeln!(out, "  {}", wrapped(&line, 4))?;
    }
    Ok(())
}

fn doubts(report: &Report, out: &mut dyn Write) -> Result<()> {
    if report.doubts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nDoubts")?;
    let all = report.table.rows.len();
    for doubt in report.doubts.iter().take(MOST_DOUBTS) {
        let of = if doubt.of.len() == all && all > 1 { "all repetitions".into() } else { list(&doubt.of, 2) };
        writeln!(out, "  {}", wrapped(&format!("{}: {of}", doubt.sentence), 4))?;
    }
    if report.doubts.len() > MOST_DOUBTS {
        writeln!(out, "  and {} more (report.json)", report.doubts.len() - MOST_DOUBTS)?;
    }
    Ok(())
}

fn verdicts(report: &Report, out: &mut dyn Write) -> Result<()> {
    if report.verdicts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat limits, as recorded")?;
    let mut table = terminal::Table::new(&["<combination", "<kind", "n"]);
    for one in &report.verdicts {
        let n = format!("{}/{}", one.with_kind, one.recorded);
        table.row(vec![short(&one.label, NAME), one.kind.clone(), n]);
    }
    table.write(out)?;
    for one in report.verdicts.iter().filter(|v| !v.sentence.is_empty()) {
        writeln!(out, "  {}", wrapped(&format!("{}: {}", one.label, one.sentence), 4))?;
    }
    Ok(())
}

/// By reason, so that what one machine lacks is told once.
fn missing(report: &Report, out: &mut dyn Write) -> Result<()> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (label, why) in &report.table.missing {
        match reasons.iter_mut().find(|(w, _)| w == why) {
            Some((_, labels)) => labels.push(label.clone()),
            None => reasons.push((why, vec![label.clone()])),
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWithout figures")?;
    for (why, labels) in reasons {
        writeln!(out, "  {}", wrapped(&format!("{}: {why}", list(&labels, MOST_NAMES)), 4))?;
    }
    Ok(())
}

fn go_on(report: &Report, out: &mut dyn Write) -> Result<()> {
    let dir = report.dir.display();
    writeln!(out, "\nHow to go on")?;
    writeln!(out, "  plumb plan compare {dir} OTHER   the same plan on another machine, or after a change")?;
    if let Some(first) = report.others.keys().next() {
        let names: Vec<String> = report.others.keys().cloned().collect();
        writeln!(out, "  plumb plan report {dir} --figure {first}")?;
        writeln!(out, "  {}", wrapped(&format!("Further figures: {}.", list(&names, 20)), 4))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::synthetic::measured;

    fn text(table: &crate::table::Table) -> String {
        let mut out = Vec::new();
        changes::write(&Analysis::of(table, "write.mean").expect("a figure"), &mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_changed_stands_there_with_its_part() {
        let mut table = measured(0.002, 1, 0.3);
        let said = text(&table);
        assert!(said.contains("write.mean [us], and parts of the account for each write"), "{said}");
        let rows: Vec<&str> = said.lines().filter(|l| l.contains("fsync: block.device")).collect();
        assert_eq!(rows.len(), 2, "{said}");
        assert!(
            rows[0].trim_start().starts_with("kernel kernel1 method1 ") && rows[0].contains(" 1.30 "),
            "{said}"
        );
        assert!(said.contains("2 of 4 pairs differ significantly"), "{said}");
        table.rows.iter_mut().filter(|r| r.cell == 0).for_each(|r| r.work.clear());
        assert!(text(&table).contains("fsync: block.device"), "the other cells are recorded");
        table.rows.iter_mut().for_each(|r| r.work.clear());
        assert_eq!(text(&table), "", "nothing was recorded");
    }
}
