// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When background I/O is limited, and to what. Pure: times come in, a decision goes out.
//!
//! The rules are the third and, by a rate, the second of Takamura, Ugawa, Iwasaki ("Deadline I/O scheduler with low
//! priority"): during foreground I/O background I/O is limited. After an idle period of foreground I/O it is
//! unlimited. With a target the limit is steered: multiplicative decrease, slow increase.

use crate::rate::Rate;
use serde::Serialize;

/// A request that has been in flight for so long hangs, and is no reason to hold anybody back; ns.
const HANGS: u64 = 60_000_000_000;
/// The steering decides after so many requests concurrently with background requests, or after so long (ns).
const WINDOW_REQUESTS: u64 = 128;
const WINDOW_TIME: u64 = 1_000_000_000;
/// It narrows no sooner than the kernel's throttling (slices of 100 ms) has answered to what was set before, ns.
const ANSWERS: u64 = 200_000_000;
/// Fewer tell nothing about a hundredth.
const WINDOW_ENOUGH: u64 = 16;
/// One in so many may be late: p99.
const LATE_ONE_IN: u64 = 100;
/// A steered limit gets at most so many times as wide as it was given.
const WIDEST: u64 = 64;

/// How background I/O stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Limited,
    /// As if nobody governed it.
    Free,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The limit; with a target the narrowest.
    pub limit: Rate,
    /// Idle period of foreground I/O after which background I/O is unlimited, ns.
    pub delay: u64,
    /// The limit is steered, so that foreground requests' p99 device service time stays below a target.
    pub steered: bool,
}

/// What was seen of a disk. Counts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// When a foreground request came, was sent or was done last, ns; 0: never.
    pub normal_last: u64,
    /// The device has foreground requests.
    pub normal_in_flight: bool,
    /// Foreground requests without and with a background request concurrent with them.
    pub requests: [u64; 2],
    /// Those of them that took longer than the target.
    pub late: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Background I/O is to be limited to this.
    Limit(Rate),
    /// Background I/O is to be unlimited.
    Free,
}

/// The state of one disk.
#[derive(Debug, Clone)]
pub struct Policy {
    settings: Settings,
    state: State,
    since: u64,
    /// When foreground I/O was there last; the start, if it never was.
    normal_left: u64,
    rate: Rate,
    window: Seen,
    window_began: u64,
}

impl Policy {
    /// Begins limited: nothing is known of what was before.
    pub fn new(settings: Settings, now: u64) -> Policy {
        Policy {
            settings,
            state: State::Limited,
            since: now,
            normal_left: now,
            rate: settings.limit,
            window: Seen::default(),
            window_began: now,
        }
    }

    /// How background I/O stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when, ns.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// The limit of now, also while it does not hold.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// What is to be done to begin with.
    pub fn first(&self) -> Decision {
        Decision::Limit(self.rate)
    }

    /// Takes what was seen; says what is to change.
    pub fn step(&mut self, now: u64, seen: &Seen) -> Option<Decision> {
        // What happened while we looked lies a little behind `now`.
        let last = seen.normal_last.min(now);
        let there = seen.normal_in_flight && now - last < HANGS;
        self.normal_left = self.normal_left.max(if there { now } else { last });
        let quiet = now - self.normal_left.min(now) >= self.settings.delay && !there;
        match (self.state, quiet) {
            (State::Limited, true) => {
                (self.state, self.since) = (State::Free, now);
                Some(Decision::Free)
            }
            (State::Free, false) => {
                (self.state, self.since) = (State::Limited, now);
                // Background requests that were sent while unlimited are not the limit's.
                (self.window, self.window_began) = (*seen, now);
                Some(Decision::Limit(self.rate))
            }
            (State::Limited, false) => self.steer(now, seen),
            (State::Free, true) => None,
        }
    }

    /// When background I/O becomes unlimited if no foreground I/O comes, ns; None while it is.
    pub fn frees_at(&self) -> Option<u64> {
        (self.state == State::Limited).then(|| self.normal_left.saturating_add(self.settings.delay))
    }

