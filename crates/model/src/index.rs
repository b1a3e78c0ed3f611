// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the thread of an id is kept.

use plumb_trace::kernel::PID_MAX_LIMIT;
use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct Index {
    /// By id.
    near: Vec<u32>,
    /// Of threads outside of the recorder's PID namespace, whose ids lie far above and are few.
    far: FxHashMap<u32, u32>,
}

impl Index {
    pub fn get(&self, tid: u32) -> Option<usize> {
        let near = self.near.get(tid as usize).filter(|at| **at != NONE);
        let at = near.or_else(|| if tid < PID_MAX_LIMIT { None } else { self.far.get(&tid) });
        at.map(|at| *at as usize)
    }

    pub fn set(&mut self, tid: u32, at: usize) {
        if tid >= PID_MAX_LIMIT {
            self.far.insert(tid, at as u32);
            return;
        }
        let i = tid as usize;
        if i >= self.near.len() {
            self.near.resize((i + 1).next_power_of_two().max(1024), NONE);
        }
        self.near[i] = at as u32;
    }

    pub fn remove(&mut self, tid: u32) {
        if let Some(at) = self.near.get_mut(tid as usize) {
            *at = NONE;
        }
        self.far.remove(&tid);
    }

    /// All places, by id.
    pub fn places(&self) -> Vec<usize> {
        let mut far: Vec<(u32, u32)> = self.far.iter().map(|(tid, at)| (*tid, *at)).collect();
        far.sort_unstable();
        let near = self.near.iter().copied().filter(|at| *at != NONE);
        near.chain(far.into_iter().map(|(_, at)| at)).map(|at| at as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::kernel::OUTSIDE_KERNEL;

    #[test]
    fn far_ids_cost_no_more_than_near_ones() {
        let mut index = Index::default();
        for (at, tid) in [7, OUTSIDE_KERNEL + 7, PID_MAX_LIMIT + 9, 5].into_iter().enumerate() {
            index.set(tid, at);
        }
        assert_eq!((index.get(7), index.get(OUTSIDE_KERNEL + 7), index.get(6)), (Some(0), Some(1), None));
        assert_eq!(index.places(), [3, 0, 2, 1]);
        index.remove(OUTSIDE_KERNEL + 7);
        index.remove(7);
        assert_eq!((index.get(7), index.get(OUTSIDE_KERNEL + 7)), (None, None));
        assert!(index.near.len() <= 1024);
    }
}
