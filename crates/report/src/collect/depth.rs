// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many requests were with the driver when, whatever their number.

use crate::document::Depth;
use std::collections::BTreeMap;

/// Columns of time at most; with one more their width doubles.
const COLUMNS: usize = 2000;
/// Width of a column at first, ns.
const STEP: u64 = 1 << 14;

/// A column of time of one disk.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// With the driver when it began, and issued before.
    before: u32,
    /// Most when a request was issued in it.
    most: u32,
    /// Sum of the times that requests were with the driver in it, ns.
    time: u64,
}

#[derive(Debug)]
struct Disk {
    step: u64,
    columns: Vec<Column>,
}

impl Disk {
    /// Columns as wide as two. What the second of a pair began with, the first had.
    fn widen(&mut self) {
        self.step *= 2;
        let pairs = self.columns.chunks(2).map(|pair| {
            let [a, b] = [pair[0], pair.get(1).copied().unwrap_or_default()];
            Column { before: a.before, most: a.most.max(b.most), time: a.time + b.time }
        });
        self.columns = pairs.collect();
    }

    fn add(&mut self, (issued, done): (u64, u64), depth: u32) {
        while done / self.step >= COLUMNS as u64 {
            self.widen();
        }
        let (first, last) = ((issued / self.step) as usize, (done / self.step) as usize);
        if last >= self.columns.len() {
            self.columns.resize(last + 1, Column::default());
        }
        for at in first..=last {
            let begin = at as u64 * self.step;
            let column = &mut self.columns[at];
            column.before += u32::from(issued < begin && begin < done);
            column.time += done.min(begin + self.step) - issued.max(begin);
        }
        let column = &mut self.columns[first];
        column.most = column.most.max(depth);
    }
}

/// All disks, by number.
#[derive(Debug, Default)]
pub struct Depths(BTreeMap<u32, Disk>);

impl Depths {
    /// Adds a request that was with the driver from and to (ns from the run's begin), and was one of
    /// `depth` when it was issued: 0 where that was not seen.
    pub fn add(&mut self, dev: u32, with_driver: (u64, u64), depth: u32) {
        if depth > 0 {
            let disk = self.0.entry(dev).or_insert_with(|| Disk { step: STEP, columns: Vec::new() });
            disk.add(with_driver, depth);
        }
    }

    /// As they stand in a document, in the order of the disks' numbers.
    pub fn finish(self, name: impl Fn(u32) -> String) -> Vec<Depth> {
        let depths = self.0.into_iter().map(|(dev, disk)| Depth {
            device: name(dev),
            step: disk.step,
            most: disk.columns.iter().map(|c| c.most.max(c.before)).collect(),
            time: disk.columns.iter().map(|c| c.time).collect(),
        });
        depths.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The document's figures of requests with these times, and what counting all of them at each moment gives.
    fn both(requests: &[(u64, u64)]) -> (Depth, Depth) {
        let depth_at = |t: u64| requests.iter().filter(|(from, to)| *from <= t && t < *to).count() as u32;
        let mut by_end = requests.to_vec();
        by_end.sort_by_key(|r| r.1);
        let mut depths = Depths::default();
        by_end.iter().for_each(|r| depths.add(8, *r, depth_at(r.0).max(1)));
        let found = depths.finish(|dev| format!("disk {dev}")).remove(0);
        let spans = (0..found.most.len() as u64).map(|n| (n * found.step, (n + 1) * found.step));
        let moments = |(a, b)| requests.iter().map(|r| r.0).filter(move |t| (a..b).contains(t)).chain([a]);
        let inside = |(a, b)| requests.iter().map(move |r| r.1.min(b).saturating_sub(r.0.max(a))).sum();
        let counted = Depth {
            device: "disk 8".into(),
            step: found.step,
            most: spans.clone().map(|s| moments(s).map(depth_at).max().unwrap_or(0)).collect(),
            time: spans.map(inside).collect(),
        };
        (found, counted)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn it_is_what_counting_gives(
            requests in prop::collection::vec((0u64..90_000_000, 1u64..4_000_000), 1..60),
            far in 0u64..60,
        ) {
            // Some end where columns begin, and the later ones make columns wider.
            let end = |from: u64, long: u64| if long % 3 == 0 { (from + long) & !(STEP - 1) } else { from + long };
            let requests: Vec<_> = requests.iter().enumerate()
                .map(|(n, (from, long))| if n as u64 > far { (from / 30, from / 30 + long / 30 + 1) } else { (*from, end(*from, *long).max(from + 1)) })
                .collect();
            let (found, counted) = both(&requests);
            prop_assert!(found.most.len() <= COLUMNS && found.most.len() == found.time.len());
            prop_assert_eq!(found, counted);
        }
    }

    #[test]
    fn what_was_not_seen_is_left_out() {
        let mut depths = Depths::default();
        depths.add(8, (10, 10), 0);
        assert!(depths.finish(|dev| dev.to_string()).is_empty());
    }
}
