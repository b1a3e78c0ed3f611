// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb sim`: a load on a model of a device, in simulated time.
//!
//! Data flows: options -> [`Experiment`] ([`plumb_replay`] makes tasks of a recorded trace) -> its steps, one after the other on
//! one device -> `show` or JSON, and a trace. `sweep` and `tune` simulate the same for several settings of the
//! scheduler; `chart` draws.

mod chart;
mod show;
mod sweep;
pub mod tune;

use crate::cli::{SimArgs, Simulated};
use anyhow::{bail, Context, Result};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_sim::device::Ns;
use plumb_sim::experiment::{step, Experiment, StepOutcome, TIMELINE_STEP};
use plumb_sim::measured::MeasuredTable;
use plumb_sim::queue::classes::NAMES;
use plumb_sim::replay::Replay;
use plumb_sim::sweep::{parsed, COMPARED};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, Serialize)]
struct Outcome {
    plumb: &'static str,
    arguments: Vec<String>,
    model: String,
    disk_size: u64,
    sim_seed: u64,
    scheduler: String,
    knobs: Vec<String>,
    depth_of_device: usize,
    nr_requests: usize,
    max_request: u32,
    /// CPU time of an operation, and of each KiB of it, ns.
    cpu_ns: [Ns; 2],
    /// The recording that was done again.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Replay>,
    steps: Vec<StepOutcome>,
}

impl Output for Outcome {
    const FORMAT: &'static Format = &formats::SIM;
}

/// Runs the command.
///
/// # Errors
/// A sentence that names model, option or path, and the next step.
pub fn main(args: &SimArgs) -> Result<ExitCode> {
    let mut experiment = self::experiment(&args.of, &args.of.scheduler)?;
    can_be_written(args, &experiment)?;
    if let Some(knob) = &args.sweep {
        sweep::main(args, &experiment, knob)?;
        return Ok(ExitCode::SUCCESS);
    }
    let model = || format!("model {}", args.of.model);
    let mut device = experiment.spec.build(experiment.size, args.of.sim_seed).with_context(model)?;
    let mut outcome = Outcome {
        plumb: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        model: experiment.spec.name.clone(),
        disk_size: experiment.size,
        sim_seed: args.of.sim_seed,
        scheduler: experiment.scheduler.name().into(),
        knobs: experiment.scheduler.shown(),
        depth_of_device: experiment.settings.depth,
        nr_requests: experiment.settings.nr_requests,
        max_request: experiment.settings.max_bytes,
        cpu_ns: [experiment.cost.operation, experiment.cost.per_kib],
        from: None,
        steps: Vec::new(),
    };
    let mut now = 0;
    for step in 0..experiment.steps.len() {
        let done = self::step(&experiment, step, device, now, args.output.as_deref())?;
        if let Some(dir) = &args.charts {
            let title = format!("{} behind {}", experiment.spec.name, experiment.scheduler.name());
            let beside = args.beside.as_deref().map(MeasuredTable::read).transpose()?;
            chart::timeline(dir, &title, TIMELINE_STEP, done.classes.timeline(), beside.as_ref())?;
        }
        outcome.steps.push(done.outcome);
        (device, now) = (done.device, done.end);
    }
    outcome.from = experiment.replay.take();
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &outcome)?;
    } else {
        show::write(&outcome, &mut out)?;
        if let Some(dir) = &args.output {
            writeln!(out, "trace: {} (plumb explain {0} says where the time went)", dir.display())?;
        }
        if let Some(dir) = &args.charts {
            writeln!(out, "{}", chart::told(dir, &chart::TIMELINE))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The experiment of a command line, behind the scheduler of this name.
///
/// # Errors
/// An unknown model, knob or key, a value that cannot be, or a recording that cannot be done again; named.
fn experiment(args: &Simulated, scheduler: &str) -> Result<Experiment> {
    let mut experiment = Experiment::behind(scheduler, &args.of_experiment())?;
    let Some(dir) = &args.from else { return Ok(experiment) };
    if let Some(key) = args.job.given.keys().next() {
        bail!("--{key}: with --from the requests are those of the trace; leave out the job's options");
    }
    experiment.replay(plumb_replay::requests::read(dir, args.from_disk.as_deref(), args.max_request.0)?)?;
    Ok(experiment)
}

/// Looks, before anything is simulated, whether the trace and the charts that are asked for can be.
fn can_be_written(args: &SimArgs, experiment: &Experiment) -> Result<()> {
    let steps = experiment.steps.len();
    if let Some(dir) = &args.output {
        if experiment.replay.is_some() {
            bail!("-o: the threads of --from make no system calls that a trace could hold; leave it out");
        }
        if experiment.cost.operation + experiment.cost.per_kib > 0 {
            bail!("-o: a trace has no CPU time of tasks; leave out --cpu-per-operation and --cpu-per-kib");
        }
        if steps > 1 {
            bail!("{}: a trace holds one step, and the job file has {steps}; leave out -o", dir.display());
        }
    }
    if (args.sweep.is_some() || args.charts.is_some()) && steps > 1 {
        bail!("--sweep and --charts are of one step, and the job file has {steps}");
    }
    if let Some(dir) = &args.charts {
        chart::room(dir, if args.sweep.is_some() { &chart::SWEEP } else { &chart::TIMELINE })?;
    }
    can_be_compared(args)
}

/// Looks, before anything is simulated, whether --beside names figures of what is simulated.
///
/// # Errors
/// It cannot be read, goes by something else, or has no figure that a simulation has too; named.
fn can_be_compared(args: &SimArgs) -> Result<()> {
    let Some(path) = &args.beside else { return Ok(()) };
    let beside = MeasuredTable::read(path)?;
    let fits = match &args.sweep {
        Some(text) => beside.fits(&parsed(text)?.0, "--sweep goes by", &COMPARED),
        None => {
            let figures = NAMES.map(|class| format!("{class}_mib_per_s"));
            beside.fits("seconds", "a chart without --sweep goes by", &figures.each_ref().map(String::as_str))
        }
    };
    fits.with_context(|| format!("--beside {}", path.display()))
}
