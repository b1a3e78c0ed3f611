// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block requests and device queues: Q(ueued) G(ot a request) I(nserted)
//! D(ispatched to the driver) C(omplete), the layers of blktrace's btt.

use plumb_trace::schema::{
    BlockBioQueue, BlockGetrq, BlockRqComplete, BlockRqInsert, BlockRqIssue, BlockRqRequeue, BlockSplit,
};
use std::collections::{HashMap, VecDeque};

/// Requests that stay known after they completed.
const STAMPS: usize = 1 << 16;
/// Bios that nobody finished (bio-based devices do not tell) are forgotten beyond this.
const MOST_BIOS: usize = 1 << 16;

/// include/linux/blk_types.h, the same from 6.1 to 6.18.
/// enum req_op of include/linux/blk_types.h, and its flags.
const REQ_DISCARD: u32 = 3;
const REQ_SECURE_ERASE: u32 = 5;
const REQ_WRITE_ZEROES: u32 = 9;
const REQ_PREFLUSH: u32 = 1 << 18;

/// What a device that lies on top of others did with a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Below {
    /// Nothing that was seen: it is a device of its own.
    #[default]
    Nothing,
    /// This thread served it and completed it.
    Thread(u32),
    /// Its completion was that of this request of a device below.
    Request(u64),
}

/// Life of one request, ns; 0 where the step was not seen or does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    pub dev: u32,
    /// Thread that queued its first bio.
    pub owner: u32,
    /// Bytes; 0 for a flush.
    pub len: u32,
    pub opf: u32,
    /// First sector.
    pub sector: u64,
    pub q: u64,
    pub g: u64,
    /// The device's flush that had to come first was issued.
    pub f: u64,
    /// Inserted in the scheduler's queue.
    pub i: u64,
    pub d: u64,
    pub c: u64,
    /// Requests with the driver when it was issued, itself among them.
    pub depth: u32,
    /// Where its time with the device went, on a stacked device.
    pub below: Below,
}

impl Stamp {
    /// Whether it writes (odd operations send data to the device).
    pub fn is_write(&self) -> bool {
        self.opf & 1 == 1
    }
    /// Whether data goes to or from the device: not so in a flush, nor in a discard, which has a length
    /// (include/linux/blk_types.h, enum req_op).
    pub fn moves_data(&self) -> bool {
        self.len > 0 && !matches!(self.opf & 0xff, REQ_DISCARD | REQ_SECURE_ERASE | REQ_WRITE_ZEROES)
    }
    /// The steps' times in the order q, g, f, i, d, c; each at least the one
    /// before, where one is missing the next one's.
    pub fn steps(&self) -> [u64; 6] {
        let mut steps = [self.q, self.g, self.f, self.i, self.d, self.c];
        for n in (0..5).rev() {
            let next = steps[n + 1];
            steps[n] = if steps[n] == 0 { next } else { steps[n].min(next) };
        }
        steps
    }
}

#[derive(Debug, Clone, Copy)]
struct Bio {
    dev: u32,
    owner: u32,
    len: u32,
    sector: u64,
    q: u64,
    g: u64,
    preflush: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    stamp: Stamp,
    first_bio: u64,
    issued: bool,
    /// Its owner's process counts it as queued.
    counted: bool,
    /// Its bio asked for a flush first.
    preflush: bool,
}

/// Totals of one device's queue.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Requests with data that completed: reads, writes.
    pub requests: [u64; 2],
    /// Bytes of those.
    pub bytes: [u64; 2],
    /// Requests without data: flushes and the like.
    pub flushes: u64,
    /// Discards, secure erases, zeroes that the device writes by itself; and the bytes that they concern.
    pub discards: [u64; 2],
    /// Bios that joined a request.
    pub merges: u64,
    /// Requests that came back from the driver.
    pub requeues: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Sums over requests with data, ns: Q to G, G to flush, flush to I, I to D, D to C.
    pub layers: [u64; 5],
    pub in_flight: u32,
    pub max_in_flight: u32,
    /// When a flush went to the driver last, ns.
    pub last_flush: u64,
    /// Time with at least one with the driver, ns.
    pub busy: u64,
    /// Integral of `in_flight` over time, requests x ns.
    pub area: u128,
    since: u64,
}

