// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What threads and CPUs did when, in bounded memory: when there are too many intervals, neighbours
//! that are shorter than a threshold become one, and the threshold doubles.

use plumb_model::Who;
use std::collections::HashMap;

/// Where thinning begins, ns.
const SHORTEST: u64 = 1 << 10;
/// States that an interval of several is told apart by, those of most time.
const MOST_PARTS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Cpu(u32),
    /// Process, thread.
    Thread(u32, u32),
}

/// Whose a piece of time was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    Who(Who),
    /// A thread whose name nothing told.
    Unnamed(u32),
}

/// The wait that a piece belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sleep {
    /// 1 and up.
    pub number: u64,
    /// Number of the kernel stack, 0 none.
    pub stack: u32,
    /// Thread that woke it, 0 none.
    pub waker: u32,
    /// The number of its name and one; 0 where nothing told it.
    pub waker_name: u32,
}

/// What intervals with one state of one cause are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Place in the document's categories, or the CPU's state.
    pub state: u8,
    pub whose: Whose,
    /// Length, ns.
    pub time: u64,
    /// Of the longest single one.
    pub longest: u64,
    /// The longest one's; number 0 is none.
    pub sleep: Sleep,
    /// The longest one's, 0 none.
    pub request: u64,
}

/// An interval, or several that became one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Begin, ns.
    pub from: u64,
    /// End, ns.
    pub to: u64,
    /// Of its length, interrupts', ns.
    pub interrupted: u64,
    /// Intervals that it is made of.
    pub merged: u64,
    /// The state of most time.
    pub main: Part,
    rest: Vec<Part>,
}

impl Cell {
    pub fn new(from: u64, to: u64, interrupted: u64, main: Part) -> Self {
        Self { from, to, interrupted, merged: 1, main, rest: Vec::new() }
    }

    fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Takes the next one in.
    fn take(&mut self, next: Cell) {
        self.to = next.to;
        self.interrupted += next.interrupted;
        self.merged += next.merged;
        for part in std::iter::once(next.main).chain(next.rest) {
            let mine = std::iter::once(&mut self.main).chain(&mut self.rest);
            match mine.into_iter().find(|p| (p.state, p.whose) == (part.state, part.whose)) {
                Some(p) => {
                    p.time += part.time;
                    if part.longest > p.longest {
                        (p.longest, p.sleep, p.request) = (part.longest, part.sleep, part.request);
                    }
                }
                None => self.rest.push(part),
            }
        }
        if let Some(most) = self.rest.iter_mut().max_by_key(|p| p.time).filter(|p| p.time > self.main.time) {
            std::mem::swap(&mut self.main, most);
        }
        if self.rest.len() >= MOST_PARTS {
            self.rest.sort_unstable_by_key(|p| std::cmp::Reverse(p.time));
            self.rest.truncate(MOST_PARTS - 1);
        }
    }
}

/// A thread's or CPU's intervals, in the order of time.
#[derive(Debug)]
pub struct Lane {
    pub key: Key,
    /// The number of the thread's last name.
    pub name: u32,
    pub cells: Vec<Cell>,
    /// Of the intervals, ns.
    pub time: u64,
    seen: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub cells: usize,
    pub lanes: usize,
}

#[derive(Debug)]
pub struct Lanes {
    limits: Limits,
    /// Shorter neighbours become one; 0 none do.
    pub shortest: u64,
    lanes: Vec<Lane>,
    index: HashMap<Key, usize>,
    cells: usize,
    pub seen: u64,
    /// Threads that were left out, with least time: how many, the longest of them, their intervals.
    pub left_out: (u64, u64, u64),
}

impl Lanes {
    pub fn new(limits: Limits) -> Self {
        let (lanes, index) = (Vec::new(), HashMap::new());
        Self { limits, shortest: 0, lanes, index, cells: 0, seen: 0, left_out: (0, 0, 0) }
    }

