// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The life of bios and block requests: Q(ueued), G(ot a request) or M(erged), I(nserted), D(ispatched to the
//! driver), requeued, C(omplete). The account, the views, the exports and replay observe its steps.
//!
//! Rules that all of them share:
//! - A request is its slot's until it completes. An insert or issue continues it after a requeue, and when it names
//!   the same first bio and sector; any other starts a new request, and the old one's end was not seen.
//! - A requeued request keeps its first insert; its issue is the last one. Only its first issue is the step `First`.
//! - A request belongs to the thread whose bio got the slot. Where that was not seen: the thread of its earliest bio;
//!   where none was seen: the thread that inserted or issued it.
//!
//! One decision is the observer's: what to do when events are missing. The account keeps what is open, because every
//! wait needs a cause. Views, exports and replay [`Requests::forget`] it, because a missing item is better than a
//! wrong time.

use plumb_trace::kernel::req;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Bios that nobody finished (bio-based devices do not tell) are forgotten beyond this.
const MOST_BIOS: usize = 1 << 16;
/// Bios for which a completed request's memory is kept.
const KEPT_BIOS: usize = 8;

/// One bio. Times are ns; 0 where the step was not seen or does not exist.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bio {
    pub dev: u32,
    pub owner: u32,
    /// Bytes.
    pub len: u32,
    pub opf: u32,
    /// First sector.
    pub sector: u64,
    pub q: u64,
    /// Got a request of its own.
    pub g: u64,
    pub m: u64,
    /// It holds a request (tag).
    slot: bool,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// With the scheduler, or requeued.
    #[default]
    Queue,
    Driver,
    /// Its data is done. With a flush behind it, it completes a second time and wakes its waiter only then.
    Done,
    Gone,
}

/// One request. Times are ns; 0 where the step was not seen or does not exist.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub dev: u32,
    pub opf: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes; 0 for a flush.
    pub len: u32,
    /// Thread that it belongs to.
    pub owner: u32,
    /// Its owner's bio was queued.
    pub q: u64,
    /// Its owner's bio got the slot.
    pub g: u64,
    /// The device's flush that had to come first was issued.
    pub f: u64,
    /// Inserted in the scheduler's queue the first time.
    pub i: u64,
    /// Issued to the driver the last time.
    pub d: u64,
    pub c: u64,
    /// Error number of its completion; 0 for none.
    pub error: u32,
    /// Requests with the driver when it was issued, itself among them.
    pub depth: u32,
    /// I/O priority as it was issued or inserted with, see [`plumb_trace::kernel::ioprio`].
    pub ioprio: u32,
    /// Its bios in the order of sectors; none for a flush of the kernel's own.
    pub bios: Vec<Bio>,
    first_bio: u64,
    /// What its owner's bio asked for: flags of a flush are taken from a request when it is queued for one.
    asked: u32,
    place: Place,
}

impl Request {
    /// When its earliest bio was queued, ns; `None` where that was not seen.
    pub fn arrival(&self) -> Option<u64> {
        self.bios.iter().map(|b| b.q).min()
    }

    /// Thread whose bio it is; `None` where no bio was seen.
    pub fn owner(&self) -> Option<u32> {
        (!self.bios.is_empty()).then_some(self.owner)
    }

    /// Operation (REQ_OP_...); a write without data that asks for a flush is one.
    pub fn operation(&self) -> u32 {
        if self.len == 0 && ((self.asked | self.opf) & req::PREFLUSH != 0) {
            req::FLUSH
        } else {
            req::op(self.opf)
        }
    }

    /// Its flags, and those of a flush before and behind it that its owner's bio asked for.
    pub fn flags(&self) -> u32 {
        self.opf | self.asked & (req::PREFLUSH | req::FUA)
    }

    /// Takes what its bios tell of it.
    fn belongs(&mut self) {
        // A request that was merged into this one lies behind it, so the first slot is its own.
        let own = self.bios.iter().find(|b| b.slot).or_else(|| self.bios.iter().min_by_key(|b| b.q));
        if let Some(own) = own {
            (self.owner, self.q, self.g) = (own.owner, own.q, own.g);
            self.asked = own.opf;
        }
    }
}

