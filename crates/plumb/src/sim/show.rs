// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result for people.

use super::Outcome;
use plumb_report::terminal::Table;
use plumb_sim::experiment::StepOutcome;
use plumb_sim::queue::classes::ClassReport;
use plumb_sim::queue::figures::JobReport;
use plumb_stats::histogram::Summary;
use plumb_trace::units;
use std::io::{self, Write};

/// Writes everything.
///
/// # Errors
/// The writer's.
pub fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} of {}, scheduler {} with {} {}, {} in the device at once",
        outcome.model,
        units::bytes(outcome.disk_size),
        outcome.scheduler,
        outcome.nr_requests,
        if outcome.nr_requests == 1 { "tag" } else { "tags" },
        outcome.depth_of_device
    )?;
    if let Some(from) = &outcome.from {
        writeln!(
            out,
            "from {}: {} operations of {} threads on {}{}",
            from.dir,
            units::count(from.operations as u64),
            from.threads,
            from.disk,
            if from.scheduler.is_empty() { String::new() } else { format!(", scheduler {}", from.scheduler) }
        )?;
        for (count, what) in [
            (from.left_out, "pieces asked for what is not simulated (zones, zeroes) and are left out"),
            (from.unknown, "requests have no submitter in the trace and are omitted"),
            (from.lost, "events were lost: some requests are missing"),
        ] {
            if count > 0 {
                writeln!(out, "  note: {} {what}", units::count(count))?;
            }
        }
    }
    for step in &outcome.steps {
        if outcome.steps.len() > 1 {
            writeln!(out, "\n{}:", step.label)?;
        }
        let split = outcome.from.as_ref().map_or(0, |from| from.split);
        self::step(step, (split > 0).then_some(outcome.max_request), out)?;
    }
    Ok(())
}

/// `split`: the longest request, where recorded operations are longer.
fn step(step: &StepOutcome, split: Option<u32>, out: &mut dyn Write) -> io::Result<()> {
    for (number, (job, report)) in step.jobs.iter().zip(&step.report.jobs).enumerate() {
        let which = if step.jobs.len() > 1 { format!("job {}: ", number + 1) } else { String::new() };
        let workers = job.workers();
        writeln!(
            out,
            "{which}{}; {workers} {} in {} of simulated time",
            plumb_load::job::text::options(job),
            if workers == 1 { "worker" } else { "workers" },
            units::duration(report.elapsed_ns)
        )?;
        operations(report, out)?;
    }
    if step.never_begun > 0 {
        writeln!(out, "  {} operations were due and never begun", units::count(step.never_begun))?;
    }
    if !step.recorded.is_empty() || step.classes.len() > 1 {
        classes(step, split, out)?;
    }
    device(step, out)?;
    decisions(step, out)?;
    for note in &step.notes {
        writeln!(out, "  note: {note}")?;
    }
    Ok(())
}

/// What each class got, beside what it got when it was recorded.
fn classes(step: &StepOutcome, split: Option<u32>, out: &mut dyn Write) -> io::Result<()> {
    let (was, is) = match split {
        Some(_) => ("recorded, operations", "simulated, requests"),
        None => ("recorded", "simulated"),
    };
    let mut table = Table::new(&[
        "<class",
        "<",
        "count",
        "rate/s",
        "MiB/s",
        "<queue + device",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ]);
    let mut row = |what: &str, c: &ClassReport| {
        let rate =
            if c.rate < 100.0 { format!("{:.1}", c.rate) } else { units::count(c.rate.round() as u64) };
        let mib = format!("{:.2}", c.bandwidth / 1_048_576.0);
        table.row(
            [vec![c.class.into(), what.into(), units::count(c.count), rate, mib], times("", &c.q2c)].concat(),
        );
    };
    for c in &step.classes {
        if let Some(recorded) = step.recorded.iter().find(|r| r.class == c.class) {
            row(was, recorded);
        }
        row(if step.recorded.is_empty() { "" } else { is }, c);
    }
    table.write(out)?;
    if let Some(longest) = split {
        writeln!(
            out,
            "  note: operations longer than --max-request are simulated as several requests of {} at most: compare MiB/s, but no count, rate or time",
            units::bytes(longest.into())
        )?;
    }
    let common = units::duration(step.common_ns);
    match step.recorded_common_ns {
        0 => writeln!(out, "  rates over the {common} that all jobs have in common; times of what was queued in it, whenever it was done"),
        ns => writeln!(
            out,
            "  rates until the first class had its last request: {} recorded, {common} simulated",
            units::duration(ns)
        ),
    }
}

