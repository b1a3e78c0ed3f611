// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who gets the arm: a command, the write cache, or reading ahead.

use super::{Ahead, Command, Disk, Event, Queued, Work};
use crate::device::hdd::arm::{Run, Travel};
use crate::device::{Ns, Operation, Outcome};

impl Disk {
    /// Gives the arm something to do, if it has nothing.
    pub(super) fn employ(&mut self, now: Ns) {
        while self.work.is_none() {
            let waits = self.dirty.waits();
            let pressed = waits && !(self.crowd.is_empty() && self.flushes.is_empty());
            // Under pressure both in turn, so that neither starves the other.
            let turn = !(pressed && self.served);
            if turn && !self.queue.is_empty() {
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
    pub(super) fn stop_ahead(&mut self, now: Ns) -> Option<(Ahead, Travel)> {
        let ahead = self.ahead.take()?;
        let travel = self.mechanics.travel(self.arm, ahead.at, ahead.run, now);
        self.segments.keep(ahead.run.first, travel.reached);
        let from = std::mem::replace(&mut self.arm, travel.arm);
        (travel.reached < ahead.run.end).then_some((ahead, Travel { arm: from, ..travel }))
    }

    /// A command waits for the arm from now on.
    pub(super) fn enqueue(&mut self, slot: usize) {
        let Command { request, submitted, first, .. } = self.commands[slot];
        let write = request.operation == Operation::Write;
        self.queue.push(Queued { slot, submitted, first, write, place: None });
    }

    /// The command that the arm can begin with soonest, or one that has waited too long; out of the queue.
    fn next(&mut self, now: Ns) -> usize {
        let (mut best, mut least) = (0, (u64::MAX, Ns::MAX));
        if self.queue.len() > 1 {
            let (mechanics, arm) = (&self.mechanics, self.arm);
            let here = mechanics.geometry.angle(now);
            for (index, queued) in self.queue.iter_mut().enumerate() {
                let mut cost = || {
                    let place = queued.place.get_or_insert_with(|| mechanics.geometry.place(queued.first));
                    mechanics.positioning(arm, here, place, queued.write) + 1
                };
                // Among equals, and those that are late, the oldest.
                let late = now - queued.submitted >= self.aging;
                let rank = (if late { 0 } else { cost() }, queued.submitted);
                if rank < least {
                    (best, least) = (index, rank);
                }
            }
        }
        self.queue.swap_remove(best).slot
    }

    /// The next command gets the arm, if the buffer does not have its data by now.
    fn serve(&mut self, now: Ns) {
        let going = self.stop_ahead(now);
        let slot = self.next(now);
        let Command { request, first, end, .. } = self.commands[slot];
        let waited = now - self.commands[slot].since;
        self.commands[slot].parts.queued += waited;
        self.commands[slot].since = now;
        let write = request.operation == Operation::Write;
        if write {
            self.segments.forget(first, end);
            self.dirty.take(first, end);
            return self.start(now, Some(slot), Run { first, end, write });
        }
        // While it waited, what it needs may have come.
        let missing = if waited > 0 { self.missing(first, end) } else { self.commands[slot].missing };
        if missing == end {
            return self.send(now, slot, 0);
        }
        let run = Run { first: missing, end, write };
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
        let (mechanics, arm, here) = (&self.mechanics, self.arm, self.mechanics.geometry.angle(now));
        let cost = |first| mechanics.positioning(arm, here, &mechanics.geometry.place(first), true);
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

    /// The arm has done its work.
    pub(super) fn arm_done(&mut self, now: Ns) {
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
            let end = self.limit(self.commands[slot].first, run.end);
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
                // What was not spent on what it waited for was spent behind others.
                let command = &mut self.commands[slot];
                command.parts.queued += now - command.submitted - command.parts.total();
                self.finish(now, slot, Outcome::Done);
            } else {
                index += 1;
            }
        }
    }

    /// How far to read ahead of a read: what was asked for stays in the segment too, if it is not too long.
    fn limit(&self, first: u64, end: u64) -> u64 {
        let length = self.segments.length;
        self.sectors.min(end + length - (end - first).min(length / 2))
    }

    /// Puts what was read ahead by now into the buffer, and keeps ahead of a reader that follows.
    pub(super) fn follow(&mut self, now: Ns, first: u64, end: u64) {
        let Some(ahead) = self.ahead else { return };
        if first > ahead.run.end || end + self.segments.length < ahead.run.first {
            return;
        }
        let travel = self.mechanics.travel(self.arm, ahead.at, ahead.run, now);
        self.segments.keep(ahead.run.first, travel.reached);
        let stopped = travel.reached == ahead.run.end;
        let mut run = Run { first: travel.last.sector, ..ahead.run };
        if first <= travel.reached && self.segments.missing(first, u64::MAX) == travel.reached {
            run.end = run.end.max(self.limit(first, end));
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
}