impl Device {
    fn step(&mut self, ts: u64) {
        let dt = ts.saturating_sub(self.since);
        if self.in_flight > 0 {
            self.busy += dt;
        }
        self.area += u128::from(self.in_flight) * u128::from(dt);
        self.since = self.since.max(ts);
    }
}

/// What the thread machine must know of a block event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The owner has a request that waits; Q to G took this long, ns.
    Queued(u32, u64),
    /// A request of the owner that waited is with the device, or joined another one that waits.
    Unqueued(u32),
    /// A request of the owner is with the device; it was counted as waiting before, or not.
    Issued(u32, bool),
    /// A request of the owner came back from the driver.
    Requeued(u32),
    /// A request completed: number of its stamp, and whether it was issued before.
    Completed(u64, bool),
}

#[derive(Debug, Default)]
pub struct Blocks {
    bios: HashMap<u64, Bio>,
    merged: HashMap<(u32, u64), u64>,
    requests: HashMap<u64, Request>,
    /// Requests whose data is done, until their slot serves another: one with a
    /// flush behind it completes a second time, and wakes its waiter only then.
    finished: HashMap<u64, Request>,
    stamps: VecDeque<Stamp>,
    first_stamp: u64,
    pub devices: HashMap<u32, Device>,
    /// Completions of requests of which nothing was seen before.
    pub unseen: u64,
    /// When the run begins, ns: what completed before is told at this moment, and not counted.
    begin: u64,
}

impl Blocks {
    /// Of a run that begins at `begin`, ns.
    pub fn new(begin: u64) -> Self {
        Self { begin, ..Self::default() }
    }

    /// The life of a completed request, while it is remembered.
    pub fn stamp(&self, number: u64) -> Option<&Stamp> {
        self.stamps.get(usize::try_from(number.checked_sub(self.first_stamp)?).ok()?)
    }

    /// Tells what served a completed request.
    pub fn served(&mut self, number: u64, below: Below) {
        let at = number.checked_sub(self.first_stamp).and_then(|n| usize::try_from(n).ok());
        if let Some(stamp) = at.and_then(|n| self.stamps.get_mut(n)) {
            stamp.below = below;
        }
    }

    fn remember(&mut self, stamp: Stamp) -> u64 {
        if self.stamps.len() == STAMPS {
            self.stamps.pop_front();
            self.first_stamp += 1;
        }
        self.stamps.push_back(stamp);
        self.first_stamp + self.stamps.len() as u64 - 1
    }

    pub fn queue(&mut self, e: &BlockBioQueue) {
        if self.bios.len() >= MOST_BIOS {
            let mut ages: Vec<u64> = self.bios.values().map(|b| b.q).collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            self.bios.retain(|_, b| b.q > median);
            let bios = &self.bios;
            self.merged.retain(|_, ptr| bios.contains_key(ptr));
        }
        let bio = Bio {
            dev: e.dev,
            owner: e.tid,
            len: e.len,
            sector: e.sector,
            q: e.ts,
            g: 0,
            preflush: e.opf & REQ_PREFLUSH != 0,
        };
        self.bios.insert(e.bio, bio);
    }

    /// A bio is split: a new one takes its front.
    pub fn split(&mut self, e: &BlockSplit) {
        let Some(parent) = self.bios.get_mut(&e.parent) else { return };
        let front = Bio { len: e.len, ..*parent };
        parent.sector = e.sector;
        parent.len = parent.len.saturating_sub(e.len);
        self.bios.insert(e.bio, front);
    }

    /// A bio joined a request.
    pub fn merge(&mut self, ts: u64, ptr: u64, dev: u32) {
        self.devices.entry(dev).or_default().merges += 1;
        if let Some(bio) = self.bios.get_mut(&ptr) {
            bio.g = ts;
            self.merged.insert((bio.dev, bio.sector), ptr);
        }
    }

