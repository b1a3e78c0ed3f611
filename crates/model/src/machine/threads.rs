// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads and the CPUs under them: who runs, who waits, since when.

use super::Model;
use crate::account::{Account, Category};
use crate::history::{Cause, Did, Interval};
use crate::thread::{task_state, Sleep, State};
use crate::{CpuState, Observer, ThreadState};
use plumb_trace::schema::{SchedFork, SchedSwitch};

impl<O: Observer> Model<O> {
    /// Puts running time up to `ts` into the account.
    pub(super) fn charge(&mut self, at: usize, ts: u64) {
        let t = &mut self.threads[at];
        let State::Running(cpu) = t.state else { return };
        let interrupted = self.cpus[cpu as usize].interrupted_until(ts);
        let irq = (interrupted - t.charged_interrupts.min(interrupted)).min(ts - t.charged);
        t.account.add(Category::Interrupted, irq);
        t.account.add(Category::Running, ts - t.charged - irq);
        (t.charged, t.charged_interrupts) = (ts, interrupted);
    }

    pub(super) fn switch(&mut self, cpu: u32, ts: u64, e: &SchedSwitch) {
        if let CpuState::Busy(tid) = self.cpu(cpu).state {
            if tid != e.tid {
                self.left_unseen(tid, cpu, ts);
            }
        }
        if e.tid != 0 {
            let at = self.place(e.tid);
            self.off_cpu(at, cpu, ts, e);
        }
        let next = if e.next_tid == 0 { CpuState::Idle } else { CpuState::Busy(e.next_tid) };
        self.cpu_becomes(cpu, ts, next);
        self.cpu(cpu).totals.switches += 1;
        if e.next_tid != 0 && e.next_tid < 1 << 22 {
            let at = self.place(e.next_tid);
            self.on_cpu(at, cpu, ts);
        }
    }

    /// Another thread leaves the CPU than the one that was on it: some kernels
    /// do not raise every switch, in perf's record no more than in ours.
    pub(super) fn left_unseen(&mut self, tid: u32, cpu: u32, ts: u64) {
        self.count_impossible("thread left its CPU and the kernel did not tell");
        if let Some(at) = self.known(tid).filter(|at| self.threads[*at].state == State::Running(cpu)) {
            self.settle_lost(at, ts);
            self.threads[at].state = State::Unknown;
        }
    }

    pub(super) fn cpu_becomes(&mut self, cpu: u32, ts: u64, next: CpuState) {
        let (state, since, _) = self.cpu(cpu).become_state(ts, next);
        if ts > since {
            self.observer.cpu(cpu, since, ts, state);
        }
    }

    pub(super) fn off_cpu(&mut self, at: usize, cpu: u32, ts: u64, e: &SchedSwitch) {
        match self.threads[at].state {
            State::Running(on) if on == cpu => {}
            State::Unknown => {
                // Seen for the first time as it leaves: it ran since the beginning.
                self.on_cpu_since(at, cpu);
            }
            _ => {
                self.count_impossible("thread leaves a CPU that it was not on");
                self.settle_lost(at, ts);
                self.threads[at].state = State::Running(cpu);
            }
        }
        self.charge(at, ts);
        let t = &mut self.threads[at];
        let start = t.since;
        t.history.push(Interval { start, end: ts, did: Did::Ran });
        if ts > start {
            self.observer.thread(t.tid, start, ts, ThreadState::Running);
        }
        t.since = ts;
        t.state = if e.prev_state & task_state::DEAD != 0 {
            State::Dead
        } else if e.preempt != 0 || e.prev_state == 0 {
            t.switches[1] += 1;
            t.raced = None;
            State::Preempted
        } else {
            t.switches[0] += 1;
            State::Sleeping(t.falls_asleep(ts, e.prev_state))
        };
        if t.state == State::Dead {
            self.bury(at, ts);
        }
    }

    /// A thread of unknown state turns out to have run since `since`.
    pub(super) fn on_cpu_since(&mut self, at: usize, cpu: u32) {
        self.cpu(cpu);
        let t = &mut self.threads[at];
        t.state = State::Running(cpu);
        t.charged = t.since;
        t.charged_interrupts = 0;
    }

    pub(super) fn on_cpu(&mut self, at: usize, cpu: u32, ts: u64) {
        let stack =
            if self.stacks.is_empty() { None } else { self.stacks.remove(&(self.threads[at].tid, ts)) };
        match self.threads[at].state {
            State::Preempted => self.settle_runnable(at, ts, Category::Preempted),
            State::Born | State::Unknown => self.settle_runnable(at, ts, Category::Woken),
            State::Woken { sleep, at: woken, cause } => {
                self.settle_sleep(at, &sleep, woken, cause, stack);
                self.settle_runnable(at, ts, Category::Woken);
            }
            State::Sleeping(sleep) => match sleep.raced {
                Some(_) => self.settle_runnable(at, ts, Category::Woken),
                None => {
                    if !self.missing(sleep.start, ts) {
                        self.count_impossible("thread runs that nobody woke");
                    }
                    self.settle_sleep(at, &sleep, ts, Cause::Unknown, stack);
                }
            },
            State::Running(_) | State::Dead => {
                self.count_impossible("thread runs that already ran");
                self.settle_lost(at, ts);
            }
        }
        let t = &mut self.threads[at];
        (t.state, t.since, t.charged, t.charged_interrupts) = (State::Running(cpu), ts, ts, 0);
    }

