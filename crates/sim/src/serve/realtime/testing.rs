// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device of exactly known times, for the tests of what serves it.

use crate::device::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use std::collections::VecDeque;

pub(in crate::serve) type End = Box<dyn FnMut(&Request) -> Outcome + Send>;

/// Each request takes the same time, one after the other or all at once.
pub(in crate::serve) struct Fixed {
    pub(in crate::serve) size: u64,
    pub(in crate::serve) time: Ns,
    pub(in crate::serve) at_once: bool,
    pub(in crate::serve) volatile: bool,
    pub(in crate::serve) end: End,
    queue: VecDeque<Completion>,
    free_at: Ns,
    now: Ns,
}

impl Fixed {
    pub(in crate::serve) fn new(size: u64, time: Ns) -> Self {
        Self {
            size,
            time,
            at_once: true,
            volatile: false,
            end: Box::new(|_| Outcome::Done),
            queue: VecDeque::new(),
            free_at: 0,
            now: 0,
        }
    }

    pub(in crate::serve) fn one_by_one(self) -> Self {
        Self { at_once: false, ..self }
    }

    pub(in crate::serve) fn volatile(self) -> Self {
        Self { volatile: true, ..self }
    }

    pub(in crate::serve) fn ends(self, end: impl FnMut(&Request) -> Outcome + Send + 'static) -> Self {
        Self { end: Box::new(end), ..self }
    }
}

impl Device for Fixed {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        assert!(now >= self.now, "time goes back: {now} after {}", self.now);
        assert!(self.next_event().is_none_or(|next| next > now), "not advanced before a submission");
        assert!(request.offset % 512 == 0 && request.length % 512 == 0, "{request:?}");
        assert!(self.queue.iter().all(|c| c.id != request.id), "{request:?}: twice");
        self.now = now;
        let begin = if self.at_once { now } else { now.max(self.free_at) };
        self.free_at = begin + self.time;
        let beyond = request.offset.saturating_add(request.length.into()) > self.size;
        let outcome = match request.operation {
            Operation::Write if beyond => Outcome::Failed(libc::ENOSPC),
            _ if beyond => Outcome::Failed(libc::EIO),
            _ => (self.end)(&request),
        };
        let parts = Parts { queued: begin - now, medium: self.time, ..Parts::default() };
        self.queue.push_back(Completion { id: request.id, at: self.free_at, outcome, parts });
    }

    fn next_event(&self) -> Option<Ns> {
        self.queue.front().map(|c| c.at)
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        assert!(now >= self.now, "time goes back: {now} after {}", self.now);
        self.now = now;
        while self.queue.front().is_some_and(|c| c.at <= now) {
            ended.extend(self.queue.pop_front());
        }
    }

    fn under_way(&self) -> usize {
        self.queue.len()
    }

    fn volatile_cache(&self) -> bool {
        self.volatile
    }
}
