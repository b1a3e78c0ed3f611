// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast the model reads a trace, and in how much memory, whatever its length.
//!
//! `plumb-bench-model PLUMB TRACE SCRATCH RESULTS EVENTS...` repeats a recorded
//! trace, moved in time, until it holds so many events, lets `plumb explain`
//! read it on one CPU (five times each), and writes what it took to RESULTS.

use anyhow::{bail, Context, Result};
use plumb_trace::reader::{Item, Trace};
use plumb_trace::schema::StateEnd;
use plumb_trace::writer::{DirectorySink, TraceWriter};
use serde_json::{json, Value};
use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 5;

/// Writes `source` again and again until `events` are there; returns how many.
fn repeat(source: &Trace, dir: &Path, events: u64) -> Result<u64> {
    let _ = std::fs::remove_dir_all(dir);
    let sink = DirectorySink::create(dir, &source.metadata)?;
    let cpus = source.cpus().iter().max().context("no CPU")? + 1;
    let begin = source.state.clocks.first().context("no clock")?.monotonic;
    let end = source.state.end.as_ref().context("the trace was cut off")?;
    let mut w = TraceWriter::new(sink, cpus, begin);
    w.state(begin, &source.state.clocks[0])?;
    for task in source.state.tasks.iter().filter(|t| !t.told_after_exec()) {
        w.state(begin, task)?;
    }
    source.state.disks.iter().try_for_each(|d| w.state(begin, d))?;
    source.state.stacks.iter().try_for_each(|s| w.state(begin, s))?;
    let mut shift = 0;
    while w.records() < events {
        let mut failed = None;
        let mut buf = [0; 64];
        let summary = source.for_each(|item| {
            if let Item::Record(r) = item {
                let record = &mut buf[..r.bytes.len()];
                record.copy_from_slice(r.bytes);
                record[..8].copy_from_slice(&(r.ts + shift).to_le_bytes());
                failed = failed.take().or(w.record(r.cpu, record).err());
            }
        })?;
        if let Some(e) = failed {
            return Err(e).context("write");
        }
        shift += summary.end - begin + 1000;
    }
    w.state(end.end + shift, &StateEnd { end: end.end + shift, ..end.clone() })?;
    let n = w.records();
    w.finish()?;
    Ok(n)
}

/// Runs `plumb explain` on one CPU: seconds of CPU time and of wall clock, peak MiB.
fn explain(plumb: &str, dir: &Path) -> Result<(f64, f64, f64)> {
    let started = std::time::Instant::now();
    let before = usage();
    let status = Command::new("taskset")
        .args(["-c", "0", plumb, "explain", "--json"])
        .arg(dir)
        .stdout(std::process::Stdio::null())
        .status()?;
    // Copies of a trace have seams; only a failure to read ends the benchmark.
    if status.code() == Some(2) {
        bail!("plumb explain failed on {}", dir.display());
    }
    let after = usage();
    Ok((after.0 - before.0, started.elapsed().as_secs_f64(), after.1))
}

/// CPU seconds of all ended children, and the largest one's peak memory in MiB.
fn usage() -> (f64, f64) {
    // SAFETY: plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as f64 / 1024.0)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [plumb, source, scratch, results, lengths @ ..] = args.as_slice() else {
        bail!("usage: plumb-bench-model PLUMB TRACE SCRATCH RESULTS EVENTS...");
    };
    let trace = Trace::open(Path::new(source))?;
    let dir = Path::new(scratch).join("repeated");
    let mut rows: Vec<Value> = Vec::new();
    let mut text = String::from("| events | M events/s of CPU time, median (min-max) | wall s, median | peak MiB |\n|---|---|---|---|\n");
    for length in lengths {
        let n = repeat(&trace, &dir, length.parse().context("EVENTS is a number")?)?;
        let mut runs: Vec<(f64, f64, f64)> =
            (0..ROUNDS).map(|_| explain(plumb, &dir)).collect::<Result<_>>()?;
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rate = |i: usize| n as f64 / runs[i].0 / 1e6;
        let peak = runs.iter().map(|r| r.2).fold(0.0, f64::max);
        text += &format!(
            "| {n} | {:.1} ({:.1}-{:.1}) | {:.2} | {peak:.0} |\n",
            rate(ROUNDS / 2),
            rate(ROUNDS - 1),
            rate(0),
            runs[ROUNDS / 2].1
        );
        rows.push(json!({"events": n, "runs": runs.iter().map(|(cpu, wall, mib)| json!({"cpu_s": cpu, "wall_s": wall, "peak_mib": mib})).collect::<Vec<_>>()}));
        eprintln!("{n} events done");
    }
    std::fs::remove_dir_all(&dir)?;
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split(": ").nth(1))
        .unwrap_or("?");
    let machine =
        format!("{model}, Linux {}, load {}", read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    std::fs::create_dir_all(results)?;
    std::fs::write(
        Path::new(results).join("raw.json"),
        serde_json::to_string_pretty(&json!({"machine": machine, "rows": rows}))?,
    )?;
    let plan = "Plan: the demo's trace (nine readers, one by one; `make demo`), repeated with its times moved until it has so many\nevents; `plumb explain --json` reads it from the page cache on one CPU, five times each. `benches/model/run.sh` makes all of it.\n";
    let page = format!("<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# How fast the model reads a trace\n\n{plan}\nMachine: {machine}.\n\n{text}\nPeak MiB is the largest process so far, so it can only grow from row to row.\n");
    std::fs::write(Path::new(results).join("summary.md"), &page)?;
    print!("{page}");
    Ok(())
}
