// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The deadline scheduler of the single-queue block layer: block/deadline-iosched.c, Linux 2.6 to 4.x.
//!
//! Requests of a direction go out in batches by place; reads before writes, which starve at most
//! `writes_starved` batches; a batch begins at the oldest request when that has expired.

use super::sorted::{choose, Sorted};
use super::{Knob, Scheduler};
use crate::device::Ns;
use crate::queue::requests::{direction, Bio, Merge, Requests};

/// Its knobs, as /sys/block/DISK/queue/iosched has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineKnobs {
    /// A read that waited so long begins the next batch, ns.
    pub read_expire: Ns,
    /// The same of a write, ns.
    pub write_expire: Ns,
    pub fifo_batch: u32,
    /// Batches of reads that may go before waiting writes.
    pub writes_starved: u32,
    /// Whether bios join requests at their front too.
    pub front_merges: bool,
}

impl Default for DeadlineKnobs {
    fn default() -> Self {
        Self {
            read_expire: 500_000_000,
            write_expire: 5_000_000_000,
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
        }
    }
}

impl DeadlineKnobs {
    pub fn knobs(&mut self) -> [Knob<'_>; 5] {
        [
            Knob::Milliseconds("read_expire", &mut self.read_expire),
            Knob::Milliseconds("write_expire", &mut self.write_expire),
            Knob::Count("fifo_batch", &mut self.fifo_batch),
            Knob::Count("writes_starved", &mut self.writes_starved),
            Knob::Switch("front_merges", &mut self.front_merges),
        ]
    }
}

#[derive(Debug)]
pub struct Deadline {
    knobs: DeadlineKnobs,
    waiting: [Sorted; 2],
    /// Where the batch goes on: direction, request, its serial; none where nothing lay behind its last one.
    next: Option<(usize, u32, u64)>,
    batching: u32,
    starved: u32,
}

impl Deadline {
    pub fn new(knobs: DeadlineKnobs) -> Self {
        Self { knobs, waiting: Default::default(), next: None, batching: 0, starved: 0 }
    }

    fn expire(&self, way: usize) -> Ns {
        [self.knobs.read_expire, self.knobs.write_expire][way]
    }

    /// Next request of the batch, if that has one.
    fn of_batch(&self, requests: &Requests) -> Option<(usize, u32)> {
        self.next.filter(|(_, request, serial)| requests.waits(*request, *serial)).map(|(w, r, _)| (w, r))
    }
}

impl Scheduler for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        self.waiting[direction(bio.operation)].find_merge(bio, self.knobs.front_merges, requests)
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        self.waiting[requests.get(merge.request).direction()].merged(merge, length, requests);
    }

    fn insert(&mut self, _: Ns, request: u32, requests: &Requests) {
        self.waiting[requests.get(request).direction()].insert(request, requests);
    }

    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        let going_on = self.of_batch(requests);
        let (way, request) = match going_on.filter(|_| self.batching < self.knobs.fifo_batch) {
            Some(next) => next,
            None => {
                let way = choose(&self.waiting, &mut self.starved, self.knobs.writes_starved)?;
                let expire = self.expire(way);
                let expired = self.waiting[way].expired(now, expire, requests);
                let by_place = going_on.filter(|(next, _)| *next == way && !expired).map(|(_, r)| r);
                let request = by_place.or_else(|| self.waiting[way].oldest(requests))?;
                self.batching = 0;
                (way, request)
            }
        };
        self.batching += 1;
        let offset = requests.get(request).offset;
        self.waiting[way].remove(request, requests);
        // The neighbour behind, if there is one: what comes later before it is served in the next round.
        self.next = self.waiting[way].at_or_behind(offset).map(|n| (way, n, requests.get(n).serial));
        Some(request)
    }

    fn queued(&self) -> usize {
        self.waiting.iter().map(Sorted::len).sum()
    }
}
