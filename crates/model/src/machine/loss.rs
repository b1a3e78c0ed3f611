// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Missing events, and the ends of threads.

use super::{Model, GRAVES};
use crate::account::{Category, CATEGORIES};
use crate::history::{Cause, Did};
use crate::parts::{piece, Part, Parts, Who};
use crate::thread::{State, Thread};
use crate::{CpuState, Observer, ThreadState};
use plumb_trace::reader::Gap;

impl<O: Observer> Model<O> {
    pub(super) fn gap(&mut self, gap: Gap) {
        let begin = gap.begin.max(self.setup.begin).max(self.now.min(gap.begin));
        let begin = begin.max(self.now);
        let end = gap.end.min(self.setup.end);
        self.lost_events = self.lost_events.saturating_add(gap.lost);
        if end <= begin || !self.goes_on(begin) {
            return;
        }
        self.gaps.push((begin, end));
        self.blocks.distrust(begin);
        if let CpuState::Busy(tid) = self.cpu(gap.cpu).state {
            if let Some(at) = self.known(tid).filter(|at| self.threads[*at].state == State::Running(gap.cpu))
            {
                self.charge(at, begin);
                self.ran(at, begin);
                self.becomes(at, State::Unknown);
                let t = &mut self.threads[at];
                t.since = begin;
                t.call = None;
                t.lock = None;
            }
        }
        // Whose begins and ends are missing is not known.
        if !self.setup.state.spans.is_empty() {
            self.index.places().into_iter().for_each(|at| self.lose_spans(at));
        }
        self.cpu_becomes(gap.cpu, begin, CpuState::Lost);
    }

    /// Closes what a thread is at.
    pub(super) fn close(&mut self, at: usize, ts: u64) {
        let ts = ts.max(self.threads[at].since);
        match self.threads[at].state {
            State::Running(_) => {
                self.charge(at, ts);
                self.ran(at, ts);
            }
            State::Preempted => self.settle_runnable(at, ts, Category::Preempted, None),
            State::Born => self.settle_runnable(at, ts, Category::Woken, None),
            State::Woken { sleep, at: woken, cause } => {
                self.settle_sleep(at, &sleep, woken, cause, (ts, None));
                self.settle_runnable(at, ts, Category::Woken, None);
            }
            State::Sleeping(sleep) => self.settle_sleep(at, &sleep, ts, Cause::Unknown, (ts, None)),
            State::Unknown if self.threads[at].unsure => self.spend_paused(at, ts),
            State::Unknown => {
                // Not one event of it: it slept, in the call that it was in.
                let t = &self.threads[at];
                let lost = (t.strayed && !t.rests) || self.missing_time(t.since, ts) > 0;
                // Of a machine not every thread's call can be read; who slept through all of it kept nobody waiting.
                let unread = self.setup.everyone && self.threads[at].first_call < 0;
                if lost {
                    self.settle_lost(at, ts);
                } else if unread && self.threads[at].target {
                    self.settle_rest(at, ts);
                } else {
                    let sleep = {
                        let t = &mut self.threads[at];
                        t.falls_asleep(t.since, 1)
                    };
                    self.settle_sleep(at, &sleep, ts, Cause::Unknown, (ts, None));
                }
            }
            State::Dead => {}
        }
        self.threads[at].since = ts;
    }

    /// A thread slept all the time; nothing is known of its sleep.
    fn settle_rest(&mut self, at: usize, ts: u64) {
        let (tid, from) = (self.threads[at].tid, self.threads[at].since);
        let part = Part::of(Category::Idle);
        let mut own = Vec::new();
        piece(&mut own, part, from, ts);
        self.charge_wait(at, &own, false, None, 0);
        if ts > from {
            self.observer.thread(tid, from, ts, ThreadState::Sleeping);
        }
    }

    /// A thread is gone: its account goes to its process, its place to another.
    pub(super) fn bury(&mut self, at: usize, ts: u64) {
        let recorder = self.setup.recorder;
        self.settle_call(at, false);
        self.lose_spans(at);
        let t = &self.threads[at];
        if t.target {
            self.ledgers[t.service as usize].whole.merge(&whole(t, &t.blame));
            if t.tid == self.setup.root && t.tid != 0 {
                self.followed = whole(t, &t.followed);
                self.path = t.path.clone();
                // Where threads contradict each other a path may come out short.
                let short = ts.saturating_sub(t.born).saturating_sub(self.path.parts.total());
                self.path.ran(Part::of(Category::Lost), short);
            }
        }
        self.processes.leave(t, ts, recorder);
        self.index.remove(t.tid);
        self.graves.push_back((self.threads[at].tid, at as u32));
        if self.graves.len() > GRAVES {
            self.graves.pop_front().into_iter().for_each(|(tid, at)| self.forget(tid, at));
        }
        self.becomes(at, State::Dead);
    }

    /// A thread ended long ago. Where an interval refers to it, what it did stays; but added up, so
    /// that it refers to nobody: a chain of processes must not keep its whole past.
    fn forget(&mut self, tid: u32, at: u32) {
        // Where its id is used again, the later thread is found.
        let needed = self.threads[at as usize].references > 0 && self.remembered(tid).is_none();
        while let Some(old) = self.threads[at as usize].history.pop() {
            match needed {
                true => self.add_up(at as usize, old),
                false => self.release(old.did),
            }
        }
        if needed && self.threads[at as usize].references > 0 {
            self.kept.insert(tid, at);
        } else {
            self.free.push(at);
        }
    }

    /// An interval that may refer to a thread is kept.
    pub(super) fn refer(&mut self, did: Did) {
        let Some(tid) = did.ended_by() else { return };
        if let Some(at) = self.remembered(tid) {
            self.threads[at].references += 1;
        }
    }

    /// It is no longer kept.
    pub(super) fn release(&mut self, did: Did) {
        let Some(tid) = did.ended_by() else { return };
        let Some(at) = self.remembered(tid) else { return };
        let t = &mut self.threads[at];
        t.references = t.references.saturating_sub(1);
        if t.references == 0 && self.kept.get(&tid) == Some(&(at as u32)) {
            self.free.extend(self.kept.remove(&tid));
        }
    }
}

/// A thread's time: its waits and who they went to, and what it ran.
fn whole(t: &Thread, waits: &Parts) -> Parts {
    let mut parts = waits.clone();
    for (category, ..) in CATEGORIES {
        let waits: u64 = t.blame.iter().filter(|(p, _)| p.category == *category).map(|(_, ns)| ns).sum();
        let own = t.account.get(*category).saturating_sub(waits);
        if own > 0 {
            parts.add(Part { category: *category, who: Who::Name(t.called) }, own);
        }
    }
    parts
}
