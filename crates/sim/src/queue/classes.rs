// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each class got: throughput over time, and times from queued to completed.
//!
//! Classes are compared over the time that all tasks have in common: what a held-back class still does when
//! the others have ended is not what it gets beside them.

use super::observer::Observer;
use super::requests::{Bio, Class, Request};
use super::task::{Op, Task};
use crate::device::{Ns, Operation};
use plumb_stats::histogram::{Histogram, Summary};
use serde::Serialize;

/// Classes that are told apart: the idle one, and the others.
pub const NAMES: [&str; 2] = ["normal", "idle"];

#[derive(Debug, Clone)]
pub struct ClassFigures {
    /// Pieces with data that were queued in the common time and completed at some time.
    pub count: u64,
    /// Pieces that were completed in the common time.
    pub in_time: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// From queued to completed, ns.
    pub q2c: Box<Histogram>,
    /// Operations with data that began in the common time, from their begin to their end, ns: with what a CPU worked
    /// on them.
    pub service: Box<Histogram>,
}

#[derive(Debug, Clone)]
pub struct Classes {
    of: [ClassFigures; 2],
    from: Ns,
    to: Ns,
    step: Ns,
    /// Bytes completed in each step since `from`, by class; beyond `to` too.
    steps: Vec<[u64; 2]>,
    last: Ns,
}

impl Classes {
    /// Of pieces from `from` to `to`, with a timeline in steps of `step` ns.
    pub fn new(from: Ns, to: Ns, step: Ns) -> Self {
        let none = || ClassFigures {
            count: 0,
            in_time: 0,
            bytes: 0,
            q2c: Histogram::boxed(),
            service: Histogram::boxed(),
        };
        Self { of: [none(), none()], from, to, step: step.max(1), steps: Vec::new(), last: from }
    }

    /// Of tasks: from the end of the longest ramp to the first deadline.
    pub fn of_tasks(tasks: &[Task], step: Ns) -> Self {
        let from = tasks.iter().map(|t| t.counts_from).max().unwrap_or(0);
        Self::new(from, tasks.iter().map(Task::deadline).min().unwrap_or(Ns::MAX), step)
    }

    /// A piece that was queued and completed at these times.
    pub fn add(&mut self, class: Class, queued: Ns, completed: Ns, bytes: u64) {
        let at = usize::from(class == Class::Idle);
        self.last = self.last.max(completed);
        if let Some(since) = completed.checked_sub(self.from) {
            let step = (since / self.step) as usize;
            // A timeline of more steps than anybody draws: the later ones are left out.
            if step >= self.steps.len() && step < 1 << 20 {
                self.steps.resize(step + 1, [0; 2]);
            }
            if let Some(step) = self.steps.get_mut(step) {
                step[at] += bytes;
            }
        }
        if !(self.from..self.to).contains(&queued) {
            return;
        }
        let of = &mut self.of[at];
        of.count += 1;
        of.q2c.record(completed.saturating_sub(queued));
        if completed <= self.to {
            of.in_time += 1;
            of.bytes += bytes;
        }
    }

    /// An operation that began and ended at these times.
    pub fn add_operation(&mut self, class: Class, begin: Ns, end: Ns) {
        if (self.from..self.to).contains(&begin) {
            self.of[usize::from(class == Class::Idle)].service.record(end.saturating_sub(begin));
        }
    }

    /// The common time, ns; at least 1.
    pub fn elapsed(&self) -> Ns {
        self.to.min(self.last).saturating_sub(self.from).max(1)
    }

    /// Bytes completed in each step, by class, as [`NAMES`].
    pub fn timeline(&self) -> &[[u64; 2]] {
        &self.steps
    }

    /// What a document says of the classes that had requests.
    pub fn report(&self) -> Vec<ClassReport> {
        let seconds = self.elapsed() as f64 / 1e9;
        let report = |(name, of): (&'static str, &ClassFigures)| ClassReport {
            class: name,
            count: of.count,
            rate: of.in_time as f64 / seconds,
            bandwidth: of.bytes as f64 / seconds,
            q2c: of.q2c.summary(),
            service: of.service.summary(),
        };
        NAMES.into_iter().zip(&self.of).filter(|(_, of)| of.count > 0).map(report).collect()
    }
}

impl Observer for Classes {
    fn operation_ends(&mut self, now: Ns, _: u32, op: &Op) {
        if op.operation != Operation::Flush {
            self.add_operation(op.class, op.begin, now);
        }
    }

    fn piece_ends(&mut self, now: Ns, _: u32, bio: &Bio, _: &Request) {
        if bio.operation != Operation::Flush {
            self.add(bio.class, bio.queued_at, now, u64::from(bio.length));
        }
    }
}

/// A class, in a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassReport {
    /// `normal` or `idle`.
    pub class: &'static str,
    /// Pieces queued in the common time.
    pub count: u64,
    /// Pieces completed a second.
    pub rate: f64,
    /// Bytes completed a second.
    pub bandwidth: f64,
    /// From queued to completed, ns.
    pub q2c: Summary,
    /// Operations of jobs from begin to end, ns; of a recording there are none.
    pub service: Summary,
}

/// A piece with data: class, when it was queued and completed, bytes.
pub type Piece = (Class, Ns, Ns, u64);

/// Pieces of tasks that no time ends: the time that they have in common is known afterwards alone.
#[derive(Debug, Clone, Default)]
pub struct Pieces(pub Vec<Piece>);

impl Pieces {
    /// The figures, over the time from `from` until the first of the classes has had its last piece.
    pub fn classes(&self, from: Ns, step: Ns) -> Classes {
        let last = |idle: bool| {
            let own = self.0.iter().filter(|(class, ..)| (*class == Class::Idle) == idle);
            own.map(|(_, _, completed, _)| *completed).max()
        };
        let to = [last(false), last(true)].into_iter().flatten().min().unwrap_or(Ns::MAX);
        let mut classes = Classes::new(from, to, step);
        self.0
            .iter()
            .for_each(|(class, queued, completed, bytes)| classes.add(*class, *queued, *completed, *bytes));
        classes
    }
}

impl Observer for Pieces {
    fn piece_ends(&mut self, now: Ns, _: u32, bio: &Bio, _: &Request) {
        if bio.operation != Operation::Flush {
            self.0.push((bio.class, bio.queued_at, now, u64::from(bio.length)));
        }
    }
}
