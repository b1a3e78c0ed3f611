// SPDX-License-Identifier: Apache-2.0 OR MIT
//! First come, first served, with back merging: block/noop-iosched.c (Linux 2.6 to 4.x), whose merges are
//! the elevator's hash of requests by their end (block/elevator.c, elv_merge()).

use super::Scheduler;
use crate::device::{Ns, Operation};
use crate::queue::requests::{Bio, Merge, Requests};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Ends of requests are multiples of 512 and come from nobody who wants to do harm.
#[derive(Debug, Default)]
pub struct Places(u64);

impl Hasher for Places {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, word: u64) {
        // Knuth's multiplicative hash; the upper half folded, since a table looks at both ends of the word.
        let wide = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = wide ^ wide >> 32;
    }
}

/// The scheduler.
#[derive(Debug, Default)]
pub struct Noop {
    line: VecDeque<u32>,
    /// Last request that ends there, by direction.
    ends: [HashMap<u64, u32, BuildHasherDefault<Places>>; 2],
}

impl Noop {
    fn forget(&mut self, way: usize, end: u64, request: u32) {
        if self.ends[way].get(&end) == Some(&request) {
            self.ends[way].remove(&end);
        }
    }
}

impl Scheduler for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        if self.line.is_empty() {
            return None;
        }
        let way = usize::from(bio.operation != Operation::Read);
        let request = *self.ends[way].get(&bio.offset)?;
        requests.may_merge(bio, request).then_some(Merge { request, front: false })
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        let r = requests.get(merge.request);
        self.forget(r.direction(), r.end() - u64::from(length), merge.request);
        self.ends[r.direction()].insert(r.end(), merge.request);
    }

    fn insert(&mut self, _: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        self.line.push_back(request);
        self.ends[r.direction()].insert(r.end(), request);
    }

    fn dispatch(&mut self, _: Ns, requests: &Requests) -> Option<u32> {
        let request = self.line.pop_front()?;
        let r = requests.get(request);
        self.forget(r.direction(), r.end(), request);
        Some(request)
    }

    fn queued(&self) -> usize {
        self.line.len()
    }
}
