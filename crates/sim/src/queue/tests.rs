// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds of the queue as a whole: theory, laws of the schedulers, nothing lost.

mod laws;
mod ledger;
mod load;
mod low;
mod schedulers;
mod theory;
mod traces;

use super::figures::Figures;
use super::observer::Observer;
use super::scheduler::Kind;
use super::simulation::{Cost, Settings, Simulation, SimulationError};
use super::task::Task;
use super::Class;
use crate::device::server::{Server, Service};
use crate::device::{Device, Ns};
use plumb_load::job::{Bytes, Job, Order, Through, Time, What};

/// So large that random places hardly ever touch.
const SIZE: u64 = 1 << 42;
const MS: Ns = 1_000_000;

/// Random reads of 4 KiB all over the device.
fn reads() -> Job {
    Job { what: What::Read, order: Order::Random, size: Bytes(SIZE), ..Job::default() }
}

/// So many at once, through a queue.
fn deep(job: Job, depth: u32) -> Job {
    Job { depth, through: Through::IoUring, ..job }
}

fn for_time(job: Job, ns: Ns) -> Job {
    Job { time: Some(Time(ns)), ..job }
}

fn fixed(servers: usize, ns: Ns) -> Box<dyn Device> {
    Box::new(Server::new(SIZE, servers, Service::Fixed(ns), 1))
}

fn settings(depth: usize) -> Settings {
    Settings { nr_requests: 1 << 20, max_bytes: 1 << 20, depth }
}

/// Runs jobs of the usual class, with an observer beside the figures.
fn watched<O: Observer>(
    device: Box<dyn Device>,
    kind: Kind,
    settings: Settings,
    jobs: &[(Job, Class)],
    observer: &mut O,
) -> Result<(Figures, Ns), SimulationError> {
    costly(device, kind, settings, jobs, Cost::default(), observer)
}

/// The same where operations take CPU time.
fn costly<O: Observer>(
    device: Box<dyn Device>,
    kind: Kind,
    settings: Settings,
    jobs: &[(Job, Class)],
    cost: Cost,
    observer: &mut O,
) -> Result<(Figures, Ns), SimulationError> {
    let tasks = Task::of(jobs, device.size(), device.volatile_cache(), 0).expect("jobs that a device can do");
    let stonewalls = jobs.iter().map(|(job, _)| job.stonewall).collect();
    let mut figures = Figures::new(&tasks);
    let mut simulation =
        Simulation::new(device, kind.build(0), settings, tasks, stonewalls, 0).with_cost(cost);
    let end = simulation.run(&mut (&mut figures, observer))?;
    figures.finish(end);
    Ok((figures, end))
}

fn run(device: Box<dyn Device>, kind: Kind, settings: Settings, jobs: &[Job]) -> Figures {
    let jobs: Vec<_> = jobs.iter().map(|job| (job.clone(), Class::BestEffort)).collect();
    watched(device, kind, settings, &jobs, &mut ()).expect("it comes to its end").0
}

fn named(name: &str, knobs: &[&str]) -> Kind {
    let mut kind = Kind::named(name, false).expect("a scheduler");
    knobs.iter().for_each(|knob| kind.set(knob).expect("a knob"));
    kind
}
