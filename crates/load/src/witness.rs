// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time went, without root: counters that the kernel keeps anyway,
//! read before and after a run.
//!
//! - `counters`: one reading of everything.
//! - `own`: what a worker thread reads about itself, just before and after its work.
//! - `evidence`: two readings and the difference.
//! - `attribution`: the operations' latency in parts that exclude each other.

mod attribution;
mod counters;
mod evidence;
mod thread_counters;

pub use attribution::{attribution, Attribution, Totals};
pub use counters::{CgroupCounters, DeviceCounters, Machine, Snapshot, Stalled, ThreadTimes};
pub use evidence::{Delta, DeviceDelta, Evidence};
pub use thread_counters::{own_times, OwnTimes};

use plumb_machine::{DeviceNumber, Root};

/// Watches a run from beside it.
#[derive(Debug)]
pub struct Witness {
    root: Root,
    pids: Vec<u32>,
    devices: Vec<DeviceNumber>,
    begin: Snapshot,
    /// The last sight of each thread, since one that ended cannot be asked again.
    threads: Vec<ThreadTimes>,
}

impl Witness {
    /// Reads every counter: of all threads of the processes `pids`, and of
    /// `devices` (`st_dev` or `st_rdev`; those of
    /// [`plumb_machine::devices_under`], top and below).
    pub fn begin(pids: &[u32], devices: &[libc::dev_t]) -> Witness {
        let devices = devices.iter().map(|d| DeviceNumber::from_dev_t(*d)).collect();
        Witness::begin_in(pids, devices, Root::real())
    }

    fn begin_in(pids: &[u32], devices: Vec<DeviceNumber>, root: Root) -> Witness {
        let begin = Snapshot::take(pids, &devices, &root);
        Witness { pids: pids.to_vec(), threads: begin.threads.clone(), root, devices, begin }
    }

    /// Takes in a process that was started after [`Witness::begin`].
    pub fn watch(&mut self, pid: u32) {
        if !self.pids.contains(&pid) {
            self.pids.push(pid);
        }
        self.sample();
    }

    /// Reads the threads' times again. Call it while they live: a thread's times
    /// after its last sample are lost, unless it hands in its own ([`own_times`]).
    pub fn sample(&mut self) {
        let now = counters::threads(&self.pids, &self.root);
        for seen in now {
            match self.threads.iter_mut().find(|t| (t.pid, t.tid) == (seen.pid, seen.tid)) {
                Some(known) => *known = seen,
                None => self.threads.push(seen),
            }
        }
    }

    /// Reads every counter once more.
    pub fn end(mut self) -> Evidence {
        self.sample();
        let mut end = Snapshot::take(&[], &self.devices, &self.root);
        end.threads = self.threads;
        Evidence::between(self.begin, end)
    }
}

#[cfg(test)]
mod tests;
