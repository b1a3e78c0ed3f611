// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was written, acknowledged, and is not on the medium yet.
//!
//! Writes join into extents. A flush ends an epoch: it waits until nothing of its epoch or of an
//! earlier one is left, however much is written behind it; extents of two epochs do not join.

use std::collections::{BTreeMap, VecDeque};

/// So many extents compete for the arm. The first of them is passed over so often, then it goes.
const WINDOW: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Extent {
    end: u64,
    epoch: u64,
}

#[derive(Debug)]
pub(super) struct Dirty {
    /// By first sector; they do not overlap.
    extents: BTreeMap<u64, Extent>,
    /// Of the writes that come.
    epoch: u64,
    /// Sectors of each epoch that are not on the medium; the oldest first, none empty.
    left: VecDeque<(u64, u64)>,
    /// Being written: of which epoch how many.
    taken: Vec<(u64, u64)>,
    run: (u64, u64),
    /// Where the sweep over the disk is.
    sweep: u64,
    /// How often the first extent of the sweep was passed over.
    passed: usize,
}

impl Dirty {
    pub fn new() -> Self {
        Self {
            extents: BTreeMap::new(),
            epoch: 0,
            left: VecDeque::new(),
            taken: Vec::new(),
            run: (0, 0),
            sweep: 0,
            passed: 0,
        }
    }

    /// Sectors in the buffer: those that wait, and those that are being written.
    pub fn held(&self) -> u64 {
        self.left.iter().map(|(_, sectors)| sectors).sum()
    }

    /// Whether something waits to be written.
    pub fn waits(&self) -> bool {
        !self.extents.is_empty()
    }

    /// Ends the epoch; a flush waits for it. None: there is nothing to wait for.
    pub fn end_epoch(&mut self) -> Option<u64> {
        let last = self.left.back()?.0;
        self.epoch = last + 1;
        Some(last)
    }

    /// Whether everything up to this epoch is on the medium.
    pub fn is_clean(&self, epoch: u64) -> bool {
        self.left.front().is_none_or(|&(oldest, _)| oldest > epoch)
    }

    /// Calls `gap` with each run of these sectors that does not wait yet.
    fn gaps(&self, first: u64, end: u64, mut gap: impl FnMut(u64, u64)) {
        let before = self.extents.range(..=first).next_back();
        let mut at = before.map_or(first, |(_, extent)| extent.end.max(first));
        for (&start, extent) in self.extents.range(first + 1..end.max(first + 1)) {
            if start > at {
                gap(at, start);
            }
            at = extent.end;
        }
        if at < end {
            gap(at, end);
        }
    }

    /// Sectors of these that do not wait yet: room that a write of them needs.
    pub fn room(&self, first: u64, end: u64) -> u64 {
        let mut sum = 0;
        self.gaps(first, end, |from, to| sum += to - from);
        sum
    }

    /// Whether all of these sectors are in the buffer.
    pub fn holds(&self, first: u64, end: u64) -> bool {
        let flying = !self.taken.is_empty() && self.run.0 <= first && end <= self.run.1;
        flying || (self.waits() && self.room(first, end) == 0)
    }

    /// These sectors were acknowledged. What waits already keeps its epoch.
    pub fn insert(&mut self, first: u64, end: u64) {
        let mut gaps = Vec::new();
        self.gaps(first, end, |from, to| gaps.push((from, to)));
        for (from, to) in gaps {
            self.add(from, to);
        }
    }

    fn add(&mut self, mut first: u64, mut end: u64) {
        let epoch = self.epoch;
        match self.left.back_mut() {
            Some((last, sectors)) if *last == epoch => *sectors += end - first,
            _ => self.left.push_back((epoch, end - first)),
        }
        if let Some((&start, before)) = self.extents.range(..first).next_back() {
            if before.end == first && before.epoch == epoch {
                first = start;
            }
        }
        if let Some(after) = self.extents.get(&end).copied().filter(|after| after.epoch == epoch) {
            self.extents.remove(&end);
            end = after.end;
        }
        self.extents.insert(first, Extent { end, epoch });
    }

