// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts that a thread's wall-clock time is split into.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

macro_rules! categories {
    ($($(#[$attribute:meta])? $variant:ident, $name:literal, $doc:literal;)*) => {
        /// Parts of a thread's time; they exclude each other and add up.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[repr(u8)]
        pub enum Category {
            $(#[doc = $doc] $(#[$attribute])? $variant,)*
        }

        /// Every category with its name in results and its meaning, in the order of reports.
        pub const CATEGORIES: &[(Category, &str, &str)] = &[$((Category::$variant, $name, $doc),)*];
    };
}

categories! {
    Running, "running", "on a CPU";
    Spinning, "lock.spin", "on a CPU, busy with getting a lock of the kernel that another holds";
    Interrupted, "interrupted", "on a CPU, but an interrupt had it";
    Woken, "runnable", "woken, waiting for a CPU that others had";
    Preempted, "preempted", "put off its CPU, waiting for one that others had";
    Crowded, "runnable.own", "ready, and another thread of the target had its CPU";
    WokenIdle, "runnable.idle", "ready, its CPU idle but not running it yet: the time that a wakeup takes";
    Held, "runnable.held", "ready, and its CPU idle for over 3 ms: it may not run (a CPU quota), or the CPU wakes late (a busy host)";
    BlockLimit, "block.limit", "block request: held back by a limit of the cgroup (blk-throttle, io.max)";
    BlockQueued, "block.queue", "block request: from the bio's queueing to a request slot";
    BlockPlugged, "block.plug", "block request: from the slot to its insertion in the scheduler's queue, or to the device where it is not inserted";
    BlockFlush, "block.flush", "block request: while the device flushes what it was sent before";
    BlockInserted, "block.schedule", "block request: in the scheduler's queue until it is issued";
    BlockIssued, "block.device", "block request: with the device until it completes";
    BlockDone, "block.wakeup", "block request: complete, until the thread is woken";
    OtherRunning, "other.running", "waiting for another thread, which ran";
    OtherRunnable, "other.runnable", "waiting for another thread, which waited for a CPU";
    OtherWaiting, "other.waiting", "waiting for another thread, which slept or waited itself";
    Journal, "journal", "waiting until the journal has committed an earlier transaction";
    KernelLock, "lock.kernel", "waiting for a lock of the kernel";
    UserLock, "lock.user", "waiting in futex(2) for a lock that another thread holds";
    FileLock, "lock.file", "waiting for a file lock: flock(2), fcntl(2)";
    Signalled, "thread", "waiting until another thread signals: join, condition, semaphore";
    Throttle, "writeback.throttle", "made to pause because it dirtied too many pages";
    Memory, "memory", "waiting for memory: reclaim, compaction, swap";
    Rcu, "rcu", "waiting until all readers inside the kernel are through (RCU)";
    Pipe, "pipe", "waiting for a pipe, terminal or other stream";
    Socket, "socket", "waiting in a socket call";
    Network, "network", "woken by the network's receive interrupt";
    Poll, "poll", "waiting in poll, select or epoll for any of several things";
    Child, "child", "waiting for a child process";
    Timer, "timer", "sleeping until a time";
    Signal, "signal", "waiting for a signal, stopped or traced";
    Idle, "idle", "kernel thread without work";
    #[default]
    Unexplained, "unexplained", "waiting, and the model cannot tell for what";
    Lost, "lost", "events are missing that would tell";
}

const N: usize = CATEGORIES.len();

impl Category {
    pub fn name(self) -> &'static str {
        CATEGORIES[self as usize].1
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Category {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = CATEGORIES.iter().find(|(_, known, _)| *known == name);
        known.map(|(category, ..)| *category).ok_or_else(|| format!("{name}: no category of the account"))
    }
}

/// By name, so that maps of results are in the order of their text.
impl Ord for Category {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Category {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As its name hashes, for maps that are asked with a name.
impl Hash for Category {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Borrow<str> for Category {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Category {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account([u64; N]);

impl Default for Account {
    fn default() -> Self {
        Self([0; N])
    }
}

impl Account {
    /// Adds time, ns.
    pub fn add(&mut self, category: Category, ns: u64) {
        self.0[category as usize] += ns;
    }

    /// Time in one category, ns.
    pub fn get(&self, category: Category) -> u64 {
        self.0[category as usize]
    }

    /// Time in all categories, ns.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub fn merge(&mut self, other: &Account) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Account) -> Account {
        let mut out = *self;
        out.0.iter_mut().zip(earlier.0).for_each(|(a, b)| *a -= b);
        out
    }

    /// What was added since `earlier`, made to add up to `ns`: time that was taken
    /// to be known then and contradicted since is lost, and so is what is missing.
    pub fn since_in(&self, earlier: &Account, ns: u64) -> Account {
        let mut out = *self;
        out.0.iter_mut().zip(earlier.0).for_each(|(a, b)| *a = a.saturating_sub(b));
        out.fit(ns);
        out
    }

    /// Makes it add up to `ns`: what is missing becomes lost time, and what is too
    /// much goes from lost time first, then from the largest parts.
    fn fit(&mut self, ns: u64) {
        let total = self.total();
        let mut excess = total.saturating_sub(ns);
        self.0[Category::Lost as usize] += ns.saturating_sub(total);
        let lost = Category::Lost as usize;
        while excess > 0 {
            let largest = (0..N).max_by_key(|i| self.0[*i]).unwrap_or(lost);
            let from = if self.0[lost] > 0 { lost } else { largest };
            let cut = excess.min(self.0[from]);
            self.0[from] -= cut;
            excess -= cut;
        }
    }

    /// The parts that are not zero, ns.
    pub fn parts(&self) -> BTreeMap<Category, u64> {
        CATEGORIES.iter().map(|(c, ..)| (*c, self.get(*c))).filter(|(_, ns)| *ns > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitting_keeps_what_is_known() {
        let mut a = Account::default();
        a.add(Category::Running, 70);
        a.add(Category::BlockIssued, 30);
        a.fit(100);
        assert_eq!((a.get(Category::Running), a.get(Category::Lost)), (70, 0));
        a.fit(110);
        assert_eq!((a.get(Category::Running), a.get(Category::Lost)), (70, 10));
        a.fit(95);
        assert_eq!((a.get(Category::Running), a.get(Category::Lost)), (65, 0));
        a.fit(0);
        assert_eq!(a.total(), 0);
    }

    #[test]
    fn running_that_turned_out_to_be_lost_is_lost() {
        let (mut before, mut after) = (Account::default(), Account::default());
        before.add(Category::Running, 50);
        after.add(Category::Running, 30);
        after.add(Category::Lost, 90);
        let slice = after.since_in(&before, 70);
        assert_eq!((slice.get(Category::Running), slice.get(Category::Lost)), (0, 70));
    }
}
