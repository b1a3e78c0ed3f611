// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loops that operations go round in: one at a time, one at a time by a
//! schedule, several at once.

use super::record::{Recorder, Times};
use super::Source;
use crate::board::Head;
use crate::engine::{Done, Engine, Operation, Wait};
use crate::job::{Job, Multiplex, Through, What};
use crate::pace::{self, Schedule};
use std::sync::atomic::Ordering::Relaxed;

/// A server that nobody asks looks so often whether it should end, ns.
const TURN: u64 = 100_000_000;
/// After so many failed operations a worker gives up: the target is broken, not slow.
const TOO_MANY_ERRORS: u64 = 1000;

/// When a worker's work is over.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Operations, without synchronisations.
    operations: u64,
    /// When, ns.
    deadline: u64,
    /// With a schedule: operations that fall due before the deadline begin even
    /// after it, until this, ns.
    patience: u64,
}

impl End {
    fn of(job: &Job, pass: u64, start: u64) -> Self {
        let length = job.time.map(|t| t.0 + job.ramp.0);
        let by_bytes = job.bytes.map(|b| b.0.div_ceil(job.block.0.max(1)));
        let limits = [job.operations, by_bytes];
        let operations = match limits.into_iter().flatten().min() {
            Some(n) => n,
            None if length.is_some() || job.what == What::Serve => u64::MAX,
            None if job.what.without_files() => pass * 1000,
            None => pass,
        };
        let deadline = length.map_or(u64::MAX, |t| start.saturating_add(t));
        End { operations, deadline, patience: length.map_or(u64::MAX, |t| deadline.saturating_add(t)) }
    }
}

/// How often writes are followed by a synchronisation.
#[derive(Debug, Clone, Copy)]
struct Syncs {
    every: u64,
    since: u64,
}

impl Syncs {
    fn of(job: &Job) -> Self {
        let calls = job.sync.is_call() && job.what.writes();
        Syncs { every: if calls { job.every } else { u64::MAX }, since: 0 }
    }

    #[inline(always)]
    fn due(&mut self, op: &Operation) -> bool {
        self.since +=
            u64::from(op.action == crate::engine::Action::Write || op.action == crate::engine::Action::Copy);
        self.since >= self.every
    }

    /// What a synchronisation must cover after a write to a place: that place,
    /// or the whole file (0, 0) when there were writes elsewhere before it.
    fn covers(&self, offset: u64, len: u32) -> (u64, u32) {
        if self.since > 1 {
            (0, 0)
        } else {
            (offset, len)
        }
    }
}

/// Does a worker's operations from `start` to its end.
pub fn run<E: Engine>(
    engine: &mut E,
    source: &mut Source,
    recorder: &mut Recorder<'_>,
    head: &Head,
    job: &Job,
    schedule: Option<Schedule>,
    start: u64,
) {
    let end = End::of(job, source.pass(), start);
    recorder.set_ramp_end(start + job.ramp.0);
    let syncs = Syncs::of(job);
    // What ends in the call that starts it goes round in the shorter loops.
    let one_by_one = match job.what {
        What::Request => job.multiplex == Multiplex::None,
        _ => job.depth == 1 && (job.through == Through::Null || !job.through.queues()),
    };
    match schedule {
        None if one_by_one => closed(engine, source, recorder, head, end, syncs, job.think.0),
        Some(schedule) if one_by_one => {
            scheduled(engine, source, recorder, head, end, syncs, schedule, start)
        }
        schedule => queued(engine, source, recorder, head, job, end, syncs, schedule, start),
    }
}

/// One operation with its synchronisation when that is due; returns when all of it ended.
#[inline(always)]
fn one<E: Engine>(
    engine: &mut E,
    source: &mut Source,
    recorder: &mut Recorder<'_>,
    syncs: &mut Syncs,
    op: &Operation,
    due: u64,
    begin: u64,
) -> u64 {
    let result = engine.start(op, 0).unwrap_or(-i64::from(libc::EINVAL));
    let returned = recorder.clock.now();
    let generation = source.generation();
    if !syncs.due(op) {
        recorder.done(op, 0, Times { due, begin, end: returned }, returned, result, generation);
        if !source.sound(op, 0, result) {
            recorder.damaged();
        }
        return recorder.next_begin(returned);
    }
    let (offset, len) = syncs.covers(op.offset, op.len);
    syncs.since = 0;
    let sync = source.sync(op.file, offset, len);
    let synced = engine.start(&sync, 0).unwrap_or(-i64::from(libc::EINVAL));
    let end = recorder.clock.now();
    let counted = if recorder.sync_in() { end } else { returned };
    recorder.done(op, 0, Times { due, begin, end: counted }, returned, result, generation);
    recorder.done(&sync, 0, Times { due: returned, begin: returned, end }, end, synced, 0);
    recorder.next_begin(end)
}

