// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a simulation: of each job as its users saw it, and of the queue and the device.
//!
//! Lengths of queues are integrals over time, latencies are sums over requests: that both agree
//! (Little's law) is a test and no definition.

mod report;

pub use report::{DeviceReport, JobReport, KindReport, Report, RequestReport};

use super::observer::Observer;
use super::requests::{Bio, Merge, Request};
use super::task::{Op, Task};
use crate::device::{Completion, Ns, Operation, Outcome, Parts};
use plumb_stats::histogram::Histogram;
use plumb_trace::load::OperationKind;

/// Operations of one kind of a job.
#[derive(Debug, Clone)]
pub struct KindFigures {
    pub kind: OperationKind,
    /// Of those, failed.
    pub errors: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// From its begin to its end, ns.
    pub service: Box<Histogram>,
    /// From when it was due to its end, ns; of an open loop alone.
    pub response: Option<Box<Histogram>>,
}

/// Pieces of a job's operations that ask the device for the same.
#[derive(Debug, Clone)]
pub struct RequestFigures {
    pub operation: Operation,
    /// From queued to completed, ns.
    pub q2c: Box<Histogram>,
    /// From issued to completed, ns.
    pub d2c: Box<Histogram>,
}

/// A job as its users saw it.
#[derive(Debug, Clone)]
pub struct JobFigures {
    /// By kind of operation, those that occurred.
    pub kinds: Vec<KindFigures>,
    /// Pieces by what they ask for, those that occurred.
    pub requests: Vec<RequestFigures>,
    /// Pieces with data from queued to completed, ns.
    pub q2c: Box<Histogram>,
    /// Pieces with data from issued to completed, ns.
    pub d2c: Box<Histogram>,
    /// From when on operations count, ns.
    pub from: Ns,
    /// End of the last operation, ns.
    pub until: Ns,
    open: bool,
}

impl JobFigures {
    fn new(from: Ns, open: bool) -> Self {
        let (q2c, d2c) = (Histogram::boxed(), Histogram::boxed());
        JobFigures { kinds: Vec::new(), requests: Vec::new(), q2c, d2c, from, until: from, open }
    }

    /// Time that counts, ns; at least 1.
    pub fn elapsed(&self) -> Ns {
        (self.until - self.from).max(1)
    }

    fn kind(&mut self, kind: OperationKind) -> &mut KindFigures {
        let at = match self.kinds.iter().position(|k| k.kind == kind) {
            Some(at) => at,
            None => {
                let response = (self.open && kind != OperationKind::Sync).then(Histogram::boxed);
                let service = Histogram::boxed();
                self.kinds.push(KindFigures { kind, errors: 0, bytes: 0, service, response });
                self.kinds.len() - 1
            }
        };
        &mut self.kinds[at]
    }

    fn piece(&mut self, now: Ns, bio: &Bio, issued_at: Ns) {
        let at = match self.requests.iter().position(|r| r.operation == bio.operation) {
            Some(at) => at,
            None => {
                let (q2c, d2c) = (Histogram::boxed(), Histogram::boxed());
                self.requests.push(RequestFigures { operation: bio.operation, q2c, d2c });
                self.requests.len() - 1
            }
        };
        self.requests[at].q2c.record(now - bio.queued_at);
        self.requests[at].d2c.record(now - issued_at);
    }

    fn count(&mut self, op: &Op, end: Ns) {
        let kind = self.kind(op.kind);
        match op.error {
            0 => kind.bytes += op.length,
            _ => kind.errors += 1,
        }
        kind.service.record(end - op.begin);
        if let Some(response) = &mut kind.response {
            response.record(end - op.due);
        }
    }
}

/// The queue and the device.
#[derive(Debug, Clone, Default)]
pub struct DeviceFigures {
    /// Requests with data that completed: reads, then writes and discards.
    pub requests: [u64; 2],
    /// Bytes of those.
    pub bytes: [u64; 2],
    /// Flushes that the device did.
    pub flushes: u64,
    /// Pieces that joined a request.
    pub merges: u64,
    pub errors: u64,
    /// Requests that lied or were torn: the user was told that they were done.
    pub lies: u64,
    /// Time with at least one request in flight, ns.
    pub busy: Ns,
    /// Integrals over time of: pieces from queued to completed, pieces without a tag, requests in the
    /// scheduler, requests in flight; each times ns.
    pub areas: [u128; 4],
    /// Most requests in flight at once.
    pub most: u64,
    /// Most pieces in the queue or the device at once.
    pub most_in_system: u64,
    /// Device's time of all requests, by what it was, ns.
    pub parts: Parts,
    /// Requests from issued to completed, ns.
    pub d2c: Box<Histogram>,
    now: [u64; 4],
    since: Ns,
}

const SYSTEM: usize = 0;
const SLOTLESS: usize = 1;
const SCHEDULER: usize = 2;
const DEVICE: usize = 3;

impl DeviceFigures {
    /// One leaves a length and joins another: [`SYSTEM`] and beyond.
    fn step(&mut self, now: Ns, less: Option<usize>, more: Option<usize>) {
        let dt = now.saturating_sub(self.since);
        if dt > 0 {
            for (area, n) in self.areas.iter_mut().zip(self.now) {
                *area += u128::from(n) * u128::from(dt);
            }
            self.busy += if self.now[DEVICE] > 0 { dt } else { 0 };
            self.since = now;
        }
        if let Some(less) = less {
            self.now[less] -= 1;
        }
        if let Some(more) = more {
            self.now[more] += 1;
            self.most_in_system = self.most_in_system.max(self.now[SYSTEM]);
        }
    }
}

