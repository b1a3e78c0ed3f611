// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb sim --sweep KNOB=a,b,c`: the same simulation for each value of a knob of the scheduler.

use super::chart::{self, Lines};
use super::measure::{measure, Measured};
use super::measured::{MeasuredTable, Pair};
use super::notes;
use super::plan::Plan;
use crate::cli::SimArgs;
use anyhow::{bail, Context, Result};
use plumb_report::terminal::Table;
use plumb_sim::queue::classes::ClassReport;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// A value, and what came of it.
#[derive(Debug, Serialize)]
struct Row {
    /// In the knob's unit; `alone`: the normal class without the idle one.
    value: String,
    normal: Option<ClassReport>,
    idle: Option<ClassReport>,
}

#[derive(Debug, Serialize)]
struct Sweep {
    model: String,
    scheduler: String,
    knob: String,
    /// Normal requests without the idle class, at the first value.
    alone: Row,
    rows: Vec<Row>,
    /// What of the options makes no difference.
    notes: Vec<String>,
    /// Simulated by measured, of what --beside names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ratios: Vec<(String, String, f64)>,
}

/// What is compared with --beside.
pub const COMPARED: [&str; 7] = [
    "normal_per_s",
    "normal_mib_per_s",
    "normal_p50_ns",
    "normal_p99_ns",
    "normal_service_p50_ns",
    "normal_service_p99_ns",
    "idle_mib_per_s",
];

/// Values of a sweep.
///
/// # Errors
/// No knob, or no values.
pub fn parsed(text: &str) -> Result<(String, Vec<String>)> {
    let Some((knob, values)) = text.split_once('=') else {
        bail!("--sweep {text}: is not KNOB=a,b,c, as in idle_dispatch_interval=1000,10000");
    };
    let values: Vec<String> =
        values.split(',').map(|v| v.trim().to_string()).filter(|v| !v.is_empty()).collect();
    if values.is_empty() {
        bail!("--sweep {text}: names no value; example: {knob}=1000,10000");
    }
    Ok((knob.trim().into(), values))
}

/// Runs it.
///
/// # Errors
/// A knob or a value that the scheduler does not have; several steps; the simulation's.
pub fn main(args: &SimArgs, plan: &Plan, text: &str) -> Result<()> {
    let (knob, values) = parsed(text)?;
    let kinds = values
        .iter()
        .map(|value| {
            let mut kind = plan.scheduler.clone();
            kind.set(&format!("{knob}={value}")).map(|()| kind)
        })
        .collect::<Result<Vec<_>, _>>()
        .context("--sweep")?;
    let row = |value: &str, m: Measured| Row {
        value: value.into(),
        normal: m.class(false).cloned(),
        idle: m.class(true).cloned(),
    };
    let alone = row("alone", measure(plan, &kinds[0], false, args.of.sim_seed)?);
    let rows = values
        .iter()
        .zip(&kinds)
        .map(|(value, kind)| Ok(row(value, measure(plan, kind, true, args.of.sim_seed)?)))
        .collect::<Result<Vec<_>>>()?;
    let scheduler = plan.scheduler.name().to_string();
    let notes = notes::of_classes(plan);
    let mut sweep =
        Sweep { model: plan.spec.name.clone(), scheduler, knob, alone, rows, notes, ratios: Vec::new() };
    let beside = args.beside.as_deref().map(MeasuredTable::read).transpose()?;
    let mut pairs = Vec::new();
    if let Some(dir) = &args.charts {
        pairs = charts(&sweep, dir, beside.as_ref())?;
        sweep.ratios = pairs.iter().map(|p| (p.row.clone(), p.figure.clone(), p.ratio())).collect();
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &sweep)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{} behind {}, by {}:", sweep.model, sweep.scheduler, sweep.knob)?;
        let mut table = Table::new(&[
            "<value",
            "normal/s",
            "MiB/s",
            "p50",
            "p99",
            "max",
            "idle/s",
            "idle MiB/s",
            "idle p99",
            "idle max",
        ]);
        for row in std::iter::once(&sweep.alone).chain(&sweep.rows) {
            let cells = |c: Option<&ClassReport>, idle: bool| match c {
                None => vec!["-".to_string(); if idle { 4 } else { 5 }],
                Some(c) => {
                    let ns = |v: Option<u64>| v.map_or_else(|| "-".into(), units::duration);
                    let (rate, mib) = (format!("{:.1}", c.rate), format!("{:.2}", c.bandwidth / 1_048_576.0));
                    let p50 = if idle { vec![] } else { vec![ns(c.q2c.p50)] };
                    [vec![rate, mib], p50, vec![ns(c.q2c.p99), ns(c.q2c.max)]].concat()
                }
            };
            let head = vec![row.value.clone()];
            table.row([head, cells(row.normal.as_ref(), false), cells(row.idle.as_ref(), true)].concat());
        }
        table.write(&mut out)?;
        for note in &sweep.notes {
            writeln!(out, "  note: {note}")?;
        }
        ratios(&pairs, &mut out)?;
        if let Some(dir) = &args.charts {
            writeln!(out, "{}", chart::told(dir, &chart::SWEEP))?;
        }
    }
    Ok(out.flush()?)
}

