// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the whole disk does, by simulated time. A closed loop is the load.

mod cache;
mod laws;
mod presets;
mod queue;
mod speed;
mod timing;

use super::{build, Hdd};
use crate::device::{drain, Completion, Device, Ns, Operation, Outcome, Request};
use crate::spec::{Medium, Spec};
use std::collections::HashMap;

/// The presets' files; not by way of the loader, which has tests of its own.
pub(super) const PRESETS: [(&str, &str); 4] = [
    ("atlas10k4", include_str!("../../../presets/atlas10k4.toml")),
    ("st336607lc", include_str!("../../../presets/st336607lc.toml")),
    ("cheetah15k", include_str!("../../../presets/cheetah15k.toml")),
    ("hdp72503", include_str!("../../../presets/hdp72503.toml")),
];

pub(super) fn spec(name: &str) -> Spec {
    let text = PRESETS.iter().find(|(n, _)| *n == name).unwrap().1;
    toml::from_str(text).unwrap()
}

pub(super) fn hdd(name: &str) -> Hdd {
    match spec(name).medium {
        Medium::Hdd(hdd) => *hdd,
        other => panic!("{name} is {other:?}"),
    }
}

pub(super) fn device(name: &str, seed: u64) -> Box<dyn Device> {
    build(&hdd(name), spec(name).size.0, seed).unwrap()
}

pub(super) fn read(id: u64, offset: u64, length: u32) -> Request {
    Request { id, operation: Operation::Read, offset, length, fua: false }
}

pub(super) fn write(id: u64, offset: u64, length: u32) -> Request {
    Request { id, operation: Operation::Write, offset, length, fua: false }
}

pub(super) fn flush(id: u64) -> Request {
    Request { id, operation: Operation::Flush, offset: 0, length: 0, fua: false }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub request: Request,
    pub submitted: Ns,
    pub completion: Completion,
}

impl Done {
    pub fn latency(&self) -> Ns {
        self.completion.at - self.submitted
    }
}

/// Runs `count` requests in a closed loop of `depth`, each submitted `think(i)` after a completion,
/// until all are done. Checks what holds for every load: nothing lost or doubled, parts add up.
pub(super) fn run(
    device: &mut dyn Device,
    depth: usize,
    count: u64,
    mut request: impl FnMut(u64) -> Request,
    mut think: impl FnMut(u64) -> Ns,
) -> Vec<Done> {
    let mut due: Vec<Ns> = vec![0; depth];
    let (mut open, mut done, mut ended) = (HashMap::new(), Vec::new(), Vec::new());
    let mut next = 0;
    let mut now = 0;
    loop {
        due.sort_unstable();
        let arrival = due.first().copied().filter(|_| next < count);
        let event = device.next_event();
        let Some(at) = arrival.into_iter().chain(event).min() else { break };
        assert!(at >= now, "time goes back from {now} to {at}");
        now = at;
        device.advance(now, &mut ended);
        for completion in ended.drain(..) {
            let (request, submitted): (Request, Ns) =
                open.remove(&completion.id).unwrap_or_else(|| panic!("{completion:?}: not under way"));
            assert!(completion.at <= now && completion.at >= submitted);
            assert_eq!(completion.parts.total(), completion.at - submitted, "{request:?} {completion:?}");
            done.push(Done { request, submitted, completion });
            due.push(completion.at + think(next));
        }
        due.sort_unstable();
        while next < count && due.first().is_some_and(|&at| at <= now) {
            due.remove(0);
            let request = Request { id: next, ..request(next) };
            open.insert(next, (request, now));
            device.submit(now, request);
            next += 1;
        }
        assert_eq!(device.under_way(), open.len());
    }
    assert!(open.is_empty(), "lost: {open:?}");
    assert_eq!(done.len() as u64, count);
    assert!(done.windows(2).all(|pair| pair[0].completion.at <= pair[1].completion.at));
    done
}

/// One after the other without a pause.
pub(super) fn in_turn(device: &mut dyn Device, count: u64, request: impl FnMut(u64) -> Request) -> Vec<Done> {
    run(device, 1, count, request, |_| 0)
}

pub(super) fn mean(values: impl Iterator<Item = u64>) -> f64 {
    let (mut sum, mut count) = (0_u64, 0_u64);
    for value in values {
        sum += value;
        count += 1;
    }
    sum as f64 / count as f64
}

/// Bytes a second, from the end of the first tenth on.
pub(super) fn rate(done: &[Done]) -> f64 {
    let from = done.len() / 10;
    let bytes: u64 = done[from + 1..].iter().map(|d| u64::from(d.request.length)).sum();
    let time = done[done.len() - 1].completion.at - done[from].completion.at;
    bytes as f64 * 1e9 / time as f64
}

pub(super) fn near(found: f64, expected: f64, percent: f64, what: &str) {
    let off = (found / expected - 1.0) * 100.0;
    assert!(
        off.abs() <= percent,
        "{what}: {found:.1}, expected {expected:.1} within {percent} %: off by {off:.2} %"
    );
}

/// Ends what is under way.
pub(super) fn rest(device: &mut dyn Device) -> Vec<Completion> {
    let mut ended = Vec::new();
    drain(device, &mut ended);
    assert_eq!((device.under_way(), device.next_event()), (0, None));
    ended
}

#[test]
fn what_lies_beyond_the_end_fails() {
    let mut disk = build(&hdd("atlas10k4"), 1 << 20, 1).unwrap();
    disk.submit(0, read(1, (1 << 20) - 512, 1024));
    disk.submit(0, write(2, 1 << 20, 512));
    disk.submit(0, read(3, u64::MAX - 511, 512));
    disk.submit(0, read(4, (1 << 20) - 512, 512));
    let ended = rest(&mut *disk);
    let outcome = |id| ended.iter().find(|c| c.id == id).unwrap().outcome;
    assert_eq!(outcome(1), Outcome::Failed(libc::EIO));
    assert_eq!(outcome(2), Outcome::Failed(libc::ENOSPC));
    assert_eq!(outcome(3), Outcome::Failed(libc::EIO));
    assert_eq!(outcome(4), Outcome::Done);
}
