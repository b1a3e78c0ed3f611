// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on their way through the disk: events, the queue, who gets the arm.

use super::arm::{Arm, Mechanics, Run, Travel};
use super::dirty::Dirty;
use super::geometry::TURN;
use super::segments::Segments;
use super::spec::Hdd;
use super::SECTOR;
use crate::device::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use crate::spec::SpecError;
use plumb_load::random::SplitMix64;
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

/// A command.
#[derive(Debug, Clone, Copy)]
struct Command {
    request: Request,
    submitted: Ns,
    /// Up to when `parts` tell its time.
    since: Ns,
    parts: Parts,
    first: u64,
    end: u64,
    /// A flush: the epoch that it waits for.
    epoch: u64,
}

/// What the arm does.
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

/// A hard disk.
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
    /// For the arm.
    queue: Vec<usize>,
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
        let command = &mut self.commands[slot];
        // What nobody else claimed was spent behind others.
        command.parts.queued += now - command.submitted - command.parts.total();
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
        if self.in_buffer(first, end) {
            return self.send(now, slot, 0);
        }
        self.queue.push(slot);
        self.employ(now);
    }

    /// Puts what was read ahead by now into the buffer, and keeps ahead of a reader that follows.
    fn follow(&mut self, now: Ns, first: u64, end: u64) {
        let Some(ahead) = self.ahead else { return };
        if first > ahead.run.end || end + self.segments.length < ahead.run.first {
            return;
        }
        let travel = self.mechanics.travel(self.arm, ahead.at, ahead.run, now);
        self.segments.keep(ahead.run.first, travel.reached);
        let stopped = travel.reached == ahead.run.end;
        let mut run = Run { first: travel.last.sector, ..ahead.run };
        if first <= travel.reached && self.segments.missing(first) == travel.reached {
            run.end = run.end.max(self.sectors.min(end + self.segments.length));
        }
        if stopped && run.end > ahead.run.end {
            // The disk turned on meanwhile: it has to wait for the next sector like for any other.
            run.first = travel.reached;
            self.arm = travel.arm;
            self.ahead = Some(Ahead { at: now, run });
        } else {
            self.arm = travel.last.arm;
            self.ahead = Some(Ahead { at: travel.last.at, run });
        }
    }

    fn in_buffer(&mut self, first: u64, end: u64) -> bool {
        self.segments.holds(first, end) || self.dirty.holds(first, end)
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
            self.queue.push(slot);
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
            self.segments.forget(first, end);
            self.finish(now, slot, Outcome::Done);
        }
    }

    /// Gives the arm something to do, if it has nothing.
    fn employ(&mut self, now: Ns) {
        while self.work.is_none() {
            let waits = self.dirty.waits();
            let pressed = waits && !(self.crowd.is_empty() && self.flushes.is_empty());
            // Under pressure both in turn, so that neither starves the other.
            if !self.queue.is_empty() && !(pressed && self.served) {
                self.serve(now);
            } else if pressed || waits && now >= self.reserved {
                return self.clean(now);
            } else {
                if waits && !self.idle {
                    self.idle = true;
                    self.happen(self.reserved, Event::Idle);
                }
                return;
            }
        }
    }

    /// Ends reading ahead: the sectors that it reached are in the buffer. How it was going on, if it was.
    fn stop_ahead(&mut self, now: Ns) -> Option<(Ahead, Travel)> {
        let ahead = self.ahead.take()?;
        let travel = self.mechanics.travel(self.arm, ahead.at, ahead.run, now);
        self.segments.keep(ahead.run.first, travel.reached);
        let from = std::mem::replace(&mut self.arm, travel.arm);
        (travel.reached < ahead.run.end).then_some((ahead, Travel { arm: from, ..travel }))
    }

    /// The command that the arm can begin with soonest, or one that has waited too long; out of the queue.
    fn next(&mut self, now: Ns) -> usize {
        if self.queue.len() == 1 {
            return self.queue.swap_remove(0);
        }
        let (mut best, mut least) = (0, (Ns::MAX, Ns::MAX));
        for (index, &slot) in self.queue.iter().enumerate() {
            let Command { request, submitted, first, end, .. } = self.commands[slot];
            let run = Run { first, end, write: request.operation == Operation::Write };
            let late = now - submitted >= self.aging;
            let cost = if late { 0 } else { self.mechanics.positioning(self.arm, now, run) + 1 };
            // Among equals, and those that are late, the oldest.
            if (cost, submitted) < least {
                (best, least) = (index, (cost, submitted));
            }
        }
        self.queue.swap_remove(best)
    }

    /// The next command gets the arm, if the buffer does not have its data by now.
    fn serve(&mut self, now: Ns) {
        let going = self.stop_ahead(now);
        let slot = self.next(now);
        let Command { request, first, end, .. } = self.commands[slot];
        self.commands[slot].parts.queued += now - self.commands[slot].since;
        self.commands[slot].since = now;
        let write = request.operation == Operation::Write;
        if write {
            self.segments.forget(first, end);
            self.dirty.take(first, end);
            return self.start(now, Some(slot), Run { first, end, write });
        }
        if self.in_buffer(first, end) {
            return self.send(now, slot, 0);
        }
        let run = Run { first: self.segments.missing(first), end, write };
        match going {
            // It is on its way there: no sector is missed, not even the one that is half read.
            Some((ahead, before)) if run.first == before.reached => {
                let whole = Run { end: run.end, ..ahead.run };
                let travel = self.mechanics.travel(before.arm, ahead.at, whole, Ns::MAX).after(&before);
                self.begin(Work { slot: Some(slot), run, travel });
            }
            _ => self.start(now, Some(slot), run),
        }
    }

    /// The write cache gets the arm, for as much as lies on one track.
    fn clean(&mut self, now: Ns) {
        self.stop_ahead(now);
        let epoch = self.flushes.iter().map(|&slot| self.commands[slot].epoch).max();
        let (mechanics, arm) = (&self.mechanics, self.arm);
        let cost = |first| mechanics.positioning(arm, now, Run { first, end: first + 1, write: true });
        let chosen = self.dirty.choose(epoch, cost).or_else(|| self.dirty.choose(None, cost));
        let Some((first, end)) = chosen else { return };
        let end = end.min(self.mechanics.track_end(first));
        self.dirty.take(first, end);
        self.start(now, None, Run { first, end, write: true });
    }

    fn start(&mut self, now: Ns, slot: Option<usize>, run: Run) {
        let travel = self.mechanics.travel(self.arm, now, run, Ns::MAX);
        self.begin(Work { slot, run, travel });
    }

    fn begin(&mut self, work: Work) {
        self.served = work.slot.is_some();
        self.arm = work.travel.arm;
        self.work = Some(work);
        self.happen(work.travel.end, Event::ArmDone);
    }

    fn arm_done(&mut self, now: Ns) {
        let Some(Work { slot, run, travel }) = self.work.take() else { return };
        if let Some(slot) = slot {
            let parts = &mut self.commands[slot].parts;
            parts.seek += travel.seek;
            parts.rotation += travel.rotation;
            parts.medium += travel.medium;
            self.commands[slot].since = now;
        }
        if run.write {
            self.dirty.written();
            match slot {
                Some(slot) => self.finish(now, slot, Outcome::Done),
                None => self.charge_flushes(now, &travel),
            }
            self.end_flushes(now);
            self.acknowledge(now);
        } else if let Some(slot) = slot {
            self.segments.keep(run.first, run.end);
            let end = self.sectors.min(run.end + self.segments.length);
            self.ahead = Some(Ahead { at: now, run: Run { first: run.end, end, write: false } });
            self.reserved = now + self.turn;
            self.send(now, slot, travel.medium);
        }
        self.employ(now);
    }

    /// What the write cache's work was, flushes that waited for it waited for.
    fn charge_flushes(&mut self, now: Ns, travel: &Travel) {
        for &slot in &self.flushes {
            let command = &mut self.commands[slot];
            // It may have come in the middle: the last part is its.
            let mut left = travel.total().min(now - command.since);
            for (part, time) in [
                (&mut command.parts.medium, travel.medium),
                (&mut command.parts.rotation, travel.rotation),
                (&mut command.parts.seek, travel.seek),
            ] {
                let share = time.min(left);
                *part += share;
                left -= share;
            }
        }
    }

    fn end_flushes(&mut self, now: Ns) {
        let mut index = 0;
        while index < self.flushes.len() {
            let slot = self.flushes[index];
            if self.dirty.is_clean(self.commands[slot].epoch) {
                self.flushes.remove(index);
                self.finish(now, slot, Outcome::Done);
            } else {
                index += 1;
            }
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
        let command = Command { request, submitted: now, since: now, parts, first, end, epoch: 0 };
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
