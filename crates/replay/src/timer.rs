// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs whose end a timer decides: the command's first thread sleeps on timers for most of its time while other threads work.
//!
//! Data flows: intervals -> the first thread's sleeps on timers, its waits for other threads followed -> which threads worked meanwhile.

use crate::seen::{Interval, Seen};
use plumb_model::{Cause, ThreadState};
use std::collections::HashSet;

/// So far a wait for a thread that waits for another one is followed.
const HOPS: u32 = 8;
/// So many times the number of all intervals is looked at: many threads may wait for one at the same time.
const LOOKS: usize = 16;

/// Sleeps on timers of a command's first thread; a wait for a thread of the target counts as what that thread did meanwhile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timers {
    /// Share of its time.
    pub share: f64,
    /// It did little else, and others worked meanwhile.
    pub others: Option<Others>,
}

/// Those who work while the first thread sleeps on timers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Others {
    pub threads: HashSet<u32>,
    /// When the last of the sleeps ended: what comes behind it is the end of the run.
    pub until: u64,
    /// One sleep is most of them; else the thread polls, and it is not known for what.
    pub once: bool,
}

/// Of the first thread of a command, and of all threads of the target.
pub fn of(seen: &Seen, first: u32, target: &HashSet<u32>) -> Timers {
    let mut looks = Looks { seen, target, left: LOOKS * seen.threads.values().map(Vec::len).sum::<usize>() };
    let (slept, life) = looks.sleeps(first);
    let sum = total(&slept);
    let mut timers = Timers { share: sum as f64 / life.max(1) as f64, others: None };
    let Some((_, until)) = slept.last().copied().filter(|_| 2 * sum > life) else { return timers };
    let mut threads: Vec<u32> = target.iter().copied().filter(|tid| *tid != first && *tid != 0).collect();
    threads.sort_unstable();
    threads.retain(|tid| {
        let (slept, life) = looks.sleeps(*tid);
        life > 0 && 2 * total(&slept) <= life
    });
    let active = |i: &&Interval| match (i.state, i.cause) {
        (ThreadState::Running | ThreadState::Runnable, _) => true,
        // A thread of the target counts by itself.
        (ThreadState::Sleeping, Cause::Thread(by)) => !target.contains(&by),
        (ThreadState::Sleeping, cause) => i.throttled || matches!(cause, Cause::Request(_)),
        (ThreadState::Lost, _) => false,
    };
    let of = |tid: &u32| seen.threads.get(tid).into_iter().flatten().filter(active).map(|i| (i.start, i.end));
    let worked = merged(threads.iter().flat_map(of).collect());
    if 2 * common(&slept, &worked) > sum {
        let longest = slept.iter().map(|(start, end)| end - start).max().unwrap_or(0);
        let threads = threads.into_iter().collect();
        timers.others = Some(Others { threads, until, once: 2 * longest > sum });
    }
    timers
}

struct Looks<'a> {
    seen: &'a Seen,
    target: &'a HashSet<u32>,
    left: usize,
}

impl Looks<'_> {
    /// A thread's sleeps on timers, in the order of time, and how long it lived.
    fn sleeps(&mut self, tid: u32) -> (Vec<(u64, u64)>, u64) {
        let intervals = self.seen.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
            return Default::default();
        };
        let mut slept = Vec::new();
        self.within(tid, (first.start, last.end), HOPS, &mut slept);
        (slept, last.end - first.start)
    }

    fn within(&mut self, tid: u32, (from, to): (u64, u64), hops: u32, slept: &mut Vec<(u64, u64)>) {
        let intervals = self.seen.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let begin = intervals.partition_point(|i| i.end <= from);
        for i in intervals[begin..].iter().take_while(|i| i.start < to) {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let part = (i.start.max(from), i.end.min(to));
            match i.cause {
                // Dirty pages are waited for in sleeps on timers.
                _ if i.state != ThreadState::Sleeping || i.throttled => {}
                Cause::Timer => slept.push(part),
                Cause::Thread(by) if by != tid && hops > 0 && self.target.contains(&by) => {
                    self.within(by, part, hops - 1, slept);
                }
                _ => {}
            }
        }
    }
}

