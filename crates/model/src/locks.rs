// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks, of the kernel and of user code: who waited how long, who held, who
//! got it next. A lock is free, or held while a queue of threads waits.

use crate::parts::{Parts, Who};
use crate::services::Service;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Locks that are remembered; those with the least waiting are forgotten beyond.
const MOST: usize = 4096;
/// Changes of hands of one lock that are remembered.
const CHAIN: usize = 512;

/// LCB_F_* of include/trace/events/lock.h.
pub mod flags {
    pub const SPIN: u32 = 1;
    pub const READ: u32 = 2;
    pub const WRITE: u32 = 4;
    pub const RT: u32 = 8;
    /// A per-CPU rwsem.
    pub const PERCPU: u32 = 16;
    pub const MUTEX: u32 = 32;
    pub const FUTEX: u32 = 1 << 16;
    /// The global lock of an interpreter.
    pub const INTERPRETER: u32 = 1 << 17;
}

/// What a lock is, from the flags that its waiters gave.
pub fn kind(flags: u32) -> &'static str {
    match flags {
        f if f & flags::INTERPRETER != 0 => "global interpreter lock",
        f if f & flags::FUTEX != 0 => "user lock",
        f if f & flags::MUTEX != 0 => "mutex",
        f if f & flags::RT != 0 => "rt mutex",
        f if f & flags::PERCPU != 0 => "percpu rwsem",
        f if f & flags::SPIN != 0 && f & (flags::READ | flags::WRITE) != 0 => "rwlock",
        f if f & flags::SPIN != 0 => "spinlock",
        f if f & (flags::READ | flags::WRITE) != 0 => "rwsem",
        _ => "lock",
    }
}

/// Identity of a lock: 0 and its address for the kernel's, process and address for a futex.
pub type Key = (u32, u64);

/// The lock passed from one thread to another that waited.
#[derive(Debug, Clone, Copy)]
pub struct Handoff {
    /// When the waiter was woken, ns.
    pub at: u64,
    /// Who let go; 0 when not known.
    pub holder: u32,
    pub holder_name: Who,
    pub next: u32,
    pub next_name: Who,
    /// How long that one had waited, ns.
    pub waited: u64,
    /// It changed hands; the waiter did not just give up.
    pub handed: bool,
    pub behind: u32,
    /// The next one waits to read, not to write.
    pub read: bool,
    /// Kernel stack of who let go; 0 when not taken.
    pub stack: u32,
    pub user_stack: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Lock {
    /// Flags of all waiters together.
    pub flags: u32,
    pub waits: u64,
    /// The same by service: waits, time and longest, ns.
    pub by: Vec<(Service, u64, u64, u64)>,
    /// Their time, ns.
    pub time: u64,
    /// Longest, ns.
    pub longest: u64,
    /// Waits of threads that wanted to read.
    pub readers: u64,
    /// Contentions, sleeping or not.
    pub contentions: u64,
    pub waiting: u32,
    pub most_waiting: u32,
    /// A kernel stack on which somebody waited; 0 when none was taken.
    pub stack: u32,
    /// Who held it while others waited: category is of no account.
    pub holders: Parts,
    /// What the holders were at while others waited.
    pub doing: Parts,
    /// The last times that it changed hands.
    pub chain: VecDeque<Handoff>,
}

#[derive(Debug, Default)]
pub struct Locks {
    locks: FxHashMap<Key, Lock>,
    /// Waits of locks that were forgotten.
    pub forgotten: u64,
}

impl Locks {
    fn entry(&mut self, key: Key) -> &mut Lock {
        if self.locks.len() >= MOST && !self.locks.contains_key(&key) {
            let mut times: Vec<u64> = self.locks.values().map(|l| l.time).collect();
            let middle = times.len() / 2;
            let median = *times.select_nth_unstable(middle).1;
            let forgotten = &mut self.forgotten;
            self.locks.retain(|_, l| {
                let keep = l.waiting > 0 || l.time > median;
                *forgotten += if keep { 0 } else { l.waits };
                keep
            });
        }
        self.locks.entry(key).or_default()
    }

    /// A thread begins to wait.
    pub fn begin(&mut self, key: Key, flags: u32) {
        let lock = self.entry(key);
        lock.flags |= flags;
        lock.contentions += 1;
        lock.waiting += 1;
        lock.most_waiting = lock.most_waiting.max(lock.waiting);
    }

