// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of which loads go together, and of what each one's time is made.

use super::{short, LEVEL};
use crate::analysis::together::Together;
use crate::analysis::words::{percent, several};
use crate::analysis::Analysis;
use anyhow::Result;
use plumb_report::terminal::{self, wrapped};
use std::io::Write;

/// Pairs that are told; report.json has all.
const MOST_PAIRS: usize = 16;
/// Parts of a time that are told, each at least so much of it.
const MOST_PARTS: usize = 3;
const LEAST_PART: f64 = 0.05;

pub(super) fn write(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    analysis.together.iter().try_for_each(|one| pairs(one, out).and_then(|()| predictions(one, out)))
}

fn pairs(one: &Together, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "\nWhich times go together: {}, over {}",
        one.factor,
        several(one.environments.len(), "environment")
    )?;
    let mut table = terminal::Table::new(&["<load", "<and", "r", "low", "high", "ranks", "q"]);
    for pair in one.pairs.iter().take(MOST_PAIRS) {
        let c = &pair.correlation;
        let mut row: Vec<String> = pair.loads.iter().map(|l| short(l, LEVEL)).collect();
        row.extend([c.r, c.interval.low, c.interval.high, c.rank].map(|v| format!("{v:.2}")));
        row.push(if pair.q < 0.0005 { "<0.001".into() } else { format!("{:.3}", pair.q) });
        table.row(row);
    }
    table.write(out)?;
    let found = one.pairs.iter().filter(|p| p.found).count();
    let mut note = format!(
        "r: Pearson's coefficient of the times' logarithms, with its 95 % interval; ranks: Spearman's. {found} of {} are above chance (q: share \
         of such finds that is chance, at most 5 %).",
        several(one.pairs.len(), "pair")
    );
    if !one.without.is_empty() {
        note += &format!(" Measured in too few environments: {}.", one.without.join(", "));
    }
    if one.pairs.len() > MOST_PAIRS {
        note += &format!(" The {MOST_PAIRS} strongest are shown; report.json has all.");
    }
    writeln!(out, "  {}", wrapped(&note, 2))?;
    Ok(())
}

fn predictions(one: &Together, out: &mut dyn Write) -> Result<()> {
    if one.predictions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat a time is made of, as far as other loads tell it")?;
    let mut table = terminal::Table::new(&["<load", "error", "worst", "<where", "<made of"]);
    for prediction in &one.predictions {
        let (worst, place) = &prediction.worst;
        let sign = if *worst > 0.0 { "+" } else { "" };
        table.row(vec![
            short(&prediction.load, LEVEL),
            percent(prediction.error),
            format!("{sign}{}", percent(*worst)),
            short(place, LEVEL),
            prediction.sum(),
        ]);
    }
    table.write(out)?;
    let left_out = match &one.left_out_by {
        Some(factor) => format!("when all of its {factor} were left out"),
        None => "when it was left out".into(),
    };
    let note = format!(
        "error: of an environment's time as the others tell it {left_out}, the choice of the parts among them: median \
         without sign, and the largest."
    );
    writeln!(out, "  {}", wrapped(&note, 2))?;
    times(one, out)
}

/// Why one tells another: both spend their time on the same.
fn times(one: &Together, out: &mut dyn Write) -> Result<()> {
    if one.predictions.iter().all(|p| p.time.is_empty()) {
        return Ok(());
    }
    let mut table = terminal::Table::new(&["<load", "<where its time goes"]);
    for prediction in one.predictions.iter().filter(|p| !p.time.is_empty()) {
        let most = prediction.time.iter().take(MOST_PARTS).filter(|(_, share)| *share >= LEAST_PART);
        let said: Vec<String> = most.map(|(group, share)| format!("{group} {}", percent(*share))).collect();
        table.row(vec![short(&prediction.load, LEVEL), said.join(", ")]);
    }
    writeln!(out, "\nWhere the time of each goes: mean of all environments")?;
    table.write(out)?;
    Ok(())
}
