// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a use of a disk went on: what its first third of time was like, and its last.
//!
//! Data flows: a completed request -> the slice of time that it ended in -> thirds. There are never
//! more than [`SLICES`] slices: when time goes on, two become one. By time and not by count: a device
//! that becomes slow completes few requests while it is.

use crate::block::Stamp;
use crate::result::ThirdRow;

/// Slices of time that are kept.
const SLICES: usize = 64;
/// The first width of a slice, ns.
const WIDTH: u64 = 1_000_000;
/// Fewer requests in a third say nothing of it.
const FEWEST: u64 = 30;

#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    requests: u64,
    bytes: u64,
    sequential: u64,
    depth: u64,
    service: u64,
    /// Sum of the logarithms of the device service times.
    logarithms: f64,
}

impl Slice {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.sequential += other.sequential;
        self.depth += other.depth;
        self.service += other.service;
        self.logarithms += other.logarithms;
    }

    fn row(slices: &[Self]) -> ThirdRow {
        let mut all = Self::default();
        slices.iter().for_each(|s| all.add(s));
        let each = |sum: u64| sum as f64 / all.requests.max(1) as f64;
        ThirdRow {
            requests: all.requests,
            bytes: all.bytes,
            sequential: all.sequential,
            depth: each(all.depth),
            service: all.service,
            service_typical: (all.logarithms / all.requests.max(1) as f64).exp() as u64,
        }
    }
}

/// Requests by slices of time.
#[derive(Debug, Clone)]
pub struct Course {
    begin: Option<u64>,
    width: u64,
    slices: Vec<Slice>,
}

impl Default for Course {
    fn default() -> Self {
        Self { begin: None, width: WIDTH, slices: Vec::new() }
    }
}

impl Course {
    /// A request completed; `sequential`: it began where the last one ended, or a little behind.
    pub fn completed(&mut self, stamp: &Stamp, sequential: bool) {
        let [.., d, c] = stamp.steps();
        let at = c.saturating_sub(*self.begin.get_or_insert(c));
        while at / self.width >= SLICES as u64 {
            let pairs = self.slices.chunks(2).map(|pair| {
                let mut one = pair[0];
                pair.iter().skip(1).for_each(|s| one.add(s));
                one
            });
            self.slices = pairs.collect();
            self.width *= 2;
        }
        let slice = (at / self.width) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, Slice::default());
        }
        self.slices[slice].add(&Slice {
            requests: 1,
            bytes: stamp.len.into(),
            sequential: sequential.into(),
            depth: stamp.depth.into(),
            service: c - d,
            logarithms: ((c - d).max(1) as f64).ln(),
        });
    }

    /// The first third and the last; none where one of them has too few requests.
    pub fn thirds(&self) -> Option<[ThirdRow; 2]> {
        let third = self.slices.len() / 3;
        let rows = [&self.slices[..third], &self.slices[self.slices.len() - third..]].map(Slice::row);
        rows.iter().all(|r| r.requests >= FEWEST).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that takes `service` of each moment, one request after the other, to `end`; ns.
    fn course(end: u64, service: impl Fn(u64) -> u64) -> Course {
        let (mut course, mut now) = (Course::default(), 5_000_000_000);
        let begin = now;
        while now - begin < end {
            let took = service(now - begin);
            let stamp =
                Stamp { dev: 1, len: 4096, depth: 2, d: now, c: now + took, i: now, ..Stamp::default() };
            now += took;
            course.completed(&stamp, false);
        }
        course
    }

    #[test]
    fn thirds_are_of_time_and_few_requests_outweigh_nothing() {
        // Ten times as slow in the second half, which has a tenth of the requests, and a stall in the first.
        let half = 3_000_000_000;
        let course = course(2 * half, |t| match t {
            1_000_000_000..1_000_200_000 => 200_000_000,
            _ if t < half => 100_000,
            _ => 1_000_000,
        });
        let [first, last] = course.thirds().expect("thirds");
        assert!(first.service_typical.abs_diff(100_000) < 200, "{first:?}");
        assert!(last.service_typical.abs_diff(1_000_000) < 100, "{last:?}");
        assert!(last.requests < 2100 && first.requests > 17_000, "{first:?} {last:?}");
        assert!(first.service > 1_800_000_000 && first.bytes == first.requests * 4096, "{first:?}");
        assert_eq!((first.depth, first.sequential), (2.0, 0));
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        for seconds in [1, 10, 1000] {
            let course = course(seconds * 1_000_000_000, |_| 1_000_000);
            assert!(course.slices.len() <= SLICES, "{}", course.slices.len());
            assert_eq!(course.slices.iter().map(|s| s.requests).sum::<u64>(), seconds * 1000);
            let [first, last] = course.thirds().expect("thirds");
            assert!(first.requests.abs_diff(last.requests) < seconds * 1000 / 20, "{first:?} {last:?}");
        }
    }

    #[test]
    fn a_few_requests_say_nothing() {
        assert_eq!(Course::default().thirds(), None);
        assert_eq!(course(80_000_000, |_| 1_000_000).thirds(), None);
    }
}
