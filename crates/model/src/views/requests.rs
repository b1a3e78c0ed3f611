// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block requests with every bio in them: Q(ueued), G(ot a request) or M(erged),
//! I(nserted), D(ispatched to the driver), C(omplete). Three views read the same
//! steps: buffer, blkqueue, btt.

use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;
use std::collections::{BTreeSet, HashMap};

/// Bios that nobody finished (bio-based devices do not tell) are forgotten beyond this.
const MOST_BIOS: usize = 1 << 16;
/// include/linux/blk_types.h: REQ_OP_MASK.
const OP_MASK: u32 = 0xff;
/// include/linux/blk_types.h: REQ_OP_FLUSH.
const OP_FLUSH: u32 = 2;
/// include/linux/blk_types.h, the same from 6.1 to 6.18.
const REQ_PREFLUSH: u32 = 1 << 18;

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
    /// It holds a request slot.
    slot: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Request {
    pub dev: u32,
    pub opf: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes; 0 for a flush.
    pub len: u32,
    /// Inserted in the scheduler's queue, ns, or 0.
    pub i: u64,
    /// Issued to the driver the last time, ns, or 0.
    pub d: u64,
    /// Complete, ns, or 0.
    pub c: u64,
    /// I/O priority, class << 13 | level, as it was issued or inserted with.
    pub ioprio: u32,
    /// Its bios in the order of sectors; none for a flush of the kernel's own.
    pub bios: Vec<Bio>,
    first_bio: u64,
    with_driver: bool,
}

impl Request {
    /// When its first bio was queued, ns; `None` where that was not seen.
    pub fn arrival(&self) -> Option<u64> {
        self.bios.iter().map(|b| b.q).min()
    }

    /// Thread that queued its first bio.
    pub fn owner(&self) -> Option<u32> {
        self.bios.iter().min_by_key(|b| b.q).map(|b| b.owner)
    }

    /// Operation (REQ_OP_...); a write without data that asks for a flush is one.
    pub fn operation(&self) -> u32 {
        if self.len == 0 && self.opf & REQ_PREFLUSH != 0 {
            OP_FLUSH
        } else {
            self.opf & OP_MASK
        }
    }
}

/// A device's queue at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Queue {
    /// Bios that were queued and are not issued yet.
    pub waiting: u32,
    pub in_flight: u32,
    pub slots: u32,
}

