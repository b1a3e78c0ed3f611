// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters: requests with each disk's driver, and what the recorder read of the kernel's.

use super::packets::{Event, Packets};
use super::proto;
use crate::export::block;
use plumb_model::requests::{Issue, Requests, Step};
use plumb_trace::reader::{RawRecord, State};
use std::collections::{HashMap, HashSet};
use std::io::Write;

#[derive(Debug, Default)]
pub struct Depth(Requests);

impl Depth {
    /// Sees a record; a disk's depth is written where it changes it.
    pub fn record<W: Write>(&mut self, r: &RawRecord<'_>, state: &State, out: &mut Packets<W>) {
        let (dev, queue) = match self.0.record(r.ts, r) {
            Step::Issued(request, Issue::First | Issue::Again, queue)
            | Step::Requeued(request, queue)
            | Step::Completed(request, true, queue) => (request.dev, queue),
            _ => return,
        };
        let disk = block::disk(state, dev);
        let device = out.top(r.ts, &format!("Disk {disk}"));
        let track = out.counter(r.ts, device, &format!("{disk} with the driver"), "requests");
        let value = Some(queue.in_flight.into());
        out.event(r.ts, Event { track, kind: proto::COUNTER, value, ..Event::default() });
    }

    /// Events are missing: what was with a driver then is not known.
    pub fn gap(&mut self) {
        self.0.forget();
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
