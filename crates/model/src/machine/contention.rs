// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks and herds: events and ended waits on their way to the books.

use super::blame::Follow;
use super::Model;
use crate::account::Category;
use crate::history::Cause;
use crate::latches::Latch;
use crate::locks::{flags, Handoff, Key};
use crate::parts::{Part, Piece, Who};
use crate::thread::{Futex, Sleep, State};
use crate::Observer;
use plumb_trace::schema::{ContentionBegin, Futex as FutexEvent};

/// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI2 of include/uapi/linux/futex.h.
const WAITS: [u16; 4] = [0, 6, 9, 13];
/// Expected value of a lock that is taken and waited for, in glibc and in Rust's library.
const TAKEN: u16 = 2;
/// A thread that sleeps again after less than this got nothing, ns.
const FUTILE: u64 = 200_000;

impl<O: Observer> Model<O> {
    pub(super) fn contended(&mut self, ts: u64, tid: u32, e: &ContentionBegin) {
        let at = self.place(tid);
        self.charge(at, ts);
        self.threads[at].lock = Some(e.lock);
        self.threads[at].lock_read = e.flags & flags::READ != 0;
        if self.threads[at].target {
            self.locks.begin((0, e.lock), e.flags);
        }
    }

    pub(super) fn got_lock(&mut self, ts: u64, tid: u32, lock: u64) {
        let at = self.place(tid);
        self.charge(at, ts);
        self.threads[at].lock = None;
        if self.threads[at].target {
            self.locks.end((0, lock));
        }
    }

    pub(super) fn futex(&mut self, tid: u32, e: &FutexEvent) {
        let at = self.place(tid);
        let waits = WAITS.contains(&e.op);
        let pi = e.op == 6 || e.op == 13;
        self.threads[at].futex =
            waits.then_some(Futex { uaddr: e.uaddr, owner: e.owner, taken: e.val == TAKEN || pi });
    }

    /// A thread sleeps in futex(2) for what is known to be a lock already.
    pub(super) fn joins_queue(&mut self, at: usize, sleep: &Sleep) {
        let t = &self.threads[at];
        // Woken already: it goes on at once.
        let waits = t.target && sleep.lock.is_none() && sleep.raced.is_none();
        let Some(futex) = sleep.futex.filter(|_| waits) else { return };
        if self.is_lock(sleep, at) {
            let (key, bits) = self.futex_lock(t.tgid, futex);
            self.locks.begin(key, bits);
            self.threads[at].queued = Some(key);
        }
    }

    /// The lock that a futex is, and its flags.
    fn futex_lock(&self, pid: u32, futex: Futex) -> (Key, u32) {
        // A lock by its own word is no interpreter's.
        match Some(futex).filter(|f| !f.taken).and_then(|f| self.latches.get(pid, f.uaddr)) {
            Some(Latch::Interpreter(address)) => ((pid, address), flags::FUTEX | flags::INTERPRETER),
            Some(Latch::Woken) | None => ((pid, futex.uaddr), flags::FUTEX),
        }
    }

    /// A thread ended a wait for a futex.
    pub(super) fn learn(&mut self, at: usize, sleep: &Sleep, cause: Cause, end: u64) {
        let (Some(futex), Cause::Thread(waker)) = (sleep.futex.filter(|f| !f.taken), cause) else { return };
        let t = &self.threads[at];
        if waker != t.tid {
            let stack = self.wakers.get(&(t.tid, end)).map(|(_, user)| *user);
            self.latches.woken(t.tgid, futex.uaddr, stack);
        }
    }

    /// A wait ended: if it was for a lock, the lock changed hands.
    #[allow(clippy::too_many_arguments, reason = "a wait is known by all of these")]
    pub(super) fn note_lock(
        &mut self,
        at: usize,
        sleep: &Sleep,
        start: u64,
        end: u64,
        cause: Cause,
        own: &[Piece],
        stack: Option<u32>,
    ) {
        let first = own.first();
        if first.is_none_or(|first| first.part.category != Category::UserLock) {
            // It gave up, or was no lock after all; or all of it lies before what is accounted.
            if let Some(key) = self.threads[at].queued.take() {
                self.locks.end(key);
            }
        }
        let Some(first) = first else { return };
        let (key, bits): (Key, u32) = match (first.part.category, sleep.lock, sleep.futex) {
            (Category::KernelLock, Some(lock), _) => ((0, lock), 0),
            (Category::UserLock, _, Some(futex)) => self.futex_lock(self.threads[at].tgid, futex),
            _ => return,
        };
        let queued = self.threads[at].queued.take();
        if bits != 0 && queued.is_none() {
            self.locks.begin(key, bits);
        }
        let (tid, name) = (self.threads[at].tid, self.threads[at].called);
        let (holder, who) = match cause {
            Cause::Thread(holder) => (holder, self.waker(cause, at)),
            // It gave up for now: who had got it last had it.
            Cause::Timer => self.locks.last(key),
            _ => (0, Who::Nobody),
        };
        let wakers = self.wakers.remove(&(tid, end)).unwrap_or_default();
        let mut doing = std::mem::take(&mut self.scratch);
        doing.clear();
        let mut holders = Vec::new();
        if holder != 0 {
            let follow = Follow { depth: 1, peer: true, ..Follow::from(&self.threads[at]) };
            // Who let go may have waited for it too, behind others: each had it in turn.
            self.locks.held(key, (holder, who), start, end, |tid, who, from, to| {
                self.follow_thread(tid, from, to, follow, &mut doing);
                holders.push((who, to - from));
            });
        } else {
            holders.push((who, end - start));
        }
        let read = self.threads[at].lock_read && bits == 0;
        let service = self.threads[at].service;
        let lock = self.locks.slept(
            key,
            service,
            Handoff {
                at: end,
                holder,
                holder_name: who,
                next: tid,
                next_name: Who::Name(name),
                waited: end - start,
                handed: matches!(cause, Cause::Thread(_)),
                behind: 0,
                read,
                stack: wakers.0,
                user_stack: wakers.1,
            },
        );
        for (who, ns) in holders {
            lock.holders.add(Part { category: first.part.category, who }, ns);
        }
        doing.iter().for_each(|p| lock.doing.add(p.part, p.to - p.from));
        if let Some(stack) = stack {
            lock.stack = stack;
        }
        if bits != 0 {
            self.locks.end(key);
        }
        self.scratch = doing;
    }

    /// Counts threads that one waker wakes at once, and those of them that slept again.
    pub(super) fn herd(&mut self, waker: Cause, wakee: usize, ts: u64) {
        let Cause::Thread(tid) = waker else { return };
        if !self.threads[wakee].target || !matches!(self.threads[wakee].state, State::Woken { .. }) {
            return;
        }
        if self.ledger(wakee).herds.woken(tid, wakee, ts) {
            self.threads[wakee].herded = Some(ts);
        }
    }

    /// A herded thread sleeps: did it do anything in between?
    pub(super) fn sleeps_again(&mut self, at: usize, ts: u64) {
        let t = &mut self.threads[at];
        let Some(woken) = t.herded.take() else { return };
        let ran = ts.saturating_sub(t.since);
        if ran < FUTILE {
            let found = &mut self.ledger(at).herds.found;
            found.futile += 1;
            found.time += ts - woken;
        }
    }
}
