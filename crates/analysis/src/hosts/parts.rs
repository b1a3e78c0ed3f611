// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each part of the requests went to on its own host: an observer of the model's pieces of time.

use plumb_model::{Category, CpuState, Naming, Observer, Spent, ThreadState, Who};
use std::collections::HashMap;

/// What the time of a part went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// As in the account.
    Account(Category, Who),
    /// Requests of its own, by row.
    Request(usize),
}

/// Time of one thread that belongs to requests.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub from: u64,
    pub to: u64,
    pub row: usize,
    pub part: usize,
    /// It may send requests of its own in it.
    pub works: bool,
}

/// One thread's, in the order of their begins.
#[derive(Debug, Default)]
pub struct Thread {
    pub windows: Vec<Window>,
    /// Where it waited for a server itself: from, to, row.
    pub waits: Vec<(u64, u64, usize)>,
    longest: u64,
    longest_wait: u64,
}

/// The windows of one recording, and what is found in them.
#[derive(Debug, Default)]
pub struct Windows {
    pub threads: HashMap<u32, Thread>,
    /// Time by row, part and cause, ns.
    pub sums: HashMap<(usize, usize, Cause), u64>,
    /// Names of threads, by thread and by number.
    names: HashMap<u32, u32>,
    pub named: HashMap<u32, String>,
    pub who: HashMap<Who, String>,
}

impl Thread {
    pub fn sort(&mut self) {
        self.windows.sort_by_key(|w| w.from);
        self.waits.sort_unstable();
        self.longest = self.windows.iter().map(|w| w.to - w.from).max().unwrap_or(0);
        self.longest_wait = self.waits.iter().map(|w| w.1 - w.0).max().unwrap_or(0);
    }

    /// Those that share time with an interval.
    fn windows(&self, from: u64, to: u64) -> impl Iterator<Item = &Window> {
        let end = self.windows.partition_point(|w| w.from < to);
        let longest = self.longest;
        let near = self.windows[..end].iter().rev().take_while(move |w| w.from + longest > from);
        near.filter(move |w| w.to > from)
    }

    fn waits(&self, from: u64, to: u64) -> impl Iterator<Item = &(u64, u64, usize)> {
        let end = self.waits.partition_point(|w| w.0 < to);
        let longest = self.longest_wait;
        let near = self.waits[..end].iter().rev().take_while(move |w| w.0 + longest > from);
        near.filter(move |w| w.1 > from)
    }
}

fn shared(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

impl Observer for Windows {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: ThreadState) {}
    fn cpu(&mut self, _: u32, _: u64, _: u64, _: CpuState) {}

    fn spent(&mut self, s: &Spent) {
        let Some(thread) = self.threads.get(&s.tid).filter(|_| s.to > s.from) else { return };
        let piece = (s.from, s.to);
        for w in thread.windows(s.from, s.to) {
            let within = (w.from.max(s.from), w.to.min(s.to));
            let scaled = |ns: u64| (u128::from(s.time) * u128::from(ns) / u128::from(s.to - s.from)) as u64;
            let mut own = shared(piece, within);
            // Without a CPU it does nothing about a request that is not answered, whether it waits for the answer or not.
            if w.works && !s.category.on_cpu() {
                let waits = thread.waits(within.0, within.1);
                // Of an event loop: those that it sent for another request are not this one's. What several servers have
                // to answer for is the last one's.
                for (from, to, row) in waits.filter(|(from, to, _)| w.from <= *from && *to <= w.to) {
                    let ns = shared(within, (*from, *to)).min(own);
                    own -= ns;
                    *self.sums.entry((w.row, w.part, Cause::Request(*row))).or_default() += scaled(ns);
                }
            }
            if own > 0 {
                let cause = Cause::Account(s.category, s.who);
                *self.sums.entry((w.row, w.part, cause)).or_default() += scaled(own);
            }
        }
    }

    fn known_as(&mut self, tid: u32, name: u32) {
        if self.threads.contains_key(&tid) {
            self.names.insert(tid, name);
        }
    }

    fn end(&mut self, naming: &dyn Naming) {
        self.named = self.names.iter().map(|(tid, name)| (*tid, naming.name(*name))).collect();
        for (_, _, cause) in self.sums.keys() {
            if let Cause::Account(_, who) = cause {
                self.who.entry(*who).or_insert_with(|| naming.who(*who));
            }
        }
    }
}
