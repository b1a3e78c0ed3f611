// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running time and the interrupts on top of it, put into the account as it goes.

use super::Model;
use crate::account::{Account, Category};
use crate::parts::{Part, Piece, Who};
use crate::thread::State;
use crate::{Observer, Slept, Spent};

/// Running time that is not in the account yet.
struct Uncharged {
    category: Category,
    /// ns.
    busy: u64,
    /// Interrupts meanwhile, ns.
    irq: u64,
    /// Interrupt time of the CPU's present state, ns.
    interrupted: u64,
}

impl<O: Observer> Model<O> {
    /// Puts running time up to `ts` into the account.
    pub(super) fn charge(&mut self, at: usize, ts: u64) {
        let Some(Uncharged { category, busy, irq, interrupted }) = self.uncharged(at, ts) else { return };
        let t = &mut self.threads[at];
        t.spend(Category::Interrupted, irq);
        t.spend(category, busy);
        let from = t.charged;
        (t.charged, t.charged_interrupts) = (ts, interrupted);
        if t.target {
            t.path.ran(Part { category, who: Who::Name(t.called) }, busy);
            t.path.ran(Part::of(Category::Interrupted), irq);
            self.spent(at, Part::of(category), (from, ts), busy);
            self.spent(at, Part::of(Category::Interrupted), (from, ts), irq);
        }
    }

    /// Tells that `time` of a target's thread, on a CPU or lost, went into its account.
    pub(super) fn spent(&mut self, at: usize, part: Part, (from, to): (u64, u64), time: u64) {
        let piece = Piece { part, from, to, request: 0, tid: 0 };
        self.tell(at, &piece, time, None);
    }

    /// Tells the same of a piece of a wait.
    pub(super) fn slept(&mut self, at: usize, p: &Piece, wait: Option<Slept>) {
        self.tell(at, p, p.to - p.from, wait);
    }

    /// Tells what a thread did meanwhile for which this one waited.
    pub(super) fn followed(&mut self, at: usize, p: &Piece, wait: Option<Slept>) {
        let spent = self.piece_of(at, p, p.to - p.from, wait);
        self.observer.followed(&spent);
    }

    fn tell(&mut self, at: usize, p: &Piece, time: u64, wait: Option<Slept>) {
        if time == 0 {
            return;
        }
        let spent = self.piece_of(at, p, time, wait);
        self.triggered.spent((spent.tid, self.threads[at].called), p.part, (p.from, p.to), time);
        self.observer.spent(&spent);
    }

    fn piece_of(&self, at: usize, p: &Piece, time: u64, wait: Option<Slept>) -> Spent {
        let t = &self.threads[at];
        let Piece { part: Part { category, who }, from, to, request, .. } = *p;
        Spent { tid: t.tid, tgid: t.tgid, name: t.name, category, who, from, to, time, request, wait }
    }

    /// What a thread's account would be at `ts`, were it charged.
    pub(super) fn account_at(&self, at: usize, ts: u64) -> Account {
        let mut account = self.threads[at].account;
        if let Some(Uncharged { category, busy, irq, .. }) = self.uncharged(at, ts) {
            account.add(Category::Interrupted, irq);
            account.add(category, busy);
        }
        account
    }

    fn uncharged(&self, at: usize, ts: u64) -> Option<Uncharged> {
        let t = &self.threads[at];
        let State::Running(cpu) = t.state else { return None };
        let interrupted = self.cpus[cpu as usize].interrupted_until(ts);
        let irq = (interrupted - t.charged_interrupts.min(interrupted)).min(ts - t.charged);
        let category = if t.lock.is_some() { Category::Spinning } else { Category::Running };
        Some(Uncharged { category, busy: ts - t.charged - irq, irq, interrupted })
    }
}
