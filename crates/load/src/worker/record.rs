// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of an operation that ended: counts, histograms, the log and
//! the trace's events.

use crate::board::{add, Seat};
use crate::clock::Clock;
use crate::engine::{Action, Operation};
use crate::events::Events;
use crate::job::{Job, Timed};
use crate::log::{self, Ring, Row};
use plumb_trace::load::OperationKind;
use std::sync::atomic::Ordering::Relaxed;

/// An operation of an open loop begins late from here on, ns, or from 10 % of the distance of two.
const LATE: u64 = 100_000;

/// Writes a worker's figures into its seat.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// The clock of all times.
    pub clock: Clock,
    seat: &'a mut Seat,
    ring: Option<&'a Ring>,
    events: Option<Events>,
    /// Latencies count from when an operation was due.
    open: bool,
    queues: bool,
    durable: bool,
    sync_promises: bool,
    /// Nothing that began before counts, ns.
    ramp_end: u64,
    /// There are operations that do not count.
    warms_up: bool,
    /// Time went by that is no operation's.
    paused: bool,
    /// A write's time has its synchronisation in it.
    sync_in: bool,
    /// A free worker is late when it begins an operation after this, ns.
    late_after: u64,
}

/// When an operation was due, began and ended, ns.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// When it was due; in a closed loop, when it began.
    pub due: u64,
    pub begin: u64,
    pub end: u64,
}

impl<'a> Recorder<'a> {
    /// A recorder for a job; counts from its ramp's end on.
    pub fn new(
        clock: Clock,
        seat: &'a mut Seat,
        ring: Option<*mut Ring>,
        events: Option<Events>,
        job: &Job,
    ) -> Self {
        // SAFETY: the ring lies in the board, which outlives the worker, and this worker alone pushes.
        let ring = ring.map(|r| unsafe { &*r });
        Recorder {
            clock,
            seat,
            ring,
            events,
            open: job.rate.is_some(),
            queues: false,
            durable: job.sync.is_flag(),
            sync_promises: job.sync.is_call() && job.sync.promises(),
            ramp_end: 0,
            warms_up: job.ramp.0 > 0,
            paused: false,
            sync_in: job.time_sync == Timed::In,
            late_after: LATE.max(job.rate.map_or(0, |r| (1e8 * f64::from(job.workers()) / r.0) as u64)),
        }
    }

    /// Whether every operation is told to somebody besides the histograms,
    /// which takes time that belongs to no operation.
    #[inline(always)]
    pub fn tells(&self) -> bool {
        self.events.is_some() || self.ring.is_some()
    }

    /// Operations overlap from here on: each one's begin is told by [`Self::begun`].
    pub fn queue(&mut self) {
        self.queues = true;
    }

    /// An operation of a queue began.
    #[inline(always)]
    pub fn begun(&mut self, op: &Operation, slot: u32, at: u64) {
        if let Some(events) = &mut self.events {
            events.begin(op, slot, at);
        }
    }

    /// Whether a write's time has its synchronisation in it.
    #[inline(always)]
    pub fn sync_in(&self) -> bool {
        self.sync_in
    }

    /// When the next operation may begin after one that returned then: now, where counters were read in between.
    #[inline(always)]
    pub fn next_begin(&mut self, returned: u64) -> u64 {
        match std::mem::take(&mut self.paused) {
            true => self.clock.now(),
            false => returned,
        }
    }

    /// Operations that begin before do not count, ns.
    pub fn set_ramp_end(&mut self, at: u64) {
        self.ramp_end = at;
    }