/// Closed loop, one operation at a time. One reading of the clock an operation:
/// the end of one is the beginning of the next, so that the few nanoseconds of
/// the loop itself are inside; where data is made between them, it is read again.
fn closed<E: Engine>(
    engine: &mut E,
    source: &mut Source,
    recorder: &mut Recorder<'_>,
    head: &Head,
    end: End,
    mut syncs: Syncs,
    think: u64,
) {
    let mut now = recorder.clock.now();
    let mut made = 0;
    while made < end.operations && now < end.deadline && head.stop.load(Relaxed) == 0 {
        if E::SERVES {
            match engine.ready(TURN) {
                Ok(true) => now = recorder.clock.now(),
                Ok(false) if head.clients_ended() => return,
                Ok(false) => {
                    now = recorder.clock.now();
                    continue;
                }
                Err(error) => {
                    let (op, now) = (source.next(0).0, recorder.clock.now());
                    let times = Times { due: now, begin: now, end: now };
                    return recorder.done(&op, 0, times, now, -i64::from(error), 0);
                }
            }
        }
        let (op, spent) = source.next(0);
        if spent {
            now = recorder.clock.now();
        }
        now = one(engine, source, recorder, &mut syncs, &op, now, now);
        made += 1;
        if recorder.tells() {
            now = recorder.clock.now();
        }
        if think > 0 {
            pace::sleep(think);
            now = recorder.clock.now();
        }
        if made % 256 == 0 && recorder.errors() >= TOO_MANY_ERRORS {
            return;
        }
    }
}

/// Open loop, one operation at a time: one that is late begins as soon as the one before has ended.
#[allow(clippy::too_many_arguments)]
fn scheduled<E: Engine>(
    engine: &mut E,
    source: &mut Source,
    recorder: &mut Recorder<'_>,
    head: &Head,
    end: End,
    mut syncs: Syncs,
    mut schedule: Schedule,
    start: u64,
) {
    let mut now = recorder.clock.now();
    let mut made = 0;
    while made < end.operations {
        let due = start + schedule.due();
        if due >= end.deadline {
            return;
        }
        if now >= end.patience || head.stop.load(Relaxed) != 0 || recorder.errors() >= TOO_MANY_ERRORS {
            return recorder.never_begun(left(&mut schedule, start, now.min(end.deadline)));
        }
        let (mut op, _) = source.next(0);
        op.offset = schedule.session().unwrap_or(op.offset);
        let free = now < due;
        now = wait(recorder, head, due);
        if head.stop.load(Relaxed) != 0 {
            return;
        }
        recorder.due(due, free.then(|| now.saturating_sub(due)));
        now = one(engine, source, recorder, &mut syncs, &op, due, now);
        schedule.step();
        made += 1;
    }
}

/// Waits until `due`, but not through a stop.
#[inline]
fn wait(recorder: &Recorder<'_>, head: &Head, due: u64) -> u64 {
    const LOOK: u64 = 100_000_000;
    loop {
        let now = recorder.clock.now();
        if now + LOOK >= due {
            return pace::wait_until(&recorder.clock, due);
        }
        pace::sleep(LOOK);
        if head.stop.load(Relaxed) != 0 {
            return now;
        }
    }
}

/// Operations that were due before `until` and are not begun.
fn left(schedule: &mut Schedule, start: u64, until: u64) -> u64 {
    let mut count = 0;
    while start + schedule.due() < until {
        count += 1;
        schedule.step();
    }
    count
}

/// An operation that is under way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    op: Operation,
    due: u64,
    begin: u64,
    generation: u64,
}

