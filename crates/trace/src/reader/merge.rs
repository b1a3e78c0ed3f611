// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Brings the streams of a trace into the order of time.

use super::cursor::Cursor;
use super::telling::Telling;
use super::{Gap, Operation, Summary, Told};
use crate::schema::StatePause;
use std::collections::VecDeque;

/// How far, in trace time, what the recorder told is read ahead of the records: it
/// writes of waits and processes when it gets round to it, not when they happen.
pub(super) const AHEAD: u64 = 2_000_000_000;
/// Records of so much time, counted from 0, come behind what was told until [`AHEAD`] of its begin: the
/// same whether a trace is read at once or as it grows.
const STRETCH: u64 = 1_000_000_000;

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
    pub(super) cursors: Vec<Cursor>,
    pub(super) telling: Telling,
    /// When the target began, ns: what was told until then comes before any record.
    begin: u64,
    pub(super) summary: Summary,
    /// Pauses of the recorder that were told, and whose gaps were not handed out.
    pauses: VecDeque<StatePause>,
    /// [`AHEAD`] and [`STRETCH`], or less where a trace is read for what happens now.
    ahead: u64,
    stretch: u64,
    /// It is read for what happens now.
    near: bool,
    /// Records up to here were handed out, ns.
    done: u64,
    /// One that was handed out later came before them.
    pub(super) late: bool,
}

impl Merge {
    /// CPUs come before workloads.
    pub(super) fn new(mut cursors: Vec<Cursor>, telling: Telling, begin: u64, summary: Summary) -> Self {
        cursors.iter_mut().for_each(Cursor::advance_packet);
        let (ahead, stretch) = (AHEAD, STRETCH);
        Self {
            cursors,
            telling,
            begin,
            summary,
            pauses: VecDeque::new(),
            ahead,
            stretch,
            near: false,
            done: 0,
            late: false,
        }
    }

    /// Reads what the recorder told only so far ahead, ns; what it tells later than that is known late.
    pub(super) fn near(&mut self, ahead: u64) {
        (self.ahead, self.stretch, self.near) = (ahead, (ahead / 2).max(1), true);
    }

    pub(super) fn ahead(&self) -> u64 {
        self.ahead
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
        // In between the recorder's word must stay ahead, so a run alone is bounded too.
        let end = (least - least % self.stretch).saturating_add(self.stretch - 1);
        first.map(|first| (first, least, second.min(end)))
    }

    fn tell(&mut self, until: u64, sink: &mut impl Sink) {
        while let Some(told) = self.telling.next_until(until) {
            self.summary.waits += u64::from(told.is_moment());
            if let Told::Pause(pause) = &told {
                self.pauses.push_back(pause.clone());
            }
            sink.told(told);
        }
    }

    /// Hands out the gaps of the next pause that begins until `ts`; whether there was one. They are no loss.
    fn pause(&mut self, ts: u64, sink: &mut impl Sink) -> bool {
        let next = self.pauses.front().filter(|p| p.begin <= ts).map(|p| (p.begin, p.end));
        let Some((begin, end)) = next else { return false };
        self.pauses.pop_front();
        for c in self.cursors.iter().filter(|c| !c.is_load()) {
            sink.gap(Gap { cpu: c.number, begin, end, lost: 0 });
        }
        true
    }

    /// Hands out what lies up to `until`, ns.
    pub(super) fn run_until(&mut self, until: u64, sink: &mut impl Sink) {
        while let Some((first, least, limit)) = self.first() {
            if least > until {
                break;
            }
            if least < self.done {
                // A CPU that was quiet for long has lost events since an unknown moment of that time: who reads for what
                // happens now was told of nothing on it, and knows that from here on.
                if let Some(gap) = self.cursors[first].gap.as_mut().filter(|_| self.near) {
                    (gap.begin, gap.end) = (self.done, gap.end.max(self.done));
                    continue;
                }
                self.late = true;
            }
            let begin = (least - least % self.stretch).max(self.begin);
            self.tell(begin.saturating_add(self.ahead), sink);
            if self.pause(least, sink) {
                continue;
            }
            let limit = self.pauses.front().map_or(limit, |p| limit.min(p.begin.saturating_sub(1)));
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
            let run = c.run(limit.min(until));
            summary.records += run.records;
            summary.end = summary.end.max(run.last);
            if !sink.records(c.number, c.bytes(&run)) {
                break;
            }
            if c.pos >= c.content {
                c.advance_packet();
            }
        }
        self.done = self.done.max(until);
    }

    /// Hands out everything that is left.
    pub(super) fn run(&mut self, sink: &mut impl Sink) -> Summary {
        self.run_until(u64::MAX, sink);
        self.tell(u64::MAX, sink);
        while self.pause(u64::MAX, sink) {}
        let mut summary = std::mem::take(&mut self.summary);
        for c in &mut self.cursors {
            summary.damage.append(&mut c.packets.damage);
        }
        summary.damage.append(&mut self.telling.damage());
        summary.begin = summary.begin.min(summary.end);
        summary
    }
}
