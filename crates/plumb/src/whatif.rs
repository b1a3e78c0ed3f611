// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb whatif`: how long a recorded run would take with another disk, other CPUs, more memory.
//!
//! Data flows: trace -> [`read`] -> [`graph`] (what threads do again) -> [`plumb_sim::whatif::again`]: once as it was recorded, which shows how
//! well that works, and then as asked for, with several seeds of the disk's model -> `show` or JSON.

mod graph;
mod read;
mod show;

use crate::cli::WhatifArgs;
use anyhow::{bail, Context, Result};
use graph::{Disk, Graph};
use plumb_analysis::{open, Analysis, Pass, Wanted};
use plumb_sim::queue::scheduler::Kind;
use plumb_sim::queue::simulation::MAX_BYTES;
use plumb_sim::queue::{Settings, Simulation};
use plumb_sim::spec::Spec;
use plumb_sim::whatif::{again, cache, Recording};
use plumb_stats::repetitions::median;
use plumb_trace::reader::Trace;
use plumb_trace::units;
use read::{Records, Seen};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::ExitCode;

/// Seeds of the disk's model.
const SEEDS: u64 = 5;

/// Done again as it was recorded a run that is so far off was not understood.
const MUCH: f64 = 0.1;
/// A disk with so large a share of the requests is the one that is meant.
const NEARLY_ALL: f64 = 0.9;