    /// A request slot was found for a bio.
    pub fn got(&mut self, e: &BlockGetrq) -> Effect {
        let Some(bio) = self.bios.get_mut(&e.bio) else { return Effect::None };
        bio.g = e.ts;
        Effect::Queued(bio.owner, e.ts.saturating_sub(bio.q))
    }

    fn request(&mut self, rq: u64, first_bio: u64, stamp: Stamp) -> &mut Request {
        let fresh = match self.requests.get(&rq) {
            // The slot of a request whose end was not seen serves another.
            Some(old) => old.first_bio != first_bio || old.stamp.sector != stamp.sector,
            None => true,
        };
        if fresh {
            self.finished.remove(&rq);
            let bio = self.bios.get(&first_bio);
            let stamp = Stamp {
                owner: bio.map_or(stamp.owner, |b| b.owner),
                q: bio.map_or(0, |b| b.q),
                g: bio.map_or(0, |b| b.g),
                ..stamp
            };
            let counted = bio.is_some_and(|b| b.g != 0);
            let preflush = bio.is_some_and(|b| b.preflush);
            let new = Request { stamp, first_bio, issued: false, counted, preflush };
            if let Some(old) = self.requests.insert(rq, new) {
                if old.issued {
                    let device = self.devices.entry(old.stamp.dev).or_default();
                    device.step(stamp.i.max(stamp.d));
                    device.in_flight = device.in_flight.saturating_sub(1);
                }
            }
        }
        self.requests.get_mut(&rq).expect("just inserted")
    }

    /// A request enters the scheduler's queue.
    pub fn insert(&mut self, e: &BlockRqInsert) {
        let stamp = Stamp {
            dev: e.dev,
            owner: e.tid,
            len: e.len,
            opf: e.opf,
            sector: e.sector,
            i: e.ts,
            ..Default::default()
        };
        let request = self.request(e.rq, e.bio, stamp);
        if request.stamp.i == 0 {
            request.stamp.i = e.ts;
        }
    }

    /// A request goes to the driver.
    pub fn issue(&mut self, e: &BlockRqIssue) -> Effect {
        let stamp = Stamp {
            dev: e.dev,
            owner: e.tid,
            len: e.len,
            opf: e.opf,
            sector: e.sector,
            d: e.ts,
            ..Default::default()
        };
        // A front merge moved the beginning: the first bio is another one then.
        if let Some(old) = self.requests.get_mut(&e.rq) {
            if old.stamp.i != 0 && !old.issued && old.stamp.dev == e.dev {
                (old.first_bio, old.stamp.sector) = (e.bio, e.sector);
            }
        }
        let flushed = self.devices.get(&e.dev).map_or(0, |d| d.last_flush);
        let request = self.request(e.rq, e.bio, stamp);
        request.stamp.d = e.ts;
        request.stamp.len = e.len;
        if request.preflush && flushed > request.stamp.g && request.stamp.f == 0 {
            request.stamp.f = flushed;
        }
        let again = std::mem::replace(&mut request.issued, true);
        let counted = std::mem::take(&mut request.counted);
        let owner = request.stamp.owner;
        let device = self.devices.entry(e.dev).or_default();
        device.step(e.ts);
        if again {
            return Effect::None;
        }
        if e.len == 0 {
            device.last_flush = e.ts;
        }
        device.in_flight += 1;
        device.max_in_flight = device.max_in_flight.max(device.in_flight);
        let depth = device.in_flight;
        if let Some(request) = self.requests.get_mut(&e.rq) {
            request.stamp.depth = depth;
        }
        Effect::Issued(owner, counted)
    }

    /// The driver gave a request back.
    pub fn requeue(&mut self, e: &BlockRqRequeue) -> Effect {
        let Some(request) = self.requests.get_mut(&e.rq).filter(|r| r.issued) else { return Effect::None };
        request.issued = false;
        request.counted = true;
        let owner = request.stamp.owner;
        let device = self.devices.entry(e.dev).or_default();
        device.step(e.ts);
        device.in_flight = device.in_flight.saturating_sub(1);
        device.requeues += 1;
        Effect::Requeued(owner)
    }

