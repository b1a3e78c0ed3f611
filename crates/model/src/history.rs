// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread did lately, so that another that waited for it can be told
//! why. The last intervals are kept as they were; older ones are added up, the
//! more the older they are, so that a wait of hours still has its parts and
//! memory grows with the logarithm of the intervals only.

use crate::parts::{Part, Parts, Piece};
use std::collections::VecDeque;

/// How many intervals of a thread are remembered as they were.
const KEPT: usize = 48;
/// How many sums of one size are remembered before two become one.
const SUMS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Completion of a block request: its number, see [`crate::block::Blocks::stamp`].
    Request(u64),
    Thread(u32),
    Timer,
    Network,
    /// A packet that a timer of this host sent: a delayed acknowledgement, and what that let go; a retransmission.
    TcpTimer,
    /// The end of a grace period of RCU.
    Rcu,
    Interrupt,
    Unknown,
}

/// What a thread was at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    Ran,
    /// It waited for a CPU.
    WaitedForCpu,
    /// It waited for this and nothing behind it.
    Waited(Part),
    Slept(Cause),
    /// It waited for this thread of a service, which has requests of its own.
    Behind(u32),
}

impl Did {
    /// The thread that ended a wait.
    pub fn ended_by(self) -> Option<u32> {
        match self {
            Self::Slept(Cause::Thread(tid)) | Self::Behind(tid) => Some(tid),
            _ => None,
        }
    }
}

/// One interval, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub start: u64,
    pub end: u64,
    pub did: Did,
}

/// Intervals that were added up.
#[derive(Debug, Clone)]
pub struct Sum {
    /// Beginning of the first, ns.
    pub start: u64,
    /// End of the last, ns.
    pub end: u64,
    /// What they went to; what is missing to the length is unknown.
    pub parts: Parts,
}

impl Sum {
    /// The parts of the span that it shares with `from..to`, ns, in proportion.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (Part, u64)> + '_ {
        let length = u128::from((self.end - self.start).max(1));
        let shared = u128::from(to.min(self.end).saturating_sub(from.max(self.start)));
        self.parts.iter().map(move |(part, ns)| (part, (u128::from(ns) * shared / length) as u64))
    }
}

#[derive(Debug, Default)]
pub struct History {
    recent: VecDeque<Interval>,
    sums: Vec<VecDeque<Sum>>,
    /// Memory of a sum that became part of another.
    spare: Parts,
}

impl History {
    /// Appends; returns the oldest when there are too many, for [`History::add_up`].
    pub fn push(&mut self, interval: Interval) -> Option<Interval> {
        if interval.start >= interval.end {
            return None;
        }
        self.recent.push_back(interval);
        if self.recent.len() > KEPT {
            self.recent.pop_front()
        } else {
            None
        }
    }

    /// Says what the interval that begins at `start` turned out to be; false where it is kept no more.
    pub fn revise(&mut self, start: u64, did: Did) -> bool {
        let found = self.recent.iter_mut().rev().find(|i| i.start <= start).filter(|i| i.start == start);
        found.map(|i| i.did = did).is_some()
    }

    /// Takes out the oldest interval that is kept as it was, for [`History::add_up`].
    pub fn pop(&mut self) -> Option<Interval> {
        self.recent.pop_front()
    }

    /// Keeps the parts of an interval that is no longer kept as it was.
    pub fn add_up(&mut self, old: Interval, pieces: &[Piece]) {
        let mut parts = std::mem::take(&mut self.spare);
        parts.clear();
        pieces.iter().for_each(|p| parts.add(p.part, p.to - p.from));
        let mut carry = Some(Sum { start: old.start, end: old.end, parts });
        for level in 0.. {
            let Some(sum) = carry.take() else { return };
            if self.sums.len() == level {
                self.sums.push(VecDeque::new());
            }
            let sums = &mut self.sums[level];
            sums.push_back(sum);
            if sums.len() > SUMS {
                let (mut a, b) = (sums.pop_front().expect("full"), sums.pop_front().expect("full"));
                a.parts.merge(&b.parts);
                a.end = b.end;
                self.spare = b.parts;
                carry = Some(a);
            }
        }
    }

    /// Intervals that overlap `from..to` and are kept as they were, newest first.
    pub fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = Interval> + '_ {
        self.recent.iter().rev().copied().take_while(move |i| i.end > from).filter(move |i| i.start < to)
    }

    /// Sums that overlap `from..to`, newest first; all lie before the intervals that are kept.
    pub fn sums(&self, from: u64, to: u64) -> impl Iterator<Item = &Sum> + '_ {
        self.sums
            .iter()
            .flat_map(|level| level.iter().rev())
            .take_while(move |s| s.end > from)
            .filter(move |s| s.start < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Category;

    #[test]
    fn keeps_the_newest_and_finds_by_time() {
        let mut h = History::default();
        for i in 0..5 {
            assert_eq!(h.push(Interval { start: i * 10, end: i * 10 + 10, did: Did::Ran }), None);
        }
        let starts = |h: &History, a, b| h.overlapping(a, b).map(|i| i.start).collect::<Vec<_>>();
        assert_eq!(starts(&h, 15, 35), [30, 20, 10]);
    }

    #[test]
    fn what_is_old_is_added_up_and_nothing_of_it_is_lost() {
        let mut h = History::default();
        let part = Part::of(Category::Running);
        for i in 0..10_000 {
            if let Some(old) = h.push(Interval { start: i * 10, end: i * 10 + 10, did: Did::Ran }) {
                h.add_up(old, &[Piece { part, from: old.start, to: old.end, request: 0, tid: 0 }]);
            }
        }
        assert!(h.sums.iter().map(VecDeque::len).sum::<usize>() < 10 * (SUMS + 1), "memory is logarithmic");
        let recent: u64 = h.overlapping(0, 100_000).map(|i| i.end - i.start).sum();
        let old: u64 = h.sums(0, 100_000).flat_map(|s| s.within(0, 100_000)).map(|(_, ns)| ns).sum();
        assert_eq!(recent + old, 100_000);
        // A span deep in the past: right but for the rounding at its two ends.
        let some: u64 = h.sums(20_000, 40_000).flat_map(|s| s.within(20_000, 40_000)).map(|(_, ns)| ns).sum();
        assert!(some.abs_diff(20_000) <= 2, "{some}");
    }
}
