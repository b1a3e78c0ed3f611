// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison on the terminal.

use super::differs::Differs;
use super::{Comparison, FigureComparison, Mark};
use crate::analysis::words::{capital, list, ratio, several, title, Format};
use anyhow::Result;
use plumb_report::terminal::wrapped;
use plumb_report::terminal::Table;
use plumb_stats::repetitions;
use std::io::Write;

/// Differences that are listed, and letters of each side.
const MOST_DIFFERENCES: usize = 20;
const LETTERS: usize = 30;
/// Letters of a combination's name.
const NAME: usize = 40;
const MOST_NAMES: usize = 6;

/// Writes it.
///
/// # Errors
/// The writer's.
pub fn write(comparison: &Comparison, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", wrapped(&comparison.headline, 0))?;
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        let doubts = match side.doubts {
            0 => String::new(),
            n => format!(", {}", several(n, "doubt")),
        };
        let repetitions = several(side.repetitions, "repetition");
        writeln!(out, "{name} {} ({}, {repetitions}{doubts})", side.dir.display(), side.name)?;
    }
    differs(&comparison.differs, out)?;
    for (name, labels) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !labels.is_empty() {
            writeln!(out, "Only {name} has: {}", list(labels, MOST_NAMES))?;
        }
    }
    for figure in &comparison.figures {
        table(figure, out)?;
    }
    writeln!(
        out,
        "\nA and B: medians. low, high: 95 % bootstrap interval of B / A, none below {} repetitions.",
        repetitions::FEWEST
    )?;
    writeln!(
        out,
        "**: found, as one of all tested together (at most {:.0} % of such marks are false); *: the interval\n\
         excludes 1, which happens by chance to one line in 20.",
        repetitions::LEVEL * 100.0
    )?;
    Ok(())
}

fn differs(differs: &[Differs], out: &mut dyn Write) -> Result<()> {
    if differs.is_empty() {
        writeln!(out, "Made in the same way, as far as it is known: plan, kernel, CPUs, memory, devices.")?;
        return Ok(());
    }
    writeln!(out, "Not made in the same way:")?;
    let mut table = Table::new(&["<what", "<A", "<B"]);
    for d in differs.iter().take(MOST_DIFFERENCES) {
        table.row([&d.what, &d.a, &d.b].map(|text| short(text, LETTERS)).into());
    }
    table.write(out)?;
    if differs.len() > MOST_DIFFERENCES {
        writeln!(out, "  and {} more (--json)", differs.len() - MOST_DIFFERENCES)?;
    }
    Ok(())
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['~']).collect()
}

fn table(figure: &FigureComparison, out: &mut dyn Write) -> Result<()> {
    if figure.cells.is_empty() {
        return Ok(());
    }
    let mut medians: Vec<f64> = figure.cells.iter().map(|l| l.a).collect();
    medians.sort_by(f64::total_cmp);
    let format = Format::of(figure.unit, medians[medians.len() / 2]);
    let unit = if format.unit.is_empty() { String::new() } else { format!(" [{}]", format.unit) };
    writeln!(out, "\n{}{unit}", capital(&title(&figure.figure)))?;
    let mut table = Table::new(&["<combination", "A", "B", "n", "B / A", "low", "high", "<"]);
    for line in &figure.cells {
        let end = |v: Option<f64>| v.map_or("-".into(), ratio);
        let mark = match line.mark {
            Mark::None => "",
            Mark::Interval => "*",
            Mark::Found => "**",
        };
        table.row(vec![
            short(&line.label, NAME),
            format.number(line.a),
            format.number(line.b),
            format!("{}/{}", line.repetitions[0], line.repetitions[1]),
            end(line.ratio),
            end(line.interval.map(|i| i.low)),
            end(line.interval.map(|i| i.high)),
            mark.into(),
        ]);
    }
    table.write(out)?;
    Ok(())
}