    /// A queued request joined another and is gone.
    pub fn absorb(&mut self, rq: u64) -> Effect {
        match self.requests.remove(&rq) {
            Some(r) if r.counted => Effect::Unqueued(r.stamp.owner),
            _ => Effect::None,
        }
    }

    /// The device finished a request, or a part of it.
    pub fn complete(&mut self, e: &BlockRqComplete) -> Effect {
        if let Some(r) = self.finished.get(&e.rq).filter(|r| e.len == 0 && r.first_bio == e.bio) {
            let number = self.remember(Stamp { c: e.ts, ..r.stamp });
            self.finished.remove(&e.rq);
            return Effect::Completed(number, false);
        }
        let seen = self.requests.get(&e.rq).copied();
        let mut stamp = seen.map_or_else(|| self.flushed(e), |r| r.stamp);
        stamp.c = e.ts;
        if e.left > 0 {
            let number = self.remember(stamp);
            return Effect::Completed(number, false);
        }
        self.requests.remove(&e.rq);
        let issued = seen.is_some_and(|r| r.issued);
        let device = self.devices.entry(e.dev).or_default();
        device.step(e.ts);
        device.errors += u64::from(e.error != 0);
        if issued {
            device.in_flight = device.in_flight.saturating_sub(1);
        }
        if e.ts <= self.begin {
            // Its process let go of it all the same.
        } else if stamp.len == 0 {
            // A flush that was asked for ends with the kernel's own, which is the one that was issued.
            device.flushes += u64::from(issued);
        } else {
            self.unseen += u64::from(!issued);
            if !stamp.moves_data() {
                device.discards[0] += 1;
                device.discards[1] += u64::from(stamp.len);
            }
        }
        if e.ts > self.begin && stamp.moves_data() {
            let way = usize::from(stamp.is_write());
            device.requests[way] += 1;
            device.bytes[way] += u64::from(stamp.len);
            let steps = stamp.steps();
            for (sum, step) in device.layers.iter_mut().zip(steps.windows(2)) {
                *sum += step[1] - step[0];
            }
        }
        match seen {
            Some(r) => {
                self.forget_bios(&r);
                self.finished.insert(e.rq, Request { stamp, ..r });
            }
            None => drop(self.bios.remove(&e.bio)),
        }
        let number = self.remember(stamp);
        Effect::Completed(number, issued || (stamp.len == 0 && stamp.g != 0))
    }

    /// A request that completes without having been inserted or issued: a
    /// flush without data, for which block/blk-flush.c sends one of its own.
    fn flushed(&self, e: &BlockRqComplete) -> Stamp {
        let bio = self.bios.get(&e.bio);
        let g = bio.map_or(0, |b| b.g);
        let sent = self.devices.get(&e.dev).map_or(0, |d| d.last_flush);
        Stamp {
            dev: e.dev,
            owner: bio.map_or(0, |b| b.owner),
            len: e.len,
            opf: e.opf,
            sector: e.sector,
            q: bio.map_or(0, |b| b.q),
            g,
            f: if e.len == 0 && sent >= g { sent } else { 0 },
            ..Default::default()
        }
    }

    fn forget_bios(&mut self, r: &Request) {
        let first = self.bios.remove(&r.first_bio);
        if self.merged.is_empty() {
            return;
        }
        let (mut at, end) = (r.stamp.sector, r.stamp.sector + u64::from(r.stamp.len >> 9));
        while at < end {
            let len = match self.merged.remove(&(r.stamp.dev, at)) {
                Some(ptr) => self.bios.remove(&ptr).map_or(0, |b| b.len),
                None => first.filter(|b| b.sector == at).map_or(0, |b| b.len),
            };
            if len < 512 {
                break;
            }
            at += u64::from(len >> 9);
        }
    }

    /// Events are missing: counts of what is in flight can no longer be trusted.
    pub fn distrust(&mut self, ts: u64) {
        for device in self.devices.values_mut() {
            device.step(ts);
        }
    }

    pub fn finish(&mut self, ts: u64) {
        self.devices.values_mut().for_each(|d| d.step(ts));
    }
}
