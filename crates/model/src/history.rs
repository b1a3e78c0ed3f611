// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread did lately, so that another that waited for it can be told why.

/// How many intervals of a thread are remembered.
const KEPT: usize = 48;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Completion of a block request: its number, see [`crate::block::Blocks::stamp`].
    Request(u64),
    /// Another thread.
    Thread(u32),
    /// A timer's interrupt.
    Timer,
    /// The network's receive interrupt.
    Network,
    /// Another interrupt.
    Interrupt,
    /// Not seen.
    Unknown,
}

/// What a thread was at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// It ran.
    Ran,
    /// It waited for a CPU.
    WaitedForCpu,
    /// It slept in a kernel lock's slow path.
    Locked(Cause),
    /// It slept.
    Slept(Cause),
}

/// One interval, ns.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    /// Beginning.
    pub start: u64,
    /// End.
    pub end: u64,
    /// What it was at.
    pub did: Did,
}

/// The last intervals of one thread.
#[derive(Debug, Default)]
pub struct History {
    ring: Vec<Interval>,
    next: usize,
}

impl History {
    /// Appends; the oldest goes when there are too many.
    pub fn push(&mut self, interval: Interval) {
        if interval.start >= interval.end {
            return;
        }
        if self.ring.len() < KEPT {
            self.ring.push(interval);
        } else {
            self.ring[self.next] = interval;
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// Intervals that overlap `from..to`, newest first.
    pub fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = Interval> + '_ {
        let n = self.ring.len();
        (1..=n)
            .map(move |back| self.ring[(self.next + KEPT - back) % KEPT])
            .take_while(move |i| i.end > from)
            .filter(move |i| i.start < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_and_finds_by_time() {
        let mut h = History::default();
        for i in 0..5 {
            h.push(Interval { start: i * 10, end: i * 10 + 10, did: Did::Ran });
        }
        let starts = |h: &History, a, b| h.overlapping(a, b).map(|i| i.start).collect::<Vec<_>>();
        assert_eq!(starts(&h, 15, 35), [30, 20, 10]);
        for i in 5..200 {
            h.push(Interval { start: i * 10, end: i * 10 + 10, did: Did::Ran });
        }
        assert_eq!(starts(&h, 1975, 5000), [1990, 1980, 1970]);
        assert_eq!(starts(&h, 0, 5000).len(), KEPT);
    }
}
