// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of an experiment: what it came to, by class and job.

use super::{notes, Experiment};
use crate::device::{Device, Ns};
use crate::queue::classes::{ClassReport, Classes, Pieces};
use crate::queue::figures::{Figures, Report};
use crate::queue::observer::Observer;
use crate::queue::requests::{Bio, Request};
use crate::queue::task::{Op, Task};
use crate::queue::trace::{About, Tracer};
use crate::queue::Simulation;
use anyhow::{bail, Context, Result};
use plumb_load::job::{text, Job};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A step of a timeline, ns: the paper's figure has 100 ms.
pub const TIMELINE_STEP: Ns = 100_000_000;

/// Sees what each class gets.
pub enum Watch {
    /// Of jobs, whose common time is known.
    Jobs(Classes),
    Recorded(Ns, Pieces),
}

impl Watch {
    /// Of these tasks, from `now` on.
    pub fn of(tasks: &[Task], recorded: bool, now: Ns) -> Watch {
        match recorded {
            true => Watch::Recorded(now, Pieces::default()),
            false => Watch::Jobs(Classes::of_tasks(tasks, TIMELINE_STEP)),
        }
    }

    pub fn classes(self) -> Classes {
        match self {
            Watch::Jobs(classes) => classes,
            Watch::Recorded(from, pieces) => pieces.classes(from, TIMELINE_STEP),
        }
    }
}

impl Observer for Watch {
    fn operation_ends(&mut self, now: Ns, task: u32, op: &Op) {
        if let Watch::Jobs(classes) = self {
            classes.operation_ends(now, task, op);
        }
    }

    fn piece_ends(&mut self, now: Ns, number: u32, bio: &Bio, request: &Request) {
        match self {
            Watch::Jobs(classes) => classes.piece_ends(now, number, bio, request),
            Watch::Recorded(_, pieces) => pieces.piece_ends(now, number, bio, request),
        }
    }
}

/// What a step came to.
#[derive(Debug, Serialize)]
pub struct StepOutcome {
    pub label: String,
    /// Options of its jobs as they were simulated; `jobs` has their figures.
    #[serde(rename = "job_options")]
    pub jobs: Vec<Job>,
    /// Operations of an open loop that were never begun, of all jobs.
    pub never_begun: u64,
    /// Events in the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<u64>,
    /// What of the options made no difference.
    pub notes: Vec<String>,
    /// What each class got in the time that all have in common.
    pub classes: Vec<ClassReport>,
    /// That time, ns.
    pub common_ns: Ns,
    /// The same as it was recorded, of what was done again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<ClassReport>,
    /// That one's common time, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub recorded_common_ns: Ns,
    /// What the scheduler counts of its decisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub decisions: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    pub report: Report,
}

fn is_zero(ns: &Ns) -> bool {
    *ns == 0
}

/// A step that was simulated, and what the next one begins with.
pub struct Step {
    pub outcome: StepOutcome,
    pub classes: Classes,
    /// When it ended.
    pub end: Ns,
    pub device: Box<dyn Device>,
}

/// Simulates one step from `now` on, on a device that the step before left; `trace`: the directory of an ordinary
/// trace of it.
///
/// # Errors
/// The simulation's, or the trace cannot be written.
pub fn step(
    experiment: &Experiment,
    number: usize,
    device: Box<dyn Device>,
    now: Ns,
    trace: Option<&Path>,
) -> Result<Step> {
    let (label, jobs) = &experiment.steps[number];
    let named = || label.clone();
    let tasks = match &experiment.replay {
        Some(replay) => replay.tasks(now),
        None => Task::of(jobs, experiment.size, device.volatile_cache(), now).with_context(named)?,
    };
    let jobs: Vec<Job> = jobs.iter().map(|(job, _)| job.clone()).collect();
    let stonewalls: Vec<bool> = jobs.iter().map(|j| j.stonewall).collect();
    let mut figures = Figures::new(&tasks);
    let mut tracer = match trace {
        Some(dir) => Some(tracer(dir, experiment, &jobs, &tasks)?),
        None => None,
    };
    let mut watch = Watch::of(&tasks, experiment.replay.is_some(), now);
    let scheduler = experiment.scheduler.build(now);
    let mut simulation = Simulation::new(device, scheduler, experiment.settings, tasks, stonewalls, now)
        .with_cost(experiment.cost);
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
    let notes = notes::of(experiment, number, &report.device);
    let classes = watch.classes();
    let recorded = experiment.replay.as_ref().map(|r| r.classes(TIMELINE_STEP));
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
    Ok(Step { outcome: done, classes, end, device: simulation.into_device() })
}

fn tracer(dir: &Path, experiment: &Experiment, jobs: &[Job], tasks: &[Task]) -> Result<Tracer> {
    let facts = [
        ("sim_seed", experiment.seed.to_string()),
        ("seed", jobs.iter().map(|j| j.seed.to_string()).collect::<Vec<_>>().join(",")),
        ("disk_size", experiment.size.to_string()),
        ("depth_of_device", experiment.settings.depth.to_string()),
        ("nr_requests", experiment.settings.nr_requests.to_string()),
        ("max_request", experiment.settings.max_bytes.to_string()),
        ("scheduler_knobs", experiment.scheduler.shown().join(" ")),
        ("target", jobs.iter().map(text::options).collect::<Vec<_>>().join("; ")),
    ];
    let about = About {
        model: experiment.spec.name.clone(),
        rotational: experiment.spec.rotational(),
        scheduler: experiment.scheduler.name().into(),
        nr_requests: experiment.settings.nr_requests as u32,
        environment: facts.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
    };
    let taken = |name: &str| dir.join(name).exists();
    if taken("metadata") || taken("trace") || taken("run.json") {
        bail!("{}: holds a trace or a run already; choose another directory with -o", dir.display());
    }
    Tracer::create(dir, &about, jobs, tasks).with_context(|| format!("trace {}", dir.display()))
}
