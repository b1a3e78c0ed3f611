// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb tune iosched`: lp-deadline's interval and depth for a target, by simulation.
//!
//! The defaults are tried, and every interval with every depth; of those that keep the target the one wins that gives the
//! idle class most.

use super::measure::{measure, measure_idle_alone, Measured};
use super::plan::Plan;
use crate::cli::{Simulated, TuneArgs, TuneWhat};
use anyhow::{bail, Context, Result};
use plumb_load::job::{Bytes, Job, Order, Through, Time, What};
use plumb_report::terminal::Table;
use plumb_sim::queue::Class;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Intervals that are tried, us.
const INTERVALS: [u64; 14] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_500_000,
    5_000_000,
];
/// Depths that are tried; 0 is any number.
const DEPTHS: [u64; 5] = [1, 2, 4, 8, 0];
/// Knobs that are found, so that nobody sets them.
const SOUGHT: [&str; 2] = ["idle_dispatch_interval", "low_depth"];

/// Settings, and what they do.
#[derive(Debug, Clone, Serialize)]
struct Candidate {
    /// Knobs as sysfs has them; none: the defaults.
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
    load: String,
    /// Normal requests without the idle class.
    alone_p99_ns: Option<u64>,
    alone_per_s: f64,
    /// The idle class without normal requests; of a recording nothing tells.
    idle_alone_bytes_per_s: Option<f64>,
    best: Option<Candidate>,
    tried: Vec<Candidate>,
    commands: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// As `plumb sim`; nobody of one of the classes takes part.
pub fn main(args: &TuneArgs) -> Result<ExitCode> {
    let TuneWhat::Iosched(tune) = &args.what;
    let args = &tune.of;
    let target = tune.target.0;
    if target < 1000 {
        bail!("--target {}: 1us or more, as in --target 2ms", tune.target);
    }
    // noop is what the option has when it is not given.
    if !["noop", "lp-deadline"].contains(&args.scheduler.as_str()) {
        bail!("--scheduler {}: only lp-deadline has these knobs; leave it out", args.scheduler);
    }
    for knob in args.scheduler_set.iter().filter_map(|k| k.split('=').next()) {
        if SOUGHT.contains(&knob) {
            bail!("--scheduler-set {knob}: is what tune looks for; leave it out");
        }
    }
    let mut plan = Plan::behind("lp-deadline", args)?;
    let load = fit(&mut plan, args)?;
    for (idle, class) in [(false, "normal"), (true, "idle")] {
        if !plan.has(idle) {
            bail!("nobody of the {class} class takes part, so there is nothing to weigh; --idle=N names the idle jobs, ionice -c3 those of a recording");
        }
    }
    let base = plan.scheduler.clone();
    let seed = args.sim_seed;
    let try_one = |knobs: Vec<String>| -> Result<Candidate> {
        let mut kind = base.clone();
        for knob in &knobs {
            kind.set(knob).context("lp-deadline")?;
        }
        Ok(candidate(knobs, &measure(&plan, &kind, true, seed)?, target))
    };
    let alone = measure(&plan, &base, false, seed)?;
    let idle_alone = measure_idle_alone(&plan, &base, seed)?;
    let mut tried = vec![try_one(Vec::new())?];
    for depth in DEPTHS {
        for interval in INTERVALS {
            tried.push(try_one(vec![
                format!("idle_dispatch_interval={interval}"),
                format!("low_depth={depth}"),
            ])?);
        }
        eprintln!("low_depth {depth}: {} intervals simulated", INTERVALS.len());
    }
    let best = best(&tried);
    // One of another machine, or of a simulation, is not to be set here.
    let is_here = |disk: &&str| Path::new("/sys/block").join(disk).exists();
    let disk = plan.replay.as_ref().map(|r| r.disk.as_str()).filter(is_here).unwrap_or("DISK");
    let write = |knob: &String| {
        let (name, value) = knob.split_once('=')?;
        Some(format!("echo {value} > /sys/block/{disk}/queue/iosched/{name}"))
    };
    let select = format!("echo lp-deadline > /sys/block/{disk}/queue/scheduler");
    // What the user set is a part of what was predicted.
    let commands = best.iter().flat_map(|best| {
        let knobs = args.scheduler_set.iter().chain(&best.knobs);
        std::iter::once(select.clone()).chain(knobs.filter_map(write))
    });
    let commands: Vec<String> = commands.collect();
    let tuned = Tuned {
        model: plan.spec.name.clone(),
        target_ns: target,
        load,
        alone_p99_ns: alone.normal_p99(),
        alone_per_s: alone.class(false).map_or(0.0, |c| c.rate),
        idle_alone_bytes_per_s: idle_alone.map(|m| m.idle_bandwidth()),
        best,
        tried,
        commands,
    };
    let mut out = std::io::stdout().lock();
    if tune.json {
        serde_json::to_writer_pretty(&mut out, &tuned)?;
        writeln!(out)?;
    } else {
        show(&tuned, &mut out)?;
    }
    out.flush()?;
    Ok(if tuned.best.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Puts the pair in where there is no load of the user's; says what is simulated.
fn fit(plan: &mut Plan, args: &Simulated) -> Result<String> {
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

/// Of those that keep the target, the one that gives most; of equals, the one that disturbs less, the one that changes
/// least, and the first: depths are tried from the least on.
fn best<'a>(tried: impl IntoIterator<Item = &'a Candidate>) -> Option<Candidate> {
    let keeps = tried.into_iter().filter(|c| c.keeps);
    let order = |a: &&Candidate, b: &&Candidate| {
        let most = a.idle_bytes_per_s.total_cmp(&b.idle_bytes_per_s);
        most.then(b.normal_p99_ns.cmp(&a.normal_p99_ns)).then(b.knobs.len().cmp(&a.knobs.len())).reverse()
    };
    // Of equals min_by() has the first, max_by() the last.
    keeps.min_by(order).cloned()
}

fn show(tuned: &Tuned, out: &mut dyn Write) -> Result<()> {
    let ns = |v: Option<u64>| v.map_or_else(|| "-".into(), units::duration);
    let target = units::duration(tuned.target_ns);
    writeln!(out, "{}; {}", tuned.model, tuned.load)?;
    let mib = |bytes: f64| format!("{:.2}", bytes / 1_048_576.0);
    let idle = tuned.idle_alone_bytes_per_s.map(|b| format!("; the idle class alone, {} MiB/s", mib(b)));
    writeln!(
        out,
        "target: 99 % of normal requests within {target}; alone they have {} at {:.0} a second{}",
        ns(tuned.alone_p99_ns),
        tuned.alone_per_s,
        idle.unwrap_or_default()
    )?;
    let mut table = Table::new(&["<settings", "normal p99", "normal/s", "idle MiB/s", "<target"]);
    let row = |name: &str, c: &Candidate| {
        let kept = if c.keeps { "kept" } else { "missed" };
        vec![
            format!("{name}{}", c.knobs.join(" ")),
            ns(c.normal_p99_ns),
            format!("{:.1}", c.normal_per_s),
            mib(c.idle_bytes_per_s),
            kept.into(),
        ]
    };
    if let Some(c) = tuned.tried.iter().find(|c| c.knobs.is_empty()) {
        table.row(row("as it is", c));
    }
    // Of each depth the best: all are in the JSON.
    for depth in DEPTHS {
        let knob = format!("low_depth={depth}");
        let own = || tuned.tried.iter().filter(|c| c.knobs.contains(&knob));
        let least = || own().min_by_key(|c| c.normal_p99_ns).cloned();
        if let Some(c) = best(own()).or_else(least) {
            table.row(row("", &c));
        }
    }
    table.write(out)?;
    match &tuned.best {
        Some(best) => {
            writeln!(
                out,
                "predicted: normal {} at p99 ({:+.1} % requests a second), idle {} MiB/s{}",
                ns(best.normal_p99_ns),
                100.0 * (best.normal_per_s / tuned.alone_per_s.max(1e-9) - 1.0),
                mib(best.idle_bytes_per_s),
                tuned.idle_alone_bytes_per_s.filter(|b| *b > 0.0).map_or_else(String::new, |b| format!(
                    " ({:.1} % of what it has alone)",
                    100.0 * best.idle_bytes_per_s / b
                ))
            )?;
            if best.idle_bytes_per_s == 0.0 {
                writeln!(
                    out,
                    "the idle class gets nothing with any of them: normal requests leave it no moment, or the two are never there at once"
                )?;
            }
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
        let [first, mut second] = [one(5, 1.0), one(5, 1.0)];
        second.knobs = vec!["low_depth=0".into()];
        assert_eq!(best(&[first.clone(), second]).map(|c| c.knobs), Some(first.knobs));
    }
}
