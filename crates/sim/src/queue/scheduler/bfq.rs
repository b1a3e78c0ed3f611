// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Budgets of sectors for each task, after BFQ (block/bfq-iosched.c, Linux 4.12 and later), simplified.
//!
//! Each task has a queue. The one that has had least service goes next, and is served alone until its budget is used
//! up; when it is empty before that, the disk idles for its next request, unless the task usually thinks longer than
//! `slice_idle`. The idle class is served when nobody else has had a request for a while. What the real one has
//! besides is left out: weights, groups, budgets that follow what a task uses, raised weights for what seems
//! interactive, injection into idle time, queues that cooperate.

use super::sorted::Sorted;
use super::{Knob, Scheduler};
use crate::device::Ns;
use crate::queue::requests::{Bio, Class, Merge, Requests};

/// The idle class waits so long for others (BFQ_CL_IDLE_TIMEOUT), ns.
const IDLE_DELAY: Ns = 200_000_000;
/// bfq_default_max_budget, sectors.
const BUDGET: u32 = 16 * 1024;
const SECTOR: u32 = 512;

/// Its knobs, as /sys/block/DISK/queue/iosched has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BfqKnobs {
    /// How long the disk waits for the next request of a task, ns; 0 does not wait.
    pub slice_idle: Ns,
    /// Sectors of a task's turn; 0: the default, which the kernel's fits to the disk.
    pub max_budget: u32,
    /// A request that waited so long goes first when its task's turn begins, ns.
    pub fifo_expire_sync: Ns,
}

impl Default for BfqKnobs {
    fn default() -> Self {
        Self { slice_idle: 8_000_000, max_budget: 0, fifo_expire_sync: 125_000_000 }
    }
}

impl BfqKnobs {
    pub fn knobs(&mut self) -> [Knob<'_>; 3] {
        [
            Knob::Milliseconds("slice_idle", &mut self.slice_idle),
            Knob::Count("max_budget", &mut self.max_budget),
            Knob::Milliseconds("fifo_expire_sync", &mut self.fifo_expire_sync),
        ]
    }

    fn budget(&self) -> u64 {
        u64::from(if self.max_budget == 0 { BUDGET } else { self.max_budget })
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Sorted,
    class: Class,
    in_flight: u32,
    /// Behind the last request that went.
    position: u64,
    /// Sectors that it has had, counted from what others had when it came back.
    service: u64,
    last_end: Option<Ns>,
    /// Think time as a decaying mean, ns: bfq_update_io_thinktime().
    think: Option<Ns>,
}

impl Queue {
    fn waits(&self, class: Class) -> bool {
        !self.waiting.is_empty() && self.class == class
    }
}

/// The queue whose turn it is.
#[derive(Debug, Clone, Copy)]
struct Active {
    task: usize,
    /// Sectors that are left.
    left: u64,
    /// The disk waits for its next request until then.
    idles_until: Option<Ns>,
    /// The oldest request was looked at in this turn.
    looked: bool,
}

#[derive(Debug)]
pub struct Bfq {
    knobs: BfqKnobs,
    queues: Vec<Queue>,
    active: Option<Active>,
    waiting: usize,
    /// Service of the queue that had its turn last: who comes back begins there.
    reached: u64,
    /// Of the classes above idle: requests that wait or are in flight, and when the last of them completed.
    others: u32,
    last_other: Option<Ns>,
}

impl Bfq {
    pub fn new(knobs: BfqKnobs) -> Self {
        Self { knobs, queues: Vec::new(), active: None, waiting: 0, reached: 0, others: 0, last_other: None }
    }

    fn queue(&mut self, task: u32) -> &mut Queue {
        let task = task as usize;
        if task >= self.queues.len() {
            self.queues.resize_with(task + 1, Queue::default);
        }
        &mut self.queues[task]
    }

    /// When the idle class may begin.
    fn idle_from(&self) -> Ns {
        self.last_other.map_or(0, |at| at + IDLE_DELAY)
    }

    fn higher_waits(&self, class: Class) -> bool {
        Class::ALL[..class.index()].iter().any(|class| self.queues.iter().any(|q| q.waits(*class)))
    }

    /// Whether the disk is kept for a task that has nothing waiting.
    fn worth_idling(&self, task: usize) -> bool {
        let (q, idle) = (&self.queues[task], self.knobs.slice_idle);
        q.class != Class::Idle && idle > 0 && q.think.is_none_or(|think| think <= idle)
    }

