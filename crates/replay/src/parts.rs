// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts: lives of threads, and what workers of the kernel did each time that they had something to do.

use crate::seen::{Interval, Records, Seen};
use plumb_model::{Below, Cause, ThreadState};
use std::collections::{HashMap, HashSet};

/// So far back who woke whom is followed.
const HOPS: u32 = 8;
/// So many shorter sleeps are passed over.
const SHORT: u32 = 16;
/// So many times who serves a disk is looked for: who serves those who serve.
const ROUNDS: u32 = 16;

/// What a thread does at a moment, on a CPU.
#[derive(Debug, Clone, Copy)]
pub enum Does {
    Ask(u32),
    Tell(u32),
    /// It asks for a request, and waits for it.
    Sync(u32),
}

/// A thread's life, or what a worker of the kernel did from one idle sleep to the next: what it does then has nothing to do
/// with what it did before.
#[derive(Debug)]
pub struct Part<'a> {
    pub tid: u32,
    pub intervals: &'a [Interval],
    /// Of each interval the last sleep until then that was not for a request.
    slept: Vec<Option<u32>>,
    /// Of each interval the last sleep until then that nobody ended.
    passed: Vec<Option<u32>>,
    /// The idle sleep that was before it.
    pub idle: Option<Interval>,
    /// Who made the thread, and when, where that was seen.
    born: Option<(u32, u64)>,
    /// Its first interval begins after the recording did.
    late: bool,
    pub does: Vec<(u64, Does)>,
    /// It takes no part: it serves a disk that another one replaces.
    pub out: bool,
}

impl Part<'_> {
    /// Whether it was there, and unseen, before its first interval: nobody is known to have made it or to have let it go on.
    pub fn comes_late(&self) -> bool {
        self.late && self.idle.is_none() && self.born.is_none()
    }

    pub fn start(&self) -> u64 {
        self.intervals[0].start
    }

    fn end(&self) -> u64 {
        self.intervals[self.intervals.len() - 1].end
    }

    /// The end of its last sleep for time, or of what was before the recording saw it, until a moment, that took longer than a wait: who
    /// waited did not wait for that.
    fn passed(&self, at: u64, wait: u64, begin: u64) -> Option<u64> {
        let mut before = self.intervals.partition_point(|i| i.end <= at);
        for _ in 0..SHORT {
            let Some(n) = before.checked_sub(1).and_then(|n| self.passed[n]) else { break };
            let slept = &self.intervals[n as usize];
            if slept.end - slept.start > wait {
                return Some(slept.end);
            }
            before = n as usize;
        }
        let unseen = self.comes_late() && self.start() <= at && self.start() - begin > wait;
        unseen.then(|| self.start())
    }

    /// What let it do what it does at a moment: what ended its last sleep until then that was not for a request, or who made it. With when.
    fn let_go(&self, at: u64) -> Option<(Cause, u64)> {
        let before = self.intervals.partition_point(|i| i.end <= at);
        let slept = before.checked_sub(1).and_then(|n| self.slept[n]).map(|n| self.intervals[n as usize]);
        let born = || self.born.map(|(by, at)| (Cause::Thread(by), at));
        slept.or(self.idle).map(|i| (i.cause, i.end)).or_else(born)
    }
}

/// All parts, in the order of threads and of time.
pub struct Parts<'a> {
    pub all: Vec<Part<'a>>,
    of: HashMap<u32, std::ops::Range<usize>>,
    /// When the recording began.
    begin: u64,
}

impl<'a> Parts<'a> {
    pub fn of(seen: &'a Seen, records: &Records) -> Self {
        let mut parts = Self { all: Vec::new(), of: HashMap::new(), begin: seen.begin() };
        let mut births: HashMap<u32, Vec<(u32, u64)>> = HashMap::new();
        for (child, parent, at) in &records.forks {
            births.entry(*child).or_default().push((*parent, *at));
        }
        for (tid, intervals) in &seen.threads {
            let first = parts.all.len();
            let mut from = 0;
            let (mut idle, mut born) = (None, None);
            let mut births = births.remove(tid).unwrap_or_default().into_iter().peekable();
            for (n, i) in intervals.iter().enumerate() {
                if let Some(birth) = births.next_if(|(_, at)| i.start >= *at) {
                    // Its number was another thread's before.
                    parts.add(*tid, &intervals[from..n], idle, born);
                    (from, idle, born) = (n, None, Some(birth));
                }
                if i.state == ThreadState::Sleeping && records.idle.contains(&(*tid, i.start)) {
                    parts.add(*tid, &intervals[from..n], idle, born);
                    (from, idle, born) = (n + 1, Some(*i), None);
                }
            }
            parts.add(*tid, &intervals[from..], idle, born);
            parts.of.insert(*tid, first..parts.all.len());
        }
        parts
    }

