// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on their way through the disk: events, controller, wire, buffer; the arm in [`work`].

mod work;

use super::arm::{Arm, Mechanics, Run, Travel};
use super::dirty::Dirty;
use super::geometry::{Place, TURN};
use super::segments::Segments;
use super::spec::Hdd;
use super::SECTOR;
use crate::device::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use crate::spec::SpecError;
use plumb_stats::random::SplitMix64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What happens next to whom; commands by their slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The controller understood the command.
    Understood(usize),
    /// A write's data is in the buffer.
    Arrived(usize),
    /// The arm has done what it did.
    ArmDone,
    /// A read's data is at the host.
    Sent(usize),
    /// What waits in the buffer may have the arm now.
    Idle,
}

#[derive(Debug, Clone, Copy)]
struct Command {
    request: Request,
    submitted: Ns,
    /// Up to when `parts` tell its time.
    since: Ns,
    parts: Parts,
    first: u64,
    end: u64,
    /// A read: the first sector that was not in the buffer when it came.
    missing: u64,
    /// A flush: the epoch that it waits for.
    epoch: u64,
}

/// A command that waits for the arm.
#[derive(Debug, Clone, Copy)]
struct Queued {
    slot: usize,
    submitted: Ns,
    first: u64,
    write: bool,
    /// Where `first` is, once that was asked for.
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Work {
    /// For whom; none: for the write cache.
    slot: Option<usize>,
    run: Run,
    travel: Travel,
}

/// Reading on behind a read, from `at` on with sector `run.first`.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    at: Ns,
    run: Run,
}

#[derive(Debug)]
pub(super) struct Disk {
    mechanics: Mechanics,
    /// Sectors that are served.
    sectors: u64,
    turn: Ns,
    overhead: Ns,
    interface_rate: u64,
    depth: usize,
    aging: Ns,
    volatile: bool,
    /// Sectors that may wait to be written.
    room: u64,

    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    /// Events so far: equal times keep their order.
    number: u64,
    commands: Vec<Command>,
    free: Vec<usize>,
    /// Those that found no place in the queue.
    outside: VecDeque<usize>,
    /// Places of the queue that are taken.
    inside: usize,
    controller_free: Ns,
    wire_free: Ns,
    queue: Vec<Queued>,
    /// Writes that wait for room in the buffer.
    crowd: VecDeque<usize>,
    flushes: Vec<usize>,
    arm: Arm,
    work: Option<Work>,
    ahead: Option<Ahead>,
    segments: Segments,
    dirty: Dirty,
    /// The last work was for a command.
    served: bool,
    /// Before that the write cache leaves the arm where it is: a reader may come back.
    reserved: Ns,
    /// An [`Event::Idle`] is due.
    idle: bool,
    ended: Vec<Completion>,
}

impl Disk {
    /// See [`super::build`].
    pub fn new(hdd: &Hdd, size: u64, seed: u64) -> Result<Self, SpecError> {
        hdd.check()?;
        let mechanics = Mechanics::new(hdd, SplitMix64::new(seed).below(TURN))?;
        let whole = mechanics.geometry.sectors * SECTOR;
        if size == 0 || size % SECTOR != 0 || size > whole {
            return Err(SpecError(format!(
                "size = {size}: cylinders, heads and zones make {whole} bytes; give a multiple of 512 up to that"
            )));
        }
        Ok(Self {
            mechanics,
            sectors: size / SECTOR,
            turn: hdd.turn(),
            overhead: hdd.overhead.0,
            interface_rate: hdd.interface_rate.0,
            depth: hdd.queue_depth as usize,
            aging: hdd.aging.0,
            volatile: hdd.write_cache,
            room: hdd.write_room_bytes() / SECTOR,
            events: BinaryHeap::new(),
            number: 0,
            commands: Vec::new(),
            free: Vec::new(),
            outside: VecDeque::new(),
            inside: 0,
            controller_free: 0,
            wire_free: 0,
            queue: Vec::new(),
            crowd: VecDeque::new(),
            flushes: Vec::new(),
            arm: Arm::default(),
            work: None,
            ahead: None,
            segments: Segments::new(hdd.segments, hdd.cache.0 / u64::from(hdd.segments) / SECTOR),
            dirty: Dirty::new(),
            served: false,
            reserved: 0,
            idle: false,
            ended: Vec::new(),
        })
    }