    /// A thread has it, or gave up.
    pub fn end(&mut self, key: Key) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.waiting = lock.waiting.saturating_sub(1);
        }
    }

    /// The thread that was handed the lock last.
    pub fn last(&self, key: Key) -> (u32, Who) {
        let last = self.locks.get(&key).and_then(|l| l.chain.back());
        last.map_or((0, Who::Nobody), |h| (h.next, h.next_name))
    }

    /// Tells who had a lock from `from` to `to`, last first, as far as it is known; `last` had it at the end.
    pub fn held(
        &self,
        key: Key,
        last: (u32, Who),
        from: u64,
        to: u64,
        mut tell: impl FnMut(u32, Who, u64, u64),
    ) {
        let (mut holder, mut until) = (last, to);
        let chain = self.locks.get(&key).map(|l| &l.chain);
        for h in chain.into_iter().flatten().rev().take_while(|h| h.at > from) {
            if h.next == holder.0 && h.at < until && h.holder != 0 {
                tell(holder.0, holder.1, h.at, until);
                (holder, until) = ((h.holder, h.holder_name), h.at);
            }
        }
        tell(holder.0, holder.1, from, until);
    }

    /// A wait that slept, of a thread of that service, is over.
    pub fn slept(&mut self, key: Key, service: Service, handoff: Handoff) -> &mut Lock {
        let lock = self.entry(key);
        lock.waits += 1;
        lock.time += handoff.waited;
        lock.longest = lock.longest.max(handoff.waited);
        if service != 0 {
            let at = lock.by.iter().position(|(s, ..)| *s == service);
            let at = at.unwrap_or_else(|| {
                lock.by.push((service, 0, 0, 0));
                lock.by.len() - 1
            });
            let (_, waits, time, longest) = &mut lock.by[at];
            (*waits, *time, *longest) = (*waits + 1, *time + handoff.waited, (*longest).max(handoff.waited));
        }
        lock.readers += u64::from(handoff.read);
        if !handoff.handed {
            return lock;
        }
        if lock.chain.len() == CHAIN {
            lock.chain.pop_front();
        }
        let behind = lock.waiting.saturating_sub(1);
        lock.chain.push_back(Handoff { behind, ..handoff });
        lock
    }

    /// Every lock for which somebody slept, a service's thread or any: waits, their time and the longest, ns. Most time
    /// first.
    pub fn by_time(&self, service: Option<Service>) -> Vec<(Key, [u64; 3], &Lock)> {
        let sums = |l: &Lock| match service {
            None => (l.waits > 0).then_some([l.waits, l.time, l.longest]),
            Some(of) => {
                l.by.iter().find(|(s, ..)| *s == of).map(|(_, n, time, longest)| [*n, *time, *longest])
            }
        };
        let mut out: Vec<_> = self.locks.iter().filter_map(|(k, l)| Some((*k, sums(l)?, l))).collect();
        out.sort_by(|a, b| b.1[1].cmp(&a.1[1]).then(a.0.cmp(&b.0)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_lock_is_counted() {
        let mut locks = Locks::default();
        let key = (0, 1);
        (0..3).for_each(|_| locks.begin(key, flags::MUTEX));
        let handoff = Handoff {
            at: 9,
            holder: 1,
            holder_name: Who::Nobody,
            next: 2,
            next_name: Who::Nobody,
            waited: 5,
            handed: true,
            behind: 0,
            read: false,
            stack: 0,
            user_stack: 0,
        };
        locks.slept(key, 0, handoff);
        locks.end(key);
        locks.slept(key, 0, Handoff { waited: 7, ..handoff });
        let (.., lock) = locks.by_time(None)[0];
        assert_eq!((lock.waits, lock.time, lock.longest, lock.most_waiting), (2, 12, 7, 3));
        assert_eq!(lock.chain.iter().map(|h| h.behind).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(kind(lock.flags), "mutex");
    }

    #[test]
    fn each_of_a_queue_had_the_lock_in_turn() {
        let mut locks = Locks::default();
        let key = (7, 64);
        // 1 keeps it until 90; 2 passes it on at once, and so does 3.
        let handoff = |at, holder, next| Handoff {
            at,
            holder,
            holder_name: Who::Name(holder),
            next,
            next_name: Who::Name(next),
            waited: at,
            handed: true,
            behind: 0,
            read: false,
            stack: 0,
            user_stack: 0,
        };
        locks.slept(key, 0, handoff(90, 1, 2));
        locks.slept(key, 0, handoff(92, 2, 3));
        let mut had = Vec::new();
        locks.held(key, (3, Who::Name(3)), 10, 95, |tid, _, from, to| had.push((tid, from, to)));
        assert_eq!(had, [(3, 92, 95), (2, 90, 92), (1, 10, 90)]);
        // Of another lock nothing is known but who passed it on.
        had.clear();
        locks.held((7, 65), (3, Who::Name(3)), 10, 95, |tid, _, from, to| had.push((tid, from, to)));
        assert_eq!(had, [(3, 10, 95)]);
    }

    #[test]
    fn locks_with_little_waiting_are_forgotten_first() {
        let mut locks = Locks::default();
        for i in 0..3 * MOST as u64 {
            locks.begin((0, i), flags::SPIN);
            locks.slept(
                (0, i),
                0,
                Handoff {
                    at: 0,
                    holder: 0,
                    holder_name: Who::Nobody,
                    next: 0,
                    next_name: Who::Nobody,
                    waited: if i == 7 { 1000 } else { i % 5 },
                    handed: true,
                    behind: 0,
                    read: false,
                    stack: 0,
                    user_stack: 0,
                },
            );
            locks.end((0, i));
        }
        assert!(locks.locks.len() <= MOST && locks.forgotten > 0);
        assert_eq!(locks.by_time(None)[0].0, (0, 7));
    }
}