    fn add(&mut self, tid: u32, intervals: &'a [Interval], idle: Option<Interval>, born: Option<(u32, u64)>) {
        if !intervals.is_empty() {
            let last = |which: fn(Cause) -> bool| {
                let mut last = None;
                let at = |(n, i): (usize, &Interval)| {
                    if i.state == ThreadState::Sleeping && which(i.cause) {
                        last = Some(n as u32);
                    }
                    last
                };
                intervals.iter().enumerate().map(at).collect()
            };
            let slept = last(|cause| !matches!(cause, Cause::Request(_)));
            let passed = last(passes);
            let late = intervals[0].start > self.begin;
            self.all.push(Part {
                tid,
                intervals,
                slept,
                passed,
                idle,
                born,
                late,
                does: Vec::new(),
                out: false,
            });
        }
    }

    /// The part of a thread at a moment, or in an idle sleep the one behind it.
    pub fn at(&self, tid: u32, at: u64) -> Option<usize> {
        let range = self.of.get(&tid)?.clone();
        let place = self.all[range.clone()].partition_point(|p| p.end() < at);
        (!range.is_empty()).then(|| range.start + place.min(range.len() - 1))
    }

    /// The same, if it takes part.
    pub fn within(&self, tid: u32, at: u64) -> Option<usize> {
        self.at(tid, at).filter(|p| !self.all[*p].out)
    }

    /// Sleeps for time, of a part that at a moment lets `tid` go on from a sleep and of those who let it go on, that were over when that sleep began: who
    /// slept did not wait for them. A worker of the kernel that had begun for somebody else was in the way by chance too. Each with its end.
    pub fn over(&self, part: usize, mut at: u64, tid: u32, sleep: &Interval) -> Vec<(usize, u64)> {
        let mut over = Vec::new();
        let third = |idle: &Interval| idle.cause != Cause::Thread(tid) && idle.end < sleep.start;
        over.extend(self.all[part].idle.filter(third).map(|idle| (part, idle.end)));
        let mut part = part;
        for _ in 0..HOPS {
            let this = &self.all[part];
            match this.passed(at, sleep.end - sleep.start, self.begin) {
                // The wait was for that time, as that for a served disk is.
                Some(end) if end >= sleep.start => return Vec::new(),
                passed => over.extend(passed.map(|end| (part, end))),
            }
            let Some((Cause::Thread(by), since)) = this.let_go(at) else { break };
            let Some(next) = self.at(by, since).filter(|_| by != tid) else { break };
            (part, at) = (next, since);
        }
        over
    }

    /// Leaves out what is there only to serve a disk: processes that completed its requests, threads that such wake above all, and workers
    /// that wake or wait for such.
    pub fn leave_out(&mut self, dev: u32, seen: &Seen, records: &Records, targets: &HashSet<u32>) {
        let mut processes: HashSet<u32> = HashSet::new();
        for d in seen.done.iter().filter(|d| d.request.dev == dev) {
            if let Below::Thread(tid) = d.request.below {
                if let Some(part) = self.at(tid, d.request.c) {
                    self.all[part].out = true;
                }
                processes.extend(records.processes.get(&tid));
            }
        }
        for part in self.all.iter_mut().filter(|p| !targets.contains(&p.tid)) {
            part.out |= records.processes.get(&part.tid).is_some_and(|process| processes.contains(process));
        }
        let sleeps = |p: &Part<'_>| {
            let sleeps = p.intervals.iter().filter(|i| i.state == ThreadState::Sleeping);
            sleeps
                .filter_map(|i| if let Cause::Thread(by) = i.cause { Some((by, i.end)) } else { None })
                .collect()
        };
        let wakes: Vec<Vec<(u32, u64)>> = self.all.iter().map(sleeps).collect();
        for _ in 0..ROUNDS {
            let mut out: Vec<usize> = Vec::new();
            for (n, part) in self.all.iter().enumerate() {
                let by = |(tid, at): &(u32, u64)| self.at(*tid, *at);
                let served = wakes[n].iter().filter(|w| by(w).is_some_and(|by| self.all[by].out)).count();
                let worker = part.idle.is_some();
                let enough = if worker { served > 0 } else { 2 * served > wakes[n].len() };
                if !part.out && enough && !targets.contains(&part.tid) {
                    out.push(n);
                }
                if part.out && !worker {
                    // Workers that hand a request to a server.
                    let hands = wakes[n].iter().filter_map(by);
                    out.extend(hands.filter(|by| !self.all[*by].out && self.all[*by].idle.is_some()));
                }
            }
            if out.is_empty() {
                return;
            }
            out.iter().for_each(|n| self.all[*n].out = true);
        }
    }
}

