// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long requests or commands took, and each of their parts.

use super::clocks::Clocks;
use plumb_model::Histogram;

/// Slow ones of which the parts are kept.
const MOST_KEPT: usize = 16_384;

/// One that may be told by itself.
#[derive(Debug, Clone, Copy)]
pub struct Slow<const M: usize, T> {
    /// ns.
    pub took: u64,
    /// On the client's clock, ns.
    pub begin: u64,
    /// Time of each part, ns; `None`: the server's are not known.
    pub parts: Option<[u64; M]>,
    pub what: T,
}

/// Distributions of M parts, and of all of them together.
#[derive(Debug)]
pub struct Times<const M: usize, T> {
    pub took: Histogram,
    pub parts: [Histogram; M],
    slow: Vec<Slow<M, T>>,
}

impl<const M: usize, T> Default for Times<M, T> {
    fn default() -> Self {
        Self {
            took: Histogram::default(),
            parts: std::array::from_fn(|_| Histogram::default()),
            slow: Vec::new(),
        }
    }
}

/// All values of a distribution together.
pub fn total(of: &Histogram) -> u64 {
    of.sum.try_into().unwrap_or(u64::MAX)
}

impl<const M: usize, T: Copy> Times<M, T> {
    pub fn add(&mut self, one: Slow<M, T>) {
        self.took.add(one.took);
        if let Some(parts) = one.parts {
            self.parts.iter_mut().zip(parts).for_each(|(sum, ns)| sum.add(ns));
        }
        // The slowest percent of up to 1.6 million; of more, as many.
        self.slow.push(one);
        if self.slow.len() >= 2 * MOST_KEPT {
            self.slow.select_nth_unstable_by_key(MOST_KEPT, |s| std::cmp::Reverse(s.took));
            self.slow.truncate(MOST_KEPT);
        }
    }

    /// All parts together, ns.
    pub fn whole(&self) -> u64 {
        self.parts.iter().fold(0, |sum, p| sum.saturating_add(total(p)))
    }

    /// How many have all parts.
    pub fn known(&self) -> u64 {
        self.parts[0].count
    }

    /// Mean of each part in the slowest percent, ns.
    pub fn tail(&self) -> [u64; M] {
        let limit = self.took.quantile(0.99);
        let mut sums = [0u128; M];
        let mut count = 0;
        for parts in self.slow.iter().filter(|s| s.took >= limit).filter_map(|s| s.parts) {
            count += 1;
            sums.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += u128::from(ns));
        }
        sums.map(|sum| (sum / count.max(1)) as u64)
    }

    /// The slowest, slowest first.
    pub fn slowest(&self, most: usize) -> impl Iterator<Item = &Slow<M, T>> {
        let mut slow: Vec<_> = self.slow.iter().collect();
        slow.sort_by_key(|s| (std::cmp::Reverse(s.took), s.begin));
        slow.into_iter().take(most)
    }
}

/// Lengths between moments in their order, though the clocks of two hosts say otherwise within their width.
pub fn lengths<const M: usize>(moments: &[i64]) -> [u64; M] {
    let mut parts = [0; M];
    for (part, pair) in parts.iter_mut().zip(moments.windows(2)) {
        *part = pair[1].saturating_sub(pair[0]).max(0) as u64;
    }
    parts
}

/// Moments of a server, the first and the last of which lie between two of the client, on the client's clock and in
/// their order; and how far they may be off, ns. `None`: the clocks are not aligned.
pub fn between<const S: usize>(
    clocks: &Clocks,
    (client, server): (usize, usize),
    theirs: [u64; S],
    (first, last): (u64, u64),
) -> Option<([i64; S], u64)> {
    let on = |t| clocks.convert(server, client, t);
    let (begin, end) = (theirs[0], theirs[S - 1]);
    let (came, done) = (on(begin)?, on(end)?);
    let width = came.width().max(done.width());
    // Its length is the server's own; where it lies is not known better than the width.
    let length = end.saturating_sub(begin) as i64;
    let middle = i64::midpoint(came.middle(), done.middle().saturating_sub(length));
    let (first, last) = (first as i64, last as i64);
    let at = middle.min(last.saturating_sub(length)).max(first);
    let mut least = first;
    let moments = theirs.map(|t| {
        least = at.saturating_add(t as i64 - begin as i64).clamp(least, last.max(least));
        least
    });
    Some((moments, width))
}
