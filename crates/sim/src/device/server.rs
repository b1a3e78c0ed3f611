// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A station of queueing theory: `k` servers before one first-come first-served line.
//!
//! What a simulation makes of it is known from theory (M/M/k, M/D/1), so that it tells whether the
//! simulator is right before a disk's model is put behind it.

use super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use plumb_stats::random::SplitMix64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How long a server works on a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// Always the same, ns.
    Fixed(Ns),
    /// At random with this mean, ns, without memory.
    Exponential(Ns),
    /// So long for the request, ns, and so long for each KiB of it, ns.
    Linear(Ns, Ns),
}

#[derive(Debug)]
pub struct Server {
    size: u64,
    service: Service,
    free: usize,
    random: SplitMix64,
    line: VecDeque<(Ns, Request)>,
    /// End, order of the beginnings, the request's id, its parts, how it ends.
    working: BinaryHeap<Reverse<(Ns, u64)>>,
    /// What works, by its number of order modulo the length.
    at_work: Vec<(u64, Parts, Outcome)>,
    vacant: Vec<u64>,
    begun: u64,
    cache: bool,
}

/// Bits of a key of `working` that say which place of `at_work` it is.
const PLACE_BITS: u32 = 20;

impl Server {
    /// `servers` servers (at least one) for `size` bytes.
    pub fn new(size: u64, servers: usize, service: Service, seed: u64) -> Self {
        let servers = servers.clamp(1, 1 << PLACE_BITS);
        Self {
            size,
            service,
            free: servers,
            random: SplitMix64::new(seed),
            line: VecDeque::new(),
            working: BinaryHeap::with_capacity(servers.min(1024)),
            at_work: vec![(0, Parts::default(), Outcome::Done); servers],
            vacant: (0..servers as u64).rev().collect(),
            begun: 0,
            cache: false,
        }
    }

    /// The same with a volatile write cache: it must be flushed, which takes as long as any request.
    pub fn with_cache(self) -> Self {
        Self { cache: true, ..self }
    }

    fn begin(&mut self, now: Ns, submitted: Ns, request: &Request) {
        let beyond = request.offset.saturating_add(u64::from(request.length)) > self.size;
        let outcome = match request.operation {
            _ if !beyond => Outcome::Done,
            Operation::Read => Outcome::Failed(libc::EIO),
            _ => Outcome::Failed(libc::ENOSPC),
        };
        let medium = match self.service {
            _ if beyond => 0,
            Service::Fixed(ns) => ns,
            // 1 - u is never 0, so the logarithm is finite.
            Service::Exponential(mean) => (-(1.0 - self.random.unit()).ln() * mean as f64).round() as Ns,
            Service::Linear(ns, per_kib) => ns + per_kib * u64::from(request.length) / 1024,
        };
        let Some(place) = self.vacant.pop() else { return };
        self.free -= 1;
        let parts = Parts { queued: now - submitted, medium, ..Parts::default() };
        self.at_work[place as usize] = (request.id, parts, outcome);
        self.working.push(Reverse((now + medium, self.begun << PLACE_BITS | place)));
        self.begun += 1;
    }
}

impl Device for Server {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        if self.free > 0 {
            self.begin(now, now, &request);
        } else {
            self.line.push_back((now, request));
        }
    }

    fn next_event(&self) -> Option<Ns> {
        self.working.peek().map(|Reverse((end, _))| *end)
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some(&Reverse((at, key))) = self.working.peek().filter(|Reverse((end, _))| *end <= now) {
            self.working.pop();
            let place = key & ((1 << PLACE_BITS) - 1);
            let (id, parts, outcome) = self.at_work[place as usize];
            self.vacant.push(place);
            self.free += 1;
            ended.push(Completion { id, at, outcome, parts });
            if let Some((submitted, request)) = self.line.pop_front() {
                self.begin(at, submitted, &request);
            }
        }
    }

    fn under_way(&self) -> usize {
        self.working.len() + self.line.len()
    }

    fn volatile_cache(&self) -> bool {
        self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::super::drain;
    use super::*;

    fn read(id: u64, offset: u64) -> Request {
        Request { id, operation: Operation::Read, offset, length: 4096, fua: false }
    }

    #[test]
    fn a_line_before_two_servers() {
        let mut device = Server::new(1 << 20, 2, Service::Fixed(100), 1);
        (0..5).for_each(|id| device.submit(0, read(id, 0)));
        let mut ended = Vec::new();
        drain(&mut device, &mut ended);
        let told: Vec<_> = ended.iter().map(|c| (c.id, c.at, c.parts.queued)).collect();
        assert_eq!(told, [(0, 100, 0), (1, 100, 0), (2, 200, 100), (3, 200, 100), (4, 300, 200)]);
        assert!(ended.iter().all(|c| c.parts.total() == c.at && c.outcome == Outcome::Done));
        assert_eq!((device.under_way(), device.next_event()), (0, None));
    }

    #[test]
    fn beyond_its_end_a_request_fails() {
        let mut device = Server::new(8192, 1, Service::Linear(10, 5), 1);
        device.submit(0, read(0, 4096));
        device.submit(0, read(1, 8192));
        let mut ended = Vec::new();
        drain(&mut device, &mut ended);
        assert_eq!((ended[0].at, ended[0].outcome), (30, Outcome::Done));
        assert_eq!(ended[1].outcome, Outcome::Failed(libc::EIO));
    }
}
