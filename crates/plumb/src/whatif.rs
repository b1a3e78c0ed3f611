// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb whatif`: how long a recorded run would take with another disk, other CPUs, more memory.
//!
//! Data flows: trace -> [`plumb_replay`] (what threads do again) -> [`plumb_sim::whatif::again`]: once as it was recorded, which shows how
//! well that works, and then as asked for, with several seeds of the disk's model -> `show` or JSON.

mod show;

use crate::cli::{More, WhatifArgs};
use crate::quality::{exit_code, NOT_VALID};
use anyhow::{bail, Context, Result};
use plumb_analysis::{open, Analysis, Pass, Wanted};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_model::Category;
use plumb_replay::graph::{self, Disk, Graph, Targets};
use plumb_replay::seen::{Records, Seen};
use plumb_replay::timer;
use plumb_report::plain::Plain;
use plumb_sim::queue::scheduler::{self, Kind};
use plumb_sim::queue::simulation::MAX_BYTES;
use plumb_sim::queue::{Settings, Simulation};
use plumb_sim::spec::Spec;
use plumb_sim::whatif::{again, cache, Recording};
use plumb_stats::repetitions::median;
use plumb_trace::kernel::MOST_CPUS;
use plumb_trace::reader::Trace;
use plumb_trace::units;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Seeds of the disk's model.
const SEEDS: u64 = 5;

/// Done again as it was recorded a run that is so far off was not understood.
const MUCH: f64 = 0.1;
/// And of one that is so far off nothing can be predicted.
const HOPELESS: f64 = 0.25;
/// A disk with so large a share of the requests is the one that is meant.
const NEARLY_ALL: f64 = 0.9;
/// The scheduler that orders nothing, as the kernel calls it; the simulator calls it noop.
const NONE: &str = "none";

/// The result, as --json has it.
#[derive(Debug, Serialize)]
struct Outcome {
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
    /// Whether the run, done again with nothing changed, takes as long as it took, to 25 %: else nothing of this can be relied on.
    reliable: bool,
    /// The command's first thread sleeps on timers while others work, and a timer's sleep takes as long on any machine: all times are
    /// those in which the other threads do the same work, and `speedup` is that of their throughput.
    by_timer: bool,
    /// Share of the time of the command's first thread that is sleeping on timers; a wait for another thread of the target counts as what
    /// that thread did.
    slept: f64,
    /// What the target said that it did: its operations, or the most frequent of its spans.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<Throughput>,
    /// What one replay took, ns, the median: reading the trace comes before them.
    replay_ns: u64,
    /// What is known of the page cache, where more of it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheFacts>,
    /// Share of the target's time that was kept as it was: nothing tells what ended those sleeps.
    kept: f64,
    notes: Vec<String>,
}

impl Output for Outcome {
    const FORMAT: &'static Format = &formats::WHATIF;
}

#[derive(Debug, Serialize)]
struct Machine {
    cpus: usize,
    cpu_speed: f64,
    disk: String,
    /// I/O scheduler of that disk; absent where it is not known, or no disk had requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    elapsed_ns: u64,
}

