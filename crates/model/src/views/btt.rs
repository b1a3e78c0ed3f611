// SPDX-License-Identifier: Apache-2.0 OR MIT
//! btt: the layers of block I/O as blktrace's btt cuts them. As there, the
//! layers are counted for each bio (Q), not for each request: a merged bio waits
//! and completes with its request, and counts.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use crate::requests::{Bio, Issue, Request, Requests, Step};
use plumb_trace::kernel::req;
use plumb_trace::reader::Item;
use std::collections::HashMap;

/// Layers in the order of an I/O's life, ns.
pub const LAYERS: &[&str] = &["Q2Q", "Q2G", "G2I", "Q2M", "I2D", "G2D", "M2D", "D2C", "Q2C"];
/// Distance in sectors from the end of the last I/O, 0 where they touch or overlap.
pub const Q_SEEK: &str = "Q seek";
/// The same of requests as they are issued.
pub const D_SEEK: &str = "D seek";
/// Sectors of a request as it is issued.
pub const BLOCKS: &str = "blocks of a D";
/// Bios queued and not issued as a bio is queued.
pub const WAITING: &str = "waiting at Q";
/// Requests with the driver as a bio is queued.
pub const IN_FLIGHT: &str = "in flight at Q";

#[derive(Debug, Clone, Copy)]
struct Extent {
    begin: u64,
    end: u64,
}

impl Extent {
    fn new(sector: u64, bytes: u32) -> Self {
        Self { begin: sector, end: sector.saturating_add(u64::from(bytes >> 9)) }
    }

    /// Distance from the extent before this one: to its end forwards, to its begin backwards.
    fn distance(self, last: Self) -> u64 {
        let touches = |at: u64| last.begin <= at && at <= last.end;
        if touches(self.begin) || touches(self.end) {
            0
        } else if self.begin > last.end {
            self.begin - last.end
        } else {
            last.begin - self.begin
        }
    }
}

#[derive(Debug, Default)]
struct Last {
    q: Option<u64>,
    q_extent: Option<Extent>,
    d_extent: Option<Extent>,
}

#[derive(Debug, Default)]
pub struct Btt {
    requests: Requests,
    last: HashMap<u32, Last>,
}

fn of_bio(sample: Sample, bio: &Bio, names: &Names) -> Sample {
    sample.of(bio.owner, names).with(Key::Device, bio.dev).with(Key::Operation, req::op(bio.opf))
}

fn issued(r: &Request, last: &mut Last, names: &Names, out: &mut dyn FnMut(Sample)) {
    for bio in &r.bios {
        let mut layer = |kind, from| out(of_bio(Sample::interval(kind, from, r.d), bio, names));
        if bio.m != 0 {
            layer("M2D", bio.m);
        } else if bio.g != 0 && r.i == 0 {
            layer("G2D", bio.g);
        } else if bio.g != 0 {
            layer("I2D", r.i);
            out(of_bio(Sample::interval("G2I", bio.g, r.i), bio, names));
        }
    }
    if r.len == 0 {
        return;
    }
    let request = |sample: Sample| {
        let sample = sample.with(Key::Device, r.dev).with(Key::Operation, r.operation());
        r.owner().map_or(sample, |tid| sample.of(tid, names))
    };
    out(request(Sample::count(BLOCKS, r.d, u64::from(r.len >> 9))));
    let extent = Extent::new(r.sector, r.len);
    if let Some(before) = last.d_extent.replace(extent) {
        out(request(Sample::count(D_SEEK, r.d, extent.distance(before))));
    }
}

impl View for Btt {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        if matches!(item, Item::Gap(_)) {
            self.last.clear();
        }
        let all = &mut self.last;
        match self.requests.feed(item) {
            Step::Queued(bio, _, queue) => {
                let last = all.entry(bio.dev).or_default();
                if let Some(before) = last.q.replace(bio.q) {
                    out(of_bio(Sample::interval("Q2Q", before, bio.q), bio, names));
                }
                out(of_bio(Sample::count(WAITING, bio.q, u64::from(queue.waiting) - 1), bio, names));
                out(of_bio(Sample::count(IN_FLIGHT, bio.q, queue.in_flight.into()), bio, names));
                if bio.len > 0 {
                    let extent = Extent::new(bio.sector, bio.len);
                    if let Some(before) = last.q_extent.replace(extent) {
                        out(of_bio(Sample::count(Q_SEEK, bio.q, extent.distance(before)), bio, names));
                    }
                }
            }
            Step::Got(Some(bio), _) => out(of_bio(Sample::interval("Q2G", bio.q, bio.g), bio, names)),
            Step::Merged(_, Some(bio)) => out(of_bio(Sample::interval("Q2M", bio.q, bio.m), bio, names)),
            Step::Issued(r, Issue::First, _) => issued(r, all.entry(r.dev).or_default(), names, out),
            Step::Completed(r, ..) => {
                for bio in &r.bios {
                    if r.d != 0 {
                        out(of_bio(Sample::interval("D2C", r.d, r.c), bio, names));
                    }
                    out(of_bio(Sample::interval("Q2C", bio.q, r.c), bio, names));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seek_is_the_way_from_the_last_extent_and_none_where_they_touch() {
        let last = Extent::new(100, 4096);
        let distance = |sector| Extent::new(sector, 4096).distance(last);
        assert_eq!([distance(108), distance(104), distance(92), distance(100)], [0; 4]);
        assert_eq!((distance(118), distance(50)), (10, 50));
    }
}
