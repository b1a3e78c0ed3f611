// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated time: tasks that have a job, an I/O scheduler, a device.
//!
//! Data flows: [`task`] (a job's next request, after its think time) -> [`scheduler`]
//! (merge, sort, hold back) -> a device, as deep as its queue -> completion -> task. What
//! happens goes to an [`Observer`]: figures ([`figures`]), or an ordinary trace
//! ([`trace`]), which explains like a recorded one.
//!
//! Tasks take no CPU time unless a [`Cost`] is told: what a simulation tells is the queue's and the device's doing.

pub mod classes;
pub mod figures;
pub mod observer;
pub mod requests;
pub mod scheduler;
pub mod simulation;
pub mod task;
pub mod trace;

pub use observer::{Observer, Sleep, Woken};
pub use requests::{Class, Hints};
pub use simulation::{Cost, Settings, Simulation, SimulationError};

#[cfg(test)]
mod tests;