#[derive(Debug, Serialize)]
struct Throughput {
    /// What is counted: operation, or a span's name.
    of: String,
    count: u64,
    /// Each second, as recorded.
    recorded: f64,
    /// Each second, as asked for.
    asked: f64,
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
    check_scheduler(args)?;
    let nothing =
        args.disk.is_none() && args.cpus.is_none() && args.memory.is_none() && args.cpu_speed == 1.0;
    if nothing {
        bail!(
            "cannot predict {}: nothing is changed\nhint: give --disk, --cpus, --cpu-speed or --memory",
            args.run.display()
        );
    }
    let about_disk = args.disk.is_some() || args.memory.is_some();
    if args.from_disk.is_some() && !about_disk {
        bail!("--from-disk says which disk --disk or --memory is about\nhint: give one of them, or leave it out");
    }
    let trace = open(&args.run)?;
    has_what_it_takes(args, &trace, about_disk)?;
    let processes = trace.state.tasks.iter().map(|t| (t.tid, t.tgid)).collect();
    let mut records = Records::of(processes);
    let (analysis, seen) = Pass::over(&trace).wanted(Wanted::Account).read_with(Seen::default(), |item| {
        records.take(item);
        true
    })?;
    let threads = analysis.result.processes.iter().flat_map(|p| &p.threads);
    let all: HashSet<u32> = threads.map(|t| t.tid).collect();
    let Asked { targets, target, by_timer, slept, notes: mut asked_notes } =
        targets(&trace, &analysis, &seen, &all)?;
    let disk = disk(args, &trace, &seen, &all, about_disk)?;
    let more = args.memory.map(|more| more_cache(args, more, &trace)).transpose()?;
    let spec = args.disk.as_ref().map(|model| Spec::load(model, &args.disk_set)).transpose()?;
    let plain = disk.map(|dev| Disk { dev, replaced: false, flushes: false });
    let plain = graph::of(&seen, &records, plain, &targets);
    let cpus = cpus(&trace).with_context(|| {
        format!(
            "cannot predict {}: its trace does not tell how many CPUs the machine had",
            args.run.display()
        )
    })?;
    let elapsed = |end: u64| end.saturating_sub(plain.begin);
    let recorded = elapsed(plain.end);
    let base = elapsed(again(&plain.recording, cpus, 1.0, None)?.end);
    if recorded == 0 || base == 0 {
        bail!("cannot predict {}: nothing of the target ran\nhint: record what is to be predicted from its begin to its end", args.run.display());
    }
    // The longest part of the memory; the other graph is as large.
    drop(plain.recording);
    let flushes = spec
        .as_ref()
        .map(|spec| Ok::<_, anyhow::Error>(spec.build(spec.size.0, 1)?.volatile_cache()))
        .transpose()?;
    let asked = disk.map(|dev| Disk { dev, replaced: spec.is_some(), flushes: flushes == Some(true) });
    let Graph { mut recording, flushes, kept, .. } = graph::of(&seen, &records, asked, &targets);
    let mut notes: Vec<String> = analysis.quality.trust().doubts.iter().map(|d| d.words.clone()).collect();
    notes.append(&mut asked_notes);
    let had = disk.and_then(|dev| scheduler_of(&trace, dev));
    let (scheduler, lacks) = in_front(args.scheduler.as_deref(), had.as_deref());
    if let Some(lacks) = lacks.filter(|_| spec.is_some()) {
        notes.push(format!(
            "The recorded disk's I/O scheduler, {lacks}, has no model: the requests are replayed without one."
        ));
    }
    let cache = more.map(|more| saved(&mut recording, more, &mut notes));
    if flushes > 0 {
        notes.push(format!("The recorded disk had no cache; with this one each of {flushes} calls of fsync or its like has a flush."));
    }
    if let Some(spec) = &spec {
        fits(&recording, spec)?;
    } else {
        recording.requests.iter_mut().for_each(|r| r.simulated = false);
    }
    let asked_cpus = args.cpus.map_or(cpus, |n| n as usize);
    let (mut ends, mut took) = (Vec::new(), Vec::new());
    for seed in 1..=if spec.is_some() { SEEDS } else { 1 } {
        let queue = spec.as_ref().map(|spec| queue(args, scheduler, spec, seed)).transpose()?;
        let begun = Instant::now();
        let end = elapsed(again(&recording, asked_cpus, args.cpu_speed, queue)?.end);
        took.push(begun.elapsed().as_nanos() as f64);
        ends.push(end as f64 / base as f64 * recorded as f64);
    }
    let off = (base as f64 / recorded as f64 - 1.0).abs();
    if off > MUCH {
        notes.push("Done again as it was recorded, the run does not take as long: something decides its time that is not modelled, as a CPU quota, priorities, or weights of cgroups.".into());
    }
    let middle = median(&ends);
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min) * (1.0 - off).max(0.0);
    let most = ends.iter().copied().fold(0.0, f64::max) * (1.0 + off);
    let lives: u64 = analysis
        .result
        .processes
        .iter()
        .flat_map(|p| &p.threads)
        .filter(|t| targets.threads.contains(&t.tid))
        .map(|t| t.elapsed)
        .sum();
    let name = disk.map(|dev| name_of(&trace, dev)).unwrap_or_default();
    let throughput = counted(&analysis).map(|(of, count)| {
        let per_second = |ns: f64| count as f64 * 1e9 / ns;
        Throughput { of, count, recorded: per_second(recorded as f64), asked: per_second(middle) }
    });
    let outcome = Outcome {
        plumb: env!("CARGO_PKG_VERSION"),
        run: args.run.display().to_string(),
        target,
        recorded: Machine {
            cpus,
            cpu_speed: 1.0,
            disk: name.clone(),
            scheduler: had.clone(),
            elapsed_ns: recorded,
        },
        again_ns: base,
        asked: Machine {
            cpus: asked_cpus,
            cpu_speed: args.cpu_speed,
            disk: spec.as_ref().map_or(name, |s| s.name.clone()),
            scheduler: if spec.is_some() { Some(scheduler.into()) } else { had.clone() },
            elapsed_ns: middle as u64,
        },
        low_ns: least as u64,
        high_ns: most as u64,
        speedup: recorded as f64 / middle,
        reliable: off <= HOPELESS,
        by_timer,
        slept,
        throughput,
        replay_ns: median(&took) as u64,
        cache,
        kept: kept as f64 / lives.max(1) as f64,
        notes,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &outcome)?;
    } else {
        show::write(&outcome, &mut Plain(&mut out))?;
    }
    out.flush()?;
    Ok(if outcome.reliable { exit_code(&analysis.quality) } else { ExitCode::from(NOT_VALID) })
}

