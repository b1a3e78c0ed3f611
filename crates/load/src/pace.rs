// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When operations of an open loop are due: a schedule that does not care
//! whether the operations before are done.

use crate::clock::Clock;
use crate::job::{Arrivals, Job};
use plumb_stats::random::Mt19937;

/// The times at which one worker's operations are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Mean distance, ns.
    interval: f64,
    /// ns from the run's beginning.
    next: f64,
    random: Option<Mt19937>,
}

impl Schedule {
    /// The schedule of worker `worker` of `workers`; `None` in a closed loop.
    ///
    /// Constant arrivals of several workers interleave, so that together they
    /// come at equal distances.
    pub fn of(job: &Job, worker: u32, workers: u32) -> Option<Self> {
        let rate = job.rate?.0;
        let interval = 1e9 * f64::from(workers) / rate;
        // Apart from the seed of the places, so that both are independent.
        let random = (job.arrivals == Arrivals::Poisson)
            .then(|| Mt19937::new(job.seed.wrapping_add(worker).wrapping_mul(0x9e37_79b9).wrapping_add(1)));
        let next = if random.is_some() { 0.0 } else { interval * f64::from(worker) / f64::from(workers) };
        let mut schedule = Schedule { interval, next, random };
        if schedule.random.is_some() {
            schedule.step();
        }
        Some(schedule)
    }

    /// When the next operation is due, ns from the run's beginning.
    #[inline]
    pub fn due(&self) -> u64 {
        self.next as u64
    }

    /// Goes on to the operation behind it.
    #[inline]
    pub fn step(&mut self) {
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
    fn a_closed_loop_has_no_schedule() {
        assert!(Schedule::of(&Job::default(), 0, 1).is_none());
    }
}
