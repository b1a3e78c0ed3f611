// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many requests took how long when, whatever their number.

use crate::document::Heat;
use std::collections::HashMap;

/// Columns of time at most; with one more their width doubles.
const COLUMNS: u64 = 1024;
/// Width of a column at first, ns.
const STEP: u64 = 1 << 14;

/// Row of a latency: four a factor of two.
fn row(ns: u64) -> u32 {
    if ns < 4 {
        return ns as u32;
    }
    let octave = ns.ilog2();
    // The two bits behind the first one.
    (octave - 1) * 4 + ((ns >> (octave - 2)) & 3) as u32
}

/// Least latency of a row, ns.
fn edge(row: u32) -> u64 {
    if row < 4 {
        return u64::from(row);
    }
    let (octave, quarter) = (row / 4 + 1, row % 4);
    u64::try_from(u128::from(4 + quarter) << (octave - 2)).unwrap_or(u64::MAX)
}

/// A map of one disk and direction.
#[derive(Debug)]
struct Map {
    step: u64,
    cells: HashMap<(u32, u32), u64>,
}

#[derive(Debug, Default)]
pub struct Maps(HashMap<(u32, bool), Map>);

impl Maps {
    /// Adds a request of a device that ended `at` (ns from the run's begin).
    pub fn add(&mut self, dev: u32, write: bool, at: u64, took: u64) {
        let map = self.0.entry((dev, write)).or_insert_with(|| Map { step: STEP, cells: HashMap::new() });
        while at / map.step >= COLUMNS {
            map.step *= 2;
            for ((column, row), n) in std::mem::take(&mut map.cells) {
                *map.cells.entry((column / 2, row)).or_default() += n;
            }
        }
        *map.cells.entry(((at / map.step) as u32, row(took))).or_default() += 1;
    }

    /// As they stand in a document, in the order of the disks' numbers.
    pub fn finish(self, name: impl Fn(u32) -> String) -> Vec<Heat> {
        let mut maps: Vec<_> = self.0.into_iter().collect();
        maps.sort_unstable_by_key(|(key, _)| *key);
        let heat = maps.into_iter().map(|((dev, write), map)| {
            let rows = || map.cells.keys().map(|(_, row)| *row);
            let (first, last) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0));
            let mut cells: Vec<(u32, u32, u64)> =
                map.cells.iter().map(|((column, row), n)| (*column, row - first, *n)).collect();
            cells.sort_unstable();
            let edges = (first..=last + 1).map(edge).collect();
            Heat { device: name(dev), write, step: map.step, edges, cells }
        });
        heat.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_edges_agree() {
        let mut last = 0;
        for row_number in 0..=row(u64::MAX) {
            let least = edge(row_number);
            assert_eq!(row(least), row_number);
            assert!(row_number == 0 || (least > last && row(least - 1) == row_number - 1), "{row_number}");
            last = least;
        }
        assert_eq!(edge(row(u64::MAX) + 1), u64::MAX, "no latency lies above the last edge");
        assert_eq!((row(1000), edge(row(1000))), (row(896), 896));
    }

    #[test]
    fn no_request_is_lost_when_columns_widen() {
        let mut maps = Maps::default();
        for n in 0..50_000u64 {
            maps.add(8, n % 3 == 0, n * 100_000, 1 + n * n % 900_000);
        }
        let heat = maps.finish(|dev| format!("disk {dev}"));
        assert_eq!(heat.len(), 2);
        for (h, count) in heat.iter().zip([33_333, 16_667]) {
            assert_eq!(h.cells.iter().map(|c| c.2).sum::<u64>(), count);
            assert!(h.cells.iter().all(|c| u64::from(c.0) < COLUMNS && (c.1 as usize) + 1 < h.edges.len()));
            assert!(h.step * COLUMNS > 4_999_900_000 && h.step * COLUMNS / 2 <= 4_999_900_000, "{}", h.step);
            assert!(h.edges.is_sorted());
        }
        assert!(!heat[0].write && heat[1].write);
    }
}
