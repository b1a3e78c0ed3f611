// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tokens for each kind of request, as many as latencies allow: after block/kyber-iosched.c, Linux 4.20 and later.
//!
//! Reads, writes and discards have a depth each. Every 100 ms the depths follow the latencies: where a device
//! is congested (the 90th percentile of some kind in the device misses its target), kinds whose 99th
//! percentile is good get less, those that are late get more. Requests of a kind go first come, first
//! served, in batches in turns. It knows no classes. Here there is one queue where the kernel has one a
//! CPU, and the 100 ms are looked at when something completes.

use super::ends::Ends;
use super::{Knob, Scheduler, Taken};
use crate::device::{Ns, Operation};
use crate::queue::requests::{Bio, Merge, Requests};
use std::collections::VecDeque;

/// Most requests of a kind in flight: kyber_depth[].
const DEPTH: [u32; 3] = [256, 128, 64];
/// Requests of a batch: kyber_batch_size[].
const BATCH: [u32; 3] = [16, 8, 1];
/// The target of discards, ns: kyber_latency_targets[].
const DISCARD_TARGET: Ns = 5_000_000_000;
/// KYBER_GOOD_BUCKETS, KYBER_LATENCY_BUCKETS: a quarter of the target each; the good ones keep it.
const GOOD: usize = 4;
const BUCKETS: usize = 8;
/// How often depths follow latencies, ns.
const WINDOW: Ns = 100_000_000;
/// Samples that a percentile needs, or how old the first one is by then, ns.
const ENOUGH: u32 = 500;
const OLD: Ns = 1_000_000_000;
/// KYBER_ASYNC_PERCENT: tags that what nobody waits for may take, in 1/100.
const ASYNC_PERCENT: usize = 75;

/// Its knobs, as /sys/block/DISK/queue/iosched has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KyberKnobs {
    /// Latency that reads shall keep, ns.
    pub read_lat_nsec: Ns,
    /// The same of writes, ns.
    pub write_lat_nsec: Ns,
}

impl Default for KyberKnobs {
    fn default() -> Self {
        Self { read_lat_nsec: 2_000_000, write_lat_nsec: 10_000_000 }
    }
}

impl KyberKnobs {
    pub fn knobs(&mut self) -> [Knob<'_>; 2] {
        [
            Knob::Nanoseconds("read_lat_nsec", &mut self.read_lat_nsec),
            Knob::Nanoseconds("write_lat_nsec", &mut self.write_lat_nsec),
        ]
    }
}

/// Latencies in quarters of their target.
#[derive(Debug, Default)]
struct Samples {
    buckets: [u32; BUCKETS],
    since: Option<Ns>,
}

impl Samples {
    fn add(&mut self, now: Ns, latency: Ns, target: Ns) {
        let quarter = (target / GOOD as u64).max(1);
        let bucket = (latency.saturating_sub(1) / quarter).min(BUCKETS as u64 - 1);
        self.buckets[bucket as usize] += 1;
        self.since.get_or_insert(now);
    }

    /// The bucket of a percentile, once there are enough samples; they are forgotten then.
    fn percentile(&mut self, now: Ns, percent: u32) -> Option<usize> {
        let all: u32 = self.buckets.iter().sum();
        if all < ENOUGH && self.since.is_none_or(|since| now < since + OLD) {
            return None;
        }
        let mut left = (all * percent).div_ceil(100);
        let bucket = self.buckets.iter().position(|n| {
            left = left.saturating_sub(*n);
            left == 0
        });
        *self = Self::default();
        bucket
    }
}

#[derive(Debug, Default)]
struct Domain {
    line: VecDeque<u32>,
    ends: Ends,
    depth: u32,
    in_flight: u32,
    /// With the device, and from queued on.
    device: Samples,
    total: Samples,
    /// The 99th percentile that no congestion has used yet.
    kept: Option<usize>,
}

#[derive(Debug)]
pub struct Kyber {
    knobs: KyberKnobs,
    domains: [Domain; 3],
    current: usize,
    batching: u32,
    looks_at: Option<Ns>,
}

