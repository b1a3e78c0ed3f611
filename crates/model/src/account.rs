// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts that a thread's wall-clock time is split into.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

macro_rules! categories {
    ($($(#[$attribute:meta])? $variant:ident, $name:literal, $doc:literal, $activity:literal;)*) => {
        /// Parts of a thread's time; they exclude each other and add up.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(u8)]
        pub enum Category {
            $(#[doc = $doc] $(#[$attribute])? $variant,)*
        }

        /// Every category with its name in results and its meaning, in the order of reports.
        pub const CATEGORIES: &[(Category, &str, &str)] = &[$((Category::$variant, $name, $doc),)*];

        /// What a thread is called that is in it, in the same order.
        const ACTIVITIES: &[&str] = &[$($activity,)*];
    };
}

categories! {
    Running, "running", "on CPU", "running";
    Spinning, "lock.spin", "on CPU, spinning for a kernel lock", "spinning for a kernel lock";
    Interrupted, "interrupted", "on CPU, but an interrupt handler had it", "interrupted";
    Woken, "runnable", "runnable, waiting on the run queue", "runnable";
    Preempted, "preempted", "preempted, waiting on the run queue", "preempted";
    Crowded, "runnable.own", "runnable, waiting on the run queue behind another thread of the target", "runnable";
    WokenIdle, "runnable.idle", "runnable on an idle CPU: wakeup latency", "waking up";
    Held, "runnable.held", "runnable, not allowed to run: CPU quota used up (throttled), or its CPU idle for over 3 ms (busy host)", "runnable, not allowed to run";
    Overhead, "overhead", "runnable, waiting on the run queue behind the recorder: measurement overhead", "runnable behind the recorder";
    BlockLimit, "block.limit", "block request: throttled by the cgroup (io.max, blk-throttle)", "throttled I/O";
    BlockQueued, "block.queue", "block request: waiting for a request (tag) (Q2G)", "waiting for I/O";
    BlockPlugged, "block.plug", "block request: plugged, not yet in the I/O scheduler (G2I)", "waiting for I/O";
    BlockFlush, "block.flush", "block request: waiting for a device cache flush before it", "waiting for I/O";
    BlockInserted, "block.schedule", "block request: in the I/O scheduler (I2D)", "waiting for I/O";
    BlockIssued, "block.device", "block request: in flight, device service time (D2C)", "waiting for I/O";
    BlockDone, "block.wakeup", "block request: completed, thread not yet woken", "waiting for I/O";
    OtherRunning, "other.running", "waiting for another thread, which was running", "waiting for another thread";
    OtherRunnable, "other.runnable", "waiting for another thread, which was runnable", "waiting for another thread";
    OtherWaiting, "other.waiting", "waiting for another thread, which was blocked", "waiting for another thread";
    Journal, "journal", "waiting for the journal to commit an earlier transaction", "waiting for a journal commit";
    KernelLock, "lock.kernel", "waiting for a kernel lock", "waiting for a kernel lock";
    UserLock, "lock.user", "waiting for a user-space lock (futex) held by another thread", "waiting for a user-space lock";
    FileLock, "lock.file", "waiting for a file lock (flock, fcntl)", "waiting for a file lock";
    Signalled, "thread", "waiting for another thread: join, condition variable, semaphore", "waiting for another thread";
    InRequest, "thread.request", "with a request in progress: waiting for another thread of the target", "waiting for another thread";
    Throttle, "writeback.throttle", "throttled for dirtying pages (balance_dirty_pages)", "throttled in write-back";
    Memory, "memory", "waiting for memory: reclaim, compaction, swap-in", "waiting for memory";
    Rcu, "rcu", "waiting for an RCU grace period", "waiting for an RCU grace period";
    Pipe, "pipe", "waiting for a pipe, terminal or other stream", "waiting for a pipe";
    Socket, "socket", "waiting in a socket call", "waiting for a socket";
    Network, "network", "waiting for the network: woken by a receive interrupt", "waiting for the network";
    Poll, "poll", "waiting in poll, select or epoll", "polling";
    Child, "child", "waiting for a child process", "waiting for a child process";
    Timer, "timer", "sleeping on a timer (intentional sleep)", "sleeping";
    Signal, "signal", "waiting for a signal", "waiting for a signal";
    Stopped, "stopped", "stopped by a signal, a tracer or the freezer", "stopped";
    Idle, "idle", "idle: no request in progress", "idle";
    #[default]
    Unexplained, "unexplained", "blocked, cause unknown", "blocked";
    Paused, "paused", "not recorded: the recording paused, to keep within its budget", "not recorded";
    Lost, "lost", "unknown: events are missing", "unknown";
}

const N: usize = CATEGORIES.len();

impl Category {
    pub fn name(self) -> &'static str {
        CATEGORIES[self as usize].1
    }
}

impl Category {
    /// Its meaning, as in reports.
    pub fn meaning(self) -> &'static str {
        CATEGORIES[self as usize].2
    }

    /// What a thread in it does, in a few words: `runnable`, `waiting for I/O`.
    pub fn activity(self) -> &'static str {
        ACTIVITIES[self as usize]
    }

    /// The same of a thread that has nothing else to do.
    pub fn resting(self) -> &'static str {
        match self {
            Self::Idle => "waiting for requests",
            _ => self.activity(),
        }
    }

    /// No reason by itself where there is no command whose end is waited for: a wait of a thread that has
    /// nothing to do, as far as is known, or time that was not recorded.
    pub fn rests(self) -> bool {
        matches!(self, Self::Child | Self::Signalled | Self::Idle | Self::Signal | Self::Poll | Self::Paused)
    }

    /// A block request of the thread itself is on its way.
    pub fn is_block(self) -> bool {
        use Category as C;
        matches!(
            self,
            C::BlockLimit
                | C::BlockQueued
                | C::BlockPlugged
                | C::BlockFlush
                | C::BlockInserted
                | C::BlockIssued
                | C::BlockDone
        )
    }

    /// The thread has a CPU.
    pub fn on_cpu(self) -> bool {
        matches!(self, Self::Running | Self::Spinning | Self::Interrupted)
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

/// Time by category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// ns.
    sums: [u64; N],
    /// Categories that are not zero, a bit each: most accounts have few, and are added up at every system call.
    used: u64,
}