    /// Adds an interval behind the lane's last one; `name`: the thread's.
    pub fn add(&mut self, key: Key, name: u32, cell: Cell) {
        if cell.to <= cell.from {
            return;
        }
        self.seen += 1;
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None => {
                if self.lanes.len() >= self.limits.lanes.saturating_mul(2) {
                    self.leave_out();
                }
                self.lanes.push(Lane { key, name, cells: Vec::new(), time: 0, seen: 0 });
                self.index.insert(key, self.lanes.len() - 1);
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[at];
        lane.name = name;
        lane.time += cell.length();
        lane.seen += 1;
        let before = lane.cells.len();
        append(&mut lane.cells, cell, self.shortest);
        self.cells += lane.cells.len() - before;
        if self.cells > self.limits.cells {
            self.thin();
        }
    }

    /// Makes them half of what is allowed, so that the next time is not at once.
    fn thin(&mut self) {
        while self.cells > self.limits.cells / 2 && self.shortest < 1 << 62 {
            self.shortest = (self.shortest * 2).max(SHORTEST);
            for lane in &mut self.lanes {
                let cells = std::mem::take(&mut lane.cells);
                self.cells -= cells.len();
                for cell in cells {
                    append(&mut lane.cells, cell, self.shortest);
                }
                lane.cells.shrink_to_fit();
                self.cells += lane.cells.len();
            }
        }
        // What does not touch cannot become one.
        self.limits.cells = self.limits.cells.max(self.cells.saturating_mul(2));
    }

    /// Leaves the threads with least time out.
    fn leave_out(&mut self) {
        let mut times: Vec<u64> =
            self.lanes.iter().filter(|l| matches!(l.key, Key::Thread(..))).map(|l| l.time).collect();
        let Some(too_many) = times.len().checked_sub(self.limits.lanes).filter(|n| *n > 0) else { return };
        let limit = *times.select_nth_unstable(too_many - 1).1;
        let mut go = too_many;
        let (left_out, cells) = (&mut self.left_out, &mut self.cells);
        self.lanes.retain(|lane| {
            let goes = go > 0 && lane.time <= limit && matches!(lane.key, Key::Thread(..));
            if goes {
                go -= 1;
                *cells -= lane.cells.len();
                *left_out = (left_out.0 + 1, left_out.1.max(lane.time), left_out.2 + lane.seen);
            }
            !goes
        });
        self.index = self.lanes.iter().enumerate().map(|(at, lane)| (lane.key, at)).collect();
    }

    /// All lanes: CPUs, then threads.
    pub fn finish(&mut self) -> Vec<Lane> {
        self.leave_out();
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.sort_unstable_by_key(|l| l.key);
        lanes
    }
}

fn append(cells: &mut Vec<Cell>, cell: Cell, shortest: u64) {
    match cells.last_mut() {
        Some(last) if last.to == cell.from && last.length() < shortest && cell.length() < shortest => {
            last.take(cell);
        }
        _ => cells.push(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(state: u8, time: u64, request: u64) -> Part {
        let whose = Whose::Who(Who::Nobody);
        Part { state, whose, time, longest: time, sleep: Sleep::default(), request }
    }

    fn cell(from: u64, to: u64, state: u8, request: u64) -> Cell {
        Cell::new(from, to, 0, part(state, to - from, request))
    }

    #[test]
    fn several_have_the_state_of_most_time() {
        let mut c = cell(0, 40, 1, 1);
        c.take(cell(40, 70, 2, 2));
        c.take(cell(70, 95, 2, 3));
        assert_eq!((c.from, c.to, c.merged, c.main.state, c.main.time), (0, 95, 3, 2, 55));
        assert_eq!(c.main.request, 2, "the longest one's of its state");
        c.take(cell(95, 120, 1, 4));
        assert_eq!((c.main.state, c.main.time, c.main.request), (1, 65, 1));
    }

    #[test]
    fn what_is_thinned_still_tiles() {
        let limits = Limits { cells: 1000, lanes: 10 };
        let mut lanes = Lanes::new(limits);
        let (mut at, mut seed) = ([0u64; 3], 1u64);
        let mut states = [[0u64; 5]; 3];
        for n in 0..50_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let lane = n % 3;
            let length = 1 + (seed >> 33) % if n % 1000 == 0 { 10_000_000 } else { 3000 };
            let state = (seed >> 40) % 5;
            states[lane][state as usize] += length;
            let next = at[lane] + length;
            lanes.add(Key::Thread(lane as u32, 1), 0, cell(at[lane], next, state as u8, 0));
            at[lane] = next;
        }
        assert!(lanes.shortest >= SHORTEST);
        assert_eq!(lanes.seen, 50_000);
        let all = lanes.finish();
        assert!(all.iter().map(|l| l.cells.len()).sum::<usize>() <= 1000);
        let mut merged = 0;
        for (lane, end) in all.iter().zip(at) {
            let mut from = 0;
            for c in &lane.cells {
                assert_eq!(c.from, from, "no gap, no overlap");
                let parts = c.main.time + c.rest.iter().map(|p| p.time).sum::<u64>();
                assert_eq!(parts, c.to - c.from);
                assert!(c.rest.iter().all(|p| p.time <= c.main.time));
                merged += c.merged;
                from = c.to;
            }
            assert_eq!((from, lane.time), (end, end));
        }
        assert_eq!(merged, 50_000);
        for (lane, states) in all.iter().zip(states) {
            for (state, time) in states.iter().enumerate() {
                let parts = lane.cells.iter().flat_map(|c| std::iter::once(&c.main).chain(&c.rest));
                let sum: u64 = parts.filter(|p| usize::from(p.state) == state).map(|p| p.time).sum();
                assert_eq!(sum, *time, "up to eight states stay exact");
            }
        }
    }

    #[test]
    fn a_long_one_stays_itself() {
        let mut lanes = Lanes::new(Limits { cells: 100, lanes: 10 });
        let mut at = 0;
        for n in 0..1000u64 {
            let length = if n == 500 { 1_000_000 } else { 10 };
            lanes.add(Key::Cpu(0), 0, cell(at, at + length, (n % 2) as u8, n));
            at += length;
        }
        let all = lanes.finish();
        let long = all[0].cells.iter().find(|c| c.to - c.from >= 1_000_000).expect("there");
        assert_eq!((long.merged, long.main.request), (1, 500));
    }

    #[test]
    fn of_too_many_threads_those_with_least_time_go() {
        let mut lanes = Lanes::new(Limits { cells: 1000, lanes: 10 });
        lanes.add(Key::Cpu(0), 0, cell(0, 1, 0, 0));
        for tid in 1..=100u32 {
            lanes.add(Key::Thread(tid, tid), 0, cell(0, u64::from(tid * 37 % 101), 1, 0));
        }
        let all = lanes.finish();
        assert_eq!((all.len(), lanes.left_out.0, lanes.left_out.2), (11, 90, 90));
        assert_eq!(all[0].key, Key::Cpu(0));
        // Those who were left out early had less than those who stay: with time they are replaced.
        assert!(all[1..].iter().all(|l| l.time > 90), "{all:?}");
    }

    #[test]
    fn intervals_that_do_not_touch_do_not_become_one() {
        let mut lanes = Lanes::new(Limits { cells: 100, lanes: 10 });
        for n in 0..500u64 {
            lanes.add(Key::Thread(1, 1), 0, cell(n * 100, n * 100 + 10, 0, 0));
        }
        let all = lanes.finish();
        assert_eq!(all[0].cells.len(), 500);
    }
}