/// A step that was taken; the queue is as the step found it.
pub enum Step<'a> {
    Queued(&'a Bio, Queue),
    /// A bio got a request of its own.
    Got(&'a Bio, Queue),
    /// A bio joined another's request.
    Merged(&'a Bio),
    /// A request went to the driver; not told when it goes a second time after a requeue.
    Issued(&'a Request),
    /// A request is complete, with all its parts.
    Completed(&'a Request),
}

/// State machines of all requests.
#[derive(Debug, Default)]
pub struct Requests {
    bios: HashMap<u64, Bio>,
    /// Bios that are part of a request: device, direction, first sector, bio.
    placed: BTreeSet<(u32, bool, u64, u64)>,
    requests: HashMap<u64, Request>,
    queues: HashMap<u32, Queue>,
}

fn place(bio: &Bio, ptr: u64) -> (u32, bool, u64, u64) {
    (bio.dev, bio.opf & 1 == 1, bio.sector, ptr)
}

impl Requests {
    /// Takes the next item and tells the step that it is, if it is one.
    pub fn feed(&mut self, item: &Item<'_>, out: &mut dyn FnMut(Step<'_>)) {
        let r = match item {
            Item::Record(r) => r,
            Item::Gap(_) => {
                // Steps are missing; requests that are open now would get wrong times.
                *self = Self::default();
                return;
            }
            Item::Told(_) | Item::Operation(_) => return,
        };
        let b = r.bytes;
        match r.id {
            BlockBioQueue::ID => self.queue(r, out),
            BlockSplit::ID => self.split(&BlockSplit::read(b)),
            BlockGetrq::ID => self.got(r.ts, BlockGetrq::read(b).bio, out),
            BlockBioBackmerge::ID => self.merge(r.ts, BlockBioBackmerge::read(b).bio, out),
            BlockBioFrontmerge::ID => self.merge(r.ts, BlockBioFrontmerge::read(b).bio, out),
            BlockRqInsert::ID => self.insert(r.ts, &BlockRqInsert::read(b)),
            BlockRqIssue::ID => self.issue(r.ts, &BlockRqIssue::read(b), out),
            BlockRqRequeue::ID => self.requeue(BlockRqRequeue::read(b).rq),
            BlockRqMerge::ID => self.absorb(BlockRqMerge::read(b).rq),
            BlockRqComplete::ID => self.complete(r.ts, &BlockRqComplete::read(b), out),
            _ => {}
        }
    }

    fn forget(&mut self, ptr: u64) -> Option<Bio> {
        let bio = self.bios.remove(&ptr)?;
        self.placed.remove(&place(&bio, ptr));
        Some(bio)
    }

    fn prune(&mut self) {
        let mut ages: Vec<u64> = self.bios.values().map(|b| b.q).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        let old: Vec<u64> = self.bios.iter().filter(|(_, b)| b.q <= median).map(|(p, _)| *p).collect();
        for ptr in old {
            if let Some(bio) = self.forget(ptr) {
                let queue = self.queues.entry(bio.dev).or_default();
                queue.waiting = queue.waiting.saturating_sub(1);
                queue.slots = queue.slots.saturating_sub(u32::from(bio.slot));
            }
        }
    }

    fn queue(&mut self, r: &RawRecord<'_>, out: &mut dyn FnMut(Step<'_>)) {
        let e = BlockBioQueue::read(r.bytes);
        if self.bios.len() >= MOST_BIOS {
            self.prune();
        }
        let bio = Bio {
            dev: e.dev,
            owner: r.tid,
            len: e.len,
            opf: e.opf,
            sector: e.sector,
            q: r.ts,
            ..Default::default()
        };
        // The address of a bio whose end was not told serves another.
        let stale = self.forget(e.bio);
        self.bios.insert(e.bio, bio);
        let queue = self.queues.entry(e.dev).or_default();
        if let Some(stale) = stale.filter(|s| s.dev == e.dev) {
            queue.waiting = queue.waiting.saturating_sub(1);
            queue.slots = queue.slots.saturating_sub(u32::from(stale.slot));
        }
        let found = *queue;
        queue.waiting += 1;
        out(Step::Queued(&bio, found));
    }

    fn split(&mut self, e: &BlockSplit) {
        let Some(parent) = self.bios.get_mut(&e.parent) else { return };
        let front = Bio { len: e.len, ..*parent };
        parent.sector = e.sector;
        parent.len = parent.len.saturating_sub(e.len);
        self.bios.insert(e.bio, front);
        self.queues.entry(e.dev).or_default().waiting += 1;
    }

    fn got(&mut self, ts: u64, ptr: u64, out: &mut dyn FnMut(Step<'_>)) {
        let Some(bio) = self.bios.get_mut(&ptr) else { return };
        (bio.g, bio.slot) = (ts, true);
        self.placed.insert(place(bio, ptr));
        let queue = self.queues.entry(bio.dev).or_default();
        let found = *queue;
        queue.slots += 1;
        out(Step::Got(bio, found));
    }

    fn merge(&mut self, ts: u64, ptr: u64, out: &mut dyn FnMut(Step<'_>)) {
        let Some(bio) = self.bios.get_mut(&ptr) else { return };
        bio.m = ts;
        self.placed.insert(place(bio, ptr));
        out(Step::Merged(bio));
    }

    fn insert(&mut self, ts: u64, e: &BlockRqInsert) {
        if let Some(known) = self.requests.get_mut(&e.rq).filter(|r| r.d != 0 && !r.with_driver) {
            // Back from the driver: it keeps the time of its first insertion.
            known.i = if known.i == 0 { ts } else { known.i };
            return;
        }
        let new = Request {
            dev: e.dev,
            opf: e.opf,
            sector: e.sector,
            len: e.len,
            i: ts,
            ioprio: e.ioprio,
            first_bio: e.bio,
            ..Default::default()
        };
        self.replace(e.rq, new);
    }

    /// A slot serves a new request; the end of the old one was not seen if there is one.
    fn replace(&mut self, rq: u64, new: Request) {
        if let Some(old) = self.requests.insert(rq, new) {
            let queue = self.queues.entry(old.dev).or_default();
            queue.in_flight = queue.in_flight.saturating_sub(u32::from(old.with_driver));
            let slots = old.bios.iter().filter(|b| b.slot).count() as u32;
            queue.slots = queue.slots.saturating_sub(slots);
        }
    }

    fn issue(&mut self, ts: u64, e: &BlockRqIssue, out: &mut dyn FnMut(Step<'_>)) {
        let known = self.requests.get(&e.rq).is_some_and(|r| r.dev == e.dev && !r.with_driver);
        if !known {
            let new = Request { dev: e.dev, opf: e.opf, first_bio: e.bio, ..Default::default() };
            self.replace(e.rq, new);
        }
        let mut request = self.requests.remove(&e.rq).expect("known, or just made");
        let again = request.d != 0;
        // Merges moved its beginning and its end since it was inserted.
        (request.d, request.sector, request.len, request.first_bio) = (ts, e.sector, e.len, e.bio);
        request.ioprio = e.ioprio;
        request.with_driver = true;
        if !again {
            request.bios = self.take_bios(e.bio, e.dev, e.opf & 1 == 1, e.sector, e.len);
        }
        let queue = self.queues.entry(e.dev).or_default();
        queue.in_flight += 1;
        if !again {
            queue.waiting = queue.waiting.saturating_sub(request.bios.len() as u32);
            out(Step::Issued(&request));
        }
        self.requests.insert(e.rq, request);
    }

    /// The bios of a request: its first, and those that follow sector by sector.
    fn take_bios(&mut self, first: u64, dev: u32, write: bool, sector: u64, len: u32) -> Vec<Bio> {
        let Some(bio) = self.forget(first) else { return Vec::new() };
        // A damaged record's sector may be any.
        let behind = |sector: u64, len: u32| sector.saturating_add(u64::from(len >> 9));
        let (mut at, end) = (behind(sector, bio.len), behind(sector, len));
        let mut bios = vec![bio];
        while at < end && bio.len > 0 {
            let here = self.placed.range((dev, write, at, 0)..=(dev, write, at, u64::MAX));
            // Two bios for one place: the one that has no request of its own is in this one.
            let next = here.map(|p| p.3).min_by_key(|p| self.bios.get(p).is_none_or(|b| b.m == 0));
            let Some(next) = next.and_then(|ptr| self.forget(ptr)) else { break };
            at = behind(at, next.len.max(512));
            bios.push(next);
        }
        bios
    }

    fn requeue(&mut self, rq: u64) {
        let Some(request) = self.requests.get_mut(&rq).filter(|r| r.with_driver) else { return };
        request.with_driver = false;
        let queue = self.queues.entry(request.dev).or_default();
        queue.in_flight = queue.in_flight.saturating_sub(1);
    }

    /// A request joined another: its slot is free, its bios wait on.
    fn absorb(&mut self, rq: u64) {
        let Some(request) = self.requests.remove(&rq) else { return };
        if let Some(bio) = self.bios.get_mut(&request.first_bio).filter(|b| b.slot) {
            bio.slot = false;
            let queue = self.queues.entry(request.dev).or_default();
            queue.slots = queue.slots.saturating_sub(1);
        }
    }

    fn complete(&mut self, ts: u64, e: &BlockRqComplete, out: &mut dyn FnMut(Step<'_>)) {
        if e.left > 0 {
            return;
        }
        let mut request = match self.requests.remove(&e.rq) {
            Some(request) => request,
            // A flush without data is neither inserted nor issued: block/blk-flush.c
            // sends one of its own. Anything else was issued before the trace began.
            None => {
                let Some(bio) = self.forget(e.bio) else { return };
                let queue = self.queues.entry(e.dev).or_default();
                queue.waiting = queue.waiting.saturating_sub(1);
                Request { dev: e.dev, opf: bio.opf, sector: e.sector, bios: vec![bio], ..Default::default() }
            }
        };
        request.c = ts;
        let queue = self.queues.entry(request.dev).or_default();
        queue.in_flight = queue.in_flight.saturating_sub(u32::from(request.with_driver));
        let slots = request.bios.iter().filter(|b| b.slot).count() as u32;
        queue.slots = queue.slots.saturating_sub(slots);
        out(Step::Completed(&request));
    }
}
