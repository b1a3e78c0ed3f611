// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rounds of a cell side by side: each kind of operation of each job and step.

use crate::result::{CellResult, KindResult};

/// A figure of a kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// Mean latency, ns; as all below: the response of an open loop, else the service.
    Mean,
    P50,
    /// 90 % are not longer.
    P90,
    /// 95 % are not longer.
    P95,
    /// 99 % are not longer.
    P99,
    /// 99.9 % are not longer.
    P99_9,
    /// 99.99 % are not longer.
    P99_99,
}

impl Figure {
    pub const ALL: [Figure; 8] = [
        Figure::Rate,
        Figure::Mean,
        Figure::P50,
        Figure::P90,
        Figure::P95,
        Figure::P99,
        Figure::P99_9,
        Figure::P99_99,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Figure::Rate => "rate",
            Figure::Mean => "mean",
            Figure::P50 => "p50",
            Figure::P90 => "p90",
            Figure::P95 => "p95",
            Figure::P99 => "p99",
            Figure::P99_9 => "p99.9",
            Figure::P99_99 => "p99.99",
        }
    }

    fn of(self, kind: &KindResult) -> Option<f64> {
        let latency = kind.latency();
        let ns = |value: Option<u64>| value.map(|v| v as f64);
        match self {
            Figure::Rate => Some(kind.rate),
            Figure::Mean => Some(latency.mean_ns),
            Figure::P50 => ns(latency.p50),
            Figure::P90 => ns(latency.p90),
            Figure::P95 => ns(latency.p95),
            Figure::P99 => ns(latency.p99),
            Figure::P99_9 => ns(latency.p99_9),
            Figure::P99_99 => ns(latency.p99_99),
        }
    }
}

/// A kind of operation of a job, through all rounds.
#[derive(Debug)]
pub struct Kind<'a> {
    pub step: &'a str,
    /// The job's number in the step.
    pub job: usize,
    /// What the job is for: no synchronisation or close that only goes with it.
    pub main: bool,
    /// The kind's figures in each round.
    pub rounds: Vec<&'a KindResult>,
}

impl Kind<'_> {
    /// The figure in each round that has it.
    pub fn values(&self, figure: Figure) -> Vec<f64> {
        self.rounds.iter().filter_map(|kind| figure.of(kind)).collect()
    }
}

/// Every kind of operation of a cell, in the order of the first round. A round
/// that was interrupted is left out: it is a shorter run.
pub fn of(cell: &CellResult) -> Vec<Kind<'_>> {
    let whole: Vec<_> = cell.rounds.iter().filter(|round| !round.iter().any(|s| s.interrupted)).collect();
    let Some(first) = whole.first() else { return Vec::new() };
    let mut all = Vec::new();
    for (s, step) in first.iter().enumerate() {
        for (j, job) in step.jobs.iter().enumerate() {
            for kind in &job.operations {
                let rounds = whole.iter().filter_map(|round| round.get(s)?.jobs.get(j)?.kind(kind.kind));
                let main = job.main_operations().any(|k| k.kind == kind.kind);
                all.push(Kind { step: &step.label, job: j, main, rounds: rounds.collect() });
            }
        }
    }
    all
}
