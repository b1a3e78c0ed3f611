// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop: from one moment at which something happens to the next.
//!
//! At a moment completions come first, then clocks, then the tasks that were woken run; what they queue
//! is inserted before anything is dispatched, as a plug does (block/blk-core.c, blk_start_plug()).

mod outside;
mod submit;

use super::observer::{Observer, Sleep, Woken};
use super::requests::{Bio, Class, Requests, NONE};
use super::scheduler::{Scheduler, Taken};
use super::task::{Next, Task};
use crate::device::{Completion, Device, Ns, Outcome, Request as DeviceRequest};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// More rounds than this at one moment: time stands still.
const ROUNDS: u64 = 1 << 20;

/// How the queue is set up; named as in /sys/block/DISK/queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests that wait or are in flight; who wants more waits.
    pub nr_requests: usize,
    /// Longest request, bytes; longer operations are split, merging ends there (max_sectors_kb).
    pub max_bytes: u32,
    /// Requests that the device has at once: its tags.
    pub depth: usize,
}

/// What an operation takes of a CPU, all of it before it is queued: system call, block layer, scheduler, interrupt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// For each operation, ns.
    pub operation: Ns,
    /// For each KiB of it, ns.
    pub per_kib: Ns,
    /// CPUs that all tasks share; 0: each task has its own.
    pub cpus: usize,
}

impl Cost {
    fn of(&self, length: u64) -> Ns {
        self.operation.saturating_add((u128::from(self.per_kib) * u128::from(length) / 1024) as Ns)
    }
}

/// Longest request that Linux makes of what a device takes: BLK_DEF_MAX_SECTORS_CAP, 1280 KiB.
pub const MAX_BYTES: u32 = 1280 << 10;

/// Why a simulation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The model and the tasks take no time.
    #[error("at {0} ns time stands still: neither the model nor the job takes any; give --think or --rate, or end after --operations")]
    NoTime(Ns),
    /// Somebody waits and nothing will happen.
    #[error("at {0} ns {1} requests are left and nothing happens any more; this is a defect of the scheduler or the model")]
    Stuck(Ns, usize),
}

/// When which user of which task goes on; a user of [`NONE`] is the task's schedule.
type Alarm = Reverse<(Ns, u64, u32, u32)>;

/// Tasks, a scheduler and a device.
pub struct Simulation {
    device: Box<dyn Device>,
    scheduler: Box<dyn Scheduler>,
    settings: Settings,
    cost: Cost,
    /// Until when each CPU works.
    cpus: Vec<Ns>,
    tasks: Vec<Task>,
    stonewalls: Vec<bool>,
    requests: Requests,
    now: Ns,
    alarms: BinaryHeap<Alarm>,
    alarms_set: u64,
    runnable: Vec<u32>,
    ended: Vec<Completion>,
    taken: Taken,
    in_flight: usize,
    /// Bios without a tag, with the order in which they came; by direction, those of the idle class
    /// apart, so that one which may have no slot holds up nobody who may.
    waiting: [VecDeque<(u64, u32)>; 4],
    waited: u64,
    /// One flush is under way at most; who asks meanwhile shares the next one: block/blk-flush.c.
    flush: Option<u32>,
    flushing: Vec<u32>,
    to_flush: Vec<u32>,
}

impl Simulation {
    /// At `start`; `stonewalls` tells of each job whether all its tasks end when the first does.
    pub fn new(
        device: Box<dyn Device>,
        scheduler: Box<dyn Scheduler>,
        settings: Settings,
        tasks: Vec<Task>,
        stonewalls: Vec<bool>,
        start: Ns,
    ) -> Self {
        let settings = Settings {
            nr_requests: settings.nr_requests.max(1),
            max_bytes: settings.max_bytes.max(512) / 512 * 512,
            depth: settings.depth.max(1),
        };
        Self {
            device,
            scheduler,
            tasks,
            stonewalls,
            requests: Requests::new(settings.max_bytes),
            settings,
            cost: Cost::default(),
            cpus: Vec::new(),
            now: start,
            alarms: BinaryHeap::with_capacity(256),
            alarms_set: 0,
            runnable: Vec::with_capacity(64),
            ended: Vec::with_capacity(64),
            taken: Taken::default(),
            in_flight: 0,
            waiting: Default::default(),
            waited: 0,
            flush: None,
            flushing: Vec::new(),
            to_flush: Vec::new(),
        }
    }

