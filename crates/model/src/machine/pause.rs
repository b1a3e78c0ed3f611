// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pauses of the recording: what is known ends at their begin, and begins anew at their end. In between threads are born, get
//! names and end.

use super::Model;
use crate::account::Category;
use crate::history::{Did, Interval};
use crate::parts::{piece, Part};
use crate::thread::State;
use crate::{CpuState, Observer, ThreadState};
use plumb_trace::reader::{Gap, RawRecord};
use plumb_trace::schema::{SchedExec, SchedExit, SchedFork, SchedRename};
use plumb_trace::Record;
use std::collections::VecDeque;

/// So long after its end nothing of a pause is asked for any more: a sample may come that late, ns.
const LATE: u64 = 10_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Begin and end of those that were told and did not end long ago, ns.
    told: VecDeque<(u64, u64)>,
    /// End of the last that began, ns.
    last: u64,
    /// The present one.
    pub now: Option<(u64, u64)>,
    /// Time of all that began, ns.
    pub time: u64,
}

impl Pauses {
    /// One is told of, ahead of its begin; `now`, ns.
    pub fn tell(&mut self, begin: u64, end: u64, now: u64) {
        while self.told.front().is_some_and(|(_, end)| end.saturating_add(LATE) < now) {
            self.told.pop_front();
        }
        self.told.push_back((begin, end));
    }

    /// End of the last that began, ns; 0: there was none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether a moment lies in one.
    pub fn has(&self, ts: u64) -> bool {
        self.told.iter().any(|(begin, end)| (*begin..*end).contains(&ts))
    }
}

impl<O: Observer> Model<O> {
    pub(super) fn is_pause(&self, gap: &Gap) -> bool {
        gap.lost == 0 && self.pauses.told.contains(&(gap.begin, gap.end))
    }

    /// What is known ends at `begin`. Each CPU's gap tells of the same pause; the first one counts.
    pub(super) fn pause(&mut self, begin: u64, end: u64) {
        let now = begin.max(self.setup.begin).max(self.now);
        if end <= self.pauses.last || !self.goes_on(now) {
            return;
        }
        self.pauses.last = end;
        self.resume(now);
        self.count_samples(now);
        // Before the run begins it has no length.
        let end = end.min(self.setup.end).max(now);
        if end > now {
            self.gaps.push((now, end));
            self.pauses.now = Some((now, end));
            self.pauses.time += end - now;
        }
        for at in self.index.places() {
            self.close(at, now);
            if self.threads[at].kernel_run.is_some() {
                // Its end was told; it leaves its CPU unseen.
                self.bury(at, now);
            } else {
                self.park(at, now);
            }
        }
        for cpu in 0..self.cpus.len() as u32 {
            self.cpu_becomes(cpu, now, CpuState::Unseen);
        }
        self.blocks.pause(now, end);
        self.processes.pause(now);
        self.journals.pause();
    }

    /// Nothing is known of a thread any more but, of one that slept, in which call.
    fn park(&mut self, at: usize, ts: u64) {
        self.settle_call(at, false);
        self.lose_spans(at);
        let t = &mut self.threads[at];
        let slept = matches!(t.state, State::Sleeping(_));
        t.first_call = match t.call.take() {
            Some(call) if slept => call.nr as i32,
            None if slept || t.state == State::Unknown => t.first_call,
            _ => -1,
        };
        t.in_call.clear();
        (t.lock, t.futex, t.queued, t.raced, t.offered) = (None, None, None, None, None);
        (t.says, t.queued_bio, t.arrived, t.taken, t.herded) = (0, 0, 0, 0, None);
        (t.throttled, t.reclaim, t.strayed, t.rests) = (false, false, false, false);
        (t.charged, t.charged_interrupts) = (ts, 0);
        t.disk.pause(ts);
        t.unsure = !slept;
        self.becomes(at, State::Unknown);
    }

    /// An event comes in a pause, or behind it; whether it is one that is recorded then.
    pub(super) fn goes_on_in_pause(&mut self, ts: u64, r: &RawRecord<'_>) -> bool {
        if self.pauses.now.is_none_or(|(_, end)| ts >= end) {
            self.resume(ts);
            return true;
        }
        if r.id == SchedExit::ID {
            let at = self.place(r.tid);
            self.threads[at].kernel_run = Some(SchedExit::read(r.bytes).run_ns);
            self.spend_paused(at, ts);
            self.bury(at, ts);
        }
        if r.id == SchedFork::ID {
            // Its child goes on from here.
            let at = self.place(r.tid);
            self.spend_paused(at, ts);
        }
        [SchedFork::ID, SchedExec::ID, SchedRename::ID].contains(&r.id)
    }

    /// The present pause, if it ended until `ts`, was for all threads that live.
    pub(super) fn resume(&mut self, ts: u64) {
        let Some((_, end)) = self.pauses.now.filter(|(_, end)| *end <= ts) else { return };
        self.pauses.now = None;
        for at in self.index.places() {
            self.spend_paused(at, end);
            self.threads[at].unsure |= self.threads[at].state == State::Born;
            self.becomes(at, State::Unknown);
        }
    }

    pub(super) fn spend_paused(&mut self, at: usize, to: u64) {
        let (tid, from) = (self.threads[at].tid, self.threads[at].since);
        if to <= from {
            return;
        }
        let part = Part::of(Category::Paused);
        let mut own = Vec::new();
        piece(&mut own, part, from, to);
        self.charge_wait(at, &own, false, None, 0);
        self.remember(at, Interval { start: from, end: to, did: Did::Waited(part) });
        self.observer.thread(tid, from, to, ThreadState::Lost);
        let t = &mut self.threads[at];
        (t.since, t.charged, t.charged_interrupts) = (to, to, 0);
    }
}
