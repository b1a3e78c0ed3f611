// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Brings the streams of a trace into the order of time.

use super::cursor::{Cursor, WaitCursor};
use super::{Gap, Operation, Summary, Told};

/// How far, in trace time, waits' stacks are read ahead of the records: the
/// recorder writes them when it gets round to it, not when they happen.
const WAITS_AHEAD: u64 = 2_000_000_000;

/// Takes what comes next.
pub(super) trait Sink {
    /// Records of one CPU, one behind the other. Returns false where no more is wanted.
    fn records(&mut self, cpu: u32, bytes: &[u8]) -> bool;
    fn gap(&mut self, gap: Gap);
    fn told(&mut self, told: Told);
    fn operation(&mut self, operation: Operation);
}

/// The streams, each at its place.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    waits: WaitCursor,
    summary: Summary,
}

impl Merge {
    /// CPUs come before workloads.
    pub(super) fn new(mut cursors: Vec<Cursor>, waits: WaitCursor, summary: Summary) -> Self {
        cursors.iter_mut().for_each(Cursor::advance_packet);
        Self { cursors, waits, summary }
    }

    /// The cursor with the earliest item, that one's time, and how far it may run alone.
    fn first(&self) -> Option<(usize, u64, u64)> {
        let mut first = None;
        let (mut least, mut second) = (u64::MAX, u64::MAX);
        for (i, c) in self.cursors.iter().enumerate() {
            let Some(ts) = c.next_ts() else { continue };
            if first.is_none() || ts < least {
                second = least;
                (least, first) = (ts, Some(i));
            } else {
                second = second.min(ts);
            }
        }
        // In between the stacks must stay ahead, so a run alone is bounded too.
        first.map(|first| (first, least, second.min(least.saturating_add(WAITS_AHEAD / 2))))
    }

    /// Hands out everything.
    pub(super) fn run(mut self, sink: &mut impl Sink) -> Summary {
        while let Some((first, least, limit)) = self.first() {
            while let Some(told) = self.waits.next_until(least.saturating_add(WAITS_AHEAD)) {
                self.summary.waits += 1;
                sink.told(told);
            }
            let (c, summary) = (&mut self.cursors[first], &mut self.summary);
            if let Some(gap) = c.gap.take() {
                if c.is_load() {
                    summary.operations_lost = summary.operations_lost.saturating_add(gap.lost);
                    sink.operation(Operation::Lost { tid: c.tid, lost: gap.lost });
                } else {
                    summary.gaps.push(gap);
                    sink.gap(gap);
                }
                continue;
            }
            if c.is_load() {
                // One at a time: an event of the kernel with the next one's time comes before it.
                if let Some((tid, length, operation)) =
                    c.peek().and_then(|r| Some((r.tid, r.bytes.len(), r.operation()?)))
                {
                    summary.operations += 1;
                    sink.operation(operation);
                    c.tid = tid;
                    c.pos += length;
                }
                if c.pos >= c.content {
                    c.advance_packet();
                }
                continue;
            }
            summary.begin = summary.begin.min(least);
            let run = c.run(limit);
            summary.records += run.records;
            summary.end = summary.end.max(run.last);
            if !sink.records(c.number, c.bytes(&run)) {
                break;
            }
            if c.pos >= c.content {
                c.advance_packet();
            }
        }
        while let Some(told) = self.waits.next_until(u64::MAX) {
            self.summary.waits += 1;
            sink.told(told);
        }
        let mut summary = self.summary;
        for c in &mut self.cursors {
            summary.damage.append(&mut c.packets.damage);
        }
        summary.damage.append(&mut self.waits.damage);
        summary.begin = summary.begin.min(summary.end);
        summary
    }
}
