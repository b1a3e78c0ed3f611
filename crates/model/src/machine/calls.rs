// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls: what a thread's account grew by while it was in one.

use super::blame::Follow;
use super::Model;
use crate::account::Category;
use crate::connections::Exchange;
use crate::history::{Cause, Did};
use crate::parts::Part;
use crate::thread::{Call, State};
use crate::{CpuState, Observer};
use plumb_trace::calls;
use plumb_trace::schema::{SysEnter, SysExit};

/// Pieces of requests' paths that may be looked at whatever the number of events.
const FREE_PIECES: u64 = 100_000;

/// The call after which a thread may run elsewhere only.
const SET_AFFINITY: u32 = calls::Call::sched_setaffinity as u32;

/// Waits of one call that are kept until it returns.
pub(super) const WAITS: usize = 256;

impl<O: Observer> Model<O> {
    pub(super) fn enter(&mut self, cpu: u32, ts: u64, tid: u32, e: &SysEnter) {
        let at = self.place(tid);
        self.seen_running(at, cpu, ts);
        self.charge(at, ts);
        self.observer.called(tid);
        if !(self.gave_up(at) && self.calls.is_futex(e.nr)) {
            self.settle_call(at, false);
        }
        if self.threads[at].arrived != 0 && self.processes.looks(e.nr) {
            self.threads[at].arrived = 0;
        }
        let t = &mut self.threads[at];
        (t.queued_bio, t.taken) = (0, 0);
        t.first_call = -1;
        t.in_call.clear();
        t.call = Some(Call {
            nr: e.nr,
            start: ts,
            fd: e.arg0,
            arg2: e.arg2,
            own_requests: 0,
            other_requests: 0,
            other_bytes: 0,
            counted: ts,
            says: 0,
        });
    }

    /// A thread takes data in its call that came `waited` ago, ns.
    pub(super) fn takes(&mut self, tid: u32, waited: u64) {
        if let Some(at) = self.known(tid) {
            // Not from `ts`: a window begins there at the earliest. What was done in a pause is in no account.
            let came = self.seen.saturating_sub(waited).max(self.pauses.last().min(self.seen));
            let t = &mut self.threads[at];
            t.taken = if t.taken == 0 { came } else { t.taken.min(came) };
        }
    }

    pub(super) fn exit(&mut self, cpu: u32, ts: u64, tid: u32, e: &SysExit) {
        let at = self.place(tid);
        self.seen_running(at, cpu, ts);
        self.charge(at, ts);
        // The recorder named its stack by the record's own time.
        self.observer.returned(tid, e.ts);
        let t = &mut self.threads[at];
        t.queued_bio = 0;
        t.first_call = -1;
        t.futex = None;
        if !self.gave_up(at) {
            self.settle_call(at, true);
        }
        self.leave_kernel(at);
        let t = &mut self.threads[at];
        let Some(call) = t.call.take().filter(|c| c.nr == e.nr) else { return };
        self.wait_events.elapse(call.says, ts - call.start);
        let who = (t.service, t.tgid, tid);
        let arrived = [t.arrived, t.taken].into_iter().filter(|at| *at != 0).min().unwrap_or(0);
        let when = (ts, self.seen, arrived);
        let (synced, exchange) = self.processes.call(who, &call, when, e.ret, &t.in_call);
        if call.nr == SET_AFFINITY && e.ret == 0 {
            let of = if call.fd == 0 { Some(at) } else { self.known(call.fd) };
            of.into_iter().for_each(|at| (self.threads[at].ran_on, self.threads[at].pinned) = (0, true));
        }
        if synced {
            let service = self.threads[at].service;
            self.synced.call(service, tid, call.fd, (call.start, ts - call.start));
        }
        match exchange {
            Some(Exchange::Received) => {
                // The next ones may have come later.
                (self.threads[at].serves, self.threads[at].arrived) = (true, 0);
            }
            Some(Exchange::Answered { since }) if self.threads[at].target => {
                let (service, services) = (self.threads[at].service, &self.services);
                let name = || services.name(service).to_string();
                self.slow.answered(tid, (since, self.seen), name);
                self.serve(at, since, ts);
            }
            Some(Exchange::Answered { .. }) | None => {}
        }
    }

