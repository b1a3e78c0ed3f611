// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wakeups of many threads where one was meant.

use crate::result::HerdResult;

/// Wakeups by one thread within this time belong to one herd, ns.
const SPAN: u64 = 300_000;
/// So many at once are a herd.
const LEAST: u32 = 4;

#[derive(Debug, Default)]
pub struct Herds {
    last: Option<(u32, u64)>,
    /// Who was woken in the present herd.
    members: Vec<usize>,
    pub found: HerdResult,
}

impl Herds {
    /// A thread wakes another, whose place is `wakee`; true where that one is one of many.
    pub fn woken(&mut self, waker: u32, wakee: usize, ts: u64) -> bool {
        if !self.last.is_some_and(|(last, at)| last == waker && ts - at < SPAN) {
            self.members.clear();
        }
        self.last = Some((waker, ts));
        if self.members.contains(&wakee) {
            // The same one over and over is a conversation.
            self.members.clear();
        }
        self.members.push(wakee);
        let size = self.members.len() as u32;
        self.found.largest = self.found.largest.max(size);
        self.found.wakeups += u64::from(size >= LEAST);
        size >= LEAST
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        let (all, o) = (&mut self.found, &other.found);
        all.wakeups += o.wakeups;
        all.futile += o.futile;
        all.largest = all.largest.max(o.largest);
        all.time += o.time;
    }
}
