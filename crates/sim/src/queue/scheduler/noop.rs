// SPDX-License-Identifier: Apache-2.0 OR MIT
//! First come, first served, with back merging: block/noop-iosched.c (Linux 2.6 to 4.x), whose merges are
//! the elevator's hash of requests by their end (block/elevator.c, elv_merge()).

use super::ends::Ends;
use super::Scheduler;
use crate::device::{Ns, Operation};
use crate::queue::requests::{Bio, Merge, Requests};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Noop {
    line: VecDeque<u32>,
    /// Last request that ends there, by direction.
    ends: [Ends; 2],
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
        let request = self.ends[way].at(bio.offset)?;
        requests.may_merge(bio, request).then_some(Merge { request, front: false })
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        let r = requests.get(merge.request);
        let ends = &mut self.ends[r.direction()];
        ends.forget(r.end() - u64::from(length), merge.request);
        ends.put(r.end(), merge.request);
    }

    fn insert(&mut self, _: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        self.line.push_back(request);
        self.ends[r.direction()].put(r.end(), request);
    }

    fn dispatch(&mut self, _: Ns, requests: &Requests) -> Option<u32> {
        let request = self.line.pop_front()?;
        let r = requests.get(request);
        self.ends[r.direction()].forget(r.end(), request);
        Some(request)
    }

    fn queued(&self) -> usize {
        self.line.len()
    }
}
