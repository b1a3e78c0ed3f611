// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb sim --sweep KNOB=a,b,c`: the same simulation for each value of a knob of the scheduler, as a table and
//! as charts.

use super::chart;
use crate::cli::SimArgs;
use anyhow::Result;
use plumb_machine::json;
use plumb_report::chart::lines::Lines;
use plumb_report::terminal::Table;
use plumb_sim::experiment::Experiment;
use plumb_sim::measured::{MeasuredTable, Pair};
use plumb_sim::queue::classes::ClassReport;
use plumb_sim::sweep::{parsed, Row, Sweep, COMPARED};
use plumb_trace::units;
use std::io::Write;
use std::path::Path;

/// Runs it.
///
/// # Errors
/// A knob or a value that the scheduler does not have; several steps; the simulation's.
pub fn main(args: &SimArgs, experiment: &Experiment, text: &str) -> Result<()> {
    let (knob, values) = parsed(text)?;
    let mut sweep = Sweep::of(experiment, knob, &values)?;
    let beside = args.beside.as_deref().map(MeasuredTable::read).transpose()?;
    let mut pairs = Vec::new();
    if let Some(dir) = &args.charts {
        pairs = charts(&sweep, dir, beside.as_ref())?;
        sweep.ratios = pairs.iter().map(|p| (p.row.clone(), p.figure.clone(), p.ratio())).collect();
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &sweep)?;
    } else {
        writeln!(out, "{} behind {}, by {}:", sweep.model, sweep.scheduler, sweep.knob)?;
        let mut table = Table::new(&[
            "<value",
            "foreground/s",
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
    let csv = sweep.csv();
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
    let normal = lines("Foreground", "99th percentile, ms", ("normal_service_p99_ns", 1e6), |r| {
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