/// A device's queue after a step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Queue {
    /// Bios that were queued and are not issued yet.
    pub waiting: u32,
    /// Requests with the driver.
    pub in_flight: u32,
    /// Request slots in use.
    pub slots: u32,
    /// A flush was issued last, ns.
    flushed: u64,
}

/// Which issue of a request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issue {
    First,
    /// After a requeue.
    Again,
    /// It was with the driver already: its requeue was not seen.
    Repeated,
}

/// What an event did.
#[derive(Debug)]
pub enum Step<'a> {
    /// Nothing of a request, or of one that is not known.
    None,
    /// A bio was queued; its address.
    Queued(&'a Bio, u64, Queue),
    /// A bio was split; the address of its new front.
    Split(u64),
    /// A bio got a request of its own; `None` where its queueing was not seen.
    Got(Option<&'a Bio>, Queue),
    /// A bio joined a request of this device; `None` where its queueing was not seen.
    Merged(u32, Option<&'a Bio>),
    Inserted(&'a Request, Queue),
    Issued(&'a Request, Issue, Queue),
    /// The driver gave it back.
    Requeued(&'a Request, Queue),
    /// A queued request joined another; the thread that waited for it, and whether its slot was seen.
    Absorbed(u32, bool),
    /// A part of it is complete.
    Part(&'a Request),
    /// All of it is complete; whether it was with the driver.
    Completed(&'a Request, bool, Queue),
    /// The flush behind it is complete.
    Flushed(&'a Request),
    /// A request of which nothing was seen before is complete.
    Unseen(&'a Request),
}

#[derive(Debug, Default)]
struct Bios {
    known: FxHashMap<u64, Bio>,
    /// Those that are part of a request: device, direction, first sector, bio.
    placed: BTreeSet<(u32, bool, u64, u64)>,
}

fn place(bio: &Bio, ptr: u64) -> (u32, bool, u64, u64) {
    (bio.dev, req::is_write(bio.opf), bio.sector, ptr)
}

impl Bios {
    fn forget(&mut self, ptr: u64) -> Option<Bio> {
        let bio = self.known.remove(&ptr)?;
        if bio.g != 0 || bio.m != 0 {
            self.placed.remove(&place(&bio, ptr));
        }
        Some(bio)
    }

    /// Moves the bios of a request to it: its first, and those that follow sector by sector.
    fn give(&mut self, to: &mut Request) {
        to.bios.clear();
        let Some(bio) = self.forget(to.first_bio) else { return };
        // A damaged record's sector may be any.
        let behind = |sector: u64, len: u32| sector.saturating_add(u64::from(len >> 9));
        let (mut at, end) = (behind(to.sector, bio.len), behind(to.sector, to.len));
        to.bios.push(bio);
        while at < end && bio.len > 0 {
            let write = req::is_write(to.opf);
            let here = self.placed.range((to.dev, write, at, 0)..=(to.dev, write, at, u64::MAX));
            // Two bios for one place: the one that has no request of its own is in this one.
            let next = here.map(|p| p.3).min_by_key(|p| self.known.get(p).is_none_or(|b| b.m == 0));
            let Some(next) = next.and_then(|ptr| self.forget(ptr)) else { break };
            at = behind(at, next.len.max(512));
            to.bios.push(next);
        }
        to.belongs();
    }
}

/// State machines of all requests.
#[derive(Debug, Default)]
pub struct Requests {
    bios: Bios,
    /// By slot; one that completed stays until its slot serves another.
    requests: FxHashMap<u64, Request>,
    queues: FxHashMap<u32, Queue>,
    /// The request that completed last.
    last: Request,
    /// See [`Requests::ended_unseen`].
    ended_unseen: Option<u32>,
}

impl Requests {
    /// Takes the next item and tells its step; forgets everything where events are missing.
    pub fn feed(&mut self, item: &Item<'_>) -> Step<'_> {
        match item {
            Item::Record(r) => return self.record(r.ts, r),
            Item::Gap(_) => self.forget(),
            Item::Told(_) | Item::Operation(_) => {}
        }
        Step::None
    }

    /// Events are missing: times of what is open now would be wrong.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Requests and bios that are open, at most.
    pub fn open(&self) -> usize {
        self.bios.known.len() + self.requests.len()
    }

    /// Takes a record, at `ts` ns.
    pub fn record(&mut self, ts: u64, r: &RawRecord<'_>) -> Step<'_> {
        let b = r.bytes;
        self.ended_unseen = None;
        match r.id {
            BlockBioQueue::ID => self.queue(ts, &BlockBioQueue { tid: r.tid, ..BlockBioQueue::read(b) }),
            BlockSplit::ID => self.split(&BlockSplit::read(b)),
            BlockGetrq::ID => self.got(ts, &BlockGetrq::read(b)),
            BlockBioBackmerge::ID => {
                let e = BlockBioBackmerge::read(b);
                self.merge(ts, e.bio, e.dev)
            }
            BlockBioFrontmerge::ID => {
                let e = BlockBioFrontmerge::read(b);
                self.merge(ts, e.bio, e.dev)
            }
            BlockRqInsert::ID => self.insert(ts, &BlockRqInsert { tid: r.tid, ..BlockRqInsert::read(b) }),
            BlockRqIssue::ID => self.issue(ts, &BlockRqIssue { tid: r.tid, ..BlockRqIssue::read(b) }),
            BlockRqRequeue::ID => self.requeue(&BlockRqRequeue::read(b)),
            BlockRqMerge::ID => self.absorb(&BlockRqMerge::read(b)),
            BlockRqComplete::ID => self.complete(ts, &BlockRqComplete::read(b)),
            _ => Step::None,
        }
    }

    /// The owner of the request that the last record took the slot from while it was with the driver: its end was not seen.
    pub fn ended_unseen(&self) -> Option<u32> {
        self.ended_unseen
    }

    fn prune(&mut self) {
        let mut ages: Vec<u64> = self.bios.known.values().map(|b| b.q).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        let old: Vec<u64> = self.bios.known.iter().filter(|(_, b)| b.q <= median).map(|(p, _)| *p).collect();
        for ptr in old {
            if let Some(bio) = self.bios.forget(ptr) {
                let queue = self.queues.entry(bio.dev).or_default();
                queue.waiting = queue.waiting.saturating_sub(1);
                queue.slots = queue.slots.saturating_sub(u32::from(bio.slot));
            }
        }
    }

    fn queue(&mut self, ts: u64, e: &BlockBioQueue) -> Step<'_> {
        if self.bios.known.len() >= MOST_BIOS {
            self.prune();
        }
        // The address of a bio whose end was not told serves another.
        let stale = self.bios.forget(e.bio);
        let queue = self.queues.entry(e.dev).or_default();
        if let Some(stale) = stale.filter(|s| s.dev == e.dev) {
            queue.waiting = queue.waiting.saturating_sub(1);
            queue.slots = queue.slots.saturating_sub(u32::from(stale.slot));
        }
        queue.waiting += 1;
        let bio = Bio {
            dev: e.dev,
            owner: e.tid,
            len: e.len,
            opf: e.opf,
            sector: e.sector,
            q: ts,
            ..Default::default()
        };
        Step::Queued(self.bios.known.entry(e.bio).insert_entry(bio).into_mut(), e.bio, *queue)
    }

    /// A bio is split: a new one takes its front.
    fn split(&mut self, e: &BlockSplit) -> Step<'_> {
        if let Some(parent) = self.bios.known.get_mut(&e.parent) {
            let front = Bio { len: e.len, ..*parent };
            parent.sector = e.sector;
            parent.len = parent.len.saturating_sub(e.len);
            self.bios.known.insert(e.bio, front);
            self.queues.entry(e.dev).or_default().waiting += 1;
        }
        Step::Split(e.bio)
    }

    fn got(&mut self, ts: u64, e: &BlockGetrq) -> Step<'_> {
        let Bios { known, placed } = &mut self.bios;
        let Some(bio) = known.get_mut(&e.bio) else { return Step::Got(None, Queue::default()) };
        (bio.g, bio.slot) = (ts, true);
        placed.insert(place(bio, e.bio));
        let queue = self.queues.entry(bio.dev).or_default();
        queue.slots += 1;
        Step::Got(Some(bio), *queue)
    }

    fn merge(&mut self, ts: u64, ptr: u64, dev: u32) -> Step<'_> {
        let Bios { known, placed } = &mut self.bios;
        let Some(bio) = known.get_mut(&ptr) else { return Step::Merged(dev, None) };
        bio.m = ts;
        placed.insert(place(bio, ptr));
        Step::Merged(dev, Some(bio))
    }

    fn insert(&mut self, ts: u64, e: &BlockRqInsert) -> Step<'_> {
        let request = self.requests.entry(e.rq).or_default();
        let continues = match request.place {
            Place::Queue if request.d != 0 => true,
            Place::Queue | Place::Driver => {
                (request.i != 0 || request.d != 0) && request.first_bio == e.bio && request.sector == e.sector
            }
            Place::Done | Place::Gone => false,
        };
        if !continues {
            let new = Request {
                dev: e.dev,
                opf: e.opf,
                sector: e.sector,
                len: e.len,
                owner: e.tid,
                ioprio: e.ioprio,
                first_bio: e.bio,
                ..Default::default()
            };
            self.ended_unseen = replace(request, new, &mut self.queues);
        }
        if request.i == 0 {
            request.i = ts;
        }
        Step::Inserted(request, self.queues.get(&request.dev).copied().unwrap_or_default())
    }

    fn issue(&mut self, ts: u64, e: &BlockRqIssue) -> Step<'_> {
        let request = self.requests.entry(e.rq).or_default();
        let which = match request.place {
            Place::Queue if request.dev == e.dev && request.d != 0 => Issue::Again,
            Place::Driver
                if request.dev == e.dev && request.first_bio == e.bio && request.sector == e.sector =>
            {
                Issue::Repeated
            }
            _ => Issue::First,
        };
        if which == Issue::First && !(request.place == Place::Queue && request.i != 0 && request.dev == e.dev)
        {
            let new = Request { dev: e.dev, opf: e.opf, owner: e.tid, ..Default::default() };
            self.ended_unseen = replace(request, new, &mut self.queues);
        }
        // Merges moved its beginning and its end since it was inserted.
        (request.d, request.sector, request.len, request.first_bio) = (ts, e.sector, e.len, e.bio);
        request.ioprio = e.ioprio;
        request.place = Place::Driver;
        let queue = self.queues.entry(e.dev).or_default();
        if which == Issue::First {
            self.bios.give(request);
            queue.waiting = queue.waiting.saturating_sub(request.bios.len() as u32);
        }
        if request.asked & req::PREFLUSH != 0 && request.f == 0 && queue.flushed > request.g {
            request.f = queue.flushed;
        }
        if which != Issue::Repeated {
            if e.len == 0 {
                queue.flushed = ts;
            }
            queue.in_flight += 1;
            request.depth = queue.in_flight;
        }
        Step::Issued(request, which, *queue)
    }

    fn requeue(&mut self, e: &BlockRqRequeue) -> Step<'_> {
        let Some(request) = self.requests.get_mut(&e.rq).filter(|r| r.place == Place::Driver) else {
            return Step::None;
        };
        request.place = Place::Queue;
        let queue = self.queues.entry(request.dev).or_default();
        queue.in_flight = queue.in_flight.saturating_sub(1);
        Step::Requeued(request, *queue)
    }

    /// A request joined another: its slot is free, its bios wait on.
    fn absorb(&mut self, e: &BlockRqMerge) -> Step<'_> {
        let Some(request) = self.requests.get_mut(&e.rq).filter(|r| r.place == Place::Queue) else {
            return Step::None;
        };
        request.place = Place::Gone;
        let (mut owner, mut counted) = (request.owner, request.d != 0);
        if let Some(bio) = self.bios.known.get_mut(&request.first_bio) {
            owner = bio.owner;
            if std::mem::take(&mut bio.slot) {
                counted = true;
                let queue = self.queues.entry(request.dev).or_default();
                queue.slots = queue.slots.saturating_sub(1);
            }
        }
        Step::Absorbed(owner, counted)
    }

    fn complete(&mut self, ts: u64, e: &BlockRqComplete) -> Step<'_> {
        let Self { bios, requests, queues, last, .. } = self;
        let queue = queues.entry(e.dev).or_default();
        let Some(request) = requests.get_mut(&e.rq) else { return unseen(ts, e, bios, queue, last) };
        match request.place {
            Place::Done if e.len == 0 && request.first_bio == e.bio => {
                request.place = Place::Gone;
                request.c = ts;
                return Step::Flushed(request);
            }
            Place::Done | Place::Gone => return unseen(ts, e, bios, queue, last),
            Place::Queue | Place::Driver => {}
        }
        (request.c, request.error) = (ts, e.error);
        if e.left > 0 {
            return Step::Part(request);
        }
        if request.d == 0 {
            // Its issue was not seen.
            bios.give(request);
            queue.waiting = queue.waiting.saturating_sub(request.bios.len() as u32);
        }
        let with_driver = request.place == Place::Driver;
        request.place = Place::Done;
        queue.in_flight = queue.in_flight.saturating_sub(u32::from(with_driver));
        queue.slots = queue.slots.saturating_sub(slots(request));
        // The slot keeps the request without its bios, and a little memory for the next one's.
        let mut empty = std::mem::take(&mut last.bios);
        empty.clear();
        empty.shrink_to(KEPT_BIOS);
        let bios = std::mem::replace(&mut request.bios, empty);
        *last = Request { bios, ..*request };
        Step::Completed(last, with_driver, *queue)
    }
}

/// A flush without data is neither inserted nor issued: block/blk-flush.c sends one of its own. Anything else was
/// issued before the trace began.
fn unseen<'a>(
    ts: u64,
    e: &BlockRqComplete,
    known: &mut Bios,
    queue: &mut Queue,
    last: &'a mut Request,
) -> Step<'a> {
    let mut bios = std::mem::take(&mut last.bios);
    bios.clear();
    bios.extend(if e.left > 0 { known.known.get(&e.bio).copied() } else { known.forget(e.bio) });
    let (dev, opf, len, sector, error) = (e.dev, e.opf, e.len, e.sector, e.error);
    *last = Request { dev, opf, len, sector, error, c: ts, bios, ..Default::default() };
    last.belongs();
    if e.len == 0 && queue.flushed >= last.g {
        last.f = queue.flushed;
    }
    if e.left > 0 {
        return Step::Part(last);
    }
    if last.bios.is_empty() {
        return Step::Unseen(last);
    }
    queue.waiting = queue.waiting.saturating_sub(1);
    queue.slots = queue.slots.saturating_sub(slots(last));
    Step::Completed(last, false, *queue)
}

fn slots(request: &Request) -> u32 {
    request.bios.iter().filter(|b| b.slot).count() as u32
}

/// A slot serves a new request; where it has an old one, its end was not seen. The owner of one that was with the driver.
fn replace(slot: &mut Request, new: Request, queues: &mut FxHashMap<u32, Queue>) -> Option<u32> {
    let owner = (slot.place == Place::Driver && slot.d != 0).then_some(slot.owner);
    if matches!(slot.place, Place::Queue | Place::Driver) && slot.i | slot.d != 0 {
        let queue = queues.entry(slot.dev).or_default();
        queue.in_flight = queue.in_flight.saturating_sub(u32::from(slot.place == Place::Driver));
        queue.slots = queue.slots.saturating_sub(slots(slot));
    }
    let mut bios = std::mem::take(&mut slot.bios);
    bios.clear();
    *slot = Request { bios, ..new };
    owner
}
