// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result for people.

use super::doubts::{remarks, told_besides, verdicts_together};
use super::preset;
use anyhow::Result;
use plumb_load::job::text;
use plumb_load::result::{CellResult, JobResult, StepResult};
use plumb_load::session::rounds::{self, Figure};
use plumb_load::session::{Outcome, PresetResult};
use plumb_load::witness::{Attribution, Evidence};
use plumb_machine::Environment;
use plumb_report::terminal::Table;
use plumb_stats::histogram::Summary;
use plumb_stats::repetitions;
use plumb_trace::units;
use std::io::{self, Write};

/// Writes everything.
///
/// # Errors
/// The writer's.
pub fn write(
    outcome: &Outcome,
    classic: Option<&PresetResult>,
    warnings: &[String],
    out: &mut dyn Write,
) -> Result<()> {
    for warning in warnings {
        writeln!(out, "NOT THE SAME LOAD: {warning}")?;
    }
    match classic {
        Some(classic) => {
            // The figures stand in the tables of the preset.
            preset::write(classic, out)?;
            told_besides(&outcome.cells.iter().collect::<Vec<_>>(), out)?;
            writeln!(out)?;
        }
        None => {
            for cell in &outcome.cells {
                if outcome.cells.len() > 1 {
                    writeln!(out, "{}", cell.label)?;
                }
                self::cell(cell, &outcome.environment, out)?;
            }
        }
    }
    if outcome.cells.iter().flat_map(|c| c.rounds.iter().flatten()).flat_map(|s| &s.jobs).any(is_closed) {
        writeln!(
            out,
            "Latency is the service time of a closed loop: an operation begins when the one before has ended, so a \
             stall delays few. --rate gives what users feel."
        )?;
    }
    if outcome.orders.len() > 1 {
        writeln!(out, "{} rounds: {}.", outcome.orders.len(), outcome.ended)?;
    }
    if outcome.interrupted {
        writeln!(
            out,
            "INTERRUPTED: {}; the figures are of a shorter run than was asked for.",
            outcome.ended
        )?;
    }
    footer(outcome, out)?;
    Ok(())
}

fn is_closed(job: &JobResult) -> bool {
    job.schedule.is_none()
}

fn cell(cell: &CellResult, environment: &Environment, out: &mut dyn Write) -> Result<()> {
    match cell.rounds.as_slice() {
        [round] => {
            for step in round {
                self::step(step, round.len() > 1, environment, out)?;
            }
        }
        _ => {
            over_rounds(cell, out)?;
            told_besides(&[cell], out)?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// One step, whole.
fn step(step: &StepResult, named: bool, environment: &Environment, out: &mut dyn Write) -> Result<()> {
    if named {
        writeln!(out, "{}:", step.label)?;
    }
    for (j, job) in step.jobs.iter().enumerate() {
        let number = if step.jobs.len() > 1 { format!("job {}: ", j + 1) } else { String::new() };
        let options = text::options(&job.job);
        let options = if options.is_empty() { "as it is without options".to_string() } else { options };
        writeln!(
            out,
            "{number}{options}; {} {} in {}",
            job.job.workers(),
            if job.job.workers() == 1 { "worker" } else { "workers" },
            units::duration(job.elapsed_ns)
        )?;
        figures(job, out)?;
        if let Some(s) = &job.schedule {
            let lag = s
                .lag
                .p99
                .map_or_else(String::new, |ns| format!("; late by up to {} (p99)", units::duration(ns)));
            writeln!(
                out,
                "  open loop: {}/s asked for, {} due, {} begun late, {} never begun{lag}; response is from the moment that an operation was due",
                s.rate,
                units::count(s.due),
                units::count(s.late),
                units::count(s.never_begun)
            )?;
        }
        if let Some(mean) = job.thread_mean_ns {
            writeln!(
                out,
                "  threads: {} from the common start to a thread's end (mean), {} to the last one's",
                units::duration(mean as u64),
                units::duration(job.workers.iter().map(|w| w.ended_ns).max().unwrap_or(0))
            )?;
        }
        let cpu = &job.cpu;
        writeln!(
            out,
            "  CPU: user {:.0} ns + system {:.0} ns an operation; {:.2} CPUs busy; switches: {} to wait, {} taken away",
            cpu.user_ns_per_operation,
            cpu.system_ns_per_operation,
            cpu.parallelism,
            units::count(cpu.voluntary_switches),
            units::count(cpu.involuntary_switches)
        )?;
    }
    if let Some(attribution) = &step.attribution {
        attributed(attribution, out)?;
    }
    devices(&step.evidence, environment, out)?;
    remarks(step, "  ", out)?;
    verdicts_together(&[(String::new(), &step.verdict)], out)?;
    Ok(())
}

fn ns(value: Option<u64>) -> String {
    value.map_or_else(|| "-".into(), units::duration)
}

fn figures(job: &JobResult, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "<operation",
        "<latency",
        "count",
        "failed",
        "rate/s",
        "MiB/s",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ]);
    for kind in &job.operations {
        let times = |name: &str, s: &Summary| {
            let mean = units::duration(s.mean_ns as u64);
            [name.into(), mean, ns(s.p50), ns(s.p90), ns(s.p99), ns(s.p99_9), ns(s.max)]
        };
        let row = |figures: [String; 4], operation: &str, [name, rest @ ..]: [String; 7]| {
            [vec![operation.to_string(), name], figures.to_vec(), rest.to_vec()].concat()
        };
        let figures = [
            units::count(kind.count),
            units::count(kind.errors),
            units::count(kind.rate.round() as u64),
            if kind.bytes == 0 { "-".into() } else { format!("{:.1}", kind.bandwidth / 1_048_576.0) },
        ];
        match &kind.response {
            Some(response) => {
                table.row(row(figures, kind.kind, times("response", response)));
                table.row(row(Default::default(), "", times("service", &kind.service)));
            }
            None => table.row(row(figures, kind.kind, times("service", &kind.service))),
        }
    }
    table.write(out)
}

fn attributed(a: &Attribution, out: &mut dyn Write) -> io::Result<()> {
    if a.operations == 0 || a.latency_ns == 0 {
        return Ok(());
    }
    let parts: Vec<String> = a
        .parts()
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(what, ns)| format!("{:.0} % {what}", 100.0 * ns as f64 / a.latency_ns as f64))
        .collect();
    writeln!(
        out,
        "  Of the {} of an operation: {}.",
        units::duration(a.latency_ns / a.operations),
        parts.join(", ")
    )
}