    fn steer(&mut self, now: u64, seen: &Seen) -> Option<Decision> {
        let of = |new: [u64; 2], old: [u64; 2]| [0, 1].map(|i| new[i].saturating_sub(old[i]));
        let [alone, beside] = of(seen.requests, self.window.requests);
        let waited = now - self.window_began.min(now);
        let over = waited >= WINDOW_TIME;
        if !self.settings.steered || !(over || (beside >= WINDOW_REQUESTS && waited >= ANSWERS)) {
            return None;
        }
        let [alone_late, beside_late] = of(seen.late, self.window.late);
        let to_blame = beside >= WINDOW_ENOUGH
            && beside_late * LATE_ONE_IN > beside
            && (alone == 0 || beside_late * alone > 2 * alone_late * beside);
        // To narrow is urgent; to widen is not.
        if !over && !to_blame {
            return None;
        }
        (self.window, self.window_began) = (*seen, now);
        let limit = self.settings.limit;
        let rate = if to_blame {
            let half = self.rate.map(|n| n / 2);
            Rate {
                bytes: at_least(half.bytes, limit.bytes),
                requests: at_least(half.requests, limit.requests),
            }
        } else if beside_late > 0 && beside < WINDOW_ENOUGH {
            // Too few to tell whose fault it is; no reason to give more either.
            self.rate
        } else if beside > 0 {
            self.rate.map(|n| n.saturating_add((n / 8).max(1))).least(limit.map(|n| n.saturating_mul(WIDEST)))
        } else {
            // Nothing was tried.
            self.rate
        };
        let changed = rate != self.rate;
        self.rate = rate;
        changed.then_some(Decision::Limit(rate))
    }
}