    /// The same with operations that take time of a CPU.
    pub fn with_cost(self, cost: Cost) -> Self {
        Self { cost, cpus: vec![self.now; cost.cpus], ..self }
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn scheduler(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    /// Gives the device back, to go on with another step.
    pub fn into_device(self) -> Box<dyn Device> {
        self.device
    }

    /// Lets all tasks run to their end; returns when that was.
    ///
    /// # Errors
    /// Time stands still, or nothing happens any more.
    pub fn run<O: Observer>(&mut self, observer: &mut O) -> Result<Ns, SimulationError> {
        for task in 0..self.tasks.len() as u32 {
            self.tasks[task as usize].runnable = true;
            self.runnable.push(task);
        }
        loop {
            self.moment(observer)?;
            let timer = self.scheduler.next_timer(self.now).filter(|t| *t > self.now && self.has_tags());
            let alarm = self.next_alarm();
            match [self.device.next_event(), timer, alarm].into_iter().flatten().min() {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
        }
        let left =
            self.taken.all + self.waiting.iter().map(VecDeque::len).sum::<usize>() + self.to_flush.len();
        if left > 0 || self.in_flight > 0 || !self.tasks.iter().all(Task::is_over) {
            return Err(SimulationError::Stuck(self.now, left));
        }
        Ok(self.now)
    }

    /// The next clock that anybody waits for.
    fn next_alarm(&mut self) -> Option<Ns> {
        while let Some(Reverse((at, _, task, _))) = self.alarms.peek() {
            if !self.tasks[*task as usize].is_over() {
                return Some(*at);
            }
            self.alarms.pop();
        }
        None
    }

    fn has_tags(&self) -> bool {
        self.in_flight < self.settings.depth
    }

    /// Everything that happens at `now`.
    fn moment<O: Observer>(&mut self, o: &mut O) -> Result<(), SimulationError> {
        let mut rounds = 0;
        loop {
            self.complete(o);
            while self.alarms.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                if let Some(Reverse((_, _, task, slot))) = self.alarms.pop() {
                    self.alarm(task, slot, o);
                }
            }
            // Nobody is made runnable by a task that runs: they meet at the device alone.
            for i in 0..self.runnable.len() {
                let task = self.runnable[i];
                self.run_task(task, o);
            }
            self.runnable.clear();
            self.dispatch(o);
            if self.device.next_event().is_none_or(|at| at > self.now) {
                return Ok(());
            }
            rounds += 1;
            if rounds > ROUNDS && self.tasks.iter().any(Task::is_endless) {
                return Err(SimulationError::NoTime(self.now));
            }
        }
    }

    fn wake<O: Observer>(&mut self, task: u32, why: Woken, o: &mut O) {
        let t = &mut self.tasks[task as usize];
        if !std::mem::replace(&mut t.runnable, true) {
            self.runnable.push(task);
            if t.asleep {
                o.wakes(self.now, task, why);
            }
        }
    }

    fn alarm<O: Observer>(&mut self, task: u32, slot: u32, o: &mut O) {
        let t = &mut self.tasks[task as usize];
        if slot != NONE {
            t.may_ask(slot);
        } else if t.alarm == Some(self.now) {
            t.alarm = None;
        }
        if !t.blocked && !t.is_over() {
            self.wake(task, Woken::Timer, o);
        }
    }

    fn set_alarm(&mut self, at: Ns, task: u32, slot: u32) {
        self.alarms_set += 1;
        self.alarms.push(Reverse((at, self.alarms_set, task, slot)));
    }

    /// Takes what the device has ended.
    fn complete<O: Observer>(&mut self, o: &mut O) {
        let mut ended = std::mem::take(&mut self.ended);
        self.device.advance(self.now, &mut ended);
        for completion in ended.drain(..) {
            let number = completion.id as u32;
            self.in_flight -= 1;
            let request = *self.requests.get(number);
            o.completed(self.now, number, &request, &completion);
            let error = match completion.outcome {
                Outcome::Failed(errno) => errno,
                // It says that it was done; what is there afterwards, a simulation without data cannot know.
                Outcome::Done | Outcome::Lied | Outcome::Torn(_) => 0,
            };
            if self.flush == Some(number) {
                self.flushed(error, o);
                self.requests.drop_request(number);
                continue;
            }
            self.scheduler.completed(self.now, number, &self.requests);
            let mut at = request.first;
            while at != NONE {
                let bio = *self.requests.bio(at);
                o.piece_ends(self.now, at, &bio, &request);
                self.piece_ends(at, &bio, error, o);
                at = bio.next;
            }
            self.requests.drop_request(number);
            self.taken.all -= 1;
            self.taken.idle -= usize::from(request.class == Class::Idle);
            self.grant(o);
        }
        self.ended = ended;
    }

    fn flushed<O: Observer>(&mut self, error: i32, o: &mut O) {
        self.flush = None;
        let mut flushing = std::mem::take(&mut self.flushing);
        for number in flushing.drain(..) {
            let bio = *self.requests.bio(number);
            o.flushed(self.now, number, &bio);
            self.piece_ends(number, &bio, error, o);
        }
        self.flushing = flushing;
    }

    fn piece_ends<O: Observer>(&mut self, number: u32, bio: &Bio, error: i32, o: &mut O) {
        self.requests.drop_bio(number);
        let op = self.tasks[bio.task as usize].op(bio.slot);
        op.pieces -= 1;
        if op.error == 0 {
            op.error = error;
        }
        if op.pieces == 0 && op.sent >= op.length.max(1) {
            self.operation_ends(bio.task, bio.slot, o);
            if !self.tasks[bio.task as usize].blocked {
                self.wake(bio.task, Woken::Completion, o);
            }
        }
    }

    fn operation_ends<O: Observer>(&mut self, task: u32, slot: u32, o: &mut O) {
        let t = &mut self.tasks[task as usize];
        let mut user = t.ends(slot, self.now);
        o.operation_ends(self.now, task, &*t.op(slot));
        while let Some(slot) = user.or_else(|| self.tasks[task as usize].released()) {
            user = None;
            match self.tasks[task as usize].think() {
                0 => self.tasks[task as usize].may_ask(slot),
                think => self.set_alarm(self.now + think, task, slot),
            }
        }
    }

    /// Lets a task do what it can do now.
    fn run_task<O: Observer>(&mut self, task: u32, o: &mut O) {
        let at = task as usize;
        self.tasks[at].runnable = false;
        self.tasks[at].asleep = false;
        o.runs(self.now, task);
        if let Some(number) = self.tasks[at].granted.take() {
            self.insert(number, o);
        }
        let why = loop {
            if let Some(slot) = self.tasks[at].sending {
                if self.tasks[at].busy_until > self.now {
                    break Sleep::Time;
                }
                if !self.send(task, slot, o) {
                    break Sleep::Slot;
                }
                self.tasks[at].sending = None;
            }
            match self.tasks[at].next(self.now) {
                Next::Begin(slot) => {
                    let op = *self.tasks[at].op(slot);
                    o.operation_begins(self.now, task, &op);
                    self.tasks[at].sending = Some(slot);
                    self.work(task, op.length);
                }
                Next::At(due) => {
                    if self.tasks[at].alarm.is_none_or(|set| due < set) {
                        self.tasks[at].alarm = Some(due);
                        self.set_alarm(due, task, NONE);
                    }
                    break if self.tasks[at].waits_for_device() { Sleep::Operation } else { Sleep::Time };
                }
                Next::Waits if self.tasks[at].waits_for_device() => break Sleep::Operation,
                Next::Waits => break Sleep::Time,
                Next::Ended if self.tasks[at].waits_for_device() => break Sleep::Operation,
                Next::Ended => {
                    if self.stonewalls.get(self.tasks[at].job).is_some_and(|s| *s) {
                        let job = self.tasks[at].job;
                        self.tasks.iter_mut().filter(|t| t.job == job).for_each(|t| t.stopped = true);
                    }
                    break Sleep::Ended;
                }
            }
        };
        self.tasks[at].asleep = true;
        o.sleeps(self.now, task, why);
    }

    /// Lets a CPU work on an operation that has begun.
    fn work(&mut self, task: u32, length: u64) {
        let cost = self.cost.of(length);
        if cost == 0 {
            return;
        }
        let until = match self.cpus.iter_mut().min() {
            Some(free) => {
                *free = self.now.max(*free) + cost;
                *free
            }
            None => self.now + cost,
        };
        self.tasks[task as usize].busy_until = until;
        self.set_alarm(until, task, NONE);
    }

    fn dispatch<O: Observer>(&mut self, o: &mut O) {
        if self.flush.is_none() && !self.to_flush.is_empty() && self.has_tags() {
            std::mem::swap(&mut self.flushing, &mut self.to_flush);
            let request = self.requests.add(self.flushing[0]);
            self.flush = Some(request);
            self.issue(request, o);
        }
        while self.has_tags() {
            let Some(request) = self.scheduler.dispatch(self.now, &self.requests) else { return };
            self.issue(request, o);
        }
    }

    fn issue<O: Observer>(&mut self, request: u32, o: &mut O) {
        let r = self.requests.get_mut(request);
        r.waiting = false;
        r.issued_at = self.now;
        let asked = DeviceRequest {
            id: u64::from(request),
            operation: r.operation,
            offset: r.offset,
            length: r.length,
            fua: r.fua,
        };
        self.in_flight += 1;
        o.issued(self.now, request, self.requests.get(request));
        self.device.submit(self.now, asked);
    }
}
