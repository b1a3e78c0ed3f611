// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One simulation of what a sweep varies: what each class got.

use super::step::Watch;
use super::Experiment;
use crate::device::{Device, Ns};
use crate::queue::classes::{self, ClassReport};
use crate::queue::scheduler::Kind;
use crate::queue::task::Task;
use crate::queue::{Class, Simulation};
use anyhow::{Context, Result};

/// What a simulation came to.
pub struct Measured {
    classes: Vec<ClassReport>,
}

impl Measured {
    /// The class that is called so, if it had requests.
    pub fn class(&self, idle: bool) -> Option<&ClassReport> {
        let name = classes::NAMES[usize::from(idle)];
        self.classes.iter().find(|c| c.class == name)
    }

    /// 99th percentile of the foreground requests from queued to completed, ns.
    pub fn normal_p99(&self) -> Option<Ns> {
        // Of less than a hundred the longest stands for it.
        self.class(false).and_then(|c| c.q2c.p99.or(c.q2c.max))
    }

    /// Bytes a second of the idle class; 0 where it had none.
    pub fn idle_bandwidth(&self) -> f64 {
        self.class(true).map_or(0.0, |c| c.bandwidth)
    }
}

/// Simulates the only step on a new device behind `scheduler`; `idle` says whether the idle class
/// takes part.
///
/// # Errors
/// The model's and the simulation's.
pub fn measure(experiment: &Experiment, scheduler: &Kind, idle: bool) -> Result<Measured> {
    if let Some(replay) = &experiment.replay {
        let tasks = if idle { replay.tasks(0) } else { replay.without_idle() };
        return simulate(experiment, scheduler, device(experiment)?, tasks, vec![false]);
    }
    measure_jobs(experiment, scheduler, |class| idle || class != Class::Idle)
}

/// The same with the idle class alone: what it can have of the device. None where nothing tells, of a recording:
/// its idle tasks went as fast as the foreground requests let them.
///
/// # Errors
/// As `measure`.
pub fn measure_idle_alone(experiment: &Experiment, scheduler: &Kind) -> Result<Option<Measured>> {
    match experiment.replay {
        Some(_) => Ok(None),
        None => measure_jobs(experiment, scheduler, |class| class == Class::Idle).map(Some),
    }
}

fn measure_jobs(experiment: &Experiment, scheduler: &Kind, part: impl Fn(Class) -> bool) -> Result<Measured> {
    let jobs = experiment.steps.iter().flat_map(|(_, jobs)| jobs);
    let jobs: Vec<_> = jobs.filter(|(_, class)| part(*class)).cloned().collect();
    let walls = jobs.iter().map(|(job, _)| job.stonewall).collect();
    let device = device(experiment)?;
    let tasks = Task::of(&jobs, experiment.size, device.volatile_cache(), 0)?;
    simulate(experiment, scheduler, device, tasks, walls)
}

fn device(experiment: &Experiment) -> Result<Box<dyn Device>> {
    experiment
        .spec
        .build(experiment.size, experiment.seed)
        .with_context(|| format!("model {}", experiment.spec.name))
}

fn simulate(
    experiment: &Experiment,
    kind: &Kind,
    device: Box<dyn Device>,
    tasks: Vec<Task>,
    walls: Vec<bool>,
) -> Result<Measured> {
    let mut watch = Watch::of(&tasks, experiment.replay.is_some(), 0);
    let mut simulation = Simulation::new(device, kind.build(0), experiment.settings, tasks, walls, 0)
        .with_cost(experiment.cost);
    simulation.run(&mut watch)?;
    Ok(Measured { classes: watch.classes().report() })
}
