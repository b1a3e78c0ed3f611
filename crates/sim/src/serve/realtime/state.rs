// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is under way: the model, the requests that it has, and its time.

use super::{Front, Job, Served};
use crate::device::{Completion, Device, Ns, Operation, Request};
use plumb_machine::clock::now as monotonic;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests whose model time is kept for [`super::Realtime::last_service`].
const SERVED: usize = 4096;
/// Models are told of whole sectors.
const SECTOR: u64 = 512;

/// A request that waits for its reply.
pub(super) struct Under {
    pub(super) front: Arc<dyn Front>,
    pub(super) job: Job,
    /// A write's data; empty: zeroes.
    pub(super) data: Vec<u8>,
    /// CLOCK_MONOTONIC, ns.
    pub(super) arrival: u64,
    submitted: Ns,
    /// Of its arrival among all.
    number: u64,
}

/// A request whose reply is due.
pub(super) struct Due {
    pub(super) under: Under,
    pub(super) completion: Completion,
}

impl Due {
    /// The model's time for it.
    pub(super) fn service(&self) -> Ns {
        self.completion.at.saturating_sub(self.under.submitted)
    }
}

#[derive(Default)]
struct Slot {
    /// How often the slot was used: tells a request from an earlier one that was given up.
    round: u32,
    under: Option<Under>,
}

pub(super) struct State {
    device: Box<dyn Device>,
    /// CLOCK_MONOTONIC at the model's time 0, ns.
    start: u64,
    /// The model's time has got so far. Up to `path` before the clock's.
    reached: Ns,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ended: Vec<Completion>,
    arrivals: u64,
    served: VecDeque<(u64, Served)>,
    /// When the clock thread looks next, CLOCK_MONOTONIC ns; 0: it is not asleep; `u64::MAX`: when called.
    pub(super) armed: u64,
    /// Replies go out so much before the model's completion, ns.
    pub(super) path: u64,
    /// Replies at once; the model is not asked.
    pub(super) without_model: bool,
    pub(super) off: bool,
    /// Everything fails from now on.
    pub(super) failing: bool,
    /// The clock thread ends.
    pub(super) stopping: bool,
}

impl State {
    pub(super) fn new(device: Box<dyn Device>) -> Self {
        Self {
            device,
            start: monotonic(),
            reached: 0,
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            arrivals: 0,
            served: VecDeque::new(),
            armed: 0,
            path: 0,
            without_model: false,
            off: false,
            failing: false,
            stopping: false,
        }
    }

    /// A fresh model, whose time begins now; when that is, CLOCK_MONOTONIC ns.
    pub(super) fn renew(&mut self, device: Box<dyn Device>) -> u64 {
        self.device = device;
        self.start = monotonic();
        self.reached = 0;
        self.served.clear();
        self.start
    }

    /// Gives a request to the model. What else ended until then is added to `due`.
    pub(super) fn submit(
        &mut self,
        front: &Arc<dyn Front>,
        job: Job,
        data: Vec<u8>,
        arrival: u64,
        due: &mut Vec<Due>,
    ) {
        // Not before what it was already told of; and the clock may have been read long ago.
        let now = arrival.saturating_sub(self.start).max(self.reached);
        self.reached = now;
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let (offset, length) = sectors(&job);
        let (operation, fua) = (job.operation, job.fua);
        let slot = &mut self.slots[place as usize];
        slot.round = slot.round.wrapping_add(1);
        let id = u64::from(slot.round) << 32 | u64::from(place);
        self.arrivals += 1;
        let number = self.arrivals;
        slot.under = Some(Under { front: Arc::clone(front), job, data, arrival, submitted: now, number });
        // After it is known here: whatever the model does, the request can be given up.
        self.device.advance(now, &mut self.ended);
        self.device.submit(now, Request { id, operation, offset, length, fua });
        self.take_due(due);
    }

    /// Lets the model's time pass up to the clock's and the path's; adds what ended.
    pub(super) fn pass(&mut self, due: &mut Vec<Due>) {
        let horizon = monotonic().saturating_sub(self.start).saturating_add(self.path);
        while let Some(next) = self.device.next_event().filter(|&next| next <= horizon) {
            self.reached = self.reached.max(next);
            self.device.advance(self.reached, &mut self.ended);
        }
        self.take_due(due);
    }

    fn take_due(&mut self, due: &mut Vec<Due>) {
        let mut ended = std::mem::take(&mut self.ended);
        for completion in ended.drain(..) {
            let Some(under) = self.take(completion.id) else { continue };
            let one = Due { under, completion };
            if self.served.len() == SERVED {
                self.served.pop_front();
            }
            let Job { operation, offset, length, .. } = one.under.job;
            self.served
                .push_back((one.under.number, Served { operation, offset, length, service: one.service() }));
            due.push(one);
        }
        self.ended = ended;
    }

    /// The request of that id. None: it was given up.
    fn take(&mut self, id: u64) -> Option<Under> {
        let place = id as u32;
        let slot = self.slots.get_mut(place as usize).filter(|slot| u64::from(slot.round) == id >> 32)?;
        let under = slot.under.take()?;
        self.free.push(place);
        Some(under)
    }

    /// Gives up everything that is under way, in the order of arrival.
    pub(super) fn give_up(&mut self) -> Vec<Under> {
        let mut all = Vec::new();
        for (slot, place) in self.slots.iter_mut().zip(0..) {
            if let Some(under) = slot.under.take() {
                self.free.push(place);
                all.push(under);
            }
        }
        all.sort_by_key(|under| under.number);
        all
    }

    /// When the clock thread has something to do, CLOCK_MONOTONIC ns.
    pub(super) fn next(&self) -> Option<u64> {
        // What the model still does for requests that were given up wakes nobody.
        if self.slots.len() == self.free.len() {
            return None;
        }
        let next = self.device.next_event()?;
        Some(self.start.saturating_add(next).saturating_sub(self.path))
    }

    pub(super) fn take_served(&mut self) -> Vec<Served> {
        self.served.make_contiguous().sort_by_key(|(number, _)| *number);
        self.served.drain(..).map(|(_, served)| served).collect()
    }
}

/// The whole sectors that a request touches.
fn sectors(job: &Job) -> (u64, u32) {
    if job.operation == Operation::Flush {
        return (0, 0);
    }
    let first = job.offset / SECTOR * SECTOR;
    let end = job.offset.saturating_add(job.length.into()).div_ceil(SECTOR).saturating_mul(SECTOR);
    // The last sector of 4 GiB does not fit.
    (first, u32::try_from(end - first).unwrap_or(u32::MAX - 511))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_of_whole_sectors() {
        let of =
            |offset, length, operation| sectors(&Job { operation, offset, length, fua: false, token: 0 });
        assert_eq!(of(0, 512, Operation::Read), (0, 512));
        assert_eq!(of(511, 2, Operation::Write), (0, 1024));
        assert_eq!(of(1024, 1, Operation::Discard), (1024, 512));
        assert_eq!(of(7, 7, Operation::Flush), (0, 0));
        assert_eq!(of(1, u32::MAX, Operation::Discard), (0, u32::MAX - 511));
    }
}
