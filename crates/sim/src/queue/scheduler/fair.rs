// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time slices for each task, after CFQ (block/cfq-iosched.c, Linux 2.6.18 to 4.20).
//!
//! Each task has a queue. The active one is served alone until its slice is over; when it is empty before
//! that, the disk idles for its next request, as long as the task usually thinks shorter than `slice_idle`.
//! The idle class is served one request at a time, when nobody else has had a request for a while
//! (CFQ_IDLE_DELAY). All requests of a simulated task are synchronous; so CFQ's queues for write-back,
//! and its groups, have no counterpart here.

use super::sorted::Sorted;
use super::{Knob, Scheduler};
use crate::device::Ns;
use crate::queue::requests::{Bio, Class, Merge, Requests};
use std::collections::VecDeque;

/// CFQ_IDLE_DELAY: the idle class waits so long for others, ns.
const IDLE_DELAY: Ns = 200_000_000;
/// Samples (times 256) from which on a think time is believed: sample_valid().
const SAMPLES: u64 = 80;

/// Its knobs, as /sys/block/DISK/queue/iosched has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairKnobs {
    /// A task's turn, ns.
    pub slice_sync: Ns,
    /// How long the disk waits for the next request of a task, ns; 0 does not wait.
    pub slice_idle: Ns,
    /// Requests of one task that the device has while others wait.
    pub quantum: u32,
    /// A request that waited so long goes first in its task's turn, ns.
    pub fifo_expire_sync: Ns,
}

impl Default for FairKnobs {
    fn default() -> Self {
        Self { slice_sync: 100_000_000, slice_idle: 8_000_000, quantum: 8, fifo_expire_sync: 125_000_000 }
    }
}

impl FairKnobs {
    pub fn knobs(&mut self) -> [Knob<'_>; 4] {
        [
            Knob::Milliseconds("slice_sync", &mut self.slice_sync),
            Knob::Milliseconds("slice_idle", &mut self.slice_idle),
            Knob::Count("quantum", &mut self.quantum),
            Knob::Milliseconds("fifo_expire_sync", &mut self.fifo_expire_sync),
        ]
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Sorted,
    class: Class,
    in_flight: u32,
    /// In the round of its class.
    in_round: bool,
    /// Behind the last request that went.
    position: u64,
    last_end: Option<Ns>,
    /// Think time as a decaying mean, all times 256: cfq_update_io_thinktime().
    samples: u64,
    total: u64,
}

impl Queue {
    fn thought(&mut self, ns: Ns) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * ns) / 8;
    }

    /// Whether its next request comes so late that waiting for it is in vain.
    fn thinks_long(&self, slice_idle: Ns) -> bool {
        self.samples > SAMPLES && (self.total + 128) / self.samples > slice_idle
    }
}

/// The queue whose turn it is.
#[derive(Debug, Clone, Copy)]
struct Active {
    task: usize,
    /// Set when the first request of the turn has completed: cfq_completed_request().
    end: Option<Ns>,
    /// The disk waits for its next request until then.
    idles_until: Option<Ns>,
    /// The oldest request was looked at in this turn.
    looked: bool,
}

#[derive(Debug)]
pub struct Fair {
    knobs: FairKnobs,
    queues: Vec<Queue>,
    rounds: [VecDeque<usize>; 3],
    active: Option<Active>,
    waiting: usize,
    /// In flight of the classes above idle, and when the last of those completed.
    busy: u32,
    last_busy: Option<Ns>,
}

impl Fair {
    pub fn new(knobs: FairKnobs) -> Self {
        Self {
            knobs,
            queues: Vec::new(),
            rounds: Default::default(),
            active: None,
            waiting: 0,
            busy: 0,
            last_busy: None,
        }
    }

    fn queue(&mut self, task: u32) -> &mut Queue {
        let task = task as usize;
        if task >= self.queues.len() {
            self.queues.resize_with(task + 1, Queue::default);
        }
        &mut self.queues[task]
    }

    /// Whether another task of this class or a higher one waits for its turn.
    fn others_wait(&self, class: Class) -> bool {
        self.rounds[..=class.index()].iter().any(|r| !r.is_empty())
    }

    fn higher_waits(&self, class: Class) -> bool {
        self.rounds[..class.index()].iter().any(|r| !r.is_empty())
    }

    /// When the idle class may begin.
    fn idle_from(&self) -> Ns {
        self.last_busy.map_or(0, |at| at + IDLE_DELAY)
    }

    /// Ends the turn; a queue that is not empty goes behind the others.
    fn expire(&mut self) {
        let Some(active) = self.active.take() else { return };
        let q = &mut self.queues[active.task];
        if !q.waiting.is_empty() && !q.in_round {
            q.in_round = true;
            let class = q.class.index();
            self.rounds[class].push_back(active.task);
        }
    }

