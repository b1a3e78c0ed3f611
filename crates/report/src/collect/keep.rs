// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Some of very many rows: every k-th, and the slowest.

use crate::document::Sampled;
use plumb_trace::units;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug)]
pub struct Keep<T> {
    most: usize,
    every: u64,
    seen: u64,
    /// Their numbers in the order of coming are multiples of `every`.
    regular: Vec<(u64, T)>,
    slow: BinaryHeap<Reverse<Slow<T>>>,
}

#[derive(Debug)]
struct Slow<T> {
    took: u64,
    number: u64,
    row: T,
}

impl<T> Slow<T> {
    fn key(&self) -> (u64, Reverse<u64>) {
        (self.took, Reverse(self.number))
    }
}

impl<T> PartialEq for Slow<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Slow<T> {}
impl<T> PartialOrd for Slow<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Slow<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T: Clone> Keep<T> {
    /// At most this many rows; one in sixteen of them for the slowest.
    pub fn new(most: usize) -> Self {
        Self { most, every: 1, seen: 0, regular: Vec::new(), slow: BinaryHeap::new() }
    }

    fn slowest(&self) -> usize {
        self.most / 16
    }

    /// Adds a row that took so long.
    pub fn add(&mut self, took: u64, row: T) {
        let number = self.seen;
        self.seen += 1;
        if number % self.every == 0 {
            self.regular.push((number, row.clone()));
        }
        let full = self.slow.len() >= self.slowest();
        if !full || self.slow.peek().is_some_and(|Reverse(least)| took > least.took) {
            if full {
                self.slow.pop();
            }
            self.slow.push(Reverse(Slow { took, number, row }));
        }
        // While all are kept the slowest are among them.
        let limit = if self.every == 1 { self.most } else { self.most - self.slowest() };
        if self.regular.len() > limit {
            self.every *= 2;
            let every = self.every;
            self.regular.retain(|(number, _)| number % every == 0);
        }
    }

    /// Those that stayed, in the order of coming, each with whether it did so for its slowness alone, and how
    /// they were chosen; `what` they are in the plural. The others are every k-th, so fair for all.
    pub fn finish(self, what: &str) -> (Vec<(T, bool)>, Sampled) {
        let slowest = self.slow.len() as u64;
        let mut rows = self.regular;
        let mut how = String::new();
        if self.every > 1 {
            let every = self.every;
            let more = self.slow.into_iter().filter(|Reverse(s)| s.number % every != 0);
            rows.extend(more.map(|Reverse(s)| (s.number, s.row)));
            rows.sort_unstable_by_key(|(number, _)| *number);
            how = format!(
                "one in {every} of {} {what}, and the {} slowest",
                units::count(self.seen),
                units::count(slowest)
            );
        }
        let sampled = Sampled { seen: self.seen, shown: rows.len() as u64, how };
        let every = self.every;
        (rows.into_iter().map(|(number, row)| (row, number % every != 0)).collect(), sampled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_all_kept() {
        let mut keep = Keep::new(160);
        (0..160u64).for_each(|n| keep.add(n % 7, n));
        let (rows, sampled) = keep.finish("requests");
        assert_eq!(rows, (0..160).map(|n| (n, false)).collect::<Vec<_>>());
        assert_eq!(sampled, Sampled { seen: 160, shown: 160, how: String::new() });
    }

    #[test]
    fn of_many_every_kth_and_the_slowest() {
        let mut keep = Keep::new(160);
        // The slowest come early, late, and where no regular one is.
        let took = |n: u64| if n % 1001 == 1 { 1_000_000 + n } else { n % 100 };
        (0..10_000u64).for_each(|n| keep.add(took(n), n));
        let (rows, sampled) = keep.finish("requests");
        assert!(rows.len() <= 160 && rows.is_sorted(), "{}", rows.len());
        for slow in (0..10_000).filter(|n| n % 1001 == 1) {
            assert!(rows.contains(&(slow, slow % 128 != 0)), "{slow}");
        }
        for regular in (0..10_000).step_by(128) {
            assert!(rows.contains(&(regular, false)), "{regular}");
        }
        assert_eq!((sampled.seen, sampled.shown), (10_000, rows.len() as u64));
        assert_eq!(sampled.how, "one in 128 of 10,000 requests, and the 10 slowest");
    }
}
