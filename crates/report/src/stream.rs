// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run as rows, while the model reads the trace: intervals of threads and CPUs, waits, block
//! requests, samples, operations. Timeline, tables and exports are made of these and no others.
//!
//! Memory is bounded by the threads that there were: a few hundred bytes each. Times are ns from the run's begin.

use plumb_model::{Category, CpuState, Naming, Observer, Request, Slept, Spent, ThreadState, Who};
use plumb_trace::load::OperationKind;
use plumb_trace::schema::StateCpuSample;
use std::collections::HashMap;

/// A thread of the target was in one state, for one reason. Those of a thread follow each other;
/// time of interrupts on top of running lies inside, and is what `time` lacks of the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub tid: u32,
    pub pid: u32,
    /// Its name then, see [`Take::name`].
    pub name: u32,
    /// What the time went to.
    pub category: Category,
    pub who: Who,
    pub from: u64,
    pub to: u64,
    /// What of it entered the account under this category.
    pub time: u64,
    /// Number of the wait that it is a part of, 1 and up; 0 is none.
    pub wait: u64,
    /// Number of the block request that it went to, as [`RequestRow::number`]; 0 is none.
    pub request: u64,
}

/// A thread of the target slept; its intervals have this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// 1 and up, in the order of ends.
    pub number: u64,
    pub tid: u32,
    pub pid: u32,
    pub from: u64,
    pub to: u64,
    /// Number of the kernel stack on which it slept, 0 none.
    pub stack: u32,
    /// Thread that woke it; 0: an interrupt did, or nothing tells.
    pub waker: u32,
}

/// A CPU was in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuInterval {
    pub cpu: u32,
    pub state: CpuState,
    pub from: u64,
    pub to: u64,
}

/// A block request that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRow {
    /// 1 and up, in the order of completions; some numbers are not used.
    pub number: u64,
    /// Device, operation, sector, length and owner; its times are CLOCK_MONOTONIC.
    pub request: Request,
    /// Queued, slot got, flush issued, inserted, issued, complete: each at least the one before.
    pub steps: [u64; 6],
}

/// A sample of the target on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    pub at: u64,
    pub tid: u32,
    pub pid: u32,
    pub cpu: u32,
    /// Number of the kernel stack; 0 in user mode.
    pub kernel: u32,
    /// Number of the user stack; 0 where there is none.
    pub user: u32,
}

/// An operation that a workload told of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationRow {
    pub tid: u32,
    pub pid: u32,
    pub kind: OperationKind,
    pub from: u64,
    pub to: u64,
    /// Bytes moved; minus the error number where it failed.
    pub result: i64,
    /// How long after its intended time it began, us.
    pub late: u32,
}

/// Gets the rows. Each comes when it has ended, so those of different threads overlap.
pub trait Take {
    /// A thread's name got its number; comes before it is used.
    fn name(&mut self, _number: u32, _name: &str) {}
    /// A thread, of the target or not, has the name of this number from now on.
    fn known_as(&mut self, _tid: u32, _name: u32) {}
    /// See [`Interval`].
    fn interval(&mut self, _: &Interval) {}
    /// See [`Wait`]; comes before its intervals.
    fn wait(&mut self, _: &Wait) {}
    /// See [`CpuInterval`].
    fn cpu(&mut self, _: &CpuInterval) {}
    /// See [`RequestRow`].
    fn request(&mut self, _: &RequestRow) {}
    /// See [`SampleRow`].
    fn sample(&mut self, _: &SampleRow) {}
    /// See [`OperationRow`].
    fn operation(&mut self, _: &OperationRow) {}
}

/// Pieces of a thread's time that its present state has so far.
#[derive(Debug, Default)]
struct Open {
    /// A wait's may come in any order.
    pieces: Vec<Interval>,
    /// The wait that came last, and its number.
    wait: Option<(Slept, u64)>,
}

/// Whether an interval goes on in the next one.
fn goes_on(a: &Interval, b: &Interval) -> bool {
    let kind = |i: &Interval| (i.category, i.who, i.wait, i.request, i.name);
    a.to == b.from && kind(a) == kind(b)
}

/// Makes the rows: an observer of a model.
#[derive(Debug)]
pub struct Stream<T> {
    begin: u64,
    taker: T,
    waits: u64,
    open: HashMap<u32, Open>,
    /// The last interval of each thread, which may go on.
    last: HashMap<u32, Interval>,
    cpus: HashMap<u32, CpuInterval>,
}

impl<T: Take> Stream<T> {
    /// `begin`: the run's, ns CLOCK_MONOTONIC.
    pub fn new(begin: u64, taker: T) -> Self {
        let (open, last, cpus) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { begin, taker, waits: 0, open, last, cpus }
    }

