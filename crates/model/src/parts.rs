// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a piece of time went to: a category, and who or what had it.

use crate::account::Category;
use std::collections::HashMap;

/// Parts that one sum keeps apart; beyond, only their categories are.
const MOST: usize = 96;

/// Who ends a wait for the network when a timer of TCP on this host does.
pub const TCP_TIMER: &str = "TCP timer";

/// Who or what a piece of time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    Nobody,
    /// A thread of this name, see [`Names`].
    Name(u32),
    /// A disk, by device number.
    Disk(u32),
}

/// A category and who had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    pub category: Category,
    pub who: Who,
}

impl Part {
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
}

/// Appends a piece unless it is empty.
pub fn piece(out: &mut Vec<Piece>, part: Part, from: u64, to: u64) {
    if to > from {
        out.push(Piece { part, from, to, request: 0 });
    }
}

/// Sums by part, ns.
#[derive(Debug, Default)]
pub struct Parts(Vec<(Part, u64)>);

impl Clone for Parts {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
    // Keeps the memory that is there: paths are copied at every wakeup.
    fn clone_from(&mut self, source: &Self) {
        self.0.clone_from(&source.0);
    }
}

impl Parts {
    /// Adds time to a part.
    pub fn add(&mut self, part: Part, ns: u64) {
        if let Some((_, sum)) = self.0.iter_mut().find(|(p, _)| *p == part) {
            *sum += ns;
        } else if self.0.len() < MOST || part.who == Who::Nobody {
            self.0.push((part, ns));
        } else {
            self.add(Part::of(part.category), ns);
        }
    }

    pub fn merge(&mut self, other: &Parts) {
        other.iter().for_each(|(part, ns)| self.add(part, ns));
    }

    /// Every part with its time.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        self.0.iter().copied()
    }

    /// All time, ns.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, ns)| ns).sum()
    }
}

/// Names, each kept once and known by its number.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<String, u32>,
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
