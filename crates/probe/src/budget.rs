// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a recording pauses where it would cost its target more than it may.

use plumb_machine::{clock, process, Root};
use std::collections::{HashMap, HashSet};

/// What an event costs whoever raises it and the recorder together, ns: of nginx with a request in 10 us, 14 to 18 events
/// each took 4.1 us (results/2026-11-26-record-budget). Stopping and starting costs some more.
const EVENT: f64 = 250.0;
/// A reader's beginning takes time that no event does: what it takes for one is told by those behind so many.
const BEGINNING: u64 = 10_000;
/// So long is recorded at a stretch before it is looked again, ns.
const WINDOW: u64 = 100_000_000;
/// Below that a stretch holds too few requests from their begin to their end, ns.
const SHORTEST_WINDOW: u64 = 20_000_000;
/// A pause is told at its end, and a trace's reader must know of it within a second, ns.
const LONGEST_PAUSE: u64 = 800_000_000;
/// From this share of the time on it is recorded all the time: a pause loses what is open at its begin.
const ALL: f64 = 0.9;
/// Less than so much of a CPU is no cost to pause for.
const LITTLE: f64 = 0.005;
/// What was not used may be used later, as much as so long allows, ns: a burst of events is where something happens, and a
/// pause would hide it.
const SAVED: f64 = 10e9;
/// The kernel counts CPU time in ticks: the target's is looked at over so long, ns.
const LOOK: u64 = 1_000_000_000;

/// What a recording may cost.
#[derive(Debug)]
pub struct Budget {
    /// Share of the target's CPU time.
    share: f64,
    cpus: u32,
    /// The present stretch began, ns; events until then.
    began: u64,
    events: u64,
    /// Events behind the beginning, and the CPU time that their reader had taken then, ns.
    read: Option<(u64, u64)>,
    /// When the target's CPU time was read, and what it was, ns: the last two times that lie a while apart.
    used: [(u64, u64); 2],
    /// What was not used, ns of CPU time.
    saved: f64,
    /// Whether a thread of the target is its process's first.
    first: HashMap<u32, bool>,
    window: u64,
    /// The present pause: begin and end, ns.
    pub pause: Option<(u64, u64)>,
}

impl Budget {
    /// `share` of the target's CPU time, 0 to 1, from `now` (ns) on.
    fn new(share: f64, now: u64) -> Self {
        Self {
            share,
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            began: now,
            events: 0,
            read: None,
            used: [(now, 0); 2],
            saved: 0.0,
            first: HashMap::new(),
            window: WINDOW,
            pause: None,
        }
    }

    /// The same, of a target that has used CPU time before; see [`Budget::used`].
    pub fn of(share: f64, now: u64, threads: &HashSet<u32>, everyone: bool) -> Self {
        let mut budget = Self::new(share, now);
        budget.used = [(now, budget.used(threads, everyone)); 2];
        budget
    }

    /// CPU time that the target has used, ns: its processes, some by several of their threads. Where everybody is the target
    /// it is the time of all CPUs, idle or not: a machine that is idle has time left to be recorded.
    pub fn used(&mut self, threads: &HashSet<u32>, everyone: bool) -> u64 {
        let root = Root::real();
        if everyone {
            return clock::now() * u64::from(self.cpus);
        }
        self.first.retain(|tid, _| threads.contains(tid));
        for tid in threads {
            self.first.entry(*tid).or_insert_with(|| process::is_first(*tid, &root));
        }
        let processes = self.first.iter().filter(|(_, first)| **first);
        processes.filter_map(|(pid, _)| process::cpu_time(*pid, &root)).sum()
    }

    /// How long at `now` the present pause or stretch goes on, ns.
    pub fn left(&self, now: u64) -> u64 {
        self.pause.map_or(self.began + self.window, |(_, end)| end).saturating_sub(now)
    }

    /// Whether the stretch is over at `now`, ns.
    pub fn is_over(&self, now: u64) -> bool {
        self.pause.is_none() && now >= self.began + self.window
    }

    /// Ends a stretch: how long to pause, ns; 0: not at all. `events`: recorded so far; `used`: CPU time of the target, ns;
    /// `read`: of who reads what is recorded, ns.
    pub fn pause_for(&mut self, now: u64, events: u64, used: u64, read: u64) -> u64 {
        let stretch = (now - self.began).max(1) as f64;
        let cost = events.saturating_sub(self.events) as f64 * (EVENT + self.reading(events, read)) / stretch;
        let (since, before) = self.used[0];
        let busy = used.saturating_sub(before) as f64 / (now - since).max(1) as f64;
        (self.began, self.events) = (now, events);
        if now - self.used[1].0 >= LOOK {
            self.used = [self.used[1], (now, used)];
        }
        if self.share.is_infinite() {
            return 0;
        }
        let allowed = self.share * busy;
        let over = (cost - allowed) * stretch - self.saved;
        self.saved = (-over).clamp(0.0, allowed * SAVED);
        self.window = WINDOW;
        if over <= 0.0 || allowed >= ALL * cost || cost < LITTLE {
            return 0;
        }
        let pause = over / allowed.max(1e-3 * cost);
        if pause > LONGEST_PAUSE as f64 {
            self.window = ((stretch * LONGEST_PAUSE as f64 / pause) as u64).clamp(SHORTEST_WINDOW, WINDOW);
        }
        (pause as u64).min(LONGEST_PAUSE)
    }