    pub(super) fn waking(&mut self, cpu: u32, ts: u64, waker: u32, wakee: u32) {
        if wakee == 0 || wakee >= 1 << 22 {
            return;
        }
        let cause = self.cpu(cpu).cause(waker);
        let at = self.place(wakee);
        let t = &mut self.threads[at];
        match t.state {
            State::Sleeping(sleep) => {
                t.state = State::Woken { sleep, at: ts, cause };
            }
            State::Running(_) => t.raced = Some(cause),
            State::Unknown => {
                // It slept since the beginning.
                let sleep = t.falls_asleep(t.since, 1);
                t.state = State::Woken { sleep, at: ts, cause };
            }
            State::Woken { .. } | State::Preempted | State::Born | State::Dead => {}
        }
    }

    pub(super) fn wakeup_new(&mut self, ts: u64, wakee: u32) {
        if wakee == 0 || wakee >= 1 << 22 {
            return;
        }
        let at = self.place(wakee);
        let t = &mut self.threads[at];
        if t.state == State::Unknown {
            t.state = State::Born;
            if t.account.total() == 0 && t.since == ts {
                t.born = ts;
            }
        }
    }

    pub(super) fn fork(&mut self, ts: u64, e: &SchedFork) {
        if e.child_tid == 0 || e.child_tid >= 1 << 22 {
            return;
        }
        if let Some(at) = self.known(e.child_tid) {
            // The id is used again and the end of its last holder was not seen.
            self.close(at, ts);
            self.bury(at, ts);
        }
        let parent = self.place(e.tid);
        let kernel = self.threads[parent].kernel && e.parent_tgid != e.child_tgid;
        let at = self.place(e.child_tid);
        let everyone = self.setup.everyone;
        let t = &mut self.threads[at];
        t.tgid = e.child_tgid;
        t.kernel = kernel;
        t.target = e.target == 1 || (everyone && !kernel && e.child_tgid != self.setup.recorder);
        (t.born, t.since, t.charged) = (ts, ts, ts);
        t.state = State::Born;
        let target = t.target;
        self.processes.inherit(e.child_tgid, e.parent_tgid);
        self.processes.join(e.child_tgid, ts, target);
    }

    pub(super) fn exec(&mut self, tid: u32, comm: &str) {
        // The call that it was in when the recording began is over.
        let at = self.place(tid);
        self.threads[at].first_call = -1;
        let tgid = self.tgid(tid);
        self.processes.rename(tgid, tid, comm);
    }

    /// Whether events are missing between two moments.
    pub(super) fn missing(&self, from: u64, to: u64) -> bool {
        self.gaps.iter().rev().take(64).any(|(a, b)| *a < to && *b > from)
    }

    /// Time in which events are missing between two moments, ns.
    pub(super) fn missing_time(&self, from: u64, to: u64) -> u64 {
        // Gaps of different CPUs may overlap; the union counts.
        let mut spans: Vec<(u64, u64)> = self
            .gaps
            .iter()
            .rev()
            .take(64)
            .filter(|(a, b)| *a < to && *b > from)
            .map(|(a, b)| ((*a).max(from), (*b).min(to)))
            .collect();
        spans.sort_unstable();
        let (mut sum, mut upto) = (0, from);
        for (a, b) in spans {
            if b > upto {
                sum += b - a.max(upto);
                upto = b;
            }
        }
        sum
    }

    /// Everything since the present state began is lost: evidence contradicts it.
    pub(super) fn settle_lost(&mut self, at: usize, ts: u64) {
        self.charge_partial(at);
        let t = &mut self.threads[at];
        let from = t.since;
        let paid = if matches!(t.state, State::Running(_)) { t.charged - from } else { 0 };
        t.account.add(Category::Lost, ts - from - paid);
        if ts > from {
            self.observer.thread(t.tid, from, ts, ThreadState::Lost);
        }
        t.since = ts;
        t.charged = ts;
        t.charged_interrupts = 0;
    }

    pub(super) fn charge_partial(&mut self, at: usize) {
        // What a call's entry already charged stays; nothing else is known to have run.
        let t = &mut self.threads[at];
        if !matches!(t.state, State::Running(_)) {
            t.charged = t.since;
        }
    }

    pub(super) fn settle_runnable(&mut self, at: usize, ts: u64, category: Category) {
        let lost = if matches!(self.threads[at].state, State::Unknown) {
            self.missing_time(self.threads[at].since, ts)
        } else {
            0
        };
        let t = &mut self.threads[at];
        let from = t.since;
        t.account.add(Category::Lost, lost);
        t.account.add(category, ts - from - lost);
        t.history.push(Interval { start: from, end: ts, did: Did::WaitedForCpu });
        if ts > from {
            let state = if lost > 0 { ThreadState::Lost } else { ThreadState::Runnable };
            self.observer.thread(t.tid, from, ts, state);
        }
        t.since = ts;
    }

    /// Closes a sleep: its time goes where the cause, the call and the stack say.
    pub(super) fn settle_sleep(
        &mut self,
        at: usize,
        sleep: &Sleep,
        end: u64,
        cause: Cause,
        stack: Option<u32>,
    ) {
        let start = self.threads[at].since;
        let mut parts = Account::default();
        if self.threads[at].target {
            self.explain(at, sleep, start, end, cause, stack, &mut parts);
        } else {
            parts.add(Category::Idle, end - start);
        }
        let t = &mut self.threads[at];
        t.account.merge(&parts);
        let did = if sleep.lock { Did::Locked(cause) } else { Did::Slept(cause) };
        t.history.push(Interval { start, end, did });
        if end > start {
            self.observer.thread(t.tid, start, end, ThreadState::Sleeping);
        }
        t.since = end;
    }
}
