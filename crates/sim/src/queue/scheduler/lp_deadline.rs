// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lp-deadline: deadline order, and a gate for what the idle class asks for. The policy is the kernel module's
//! own source (iosched/), compiled into the simulator; here it gets its requests.
//!
//! Merging behind a request is the block layer's in the kernel (elv_rqhash_find()), so it is done here.

mod knobs;
mod policy;

pub use knobs::LpKnobs;

use super::ends::Ends;
use super::{Scheduler, Taken};
use crate::device::{Ns, Operation};
use crate::queue::requests::{Bio, Class, Hints, Merge, Request, Requests};
use policy::{Policy, Traits, CLASSES, DECISIONS};

/// Unit of the block layer's places.
const SECTOR: u64 = 512;

#[derive(Debug)]
pub struct LpDeadline {
    policy: Policy,
    /// Where requests end, by class and direction.
    ends: [[Ends; 2]; CLASSES],
    queued: usize,
}

impl LpDeadline {
    /// With these knobs, at `now`: batch mode counts its delay from here.
    pub fn new(knobs: &LpKnobs, now: Ns) -> Self {
        Self {
            policy: Policy::new(knobs.values(), knobs.rotational(), now),
            ends: Default::default(),
            queued: 0,
        }
    }

    fn class(&self, class: Class, operation: Operation, fua: bool, hints: Hints) -> u32 {
        let write = operation != Operation::Read;
        self.policy.class(Traits {
            idle: class == Class::Idle,
            write,
            direct: hints.direct && write,
            sync: hints.sync,
            meta: hints.meta,
            flush: fua || operation == Operation::Flush,
            other: operation == Operation::Discard,
        })
    }

    fn request_class(&self, r: &Request) -> u32 {
        self.class(r.class, r.operation, r.fua, r.hints)
    }
}

fn extent(r: &Request) -> [u64; 2] {
    [r.offset / SECTOR, r.end() / SECTOR]
}

impl Scheduler for LpDeadline {
    fn name(&self) -> &'static str {
        "lp-deadline"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        let class = self.class(bio.class, bio.operation, bio.fua, bio.hints);
        let write = bio.operation != Operation::Read;
        let may = |request: &u32| {
            let grown = u64::from(requests.get(*request).length) + u64::from(bio.length);
            requests.may_merge(bio, *request) && self.policy.may_grow(class, grown / SECTOR)
        };
        let back = self.ends[class as usize][usize::from(write)].at(bio.offset);
        if let Some(request) = back.filter(may) {
            return Some(Merge { request, front: false });
        }
        let front = self.policy.find_front(class, write, bio.end() / SECTOR);
        front.filter(may).map(|request| Merge { request, front: true })
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        let r = requests.get(merge.request);
        if !merge.front {
            let ends = &mut self.ends[self.request_class(r) as usize][r.direction()];
            ends.forget(r.end() - u64::from(length), merge.request);
            ends.put(r.end(), merge.request);
        }
        self.policy.extent(merge.request, extent(r));
    }

    fn insert(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let class = self.request_class(r);
        self.ends[class as usize][r.direction()].put(r.end(), request);
        self.policy.insert(request, extent(r), r.direction() == 1, class, now);
        self.queued += 1;
    }

    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        if self.queued == 0 {
            return None;
        }
        let request = self.policy.dispatch(now)?;
        let r = requests.get(request);
        self.ends[self.request_class(r) as usize][r.direction()].forget(r.end(), request);
        self.queued -= 1;
        Some(request)
    }

    fn completed(&mut self, now: Ns, request: u32, _: &Requests) {
        self.policy.finished(request, now);
    }

    fn next_timer(&self, now: Ns) -> Option<Ns> {
        self.policy.opens(now)
    }

    fn queued(&self) -> usize {
        self.queued
    }

    /// The kernel knows the task when it hands out a slot, not what the slot will be used for: the limit is for
    /// tasks of the idle class. It lies on their own slots; where many foreground requests are under way, the
    /// kernel's limit (the first slots of each word) is narrower.
    fn may_take(&self, now: Ns, bio: &Bio, taken: Taken, nr_requests: usize) -> bool {
        if bio.class != Class::Idle {
            return taken.all < nr_requests;
        }
        let class = self.class(bio.class, bio.operation, bio.fua, bio.hints);
        taken.all < nr_requests && taken.idle < self.policy.low_slots(class, nr_requests, now)
    }

    fn decisions(&self) -> Vec<(&'static str, u64)> {
        DECISIONS.into_iter().zip(self.policy.decisions()).collect()
    }
}