/// Whose time is asked for.
struct Asked {
    targets: Targets,
    target: String,
    by_timer: bool,
    slept: f64,
    notes: Vec<String>,
}

/// Whose last work ends the run: the command's first thread; those that work while it sleeps on timers; or, without a command, the threads
/// of the target that do not wait for time above all.
fn targets(trace: &Trace, analysis: &Analysis, seen: &Seen, all: &HashSet<u32>) -> Result<Asked> {
    let env = &trace.metadata.env;
    if let Some(root) = env.get("command_pid").and_then(|pid| pid.parse().ok()) {
        let name = analysis.result.processes.iter().find(|p| p.pid == root).map(|p| p.comm.clone());
        let name = name.unwrap_or_default();
        let timers = timer::of(seen, root, all);
        if let Some(others) = timers.others {
            let note = match others.once {
                true => "The run ends by a timer: on a faster machine it would do more work, not end earlier.".to_string(),
                false => format!("The first thread of {name} sleeps on a timer again and again while others work: if the run ends by time, a faster machine does more work in it."),
            };
            return Ok(Asked {
                targets: Targets { threads: others.threads, until: others.until },
                target: format!("The threads that work for the command {name}"),
                by_timer: true,
                slept: timers.share,
                notes: vec![note],
            });
        }
        return Ok(Asked {
            targets: Targets { threads: HashSet::from([root]), until: u64::MAX },
            target: format!("The command {name}"),
            by_timer: false,
            slept: timers.share,
            notes: Vec::new(),
        });
    }
    let threads = analysis.result.processes.iter().flat_map(|p| &p.threads);
    let waits = |t: &&plumb_model::ThreadRow| {
        let timer: u64 = t.account.iter().filter(|(c, _)| **c == Category::Timer).map(|(_, ns)| ns).sum();
        2 * timer < t.elapsed
    };
    let threads: HashSet<u32> = threads.filter(waits).map(|t| t.tid).filter(|tid| *tid != 0).collect();
    if threads.is_empty() {
        bail!("nothing of a target was recorded");
    }
    let targets = Targets { threads, until: u64::MAX };
    Ok(Asked { targets, target: "The target".into(), by_timer: false, slept: 0.0, notes: Vec::new() })
}

