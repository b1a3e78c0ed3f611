// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hand-made results, and presets as from a command line.

use super::Preset;
use crate::job::{Given, Job, What};
use crate::result::{CellResult, CpuResult, JobResult, KindResult, StepResult, WorkerResult};
use crate::validity::{Verdict, Word};
use crate::witness::{Evidence, Snapshot};
use clap::Parser;
use plumb_stats::histogram::Histogram;

/// A command line with nothing but a preset.
#[derive(Debug, Parser)]
pub(super) struct Line {
    #[command(subcommand)]
    preset: Preset,
}

/// The preset of these words.
pub(super) fn parse(words: &[&str]) -> Preset {
    let line = std::iter::once("load").chain(words.iter().copied());
    Line::try_parse_from(line).unwrap_or_else(|e| panic!("{e}")).preset
}

/// These keys of a job as given on the command line.
pub(super) fn given(job: Job, keys: &[&str]) -> Given {
    Given::of(&job, |key| keys.contains(&key))
}

/// A kind's figures: each operation's time, ns, and bytes.
pub(super) fn kind(word: &'static str, times: &[u64], block: u64, elapsed_ns: u64) -> KindResult {
    let mut histogram = Histogram::boxed();
    times.iter().for_each(|&ns| histogram.record(ns));
    let count = times.len() as u64;
    let seconds = elapsed_ns.max(1) as f64 / 1e9;
    KindResult {
        kind: word,
        count,
        errors: 0,
        short: 0,
        bytes: count * block,
        rate: count as f64 / seconds,
        bandwidth: (count * block) as f64 / seconds,
        service: histogram.summary(),
        response: None,
        histogram,
        response_histogram: None,
    }
}

/// A reading of counters that could not be read.
fn nothing() -> Snapshot {
    let text = r#"{"at_ns":0,"threads":[],"devices":[],"cgroup":{},"stalled":{},"memory":{}}"#;
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

/// A step of one job: kinds by (word, times ns); its workers share all alike,
/// and use half of the time on a CPU, a quarter in user mode.
pub(crate) fn step(label: &str, job: &Job, elapsed_ns: u64, kinds: &[(&'static str, &[u64])]) -> StepResult {
    let operations: Vec<_> = kinds.iter().map(|(w, t)| kind(w, t, job.block.0, elapsed_ns)).collect();
    let workers = u64::from(job.workers());
    let each = |total: u64| total / workers;
    StepResult {
        label: label.into(),
        elapsed_ns,
        interrupted: false,
        jobs: vec![JobResult {
            job: job.clone(),
            elapsed_ns,
            workers: (0..job.workers())
                .map(|worker| WorkerResult {
                    worker,
                    pid: 1 + worker,
                    operations: each(operations.iter().map(|k| k.count).sum()),
                    bytes: each(operations.iter().map(|k| k.bytes).sum()),
                    elapsed_ns,
                    ended_ns: elapsed_ns,
                    user_ns: elapsed_ns / 4,
                    system_ns: elapsed_ns / 4,
                })
                .collect(),
            operations,
            series: Vec::new(),
            cpu: CpuResult {
                user_ns: elapsed_ns / 4 * workers,
                system_ns: elapsed_ns / 4 * workers,
                parallelism: workers as f64 / 2.0,
                ..CpuResult::default()
            },
            schedule: None,
            failures: Vec::new(),
            answer_rows: (!job.sql.is_empty()).then_some(4),
            damaged: 0,
            steady: None,
            counted: None,
            thread_mean_ns: (job.what == What::LockAndUpdate).then_some(elapsed_ns as f64),
            log_waits: 0,
            log_wait_ns: 0,
            log_lost: 0,
            events_lost: 0,
        }],
        evidence: Evidence::between(nothing(), nothing()),
        attribution: None,
        verdict: Verdict { word: Word::Valid, reasons: Vec::new(), not_looked_at: Vec::new() },
    }
}

/// A cell with these rounds.
pub(super) fn cell(label: &str, rounds: Vec<Vec<StepResult>>) -> CellResult {
    CellResult { label: label.into(), rounds }
}
