// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The multi-queue deadline scheduler with priority classes: block/mq-deadline.c, Linux 5.14 and later.
//!
//! Within a class it is the deadline scheduler. A lower class gets its turn when nothing of a higher one
//! is queued or in flight (dd_queued() = inserted - completed), or when its request is older than
//! `prio_aging_expire`.
//!
//! Nobody tells it that the last higher one is done: what it held back then is asked for again when something
//! is inserted or freed a full device, or by blk_mq_do_dispatch_sched()'s timer, which each vain look sets anew
//! (block/blk-mq-sched.c, BLK_MQ_BUDGET_DELAY).

use super::sorted::{choose, Sorted, READ};
use super::{Knob, Scheduler, Taken};
use crate::device::{Ns, Operation};
use crate::queue::requests::{direction, Bio, Class, Merge, Requests};

/// A tick of the kernel's timers, ns: CONFIG_HZ=250, as Debian has it.
const TICK: Ns = 4_000_000;
/// Ticks until the timer comes: its 3 ms are one, and no timer comes early.
const TICKS: Ns = 2;

/// Its knobs, as /sys/block/DISK/queue/iosched has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqDeadlineKnobs {
    /// A read that waited so long begins the next batch, ns.
    pub read_expire: Ns,
    /// The same of a write, ns.
    pub write_expire: Ns,
    pub fifo_batch: u32,
    /// Batches of reads that may go before waiting writes.
    pub writes_starved: u32,
    /// Whether bios join requests at their front too.
    pub front_merges: bool,
    /// A request of a lower class that waited so long goes before the higher ones, ns.
    pub prio_aging_expire: Ns,
    /// Request slots that writes may take; 0: three quarters (dd_depth_updated()).
    pub async_depth: u32,
}

impl Default for MqDeadlineKnobs {
    fn default() -> Self {
        Self {
            read_expire: 500_000_000,
            write_expire: 5_000_000_000,
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
            prio_aging_expire: 10_000_000_000,
            async_depth: 0,
        }
    }
}

impl MqDeadlineKnobs {
    pub fn knobs(&mut self) -> [Knob<'_>; 7] {
        [
            Knob::Milliseconds("read_expire", &mut self.read_expire),
            Knob::Milliseconds("write_expire", &mut self.write_expire),
            Knob::Count("fifo_batch", &mut self.fifo_batch),
            Knob::Count("writes_starved", &mut self.writes_starved),
            Knob::Switch("front_merges", &mut self.front_merges),
            Knob::Milliseconds("prio_aging_expire", &mut self.prio_aging_expire),
            Knob::Count("async_depth", &mut self.async_depth),
        ]
    }
}

/// What waits of one class.
#[derive(Debug, Default)]
struct PerClass {
    waiting: [Sorted; 2],
    /// Behind the last request that went, by direction.
    position: [u64; 2],
    inserted: u64,
    completed: u64,
}

impl PerClass {
    fn queued_or_in_flight(&self) -> bool {
        self.inserted != self.completed
    }
}

#[derive(Debug)]
pub struct MqDeadline {
    knobs: MqDeadlineKnobs,
    classes: [PerClass; 3],
    /// Direction of the last request.
    last_way: usize,
    batching: u32,
    starved: u32,
    /// Whether it is asked: from an insertion, or the timer, until it gives none.
    asked: bool,
    timer: Ns,
}

impl MqDeadline {
    pub fn new(knobs: MqDeadlineKnobs) -> Self {
        let classes = Default::default();
        Self { knobs, classes, last_way: READ, batching: 0, starved: 0, asked: false, timer: 0 }
    }

    fn expire(&self, way: usize) -> Ns {
        [self.knobs.read_expire, self.knobs.write_expire][way]
    }

    /// The next request of a class, unless it came behind `latest`.
    fn of_class(&mut self, class: usize, now: Ns, latest: Ns, requests: &Requests) -> Option<u32> {
        let by_place = |c: &PerClass, way: usize| c.waiting[way].at_or_behind(c.position[way]);
        let going_on = by_place(&self.classes[class], self.last_way);
        let (way, request) = match going_on.filter(|_| self.batching < self.knobs.fifo_batch) {
            Some(request) => (self.last_way, request),
            None => {
                let way = choose(&self.classes[class].waiting, &mut self.starved, self.knobs.writes_starved)?;
                let expire = self.expire(way);
                let c = &mut self.classes[class];
                let next = by_place(c, way).filter(|_| !c.waiting[way].expired(now, expire, requests));
                let request = next.or_else(|| c.waiting[way].oldest(requests))?;
                self.last_way = way;
                self.batching = 0;
                (way, request)
            }
        };
        if requests.get(request).inserted_at > latest {
            return None;
        }
        self.batching += 1;
        let c = &mut self.classes[class];
        c.position[way] = requests.get(request).end();
        c.waiting[way].remove(request, requests);
        Some(request)
    }

    /// The next request that may go.
    fn next(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        if let Some(request) = self.aged(now, requests) {
            return Some(request);
        }
        for class in 0..Class::ALL.len() {
            let request = self.of_class(class, now, now, requests);
            if request.is_some() {
                return request;
            }
            if self.classes[class].queued_or_in_flight() {
                return None;
            }
        }
        None
    }

    /// A request of a lower class that waited too long.
    fn aged(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        let waits = |c: &PerClass| c.waiting.iter().any(|w| !w.is_empty());
        if self.classes.iter().filter(|c| waits(c)).count() < 2 {
            return None;
        }
        let latest = now.checked_sub(self.knobs.prio_aging_expire)?;
        (Class::BestEffort.index()..=Class::Idle.index())
            .find_map(|class| self.of_class(class, now, latest, requests))
    }
}

impl Scheduler for MqDeadline {
    fn name(&self) -> &'static str {
        "mq-deadline"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        let c = &self.classes[bio.class.index()];
        c.waiting[direction(bio.operation)].find_merge(bio, self.knobs.front_merges, requests)
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        let r = requests.get(merge.request);
        self.classes[r.class.index()].waiting[r.direction()].merged(merge, length, requests);
    }

    fn insert(&mut self, _: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let c = &mut self.classes[r.class.index()];
        c.inserted += 1;
        self.asked = true;
        c.waiting[r.direction()].insert(request, requests);
    }

    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        if !self.asked && now < self.timer {
            return None;
        }
        let request = self.next(now, requests);
        self.asked = request.is_some();
        if !self.asked {
            self.timer = (now / TICK + TICKS) * TICK;
        }
        request
    }

    fn next_timer(&self, _: Ns) -> Option<Ns> {
        (!self.asked && self.queued() > 0).then_some(self.timer)
    }

    fn completed(&mut self, _: Ns, request: u32, requests: &Requests) {
        self.classes[requests.get(request).class.index()].completed += 1;
    }

    fn queued(&self) -> usize {
        self.classes.iter().flat_map(|c| &c.waiting).map(Sorted::len).sum()
    }

    fn may_take(&self, _: Ns, bio: &Bio, taken: Taken, nr_requests: usize) -> bool {
        taken.all
            < match (bio.operation, self.knobs.async_depth) {
                (Operation::Read, _) => nr_requests,
                (_, 0) => (3 * nr_requests / 4).max(1),
                (_, depth) => (depth as usize).clamp(1, nr_requests),
            }
    }
}
