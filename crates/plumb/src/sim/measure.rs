// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One simulation of what a sweep varies: what each class got.

use super::plan::Plan;
use anyhow::{Context, Result};
use plumb_sim::device::{Device, Ns};
use plumb_sim::queue::classes::{ClassReport, Classes, Pieces};
use plumb_sim::queue::observer::Observer;
use plumb_sim::queue::requests::{Bio, Request};
use plumb_sim::queue::scheduler::Kind;
use plumb_sim::queue::task::{Op, Task};
use plumb_sim::queue::{Class, Simulation};

/// A step of a timeline, ns: the paper's figure has 100 ms.
pub const STEP: Ns = 100_000_000;

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
            false => Watch::Jobs(Classes::of_tasks(tasks, STEP)),
        }
    }

    pub fn classes(self) -> Classes {
        match self {
            Watch::Jobs(classes) => classes,
            Watch::Recorded(from, pieces) => pieces.classes(from, STEP),
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

/// What a simulation came to.
pub struct Measured {
    classes: Vec<ClassReport>,
}

impl Measured {
    /// The class that is called so, if it had requests.
    pub fn class(&self, idle: bool) -> Option<&ClassReport> {
        let name = plumb_sim::queue::classes::NAMES[usize::from(idle)];
        self.classes.iter().find(|c| c.class == name)
    }

    /// 99th percentile of the normal requests from queued to completed, ns.
    pub fn normal_p99(&self) -> Option<Ns> {
        // Of less than a hundred the longest stands for it.
        self.class(false).and_then(|c| c.q2c.p99.or(c.q2c.max))
    }

    /// Bytes a second of the idle class; 0 where it had none.
    pub fn idle_bandwidth(&self) -> f64 {
        self.class(true).map_or(0.0, |c| c.bandwidth)
    }
}

/// Simulates the plan's only step on a new device behind `scheduler`; `idle` says whether the idle class
/// takes part.
///
/// # Errors
/// The model's and the simulation's.
pub fn measure(plan: &Plan, scheduler: &Kind, idle: bool, sim_seed: u64) -> Result<Measured> {
    if let Some(replay) = &plan.replay {
        let tasks = if idle { replay.tasks(0) } else { replay.without_idle() };
        return simulate(plan, scheduler, device(plan, sim_seed)?, tasks, vec![false]);
    }
    measure_jobs(plan, scheduler, |class| idle || class != Class::Idle, sim_seed)
}

/// The same with the idle class alone: what it can have of the device. None where nothing tells, of a recording: its idle
/// tasks went as fast as the normal ones let them.
///
/// # Errors
/// As `measure`.
pub fn measure_idle_alone(plan: &Plan, scheduler: &Kind, sim_seed: u64) -> Result<Option<Measured>> {
    match plan.replay {
        Some(_) => Ok(None),
        None => measure_jobs(plan, scheduler, |class| class == Class::Idle, sim_seed).map(Some),
    }
}

fn measure_jobs(plan: &Plan, scheduler: &Kind, part: impl Fn(Class) -> bool, seed: u64) -> Result<Measured> {
    let jobs = plan.steps.iter().flat_map(|(_, jobs)| jobs);
    let jobs: Vec<_> = jobs.filter(|(_, class)| part(*class)).cloned().collect();
    let walls = jobs.iter().map(|(job, _)| job.stonewall).collect();
    let device = device(plan, seed)?;
    let tasks = Task::of(&jobs, plan.size, device.volatile_cache(), 0)?;
    simulate(plan, scheduler, device, tasks, walls)
}

fn device(plan: &Plan, seed: u64) -> Result<Box<dyn Device>> {
    plan.spec.build(plan.size, seed).with_context(|| format!("model {}", plan.spec.name))
}

fn simulate(
    plan: &Plan,
    kind: &Kind,
    device: Box<dyn Device>,
    tasks: Vec<Task>,
    walls: Vec<bool>,
) -> Result<Measured> {
    let mut watch = Watch::of(&tasks, plan.replay.is_some(), 0);
    let mut simulation =
        Simulation::new(device, kind.build(0), plan.settings, tasks, walls, 0).with_cost(plan.cost);
    simulation.run(&mut watch)?;
    Ok(Measured { classes: watch.classes().report() })
}
