// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events, traces and their loss accounting. Needs no kernel and no root.
//!
//! A trace is a directory in the Common Trace Format 1.8: `metadata`, one
//! stream `cpu_N` for each CPU whose records are the kernel's own bytes, and
//! `state` with what the recorder knew besides. [`reader::Trace`] merges them
//! in time order, [`writer::TraceWriter`] makes them.

pub mod ctf;
pub mod event;
pub mod load;
pub mod reader;
pub mod schema;
pub mod units;
pub mod writer;

pub use event::{EventInfo, Record, StateEvent};
pub use schema::{EVENTS, SCHEMA_HASH};

/// Finds an event by its name.
pub fn event_by_name(name: &str) -> Option<&'static EventInfo> {
    EVENTS.iter().find(|e| e.name == name)
}

/// The event sets in the schema's order, without `state`.
pub fn sets() -> Vec<&'static str> {
    let mut sets: Vec<&str> = EVENTS.iter().filter(|e| e.size > 0).map(|e| e.set).collect();
    sets.dedup();
    sets
}