    /// Whether the turn goes on; where not, it is ended.
    fn turn_goes_on(&mut self, now: Ns) -> bool {
        let Some(active) = self.active else { return false };
        let q = &self.queues[active.task];
        let displaced = self.higher_waits(q.class) || (q.class == Class::Idle && self.others > 0);
        let idles = active.idles_until.is_some_and(|until| now < until);
        let holds = q.in_flight > 0 && self.worth_idling(active.task);
        if displaced || active.left == 0 || (q.waiting.is_empty() && !idles && !holds) {
            self.active = None;
            return false;
        }
        true
    }

    /// Gives the turn to the queue of the highest class that has had least.
    fn next_turn(&mut self, now: Ns) -> bool {
        let least = |class: Class| {
            let own = self.queues.iter().enumerate().filter(|(_, q)| q.waits(class));
            own.min_by_key(|(_, q)| q.service).map(|(task, q)| (class, task, q.service))
        };
        let Some((class, task, service)) = Class::ALL.into_iter().find_map(least) else { return false };
        if class == Class::Idle && (self.others > 0 || now < self.idle_from()) {
            return false;
        }
        self.reached = self.reached.max(service);
        self.active = Some(Active { task, left: self.knobs.budget(), idles_until: None, looked: false });
        true
    }

    /// The next request of the active queue.
    fn of_active(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        let expire = self.knobs.fifo_expire_sync;
        let active = self.active.as_mut()?;
        let q = &mut self.queues[active.task];
        let late = !std::mem::replace(&mut active.looked, true) && q.waiting.expired(now, expire, requests);
        let by_place = q.waiting.at_or_behind(q.position).or_else(|| q.waiting.lowest());
        let request = by_place.filter(|_| !late).or_else(|| q.waiting.oldest(requests))?;
        let r = requests.get(request);
        let sectors = u64::from(r.length / SECTOR).max(1);
        q.waiting.remove(request, requests);
        q.position = r.end();
        q.in_flight += 1;
        q.service += sectors;
        active.left = active.left.saturating_sub(sectors);
        self.waiting -= 1;
        Some(request)
    }
}

impl Scheduler for Bfq {
    fn name(&self) -> &'static str {
        "bfq"
    }

    fn find_merge(&self, bio: &Bio, requests: &Requests) -> Option<Merge> {
        self.queues.get(bio.task as usize)?.waiting.find_merge(bio, true, requests)
    }

    fn merged(&mut self, merge: Merge, length: u32, requests: &Requests) {
        self.queue(requests.get(merge.request).task).waiting.merged(merge, length, requests);
    }

    fn insert(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        let (task, reached) = (r.task, self.reached);
        self.others += u32::from(r.class != Class::Idle);
        self.waiting += 1;
        let q = self.queue(task);
        q.class = r.class;
        if q.waiting.is_empty() && q.in_flight == 0 {
            q.service = q.service.max(reached);
            let thought = q.last_end.map(|last| now - last);
            q.think = thought.map(|now| q.think.map_or(now, |before| (7 * before + now) / 8));
        }
        q.waiting.insert(request, requests);
        if let Some(active) = self.active.as_mut().filter(|a| a.task == task as usize) {
            active.idles_until = None;
        }
    }

    fn dispatch(&mut self, now: Ns, requests: &Requests) -> Option<u32> {
        if self.waiting == 0 || (!self.turn_goes_on(now) && !self.next_turn(now)) {
            return None;
        }
        self.of_active(now, requests)
    }

    fn completed(&mut self, now: Ns, request: u32, requests: &Requests) {
        let r = requests.get(request);
        if r.class != Class::Idle {
            self.others -= 1;
            self.last_other = Some(now);
        }
        let task = r.task as usize;
        let q = self.queue(r.task);
        q.in_flight -= 1;
        q.last_end = Some(now);
        let idles = q.waiting.is_empty() && q.in_flight == 0 && self.worth_idling(task);
        let until = now + self.knobs.slice_idle;
        if let Some(active) = self.active.as_mut().filter(|a| idles && a.task == task) {
            active.idles_until = Some(until);
        }
    }

    fn next_timer(&self, _: Ns) -> Option<Ns> {
        if self.waiting == 0 {
            return None;
        }
        match self.active {
            Some(active) => active.idles_until,
            None => (self.others == 0).then(|| self.idle_from()),
        }
    }

    fn queued(&self) -> usize {
        self.waiting
    }
}