    /// An operation ended. `end_in_log` is when the call itself returned: with
    /// --time-sync in, a write's time goes on to the end of its synchronisation.
    #[inline(always)]
    pub fn done(
        &mut self,
        op: &Operation,
        slot: u32,
        times: Times,
        end_in_log: u64,
        result: i64,
        generation: u64,
    ) {
        if let Some(events) = &mut self.events {
            if !self.queues {
                events.begin(op, 0, times.begin);
            }
            events.end(slot, end_in_log, result, times.begin.saturating_sub(times.due));
        }
        if self.ring.is_some() {
            self.log(op, times, end_in_log, result, generation);
        }
        if times.begin < self.ramp_end {
            return;
        }
        let k = op.kind as usize;
        let seat = &mut *self.seat;
        let sum = &seat.sums[k];
        add(&sum.count, 1);
        if seat.begin.load(Relaxed) == 0 {
            seat.begin.store(times.due.min(times.begin), Relaxed);
            if self.warms_up {
                settled(&mut seat.times[1]);
                self.paused = true;
            }
        }
        seat.end.store(times.end, Relaxed);
        if result < 0 {
            self.failed(op, result);
            return;
        }
        add(&sum.bytes, result as u64);
        if result < i64::from(op.len) && !matches!(op.action, Action::Sync | Action::Request | Action::Serve)
        {
            add(&sum.short, 1);
        }
        let took = times.end.saturating_sub(times.begin);
        seat.service[k].record(took);
        let shown = if self.open {
            let response = times.end.saturating_sub(times.due);
            seat.response[k].record(response);
            response
        } else {
            took
        };
        if shown > seat.longest.load(Relaxed) {
            seat.longest.store(shown, Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, op: &Operation, result: i64) {
        add(&self.seat.sums[op.kind as usize].errors, 1);
        let failure = &self.seat.failure;
        if failure.errno.load(Relaxed) == 0 {
            failure.kind.store(u32::from(op.kind.number()), Relaxed);
            failure.file.store(op.file, Relaxed);
            failure.offset.store(op.offset, Relaxed);
            failure.errno.store((-result) as u32, Relaxed);
        }
    }

    #[inline(always)]
    fn log(&mut self, op: &Operation, times: Times, end: u64, result: i64, generation: u64) {
        let Some(ring) = self.ring else { return };
        let durable = match op.action {
            Action::Write => self.durable,
            Action::Sync => self.sync_promises,
            _ => false,
        };
        let mut flags = 0;
        flags |= if durable { log::DURABLE } else { 0 };
        flags |= if times.begin < self.ramp_end { log::WARM_UP } else { 0 };
        flags |= if self.open { log::PACED } else { 0 };
        ring.push(&Row {
            worker: 0, // the log's writer knows
            kind: op.kind,
            flags,
            file: op.file,
            intended_ns: times.due.min(times.begin),
            begin_ns: times.begin,
            end_ns: end,
            offset: op.offset,
            result: result as i32,
            generation: if op.action == Action::Write { generation } else { 0 },
        });
    }

    /// A block that was read is not what was written.
    #[cold]
    pub fn damaged(&mut self) {
        add(&self.seat.damaged, 1);
    }

    /// The files were closed, inside the job's time.
    pub fn closed(&mut self, result: i64) {
        let begin = self.seat.end.load(Relaxed);
        let end = self.clock.now();
        let op = Operation {
            kind: OperationKind::Close,
            action: Action::Sync,
            file: 0,
            len: 0,
            offset: 0,
            buffer: std::ptr::null_mut(),
        };
        let begin = if begin == 0 { end } else { begin };
        self.begun(&op, 0, begin);
        self.queue();
        self.done(&op, 0, Times { due: begin, begin, end }, end, result.min(0), 0);
    }

    /// An operation of an open loop was due; `lag` is how late a free worker began it.
    #[inline(always)]
    pub fn due(&mut self, due: u64, lag: Option<u64>) {
        if due < self.ramp_end {
            return;
        }
        add(&self.seat.generator.due, 1);
        if let Some(lag) = lag {
            self.seat.generator.lag.record(lag);
            add(&self.seat.generator.late, u64::from(lag > self.late_after));
        }
    }

    /// So many operations that were due never began.
    pub fn never_begun(&mut self, count: u64) {
        add(&self.seat.generator.due, count);
        add(&self.seat.generator.never_begun, count);
    }

    pub fn errors(&self) -> u64 {
        self.seat.sums.iter().map(|s| s.errors.load(Relaxed)).sum()
    }

    /// Writes what is still held back.
    pub fn finish(&mut self) {
        if let Some(events) = self.events.take() {
            add(&self.seat.events_lost, events.finish());
        }
        if let Some(ring) = self.ring {
            add(&self.seat.log_waits, ring.waits());
            add(&self.seat.log_wait_ns, ring.waited_ns());
            add(&self.seat.log_lost, ring.lost());
        }
    }
}
/// What the warm-up used is not of the operations that count.
#[cold]
#[inline(never)]
fn settled(times: &mut crate::witness::OwnTimes) {
    *times = crate::witness::own_times();
}