    /// Follows a request back from the thread that answers it: what it did and waited for since it came.
    pub(super) fn serve(&mut self, at: usize, since: u64, ts: u64) {
        if self.setup.root != 0 {
            return;
        }
        // What it took before is no account's.
        let since = since.max(self.setup.begin);
        // Many requests at once share a history: beyond an effort of one piece an event, some stand for others.
        let length = ts.saturating_sub(since);
        // Where its program tells of its requests, those are the ones that count.
        let turns = self.setup.state.spans.is_empty();
        let who = (self.threads[at].tid, self.threads[at].name);
        if length == 0 || self.walked > self.events + FREE_PIECES {
            self.ledger(at).not_walked += length;
            if turns && length > 0 {
                self.spans.turn(who, since, length, None);
            }
            return;
        }
        let not_walked = std::mem::take(&mut self.ledger(at).not_walked);
        let stands_for = (length + not_walked) as f64 / length as f64;
        let mut pieces = std::mem::take(&mut self.scratch);
        pieces.clear();
        let follow = Follow::from(&self.threads[at]);
        self.follow_thread(follow.me, since, ts, follow, &mut pieces);
        for p in &mut pieces {
            // With a request in progress nothing is idle: it waited for its turn.
            if p.part.category == Category::Idle {
                p.part = Part::of(Category::InRequest);
            }
            self.ledger(at).served.add(p.part, ((p.to - p.from) as f64 * stands_for).round() as u64);
        }
        if turns {
            let pieces: Vec<_> = pieces.iter().map(|p| (*p, self.beside(p))).collect();
            self.spans.turn(who, since, length, Some(&pieces));
        }
        self.walked += pieces.len() as u64;
        self.scratch = pieces;
    }

    /// Whether a thread's last wait ended by its timeout, and it may wait for the same again.
    fn gave_up(&self, at: usize) -> bool {
        self.threads[at].waits.last().is_some_and(|w| w.waker == 0)
    }

    /// The waits of a call, or of several for the same, are all there. A thread that sleeps again in the same call was woken for
    /// nothing (another child ended, another reader was faster): whoever ended the last wait ended
    /// them all. `returned`: the call is over, so the last is there.
    pub(super) fn settle_call(&mut self, at: usize, returned: bool) {
        if self.threads[at].waits.is_empty() {
            return;
        }
        let mut waits = std::mem::take(&mut self.threads[at].waits);
        let root = self.threads[at].tid == self.setup.root;
        let end = waits.last().filter(|_| returned && waits.len() > 1).map_or(0, |w| w.waker);
        for w in &mut waits {
            if end != 0 && w.waker != end && self.remembered(end).is_some() {
                let did = self.ended_by(at, end);
                if self.threads[at].history.revise(w.from, did) {
                    self.release(Did::Slept(Cause::Thread(w.waker)));
                    self.refer(did);
                }
                if root {
                    w.deep.clear();
                    let follow = Follow::from(&self.threads[at]);
                    self.follow_thread(end, w.from, w.to, follow, &mut w.deep);
                }
            }
            let followed = &mut self.threads[at].followed;
            w.deep.iter().for_each(|p| followed.add(p.part, p.to - p.from));
        }
        waits.clear();
        self.threads[at].waits = waits;
    }

    /// A call's event proves that its thread is on that CPU.
    pub(super) fn seen_running(&mut self, at: usize, cpu: u32, ts: u64) {
        self.cpu(cpu);
        match self.threads[at].state {
            State::Running(on) if on == cpu => {}
            State::Unknown => self.on_cpu_since(at, cpu, ts),
            _ => {
                if !self.missing(self.threads[at].since, ts) {
                    self.count_impossible("thread makes a call without a CPU");
                }
                self.settle_lost(at, ts);
                self.becomes(at, State::Running(cpu));
                let tid = self.threads[at].tid;
                let on = self.cpus[cpu as usize].state;
                if on != CpuState::Busy(tid) {
                    if let CpuState::Busy(other) = on {
                        self.left_unseen(other, cpu, ts);
                    }
                    self.cpu_becomes(cpu, ts, CpuState::Busy(tid));
                }
            }
        }
    }
}
