// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for a CPU: who has it, and who has another one on which the thread could run.

use super::Model;
use crate::account::Category;
use crate::history::{Did, Interval};
use crate::parts::{piece, Part, Piece, Who};
use crate::thread::{Counted, State, Thread};
use crate::{CpuState, Observer, ThreadState};

/// A runnable thread whose CPU idles longer than this is not just on its way to run, ns.
const LONGEST_WAKEUP: u64 = 3_000_000;

impl<O: Observer> Model<O> {
    /// Closes a wait for a CPU. Who had the CPU on which it runs now is told
    /// as far back as that CPU remembers.
    pub(super) fn settle_runnable(&mut self, at: usize, ts: u64, category: Category, cpu: Option<u32>) {
        let lost = if matches!(self.threads[at].state, State::Unknown) {
            self.missing_time(self.threads[at].since, ts)
        } else {
            0
        };
        let mut pieces = std::mem::take(&mut self.own);
        pieces.clear();
        let from = self.threads[at].since;
        piece(&mut pieces, Part::of(Category::Lost), from, from + lost);
        let begin = from + lost;
        match cpu.filter(|_| self.threads[at].target) {
            Some(cpu) => self.who_ran(at, cpu, begin, ts, category, &mut pieces),
            None => piece(&mut pieces, Part::of(category), begin, ts),
        }
        self.charge_wait(at, &pieces, false, None, 0);
        if ts > from {
            if self.threads[at].target {
                // History is in the order of time; whoever waits for this thread is told who had its CPU.
                pieces.sort_unstable_by_key(|p| p.from);
                for p in &pieces {
                    self.remember(at, Interval { start: p.from, end: p.to, did: Did::Waited(p.part) });
                }
            } else {
                self.remember(at, Interval { start: from, end: ts, did: Did::WaitedForCpu });
            }
            let state = if lost > 0 { ThreadState::Lost } else { ThreadState::Runnable };
            self.observer.thread(self.threads[at].tid, from, ts, state);
        }
        self.own = pieces;
        self.threads[at].since = ts;
    }

    /// Splits a wait for a CPU by who had it.
    fn who_ran(&self, at: usize, cpu: u32, from: u64, to: u64, category: Category, out: &mut Vec<Piece>) {
        for (from, to, cpu) in self.threads[at].queue.spans(from, to, cpu) {
            let me = &self.threads[at];
            self.who_ran_there(me, cpu, (from, to), category, out);
        }
    }

    fn who_ran_there(
        &self,
        me: &Thread,
        cpu: u32,
        (from, to): (u64, u64),
        category: Category,
        out: &mut Vec<Piece>,
    ) {
        let Some(on) = self.cpus.get(cpu as usize) else {
            return piece(out, Part::of(category), from, to);
        };
        let mut covered = to;
        for (a, b, state) in on.was(from, to) {
            let b = b.min(covered);
            if a >= b {
                continue;
            }
            piece(out, Part::of(category), b, covered);
            covered = a;
            let mut taker = None;
            let part = match state {
                // Ready, and nobody else has the CPU: a wakeup on its way, or not allowed to run.
                CpuState::Idle if b - a > LONGEST_WAKEUP => Part::of(Category::Held),
                CpuState::Idle => Part::of(Category::WokenIdle),
                CpuState::Busy(tid) => match self.remembered(tid).map(|at| &self.threads[at]) {
                    Some(t) if t.tgid == self.setup.recorder => Part::of(Category::Overhead),
                    Some(t) if t.target && t.service == me.service => {
                        taker = Some(t);
                        Part { category: Category::Crowded, who: Who::Name(t.called) }
                    }
                    Some(t) => {
                        taker = Some(t).filter(|t| t.asks);
                        Part { category, who: Who::Name(t.called) }
                    }
                    None => Part::of(category),
                },
                CpuState::Unseen | CpuState::Lost => Part::of(category),
            };
            let mut end = b;
            for (from, to) in on.when_held(me.tgid, a, b) {
                self.behind(me, cpu, (part, taker), (to, end), category, out);
                piece(out, Part::of(Category::Held), from, to);
                end = from;
            }
            self.behind(me, cpu, (part, taker), (a, end), category, out);
        }
        piece(out, Part::of(category), from, covered);
    }

    /// The name of a thread on a CPU that has nothing to do with a thread that waits.
    fn stranger(&self, me: &Thread, state: CpuState) -> Option<u32> {
        let CpuState::Busy(tid) = state else { return None };
        let t = &self.threads[self.remembered(tid)?];
        let ours =
            t.kernel || t.asks || t.tgid == self.setup.recorder || (t.target && t.service == me.service);
        (!ours).then_some(t.called)
    }

    /// A wait behind `part`. `taker`: that is a thread of its own service, or one that asks it for something. While a stranger
    /// has another CPU on which it or its process has run, the service's threads would have that one too: N threads that share c
    /// CPUs wait N / c - 1 as long as they run, and with another CPU less. What they would not have waited is the stranger's.
    fn behind(
        &self,
        me: &Thread,
        cpu: u32,
        (part, taker): (Part, Option<&Thread>),
        (from, to): (u64, u64),
        category: Category,
        out: &mut Vec<Piece>,
    ) {
        let mut end = to;
        if let Some(taker) = taker {
            let [ready, running] = self.ledgers[me.service as usize].threads.map(u64::from);
            // The taker has just left its CPU, and may be ready itself.
            let taken = u64::from(matches!(taker.counted, Some((s, Counted::Ready)) if s == me.service));
            let (had, waited) = (running + 1, ready.saturating_sub(taken).max(1));
            let (of, all) = (u128::from(had + waited), u128::from((had + 1) * waited));
            let share = |time: u64| time.min((u128::from(time) * of / all) as u64);
            let may = me.ran_on | if me.pinned { 0 } else { self.processes.ran_on(me.tgid) };
            let others = (0..64).filter(|c| may & 1 << c != 0 && *c != u64::from(cpu));
            let others = others.filter_map(|c| self.cpus.get(c as usize));
            let mut theirs: Vec<(u64, u64, u32)> = others
                .flat_map(|other| other.was(from, to))
                .filter_map(|(a, b, state)| Some((b, a, self.stranger(me, state)?)))
                .collect();
            theirs.sort_unstable_by(|x, y| y.cmp(x));
            // One piece a stranger, at the end, not one a turn of its where that was: each is remembered, and there may be
            // hundreds in a wait. Who follows a part of it gets other shares than the whole has.
            let mut strangers: Vec<(u32, u64)> = Vec::new();
            let mut covered = to;
            for (b, a, name) in theirs {
                let b = b.min(covered);
                if a < b {
                    covered = a;
                    match strangers.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, time)) => *time += b - a,
                        None => strangers.push((name, b - a)),
                    }
                }
            }
            for (name, time) in strangers {
                let a = end - share(time);
                piece(out, Part { category, who: Who::Name(name) }, a, end);
                end = a;
            }
        }
        piece(out, part, from, end);
    }
}
