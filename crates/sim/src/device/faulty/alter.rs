// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of single requests: they end later, otherwise, or without the device.

use super::super::agenda::{earlier, Agenda};
use super::super::chance::Chance;
use super::super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use super::{Fault, Kind, Range, When};
use std::collections::HashMap;

/// The layer of a fault of single requests.
pub(super) fn build(inner: Box<dyn Device>, when: When, fault: Fault, chance: Chance) -> Box<dyn Device> {
    let range = fault.range();
    let altered = HashMap::new();
    Box::new(Alter { inner, when, fault, range, chance, altered, ends: Agenda::new(), told: Vec::new() })
}

struct Alter {
    inner: Box<dyn Device>,
    when: When,
    fault: Fault,
    range: Range,
    chance: Chance,
    /// Requests in the device by id, that it happens to.
    altered: HashMap<u64, Change>,
    ends: Agenda<Completion>,
    told: Vec<Completion>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    /// It does not reach the device.
    at_once: bool,
    later: Ns,
    outcome: Option<Outcome>,
}

impl Alter {
    /// What happens to this request, to which the fault's window is open.
    fn change(&mut self, request: &Request) -> Option<Change> {
        use Operation::{Discard, Flush, Write};
        let operation = request.operation;
        let ends = |outcome| Change { outcome: Some(outcome), ..Change::default() };
        match &self.fault {
            Fault::Stall(stall) => {
                let hit = self.range.touches(request) && self.chance.once(stall.rate.unwrap_or(0.0));
                hit.then_some(Change { later: stall.duration.0, ..Change::default() })
            }
            Fault::Error(error) => {
                let concerned = error.operations.iter().any(|kind| kind.is(operation));
                let hit = concerned && self.range.touches(request) && self.chance.once(error.rate);
                let outcome = Some(Outcome::Failed(error.errno.number()));
                hit.then_some(Change { outcome, later: error.retry.0, ..Change::default() })
            }
            Fault::TornWrite(torn) => {
                let sectors = request.length / 512;
                if operation != Write || sectors < 2 || !self.chance.once(torn.rate) {
                    return None;
                }
                let first = torn.sectors.unwrap_or_else(|| self.chance.below(sectors.into()) as u32);
                (first < sectors).then(|| ends(Outcome::Torn(first * 512)))
            }
            Fault::DroppedWrite(dropped) => {
                (operation == Write && self.chance.once(dropped.rate)).then(|| ends(Outcome::Lied))
            }
            Fault::LyingFlush(lying) => {
                let hit = operation == Flush && self.chance.once(lying.rate);
                hit.then_some(Change { at_once: true, outcome: Some(Outcome::Lied), later: 0 })
            }
            Fault::ReadOnly(read_only) => {
                let outcome = Some(Outcome::Failed(read_only.errno.number()));
                matches!(operation, Write | Discard).then_some(Change { at_once: true, outcome, later: 0 })
            }
            Fault::FailSlow(_) => None,
        }
    }

    fn end(&mut self, mut done: Completion) {
        if let Some(change) = self.altered.remove(&done.id) {
            done.at += change.later;
            done.parts.fault += change.later;
            if let Some(outcome) = change.outcome {
                done.outcome = worse(done.outcome, outcome);
            }
        }
        self.ends.push(done.at, done);
    }
}

/// Of what two faults make of a request, the one that less was done in.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Outcome::Failed(_), _) => a,
        (_, Outcome::Failed(_)) => b,
        (Outcome::Lied, _) | (_, Outcome::Lied) => Outcome::Lied,
        (Outcome::Torn(a), Outcome::Torn(b)) => Outcome::Torn(a.min(b)),
        (Outcome::Torn(_), Outcome::Done) => a,
        (Outcome::Done, _) => b,
    }
}

impl Kind {
    fn is(self, operation: Operation) -> bool {
        operation
            == match self {
                Kind::Read => Operation::Read,
                Kind::Write => Operation::Write,
                Kind::Flush => Operation::Flush,
                Kind::Discard => Operation::Discard,
            }
    }
}

impl Device for Alter {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn submit(&mut self, now: Ns, request: Request) {
        let change = if self.when.request(now) { self.change(&request) } else { None };
        match change {
            Some(Change { at_once: true, outcome, .. }) => {
                let outcome = outcome.unwrap_or(Outcome::Done);
                self.ends.push(now, Completion { id: request.id, at: now, outcome, parts: Parts::default() });
            }
            Some(change) => {
                self.altered.insert(request.id, change);
                self.inner.submit(now, request);
            }
            None => self.inner.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Ns> {
        earlier(self.inner.next_event(), self.ends.next())
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        let mut told = std::mem::take(&mut self.told);
        self.inner.advance(now, &mut told);
        told.drain(..).for_each(|done| self.end(done));
        self.told = told;
        self.ends.tell(now, ended);
    }

    fn under_way(&self) -> usize {
        self.inner.under_way() + self.ends.len()
    }

    fn volatile_cache(&self) -> bool {
        self.inner.volatile_cache()
    }
}
