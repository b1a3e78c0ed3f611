// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the recorder told of a thread's moments before their time came.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Moments that are kept at least; those that nobody asks for are forgotten when there are more.
const MOST: usize = 1 << 16;
/// How long one is remembered at least, ns.
const AGE: u64 = 10_000_000_000;

/// By thread, in the order of time: asked for at every switch and system call, mostly in vain.
#[derive(Debug)]
pub struct Ahead<T> {
    of: FxHashMap<u32, VecDeque<(u64, T)>>,
    kept: usize,
    most: usize,
}

impl<T> Default for Ahead<T> {
    fn default() -> Self {
        Self { of: FxHashMap::default(), kept: 0, most: MOST }
    }
}

impl<T: Default> Ahead<T> {
    /// What is told of a thread's moment, ns.
    pub fn of(&mut self, tid: u32, at: u64) -> &mut T {
        if self.kept > self.most {
            self.forget(at.saturating_sub(AGE));
        }
        let moments = self.of.entry(tid).or_default();
        let place = moments.iter().rposition(|(ts, _)| *ts <= at);
        let place = match place {
            Some(place) if moments[place].0 == at => place,
            behind => {
                let place = behind.map_or(0, |p| p + 1);
                moments.insert(place, (at, T::default()));
                self.kept += 1;
                place
            }
        };
        &mut moments[place].1
    }

    /// Takes what was told of a moment whose time has come; earlier ones of the thread are over.
    pub fn take(&mut self, tid: u32, at: u64) -> Option<T> {
        if self.kept == 0 {
            return None;
        }
        let moments = self.of.get_mut(&tid)?;
        while moments.front().is_some_and(|(ts, _)| *ts < at) {
            moments.pop_front();
            self.kept -= 1;
        }
        let found = moments.front().is_some_and(|(ts, _)| *ts == at);
        let (_, told) = found.then(|| moments.pop_front()).flatten()?;
        self.kept -= 1;
        Some(told)
    }

    fn forget(&mut self, before: u64) {
        for moments in self.of.values_mut() {
            while moments.front().is_some_and(|(ts, _)| *ts <= before) {
                moments.pop_front();
                self.kept -= 1;
            }
        }
        self.of.retain(|_, moments| !moments.is_empty());
        self.most = (self.kept * 2).max(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_once_and_in_the_order_of_time() {
        let mut a: Ahead<[u32; 2]> = Ahead::default();
        *a.of(7, 30) = [3, 0];
        // From another CPU's ring, later.
        *a.of(7, 10) = [1, 0];
        a.of(7, 10)[1] = 2;
        *a.of(8, 10) = [9, 0];
        assert_eq!((a.take(7, 5), a.take(9, 10)), (None, None));
        assert_eq!(a.take(7, 10), Some([1, 2]));
        assert_eq!(a.take(7, 10), None);
        assert_eq!(a.take(7, 31), None, "its time is over");
        assert_eq!((a.take(7, 30), a.take(8, 10), a.kept), (None, Some([9, 0]), 0));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let mut a: Ahead<u32> = Ahead::default();
        let step = AGE / MOST as u64;
        for i in 0..10 * MOST as u64 {
            *a.of(i as u32 % 100, i * step) = 1;
        }
        assert!(a.kept <= 3 * MOST, "{}", a.kept);
        let last = 10 * MOST as u64 - 1;
        assert_eq!(a.take(last as u32 % 100, last * step), Some(1));
    }
}