/// What the scheduler decided: what its gate did, or the depths that it came to.
fn decisions(step: &StepOutcome, out: &mut dyn Write) -> io::Result<()> {
    let of = |name: &str| step.decisions.get(name).copied().unwrap_or(0);
    if !step.decisions.contains_key("held") {
        let told: Vec<String> =
            step.decisions.iter().map(|(name, n)| format!("{} {n}", name.replace('_', " "))).collect();
        return if told.is_empty() { Ok(()) } else { writeln!(out, "at the end: {}", told.join(", ")) };
    }
    writeln!(
        out,
        "gate: shut when asked {} times; batch mode began {} times, {} requests in it; {} went by age; narrowed {}, widened {}; at the end {} apart, {} at once",
        units::count(of("held")),
        units::count(of("batches")),
        units::count(of("batched")),
        units::count(of("aged")),
        units::count(of("narrowed")),
        units::count(of("widened")),
        units::duration(of("interval_ns")),
        match of("depth") {
            0 => "any number".into(),
            n => units::count(n),
        }
    )
}

fn times(name: &str, s: &Summary) -> Vec<String> {
    let ns = |value: Option<u64>| value.map_or_else(|| "-".into(), units::duration);
    let mean = units::duration(s.mean_ns.round() as u64);
    vec![name.into(), mean, ns(s.p50), ns(s.p90), ns(s.p99), ns(s.p99_9), ns(s.max)]
}

fn operations(job: &JobReport, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "<operation",
        "count",
        "failed",
        "rate/s",
        "MiB/s",
        "<latency",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ]);
    let empty = || vec![String::new(); 5];
    for kind in &job.kinds {
        let mib = if kind.bytes == 0 { "-".into() } else { format!("{:.1}", kind.bandwidth / 1_048_576.0) };
        let rate = if kind.rate < 100.0 {
            format!("{:.1}", kind.rate)
        } else {
            units::count(kind.rate.round() as u64)
        };
        let figures = vec![kind.kind.into(), units::count(kind.count), units::count(kind.errors), rate, mib];
        match &kind.response {
            Some(response) => {
                table.row([figures, times("response", response)].concat());
                table.row([empty(), times("service", &kind.service)].concat());
            }
            None => table.row([figures, times("service", &kind.service)].concat()),
        }
        // A job's operations of one kind are all that ask the device for that.
        if let Some(asked) = job.requests.iter().find(|r| r.operation == asks_for(kind.kind)) {
            table.row([empty(), times("queue + device", &asked.q2c)].concat());
            table.row([empty(), times("device", &asked.d2c)].concat());
        }
    }
    table.write(out)
}

/// What operations of a kind ask the device for.
fn asks_for(kind: &str) -> &'static str {
    match kind {
        "read" | "reread" => "read",
        "sync" => "flush",
        _ => "write",
    }
}

fn device(step: &StepOutcome, out: &mut dyn Write) -> io::Result<()> {
    let d = &step.report.device;
    writeln!(
        out,
        "device: busy {:.1} %; {} reads, {} writes, {} flushes, {} merges, {} failed; mean length: {:.2} in the device (most {}), {:.2} in the scheduler, {:.2} waiting for a tag",
        100.0 * d.utilisation,
        units::count(d.reads),
        units::count(d.writes),
        units::count(d.flushes),
        units::count(d.merges),
        units::count(d.errors),
        d.in_device,
        d.most_in_device,
        d.in_scheduler,
        d.without_slot
    )?;
    if d.lies > 0 {
        writeln!(out, "  {} requests were said to be done and were not, or not whole", units::count(d.lies))?;
    }
    let p = &d.parts_ns;
    let parts = [
        ("behind others in the device", p.queued),
        ("overhead", p.overhead),
        ("seek", p.seek),
        ("rotation", p.rotation),
        ("medium", p.medium),
        ("throttled", p.throttled),
        ("fault", p.fault),
    ];
    let n = (d.reads + d.writes + d.flushes).max(1);
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(name, ns)| format!("{name} {}", units::duration(ns / n)))
        .collect();
    if !parts.is_empty() {
        writeln!(out, "  a request's time with it, mean: {}", parts.join(", "))?;
    }
    Ok(())
}