/// What the target said that it did, and how often: its operations, or the most frequent of its spans.
fn counted(analysis: &Analysis) -> Option<(String, u64)> {
    let operations = analysis.result.processes.iter().flat_map(|p| &p.operations).map(|o| o.count).sum();
    if operations > 0 {
        return Some(("operation".into(), operations));
    }
    let mut spans: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &analysis.result.spans {
        *spans.entry(&row.name).or_default() += row.count;
    }
    let most = spans.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0);
    most.map(|(name, count)| (name.to_string(), count))
}

/// CPUs that were online; a list of a damaged trace may name any number.
fn cpus(trace: &Trace) -> Option<usize> {
    let online = plumb_machine::system::cpus_of_list(trace.metadata.env.get("cpus_online")?)?;
    // A simulated machine has none, and needs one.
    (online <= u64::from(MOST_CPUS)).then_some(online.max(1) as usize)
}

/// Looks whether what the prediction is made from was recorded.
fn has_what_it_takes(args: &WhatifArgs, trace: &Trace, about_disk: bool) -> Result<()> {
    let recorded = trace.metadata.env.get("events").map_or("", String::as_str);
    let mut needs = vec!["sched_switch", "sched_waking"];
    if about_disk {
        needs.extend(["block_bio_queue", "block_rq_issue", "block_rq_complete"]);
    }
    match needs.iter().find(|n| !recorded.split(',').any(|r| r == **n)) {
        Some(lacks) => bail!(
            "cannot predict {}: its trace lacks {lacks}\nhint: record with the default events",
            args.run.display()
        ),
        None => Ok(()),
    }
}

fn name_of(trace: &Trace, dev: u32) -> String {
    let known = trace.state.disks.iter().find(|d| d.dev == dev);
    known.map_or_else(|| units::device(dev), |d| d.name.clone())
}

/// The disk whose requests are meant, where there is one: the only one, or that of nearly all the target's requests.
fn disk(
    args: &WhatifArgs,
    trace: &Trace,
    seen: &Seen,
    target: &HashSet<u32>,
    needed: bool,
) -> Result<Option<u32>> {
    let name = |dev: &u32| name_of(trace, *dev);
    let names = |disks: &BTreeMap<u32, u64>| {
        disks.iter().map(|(dev, n)| format!("{} ({n})", name(dev))).collect::<Vec<_>>().join(", ")
    };
    if let Some(wanted) = &args.from_disk {
        let all = seen.disks(|_| true);
        let wanted = wanted.trim_start_matches("/dev/");
        let found = all.keys().find(|dev| name(dev) == wanted).copied();
        return found.map(Some).with_context(|| {
            format!("cannot replace {wanted}: no request went to it\nhint: requests went to {}", names(&all))
        });
    }
    let mut disks = seen.disks(|owner| target.contains(&owner));
    if disks.is_empty() {
        let servers = seen.servers();
        disks = seen.disks(|owner| !servers.contains(&owner));
    }
    let all: u64 = disks.values().sum();
    let most = disks.iter().find(|(_, n)| **n as f64 >= NEARLY_ALL * all as f64).map(|(dev, _)| *dev);
    match most {
        None if needed && disks.is_empty() => {
            bail!("cannot replace the disk of {}: no request was recorded, so --disk and --memory change nothing", args.run.display())
        }
        None if needed => bail!("cannot say which disk is replaced: requests went to several\nhint: choose one with --from-disk: {}", names(&disks)),
        most => Ok(most),
    }
}

