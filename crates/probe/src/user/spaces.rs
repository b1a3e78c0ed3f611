// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every process has mapped to execute: told by the kernel as it happens
//! (PERF_RECORD_MMAP2, FORK, COMM with exec, EXIT), and by /proc for those that were
//! there before.

use super::{Modules, Registers, UserStack};

/// Address spaces of all processes.
#[derive(Debug, Default)]
pub struct Spaces {
    /// The modules met so far.
    pub modules: Modules,
}

impl Spaces {
    /// Begins to listen on all CPUs. Where the kernel refuses, /proc alone is asked, and
    /// [`Spaces::lacking`] says so.
    pub fn start(_cpus: u32) -> Self {
        Self::default()
    }

    /// Takes in what the kernel told since the last call. Must be called before stacks
    /// that are younger than it are walked.
    pub fn update(&mut self) {}

    /// Walks a stack that process `pid` had at `at` (ns, CLOCK_MONOTONIC); `copy` is its
    /// memory from `sp` on.
    pub fn walk(&mut self, _at: u64, _pid: u32, _registers: Registers, _copy: &[u8]) -> UserStack {
        UserStack { frames: Vec::new(), end: super::End::NoRule }
    }

    /// What makes maps less certain, a sentence each: no permission for the kernel's
    /// records, records lost.
    pub fn lacking(&self) -> Vec<String> {
        Vec::new()
    }
}
