// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block requests and device queues: Q(ueued) G(ot a request) I(nserted)
//! D(ispatched to the driver) C(omplete), the layers of blktrace's btt.

use crate::requests::{Issue, Request, Requests, Step};
use plumb_trace::kernel::req;
use plumb_trace::reader::RawRecord;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// So long a request may take that was issued in a pause of the recording, ns.
const IN_FLIGHT: u64 = 1_000_000_000;
/// Requests that stay known after they completed.
const STAMPS: usize = 1 << 16;

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
    /// The same with the flags of a flush before and behind it, see [`Request::flags`].
    pub flags: u32,
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
    /// I/O priority, see [`plumb_trace::kernel::ioprio`].
    pub ioprio: u32,
    /// Where its device service time went, on a stacked device.
    pub below: Below,
}

impl Stamp {
    pub fn is_write(&self) -> bool {
        req::is_write(self.opf)
    }
    /// Whether data goes to or from the device.
    pub fn moves_data(&self) -> bool {
        req::moves_data(self.opf, self.len)
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

impl From<&Request> for Stamp {
    fn from(r: &Request) -> Self {
        Self {
            dev: r.dev,
            owner: r.owner,
            len: r.len,
            opf: r.opf,
            flags: r.flags(),
            sector: r.sector,
            q: r.q,
            g: r.g,
            f: r.f,
            i: r.i,
            d: r.d,
            c: r.c,
            depth: r.depth,
            ioprio: r.ioprio,
            below: Below::Nothing,
        }
    }
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

    /// Has this many with the driver from now on.
    fn becomes(&mut self, ts: u64, in_flight: u32) {
        self.step(ts);
        self.in_flight = in_flight;
        self.max_in_flight = self.max_in_flight.max(in_flight);
    }

    fn completed(&mut self, stamp: &Stamp, issued: bool) {
        if stamp.len == 0 {
            // A flush that was asked for ends with the kernel's own, which is the one that was issued.
            self.flushes += u64::from(issued);
        } else if !stamp.moves_data() {
            self.discards[0] += 1;
            self.discards[1] += u64::from(stamp.len);
        } else {
            let way = usize::from(stamp.is_write());
            self.requests[way] += 1;
            self.bytes[way] += u64::from(stamp.len);
            let steps = stamp.steps();
            for (sum, step) in self.layers.iter_mut().zip(steps.windows(2)) {
                *sum += step[1] - step[0];
            }
        }
    }
}

/// What the thread machine must know of a block event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The thread that raised it has a bio, at this address, that has no request (tag) yet.
    Queued(u64),
    /// That thread's bio joined a request.
    Joined,
    /// That thread's bio got a request (tag): the owner of the bio has a request that waits, and Q to G took this
    /// long, ns; `None` where the bio is not known.
    Got(Option<(u32, u64)>),
    /// A request of the owner that waited is in flight, or joined another one that waits.
    Unqueued(u32),
    /// A request of the owner is in flight; it was counted as waiting before, or not.
    Issued(u32, bool),
    /// A request of the owner came back from the driver.
    Requeued(u32),
    /// A request completed: number of its stamp, and whether it was issued before.
    Completed(u64, bool),
}

/// The lives of completed requests, for a while.
#[derive(Debug, Default)]
struct Stamps {
    stamps: VecDeque<Stamp>,
    first: u64,
}

impl Stamps {
    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn remember(&mut self, stamp: Stamp) -> u64 {
        if self.stamps.len() == STAMPS {
            self.stamps.pop_front();
            self.first += 1;
        }
        self.stamps.push_back(stamp);
        self.first + self.stamps.len() as u64 - 1
    }
}

/// What the account knows of devices and their requests.
#[derive(Debug, Default)]
pub struct Blocks {
    requests: Requests,
    stamps: Stamps,
    pub devices: FxHashMap<u32, Device>,
    /// Completions of requests of which nothing was seen before.
    pub unseen: u64,
    /// Until then requests that nobody saw may complete, ns.
    unsure: u64,
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
        self.stamps.stamps.get(self.stamps.place(number)?)
    }