fn ratios(pairs: &[Pair], out: &mut dyn Write) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["<value", "<figure", "simulated", "measured", "ratio"]);
    for p in pairs {
        let figure = |v: f64| format!("{v:.2}");
        table.row(vec![
            p.row.clone(),
            p.figure.clone(),
            figure(p.simulated),
            figure(p.measured),
            format!("{:.3}", p.ratio()),
        ]);
    }
    Ok(table.write(out)?)
}

fn charts(sweep: &Sweep, dir: &Path, beside: Option<&MeasuredTable>) -> Result<Vec<Pair>> {
    let mut csv = format!("{},normal_per_s,normal_mib_per_s,normal_p50_ns,normal_p99_ns,normal_max_ns,idle_per_s,idle_mib_per_s,idle_p99_ns,idle_max_ns,normal_service_p50_ns,normal_service_p99_ns\n", sweep.knob);
    for row in std::iter::once(&sweep.alone).chain(&sweep.rows) {
        let ns = |v: Option<u64>| v.map_or_else(String::new, |v| v.to_string());
        let cells = |c: Option<&ClassReport>, p50: bool| match c {
            None => ",".repeat(if p50 { 4 } else { 3 }),
            Some(c) => {
                let mib = c.bandwidth / 1_048_576.0;
                let p50 = if p50 { format!("{},", ns(c.q2c.p50)) } else { String::new() };
                format!("{:.3},{mib:.4},{p50}{},{}", c.rate, ns(c.q2c.p99), ns(c.q2c.max))
            }
        };
        csv += &format!(
            "{},{},{},{},{}\n",
            row.value,
            cells(row.normal.as_ref(), true),
            cells(row.idle.as_ref(), false),
            ns(row.normal.as_ref().and_then(|c| c.service.p50)),
            ns(row.normal.as_ref().and_then(|c| c.service.p99)),
        );
    }
    let number = |row: &Row| row.value.parse::<f64>().ok();
    let marks: Vec<(f64, String)> =
        sweep.rows.iter().filter_map(|r| Some((number(r)?, r.value.clone()))).collect();
    let (low, high) = marks.iter().fold((f64::INFINITY, 0.0f64), |(l, h), m| (l.min(m.0), h.max(m.0)));
    let measured = |column: &str, unit: f64| {
        let points = beside?.points(column).into_iter().map(|(x, y)| (x, y / unit)).collect();
        Some(("measured".to_string(), points))
    };
    let lines = |title: &str, up: &str, (column, unit): (&str, f64), of: fn(&Row) -> Option<f64>| Lines {
        title: format!("{title}: {} behind {}", sweep.model, sweep.scheduler),
        along: sweep.knob.clone(),
        up: up.into(),
        marks: Some(&marks),
        log: low > 0.0 && high / low >= 16.0,
        lines: std::iter::once((
            if beside.is_some() { "simulated".to_string() } else { sweep.scheduler.clone() },
            sweep.rows.iter().filter_map(|r| Some((number(r)?, of(r)?))).collect(),
        ))
        .chain(measured(column, unit))
        .collect(),
    };
    let idle = lines("Idle class", "throughput, MiB/s", ("idle_mib_per_s", 1.0), |r| {
        Some(r.idle.as_ref()?.bandwidth / 1_048_576.0)
    });
    let normal = lines("Normal class", "99th percentile, ms", ("normal_service_p99_ns", 1e6), |r| {
        let normal = r.normal.as_ref()?;
        // Of a recording no operations are known, but their pieces.
        Some(normal.service.p99.or(normal.q2c.p99)? as f64 / 1e6)
    });
    let files = [csv, idle.svg()?, normal.svg()?];
    chart::SWEEP.iter().zip(&files).try_for_each(|(name, text)| chart::put(dir, name, text))?;
    match beside {
        Some(beside) => Ok(beside.pairs(&MeasuredTable::parse(&files[0])?, &COMPARED)),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_a_knob_and_values() {
        let (knob, values) = parsed("fifo_batch = 1, 16,").expect("two values");
        assert_eq!((knob.as_str(), values), ("fifo_batch", vec!["1".to_string(), "16".into()]));
        assert!(parsed("fifo_batch").is_err_and(|e| e.to_string().contains("KNOB=a,b,c")));
        assert!(parsed("fifo_batch=,").is_err_and(|e| e.to_string().contains("no value")));
    }
}
