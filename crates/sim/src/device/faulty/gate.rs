// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that stands still every so often: what would arrive or end in a stall does so at its end.

use super::super::agenda::{earlier, Agenda};
use super::super::{Completion, Device, Ns, Request};
use super::{Fault, Range, When};
use plumb_load::job::Time;
use std::collections::HashMap;

/// The layer of a stall that comes `every` so often.
pub(super) fn build(
    inner: Box<dyn Device>,
    when: When,
    every: Time,
    range: Range,
    fault: &Fault,
) -> Box<dyn Device> {
    Box::new(Gate {
        inner,
        when,
        every: every.0,
        duration: fault.duration(),
        range,
        held: Agenda::new(),
        ends: Agenda::new(),
        passed: HashMap::new(),
        told: Vec::new(),
    })
}

struct Gate {
    inner: Box<dyn Device>,
    when: When,
    every: Ns,
    duration: Ns,
    range: Range,
    held: Agenda<Request>,
    ends: Agenda<Completion>,
    /// Under way in the device: whether stalls are for it, and how long it was held.
    passed: HashMap<u64, (bool, Ns)>,
    told: Vec<Completion>,
}

impl Gate {
    /// The time at which something of `at` goes on.
    fn opens(&self, at: Ns) -> Ns {
        let nth = at.saturating_sub(self.when.from) / self.every;
        let begin = self.when.from + nth * self.every;
        let there = nth > 0 && self.when.until.is_none_or(|until| begin < until);
        if there && at < begin + self.duration {
            begin + self.duration
        } else {
            at
        }
    }

    fn end(&mut self, done: Completion) {
        let Some((stalls, held)) = self.passed.remove(&done.id) else { return };
        let at = if stalls { self.opens(done.at) } else { done.at };
        let mut parts = done.parts;
        parts.fault += held + (at - done.at);
        self.ends.push(at, Completion { at, parts, ..done });
    }
}

impl Device for Gate {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn submit(&mut self, now: Ns, request: Request) {
        self.when.seen += 1;
        let stalls = self.when.seen > self.when.after && self.range.touches(&request);
        let opens = if stalls { self.opens(now) } else { now };
        self.passed.insert(request.id, (stalls, opens - now));
        if opens > now {
            self.held.push(opens, request);
        } else {
            self.inner.submit(now, request);
        }
    }

    fn next_event(&self) -> Option<Ns> {
        earlier(earlier(self.held.next(), self.inner.next_event()), self.ends.next())
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some(at) = earlier(self.held.next(), self.inner.next_event()).filter(|at| *at <= now) {
            let mut told = std::mem::take(&mut self.told);
            self.inner.advance(at, &mut told);
            told.drain(..).for_each(|done| self.end(done));
            self.told = told;
            while let Some((_, request)) = self.held.due(at) {
                self.inner.submit(at, request);
            }
        }
        self.ends.tell(now, ended);
    }

    fn under_way(&self) -> usize {
        self.passed.len() + self.ends.len()
    }

    fn volatile_cache(&self) -> bool {
        self.inner.volatile_cache()
    }
}
