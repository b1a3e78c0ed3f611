// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which reads would not have reached the disk with a larger page cache.
//!
//! The reads of a recording are those that its cache did not save. A larger one, which lets go of what came first, saves of them what it
//! still holds: reads that were saved before would not have changed what it holds. How much the recorded one held shows in the
//! recording: no page comes back before so many others came in (the refault distance of mm/workingset.c). What is
//! written comes in too. Reads past the page cache look like others.

use super::Asked;
use crate::device::Operation;
use crate::queue::task::Recorded;
use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// So many of a hundred pages that come back may do it before the cache was filled once.
const EARLY: usize = 5;

/// What a larger cache is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Pages that the recorded one held, as far as the recording tells; `None`: no page came back.
    pub pages: Option<u64>,
    pub reads: usize,
    /// Pages that were read again.
    pub again: usize,
}

/// For each request whether it would not have been made with `more` pages of cache; requests in the order in which they were
/// queued.
pub fn saved(requests: &[Asked], more: u64) -> (Vec<bool>, Cache) {
    let cached = |asked: &Asked| {
        asked.simulated && matches!(asked.recorded.operation, Operation::Read | Operation::Write)
    };
    let pages_of = |r: &Recorded| r.offset / PAGE..(r.offset + u64::from(r.length)).div_ceil(PAGE);
    let mut came: HashMap<u64, u64> = HashMap::new();
    let mut again: Vec<u64> = Vec::new();
    let mut count = 0;
    for asked in requests.iter().filter(|a| cached(a)) {
        for page in pages_of(&asked.recorded) {
            let before = came.insert(page, count).filter(|_| asked.recorded.operation == Operation::Read);
            again.extend(before.map(|before| count - before));
            count += 1;
        }
    }
    again.sort_unstable();
    let pages = again.get(again.len() * EARLY / 100).copied();
    let mut saved = vec![false; requests.len()];
    if let Some(size) = pages.filter(|_| more > 0).map(|pages| pages.saturating_add(more)) {
        let mut holds: HashSet<u64> = HashSet::new();
        let mut order: VecDeque<u64> = VecDeque::new();
        for (asked, saved) in requests.iter().zip(&mut saved).filter(|(a, _)| cached(a)) {
            let r = &asked.recorded;
            *saved = r.operation == Operation::Read
                && r.length > 0
                && pages_of(r).all(|page| holds.contains(&page));
            for page in pages_of(r) {
                if holds.insert(page) {
                    order.push_back(page);
                }
            }
            while order.len() as u64 > size {
                order.pop_front().map(|page| holds.remove(&page));
            }
        }
    }
    let reads = requests.iter().filter(|a| a.simulated && a.recorded.operation == Operation::Read).count();
    (saved, Cache { pages, reads, again: again.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Class, Hints};
    use plumb_stats::random::SplitMix64;

    fn read(page: u64) -> Asked {
        let recorded = Recorded {
            owner: 1,
            operation: Operation::Read,
            offset: page * PAGE,
            length: PAGE as u32,
            fua: false,
            flush_before: false,
            class: Class::BestEffort,
            hints: Hints::DIRECT,
            queued: 0,
            ended: 0,
        };
        Asked { recorded, simulated: true }
    }

    /// Pages that a cache of so many, which lets go of what came first, does not have.
    fn missed(accesses: &[u64], pages: usize) -> Vec<u64> {
        let (mut cache, mut missed) = (VecDeque::new(), Vec::new());
        for page in accesses {
            if !cache.contains(page) {
                missed.push(*page);
                cache.push_back(*page);
                if cache.len() > pages {
                    cache.pop_front();
                }
            }
        }
        missed
    }

    #[test]
    fn a_larger_cache_saves_what_it_would_have_held() {
        let mut random = SplitMix64::new(3);
        let accesses: Vec<u64> = (0..20_000).map(|_| random.next_u64() % 400).collect();
        for more in [0, 50, 100, 200] {
            let small = missed(&accesses, 100);
            let requests: Vec<Asked> = small.iter().map(|page| read(*page)).collect();
            let (saved, cache) = saved(&requests, more);
            let left = saved.iter().filter(|s| !**s).count() as f64;
            let real = missed(&accesses, 100 + more as usize).len() as f64;
            assert!((left / real - 1.0).abs() < 0.2, "{more} more: {left} told, {real} are; {cache:?}");
        }
    }

    #[test]
    fn what_was_read_once_is_never_saved() {
        let requests: Vec<Asked> = (0..900).map(read).collect();
        let (saved, cache) = saved(&requests, 1000);
        assert_eq!((saved.iter().filter(|s| **s).count(), cache.pages, cache.reads), (0, None, 900));
    }
}
