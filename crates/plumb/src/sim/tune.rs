// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb tune iosched`: lp-deadline's interval and depth for a target, by simulation.
//!
//! Every interval is tried with every depth, and the policy's own steering (latency_target) once; of those that
//! keep the target the one wins that gives the idle class most.

use super::measure::{measure, Measured};
use super::plan::Plan;
use crate::cli::{SimArgs, TuneArgs, TuneWhat};
use crate::output::Table;
use anyhow::{bail, Context, Result};
use plumb_load::job::{Bytes, Job, Order, Through, Time, What};
use plumb_sim::queue::scheduler::Kind;
use plumb_sim::queue::Class;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Intervals that are tried, us.
const INTERVALS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];
/// Depths that are tried; 0 is any number.
const DEPTHS: [u64; 5] = [1, 2, 4, 8, 0];

/// Settings, and what they do.
#[derive(Debug, Clone, Serialize)]
struct Candidate {
    /// Knobs as sysfs has them.
    knobs: Vec<String>,
    normal_p99_ns: Option<u64>,
    normal_per_s: f64,
    idle_bytes_per_s: f64,
    keeps: bool,
}

#[derive(Debug, Serialize)]
struct Tuned {
    model: String,
    target_ns: u64,
    /// What was simulated.
    load: String,
    /// Normal requests without the idle class.
    alone_p99_ns: Option<u64>,
    alone_per_s: f64,
    best: Option<Candidate>,
    /// The policy steers itself to the target.
    steered: Candidate,
    tried: Vec<Candidate>,
    commands: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// As `plumb sim`; nobody of one of the classes takes part.
pub fn main(args: &TuneArgs) -> Result<ExitCode> {
    let TuneWhat::Iosched(tune) = &args.what;
    let args = &tune.sim;
    if args.output.is_some() || args.sweep.is_some() || args.charts.is_some() {
        bail!("-o, --sweep and --charts are of plumb sim; leave them out");
    }
    let mut plan = Plan::of(args)?;
    let load = fit(&mut plan, args)?;
    for (idle, class) in [(false, "normal"), (true, "idle")] {
        if !plan.has(idle) {
            bail!("nobody of the {class} class takes part, so there is nothing to weigh; --idle=N names the idle jobs, ionice -c3 those of a recording");
        }
    }
    let target = tune.target.0;
    let base = base(&plan, args)?;
    let seed = args.sim_seed;
    let try_one = |knobs: Vec<String>| -> Result<Candidate> {
        let mut kind = base.clone();
        for knob in &knobs {
            kind.set(knob).context("lp-deadline")?;
        }
        Ok(candidate(knobs, &measure(&plan, &kind, true, seed)?, target))
    };
    let alone = measure(&plan, &base, false, seed)?;
    let mut tried = Vec::new();
    for depth in DEPTHS {
        for interval in INTERVALS {
            let knobs = vec![
                format!("idle_dispatch_interval={interval}"),
                format!("low_depth={depth}"),
                "latency_target=0".into(),
            ];
            tried.push(try_one(knobs)?);
        }
        eprintln!("low_depth {depth}: {} intervals simulated", INTERVALS.len());
    }
    // The steering opens from the knob's interval downwards: the widest one that was tried is where it begins.
    let steered = try_one(vec![
        format!("idle_dispatch_interval={}", INTERVALS[INTERVALS.len() - 1]),
        "low_depth=0".into(),
        format!("latency_target={}", (target / 1000).max(1)),
    ])?;
    let best = best(&tried);
    let disk = plan.replay.as_ref().map_or("DISK", |r| r.disk.as_str());
    let chosen = best.clone().map(|b| b.knobs).unwrap_or_default();
    let write = |knob: &String| {
        let (name, value) = knob.split_once('=')?;
        Some(format!("echo {value} > /sys/block/{disk}/queue/iosched/{name}"))
    };
    let select = format!("echo lp-deadline > /sys/block/{disk}/queue/scheduler");
    let commands = match chosen.is_empty() {
        true => Vec::new(),
        false => std::iter::once(select).chain(chosen.iter().filter_map(write)).collect(),
    };
    let tuned = Tuned {
        model: plan.spec.name.clone(),
        target_ns: target,
        load,
        alone_p99_ns: alone.normal_p99(),
        alone_per_s: alone.class(false).map_or(0.0, |c| c.rate),
        best,
        steered,
        tried,
        commands,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &tuned)?;
        writeln!(out)?;
    } else {
        show(&tuned, &mut out)?;
    }
    out.flush()?;
    Ok(if tuned.best.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// lp-deadline, with what the user set of it.
fn base(plan: &Plan, args: &SimArgs) -> Result<Kind> {
    let mut kind = Kind::named("lp-deadline", plan.spec.rotational())?;
    for knob in &args.scheduler_set {
        kind.set(knob).context("--scheduler-set")?;
    }
    Ok(kind)
}

/// Puts the pair in where there is no load of the user's; says what is simulated. The queue has as many slots as
/// lp-deadline would have.
fn fit(plan: &mut Plan, args: &SimArgs) -> Result<String> {
    if args.nr_requests.is_none() {
        plan.settings.nr_requests =
            Kind::named("lp-deadline", plan.spec.rotational())?.nr_requests(plan.settings.depth);
    }
    if let Some(replay) = &plan.replay {
        return Ok(format!(
            "{} operations of {} threads, recorded on {}",
            replay.operations, replay.threads, replay.disk
        ));
    }
    if args.job_file.is_some() {
        return Ok("the job file's".into());
    }
    if let Some(key) = args.job.given.keys().next() {
        bail!("--{key}: one job has one class; give both in a job file (--job FILE --idle=2), or none for the usual pair");
    }
    let time = Some(Time(10_000_000_000));
    let reader = Job {
        what: What::Read,
        order: Order::Random,
        size: Bytes(plan.size),
        think: Time(1_000_000),
        time,
        ..Job::default()
    };
    let bulk = Job {
        what: What::Read,
        order: Order::Sequential,
        block: Bytes(128 << 10),
        size: Bytes(plan.size / (128 << 10) * (128 << 10)),
        depth: 32,
        through: Through::IoUring,
        time,
        ..Job::default()
    };
    plan.steps = vec![("pair".into(), vec![(reader, Class::BestEffort), (bulk, Class::Idle)])];
    Ok("a reader of 4K that thinks 1 ms, beside 32 idle reads of 128K at once, 10 s".into())
}

fn candidate(knobs: Vec<String>, measured: &Measured, target: u64) -> Candidate {
    let normal_p99_ns = measured.normal_p99();
    Candidate {
        knobs,
        normal_p99_ns,
        normal_per_s: measured.class(false).map_or(0.0, |c| c.rate),
        idle_bytes_per_s: measured.idle_bandwidth(),
        keeps: normal_p99_ns.is_some_and(|p99| p99 <= target),
    }
}

/// Of those that keep the target, the one that gives most; of equals, the one that disturbs less.
fn best(tried: &[Candidate]) -> Option<Candidate> {
    let keeps = tried.iter().filter(|c| c.keeps);
    let order = |a: &&Candidate, b: &&Candidate| {
        a.idle_bytes_per_s.total_cmp(&b.idle_bytes_per_s).then(b.normal_p99_ns.cmp(&a.normal_p99_ns))
    };
    keeps.max_by(order).cloned()
}

fn show(tuned: &Tuned, out: &mut dyn Write) -> Result<()> {
    let ns = |v: Option<u64>| v.map_or_else(|| "-".into(), units::duration);
    let target = units::duration(tuned.target_ns);
    writeln!(out, "{}; {}", tuned.model, tuned.load)?;
    writeln!(
        out,
        "target: 99 % of normal requests within {target}; alone they have {} at {:.0} a second",
        ns(tuned.alone_p99_ns),
        tuned.alone_per_s
    )?;
    let mut table = Table::new(&["<settings", "normal p99", "normal/s", "idle MiB/s", "<target"]);
    let row = |name: &str, c: &Candidate| {
        let kept = if c.keeps { "kept" } else { "passed" };
        let mib = format!("{:.2}", c.idle_bytes_per_s / 1_048_576.0);
        vec![
            format!("{name}{}", c.knobs.join(" ")),
            ns(c.normal_p99_ns),
            format!("{:.1}", c.normal_per_s),
            mib,
            kept.into(),
        ]
    };
    // Of each depth the best: all are in the JSON.
    for depth in DEPTHS {
        let knob = format!("low_depth={depth}");
        let own: Vec<Candidate> = tuned.tried.iter().filter(|c| c.knobs.contains(&knob)).cloned().collect();
        let least = || own.iter().min_by_key(|c| c.normal_p99_ns).cloned();
        if let Some(c) = best(&own).or_else(least) {
            table.row(row("", &c));
        }
    }
    table.row(row("steered: ", &tuned.steered));
    table.write(out)?;
    match &tuned.best {
        Some(best) => {
            writeln!(
                out,
                "predicted: normal {} at p99 ({:+.1} % requests a second), idle {:.2} MiB/s",
                ns(best.normal_p99_ns),
                100.0 * (best.normal_per_s / tuned.alone_per_s.max(1e-9) - 1.0),
                best.idle_bytes_per_s / 1_048_576.0
            )?;
            for command in &tuned.commands {
                writeln!(out, "  {command}")?;
            }
        }
        None if tuned.alone_p99_ns.is_some_and(|p99| p99 > tuned.target_ns) => writeln!(
            out,
            "no settings keep {target}: normal requests need {} even alone",
            ns(tuned.alone_p99_ns)
        )?,
        None => writeln!(out, "no settings that were tried keep {target}")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_for_the_idle_class_within_the_target_wins() {
        let one = |p99: u64, idle: f64| Candidate {
            knobs: vec![format!("a={p99}")],
            normal_p99_ns: Some(p99),
            normal_per_s: 1.0,
            idle_bytes_per_s: idle,
            keeps: p99 <= 10,
        };
        let p99 = |all: &[Candidate]| best(all).and_then(|c| c.normal_p99_ns);
        assert_eq!(p99(&[one(5, 1.0), one(9, 3.0), one(8, 3.0), one(11, 9.0)]), Some(8));
        assert_eq!(p99(&[one(11, 9.0)]), None);
    }
}
