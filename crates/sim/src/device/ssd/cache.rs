// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The write cache: a log of acknowledged bytes, taken from its head a page at a time.
//! Places in it are counts of all bytes that ever went in.

use std::collections::VecDeque;

/// What is acknowledged and not programmed.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Bytes and whether they are random, in order.
    log: VecDeque<(u64, bool)>,
    /// Bytes that went in, were taken out.
    put: u64,
    taken: u64,
    /// Beginnings of what was taken and is not programmed yet.
    programming: Vec<u64>,
    /// Bytes that lie in it, or have their place.
    used: u64,
    capacity: u64,
}

/// What is programmed as one page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    from: u64,
    bytes: u64,
    /// Part of it that random writes made.
    pub random: f64,
}

impl Cache {
    pub fn new(capacity: u64) -> Self {
        Cache { capacity, ..Cache::default() }
    }

    /// Gives a write its place; false when there is none yet. A longer one than the cache
    /// gets all of it.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let fits = self.used + bytes.min(self.capacity) <= self.capacity;
        self.used += if fits { bytes } else { 0 };
        fits
    }

    /// A write's bytes have come.
    pub fn put(&mut self, bytes: u64, random: bool) {
        self.put += bytes;
        self.log.push_back((bytes, random));
    }

    /// Bytes that nobody programs yet.
    pub fn waiting(&self) -> u64 {
        self.put - self.taken
    }

    /// All that went in until now, as a place to wait for.
    pub fn end(&self) -> u64 {
        self.put
    }

    /// How far it was taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    pub fn idle(&self) -> bool {
        self.programming.is_empty()
    }

    /// How far it is programmed.
    pub fn programmed(&self) -> u64 {
        self.programming.iter().copied().min().unwrap_or(self.taken)
    }

    /// Takes up to `page` bytes.
    pub fn take(&mut self, page: u64) -> Batch {
        let (mut bytes, mut random) = (0, 0);
        while bytes < page {
            let Some((first, is_random)) = self.log.front_mut() else { break };
            let piece = (*first).min(page - bytes);
            bytes += piece;
            random += if *is_random { piece } else { 0 };
            *first -= piece;
            if *first == 0 {
                self.log.pop_front();
            }
        }
        let from = self.taken;
        self.taken += bytes;
        self.programming.push(from);
        Batch { from, bytes, random: random as f64 / bytes.max(1) as f64 }
    }

    /// It is programmed, and its place free.
    pub fn done(&mut self, batch: &Batch) {
        self.programming.retain(|from| *from != batch.from);
        self.used = self.used.saturating_sub(batch.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_programmed_when_all_before_it_is() {
        let mut cache = Cache::new(100);
        assert!(cache.reserve(60) && !cache.reserve(50) && cache.reserve(40));
        cache.put(60, true);
        cache.put(40, false);
        let (a, b) = (cache.take(80), cache.take(80));
        assert_eq!((a.bytes, a.random, b.bytes, b.random, cache.waiting()), (80, 0.75, 20, 0.0, 0));
        cache.done(&b);
        assert_eq!((cache.programmed(), cache.taken(), cache.end()), (0, 100, 100));
        cache.done(&a);
        assert_eq!(cache.programmed(), 100);
        assert!(cache.reserve(500) && !cache.reserve(1), "a long one gets all of it");
    }
}
