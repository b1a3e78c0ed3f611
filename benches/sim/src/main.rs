// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many requests a second the queue simulator simulates.
//!
//! `plumb-bench-sim RESULTS REQUESTS ROUNDS [MODEL...]` simulates so many random reads of 4 KiB behind each scheduler
//! on each model, at depth 1 and 32, in interleaved rounds, and writes what it took to RESULTS.

use anyhow::{bail, Context, Result};
use plumb_load::job::{Bytes, Job, Order, Through, What};
use plumb_sim::device::server::{Server, Service};
use plumb_sim::device::Device;
use plumb_sim::queue::figures::Figures;
use plumb_sim::queue::scheduler::{Kind, NAMES};
use plumb_sim::queue::simulation::MAX_BYTES;
use plumb_sim::queue::task::Task;
use plumb_sim::queue::{Class, Settings, Simulation};
use plumb_sim::spec::Spec;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

const SIZE: u64 = 1 << 30;
/// The station with a fixed service time, which is no preset.
const FIXED: &str = "fixed service";

fn device(model: &str) -> Result<Box<dyn Device>> {
    if model == FIXED {
        return Ok(Box::new(Server::new(SIZE, 1, Service::Fixed(100_000), 1)));
    }
    Ok(Spec::load(model, &[])?.build(SIZE, 1)?)
}

/// Simulates once; requests a second of wall-clock time.
fn once(model: &str, scheduler: &str, depth: u32, requests: u64) -> Result<f64> {
    let device = device(model)?;
    let through = if depth > 1 { Through::IoUring } else { Through::Pwrite };
    let job = Job {
        what: What::Read,
        order: Order::Random,
        size: Bytes(SIZE),
        operations: Some(requests),
        depth,
        through,
        ..Job::default()
    };
    let tasks = Task::of(&[(job, Class::BestEffort)], SIZE, device.volatile_cache(), 0)?;
    let mut figures = Figures::new(&tasks);
    let kind = Kind::named(scheduler, false)?;
    let settings = Settings { nr_requests: kind.nr_requests(32), max_bytes: MAX_BYTES, depth: 32 };
    let mut simulation = Simulation::new(device, kind.build(0), settings, tasks, vec![false], 0);
    let started = Instant::now();
    simulation.run(&mut figures)?;
    let seconds = started.elapsed().as_secs_f64();
    let served = figures.jobs[0].q2c.count();
    if served != requests {
        bail!("{model}, {scheduler}: {served} requests of {requests}");
    }
    Ok(requests as f64 / seconds)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [results, requests, rounds, only @ ..] = args.as_slice() else {
        bail!("usage: plumb-bench-sim RESULTS REQUESTS ROUNDS [MODEL...]");
    };
    let requests: u64 = requests.parse().context("REQUESTS is a number")?;
    let rounds: usize = rounds.parse().context("ROUNDS is a number")?;
    let models: Vec<String> =
        [FIXED.to_string()].into_iter().chain(Spec::presets().into_iter().map(|s| s.name)).collect();
    let models: Vec<String> = if only.is_empty() { models } else { only.to_vec() };
    let mut cells = Vec::new();
    for model in &models {
        for scheduler in NAMES {
            cells.extend([1, 32].map(|depth| (model.clone(), scheduler, depth, Vec::<f64>::new())));
        }
    }
    for round in 0..rounds {
        for (model, scheduler, depth, rates) in &mut cells {
            rates.push(once(model, scheduler, *depth, requests)?);
        }
        eprintln!("round {} of {rounds} done", round + 1);
    }
    let mut text =
        String::from("| model | scheduler | depth | M requests/s, median (min-max) |\n|---|---|---|---|\n");
    for (model, scheduler, depth, rates) in &mut cells {
        rates.sort_by(f64::total_cmp);
        let million = |rate: Option<&f64>| rate.map_or(0.0, |r| r / 1e6);
        text += &format!(
            "| {model} | {scheduler} | {depth} | {:.2} ({:.2}-{:.2}) |\n",
            million(rates.get(rates.len() / 2)),
            million(rates.first()),
            million(rates.last())
        );
    }
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("?");
    let machine =
        format!("{cpu}, Linux {}, load {}", read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let rows: Vec<_> = cells
        .iter()
        .map(|(model, scheduler, depth, rates)| {
            json!({"model": model, "scheduler": scheduler, "depth": depth, "requests": requests, "rates": rates})
        })
        .collect();
    std::fs::create_dir_all(results)?;
    let raw = serde_json::to_string_pretty(&json!({"machine": machine, "rows": rows}))?;
    std::fs::write(Path::new(results).join("raw.json"), raw + "\n")?;
    let page = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# How fast the queue simulator is\n\nPlan: {requests} \
         random reads of 4 KiB of one task over 1 GiB, closed loop, device queue 32 deep, with all figures; {rounds} \
         interleaved rounds on one CPU; `benches/sim/run.sh` makes all of it.\n\nMachine: {machine}.\n\n{text}"
    );
    std::fs::write(Path::new(results).join("summary.md"), &page)?;
    print!("{page}");
    Ok(())
}
