// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cloud's block volume, known by its limits: I/Os a second with or without burst
//! credits, bytes a second, and a distribution of latencies.
//!
//! Data flows: request -> token buckets (how long is it held back?) -> a latency drawn
//! from its distribution -> completion. What is behind the limits is the provider's.

use super::agenda::{beyond, Agenda};
use super::chance::Chance;
use super::check::{self, Wrong};
use super::{Completion, Device, Ns, Operation, Outcome, Parts, Request};
use crate::spec::SpecError;
use plumb_load::job::{Bytes, Time};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Volume {
    /// I/Os a second that it always has; credits are earned at this rate.
    pub iops: u64,
    /// I/Os a second while there are credits; none: `iops`, without credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_iops: Option<u64>,
    /// I/Os that the bucket of credits holds; needs `burst-iops`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u64>,
    /// Credits at the beginning; none: the bucket is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits_at_start: Option<u64>,
    /// Bytes a second, reads and writes together.
    pub throughput: Bytes,
    /// A request counts as one I/O for each so many bytes that it has, or begins.
    pub io_size: Bytes,
    /// How far the limits may be run ahead: their buckets hold what they let pass in this time.
    #[serde(default)]
    pub slack: Time,
    /// Median latency of a read that is not held back.
    pub read_latency: Time,
    /// 99 % of these reads take no longer; the distribution is lognormal.
    pub read_latency_p99: Time,
    /// Median latency of a write.
    pub write_latency: Time,
    /// 99 % of the writes take no longer.
    pub write_latency_p99: Time,
    /// Latency of a flush or discard, neither of which counts as an I/O. Writes are durable
    /// when they complete, so a flush waits for nothing.
    #[serde(default)]
    pub flush_latency: Time,
}

/// The volume, `size` bytes long.
///
/// # Errors
/// Figures that contradict each other; the key is named.
pub fn build(spec: &Volume, size: u64, seed: u64) -> Result<Box<dyn Device>, SpecError> {
    spec.check().map_err(|(key, why)| SpecError(format!("medium.{key}: {why}")))?;
    let ns = spec.slack.0;
    let mut limits = vec![Bucket::lasting(spec.burst_iops.unwrap_or(spec.iops), ns)];
    if let Some(credits) = spec.credits {
        limits.push(Bucket::holding(spec.iops, credits, spec.credits_at_start.unwrap_or(credits)));
    }
    Ok(Box::new(Model {
        spec: spec.clone(),
        size,
        limits,
        bytes: Bucket::lasting(spec.throughput.0, ns),
        chance: Chance::new(seed, 1),
        ends: Agenda::new(),
    }))
}

impl Volume {
    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &'static str, why: String| Err((key, why));
        check::counts(&[("iops", self.iops), ("io-size", self.io_size.0)])?;
        check::rates(&[("throughput", self.throughput)])?;
        check::times(&[
            ("slack", self.slack),
            ("read-latency-p99", self.read_latency_p99),
            ("write-latency-p99", self.write_latency_p99),
            ("flush-latency", self.flush_latency),
        ])?;
        match (self.burst_iops, self.credits) {
            (Some(burst), _) if burst < self.iops => {
                return wrong("burst-iops", format!("{burst} is below iops, {}", self.iops));
            }
            (Some(_), None) => return wrong("credits", "burst-iops needs credits to spend".into()),
            (None, Some(_)) => return wrong("credits", "there is no burst-iops to spend them at".into()),
            _ => {}
        }
        if self.credits_at_start.is_some_and(|start| start > self.credits.unwrap_or(0)) {
            return wrong("credits-at-start", "the bucket, credits, does not hold so many".into());
        }
        let reads = ("read-latency-p99", self.read_latency, self.read_latency_p99);
        for (key, median, p99) in [reads, ("write-latency-p99", self.write_latency, self.write_latency_p99)] {
            if p99 < median {
                return wrong(key, format!("{p99} is below the median, {median}"));
            }
            if median.0 == 0 && p99.0 > 0 {
                return wrong(key, "above a median of 0 there is no lognormal distribution".into());
            }
        }
        Ok(())
    }
}

/// A token bucket that may be overdrawn by one request, kept as the time at which it
/// will be full again (the generic cell rate algorithm, ITU-T I.371), in units of
/// 1 s / (1e9 * rate), so that no rounding adds up.
#[derive(Debug, Clone)]
struct Bucket {
    rate: u128,
    depth: u128,
    full_at: u128,
}

const SECOND: u128 = 1_000_000_000;

impl Bucket {
    fn lasting(rate: u64, ns: Ns) -> Self {
        Bucket { rate: rate.into(), depth: u128::from(rate) * u128::from(ns), full_at: 0 }
    }

    fn holding(rate: u64, tokens: u64, at_start: u64) -> Self {
        let depth = u128::from(tokens) * SECOND;
        Bucket { rate: rate.into(), depth, full_at: depth - u128::from(at_start.min(tokens)) * SECOND }
    }

    /// From when on it lets a request pass.
    fn open(&self) -> Ns {
        u64::try_from(self.full_at.saturating_sub(self.depth).div_ceil(self.rate)).unwrap_or(u64::MAX)
    }

    /// Takes `tokens` at `at`.
    fn take(&mut self, at: Ns, tokens: u64) {
        let now = u128::from(at) * self.rate;
        // Times are whole ns: less than one behind is rounding, which would add up.
        if now >= self.full_at + self.rate {
            self.full_at = now;
        }
        self.full_at += u128::from(tokens) * SECOND;
    }
}

#[derive(Debug)]
struct Model {
    spec: Volume,
    size: u64,
    /// Of I/Os.
    limits: Vec<Bucket>,
    bytes: Bucket,
    chance: Chance,
    ends: Agenda<Completion>,
}

impl Model {
    /// When the limits let it begin.
    fn admit(&mut self, now: Ns, length: u64) -> Ns {
        let open = self.limits.iter().map(Bucket::open).chain([self.bytes.open()]).max();
        let start = now.max(open.unwrap_or(0));
        let units = length.div_ceil(self.spec.io_size.0).max(1);
        self.limits.iter_mut().for_each(|limit| limit.take(start, units));
        self.bytes.take(start, length);
        start
    }
}

impl Device for Model {
    fn size(&self) -> u64 {
        self.size
    }

    fn submit(&mut self, now: Ns, request: Request) {
        let Volume { read_latency, read_latency_p99, write_latency, write_latency_p99, .. } = self.spec;
        let refused = beyond(&request, self.size);
        let (median, p99) = match request.operation {
            _ if refused.is_some() => (self.spec.flush_latency, self.spec.flush_latency),
            Operation::Read => (read_latency, read_latency_p99),
            Operation::Write => (write_latency, write_latency_p99),
            Operation::Flush | Operation::Discard => (self.spec.flush_latency, self.spec.flush_latency),
        };
        let limited = matches!(request.operation, Operation::Read | Operation::Write) && refused.is_none();
        let start = if limited { self.admit(now, request.length.into()) } else { now };
        let took = self.chance.lognormal(median.0, p99.0);
        let mut parts = Parts { throttled: start - now, ..Parts::default() };
        *(if limited { &mut parts.medium } else { &mut parts.overhead }) = took;
        let outcome = refused.map_or(Outcome::Done, Outcome::Failed);
        self.ends.push(start + took, Completion { id: request.id, at: start + took, outcome, parts });
    }

    fn next_event(&self) -> Option<Ns> {
        self.ends.next()
    }

    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>) {
        self.ends.tell(now, ended);
    }

    fn under_way(&self) -> usize {
        self.ends.len()
    }

    fn volatile_cache(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