fn total(spans: &[(u64, u64)]) -> u64 {
    spans.iter().map(|(start, end)| end - start).sum()
}

/// Without what overlaps.
fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (start, end) in spans {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Time that is in both.
fn common(a: &[(u64, u64)], b: &[(u64, u64)]) -> u64 {
    let (mut sum, mut n) = (0, 0);
    for (start, end) in a {
        while n < b.len() && b[n].1 <= *start {
            n += 1;
        }
        let within = b[n..].iter().take_while(|(from, _)| from < end);
        sum += within.map(|(from, to)| to.min(end) - from.max(start)).sum::<u64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u32 = 1;
    const WORKER: u32 = 2;
    const SLEEPER: u32 = 3;

    fn slept(start: u64, end: u64, cause: Cause) -> Interval {
        Interval { start, end, state: ThreadState::Sleeping, cause, throttled: false }
    }

    fn ran(start: u64, end: u64) -> Interval {
        Interval { start, end, state: ThreadState::Running, cause: Cause::Unknown, throttled: false }
    }

    fn timers(first: &[Interval], worker: &[Interval], sleeper: &[Interval]) -> Timers {
        let mut seen = Seen::default();
        for (tid, intervals) in [(FIRST, first), (WORKER, worker), (SLEEPER, sleeper)] {
            seen.threads.insert(tid, intervals.to_vec());
        }
        of(&seen, FIRST, &[FIRST, WORKER, SLEEPER].into())
    }

    #[test]
    fn a_timer_ends_the_work_of_others() {
        let first = [ran(0, 10), slept(10, 100, Cause::Timer), slept(100, 105, Cause::Thread(WORKER))];
        let worker = [slept(10, 60, Cause::Request(1)), ran(60, 105)];
        let others = timers(&first, &worker, &[]).others.expect("the worker works meanwhile");
        assert_eq!(others, Others { threads: [WORKER].into(), until: 100, once: true });
        // So it is if it waits for a process that sleeps: of itself that one does nothing.
        let first = [ran(0, 10), slept(10, 100, Cause::Thread(SLEEPER)), ran(100, 102)];
        let sleeper = [ran(10, 11), slept(11, 99, Cause::Timer), ran(99, 100)];
        let told = timers(&first, &worker, &sleeper);
        assert_eq!(told.others, Some(Others { threads: [WORKER].into(), until: 99, once: true }));
    }

    #[test]
    fn who_polls_is_not_known_to_wait_for_time() {
        let mut first = vec![ran(0, 10)];
        for at in (10..100).step_by(10) {
            first.extend([slept(at, at + 9, Cause::Timer), ran(at + 9, at + 10)]);
        }
        let others = timers(&first, &[ran(10, 100)], &[]).others.expect("the worker works meanwhile");
        assert!(!others.once && others.until == 99, "{others:?}");
    }

    #[test]
    fn pauses_between_works_end_nothing() {
        let first = [
            slept(0, 40, Cause::Timer),
            slept(40, 50, Cause::Thread(WORKER)),
            slept(50, 90, Cause::Timer),
            slept(90, 100, Cause::Thread(WORKER)),
        ];
        let worker = [slept(0, 40, Cause::Unknown), ran(40, 50), slept(50, 90, Cause::Unknown), ran(90, 100)];
        let told = timers(&first, &worker, &[]);
        assert_eq!((told.share, told.others), (0.8, None));
        // Nor do those of a load that keeps a rate, whose first thread waits for it.
        let paced = [ran(0, 5), slept(5, 50, Cause::Timer), ran(50, 55), slept(55, 100, Cause::Timer)];
        let told = timers(&[ran(0, 5), slept(5, 100, Cause::Thread(SLEEPER))], &[], &paced);
        assert_eq!((told.share, told.others), (0.9, None));
    }

    #[test]
    fn a_throttled_writer_waits_for_the_disk() {
        let mut writes = slept(10, 100, Cause::Timer);
        writes.throttled = true;
        assert_eq!(timers(&[ran(0, 10), writes], &[ran(0, 100)], &[]), Timers::default());
    }
}