    /// A completed request and those that completed before it, last first, while they are remembered.
    pub fn before(&self, number: u64) -> impl Iterator<Item = &Stamp> {
        let end = self.stamps.place(number).map_or(0, |place| place + 1);
        self.stamps.stamps.range(..end).rev()
    }

    /// Tells what served a completed request.
    pub fn served(&mut self, number: u64, below: Below) {
        if let Some(stamp) = self.stamps.place(number).and_then(|n| self.stamps.stamps.get_mut(n)) {
            stamp.below = below;
        }
    }

    /// Requests and bios that are open, at most.
    pub fn open(&self) -> usize {
        self.requests.open()
    }

    /// See [`Requests::ended_unseen`].
    pub fn ended_unseen(&self) -> Option<u32> {
        self.requests.ended_unseen()
    }

    /// Takes a record, at `ts` ns.
    pub fn record(&mut self, ts: u64, r: &RawRecord<'_>) -> Effect {
        let devices = &mut self.devices;
        match self.requests.record(ts, r) {
            Step::None => Effect::None,
            Step::Queued(_, bio, _) | Step::Split(bio) => Effect::Queued(bio),
            Step::Got(bio, _) => Effect::Got(bio.map(|b| (b.owner, ts.saturating_sub(b.q)))),
            Step::Merged(dev, _) => {
                devices.entry(dev).or_default().merges += 1;
                Effect::Joined
            }
            Step::Inserted(r, queue) => {
                // It differs where the slot's last request ended and that was not seen.
                if let Some(device) = devices.get_mut(&r.dev).filter(|d| d.in_flight != queue.in_flight) {
                    device.becomes(ts, queue.in_flight);
                }
                Effect::None
            }
            Step::Issued(r, which, queue) => {
                devices.entry(r.dev).or_default().becomes(ts, queue.in_flight);
                match which {
                    Issue::Repeated => Effect::None,
                    Issue::Again => Effect::Issued(r.owner, true),
                    Issue::First => Effect::Issued(r.owner, r.g != 0),
                }
            }
            Step::Requeued(r, queue) => {
                let device = devices.entry(r.dev).or_default();
                device.becomes(ts, queue.in_flight);
                device.requeues += 1;
                Effect::Requeued(r.owner)
            }
            Step::Absorbed(owner, true) => Effect::Unqueued(owner),
            Step::Absorbed(..) => Effect::None,
            Step::Part(r) | Step::Flushed(r) => Effect::Completed(self.stamps.remember(r.into()), false),
            Step::Completed(r, issued, queue) => {
                let device = devices.entry(r.dev).or_default();
                device.becomes(ts, queue.in_flight);
                device.errors += u64::from(r.error != 0);
                let stamp = Stamp::from(r);
                // What completed before the run begins is told at its begin: its process let go of it all the same.
                if ts > self.begin {
                    device.completed(&stamp, issued);
                    self.unseen += u64::from(!issued && stamp.len > 0 && ts > self.unsure);
                }
                // A flush that was asked for waits since its slot.
                let waited = stamp.len == 0 && stamp.g != 0;
                Effect::Completed(self.stamps.remember(stamp), issued || waited)
            }
            Step::Unseen(r) => {
                let device = devices.entry(r.dev).or_default();
                device.step(ts);
                device.errors += u64::from(r.error != 0);
                if ts > self.begin {
                    device.completed(&r.into(), false);
                    self.unseen += u64::from(r.len > 0 && ts > self.unsure);
                }
                Effect::Completed(self.stamps.remember(r.into()), false)
            }
        }
    }

    /// Events are missing: counts of what is in flight can no longer be trusted.
    pub fn distrust(&mut self, ts: u64) {
        for device in self.devices.values_mut() {
            device.step(ts);
        }
    }

    /// Nothing is recorded from `ts` to `end`, ns: what is open now ends unseen.
    pub fn pause(&mut self, ts: u64, end: u64) {
        self.requests.forget();
        self.devices.values_mut().for_each(|d| d.becomes(ts, 0));
        self.unsure = end.saturating_add(IN_FLIGHT);
    }

    pub fn finish(&mut self, ts: u64) {
        self.devices.values_mut().for_each(|d| d.step(ts));
    }
}
