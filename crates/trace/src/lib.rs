// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events, traces and their loss accounting. Needs no kernel and no root.
//!
//! A trace is a directory in the Common Trace Format 1.8: `metadata`, one
//! stream `cpu_N` for each CPU whose records are the kernel's own bytes, `state`
//! with what the recorder knew besides, and a stream `load_PID_N` for each thread
//! of a workload that tells its operations. [`reader::Trace`] merges them in time
//! order, [`writer::TraceWriter`] and [`load::LoadStream`] make them.
#![warn(missing_docs)]

pub mod calls;
pub mod ctf;
pub mod event;
pub mod kernel;
pub mod load;
mod packer;
pub mod reader;
pub mod schema;
pub mod suggest;
pub mod units;
pub mod writer;

pub use event::{EventInfo, Origin, Record, StateEvent};
pub use schema::{EVENTS, SCHEMA_HASH, SCHEMA_HASHES};

/// Finds an event by its name.
pub fn event_by_name(name: &str) -> Option<&'static EventInfo> {
    EVENTS.iter().find(|e| e.name == name)
}

/// The kernel's events: those that a recording can choose.
pub fn kernel_events() -> impl Iterator<Item = &'static EventInfo> {
    EVENTS.iter().filter(|e| e.origin == Origin::Kernel)
}

/// The sets of the kernel's events in the schema's order.
pub fn sets() -> Vec<&'static str> {
    let mut sets: Vec<&str> = kernel_events().map(|e| e.set).collect();
    sets.dedup();
    sets
}
