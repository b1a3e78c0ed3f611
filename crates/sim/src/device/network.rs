// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network before another device, as of iSCSI or NVMe over TCP.
//!
//! Data flows: request -> the link there (its bytes occupy it) -> latency, jitter, a
//! stall now and then -> the device behind -> the link back -> latency -> completion. A
//! write carries its data there, a read has it carried back. Time on the link is
//! overhead, time behind other messages is queued, a stall is a fault.

use super::agenda::{earlier, transfer, Agenda};
use super::chance::Chance;
use super::check::{self, Wrong};
use super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use crate::spec::SpecError;
use plumb_load::job::{Bytes, Time};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Network {
    /// The least time that a message takes one way, besides its transfer.
    pub latency: Time,
    /// Mean of what comes on top at random, each way; exponentially distributed.
    #[serde(default)]
    pub jitter: Time,
    /// Bytes a second, each way; messages go one after the other.
    pub bandwidth: Bytes,
    /// Bytes that each message has besides data: headers of all layers.
    #[serde(default)]
    pub header: Bytes,
    /// Probability that a message is lost and sent again, 0 to 1.
    #[serde(default)]
    pub stall_rate: f64,
    /// How much later it then arrives: the retransmission's timeout.
    #[serde(default)]
    pub stall: Time,
    /// Messages arrive in the order in which they were sent (one TCP connection): behind a
    /// late one all wait. False: each by itself.
    #[serde(default = "yes")]
    pub in_order: bool,
}

fn yes() -> bool {
    true
}

/// The network before `inner`.
///
/// # Errors
/// Figures that contradict each other; the key is named.
pub fn build(spec: &Network, inner: Box<dyn Device>, seed: u64) -> Result<Box<dyn Device>, SpecError> {
    spec.check().map_err(|(key, why)| SpecError(format!("network.{key}: {why}")))?;
    Ok(Box::new(Model {
        spec: spec.clone(),
        inner,
        chance: Chance::new(seed, 2),
        there: Way::default(),
        back: Way::default(),
        arrivals: Agenda::new(),
        ends: Agenda::new(),
        sent: HashMap::new(),
        told: Vec::new(),
    }))
}

impl Network {
    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &'static str, why: &str| Err((key, why.to_string()));
        check::rates(&[("bandwidth", self.bandwidth)])?;
        check::times(&[("latency", self.latency), ("jitter", self.jitter), ("stall", self.stall)])?;
        if self.header.0 > 1 << 30 {
            return wrong("header", "is more than 1G");
        }
        if !(0.0..=1.0).contains(&self.stall_rate) {
            return wrong("stall-rate", "is a probability, from 0 to 1");
        }
        if (self.stall_rate > 0.0) != (self.stall.0 > 0) {
            return wrong("stall", "and stall-rate belong together: both above 0, or neither");
        }
        Ok(())
    }
}

/// One direction of the link.
#[derive(Debug, Default)]
struct Way {
    free: Ns,
    last: Ns,
}

struct Model {
    spec: Network,
    inner: Box<dyn Device>,
    chance: Chance,
    there: Way,
    back: Way,
    arrivals: Agenda<Request>,
    ends: Agenda<Completion>,
    /// What went there: what, and where its time went on the way.
    sent: HashMap<u64, (Request, Parts)>,
    told: Vec<Completion>,
}

impl Way {
    /// Sends `data` bytes at `now`: when they arrive, where the time went.
    fn send(&mut self, now: Ns, data: u64, spec: &Network, chance: &mut Chance) -> (Ns, Parts) {
        let begin = self.free.max(now);
        let end = begin + transfer(data + spec.header.0, spec.bandwidth.0);
        self.free = end;
        let jitter = if spec.jitter.0 > 0 { chance.exponential(spec.jitter.0) } else { 0 };
        let lost = spec.stall_rate > 0.0 && chance.once(spec.stall_rate);
        let fault = if lost { spec.stall.0 } else { 0 };
        let alone = end + spec.latency.0 + jitter + fault;
        let arrival = if spec.in_order { alone.max(self.last) } else { alone };
        self.last = arrival;
        let queued = begin - now + (arrival - alone);
        (arrival, Parts { queued, overhead: arrival - now - queued - fault, fault, ..Parts::default() })
    }
}

impl Model {
    /// The device behind is done with a request: its reply sets out.
    fn reply(&mut self, done: Completion) {
        let Some((request, there)) = self.sent.remove(&done.id) else { return };
        let carries = request.operation == Operation::Read && !matches!(done.outcome, Outcome::Failed(_));
        let data = if carries { request.length.into() } else { 0 };
        let (at, back) = self.back.send(done.at, data, &self.spec, &mut self.chance);
        let mut parts = done.parts;
        for way in [there, back] {
            parts += way;
        }
        self.ends.push(at, Completion { at, parts, ..done });
    }
}

impl Device for Model {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn submit(&mut self, now: Ns, request: Request) {
        let data = if request.operation == Operation::Write { request.length.into() } else { 0 };
        let (arrival, parts) = self.there.send(now, data, &self.spec, &mut self.chance);
        self.sent.insert(request.id, (request, parts));
        self.arrivals.push(arrival, request);
    }

    fn next_event(&self) -> Option<Ns> {
        earlier(earlier(self.arrivals.next(), self.inner.next_event()), self.ends.next())
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        while let Some(at) = earlier(self.arrivals.next(), self.inner.next_event()).filter(|at| *at <= now) {
            let mut told = std::mem::take(&mut self.told);
            self.inner.advance(at, &mut told);
            told.drain(..).for_each(|done| self.reply(done));
            self.told = told;
            while let Some((_, request)) = self.arrivals.due(at) {
                self.inner.submit(at, request);
            }
        }
        self.ends.tell(now, ended);
    }

    fn under_way(&self) -> usize {
        self.sent.len() + self.ends.len()
    }

    fn volatile_cache(&self) -> bool {
        self.inner.volatile_cache()
    }
}

#[cfg(test)]
mod tests;