    fn happen(&mut self, at: Ns, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    /// ns on the wire.
    fn wire(&self, bytes: u64) -> Ns {
        (bytes * 1_000_000_000).div_ceil(self.interface_rate)
    }

    /// Lets commands into the queue while it has places.
    fn admit(&mut self, now: Ns) {
        while self.inside < self.depth {
            let Some(slot) = self.outside.pop_front() else { return };
            self.inside += 1;
            let start = now.max(self.controller_free);
            self.controller_free = start + self.overhead;
            let command = &mut self.commands[slot];
            command.parts.queued += start - command.since;
            command.parts.overhead += self.overhead;
            command.since = self.controller_free;
            self.happen(self.controller_free, Event::Understood(slot));
        }
    }

    fn finish(&mut self, now: Ns, slot: usize, outcome: Outcome) {
        let command = &self.commands[slot];
        debug_assert_eq!(command.parts.total(), now - command.submitted, "{command:?}");
        self.ended.push(Completion { id: command.request.id, at: now, outcome, parts: command.parts });
        self.free.push(slot);
        self.inside -= 1;
        self.admit(now);
    }

    fn understood(&mut self, now: Ns, slot: usize) {
        let Command { request, first, end, .. } = self.commands[slot];
        let transfers = matches!(request.operation, Operation::Read | Operation::Write);
        if request.operation != Operation::Flush && end > self.sectors {
            let errno = if request.operation == Operation::Write { libc::ENOSPC } else { libc::EIO };
            return self.finish(now, slot, Outcome::Failed(errno));
        }
        if request.operation == Operation::Flush {
            let Some(epoch) = self.dirty.end_epoch() else {
                return self.finish(now, slot, Outcome::Done);
            };
            self.commands[slot].epoch = epoch;
            self.flushes.push(slot);
            return self.employ(now);
        }
        if !transfers || first == end {
            return self.finish(now, slot, Outcome::Done);
        }
        let wire = self.wire(u64::from(request.length));
        if request.operation == Operation::Write {
            let start = now.max(self.wire_free);
            self.wire_free = start + wire;
            let command = &mut self.commands[slot];
            command.parts.queued += start - now;
            command.parts.overhead += wire;
            command.since = self.wire_free;
            return self.happen(self.wire_free, Event::Arrived(slot));
        }
        self.follow(now, first, end);
        let missing = self.missing(first, end);
        if missing == end {
            return self.send(now, slot, 0);
        }
        self.commands[slot].missing = missing;
        self.enqueue(slot);
        self.employ(now);
    }

    /// The first sector of these that has to be read; `end` if all are in the buffer.
    fn missing(&mut self, first: u64, end: u64) -> u64 {
        if self.dirty.holds(first, end) {
            return end;
        }
        self.segments.missing(first, end)
    }

    /// Sends a read's data, of which `before` ns of transfer were possible while it was read.
    fn send(&mut self, now: Ns, slot: usize, before: Ns) {
        let length = u64::from(self.commands[slot].request.length);
        let wire = self.wire(length);
        let start = self.wire_free.max(now - before.min(wire));
        // The last sector is whole before it is sent.
        let end = (start + wire).max(now + self.wire(length.min(SECTOR)));
        self.wire_free = end;
        let command = &mut self.commands[slot];
        let others = start.saturating_sub(now);
        command.parts.queued += others;
        command.parts.overhead += end - now - others;
        command.since = end;
        self.happen(end, Event::Sent(slot));
    }

    fn arrived(&mut self, now: Ns, slot: usize) {
        let Command { request, first, end, .. } = self.commands[slot];
        if self.volatile && !request.fua && end - first <= self.room {
            self.crowd.push_back(slot);
            self.acknowledge(now);
        } else {
            self.enqueue(slot);
        }
        self.employ(now);
    }

    /// Acknowledges writes in their order while the buffer has room for them.
    fn acknowledge(&mut self, now: Ns) {
        while let Some(&slot) = self.crowd.front() {
            let Command { first, end, .. } = self.commands[slot];
            if self.dirty.held() + self.dirty.room(first, end) > self.room {
                return;
            }
            self.crowd.pop_front();
            self.dirty.insert(first, end);
            if self.ahead.is_some_and(|ahead| ahead.run.first < end && first < ahead.run.end) {
                // Or it would bring back what is forgotten now.
                self.stop_ahead(now);
            }
            self.segments.forget(first, end);
            let command = &mut self.commands[slot];
            command.parts.queued += now - command.since;
            self.finish(now, slot, Outcome::Done);
        }
    }
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.sectors * SECTOR
    }

    fn submit(&mut self, now: Ns, request: Request) {
        let first = request.offset / SECTOR;
        let end = first + u64::from(request.length).div_ceil(SECTOR);
        let parts = Parts::default();
        let command =
            Command { request, submitted: now, since: now, parts, first, end, missing: first, epoch: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.commands[slot] = command;
                slot
            }
            None => {
                self.commands.push(command);
                self.commands.len() - 1
            }
        };
        self.outside.push_back(slot);
        self.admit(now);
    }

    fn next_event(&self) -> Option<Ns> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > now {
                break;
            }
            self.events.pop();
            match event {
                Event::Understood(slot) => self.understood(at, slot),
                Event::Arrived(slot) => self.arrived(at, slot),
                Event::ArmDone => self.arm_done(at),
                Event::Sent(slot) => self.finish(at, slot, Outcome::Done),
                Event::Idle => {
                    self.idle = false;
                    self.employ(at);
                }
            }
        }
        ended.append(&mut self.ended);
    }

    fn under_way(&self) -> usize {
        self.inside + self.outside.len()
    }

    fn volatile_cache(&self) -> bool {
        self.volatile
    }
}