    /// Who took the rows; call it when the model has finished.
    pub fn finish(self) -> T {
        self.taker
    }

    fn at(&self, ts: u64) -> u64 {
        ts.saturating_sub(self.begin)
    }

    /// Number of the wait that a piece is a part of; a new one is told.
    fn wait(&mut self, s: &Spent) -> u64 {
        let Some(wait) = s.wait else { return 0 };
        let known = self.open.get(&s.tid).and_then(|o| o.wait).filter(|(w, _)| *w == wait);
        if let Some((_, number)) = known {
            return number;
        }
        self.waits += 1;
        let Slept { start, end, stack, waker } = wait;
        let (from, to) = (self.at(start), self.at(end));
        self.taker.wait(&Wait { number: self.waits, tid: s.tid, pid: s.tgid, from, to, stack, waker });
        self.open.entry(s.tid).or_default().wait = Some((wait, self.waits));
        self.waits
    }

    /// A thread's present state is over: its pieces are, but for the last, which may go on.
    fn settle(&mut self, tid: u32) {
        let Some(open) = self.open.get_mut(&tid) else { return };
        open.pieces.sort_unstable_by_key(|i| i.from);
        for piece in open.pieces.drain(..) {
            match self.last.get_mut(&tid) {
                Some(last) if goes_on(last, &piece) => {
                    last.to = piece.to;
                    last.time += piece.time;
                }
                Some(last) => self.taker.interval(&std::mem::replace(last, piece)),
                None => drop(self.last.insert(tid, piece)),
            }
        }
    }
}

impl<T: Take> Observer for Stream<T> {
    fn thread(&mut self, tid: u32, _: u64, _: u64, _: ThreadState) {
        self.settle(tid);
    }

    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState) {
        let row = CpuInterval { cpu, state, from: self.at(start), to: self.at(end) };
        match self.cpus.get_mut(&cpu) {
            Some(last) if last.state == state && last.to == row.from => last.to = row.to,
            Some(last) => self.taker.cpu(&std::mem::replace(last, row)),
            None => drop(self.cpus.insert(cpu, row)),
        }
    }

    fn spent(&mut self, s: &Spent) {
        // Interrupts lie on top of an interval that is told beside.
        if s.category == Category::Interrupted && s.time < s.to - s.from {
            return;
        }
        let wait = self.wait(s);
        let piece = Interval {
            tid: s.tid,
            pid: s.tgid,
            name: s.name,
            category: s.category,
            who: s.who,
            from: self.at(s.from),
            to: self.at(s.to),
            time: s.time,
            wait,
            request: s.request,
        };
        let pieces = &mut self.open.entry(s.tid).or_default().pieces;
        match pieces.last_mut().filter(|last| goes_on(last, &piece)) {
            Some(last) => {
                last.to = piece.to;
                last.time += piece.time;
            }
            None => pieces.push(piece),
        }
    }

    fn sampled(&mut self, tgid: u32, target: bool, s: &StateCpuSample) {
        if target {
            let row = SampleRow {
                at: self.at(s.at),
                tid: s.thread,
                pid: tgid,
                cpu: s.cpu,
                kernel: s.kernel,
                user: s.user,
            };
            self.taker.sample(&row);
        }
    }

    fn request(&mut self, number: u64, request: &Request, counted: bool) {
        if counted {
            let steps = request.steps().map(|ts| self.at(ts));
            self.taker.request(&RequestRow { number: number + 1, request: *request, steps });
        }
    }

    fn operation(&mut self, o: &plumb_model::Operation) {
        let (from, to) = (self.at(o.begin), self.at(o.end));
        let row =
            OperationRow { tid: o.tid, pid: o.tgid, kind: o.kind, from, to, result: o.result, late: o.late };
        self.taker.operation(&row);
    }

    fn named(&mut self, number: u32, name: &str) {
        self.taker.name(number, name);
    }

    fn known_as(&mut self, tid: u32, name: u32) {
        self.taker.known_as(tid, name);
    }

    fn end(&mut self, _: &dyn Naming) {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|tid| self.settle(tid));
        let mut last: Vec<_> = self.last.drain().map(|(_, last)| last).collect();
        last.sort_unstable_by_key(|i| (i.to, i.tid));
        last.iter().for_each(|i| self.taker.interval(i));
        let mut cpus: Vec<_> = self.cpus.drain().map(|(_, last)| last).collect();
        cpus.sort_unstable_by_key(|i| (i.to, i.cpu));
        cpus.iter().for_each(|i| self.taker.cpu(i));
    }
}

#[cfg(test)]
mod tests;
