// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Use of disks by a process or a thread: Horikawa's process x disk diagram.

use crate::block::Stamp;
use crate::result::Use;

/// State machine of one process, or one thread, and all disks.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    waiting: u32,
    in_service: u32,
    since: u64,
    sum: Use,
}

impl Disk {
    fn step(&mut self, ts: u64) {
        let dt = ts.saturating_sub(self.since);
        if self.in_service > 0 {
            self.sum.disk_used += dt;
        } else if self.waiting > 0 {
            self.sum.disk_wait += dt;
        }
        self.since = self.since.max(ts);
    }

    /// A request of the process waits; it waited `before` for its slot, ns.
    pub fn queued(&mut self, ts: u64, before: u64) {
        self.step(ts);
        if self.waiting == 0 && self.in_service == 0 {
            self.sum.disk_wait += before;
        }
        self.waiting += 1;
    }

    /// A request that waited is no more.
    pub fn unqueued(&mut self, ts: u64) {
        self.step(ts);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A request is in flight; `counted` when it was counted as waiting.
    pub fn issued(&mut self, ts: u64, counted: bool) {
        self.step(ts);
        self.waiting = self.waiting.saturating_sub(u32::from(counted));
        self.in_service += 1;
    }

    /// A request came back from the driver.
    pub fn requeued(&mut self, ts: u64) {
        self.step(ts);
        self.in_service = self.in_service.saturating_sub(1);
        self.waiting += 1;
    }

    pub fn completed(&mut self, ts: u64, stamp: &Stamp) {
        self.step(ts);
        if stamp.len == 0 {
            // Counted as waiting since its slot; the kernel's own flush was issued for it.
            self.waiting = self.waiting.saturating_sub(1);
            self.sum.flushes += 1;
            return;
        }
        self.in_service = self.in_service.saturating_sub(1);
        if !stamp.moves_data() {
            return;
        }
        let [q, .., d, c] = stamp.steps();
        self.sum.accesses += 1;
        self.sum.writes += u64::from(stamp.is_write());
        self.sum.bytes += u64::from(stamp.len);
        self.sum.service += c - d;
        self.sum.response += c - q;
    }

    /// A request is in flight no more, and its end was not seen.
    pub fn ended_unseen(&mut self, ts: u64) {
        self.step(ts);
        self.in_service = self.in_service.saturating_sub(1);
    }

    /// Nothing is recorded from `ts` on: what is open ends unseen.
    pub fn pause(&mut self, ts: u64) {
        self.step(ts);
        (self.waiting, self.in_service) = (0, 0);
    }

    /// What it adds up to at `ts`.
    pub fn until(&self, ts: u64) -> Use {
        let mut disk = self.clone();
        disk.step(ts);
        disk.sum
    }

    /// Requests with data that completed.
    pub fn accesses(&self) -> u64 {
        self.sum.accesses
    }
}