/// Several operations at once, in a closed loop or by a schedule.
#[allow(clippy::too_many_arguments)]
fn queued<E: Engine>(
    engine: &mut E,
    source: &mut Source,
    recorder: &mut Recorder<'_>,
    head: &Head,
    job: &Job,
    end: End,
    mut syncs: Syncs,
    mut schedule: Option<Schedule>,
    start: u64,
) {
    recorder.queue();
    let depth = job.depth as usize;
    let mut flights: Vec<Option<Flight>> = vec![None; depth];
    let mut free: Vec<u32> = (0..job.depth).rev().collect();
    let mut done: Vec<Done> = Vec::with_capacity(depth);
    let mut made = 0;
    let mut last: Option<(u32, u64, u32)> = None;
    let mut now = recorder.clock.now();
    let mut ended = false;
    // It had a free slot and waited for the schedule: what then begins late is the load's own fault.
    let mut idle = false;
    // Each slot is a user who thinks before asking again.
    let mut thinks_until = 0;
    loop {
        // Begin what can and may begin.
        let mut wait = Wait::Yes;
        let sync_now = syncs.since >= syncs.every;
        while !ended && !sync_now && !free.is_empty() {
            if made >= end.operations || head.stop.load(Relaxed) != 0 {
                ended = true;
                break;
            }
            let (mut due, mut session) = (now, None);
            match &mut schedule {
                None if now >= end.deadline => {
                    ended = true;
                    break;
                }
                None if now < thinks_until => {
                    wait = Wait::For(thinks_until - now);
                    break;
                }
                None => {}
                Some(schedule) => {
                    due = start + schedule.due();
                    if due >= end.deadline {
                        ended = true;
                        break;
                    }
                    if now >= end.patience {
                        recorder.never_begun(left(schedule, start, end.deadline));
                        ended = true;
                        break;
                    }
                    if due > now {
                        wait = Wait::For(due - now);
                        idle = true;
                        break;
                    }
                    session = schedule.session();
                    schedule.step();
                }
            }
            let Some(slot) = free.pop() else { break };
            let (mut op, spent) = source.next(slot);
            op.offset = session.unwrap_or(op.offset);
            if spent {
                now = recorder.clock.now();
            }
            let due = if schedule.is_some() {
                recorder.due(due, std::mem::take(&mut idle).then(|| now.saturating_sub(due)));
                due
            } else {
                now
            };
            flights[slot as usize] = Some(Flight { op, due, begin: now, generation: source.generation() });
            made += 1;
            recorder.begun(&op, slot, now);
            if let Some(result) = engine.start(&op, slot) {
                done.push(Done { slot, result });
            }
        }
        let under_way = depth - free.len();
        if under_way == 0 && !sync_now {
            if ended {
                return;
            }
            if let Wait::For(ns) = wait {
                now = self::wait(recorder, head, now + ns);
                continue;
            }
        }
        if under_way > 0 {
            if !done.is_empty() {
                wait = Wait::No;
            }
            if engine.submit().is_err() || engine.finish(wait, &mut done).is_err() {
                // The queue itself is broken: what is under way ends with its error.
                for slot in 0..job.depth {
                    if flights[slot as usize].is_some() && !done.iter().any(|d| d.slot == slot) {
                        done.push(Done { slot, result: -i64::from(libc::EIO) });
                    }
                }
                ended = true;
            }
            now = recorder.clock.now();
            for Done { slot, result } in done.drain(..) {
                let Some(flight) = flights[slot as usize].take() else { continue };
                free.push(slot);
                thinks_until = now + job.think.0;
                let times = Times { due: flight.due, begin: flight.begin, end: now };
                recorder.done(&flight.op, slot, times, now, result, flight.generation);
                if !source.sound(&flight.op, slot, result) {
                    recorder.damaged();
                }
                let before = syncs.since;
                syncs.due(&flight.op);
                if syncs.since > before {
                    last = Some((flight.op.file, flight.op.offset, flight.op.len));
                }
            }
            if recorder.errors() >= TOO_MANY_ERRORS {
                ended = true;
            }
        }
        // A synchronisation covers what has ended, so the queue runs empty first.
        if syncs.since >= syncs.every && free.len() == depth {
            let (file, offset, len) = last.unwrap_or((0, 0, 0));
            let (offset, len) = syncs.covers(offset, len);
            let op = source.sync(file, offset, len);
            let begin = recorder.clock.now();
            recorder.begun(&op, 0, begin);
            let result = match engine.start(&op, 0) {
                Some(result) => result,
                None => {
                    let ended = engine.submit().and_then(|()| engine.finish(Wait::Yes, &mut done));
                    let result = done.pop().map_or(-i64::from(libc::EIO), |d| d.result);
                    ended.map_or_else(|e| -i64::from(e), |()| result)
                }
            };
            now = recorder.clock.now();
            recorder.done(&op, 0, Times { due: begin, begin, end: now }, now, result, 0);
            syncs.since = 0;
        }
    }
}