    /// Whether the turn goes on; where not, it is ended.
    fn turn_goes_on(&mut self, now: Ns) -> bool {
        let Some(active) = self.active else { return false };
        let q = &self.queues[active.task];
        let over = active.end.is_some_and(|end| now >= end) && self.others_wait(q.class);
        let idle = q.class == Class::Idle;
        if over || self.higher_waits(q.class) || (idle && self.busy > 0) {
            self.expire();
            return false;
        }
        let holds =
            q.in_flight > 0 && !idle && self.knobs.slice_idle > 0 && !q.thinks_long(self.knobs.slice_idle);
        let idles = active.idles_until.is_some_and(|until| now < until);
        if q.waiting.is_empty() && !holds && !idles {
            self.expire();
            return false;
        }
        true
    }

    /// Gives the turn to the next queue.
    fn next_turn(&mut self, now: Ns) -> bool {
        let mut classes = self.rounds.iter().enumerate().filter(|(_, round)| !round.is_empty());
        let Some((class, _)) = classes.next() else { return false };
        if class == Class::Idle.index() && (self.busy > 0 || now < self.idle_from()) {
            return false;
        }
        let Some(task) = self.rounds[class].pop_front() else { return false };
        self.queues[task].in_round = false;
        self.active = Some(Active { task, end: None, idles_until: None, looked: false });
        true
    }

    /// The next request of the active queue.
    fn of_active(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        let mut active = self.active?;
        let expire = self.knobs.fifo_expire_sync;
        let alone = !self.rounds.iter().any(|r| !r.is_empty());
        let q = &mut self.queues[active.task];
        let most = match q.class {
            Class::Idle => 1,
            _ if alone => u32::MAX,
            _ => self.knobs.quantum.max(1),
        };
        if q.in_flight >= most {
            return None;
        }
        let late = !std::mem::replace(&mut active.looked, true) && q.waiting.expired(now, expire, requests);
        let by_place = q.waiting.at_or_behind(q.position).or_else(|| q.waiting.lowest());
        let request = by_place.filter(|_| !late).or_else(|| q.waiting.oldest(requests))?;
        q.waiting.remove(request, requests);
        q.position = requests.get(request).end();
        q.in_flight += 1;
        self.busy += u32::from(q.class != Class::Idle);
        self.waiting -= 1;
        self.active = Some(active);
        Some(request)
    }
}

impl Scheduler for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        // Only with the task's own: cfq_allow_bio_merge().
        self.queues.get(bio.task as usize)?.waiting.find_merge(bio, true, requests)
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        self.queue(requests.get(merge.request).task).waiting.merged(merge, length, requests);
    }

    fn insert(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let (task, longest) = (r.task, 2 * self.knobs.slice_idle);
        let is_active = self.active.is_some_and(|a| a.task == task as usize);
        let q = self.queue(task);
        q.class = r.class;
        if let Some(last) = q.last_end.filter(|_| q.waiting.is_empty() && q.in_flight == 0) {
            q.thought((now - last).min(longest));
        }
        q.waiting.insert(request, requests);
        let joins = !is_active && !q.in_round;
        q.in_round |= joins;
        self.waiting += 1;
        if joins {
            self.rounds[r.class.index()].push_back(task as usize);
        }
        if let Some(active) = self.active.as_mut().filter(|_| is_active) {
            active.idles_until = None;
        }
    }

    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        if !self.turn_goes_on(now) && !self.next_turn(now) {
            return None;
        }
        self.of_active(now, requests)
    }

    fn completed(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let knobs = self.knobs;
        let q = self.queue(r.task);
        q.in_flight -= 1;
        q.last_end = Some(now);
        let empty = q.waiting.is_empty() && q.in_flight == 0;
        let waits = q.class != Class::Idle && knobs.slice_idle > 0 && !q.thinks_long(knobs.slice_idle);
        if r.class != Class::Idle {
            self.busy -= 1;
            self.last_busy = Some(now);
        }
        if let Some(active) = self.active.as_mut().filter(|a| a.task == r.task as usize) {
            let end = *active.end.get_or_insert(now + knobs.slice_sync);
            if empty && waits && now < end {
                active.idles_until = Some(now + knobs.slice_idle);
            }
        }
    }

    fn next_timer(&self, _: Ns) -> Option<Ns> {
        if self.waiting == 0 {
            return None;
        }
        let Some(active) = self.active else {
            return (self.busy == 0).then(|| self.idle_from());
        };
        let end = active.end.filter(|_| self.others_wait(self.queues[active.task].class));
        match (active.idles_until, end) {
            (Some(until), Some(end)) => Some(until.min(end)),
            (until, end) => until.or(end),
        }
    }

    fn queued(&self) -> usize {
        self.waiting
    }
}