    /// Ends a stretch because who reads is too far behind: how long to pause, ns.
    pub fn pause_for_reader(&mut self, now: u64, events: u64) -> u64 {
        (self.began, self.events, self.window) = (now, events, WINDOW);
        LONGEST_PAUSE
    }

    /// CPU time that reading an event takes, ns.
    fn reading(&mut self, events: u64, read: u64) -> f64 {
        match self.read {
            Some((since, before)) => {
                read.saturating_sub(before) as f64 / (events - since).max(BEGINNING) as f64
            }
            None => {
                self.read = (events >= BEGINNING).then_some((events, read));
                0.0
            }
        }
    }

    /// A pause is over: the next stretch begins at `now`, ns.
    pub fn goes_on(&mut self, now: u64, events: u64) {
        (self.pause, self.began, self.events) = (None, now, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_costs_little_is_recorded_all_the_time() {
        let mut b = Budget::new(0.05, S);
        assert!(!b.is_over(S + WINDOW - 1) && b.is_over(S + WINDOW));
        // 1,000 events in 0.1 s are 2.5 ms of CPU time a second; the target uses a CPU.
        assert_eq!(b.pause_for(S + WINDOW, 1000, WINDOW, 0), 0);
    }

    #[test]
    fn what_costs_four_times_its_budget_is_recorded_a_quarter_of_the_time() {
        let mut b = Budget::new(0.05, 0);
        // 800,000 events a second take a fifth of a CPU.
        let pause = b.pause_for(WINDOW, 80_000, WINDOW, 0);
        assert!(pause.abs_diff(3 * WINDOW) <= 1, "{pause}");
        b.pause = Some((WINDOW, WINDOW + pause));
        assert!(!b.is_over(10 * S));
        b.goes_on(4 * WINDOW, 80_000);
        assert_eq!((b.left(4 * WINDOW), b.left(5 * WINDOW)), (WINDOW, 0));
        assert!(!b.is_over(5 * WINDOW - 1) && b.is_over(5 * WINDOW));
    }

    #[test]
    fn a_burst_takes_what_was_saved_before_it() {
        let mut b = Budget::new(0.05, 0);
        // A minute in which nothing happens saves 10 s of a twentieth of a CPU: two million events.
        for n in 1..=600 {
            assert_eq!(b.pause_for(n * WINDOW, 0, n * WINDOW, 0), 0);
        }
        let mut events = 0;
        let burst = (601..700).find(|n| {
            events += 80_000;
            b.pause_for(n * WINDOW, events, n * WINDOW, 0) > 0
        });
        // 800,000 events a second take a fifth of a CPU, three quarters of that from what was saved: 3.3 s.
        assert_eq!(burst, Some(634));
        let pause = b.pause_for(701 * WINDOW, events + 80_000 * 67, 701 * WINDOW, 0);
        assert!(pause > 0, "what is used up is used up");
    }

    #[test]
    fn a_pause_ends_in_time_for_a_reader_and_its_stretches_get_shorter() {
        let mut b = Budget::new(0.01, 0);
        assert_eq!(b.pause_for(WINDOW, 80_000, WINDOW, 0), LONGEST_PAUSE);
        b.goes_on(S, 80_000);
        assert!(b.window < WINDOW && b.window >= SHORTEST_WINDOW, "{}", b.window);
        // A target that uses no CPU time at all; what costs next to nothing is recorded all the same.
        assert_eq!(b.pause_for(2 * S, 180_000, 0, 0), LONGEST_PAUSE);
        assert_eq!(b.window, SHORTEST_WINDOW);
        b.goes_on(3 * S, 180_000);
        assert_eq!(b.pause_for(3 * S + WINDOW, 180_900, 0, 0), 0);
    }

    #[test]
    fn without_a_budget_it_pauses_for_a_reader_that_stays_behind_alone() {
        let mut b = Budget::new(f64::INFINITY, 0);
        assert_eq!(b.pause_for(WINDOW, 1_000_000, 0, 0), 0, "whatever it costs");
        assert_eq!(b.pause_for_reader(2 * WINDOW, 2_000_000), LONGEST_PAUSE);
        b.goes_on(S, 2_000_000);
        assert!(b.is_over(S + WINDOW));
    }

    #[test]
    fn what_reading_takes_is_a_cost_of_events() {
        let mut b = Budget::new(0.05, 0);
        // A reader's first second is no cost of an event; these take all that they may.
        assert_eq!(b.pause_for(WINDOW, 20_000, WINDOW, S), 0);
        // 100,000 events a second, each 250 ns and 750 ns of its reader, are a tenth of a CPU.
        let pause = b.pause_for(2 * WINDOW, 30_000, 2 * WINDOW, S + 7_500_000);
        assert!(pause.abs_diff(WINDOW) <= 1, "{pause}");
    }
}
