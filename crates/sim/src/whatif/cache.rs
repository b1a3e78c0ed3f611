// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which reads would not have reached the disk with a larger page cache.
//!
//! Of a page that is read again it is known how many others came in since: the cache was too small for it by that number less
//! its own size (the refault distance of mm/workingset.c). The size shows in the recording: no page comes back before
//! the cache has been filled once. What is written comes in too. Reads past the page cache look like others.

use super::Asked;
use crate::device::Operation;
use std::collections::HashMap;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// So many of a hundred pages that come back may do it before the cache was filled once.
const EARLY: usize = 5;

/// What a larger cache is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Pages that the recorded one held, as far as the recording tells; `None`: no page came back.
    pub pages: Option<u64>,
    /// Reads, and those of them that came back.
    pub reads: usize,
    pub again: usize,
}

/// For each request whether it would not have been made with `more` pages of cache; requests in the order in which they were
/// queued. `most` is what the cache cannot have held more than, where that is known.
pub fn saved(requests: &[Asked], more: u64, most: Option<u64>) -> (Vec<bool>, Cache) {
    let mut came: HashMap<u64, u64> = HashMap::new();
    let mut count = 0;
    // Of each read the largest distance of its pages; none of a page that was not there before.
    let mut distances: Vec<Option<u64>> = vec![None; requests.len()];
    for (asked, distance) in requests.iter().zip(&mut distances) {
        let r = &asked.recorded;
        if !asked.simulated || !matches!(r.operation, Operation::Read | Operation::Write) {
            continue;
        }
        let mut largest = Some(0);
        for page in r.offset / PAGE..(r.offset + u64::from(r.length)).div_ceil(PAGE) {
            let before = came.insert(page, count);
            largest = largest.zip(before).map(|(largest, before)| largest.max(count - before));
            count += 1;
        }
        *distance = largest.filter(|_| r.operation == Operation::Read && r.length > 0);
    }
    let mut again: Vec<u64> = distances.iter().flatten().copied().collect();
    again.sort_unstable();
    let shown = again.get(again.len() * EARLY / 100).copied();
    let pages = shown.map(|shown| most.map_or(shown, |most| shown.min(most)));
    let reaches = pages.map_or(0, |pages| pages.saturating_add(more));
    let saved = distances.iter().map(|d| more > 0 && d.is_some_and(|d| d <= reaches)).collect();
    let reads = requests.iter().filter(|a| a.simulated && a.recorded.operation == Operation::Read).count();
    (saved, Cache { pages, reads, again: again.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::task::Recorded;
    use crate::queue::{Class, Hints};
    use plumb_stats::random::SplitMix64;
    use std::collections::VecDeque;

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
            let (saved, cache) = saved(&requests, more, None);
            let left = saved.iter().filter(|s| !**s).count() as f64;
            let real = missed(&accesses, 100 + more as usize).len() as f64;
            assert!((left / real - 1.0).abs() < 0.15, "{more} more: {left} told, {real} are; {cache:?}");
        }
    }

    #[test]
    fn a_scan_again_and_again_is_saved_by_all_of_it_or_by_nothing() {
        let requests: Vec<Asked> = (0..900).map(|i| read(i % 300)).collect();
        let saved = |more| saved(&requests, more, Some(200)).0.iter().filter(|s| **s).count();
        assert_eq!((saved(0), saved(60), saved(120)), (0, 0, 600));
    }
}
