// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks: the workers of a job, as sources of requests.
//!
//! The places, the mix and the schedule are those of `plumb load` on a device of that size: the same
//! [`Places`], [`Schedule`] and seeds. A task has as many users as its depth; each thinks, asks, and waits
//! (closed loop), or the next request is due when the schedule says so (open loop).

mod outside;
mod refuse;
mod script;

pub use outside::Outside;
pub use refuse::refuse;
pub use script::{scripts, After, Recorded, Script};

use super::requests::{Class, Hints};
use crate::device::{Ns, Operation};
use plumb_load::job::{Job, JobError, SyncMethod, Timed, What};
use plumb_load::order::Places;
use plumb_load::pace::Schedule;
use plumb_stats::random::SplitMix64;
use plumb_trace::load::OperationKind;

/// An operation of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What it is for the user.
    pub kind: OperationKind,
    /// What it asks the device for.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// When it was due; when it began where nothing said when.
    pub due: Ns,
    pub begin: Ns,
    /// Its slot in the task.
    pub slot: u32,
    /// Bytes that are queued; a flush has queued one.
    pub(super) sent: u64,
    pub(super) pieces: u32,
    /// errno of the first piece that failed, else 0.
    pub error: i32,
    /// Its bios are durable when they complete.
    pub fua: bool,
    /// I/O priority class.
    pub class: Class,
    /// What its bios say besides.
    pub hints: Hints,
    /// A write whose time goes on until the flush behind it has ended.
    pub sync_behind: bool,
}

const NOTHING: Op = Op {
    kind: OperationKind::Other,
    operation: Operation::Read,
    offset: 0,
    length: 0,
    due: 0,
    begin: 0,
    slot: 0,
    sent: 0,
    pieces: 0,
    error: 0,
    fua: false,
    class: Class::BestEffort,
    hints: Hints::DIRECT,
    sync_behind: false,
};

/// What a task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The operation in this slot.
    Begin(u32),
    At(Ns),
    /// Nothing before something of its own ends, or a user has thought.
    Waits,
    Ended,
}

/// A worker of a job.
#[derive(Debug)]
pub struct Task {
    /// Number of its job in the step.
    pub job: usize,
    pub worker: u32,
    /// I/O priority class.
    pub class: Class,
    /// Several operations may be under way, through a queue of the kernel.
    pub queues: bool,
    /// Operations that began before this do not count, ns.
    pub counts_from: Ns,
    /// A write's time has the flush behind it in it.
    sync_in: bool,
    /// What was recorded; nothing of a job counts then.
    script: Option<Box<Script>>,
    /// What somebody outside asks for.
    outside: Option<Box<Outside>>,
    places: Places,
    kind: OperationKind,
    operation: Operation,
    length: u64,
    fua: bool,
    /// Of 2^64, the share of reads of a mix; 0 when it is none.
    reads: u64,
    coin: SplitMix64,
    schedule: Option<Schedule>,
    start: Ns,
    think: Ns,
    operations: u64,
    made: u64,
    deadline: Ns,
    patience: Ns,
    every: u64,
    since: u64,
    free: Vec<u32>,
    /// Users whose write waits for its flush.
    held: Vec<u32>,
    ops: Vec<Op>,
    under_way: u32,
    ended: bool,
    pub(super) stopped: bool,
    /// A begun operation that is not queued whole.
    pub(super) sending: Option<u32>,
    /// Until when a CPU works on what is begun, before it is queued.
    pub(super) busy_until: Ns,
    /// The bio that waits for a tag.
    pub(super) blocked: bool,
    /// The bio that got one.
    pub(super) granted: Option<u32>,
    pub(super) runnable: bool,
    pub(super) asleep: bool,
    /// When it is woken at the latest, if that is told already.
    pub(super) alarm: Option<Ns>,
    /// Never begun because it was too late.
    pub never_begun: u64,
}

impl Task {
    /// The tasks of a step's jobs, each with its class, from `start` on, on a device of `size` bytes with
    /// or without a volatile cache.
    ///
    /// # Errors
    /// What of a job a bare device cannot do, see [`refuse`].
    pub fn of(jobs: &[(Job, Class)], size: u64, cache: bool, start: Ns) -> Result<Vec<Task>, JobError> {
        let mut tasks = Vec::new();
        for (number, (job, class)) in jobs.iter().enumerate() {
            refuse(job, size)?;
            for worker in 0..job.workers() {
                tasks.push(Task::new(number, job, *class, worker, cache, start));
            }
        }
        Ok(tasks)
    }