/// Whether nobody ended a sleep: time had passed, or it is not known what happened.
fn passes(cause: Cause) -> bool {
    !matches!(cause, Cause::Thread(_) | Cause::Request(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPER: u32 = 1;
    const WAKER: u32 = 2;
    const OTHER: u32 = 3;

    fn slept(start: u64, end: u64, cause: Cause) -> Interval {
        Interval { start, end, state: ThreadState::Sleeping, cause, throttled: false }
    }

    fn ran(start: u64, end: u64) -> Interval {
        Interval { start, end, state: ThreadState::Running, cause: Cause::Unknown, throttled: false }
    }

    /// What was over when the sleeper went to sleep at 100, which the waker ended at 120.
    fn over(waker: &[Interval], other: &[Interval], records: &Records) -> Vec<(u32, u64)> {
        let mut seen = Seen::default();
        let sleep = slept(100, 120, Cause::Thread(WAKER));
        seen.threads.insert(SLEEPER, vec![ran(0, 100), sleep, ran(120, 130)]);
        seen.threads.insert(WAKER, waker.to_vec());
        seen.threads.insert(OTHER, other.to_vec());
        let parts = Parts::of(&seen, records);
        let by = parts.within(WAKER, 120).expect("a part");
        let over = parts.over(by, 120, SLEEPER, &sleep);
        over.into_iter().map(|(part, end)| (parts.all[part].tid, end)).collect()
    }

    #[test]
    fn sleeps_for_time_that_were_over_do_not_bind() {
        let none = Records::default();
        let timer = [slept(0, 90, Cause::Timer), ran(90, 125)];
        assert_eq!(over(&timer, &[], &none), [(WAKER, 90)]);
        let later = [slept(0, 110, Cause::Timer), ran(110, 125)];
        assert!(over(&later, &[], &none).is_empty(), "the sleeper waited for that time");
        // It was there before it was seen.
        assert_eq!(over(&[ran(40, 125)], &[], &none), [(WAKER, 40)]);
        assert!(over(&[ran(0, 125)], &[], &none).is_empty(), "it has done nothing that could be over");
        // It also waited for the sleeper itself since.
        let lock = [slept(0, 80, Cause::Timer), slept(80, 95, Cause::Thread(SLEEPER)), ran(95, 125)];
        assert_eq!(over(&lock, &[], &none), [(WAKER, 80)]);
    }

    #[test]
    fn so_it_is_with_those_who_let_the_waker_go_on() {
        let born = Records { forks: vec![(WAKER, OTHER, 85)], ..Records::default() };
        let timer = [slept(0, 70, Cause::Timer), ran(70, 125)];
        assert_eq!(over(&[ran(86, 125)], &timer, &born), [(OTHER, 70)], "who made it had woken up by time");
        let woken = [slept(0, 75, Cause::Thread(OTHER)), ran(75, 125)];
        assert!(over(&woken, &timer, &Records::default()).contains(&(OTHER, 70)));
    }

    #[test]
    fn a_worker_that_began_for_another_is_in_the_way_by_chance() {
        let idle = |cause| {
            let records = Records { idle: [(WAKER, 10)].into(), ..Records::default() };
            over(&[ran(0, 10), slept(10, 60, cause), ran(60, 125)], &[], &records)
        };
        assert!(idle(Cause::Thread(OTHER)).contains(&(WAKER, 60)));
        assert!(idle(Cause::Timer).contains(&(WAKER, 60)));

        assert!(idle(Cause::Thread(SLEEPER)).is_empty());
    }
}
