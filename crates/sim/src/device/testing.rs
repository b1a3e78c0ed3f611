// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads for the models' tests; each of them checks what holds of every device: parts
//! add up, nothing is lost or doubled, ends come in order, nothing is under way at last.

use super::{drain, Completion, Device, Ns, Operation, Parts, Request};
use plumb_stats::random::SplitMix64;
use proptest::prelude::*;
use std::collections::HashMap;

pub fn request(operation: Operation, offset: u64, length: u32) -> Request {
    Request { id: 0, operation, offset, length, fua: false }
}

pub fn read(offset: u64, length: u32) -> Request {
    request(Operation::Read, offset, length)
}

pub fn write(offset: u64, length: u32) -> Request {
    request(Operation::Write, offset, length)
}

pub fn fua(offset: u64, length: u32) -> Request {
    Request { fua: true, ..write(offset, length) }
}

pub fn flush() -> Request {
    request(Operation::Flush, 0, 0)
}

pub fn discard(offset: u64, length: u32) -> Request {
    request(Operation::Discard, offset, length)
}

/// What is under way, and a check of each end.
#[derive(Default)]
struct Watch {
    submitted: HashMap<u64, Ns>,
    last: Ns,
}

impl Watch {
    fn ended(&mut self, end: &Completion) -> Ns {
        let submitted = self.submitted.remove(&end.id).expect("it was under way, once");
        assert_eq!(end.parts.total(), end.at - submitted, "parts add up: {end:?}, submitted {submitted}");
        assert!(end.at >= self.last, "in order: {end:?} after {}", self.last);
        self.last = end.at;
        end.at - submitted
    }
}

/// Submits these at their times; their ends in the order of the requests, ids from 0.
pub fn run(device: &mut dyn Device, requests: &[(Ns, Request)]) -> Vec<Completion> {
    let (mut watch, mut ends) = (Watch::default(), Vec::new());
    for (id, (at, request)) in requests.iter().enumerate() {
        while let Some(next) = device.next_event().filter(|next| next <= at) {
            device.advance(next, &mut ends);
        }
        device.advance(*at, &mut ends);
        watch.submitted.insert(id as u64, *at);
        device.submit(*at, Request { id: id as u64, ..*request });
    }
    drain(device, &mut ends);
    assert_eq!(device.under_way(), 0);
    for end in &ends {
        watch.ended(end);
    }
    assert!(watch.submitted.is_empty(), "lost: {:?}", watch.submitted);
    ends.sort_by_key(|end| end.id);
    ends
}

/// How a closed loop went.
#[derive(Debug, PartialEq, Eq)]
pub struct Loop {
    /// The last end, less the beginning, ns.
    pub took: Ns,
    /// Latencies, sorted.
    pub latency: Vec<Ns>,
    pub parts: Parts,
    pub ends: Vec<Completion>,
}

impl Loop {
    pub fn rate(&self) -> f64 {
        self.latency.len() as f64 * 1e9 / self.took as f64
    }

    pub fn quantile(&self, q: f64) -> Ns {
        self.latency[((self.latency.len() - 1) as f64 * q) as usize]
    }
}

/// `depth` requests at any time, `count` in all, beginning at `from`.
pub fn closed(
    device: &mut dyn Device,
    from: Ns,
    depth: usize,
    count: usize,
    mut next: impl FnMut(usize) -> Request,
) -> Loop {
    let mut watch = Watch::default();
    let mut told = Loop { took: 0, latency: Vec::new(), parts: Parts::default(), ends: Vec::new() };
    let (mut sent, mut now, mut buffer) = (0, from, Vec::new());
    device.advance(from, &mut buffer);
    buffer.clear();
    while told.latency.len() < count {
        while watch.submitted.len() < depth && sent < count {
            watch.submitted.insert(sent as u64, now);
            device.submit(now, Request { id: sent as u64, ..next(sent) });
            sent += 1;
        }
        now = device.next_event().expect("requests are under way, so something happens");
        device.advance(now, &mut buffer);
        for end in buffer.drain(..) {
            told.latency.push(watch.ended(&end));
            told.took = end.at - from;
            told.parts += end.parts;
            told.ends.push(end);
        }
    }
    assert_eq!(device.under_way(), 0);
    told.latency.sort_unstable();
    told
}

/// Random places of `block` bytes in `size`.
pub fn places(size: u64, block: u32, seed: u64) -> impl FnMut() -> u64 {
    let mut random = SplitMix64::new(seed);
    move || random.below(size / u64::from(block)) * u64::from(block)
}

/// A random load: any operation, some beyond the end of a device of `size` bytes.
pub fn any_load(size: u64) -> impl Strategy<Value = Vec<Request>> {
    let any = (0..12_u8, 0..size / 512 + 8, 1..600_u32, any::<bool>());
    let any = any.prop_map(|(kind, sector, sectors, fua)| match kind {
        0..=4 => read(sector * 512, sectors * 512),
        5..=9 => Request { fua, ..write(sector * 512, sectors * 512) },
        10 => flush(),
        _ => discard(sector * 512, sectors * 512),
    });
    prop::collection::vec(any, 1..200)
}

/// Runs a random load at a depth, twice: the same both times. Returns how it went.
pub fn same_twice(build: impl Fn() -> Box<dyn Device>, requests: &[Request], depth: usize) -> Loop {
    let once = || closed(build().as_mut(), 0, depth, requests.len(), |i| requests[i]);
    let first = once();
    assert_eq!(first, once(), "same seed, same ends");
    first
}