    /// The extent that is written next: the one with the least `cost` of those that the sweep meets
    /// next. With `epoch` only of that one and earlier ones, as long as there is one.
    pub fn choose(&mut self, epoch: Option<u64>, cost: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
        let wanted = |extent: &Extent| epoch.is_none_or(|epoch| extent.epoch <= epoch);
        let ahead = self.extents.range(self.sweep..).chain(self.extents.range(..self.sweep));
        let mut window = ahead.filter(|(_, extent)| wanted(extent)).take(WINDOW);
        let (&lowest, extent) = window.next()?;
        let mut best = (lowest, extent.end);
        if self.passed < WINDOW {
            let mut least = cost(lowest);
            for (&first, extent) in window {
                let cost = cost(first);
                if cost < least {
                    (least, best) = (cost, (first, extent.end));
                }
            }
        }
        self.passed = if best.0 == lowest { 0 } else { self.passed + 1 };
        self.sweep = lowest;
        Some(best)
    }

    /// These sectors are being written, whatever of them waited.
    pub fn take(&mut self, first: u64, end: u64) {
        self.run = (first, end);
        loop {
            let found = self.extents.range(..end).next_back().map(|(&start, &extent)| (start, extent));
            let Some((start, extent)) = found.filter(|(_, extent)| extent.end > first) else { return };
            self.extents.remove(&start);
            if start < first {
                self.extents.insert(start, Extent { end: first, ..extent });
            }
            if extent.end > end {
                self.extents.insert(end, extent);
            }
            self.taken.push((extent.epoch, extent.end.min(end) - start.max(first)));
        }
    }

    /// What was being written is on the medium.
    pub fn written(&mut self) {
        for (epoch, sectors) in self.taken.drain(..) {
            if let Some(left) = self.left.iter_mut().find(|left| left.0 == epoch) {
                left.1 -= sectors;
            }
        }
        self.left.retain(|&(_, sectors)| sectors > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(dirty: &Dirty) -> Vec<(u64, u64)> {
        dirty.extents.iter().map(|(&first, extent)| (first, extent.end)).collect()
    }

    #[test]
    fn writes_join_and_overlap_once() {
        let mut dirty = Dirty::new();
        dirty.insert(10, 20);
        dirty.insert(30, 40);
        assert_eq!(dirty.room(0, 50), 30);
        dirty.insert(15, 35);
        assert_eq!((extents(&dirty), dirty.held()), (vec![(10, 40)], 30));
        assert!(dirty.holds(10, 40) && !dirty.holds(9, 11) && !dirty.holds(39, 41));
        dirty.insert(10, 11);
        dirty.insert(0, 50);
        assert_eq!((extents(&dirty), dirty.held()), (vec![(0, 50)], 50));
    }

    #[test]
    fn an_epoch_ends_when_its_last_sector_is_written() {
        let mut dirty = Dirty::new();
        assert_eq!(dirty.end_epoch(), None);
        dirty.insert(10, 20);
        let first = dirty.end_epoch();
        assert_eq!(first, Some(0));
        dirty.insert(15, 30);
        assert_eq!(extents(&dirty), vec![(10, 20), (20, 30)], "epochs do not join");
        dirty.take(12, 30);
        assert!(dirty.holds(12, 30) && dirty.held() == 20);
        dirty.written();
        assert!(!dirty.is_clean(0), "10 and 11 are left");
        assert_eq!(dirty.choose(Some(0), |_| 0), Some((10, 12)));
        dirty.take(10, 12);
        dirty.written();
        assert!(dirty.is_clean(0) && dirty.is_clean(1) && dirty.held() == 0 && !dirty.waits());
    }

    #[test]
    fn the_nearest_goes_first_and_none_is_passed_over_for_ever() {
        let mut dirty = Dirty::new();
        dirty.insert(0, 1);
        dirty.insert(100, 101);
        assert_eq!(dirty.choose(None, |first| first.abs_diff(101)), Some((100, 101)));
        let mut turns = 0;
        loop {
            let chosen = dirty.choose(None, |first| u64::MAX - first);
            if chosen == Some((0, 1)) {
                break;
            }
            turns += 1;
            assert!(turns <= WINDOW, "0 starves");
        }
    }
}