const _: () = assert!(N <= 64);

impl Default for Account {
    fn default() -> Self {
        Self { sums: [0; N], used: 0 }
    }
}

/// The places of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            at
        })
    })
}

impl Account {
    /// Adds time, ns.
    pub fn add(&mut self, category: Category, ns: u64) {
        self.sums[category as usize] += ns;
        self.used |= u64::from(ns > 0) << category as u8;
    }

    /// Time in one category, ns.
    pub fn get(&self, category: Category) -> u64 {
        self.sums[category as usize]
    }

    /// Time in all categories, ns.
    pub fn total(&self) -> u64 {
        bits(self.used).map(|i| self.sums[i]).sum()
    }

    pub fn merge(&mut self, other: &Account) {
        bits(other.used).for_each(|i| self.sums[i] += other.sums[i]);
        self.used |= other.used;
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        bits(self.used).for_each(|i| self.sums[i] = 0);
        self.used = 0;
    }

    /// What was added since `earlier`, made to add up to `ns`: time that was taken
    /// to be known then and contradicted since is lost, and so is what is missing.
    pub fn since_in(&self, earlier: &Account, ns: u64) -> Account {
        let mut out = *self;
        out.sums.iter_mut().zip(earlier.sums).for_each(|(a, b)| *a = a.saturating_sub(b));
        out.fit(ns);
        out
    }

    /// Makes it add up to `ns`: what is missing becomes lost time, and what is too
    /// much goes from lost time first, then from the largest parts.
    fn fit(&mut self, ns: u64) {
        let total = self.sums.iter().sum::<u64>();
        let mut excess = total.saturating_sub(ns);
        self.sums[Category::Lost as usize] += ns.saturating_sub(total);
        let lost = Category::Lost as usize;
        while excess > 0 {
            let largest = (0..N).max_by_key(|i| self.sums[*i]).unwrap_or(lost);
            let from = if self.sums[lost] > 0 { lost } else { largest };
            let cut = excess.min(self.sums[from]);
            self.sums[from] -= cut;
            excess -= cut;
        }
        self.used = (0..N).filter(|i| self.sums[*i] > 0).fold(0, |set, i| set | 1 << i);
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
