// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lp-deadline's interval and depth for a target, by simulation.
//!
//! The defaults are tried, and every interval with every depth; of those that keep the target the one wins that
//! gives the idle class most.

use crate::experiment::{measure, measure_idle_alone, Experiment, Measured, Options};
use crate::queue::Class;
use anyhow::{bail, Context, Result};
use plumb_load::job::{Bytes, Job, Order, Through, Time, What};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::path::Path;

/// Intervals that are tried, us.
const INTERVALS: [u64; 14] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_500_000,
    5_000_000,
];
/// Depths that are tried; 0 is any number.
pub const DEPTHS: [u64; 5] = [1, 2, 4, 8, 0];
/// Knobs that are found, so that nobody sets them.
const SOUGHT: [&str; 2] = ["idle_dispatch_interval", "low_depth"];

/// Settings, and what they do.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// Knobs as sysfs has them; none: the defaults.
    pub knobs: Vec<String>,
    pub normal_p99_ns: Option<u64>,
    pub normal_per_s: f64,
    pub idle_bytes_per_s: f64,
    pub keeps: bool,
}

#[derive(Debug, Serialize)]
pub struct Tuned {
    pub model: String,
    pub target_ns: u64,
    pub load: String,
    /// Foreground requests without the idle class.
    pub alone_p99_ns: Option<u64>,
    pub alone_per_s: f64,
    /// The idle class without foreground requests; of a recording nothing tells.
    pub idle_alone_bytes_per_s: Option<f64>,
    pub best: Option<Candidate>,
    pub tried: Vec<Candidate>,
    pub commands: Vec<String>,
}

impl Output for Tuned {
    const FORMAT: &'static Format = &formats::TUNE;
}

/// Looks for settings that keep the 99th percentile of foreground requests within `target` ns. `knobs` are those
/// that the user set; `load` says what is simulated ([`fit`]); `tried_depth` hears of each depth, and how many
/// intervals were simulated with it.
///
/// # Errors
/// Nobody of one of the classes takes part; the simulation's.
pub fn tune(
    experiment: &Experiment,
    target: u64,
    load: String,
    knobs: &[String],
    mut tried_depth: impl FnMut(u64, usize),
) -> Result<Tuned> {
    for (idle, class) in [(false, "normal"), (true, "idle")] {
        if !experiment.has(idle) {
            bail!("no job has the {class} class, so there is nothing to tune; --idle=N names the idle jobs, ionice -c3 those of a recording");
        }
    }
    let base = experiment.scheduler.clone();
    let try_one = |knobs: Vec<String>| -> Result<Candidate> {
        let mut kind = base.clone();
        for knob in &knobs {
            kind.set(knob).context("lp-deadline")?;
        }
        Ok(candidate(knobs, &measure(experiment, &kind, true)?, target))
    };
    let alone = measure(experiment, &base, false)?;
    let idle_alone = measure_idle_alone(experiment, &base)?;
    let mut tried = vec![try_one(Vec::new())?];
    for depth in DEPTHS {
        for interval in INTERVALS {
            tried.push(try_one(vec![
                format!("idle_dispatch_interval={interval}"),
                format!("low_depth={depth}"),
            ])?);
        }
        tried_depth(depth, INTERVALS.len());
    }
    let best = best(&tried);
    // One of another machine, or of a simulation, is not to be set here.
    let is_here = |disk: &&str| Path::new("/sys/block").join(disk).exists();
    let disk = experiment.replay.as_ref().map(|r| r.disk.as_str()).filter(is_here).unwrap_or("DISK");
    let write = |knob: &String| {
        let (name, value) = knob.split_once('=')?;
        Some(format!("echo {value} > /sys/block/{disk}/queue/iosched/{name}"))
    };
    let select = format!("echo lp-deadline > /sys/block/{disk}/queue/scheduler");
    // What the user set is a part of what was predicted.
    let commands = best.iter().flat_map(|best| {
        let knobs = knobs.iter().chain(&best.knobs);
        std::iter::once(select.clone()).chain(knobs.filter_map(write))
    });
    let commands: Vec<String> = commands.collect();
    Ok(Tuned {
        model: experiment.spec.name.clone(),
        target_ns: target,
        load,
        alone_p99_ns: alone.normal_p99(),
        alone_per_s: alone.class(false).map_or(0.0, |c| c.rate),
        idle_alone_bytes_per_s: idle_alone.map(|m| m.idle_bandwidth()),
        best,
        tried,
        commands,
    })
}

/// Looks whether none of these knobs is one that is looked for.
///
/// # Errors
/// One is; named.
pub fn check(knobs: &[String]) -> Result<()> {
    for knob in knobs.iter().filter_map(|k| k.split('=').next()) {
        if SOUGHT.contains(&knob) {
            bail!("--scheduler-set {knob}: is what tune looks for; leave it out");
        }
    }
    Ok(())
}

/// Puts the pair in where there is no load of the user's; says what is simulated.
///
/// # Errors
/// Options of one job alone; named.
pub fn fit(experiment: &mut Experiment, args: &Options) -> Result<String> {
    if let Some(replay) = &experiment.replay {
        return Ok(format!(
            "{} operations of {} threads, recorded on {}",
            replay.operations, replay.threads, replay.disk
        ));
    }
    if args.job_file.is_some() {
        return Ok("the job file's".into());
    }
    if let Some(key) = args.given.keys().next() {
        bail!("--{key}: one job has one class; give both in a job file (--job FILE --idle=2), or none for the usual pair");
    }
    let time = Some(Time(10_000_000_000));
    let reader = Job {
        what: What::Read,
        order: Order::Random,
        size: Bytes(experiment.size),
        think: Time(1_000_000),
        time,
        ..Job::default()
    };
    let bulk = Job {
        what: What::Read,
        order: Order::Sequential,
        block: Bytes(128 << 10),
        size: Bytes(experiment.size / (128 << 10) * (128 << 10)),
        depth: 32,
        through: Through::IoUring,
        time,
        ..Job::default()
    };
    experiment.steps = vec![("pair".into(), vec![(reader, Class::BestEffort), (bulk, Class::Idle)])];
    Ok("a reader of 4K with 1 ms of think time, concurrently with 32 idle reads of 128K, 10 s".into())
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
pub fn best<'a>(tried: impl IntoIterator<Item = &'a Candidate>) -> Option<Candidate> {
    let keeps = tried.into_iter().filter(|c| c.keeps);
    let order = |a: &&Candidate, b: &&Candidate| {
        let most = a.idle_bytes_per_s.total_cmp(&b.idle_bytes_per_s);
        most.then(b.normal_p99_ns.cmp(&a.normal_p99_ns)).then(b.knobs.len().cmp(&a.knobs.len())).reverse()
    };
    // Of equals min_by() has the first, max_by() the last.
    keeps.min_by(order).cloned()
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
