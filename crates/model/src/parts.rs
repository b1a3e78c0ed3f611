// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a piece of time went to: a category, and who or what had it.

use crate::account::{Category, CATEGORIES};
use rustc_hash::FxHashMap;

/// Parts that one sum keeps apart; beyond, only their categories are.
const MOST: usize = 96;

/// Who ends a wait for the network when a timer of TCP on this host does.
pub const TCP_TIMER: &str = "TCP timer";
/// Who prolongs a wait for a socket whose data TCP has to send again.
pub const TCP_AGAIN: &str = "TCP retransmission";

/// Who or what a piece of time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    Nobody,
    /// A thread that is called so, see [`crate::thread::Thread::called`].
    Name(u32),
    /// A disk, by device number.
    Disk(u32),
}

/// A category and who had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub category: Category,
    pub who: Who,
}

impl Part {
    /// In one word, by which sums find it.
    fn key(self) -> u64 {
        let (kind, number) = match self.who {
            Who::Nobody => (0, 0),
            Who::Name(n) => (1, n),
            Who::Disk(n) => (2, n),
        };
        u64::from(self.category as u8) << 40 | kind << 32 | u64::from(number)
    }

    /// The part that has this key.
    fn of_key(key: u64) -> Self {
        let who = match (key >> 32) as u8 {
            0 => Who::Nobody,
            1 => Who::Name(key as u32),
            _ => Who::Disk(key as u32),
        };
        Self { category: CATEGORIES[(key >> 40) as usize].0, who }
    }

    /// A category that nobody in particular had.
    pub fn of(category: Category) -> Self {
        Self { category, who: Who::Nobody }
    }
}

/// A part with its time, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub part: Part,
    pub from: u64,
    pub to: u64,
    /// The block request that it went to: its number and one; 0 is none.
    pub request: u64,
    /// The thread whose doing it was, where a wait was followed to it; 0: the thread's own.
    pub tid: u32,
}

/// Appends a piece unless it is empty.
pub fn piece(out: &mut Vec<Piece>, part: Part, from: u64, to: u64) {
    if to > from {
        out.push(Piece { part, from, to, request: 0, tid: 0 });
    }
}

/// Sums by part, ns.
#[derive(Debug, Default)]
pub struct Parts {
    /// Key of the part, and its time.
    sums: Vec<(u64, u64)>,
    /// The one that was added to last: mostly it is the same again, or the next.
    last: usize,
}

impl Clone for Parts {
    fn clone(&self) -> Self {
        Self { sums: self.sums.clone(), last: self.last }
    }
    // Keeps the memory that is there: paths are copied at every wakeup.
    fn clone_from(&mut self, source: &Self) {
        self.sums.clone_from(&source.sums);
        self.last = source.last;
    }
}

impl Parts {
    /// Adds time to a part.
    pub fn add(&mut self, part: Part, ns: u64) {
        self.add_key(part.key(), ns);
    }

    fn add_key(&mut self, key: u64, ns: u64) {
        let is = |at: usize| self.sums.get(at).is_some_and(|(k, _)| *k == key);
        let near = if is(self.last) { Some(self.last) } else { Some(self.last + 1).filter(|at| is(*at)) };
        if let Some(at) = near.or_else(|| self.sums.iter().position(|(k, _)| *k == key)) {
            self.sums[at].1 += ns;
            self.last = at;
            return;
        }
        let part = Part::of_key(key);
        if self.sums.len() < MOST || part.who == Who::Nobody {
            self.last = self.sums.len();
            self.sums.push((key, ns));
        } else {
            self.add(Part::of(part.category), ns);
        }
    }

    /// Makes it empty; keeps its memory.
    pub fn clear(&mut self) {
        self.sums.clear();
    }

    pub fn merge(&mut self, other: &Parts) {
        other.sums.iter().for_each(|(key, ns)| self.add_key(*key, *ns));
    }

    /// Every part with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        self.sums.iter().map(|(key, ns)| (Part::of_key(*key), *ns))
    }

    /// All time, ns.
    pub fn total(&self) -> u64 {
        self.sums.iter().map(|(_, ns)| ns).sum()
    }
}

/// Names, each kept once and known by its number.
#[derive(Debug, Default)]
pub struct Names {
    numbers: FxHashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(n) = self.numbers.get(name) {
            return *n;
        }
        let n = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), n);
        n
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}
