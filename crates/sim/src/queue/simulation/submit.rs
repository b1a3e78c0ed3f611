// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From an operation to the scheduler: split, merge, wait for a tag, insert.

use super::Simulation;
use crate::device::Operation;
use crate::queue::observer::{Observer, Woken};
use crate::queue::requests::{direction, Bio, Class, NONE};

/// The line in which a bio waits for a tag.
fn line(bio: &Bio) -> usize {
    direction(bio.operation) + 2 * usize::from(bio.class == Class::Idle)
}

impl Simulation {
    /// Queues what is left of an operation; false when it must wait for a tag.
    pub(super) fn send<O: Observer>(&mut self, task: u32, slot: u32, o: &mut O) -> bool {
        let t = &mut self.tasks[task as usize];
        let op = *t.op(slot);
        let mut bio = Bio {
            task,
            slot,
            operation: op.operation,
            offset: op.offset,
            length: 0,
            fua: op.fua,
            class: op.class,
            hints: op.hints,
            queued_at: self.now,
            next: NONE,
        };
        if op.operation == Operation::Flush {
            if op.sent == 0 {
                t.op(slot).sent = 1;
                self.ask_for_flush(bio, o);
            }
            return true;
        }
        let mut sent = op.sent;
        while sent < op.length {
            bio.offset = op.offset + sent;
            bio.length = (op.length - sent).min(u64::from(self.settings.max_bytes)) as u32;
            sent += u64::from(bio.length);
            let op = self.tasks[task as usize].op(slot);
            op.sent = sent;
            op.pieces += 1;
            if !self.queue(bio, o) {
                return false;
            }
        }
        true
    }

    fn may_take(&self, bio: &Bio) -> bool {
        self.scheduler.may_take(self.now, bio, self.taken, self.settings.nr_requests)
    }

    fn take(&mut self, bio: &Bio) {
        self.taken.all += 1;
        self.taken.idle += usize::from(bio.class == Class::Idle);
    }

    /// Queues a bio; false when it must wait for a tag.
    fn queue<O: Observer>(&mut self, bio: Bio, o: &mut O) -> bool {
        let number = self.requests.add_bio(bio);
        o.queued(self.now, number, &bio);
        let merge = match self.scheduler.queued() {
            0 => None,
            _ => self.scheduler.find_merge(&bio, &self.requests),
        };
        if let Some(merge) = merge {
            o.merged(self.now, number, &bio, merge, self.requests.get(merge.request));
            self.requests.join(number, merge);
            self.scheduler.merged(merge, bio.length, &self.requests);
            return true;
        }
        let way = line(&bio);
        if !self.waiting[way].is_empty() || !self.may_take(&bio) {
            self.waited += 1;
            self.waiting[way].push_back((self.waited, number));
            self.tasks[bio.task as usize].blocked = true;
            return false;
        }
        self.take(&bio);
        self.insert(number, o);
        true
    }

    /// Makes a request of a bio whose slot is taken.
    pub(super) fn insert<O: Observer>(&mut self, number: u32, o: &mut O) {
        o.got(self.now, number, self.requests.bio(number));
        let request = self.requests.add(number);
        let r = self.requests.get_mut(request);
        r.inserted_at = self.now;
        r.waiting = true;
        o.inserted(self.now, request, self.requests.get(request));
        self.scheduler.insert(self.now, request, &self.requests);
    }

    fn ask_for_flush<O: Observer>(&mut self, bio: Bio, o: &mut O) {
        let (task, slot) = (bio.task, bio.slot);
        if !self.device.volatile_cache() {
            // Nothing to flush: submit_bio_noacct() ends such a bio at once.
            self.operation_ends(task, slot, o);
            return;
        }
        self.tasks[task as usize].op(slot).pieces = 1;
        let number = self.requests.add_bio(bio);
        o.queued(self.now, number, &bio);
        o.got(self.now, number, &bio);
        self.to_flush.push(number);
    }

    /// Gives free tags to those that wait, the oldest first.
    pub(super) fn grant<O: Observer>(&mut self, o: &mut O) {
        loop {
            let may = |way: usize| {
                let (order, number) = *self.waiting[way].front()?;
                self.may_take(self.requests.bio(number)).then_some((order, way))
            };
            let Some((_, way)) = (0..self.waiting.len()).filter_map(may).min() else { return };
            let Some((_, number)) = self.waiting[way].pop_front() else { return };
            let bio = *self.requests.bio(number);
            self.take(&bio);
            let task = bio.task;
            let t = &mut self.tasks[task as usize];
            t.granted = Some(number);
            t.blocked = false;
            self.wake(task, Woken::Completion, o);
        }
    }
}