    fn new(number: usize, job: &Job, class: Class, worker: u32, cache: bool, start: Ns) -> Task {
        use OperationKind as K;
        let (kind, operation) = match job.what {
            What::Write => (K::Write, Operation::Write),
            What::Rewrite | What::RecordRewrite => (K::Rewrite, Operation::Write),
            What::Reread => (K::Reread, Operation::Read),
            What::FsyncOnly => (K::Sync, Operation::Flush),
            _ => (K::Read, Operation::Read),
        };
        let places = Places::new(job, worker, job.workers(), 1);
        let share = if job.what == What::Mix { (u64::MAX / 100 * u64::from(job.mix)).max(1) } else { 0 };
        let length = job.time.map(|t| t.0.saturating_add(job.ramp.0));
        let by_bytes = job.bytes.map(|b| b.0.div_ceil(job.block.0.max(1)));
        let asked = [job.operations, by_bytes].into_iter().flatten().min();
        let deadline = length.map_or(Ns::MAX, |t| start.saturating_add(t));
        let depth = job.depth.max(1);
        let queues = job.depth > 1 || job.through.queues();
        Task {
            job: number,
            worker,
            class,
            queues,
            counts_from: start.saturating_add(job.ramp.0),
            script: None,
            outside: None,
            sync_in: job.time_sync == Timed::In && !queues,
            operations: asked.unwrap_or(if length.is_some() { u64::MAX } else { places.pass() }),
            places,
            kind,
            operation,
            length: if operation == Operation::Flush { 0 } else { job.block.0 },
            // A device without a volatile cache is not asked for it: bdev_fua(), block/blk-flush.c.
            fua: job.sync.is_flag() && cache,
            reads: share,
            coin: SplitMix64::new(u64::from(job.seed) << 32 | u64::from(worker)),
            schedule: Schedule::of(job, worker, job.workers()),
            start,
            think: job.think.0,
            made: 0,
            deadline,
            patience: length.map_or(Ns::MAX, |t| deadline.saturating_add(t)),
            every: if job.sync.is_call() && job.sync != SyncMethod::None && job.what.writes() {
                job.every
            } else {
                u64::MAX
            },
            since: 0,
            free: (0..depth).rev().collect(),
            held: Vec::with_capacity(depth as usize),
            ops: vec![NOTHING; depth as usize + 1],
            under_way: 0,
            ended: false,
            stopped: false,
            sending: None,
            busy_until: 0,
            blocked: false,
            granted: None,
            runnable: false,
            asleep: false,
            alarm: None,
            never_begun: 0,
        }
    }

    /// A task that does what was recorded, as `worker` of `job`.
    pub fn replay(script: Script, job: usize, worker: u32, start: Ns) -> Task {
        let plain = Job { depth: 1, ..Job::default() };
        let class = script.class();
        let task = Task::new(job, &plain, class, worker, false, start);
        // What a job's task has one for: a queue, so that several may be under way.
        Task { script: Some(Box::new(script)), queues: true, every: u64::MAX, operations: 0, ..task }
    }

    /// A task that asks for what somebody outside asks for.
    pub fn outside() -> Task {
        let task = Task::new(0, &Job { depth: 1, ..Job::default() }, Class::BestEffort, 0, false, 0);
        Task { outside: Some(Box::default()), queues: true, every: u64::MAX, operations: 0, ..task }
    }

    /// What somebody outside asks for.
    ///
    /// # Panics
    /// The task is of a job or of what was recorded.
    pub(super) fn outsider(&mut self) -> &mut Outside {
        self.outside.as_mut().expect("made by Task::outside")
    }

    /// When it stops asking, ns; [`Ns::MAX`] where no time ends it.
    pub fn deadline(&self) -> Ns {
        self.deadline
    }

    /// The slot of a flush behind writes.
    fn sync_slot(&self) -> u32 {
        self.ops.len() as u32 - 1
    }

