// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb sim`: a load on a model of a device, in simulated time.
//!
//! Data flows: options -> `plan` (model, scheduler, steps) -> plumb_sim::queue, a step after the other on one
//! device -> `show` or JSON, with `notes`, and a trace. `from` makes tasks of a recorded trace; `sweep` and `tune`
//! simulate the same (`measure`) for several settings of the scheduler; `chart` draws, `beside` what was measured too.

mod chart;
mod from;
mod measure;
mod measured;
mod notes;
mod plan;
mod show;
mod sweep;
pub mod tune;

use crate::cli::SimArgs;
use anyhow::{bail, Context, Result};
use measure::Watch;
use plan::Plan;
use plumb_load::job::Job;
use plumb_sim::device::{Device, Ns};
use plumb_sim::queue::classes::{ClassReport, Classes};
use plumb_sim::queue::figures::{Figures, Report};
use plumb_sim::queue::task::Task;
use plumb_sim::queue::trace::{About, Tracer};
use plumb_sim::queue::Simulation;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// What a step came to.
#[derive(Debug, Serialize)]
struct StepOutcome {
    label: String,
    /// Its jobs as they were simulated.
    jobs: Vec<Job>,
    /// Operations of an open loop that were never begun, of all jobs.
    never_begun: u64,
    /// Events in the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_events: Option<u64>,
    /// What of the options made no difference.
    notes: Vec<String>,
    /// What each class got in the time that all have in common.
    classes: Vec<ClassReport>,
    /// That time, ns.
    common_ns: Ns,
    /// The same as it was recorded, of what was done again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recorded: Vec<ClassReport>,
    /// That one's common time, ns.
    #[serde(skip_serializing_if = "is_zero")]
    recorded_common_ns: Ns,
    /// What the scheduler counts of its decisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    decisions: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    report: Report,
}

fn is_zero(ns: &Ns) -> bool {
    *ns == 0
}

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
    from: Option<from::Replay>,
    steps: Vec<StepOutcome>,
}

/// Runs the command.
///
/// # Errors
/// A sentence that names model, option or path, and the next step.
pub fn main(args: &SimArgs) -> Result<ExitCode> {
    let mut plan = Plan::of(&args.of)?;
    can_be_written(args, &plan)?;
    if let Some(knob) = &args.sweep {
        sweep::main(args, &plan, knob)?;
        return Ok(ExitCode::SUCCESS);
    }
    let model = || format!("model {}", args.of.model);
    let mut device = plan.spec.build(plan.size, args.of.sim_seed).with_context(model)?;
    let mut outcome = Outcome {
        plumb: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        model: plan.spec.name.clone(),
        disk_size: plan.size,
        sim_seed: args.of.sim_seed,
        scheduler: plan.scheduler.name().into(),
        knobs: plan.scheduler.shown(),
        depth_of_device: plan.settings.depth,
        nr_requests: plan.settings.nr_requests,
        max_request: plan.settings.max_bytes,
        cpu_ns: [plan.cost.operation, plan.cost.per_kib],
        from: None,
        steps: Vec::new(),
    };
    let mut now = 0;
    for step in 0..plan.steps.len() {
        let (done, end, back) = run_step(&plan, step, device, now, args)?;
        outcome.steps.push(done);
        (device, now) = (back, end);
    }
    outcome.from = plan.replay.take();
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &outcome)?;
        writeln!(out)?;
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

