// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests by place and by age, as the deadline family keeps them (sort_list and fifo_list).

use crate::device::Ns;
use crate::queue::requests::{Bio, Merge, Requests};
use std::collections::VecDeque;

/// What brings data from the device: see [`crate::queue::requests::direction`].
pub const READ: usize = 0;
const WRITE: usize = 1;

/// The direction that a new batch has: reads, unless they have gone before waiting writes for
/// `most` batches already.
pub fn choose(waiting: &[Sorted; 2], starved: &mut u32, most: u32) -> Option<usize> {
    let [reads, writes] = [READ, WRITE].map(|way| !waiting[way].is_empty());
    if reads && !(writes && *starved >= most) {
        *starved += u32::from(writes);
        return Some(READ);
    }
    if writes {
        *starved = 0;
        return Some(WRITE);
    }
    None
}

/// Waiting requests of one direction. The sorted one is an array: a queue is a few hundred long at most, and
/// moving so many words is cheaper than a tree.
#[derive(Debug, Default)]
pub struct Sorted {
    by_offset: Vec<(u64, u32)>,
    /// Number and serial in the order of arrival; those that left are dropped when they come to the front.
    fifo: VecDeque<(u32, u64)>,
}

impl Sorted {
    pub fn len(&self) -> usize {
        self.by_offset.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    pub fn insert(&mut self, request: u32, requests: &Requests) {
        let r = requests.get(request);
        self.place(r.offset, request);
        if self.fifo.len() > 64 + 4 * self.by_offset.len() {
            self.fifo.retain(|(number, serial)| requests.waits(*number, *serial));
        }
        self.fifo.push_back((request, r.serial));
    }

    fn place(&mut self, offset: u64, request: u32) {
        let at = self.by_offset.partition_point(|key| *key < (offset, request));
        self.by_offset.insert(at, (offset, request));
    }

    pub fn remove(&mut self, request: u32, requests: &Requests) {
        self.unplace(requests.get(request).offset, request);
        if self.by_offset.is_empty() {
            self.fifo.clear();
        }
    }

    fn unplace(&mut self, offset: u64, request: u32) {
        if let Ok(at) = self.by_offset.binary_search(&(offset, request)) {
            self.by_offset.remove(at);
        }
    }

    /// A bio of so many bytes joined a request; at its front, its place is another one.
    pub fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        if merge.front {
            let offset = requests.get(merge.request).offset;
            self.unplace(offset + u64::from(length), merge.request);
            self.place(offset, merge.request);
        }
    }

    /// The first request at or behind a place.
    pub fn at_or_behind(&self, offset: u64) -> Option<u32> {
        let at = self.by_offset.partition_point(|(o, _)| *o < offset);
        self.by_offset.get(at).map(|(_, request)| *request)
    }

    /// The request at the lowest place.
    pub fn lowest(&self) -> Option<u32> {
        self.by_offset.first().map(|(_, request)| *request)
    }

    /// The one that has waited longest.
    pub fn oldest(&mut self, requests: &Requests) -> Option<u32> {
        while let Some((request, serial)) = self.fifo.front() {
            if requests.waits(*request, *serial) {
                return Some(*request);
            }
            self.fifo.pop_front();
        }
        None
    }

    /// Whether the oldest one has waited as long as it may.
    pub fn expired(&mut self, now: Ns, after: Ns, requests: &Requests) -> bool {
        self.oldest(requests).is_some_and(|r| now >= requests.get(r).inserted_at.saturating_add(after))
    }

    /// The request whose end or (if asked for) beginning the bio touches.
    pub fn find_merge(&self, bio: &Bio, front: bool, requests: &Requests) -> Option<Merge> {
        let at = self.by_offset.partition_point(|(o, _)| *o <= bio.offset);
        let before = at.checked_sub(1).map(|at| self.by_offset[at].1);
        if let Some(request) = before.filter(|r| requests.get(*r).end() == bio.offset) {
            if requests.may_merge(bio, request) {
                return Some(Merge { request, front: false });
            }
        }
        let behind = self.at_or_behind(bio.end()).filter(|r| front && requests.get(*r).offset == bio.end());
        behind.filter(|r| requests.may_merge(bio, *r)).map(|request| Merge { request, front: true })
    }
}
