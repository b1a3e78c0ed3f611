// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Missing events, and the ends of threads.

use super::{Model, NONE};
use crate::account::Category;
use crate::history::{Cause, Did, Interval};
use crate::thread::State;
use crate::{CpuState, Observer, ThreadState};
use plumb_trace::reader::Gap;

impl<O: Observer> Model<O> {
    pub(super) fn gap(&mut self, gap: Gap) {
        let begin = gap.begin.max(self.setup.begin).max(self.now.min(gap.begin));
        let begin = begin.max(self.now);
        let end = gap.end.min(self.setup.end);
        self.lost_events += gap.lost;
        if end <= begin {
            return;
        }
        self.now = begin;
        self.gaps.push((begin, end));
        self.blocks.distrust(begin);
        if let CpuState::Busy(tid) = self.cpu(gap.cpu).state {
            if let Some(at) = self.known(tid).filter(|at| self.threads[*at].state == State::Running(gap.cpu))
            {
                self.charge(at, begin);
                let t = &mut self.threads[at];
                if begin > t.since {
                    let start = t.since;
                    t.history.push(Interval { start, end: begin, did: Did::Ran });
                    self.observer.thread(tid, start, begin, ThreadState::Running);
                }
                (t.since, t.state) = (begin, State::Unknown);
                t.call = None;
                t.lock = None;
            }
        }
        self.cpu_becomes(gap.cpu, begin, CpuState::Lost);
    }

    /// Closes what a thread is at.
    pub(super) fn close(&mut self, at: usize, ts: u64) {
        let ts = ts.max(self.threads[at].since);
        match self.threads[at].state {
            State::Running(_) => {
                self.charge(at, ts);
                let t = &mut self.threads[at];
                if ts > t.since {
                    self.observer.thread(t.tid, t.since, ts, ThreadState::Running);
                }
            }
            State::Preempted => self.settle_runnable(at, ts, Category::Preempted),
            State::Born => self.settle_runnable(at, ts, Category::Woken),
            State::Woken { sleep, at: woken, cause } => {
                self.settle_sleep(at, &sleep, woken, cause, None);
                self.settle_runnable(at, ts, Category::Woken);
            }
            State::Sleeping(sleep) => self.settle_sleep(at, &sleep, ts, Cause::Unknown, None),
            State::Unknown => {
                // Not one event of it: it slept, in the call that it was in.
                let lost = self.missing_time(self.threads[at].since, ts) > 0;
                if lost {
                    self.settle_lost(at, ts);
                } else {
                    let sleep = {
                        let t = &mut self.threads[at];
                        t.falls_asleep(t.since, 1)
                    };
                    self.settle_sleep(at, &sleep, ts, Cause::Unknown, None);
                }
            }
            State::Dead => {}
        }
        self.threads[at].since = ts;
    }

    /// A thread is gone: its account goes to its process, its place to another.
    pub(super) fn bury(&mut self, at: usize, ts: u64) {
        let recorder = self.setup.recorder;
        let t = &self.threads[at];
        self.processes.leave(t, ts, recorder);
        self.index[t.tid as usize] = NONE;
        self.free.push(at as u32);
        self.threads[at].state = State::Dead;
    }
}
