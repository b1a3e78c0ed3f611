// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a process uses a disk: sizes, order, depth, and how long the disk takes.

use crate::block::Stamp;
use crate::disk_trend::Course;
use crate::histogram::Histogram;
use plumb_trace::kernel::req;
use rustc_hash::FxHashMap;

/// Time of those that took longer than so many times the median, ns.
pub fn beyond(durations: &Histogram, times: f64) -> u64 {
    let limit = (durations.quantile(0.5) as f64 * times) as u64;
    u64::try_from(durations.sum_above(limit)).unwrap_or(u64::MAX)
}

/// One process, one disk, one direction.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    /// Name of a thread of the process.
    pub name: u32,
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that began where the last one ended.
    pub sequential: u64,
    /// Those that began behind the last one, less than 1 MiB away.
    pub near: u64,
    pub ahead: u64,
    /// Somebody waits for them (REQ_SYNC).
    pub sync: u64,
    /// Writes that must be on the medium (FUA), or flush first.
    pub barrier: u64,
    /// Sum of what was in flight of the device when they were issued.
    pub depth: u64,
    pub service: Histogram,
    pub course: Course,
    last_end: u64,
}

/// All patterns, by process, disk and direction.
#[derive(Debug, Default)]
pub struct Patterns(pub FxHashMap<(u32, u32, bool), Pattern>);

impl Patterns {
    /// A request of this process completed.
    pub fn completed(&mut self, tgid: u32, name: u32, stamp: &Stamp) {
        let p = self.0.entry((tgid, stamp.dev, stamp.is_write())).or_default();
        p.name = name;
        // A damaged record has any sector.
        let end = stamp.sector.saturating_add(u64::from(stamp.len >> 9));
        let ahead = stamp.sector.checked_sub(p.last_end).filter(|_| p.requests > 0);
        p.sequential += u64::from(ahead == Some(0));
        p.near += u64::from(ahead.is_some_and(|sectors| sectors > 0 && sectors < 2048));
        p.course.completed(stamp, ahead.is_some_and(|sectors| sectors < 2048));
        p.last_end = end;
        p.requests += 1;
        p.bytes += u64::from(stamp.len);
        p.ahead += u64::from(stamp.opf & req::RAHEAD != 0);
        p.sync += u64::from(stamp.opf & req::SYNC != 0);
        p.barrier += u64::from(stamp.opf & (req::FUA | req::PREFLUSH) != 0);
        p.depth += u64::from(stamp.depth);
        let [.., d, c] = stamp.steps();
        p.service.add(c - d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_stands_out() {
        let mut d = Histogram::default();
        (0..99).for_each(|_| d.add(100_000));
        d.add(50_000_000);
        let beyond = beyond(&d, 10.0);
        assert!(beyond > 45_000_000 && beyond < 55_000_000, "{beyond}");
    }

    #[test]
    fn order_is_seen() {
        let mut p = Patterns::default();
        let stamp = |sector| Stamp { dev: 1, len: 4096, sector, d: 1, c: 2, ..Stamp::default() };
        for sector in [0, 8, 16, 1000, 24] {
            p.completed(7, 0, &stamp(sector));
        }
        let p = &p.0[&(7, 1, false)];
        assert_eq!((p.requests, p.sequential, p.near), (5, 2, 1));
    }
}
