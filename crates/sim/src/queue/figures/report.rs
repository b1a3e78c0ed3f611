// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures in a document: what `--json` prints and the tables show.

use super::{Figures, JobFigures, KindFigures, RequestFigures};
use crate::device::{Operation, Parts};
use plumb_stats::histogram::Summary;
use serde::Serialize;

impl Figures {
    /// What a document says of them.
    pub fn report(&self) -> Report {
        let kinds = |job: &JobFigures| {
            let seconds = job.elapsed() as f64 / 1e9;
            let report = |k: &KindFigures| KindReport {
                kind: k.kind.word(),
                count: k.service.count(),
                errors: k.errors,
                bytes: k.bytes,
                rate: k.service.count() as f64 / seconds,
                bandwidth: k.bytes as f64 / seconds,
                response: k.response.as_ref().map(|h| h.summary()),
                service: k.service.summary(),
            };
            job.kinds.iter().map(report).collect()
        };
        let requests = |job: &JobFigures| {
            let report = |r: &RequestFigures| RequestReport {
                operation: word(r.operation),
                q2c: r.q2c.summary(),
                d2c: r.d2c.summary(),
            };
            job.requests.iter().map(report).collect()
        };
        let jobs = self.jobs.iter().map(|job| JobReport {
            elapsed_ns: job.elapsed(),
            kinds: kinds(job),
            requests: requests(job),
            q2c: job.q2c.summary(),
            d2c: job.d2c.summary(),
        });
        let [in_system, without_slot, in_scheduler, in_device] = self.lengths();
        let d = &self.device;
        Report {
            jobs: jobs.collect(),
            device: DeviceReport {
                elapsed_ns: self.elapsed(),
                reads: d.requests[0],
                writes: d.requests[1],
                read_bytes: d.bytes[0],
                write_bytes: d.bytes[1],
                flushes: d.flushes,
                merges: d.merges,
                errors: d.errors,
                lies: d.lies,
                busy_ns: d.busy,
                utilisation: self.utilisation(),
                in_system,
                without_slot,
                in_scheduler,
                in_device,
                most_in_device: d.most,
                most_in_system: d.most_in_system,
                d2c: d.d2c.summary(),
                parts_ns: d.parts,
            },
        }
    }
}

/// All figures, in a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub jobs: Vec<JobReport>,
    pub device: DeviceReport,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobReport {
    /// Simulated time that counts, ns.
    pub elapsed_ns: u64,
    pub kinds: Vec<KindReport>,
    /// Pieces by what they ask the device for.
    pub requests: Vec<RequestReport>,
    /// Pieces with data from queued to completed, ns.
    pub q2c: Summary,
    /// Pieces with data from issued to completed, ns.
    pub d2c: Summary,
}

/// Pieces of a job's operations that ask the device for the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestReport {
    /// For what: `read`, `write`, `flush` or `discard`.
    pub operation: &'static str,
    /// From queued to completed, ns.
    pub q2c: Summary,
    /// From issued to completed, ns.
    pub d2c: Summary,
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindReport {
    pub kind: &'static str,
    /// How many, failed ones too.
    pub count: u64,
    pub errors: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// Operations a second.
    pub rate: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// From when it was due, ns; of an open loop.
    pub response: Option<Summary>,
    /// From when it began, ns.
    pub service: Summary,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceReport {
    pub elapsed_ns: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    pub merges: u64,
    pub errors: u64,
    pub lies: u64,
    pub busy_ns: u64,
    pub utilisation: f64,
    pub in_system: f64,
    pub without_slot: f64,
    pub in_scheduler: f64,
    pub in_device: f64,
    pub most_in_device: u64,
    pub most_in_system: u64,
    pub d2c: Summary,
    pub parts_ns: Parts,
}
