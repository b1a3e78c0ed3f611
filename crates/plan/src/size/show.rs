// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer on the terminal.

use super::{price, shown_risk, Environment, Sizing, Source, Told};
use crate::analysis::words::{percent, several, Format};
use crate::table::Unit;
use anyhow::Result;
use plumb_report::terminal::{wrapped, Table};
use std::io::Write;

/// Writes it.
///
/// # Errors
/// The writer's.
pub fn write(sizing: &Sizing, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", wrapped(&sizing.answer, 0))?;
    for (number, told) in sizing.targets.iter().enumerate() {
        table(sizing, number, told, out)?;
    }
    let order = match sizing.environments.iter().any(|e| e.price.is_some()) {
        true => "The cheapest first, of the same price the slowest.",
        false => "Without prices (key price of a level) the smallest is the slowest that meets it; the slowest first.",
    };
    let note = format!(
        "{order} low, high: 95 % interval of a new measurement. risk: probability of missing the target; yes up to {0}, no from 100 % - {0}; \
         of a single measurement 0 or 100 %.",
        percent(sizing.risk)
    );
    writeln!(out, "  {}", wrapped(&note, 2))?;
    for told in &sizing.targets {
        told_by(told, out)?;
    }
    if !sizing.doubts.is_empty() {
        writeln!(out, "\nDoubts")?;
        for doubt in &sizing.doubts {
            writeln!(out, "  {}", wrapped(doubt, 2))?;
        }
    }
    Ok(())
}

fn table(sizing: &Sizing, number: usize, told: &Told, out: &mut dyn Write) -> Result<()> {
    let unit = told.criterion.unit;
    let format = Format::of(unit, told.criterion.limit);
    writeln!(out, "\n{} [{}]", told.criterion.words, format.unit)?;
    let several = sizing.targets.len() > 1;
    let beside = told.check.is_some();
    let priced = sizing.environments.iter().any(|e| e.price.is_some());
    let shown = [
        ("<environment", true),
        ("price", priced),
        ("value", true),
        ("low", true),
        ("high", true),
        ("<", true),
        ("measured", beside),
        ("risk", true),
        ("<meets", true),
        ("<all", several),
    ];
    let head: Vec<&str> = shown.iter().filter(|(_, shown)| *shown).map(|(head, _)| *head).collect();
    let mut table = Table::new(&head);
    for environment in &sizing.environments {
        let cells = row(environment, number, &format);
        table.row(
            cells.into_iter().zip(shown).filter(|(_, (_, shown))| *shown).map(|(cell, _)| cell).collect(),
        );
    }
    table.write(out)?;
    Ok(())
}

fn row(environment: &Environment, number: usize, format: &Format) -> [String; 10] {
    let value = environment.values[number].as_ref();
    let of = |figure: Option<f64>| figure.map_or("-".into(), |figure| format.number(figure));
    let interval = value.and_then(|v| v.interval);
    let source = match value.map(|v| v.source) {
        Some(Source::Measured(1)) => "measured once".into(),
        Some(Source::Measured(n)) => format!("measured x{n}"),
        Some(Source::Predicted) => "predicted".into(),
        None => "unknown".to_string(),
    };
    [
        environment.name.clone(),
        environment.price.map_or("-".into(), price),
        of(value.map(|v| v.value)),
        of(interval.map(|i| i.low)),
        of(interval.map(|i| i.high)),
        source,
        of(value.and_then(|v| v.measured)),
        value.map_or("-".into(), |v| shown_risk(v.risk)),
        value.map_or("-", |v| v.meets.word()).into(),
        environment.meets.word().into(),
    ]
}

/// What it is predicted by, and how well.
fn told_by(told: &Told, out: &mut dyn Write) -> Result<()> {
    let Some(prediction) = &told.prediction else { return Ok(()) };
    let time = match told.criterion.unit {
        Unit::PerSecond if told.criterion.figure != "elapsed" => "time of one operation",
        _ => told.criterion.figure.as_str(),
    };
    writeln!(out, "\n{}, {time}: {}", prediction.load, prediction.sum())?;
    let left_out = match &told.left_out_by {
        Some(factor) => format!("all of its {factor} were left out"),
        None => "it was left out".into(),
    };
    let (worst, place) = &prediction.worst;
    let sign = if *worst > 0.0 { "+" } else { "" };
    let mut note = format!(
        "error in an environment when {left_out}: median {}, largest {sign}{} ({place}).",
        percent(prediction.error),
        percent(*worst)
    );
    if let Some(check) = &told.check {
        note += &format!(
            " Measured in {}: error of the prediction {} in the median, {} of {} within the interval.",
            several(check.environments, "new environment"),
            percent(check.error),
            check.within,
            check.environments
        );
    }
    writeln!(out, "  {}", wrapped(&note, 2))?;
    Ok(())
}