/// What came out.
#[derive(Debug, Serialize)]
struct Outcome {
    format: u32,
    plumb: &'static str,
    run: String,
    /// Whose time it is: the command, or the target's threads.
    target: String,
    /// As recorded: CPUs, disk (empty: none had requests), and how long it took, ns.
    recorded: Machine,
    /// The same done again with nothing changed; divided by the recorded time it should be 1.
    again_ns: u64,
    /// What was asked for, and what it would take: median, least and most, ns.
    asked: Machine,
    low_ns: u64,
    high_ns: u64,
    /// How many times as fast.
    speedup: f64,
    /// What is known of the page cache, where more of it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheFacts>,
    /// Share of the target's time that was kept as it was: nothing tells what ended those sleeps.
    kept: f64,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Machine {
    cpus: usize,
    cpu_speed: f64,
    disk: String,
    elapsed_ns: u64,
}

#[derive(Debug, Serialize)]
struct CacheFacts {
    more: u64,
    /// Bytes that the recorded one held, as far as it shows.
    held: Option<u64>,
    reads: usize,
    saved: usize,
}

/// Runs the command.
///
/// # Errors
/// A sentence that names run, disk or option, and the next step.
pub fn main(args: &WhatifArgs) -> Result<ExitCode> {
    let nothing =
        args.disk.is_none() && args.cpus.is_none() && args.memory.is_none() && args.cpu_speed == 1.0;
    if nothing {
        bail!("nothing would be otherwise: give --disk, --cpus, --cpu-speed or --memory");
    }
    let run = |e: &str| format!("{}: {e}", args.run.display());
    let trace = open(&args.run)?;
    let processes = trace.state.tasks.iter().map(|t| (t.tid, t.tgid)).collect();
    let mut records = Records { processes, ..Records::default() };
    let (analysis, seen) = Pass::over(&trace).wanted(Wanted::Account).read_with(Seen::default(), |item| {
        records.take(item);
        true
    })?;
    let threads = analysis.result.processes.iter().flat_map(|p| &p.threads);
    let all: HashSet<u32> = threads.map(|t| t.tid).collect();
    let (targets, target) = targets(&trace, &analysis)?;
    let disk = disk(args, &trace, &seen.disks(&all))?;
    let spec = args.disk.as_ref().map(|model| Spec::load(model, &args.disk_set)).transpose()?;
    let plain = disk.map(|dev| Disk { dev, replaced: false, flushes: false });
    let plain = graph::of(&seen, &records, plain, &targets);
    let cpus = cpus(&trace).with_context(|| run("the trace does not tell how many CPUs the machine had"))?;
    if plain.end == 0 {
        bail!("{}", run("nothing of the target ran"));
    }
    let elapsed = |end: u64| end.saturating_sub(plain.begin);
    let recorded = elapsed(plain.end);
    let base = elapsed(again(&plain.recording, cpus, 1.0, None)?.end);
    let flushes = spec
        .as_ref()
        .map(|spec| Ok::<_, anyhow::Error>(spec.build(spec.size.0, 1)?.volatile_cache()))
        .transpose()?;
    let asked = disk.map(|dev| Disk { dev, replaced: spec.is_some(), flushes: flushes == Some(true) });
    let Graph { mut recording, flushes, .. } = graph::of(&seen, &records, asked, &targets);
    let mut notes = Vec::new();
    let cache = args.memory.map(|more| saved(&mut recording, more.0, &mut notes));
    if flushes > 0 {
        notes.push(format!("The recorded disk had no cache; with this one each of {flushes} calls of fsync or its like has a flush."));
    }
    if let Some(spec) = &spec {
        fits(&recording, spec)?;
    } else {
        recording.requests.iter_mut().for_each(|r| r.simulated = false);
    }
    let asked_cpus = args.cpus.map_or(cpus, |n| n as usize);
    let mut ends = Vec::new();
    for seed in 1..=if spec.is_some() { SEEDS } else { 1 } {
        let queue = spec.as_ref().map(|spec| queue(args, spec, seed)).transpose()?;
        let end = elapsed(again(&recording, asked_cpus, args.cpu_speed, queue)?.end);
        ends.push(end as f64 / base as f64 * recorded as f64);
    }
    let off = (base as f64 / recorded as f64 - 1.0).abs();
    if off > MUCH {
        notes.push(format!(
            "Done again as it was recorded it takes {:.0} % more or less: in this run something decides that is not modelled, as a CPU quota or other \
             programs' priorities.",
            off * 100.0
        ));
    }
    let middle = median(&ends);
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min) * (1.0 - off).max(0.0);
    let most = ends.iter().copied().fold(0.0, f64::max) * (1.0 + off);
    let lives: u64 = analysis
        .result
        .processes
        .iter()
        .flat_map(|p| &p.threads)
        .filter(|t| targets.contains(&t.tid))
        .map(|t| t.elapsed)
        .sum();
    let lost = analysis.quality.lost;
    let name = disk.map(|dev| name_of(&trace, dev)).unwrap_or_default();
    let outcome = Outcome {
        format: 1,
        plumb: env!("CARGO_PKG_VERSION"),
        run: args.run.display().to_string(),
        target,
        recorded: Machine { cpus, cpu_speed: 1.0, disk: name.clone(), elapsed_ns: recorded },
        again_ns: base,
        asked: Machine {
            cpus: asked_cpus,
            cpu_speed: args.cpu_speed,
            disk: spec.as_ref().map_or(name, |s| s.name.clone()),
            elapsed_ns: middle as u64,
        },
        low_ns: least as u64,
        high_ns: most as u64,
        speedup: recorded as f64 / middle,
        cache,
        kept: plain.kept as f64 / lives.max(1) as f64,
        notes,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &outcome)?;
        writeln!(out)?;
    } else {
        show::write(&outcome, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::from(if lost > 0 { 3 } else { 0 }))
}

/// Whose last work ends the run: the command's first thread, or the threads of the target that do not wait for time
/// above all.
fn targets(trace: &Trace, analysis: &Analysis) -> Result<(HashSet<u32>, String)> {
    let env = &trace.metadata.env;
    if let Some(root) = env.get("command_pid").and_then(|pid| pid.parse().ok()) {
        let name = analysis.result.processes.iter().find(|p| p.pid == root).map(|p| p.comm.clone());
        return Ok((HashSet::from([root]), format!("the command {}", name.unwrap_or_default())));
    }
    let threads = analysis.result.processes.iter().flat_map(|p| &p.threads);
    let waits = |t: &&plumb_model::ThreadRow| {
        let timer: u64 = t.account.iter().filter(|(c, _)| c.name().contains("timer")).map(|(_, ns)| ns).sum();
        2 * timer < t.elapsed
    };
    let all: HashSet<u32> = threads.filter(waits).map(|t| t.tid).filter(|tid| *tid != 0).collect();
    if all.is_empty() {
        bail!("nothing of a target was recorded");
    }
    Ok((all, "the target's threads".into()))
}

