// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each part of the requests went to on its own host: an observer of the model's pieces of time.

use super::commands;
use plumb_model::{Category, CpuState, Naming, Observer, Request, Spent, ThreadState, Who};
use plumb_trace::kernel::req;
use std::collections::HashMap;

/// Windows of a thread that are looked at for a piece of its time: one that is long makes many near.
const MOST: usize = 4_096;

/// What the time of a part went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// As in the account.
    Account(Category, Who),
    /// The same of a thread of the service for which this one waited.
    Followed(Category, Who),
    /// Requests of its own, by row.
    Request(usize),
    /// Nothing on the host: its thread is done with it, and it is in a queue of TCP or the device. True: it was sent again.
    Sending(bool),
}

/// Time of one thread that belongs to a request.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub from: u64,
    pub to: u64,
    pub row: usize,
    pub part: usize,
    /// The thread may send requests of its own for it, from then on; `u64::MAX`: not.
    pub works: u64,
    /// What a thread has nothing to do with in it is sent meanwhile; `Some(true)`: again.
    pub sends: Option<bool>,
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
    /// The wait whose pieces were told last: thread and begin.
    followed: (u32, u64),
    pub named: HashMap<u32, String>,
    pub who: HashMap<Who, String>,
    /// The block requests, where they are wanted.
    pub requests: Option<Vec<commands::Request>>,
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
        let near =
            self.windows[..end].iter().rev().take_while(move |w| w.from.saturating_add(longest) > from);
        near.take(MOST).filter(move |w| w.to > from)
    }

    fn waits(&self, from: u64, to: u64) -> impl Iterator<Item = &(u64, u64, usize)> {
        let end = self.waits.partition_point(|w| w.0 < to);
        let longest = self.longest_wait;
        let near = self.waits[..end].iter().rev().take_while(move |w| w.0.saturating_add(longest) > from);
        near.take(MOST).filter(move |w| w.1 > from)
    }
}

fn shared(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

impl Windows {
    fn add(&mut self, s: &Spent, cause: Cause) {
        let Some(thread) = self.threads.get(&s.tid).filter(|_| s.to > s.from) else { return };
        for w in thread.windows(s.from, s.to) {
            let within = (w.from.max(s.from), w.to.min(s.to));
            let scaled = |ns: u64| (u128::from(s.time) * u128::from(ns) / u128::from(s.to - s.from)) as u64;
            let mut own = shared((s.from, s.to), within);
            // Without a CPU it does nothing about a request that is not answered, whether it waits for the answer or not.
            if w.works != u64::MAX && !s.category.on_cpu() {
                let asked = thread.waits(within.0, within.1);
                // Of an event loop: those that it sent for another request are not this one's. What several servers have
                // to answer for is the last one's.
                for (from, to, row) in asked.filter(|(from, ..)| (w.works..w.to).contains(from)) {
                    let ns = shared(within, (*from, *to)).min(own);
                    own -= ns;
                    let sum = self.sums.entry((w.row, w.part, Cause::Request(*row))).or_default();
                    *sum = sum.saturating_add(scaled(ns));
                }
            }
            let rests = match s.category {
                Category::Network | Category::Idle => true,
                // For what another program does it has to wait.
                Category::Socket | Category::Poll => s.who == Who::Nobody,
                _ => false,
            };
            let done = rests && s.wait.is_some() && matches!(cause, Cause::Account(..));
            let cause = w.sends.filter(|_| done).map_or(cause, Cause::Sending);
            if own > 0 {
                let sum = self.sums.entry((w.row, w.part, cause)).or_default();
                *sum = sum.saturating_add(scaled(own));
            }
        }
    }
}

impl Observer for Windows {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: ThreadState) {}
    fn cpu(&mut self, _: u32, _: u64, _: u64, _: CpuState) {}

    fn spent(&mut self, s: &Spent) {
        let handed = matches!(s.category, Category::InRequest | Category::Signalled);
        if handed && s.wait.is_some_and(|w| (s.tid, w.start) == self.followed) {
            return;
        }
        self.add(s, Cause::Account(s.category, s.who));
    }

    fn followed(&mut self, s: &Spent) {
        self.followed = (s.tid, s.wait.map_or(0, |w| w.start));
        self.add(s, Cause::Followed(s.category, s.who));
    }

    fn request(&mut self, _: u64, r: &Request, counted: bool) {
        let Some(all) = self.requests.as_mut().filter(|_| counted && r.d > 0) else { return };
        let [queued, .., issued, completed] = r.steps();
        let op = if r.len == 0 && req::is_write(r.opf) { req::FLUSH } else { req::op(r.opf) };
        let (dev, place, count) = (r.dev, r.sector.saturating_mul(512), r.len);
        all.push(commands::Request { dev, op, place, count, queued, issued, completed });
    }

    fn known_as(&mut self, tid: u32, name: u32) {
        if self.threads.contains_key(&tid) {
            self.names.insert(tid, name);
        }
    }

    fn end(&mut self, naming: &dyn Naming) {
        self.named = self.names.iter().map(|(tid, name)| (*tid, naming.name(*name))).collect();
        for (_, _, cause) in self.sums.keys() {
            if let Cause::Account(_, who) | Cause::Followed(_, who) = cause {
                self.who.entry(*who).or_insert_with(|| naming.who(*who));
            }
        }
    }
}
