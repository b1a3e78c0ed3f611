// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What numbers in the rows mean.

use plumb_model::Who;
use plumb_trace::reader::State;
use plumb_trace::units;
use std::collections::HashMap;

/// The run that rows are of, and its names.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Directory of the run, as it was given.
    pub run: String,
    begin: u64,
    names: Vec<String>,
    disks: Vec<(u32, String)>,
    /// Last name of each thread, see [`Context::name`].
    threads: HashMap<u32, u32>,
}

impl Context {
    /// Of a run that began at `begin`, ns CLOCK_MONOTONIC; `state` tells the disks.
    pub fn new(run: &str, begin: u64, state: &State) -> Self {
        let disks = state.disks.iter().map(|d| (d.dev, d.name.clone())).collect();
        Self { run: run.into(), begin, disks, ..Self::default() }
    }

    /// The run's begin, ns CLOCK_MONOTONIC.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// A name got its number.
    pub fn named(&mut self, number: u32, name: &str) {
        let at = number as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, String::new());
        }
        self.names[at].replace_range(.., name);
    }

    /// A disk comes up in the rows that follow.
    pub fn disk_comes(&mut self, dev: u32) {
        if !self.disks.iter().any(|(d, _)| *d == dev) {
            self.disks.push((dev, units::device(dev)));
        }
    }

    /// A thread had this name.
    pub fn thread_is(&mut self, tid: u32, name: u32) {
        self.threads.insert(tid, name);
    }

    /// Name of a number; empty where it was not told.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    /// Last name of a thread of the target; `None` where it has no interval.
    pub fn thread(&self, tid: u32) -> Option<&str> {
        self.threads.get(&tid).map(|n| self.name(*n))
    }

    pub fn disk(&self, dev: u32) -> &str {
        self.disks.iter().find(|(d, _)| *d == dev).map_or("", |(_, name)| name)
    }

    /// Thread's name or disk; `None` for nobody in particular.
    pub fn who(&self, who: Who) -> Option<&str> {
        match who {
            Who::Nobody => None,
            Who::Name(n) => Some(self.name(n)),
            Who::Disk(dev) => Some(self.disk(dev)),
        }
    }
}