    /// The operation in a slot.
    pub(super) fn op(&mut self, slot: u32) -> &mut Op {
        &mut self.ops[slot as usize]
    }

    /// Whether something of its own is under way.
    pub(super) fn waits_for_device(&self) -> bool {
        self.under_way > 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended && self.under_way == 0 && self.since < self.every
    }

    /// Whether a schedule says when operations are due.
    pub fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether only time ends it.
    pub(super) fn is_endless(&self) -> bool {
        !self.ended && self.operations == u64::MAX
    }

    /// What it does at `now`; what it begins is in its slot.
    pub(super) fn next(&mut self, now: Ns) -> Next {
        if let Some(outside) = &mut self.outside {
            let next = outside.next(now, &mut self.ops);
            self.under_way += u32::from(matches!(next, Next::Begin(_)));
            return next;
        }
        if let Some(script) = &mut self.script {
            let next = script.next(now, self.start, &mut self.ops);
            self.under_way += u32::from(matches!(next, Next::Begin(_)));
            self.ended |= next == Next::Ended;
            return next;
        }
        if self.since >= self.every {
            // A flush covers what has ended, so the queue runs empty first.
            if self.under_way > 0 {
                return Next::Waits;
            }
            let slot = self.sync_slot();
            let class = self.class;
            let sync = Op { kind: OperationKind::Sync, operation: Operation::Flush, class, ..NOTHING };
            self.ops[slot as usize] = Op { due: now, begin: now, slot, ..sync };
            self.under_way += 1;
            return Next::Begin(slot);
        }
        if self.ended || self.stopped || self.made >= self.operations {
            self.ended = true;
            return Next::Ended;
        }
        if self.free.is_empty() {
            return Next::Waits;
        }
        let mut due = now;
        match &mut self.schedule {
            None if now >= self.deadline => {
                self.ended = true;
                return Next::Ended;
            }
            None => {}
            Some(schedule) => {
                due = self.start.saturating_add(schedule.due());
                if due >= self.deadline {
                    self.ended = true;
                    return Next::Ended;
                }
                if now >= self.patience {
                    self.ended = true;
                    while self.start.saturating_add(schedule.due()) < self.deadline {
                        self.never_begun += 1;
                        schedule.step();
                    }
                    return Next::Ended;
                }
                if due > now {
                    return Next::At(due);
                }
            }
        }
        let Some(slot) = self.free.pop() else { return Next::Waits };
        if let Some(schedule) = &mut self.schedule {
            schedule.step();
        }
        let place = self.places.next_place();
        let (mut kind, mut operation) = (self.kind, self.operation);
        if self.reads != 0 && self.coin.next_u64() >= self.reads {
            (kind, operation) = (OperationKind::Write, Operation::Write);
        }
        self.ops[slot as usize] = Op {
            kind,
            operation,
            offset: place.offset,
            length: self.length,
            due,
            begin: now,
            slot,
            fua: self.fua && operation == Operation::Write,
            class: self.class,
            ..NOTHING
        };
        self.made += 1;
        self.under_way += 1;
        Next::Begin(slot)
    }

    /// An operation ended. Returns the user that now thinks, if there is one; behind a flush, those that
    /// waited for it are told one by one by [`Task::released`].
    pub(super) fn ends(&mut self, slot: u32, now: Ns) -> Option<u32> {
        self.under_way -= 1;
        if let Some(outside) = &mut self.outside {
            outside.ends(slot);
            return None;
        }
        if let Some(script) = &mut self.script {
            script.ends(slot, now);
            return None;
        }
        if slot == self.sync_slot() {
            self.since = 0;
            return None;
        }
        let wrote = self.ops[slot as usize].operation == Operation::Write;
        self.since += u64::from(wrote && self.every != u64::MAX);
        if self.since >= self.every {
            self.ops[slot as usize].sync_behind = self.sync_in;
            self.held.push(slot);
            return None;
        }
        Some(slot)
    }

    /// A user that waited for a flush which has ended.
    pub(super) fn released(&mut self) -> Option<u32> {
        if self.since >= self.every {
            return None;
        }
        self.held.pop()
    }

    /// How long users think, ns.
    pub(super) fn think(&self) -> Ns {
        self.think
    }

    pub(super) fn may_ask(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