#[derive(Debug, Clone)]
pub struct Figures {
    pub jobs: Vec<JobFigures>,
    /// Of queue and device, from the end of the longest ramp on.
    pub device: DeviceFigures,
    /// From when on queue and device count, ns.
    pub from: Ns,
    /// What happened last, ns.
    pub until: Ns,
    tasks: Vec<TaskFigures>,
    /// When the flush that was completed last was issued: those who asked for it are told next.
    flush_issued_at: Ns,
}

#[derive(Debug, Clone)]
struct TaskFigures {
    job: usize,
    from: Ns,
    /// The write whose time goes on until its flush has ended.
    open: Option<Op>,
}

impl Figures {
    /// Empty figures for these tasks.
    pub fn new(tasks: &[Task]) -> Self {
        let jobs = tasks.iter().map(|t| t.job + 1).max().unwrap_or(0);
        let first = |job: usize| tasks.iter().find(move |t| t.job == job);
        let from = tasks.iter().map(|t| t.counts_from).max().unwrap_or(0);
        let new = |job| {
            first(job)
                .map_or_else(|| JobFigures::new(0, false), |t| JobFigures::new(t.counts_from, t.is_open()))
        };
        let told = |t: &Task| TaskFigures { job: t.job, from: t.counts_from, open: None };
        Figures {
            jobs: (0..jobs).map(new).collect(),
            device: DeviceFigures { since: from, ..DeviceFigures::default() },
            from,
            until: from,
            tasks: tasks.iter().map(told).collect(),
            flush_issued_at: 0,
        }
    }

    pub fn finish(&mut self, end: Ns) {
        self.device.step(end, None, None);
        self.until = self.until.max(end);
    }

    /// Time that counts for queue and device, ns; at least 1.
    pub fn elapsed(&self) -> Ns {
        (self.until - self.from).max(1)
    }

    /// Share of the time with at least one request in flight.
    pub fn utilisation(&self) -> f64 {
        self.device.busy as f64 / self.elapsed() as f64
    }

    /// Mean number of pieces in the queue or the device, of pieces without a tag, of requests in the
    /// scheduler, and of requests in flight.
    pub fn lengths(&self) -> [f64; 4] {
        self.device.areas.map(|area| area as f64 / self.elapsed() as f64)
    }
}

impl Observer for Figures {
    fn queued(&mut self, now: Ns, _: u32, bio: &Bio) {
        if bio.operation != Operation::Flush {
            self.device.step(now, None, Some(SYSTEM));
            self.device.step(now, None, Some(SLOTLESS));
        }
    }

    fn got(&mut self, now: Ns, _: u32, bio: &Bio) {
        if bio.operation != Operation::Flush {
            self.device.step(now, Some(SLOTLESS), None);
        }
    }

    fn merged(&mut self, now: Ns, _: u32, _: &Bio, _: Merge, _: &Request) {
        self.device.step(now, Some(SLOTLESS), None);
        self.device.merges += u64::from(now >= self.from);
    }

    fn inserted(&mut self, now: Ns, _: u32, _: &Request) {
        self.device.step(now, None, Some(SCHEDULER));
    }

    fn issued(&mut self, now: Ns, _: u32, request: &Request) {
        let less = (request.operation != Operation::Flush).then_some(SCHEDULER);
        self.device.step(now, less, Some(DEVICE));
        self.device.most = self.device.most.max(self.device.now[DEVICE]);
    }

    fn completed(&mut self, now: Ns, _: u32, request: &Request, completion: &Completion) {
        let d = &mut self.device;
        d.step(now, Some(DEVICE), None);
        self.until = self.until.max(now);
        if request.operation == Operation::Flush {
            self.flush_issued_at = request.issued_at;
        }
        if request.issued_at < self.from {
            return;
        }
        match completion.outcome {
            Outcome::Done => {}
            Outcome::Failed(_) => d.errors += 1,
            Outcome::Lied | Outcome::Torn(_) => d.lies += 1,
        }
        d.parts += completion.parts;
        if request.operation == Operation::Flush {
            d.flushes += 1;
            return;
        }
        d.requests[request.direction()] += 1;
        d.bytes[request.direction()] += u64::from(request.length);
        d.d2c.record(now - request.issued_at);
    }

    fn piece_ends(&mut self, now: Ns, _: u32, bio: &Bio, request: &Request) {
        self.device.step(now, Some(SYSTEM), None);
        let task = &self.tasks[bio.task as usize];
        if bio.queued_at >= task.from {
            let job = &mut self.jobs[task.job];
            job.q2c.record(now - bio.queued_at);
            job.d2c.record(now - request.issued_at);
            job.piece(now, bio, request.issued_at);
        }
    }

    fn flushed(&mut self, now: Ns, _: u32, bio: &Bio) {
        let task = &self.tasks[bio.task as usize];
        if bio.queued_at >= task.from {
            self.jobs[task.job].piece(now, bio, self.flush_issued_at);
        }
    }

    fn operation_ends(&mut self, now: Ns, task: u32, op: &Op) {
        let task = &mut self.tasks[task as usize];
        let job = &mut self.jobs[task.job];
        job.until = job.until.max(now);
        self.until = self.until.max(now);
        if op.begin < task.from {
            return;
        }
        if op.sync_behind {
            task.open = Some(*op);
            return;
        }
        if op.kind == OperationKind::Sync {
            if let Some(write) = task.open.take() {
                job.count(&write, now);
            }
        }
        job.count(op, now);
    }
}