/// Looks, before anything is simulated, whether the trace and the charts that are asked for can be.
fn can_be_written(args: &SimArgs, plan: &Plan) -> Result<()> {
    let steps = plan.steps.len();
    if let Some(dir) = &args.output {
        if plan.replay.is_some() {
            bail!("-o: the threads of --from make no system calls that a trace could hold; leave it out");
        }
        if plan.cost.operation + plan.cost.per_kib > 0 {
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
    measured::check(args)
}

/// One step from `now` on; returns when it ended, and the device.
fn run_step(
    plan: &Plan,
    number: usize,
    device: Box<dyn Device>,
    now: Ns,
    args: &SimArgs,
) -> Result<(StepOutcome, Ns, Box<dyn Device>)> {
    let (label, jobs) = &plan.steps[number];
    let named = || label.clone();
    let tasks = match &plan.replay {
        Some(replay) => replay.tasks(now),
        None => Task::of(jobs, plan.size, device.volatile_cache(), now).with_context(named)?,
    };
    let jobs: Vec<Job> = jobs.iter().map(|(job, _)| job.clone()).collect();
    let stonewalls: Vec<bool> = jobs.iter().map(|j| j.stonewall).collect();
    let mut figures = Figures::new(&tasks);
    let mut tracer = match &args.output {
        Some(dir) => Some(tracer(dir, plan, args, &jobs, &tasks)?),
        None => None,
    };
    let mut watch = Watch::of(&tasks, plan.replay.is_some(), now);
    let scheduler = plan.scheduler.build(now);
    let mut simulation =
        Simulation::new(device, scheduler, plan.settings, tasks, stonewalls, now).with_cost(plan.cost);
    let end = match &mut tracer {
        Some(tracer) => simulation.run(&mut (&mut (&mut figures, &mut watch), tracer)),
        None => simulation.run(&mut (&mut figures, &mut watch)),
    }
    .with_context(named)?;
    figures.finish(end);
    let trace_events = match tracer {
        Some(tracer) => Some(tracer.finish(end).context("trace")?),
        None => None,
    };
    let never_begun = simulation.tasks().iter().map(|t| t.never_begun).sum();
    let report = figures.report();
    let notes = notes::of(plan, number, &report.device);
    let classes = watch.classes();
    if let Some(dir) = &args.charts {
        let title = format!("{} behind {}", plan.spec.name, plan.scheduler.name());
        let beside = args.beside.as_deref().map(measured::MeasuredTable::read).transpose()?;
        chart::timeline(dir, &title, measure::STEP, classes.timeline(), beside.as_ref())?;
    }
    let recorded = plan.replay.as_ref().map(|r| r.classes(measure::STEP));
    let done = StepOutcome {
        label: label.clone(),
        jobs,
        never_begun,
        trace_events,
        notes,
        classes: classes.report(),
        common_ns: classes.elapsed(),
        recorded: recorded.as_ref().map(Classes::report).unwrap_or_default(),
        recorded_common_ns: recorded.as_ref().map_or(0, Classes::elapsed),
        decisions: simulation.scheduler().decisions().into_iter().collect(),
        report,
    };
    Ok((done, end, simulation.into_device()))
}

fn tracer(dir: &Path, plan: &Plan, args: &SimArgs, jobs: &[Job], tasks: &[Task]) -> Result<Tracer> {
    let facts = [
        ("sim_seed", args.of.sim_seed.to_string()),
        ("seed", jobs.iter().map(|j| j.seed.to_string()).collect::<Vec<_>>().join(",")),
        ("disk_size", plan.size.to_string()),
        ("depth_of_device", plan.settings.depth.to_string()),
        ("nr_requests", plan.settings.nr_requests.to_string()),
        ("max_request", plan.settings.max_bytes.to_string()),
        ("scheduler_knobs", plan.scheduler.shown().join(" ")),
        ("target", jobs.iter().map(crate::load::options).collect::<Vec<_>>().join("; ")),
    ];
    let about = About {
        model: plan.spec.name.clone(),
        rotational: plan.spec.rotational(),
        scheduler: plan.scheduler.name().into(),
        nr_requests: plan.settings.nr_requests as u32,
        environment: facts.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
    };
    let taken = |name: &str| dir.join(name).exists();
    if taken("metadata") || taken("trace") || taken("run.json") {
        bail!("{}: holds a trace or a run already; choose another directory with -o", dir.display());
    }
    Tracer::create(dir, &about, jobs, tasks).with_context(|| format!("trace {}", dir.display()))
}