fn devices(evidence: &Evidence, environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
    for d in &evidence.delta.devices {
        let known = environment.devices.iter().find(|e| e.number == d.number);
        let name = known.map_or_else(|| d.number.to_string(), |e| e.name.clone());
        let mut line = format!(
            "  device {name}: {} read in {}, {} written in {}",
            units::bytes(d.read_bytes),
            units::count(d.reads),
            units::bytes(d.written_bytes),
            units::count(d.writes)
        );
        if let Some(flushes) = d.flushes {
            line += &format!(", {} flushes", units::count(flushes));
        }
        if evidence.delta.elapsed_ns > 0 {
            line += &format!("; busy {:.0} %", 100.0 * d.busy_ns as f64 / evidence.delta.elapsed_ns as f64);
        }
        writeln!(out, "{line} (everybody's)")?;
    }
    Ok(())
}

/// Median and 95 % interval over rounds.
fn over_rounds(cell: &CellResult, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "<step",
        "<operation",
        "<figure",
        "rounds",
        "median",
        "95 % from",
        "to",
        "least",
        "most",
    ]);
    for kind in rounds::of(cell) {
        let [first, ..] = kind.rounds.as_slice() else { continue };
        let several = cell.rounds[0].iter().any(|s| s.jobs.len() > 1);
        let step =
            if several { format!("{}, job {}", kind.step, kind.job + 1) } else { kind.step.to_string() };
        let latency = if first.response.is_some() { "response" } else { "service" };
        for figure in [Figure::Rate, Figure::Mean, Figure::P50, Figure::P99, Figure::P99_9] {
            let values = kind.values(figure);
            if values.is_empty() {
                continue;
            }
            let (name, show): (String, fn(f64) -> String) = match figure {
                Figure::Rate => ("rate/s".into(), |v| units::count(v.round() as u64)),
                _ => (format!("{latency} {}", figure.word()), |v| units::duration(v as u64)),
            };
            let interval = repetitions::median_interval(&values);
            let end =
                |of: fn(repetitions::Interval) -> f64| interval.map_or_else(|| "-".into(), |i| show(of(i)));
            table.row(vec![
                step.clone(),
                first.kind.to_string(),
                name,
                values.len().to_string(),
                show(repetitions::median(&values)),
                end(|i| i.low),
                end(|i| i.high),
                show(values.iter().copied().fold(f64::MAX, f64::min)),
                show(values.iter().copied().fold(0.0, f64::max)),
            ]);
        }
    }
    table.write(out)?;
    if cell.rounds.len() < repetitions::FEWEST {
        writeln!(out, "  With fewer than {} rounds no error can be known.", repetitions::FEWEST)?;
    }
    Ok(())
}

fn footer(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let clock = &outcome.clock;
    writeln!(
        out,
        "Clock: {}; a reading costs {:.0} ns and resolves {} ns; {:+.1} ppm from CLOCK_MONOTONIC.",
        clock.source(),
        clock.cost_ns(),
        clock.resolution_ns(),
        clock.drift_ppm_since()
    )?;
    writeln!(out, "Environment of {}:", outcome.target.display())?;
    let mut table = Table::new(&["<", "<"]);
    for (name, value) in outcome.environment.lines() {
        table.row(vec![name.into(), value]);
    }
    let mut text = Vec::new();
    table.write(&mut text)?;
    // Its head is empty.
    for line in String::from_utf8_lossy(&text).lines().skip(1) {
        writeln!(out, "{line}")?;
    }
    for log in &outcome.logs {
        writeln!(out, "Log: {} ({}, round {}, {})", log.path.display(), log.cell, log.round, log.step)?;
    }
    if let Some(kept) = &outcome.kept {
        writeln!(out, "Kept: {}", kept.display())?;
    }
    Ok(())
}
