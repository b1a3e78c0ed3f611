// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When operations of an open loop are due: a schedule that does not care
//! whether the operations before are done.

use crate::clock::Clock;
use crate::job::{Arrivals, Job};
use plumb_stats::random::Mt19937;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The times at which one worker's operations are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Mean distance, ns.
    interval: f64,
    /// ns from the run's beginning.
    next: f64,
    random: Option<Mt19937>,
    sessions: Option<Sessions>,
}

/// Connections that come at the schedule's times, each with requests in bursts.
///
/// Source: httperf's --wsess and --burst-length.
#[derive(Debug, Clone)]
struct Sessions {
    /// Requests of each.
    each: u64,
    burst: u64,
    /// Between two bursts, ns.
    pause: f64,
    /// Sessions so far.
    begun: u64,
    /// Requests that come: (when, of which session, its how many-th).
    comes: BinaryHeap<Reverse<(u64, u64, u64)>>,
}

impl Schedule {
    /// The schedule of worker `worker` of `workers`; `None` in a closed loop.
    ///
    /// Constant arrivals of several workers interleave, so that together they
    /// come at equal distances.
    pub fn of(job: &Job, worker: u32, workers: u32) -> Option<Self> {
        let rate = job.rate?.0;
        let sessions = (job.burst > 0).then(|| Sessions {
            each: job.per_connection,
            burst: job.burst,
            pause: job.think.0 as f64,
            begun: 0,
            comes: BinaryHeap::new(),
        });
        // The rate is of requests; what the distances are of are sessions.
        let each = if sessions.is_some() { job.per_connection as f64 } else { 1.0 };
        let interval = each * 1e9 * f64::from(workers) / rate;
        // Apart from the seed of the places, so that both are independent.
        let random = (job.arrivals == Arrivals::Poisson)
            .then(|| Mt19937::new(job.seed.wrapping_add(worker).wrapping_mul(0x9e37_79b9).wrapping_add(1)));
        let next = if random.is_some() { 0.0 } else { interval * f64::from(worker) / f64::from(workers) };
        let mut schedule = Schedule { interval, next, random, sessions };
        if schedule.random.is_some() {
            schedule.advance();
        }
        Some(schedule)
    }

    /// When the next operation is due, ns from the run's beginning.
    #[inline]
    pub fn due(&self) -> u64 {
        match self.sessions.as_ref().and_then(|s| s.comes.peek()) {
            Some(Reverse((due, ..))) => (*due).min(self.next as u64),
            None => self.next as u64,
        }
    }

    /// The session of the request that is due next; None: there are no sessions.
    #[inline]
    pub fn session(&self) -> Option<u64> {
        let sessions = self.sessions.as_ref()?;
        match sessions.comes.peek() {
            Some(Reverse((due, number, _))) if *due <= self.next as u64 => Some(*number),
            _ => Some(sessions.begun),
        }
    }

    /// Goes on to the operation behind it.
    #[inline]
    pub fn step(&mut self) {
        let new = self.next as u64;
        let Some(sessions) = &mut self.sessions else { return self.advance() };
        let comes = match sessions.comes.peek() {
            Some(Reverse((due, ..))) if *due <= new => sessions.comes.pop(),
            _ => None,
        };
        let (due, number, made) = match comes {
            Some(Reverse((due, number, made))) => (due, number, made + 1),
            None => {
                sessions.begun += 1;
                (new, sessions.begun - 1, 1)
            }
        };
        if made < sessions.each {
            let pause = if made % sessions.burst == 0 { sessions.pause as u64 } else { 0 };
            sessions.comes.push(Reverse((due + pause, number, made)));
        }
        if comes.is_none() {
            self.advance();
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.next += match &mut self.random {
            None => self.interval,
            // 1 - u is never 0, so the logarithm is finite.
            Some(random) => -(1.0 - random.unit()).ln() * self.interval,
        };
    }
}

/// Waits until `due` on `clock`; returns the time read last. Sleeps all but
/// the end, which a sleep would miss.
#[inline]
pub fn wait_until(clock: &Clock, due: u64) -> u64 {
    /// A sleep ends about so much late (timer slack is set to 1 ns); the rest is spent reading the clock.
    const SPIN: u64 = 20_000;
    loop {
        let now = clock.now();
        if now >= due {
            return now;
        }
        let left = due - now;
        if left > SPIN {
            sleep(left - SPIN);
        }
    }
}

/// Sleeps for `ns`; a signal may end it early.
pub fn sleep(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the time is ours; what is left is not asked for.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Rate;

    #[test]
    fn constant_arrivals_of_two_workers_interleave() {
        let job = Job { rate: Some(Rate(1000.0)), threads: 2, ..Job::default() };
        let mut due = Vec::new();
        for worker in 0..2 {
            let mut s = Schedule::of(&job, worker, 2).expect("open");
            for _ in 0..3 {
                due.push(s.due());
                s.step();
            }
        }
        due.sort_unstable();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let job = Job { rate: Some(Rate(1000.0)), arrivals: Arrivals::Poisson, ..Job::default() };
        let mut s = Schedule::of(&job, 0, 1).expect("open");
        let (mut last, mut sum, mut squares) = (0.0, 0.0, 0.0);
        const N: usize = 20_000;
        for _ in 0..N {
            let gap = s.next - last;
            last = s.next;
            sum += gap;
            squares += gap * gap;
            s.step();
        }
        let mean = sum / N as f64;
        let deviation = (squares / N as f64 - mean * mean).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.05, "deviation {deviation}");
    }

    #[test]
    fn sessions_come_at_their_rate_with_their_bursts() {
        // 600 requests/s in sessions of 6 are 100 sessions/s.
        let mut job = Job { rate: Some(Rate(600.0)), per_connection: 6, burst: 2, ..Job::default() };
        job.think.0 = 25_000_000;
        let mut s = Schedule::of(&job, 0, 1).expect("open");
        let mut due = Vec::new();
        while s.due() < 1_000_000_000 {
            due.push((s.session().expect("sessions"), s.due() / 1_000_000));
            s.step();
        }
        assert!(due.is_sorted_by_key(|d| d.1));
        let of = |number| due.iter().filter(|d| d.0 == number).map(|d| d.1).collect::<Vec<_>>();
        for number in 0..90 {
            let at = number * 10;
            assert_eq!(of(number), [at, at, at + 25, at + 25, at + 50, at + 50], "session {number}");
        }
        assert_eq!(of(99), [990, 990]);
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        assert!(Schedule::of(&Job::default(), 0, 1).is_none());
    }
}