fn at_least(a: Option<u64>, least: Option<u64>) -> Option<u64> {
    a.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn settings(steered: bool) -> Settings {
        Settings { limit: Rate { bytes: Some(1000), requests: Some(8) }, delay: 5 * S, steered }
    }

    fn at(normal_last: u64) -> Seen {
        Seen { normal_last, ..Seen::default() }
    }

    #[test]
    fn it_is_free_when_nothing_normal_was_there_for_the_delay_and_not_before() {
        let mut p = Policy::new(settings(false), S);
        assert_eq!(p.step(5 * S, &at(0)), None);
        assert_eq!(p.frees_at(), Some(6 * S));
        assert_eq!(p.step(6 * S - 1, &at(3 * S)), None, "a normal one at 3 s");
        assert_eq!(p.frees_at(), Some(8 * S));
        assert_eq!(p.step(8 * S - 1, &at(3 * S)), None);
        assert_eq!(p.step(8 * S, &at(3 * S)), Some(Decision::Free));
        assert_eq!((p.state(), p.since(), p.frees_at()), (State::Free, 8 * S, None));
        assert_eq!(p.step(100 * S, &at(3 * S)), None);
    }

    #[test]
    fn one_normal_request_brings_the_limit_back_at_once() {
        let mut p = Policy::new(settings(false), 0);
        assert_eq!(p.step(5 * S, &at(0)), Some(Decision::Free));
        let limit = Decision::Limit(settings(false).limit);
        assert_eq!(p.step(9 * S + MS, &at(9 * S)), Some(limit));
        assert_eq!(p.step(14 * S - 1, &at(9 * S)), None);
        assert_eq!(p.step(14 * S, &at(9 * S)), Some(Decision::Free));
    }

    #[test]
    fn a_normal_request_with_the_device_is_there_until_it_is_done_or_hangs() {
        let mut p = Policy::new(settings(false), 0);
        let busy = Seen { normal_last: S, normal_in_flight: true, ..Seen::default() };
        for now in [5, 20, 60] {
            assert_eq!(p.step(now * S, &busy), None, "{now} s");
        }
        assert_eq!(p.step(61 * S, &busy), None, "it hangs, and was there just before");
        assert_eq!(p.step(66 * S, &busy), Some(Decision::Free));
        assert_eq!(p.step(67 * S, &busy), None, "and is no reason any more");
        let new = Seen { normal_last: 68 * S, ..busy };
        assert!(matches!(p.step(68 * S, &new), Some(Decision::Limit(_))));
    }

    #[test]
    fn an_event_that_is_newer_than_the_look_is_no_contradiction() {
        let mut p = Policy::new(settings(false), 0);
        assert_eq!(p.step(5 * S, &at(5 * S + MS)), None);
        assert_eq!(p.frees_at(), Some(10 * S));
    }

    /// A window with so many foreground requests concurrently with background requests, of which so many were late.
    fn window(p: &mut Policy, now: &mut u64, seen: &mut Seen, beside: u64, late: u64) -> Option<Decision> {
        *now += S;
        seen.normal_last = *now;
        seen.requests[1] += beside;
        seen.late[1] += late;
        p.step(*now, seen)
    }

    #[test]
    fn late_requests_halve_the_limit_and_good_ones_widen_it_slowly() {
        let (mut now, mut seen) = (0, Seen::default());
        let mut p = Policy::new(settings(true), 0);
        for _ in 0..20 {
            assert!(window(&mut p, &mut now, &mut seen, 200, 2).is_some(), "1 in 100 may be late");
        }
        let wide = p.rate().bytes.expect("a number");
        assert!((9_000..12_000).contains(&wide), "1000 * 1.125^20: {wide}");
        assert!(window(&mut p, &mut now, &mut seen, 200, 3).is_some());
        assert_eq!(p.rate().bytes, Some(wide / 2));
        for _ in 0..10 {
            window(&mut p, &mut now, &mut seen, 200, 200);
        }
        assert_eq!(p.rate(), settings(true).limit, "never below what was given");
        for _ in 0..200 {
            window(&mut p, &mut now, &mut seen, 200, 0);
        }
        assert_eq!(p.rate(), settings(true).limit.map(|n| n * 64), "nor without end");
    }

    #[test]
    fn few_requests_or_a_slow_device_are_not_the_low_ones_fault() {
        let (mut now, mut seen) = (0, Seen::default());
        let mut p = Policy::new(settings(true), 0);
        assert_eq!(window(&mut p, &mut now, &mut seen, 0, 0), None, "nothing was tried");
        window(&mut p, &mut now, &mut seen, 200, 0);
        let before = p.rate().bytes;
        window(&mut p, &mut now, &mut seen, 15, 15);
        assert_eq!(p.rate().bytes, before, "15 tell nothing, but late ones are no reason for more");
        window(&mut p, &mut now, &mut seen, 15, 0);
        assert!(p.rate().bytes > before, "15 in time");
        let before = p.rate().bytes;
        seen.requests[0] += 100;
        seen.late[0] += 30;
        window(&mut p, &mut now, &mut seen, 200, 100);
        assert!(p.rate().bytes > before, "half late beside, a third late without: the device is slow");
        let before = p.rate().bytes;
        seen.requests[0] += 100;
        seen.late[0] += 1;
        window(&mut p, &mut now, &mut seen, 200, 100);
        assert!(p.rate().bytes < before);
    }

    #[test]
    fn many_requests_narrow_it_as_soon_as_the_throttling_answers_and_widen_it_no_sooner_than_few() {
        let mut p = Policy::new(settings(true), 0);
        let (mut now, mut seen) = (0, Seen::default());
        let mut turn = |p: &mut Policy, late: u64| {
            now += 20 * MS;
            seen.normal_last = now;
            seen.requests[1] += 1000;
            seen.late[1] += late;
            p.step(now, &seen).is_some()
        };
        let changes = (0..500).filter(|_| turn(&mut p, 0)).count();
        assert_eq!(changes, 10, "ten seconds");
        let before = p.rate().bytes.expect("a number");
        let changes = (0..10).filter(|_| turn(&mut p, 1000)).count();
        assert_eq!((changes, p.rate().bytes), (1, Some(before / 2)), "0.2 s");
    }

    #[test]
    fn without_a_target_the_limit_stays() {
        let (mut now, mut seen) = (0, Seen::default());
        let mut p = Policy::new(settings(false), 0);
        assert_eq!(window(&mut p, &mut now, &mut seen, 1000, 1000), None);
        assert_eq!(p.rate(), settings(false).limit);
    }
}
