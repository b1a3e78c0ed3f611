// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters: requests with each disk's driver, and what the recorder read of the kernel's.

use super::packets::{Event, Packets};
use super::proto;
use crate::export::block;
use plumb_trace::reader::{RawRecord, State};
use plumb_trace::schema::{BlockRqComplete, BlockRqIssue, BlockRqMerge, BlockRqRequeue};
use plumb_trace::Record;
use std::collections::{HashMap, HashSet};
use std::io::Write;

/// Requests with the driver beyond which ends must have been lost.
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct Depth {
    with_driver: HashMap<u64, u32>,
    depth: HashMap<u32, i64>,
}

impl Depth {
    /// Sees a record; a disk's depth is written where it changes it.
    pub fn record<W: Write>(&mut self, r: &RawRecord<'_>, state: &State, out: &mut Packets<W>) {
        let dev = match r.id {
            BlockRqIssue::ID => {
                let e = BlockRqIssue::read(r.bytes);
                if self.with_driver.len() >= MOST || self.with_driver.insert(e.rq, e.dev).is_some() {
                    return;
                }
                *self.depth.entry(e.dev).or_default() += 1;
                e.dev
            }
            BlockRqComplete::ID => {
                let e = BlockRqComplete::read(r.bytes);
                if e.left > 0 || !self.leaves(e.rq) {
                    return;
                }
                e.dev
            }
            BlockRqRequeue::ID => {
                let e = BlockRqRequeue::read(r.bytes);
                if !self.leaves(e.rq) {
                    return;
                }
                e.dev
            }
            BlockRqMerge::ID => {
                let e = BlockRqMerge::read(r.bytes);
                if !self.leaves(e.rq) {
                    return;
                }
                e.dev
            }
            _ => return,
        };
        let disk = block::disk(state, dev);
        let device = out.top(r.ts, &format!("Disk {disk}"));
        let track = out.counter(r.ts, device, &format!("{disk} with the driver"), "requests");
        let value = self.depth.get(&dev).copied();
        out.event(r.ts, Event { track, kind: proto::COUNTER, value, ..Event::default() });
    }

    fn leaves(&mut self, rq: u64) -> bool {
        let Some(dev) = self.with_driver.remove(&rq) else { return false };
        *self.depth.entry(dev).or_default() -= 1;
        true
    }

    /// Events are missing: what was with a driver then is not known.
    pub fn gap(&mut self) {
        self.with_driver.clear();
        self.depth.clear();
    }
}

/// Writes the counters that moved while the recording ran.
pub fn kernel<W: Write>(state: &State, out: &mut Packets<W>) {
    let mut first: HashMap<&str, u64> = HashMap::new();
    let mut moved: HashSet<&str> = HashSet::new();
    for c in &state.counters {
        if *first.entry(&c.name).or_insert(c.value) != c.value {
            moved.insert(&c.name);
        }
    }
    for c in state.counters.iter().filter(|c| moved.contains(c.name.as_str())) {
        let top = out.top(c.at, "Kernel's counters");
        let track =
            out.counter(c.at, top, &c.name, if c.name.starts_with("vmstat.nr_") { "pages" } else { "" });
        let value = Some(i64::try_from(c.value).unwrap_or(i64::MAX));
        out.event(c.at, Event { track, kind: proto::COUNTER, value, ..Event::default() });
    }
}