fn domain(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Discard | Operation::Flush => 2,
    }
}

impl Kyber {
    pub fn new(knobs: KyberKnobs) -> Self {
        let of = |depth| Domain { depth, ..Domain::default() };
        Self { knobs, domains: DEPTH.map(of), current: 0, batching: 0, looks_at: None }
    }

    fn target(&self, domain: usize) -> Ns {
        [self.knobs.read_lat_nsec, self.knobs.write_lat_nsec, DISCARD_TARGET][domain]
    }

    /// kyber_timer_fn()
    fn follow(&mut self, now: Ns) {
        let late = |d: &mut Domain| d.device.percentile(now, 90).is_some_and(|p90| p90 >= GOOD);
        // All are looked at: each forgets its samples.
        let congested = self.domains.iter_mut().map(late).filter(|late| *late).count() > 0;
        for (d, most) in self.domains.iter_mut().zip(DEPTH) {
            let mut p99 = d.total.percentile(now, 99);
            if congested {
                p99 = p99.or(d.kept.take());
                d.kept = None;
            } else if p99.is_some() {
                d.kept = p99;
            }
            let Some(p99) = p99.filter(|p99| congested || *p99 >= GOOD) else { continue };
            d.depth = (d.depth * (p99 as u32 + 1) / GOOD as u32).clamp(1, most);
        }
    }

    fn take(&mut self, at: usize, requests: &Requests) -> Option<u32> {
        let d = &mut self.domains[at];
        if d.in_flight >= d.depth {
            return None;
        }
        let request = d.line.pop_front()?;
        d.ends.forget(requests.get(request).end(), request);
        d.in_flight += 1;
        Some(request)
    }
}

impl Scheduler for Kyber {
    fn name(&self) -> &'static str {
        "kyber"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        let request = self.domains[domain(bio.operation)].ends.at(bio.offset)?;
        requests.may_merge(bio, request).then_some(Merge { request, front: false })
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        let r = requests.get(merge.request);
        let ends = &mut self.domains[domain(r.operation)].ends;
        ends.forget(r.end() - u64::from(length), merge.request);
        ends.put(r.end(), merge.request);
    }

    fn insert(&mut self, _: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let d = &mut self.domains[domain(r.operation)];
        d.line.push_back(request);
        d.ends.put(r.end(), request);
    }

    fn dispatch(&mut self, _: Ns, requests: &Requests) -> Option<u32> {
        if self.batching < BATCH[self.current] {
            if let Some(request) = self.take(self.current, requests) {
                self.batching += 1;
                return Some(request);
            }
        }
        self.batching = 0;
        for _ in 0..self.domains.len() {
            self.current = (self.current + 1) % self.domains.len();
            if let Some(request) = self.take(self.current, requests) {
                self.batching = 1;
                return Some(request);
            }
        }
        None
    }

    fn completed(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let at = domain(r.operation);
        let target = self.target(at);
        let d = &mut self.domains[at];
        d.in_flight -= 1;
        d.device.add(now, now - r.issued_at, target);
        d.total.add(now, now - r.inserted_at, target);
        if now >= *self.looks_at.get_or_insert(now + WINDOW) {
            self.looks_at = None;
            self.follow(now);
        }
    }

    fn queued(&self) -> usize {
        self.domains.iter().map(|d| d.line.len()).sum()
    }

    fn may_take(&self, _: Ns, bio: &Bio, taken: Taken, nr_requests: usize) -> bool {
        let waits = bio.hints.sync || bio.operation == Operation::Read;
        taken.all < if waits { nr_requests } else { (nr_requests * ASYNC_PERCENT / 100).max(1) }
    }

    fn decisions(&self) -> Vec<(&'static str, u64)> {
        let depth = |at: usize| u64::from(self.domains[at].depth);
        vec![("read_depth", depth(0)), ("write_depth", depth(1)), ("discard_depth", depth(2))]
    }
}