/// How much more page cache there is, bytes.
fn more_cache(args: &WhatifArgs, more: More, trace: &Trace) -> Result<u64> {
    let told = trace.metadata.env.get("memory").and_then(|m| m.strip_suffix(" kB")?.parse::<u64>().ok());
    match (more, told) {
        (More::Times(_), None) => bail!(
            "cannot multiply the memory of {}: its trace does not tell how much there was\nhint: say how much more, as --memory +512M",
            args.run.display()
        ),
        (more, told) => Ok(more.bytes(told.unwrap_or(0).saturating_mul(1024))),
    }
}

/// Takes out of a recording what a larger page cache saves.
fn saved(recording: &mut Recording, more: u64, notes: &mut Vec<String>) -> CacheFacts {
    let (saved, cache) = cache::saved(&recording.requests, more / cache::PAGE);
    recording.save(&saved);
    if cache.again == 0 {
        notes.push("No page was read again: more memory would have saved nothing in this run.".into());
    }
    let held = cache.pages.map(|p| p * cache::PAGE);
    CacheFacts { more, held, reads: cache.reads, saved: saved.iter().filter(|s| **s).count() }
}

fn fits(recording: &Recording, spec: &Spec) -> Result<()> {
    let requests = recording.requests.iter().filter(|r| r.simulated);
    let end =
        requests.map(|r| r.recorded.offset.saturating_add(u64::from(r.recorded.length))).max().unwrap_or(0);
    if end > spec.size.0 {
        bail!(
            "cannot use --disk {}: it has {}, and requests reach to {}\nhint: choose a larger model, or --disk-set size=SIZE",
            spec.name,
            units::bytes(spec.size.0),
            units::bytes(end)
        );
    }
    Ok(())
}

/// The recorded I/O scheduler of a disk.
fn scheduler_of(trace: &Trace, dev: u32) -> Option<String> {
    let known = trace.state.disks.iter().find(|d| d.dev == dev);
    known.map(|d| d.scheduler.clone()).filter(|name| !name.is_empty())
}

fn is_modelled(name: &str) -> bool {
    name == NONE || scheduler::NAMES.contains(&name)
}

/// The I/O scheduler in front of the model, and the recorded one where that is asked for and has no model.
fn in_front<'a>(asked: Option<&'a str>, recorded: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match (asked, recorded) {
        (Some(name), _) => (name, None),
        (None, Some(name)) if !is_modelled(name) => (NONE, Some(name)),
        (None, name) => (name.unwrap_or(NONE), None),
    }
}

/// Before anything is read.
fn check_scheduler(args: &WhatifArgs) -> Result<()> {
    let Some(name) = &args.scheduler else { return Ok(()) };
    if !is_modelled(name) {
        bail!(
            "cannot use --scheduler {name}: no scheduler has this name\nhint: choose {NONE}, {}",
            scheduler::NAMES.join(", ")
        );
    }
    if args.disk.is_none() {
        bail!("cannot use --scheduler {name}: no disk is simulated, and requests to the recorded one take as long as they took\nhint: add --disk MODEL");
    }
    Ok(())
}

fn queue(args: &WhatifArgs, scheduler: &str, spec: &Spec, seed: u64) -> Result<Simulation> {
    let name = if scheduler == NONE { "noop" } else { scheduler };
    let mut scheduler = Kind::named(name, spec.rotational())?;
    for knob in &args.scheduler_set {
        scheduler.set(knob).context("--scheduler-set")?;
    }
    let depth = args.depth_of_device as usize;
    let settings = Settings { nr_requests: scheduler.nr_requests(depth), max_bytes: MAX_BYTES, depth };
    let device = spec.build(spec.size.0, seed)?;
    Ok(Simulation::outside(device, scheduler.build(0), settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_the_recorded_one_where_it_has_a_model() {
        assert_eq!(in_front(None, Some("bfq")), ("bfq", None));
        assert_eq!(in_front(None, Some("none")), ("none", None));
        assert_eq!(in_front(None, None), ("none", None));
        assert_eq!(in_front(None, Some("cfq")), ("none", Some("cfq")));
        assert_eq!(in_front(Some("kyber"), Some("cfq")), ("kyber", None));
    }
}