fn cpus(trace: &Trace) -> Option<usize> {
    let online = trace.metadata.env.get("cpus_online")?;
    let one = |part: &str| -> Option<usize> {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    online.split(',').map(one).sum()
}

fn name_of(trace: &Trace, dev: u32) -> String {
    let known = trace.state.disks.iter().find(|d| d.dev == dev);
    known.map_or_else(|| units::device(dev), |d| d.name.clone())
}

/// The disk whose requests are meant, where there is one: the only one, or that of nearly all requests.
fn disk(args: &WhatifArgs, trace: &Trace, disks: &BTreeMap<u32, u64>) -> Result<Option<u32>> {
    let name = |dev: &u32| name_of(trace, *dev);
    let names = || disks.iter().map(|(dev, n)| format!("{} ({n})", name(dev))).collect::<Vec<_>>().join(", ");
    let all: u64 = disks.values().sum();
    let most = disks.iter().find(|(_, n)| **n as f64 >= NEARLY_ALL * all as f64).map(|(dev, _)| *dev);
    let wanted = args.from_disk.as_deref().map(|d| d.trim_start_matches("/dev/"));
    match wanted {
        Some(wanted) => match disks.keys().find(|dev| name(dev) == wanted) {
            Some(dev) => Ok(Some(*dev)),
            None => bail!("--from-disk {wanted}: no request went to it; requests went to {}", names()),
        },
        None if most.is_some() || (args.disk.is_none() && args.memory.is_none()) => Ok(most),
        None if disks.is_empty() => {
            bail!(
                "{}: no request of a disk was recorded; --disk and --memory change nothing",
                args.run.display()
            )
        }
        None => bail!("requests went to several disks; choose one with --from-disk: {}", names()),
    }
}

/// Takes out of a recording what a larger page cache saves.
fn saved(recording: &mut Recording, more: u64, notes: &mut Vec<String>) -> CacheFacts {
    let (saved, cache) = cache::saved(&recording.requests, more / cache::PAGE, None);
    recording.save(&saved);
    if cache.again == 0 {
        notes.push("no page was read again: more memory would have saved nothing in this run".into());
    }
    let held = cache.pages.map(|p| p * cache::PAGE);
    CacheFacts { more, held, reads: cache.reads, saved: saved.iter().filter(|s| **s).count() }
}

fn fits(recording: &Recording, spec: &Spec) -> Result<()> {
    let requests = recording.requests.iter().filter(|r| r.simulated);
    let end = requests.map(|r| r.recorded.offset + u64::from(r.recorded.length)).max().unwrap_or(0);
    if end > spec.size.0 {
        bail!("requests reach to byte {end}, and --disk {} has {}; choose a larger model, or --disk-set size=...", spec.name, spec.size.0);
    }
    Ok(())
}

fn queue(args: &WhatifArgs, spec: &Spec, seed: u64) -> Result<Simulation> {
    let name = if args.scheduler == "none" { "noop" } else { &args.scheduler };
    let mut scheduler = Kind::named(name, spec.rotational())?;
    for knob in &args.scheduler_set {
        scheduler.set(knob).context("--scheduler-set")?;
    }
    let depth = args.depth_of_device as usize;
    let settings = Settings { nr_requests: scheduler.nr_requests(depth), max_bytes: MAX_BYTES, depth };
    let device = spec.build(spec.size.0, seed)?;
    Ok(Simulation::outside(device, scheduler.build(0), settings))
}
