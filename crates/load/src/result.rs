// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of a run: figures with their units in their names, for people
//! (`plumb load`'s table) and programs (`--json`) alike.

use crate::job::Job;
use crate::validity::{Verdict, Word};
use crate::witness::{Attribution, Evidence};
use plumb_stats::histogram::{Histogram, Summary};
use plumb_trace::load::OperationKind;
use serde::Serialize;

/// One step: jobs that ran at the same time.
#[derive(Debug, Serialize)]
pub struct StepResult {
    pub label: String,
    /// From the common start to the last worker's end, ns.
    pub elapsed_ns: u64,
    /// It was ended from outside (Ctrl-C) before it was done.
    pub interrupted: bool,
    pub jobs: Vec<JobResult>,
    /// Counters of devices, CPUs and cgroups around it.
    pub evidence: Evidence,
    /// Whose time the operations' time was; the parts add up to it.
    pub attribution: Option<Attribution>,
    /// Whether the figures may be believed, and why not.
    pub verdict: Verdict,
}

#[derive(Debug, Serialize)]
pub struct JobResult {
    /// The job as it ran.
    pub job: Job,
    /// From its first counted operation's beginning to its last one's end, ns.
    pub elapsed_ns: u64,
    pub operations: Vec<KindResult>,
    /// Each worker's share.
    pub workers: Vec<WorkerResult>,
    /// Each second's.
    pub series: Vec<Second>,
    /// CPU time and switches of all workers together.
    pub cpu: CpuResult,
    /// What became of an open loop's schedule.
    pub schedule: Option<ScheduleResult>,
    /// First failure of each worker that had one, in words.
    pub failures: Vec<String>,
    /// Rows of the last answer of a database; `None` of several texts, and where no database was asked.
    pub answer_rows: Option<u64>,
    /// Blocks that were read and were not what was written.
    pub damaged: u64,
    /// Whether --steady's test came true; `None` when it was not asked for.
    pub steady: Option<bool>,
    /// Counters' sum of lock-and-update, and what it should be.
    pub counted: Option<Counted>,
    /// Mean over the workers of lock-and-update of the time from the common start to the worker's own end, ns.
    pub thread_mean_ns: Option<f64>,
    /// Times that workers waited for room in the log.
    pub log_waits: u64,
    /// How long they did, ns.
    pub log_wait_ns: u64,
    /// Operations that the log could not take.
    pub log_lost: u64,
    /// Operations whose events could not be written to the recording.
    pub events_lost: u64,
}

/// What is said of one kind of operation.
#[derive(Debug, Serialize)]
pub struct KindResult {
    pub kind: &'static str,
    pub count: u64,
    /// Of these, failed ones; they are in no latency.
    pub errors: u64,
    /// Of these, ones that moved fewer bytes than asked for.
    pub short: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations a second, failed ones left out.
    pub rate: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// From an operation's beginning to its end.
    pub service: Summary,
    /// From the moment that it was due to its end; open loop only.
    pub response: Option<Summary>,
    #[serde(skip)]
    pub histogram: Box<Histogram>,
    #[serde(skip)]
    pub response_histogram: Option<Box<Histogram>>,
}

impl KindResult {
    /// The latency that a user feels: the response where there is one.
    pub fn latency(&self) -> &Summary {
        self.response.as_ref().unwrap_or(&self.service)
    }

    pub fn latencies(&self) -> &Histogram {
        self.response_histogram.as_deref().unwrap_or(&self.histogram)
    }
}

/// One worker's share.
#[derive(Debug, Serialize)]
pub struct WorkerResult {
    /// Its number in the job.
    pub worker: u32,
    pub pid: u32,
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From its first operation's beginning to its last one's end, ns.
    pub elapsed_ns: u64,
    /// From the common start of all workers to its last operation's end, ns: with its wait for a CPU before its first operation.
    pub ended_ns: u64,
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
}

/// One second of a job.
#[derive(Debug, Clone, Serialize)]
pub struct Second {
    /// Its end, ns from the common start.
    pub at_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// Operations that ended in it.
    pub operations: u64,
    /// Bytes moved in it.
    pub bytes: u64,
    /// Longest operation that ended in it, ns.
    pub longest_ns: u64,
}

impl Second {
    /// Its beginning, ns from the common start.
    pub fn begin_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.length_ns)
    }
}

/// CPU time of the workers.
#[derive(Debug, Default, Clone, Serialize)]
pub struct CpuResult {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
    /// In user mode, ns an operation.
    pub user_ns_per_operation: f64,
    /// In the kernel, ns an operation.
    pub system_ns_per_operation: f64,
    /// Ready to run and waiting for a CPU, ns.
    pub run_queue_ns: u64,
    /// Switches because the thread waited.
    pub voluntary_switches: u64,
    /// Switches because the CPU was taken away.
    pub involuntary_switches: u64,
    /// CPU seconds a second of elapsed time: how parallel it really was.
    pub parallelism: f64,
}

/// What became of an open loop's schedule.
#[derive(Debug, Serialize)]
pub struct ScheduleResult {
    /// Operations a second that were asked for.
    pub rate: f64,
    pub due: u64,
    /// Of these, ones that never began: the target was too slow for the rate.
    pub never_begun: u64,
    /// Operations that a free worker began more than 100 us late, or 10 % of the distance of two.
    pub late: u64,
    /// How late a free worker began an operation: the load's own fault.
    pub lag: Summary,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Counted {
    /// Sum of the counters at the end.
    pub counters: u64,
    pub updates: u64,
}

impl JobResult {
    /// Operations of the job's own kind, synchronisations and closes left out.
    pub fn main_operations(&self) -> impl Iterator<Item = &KindResult> {
        let own =
            |k: &&KindResult| OperationKind::from_word(k.kind).is_some_and(|kind| self.job.is_own(kind));
        self.operations.iter().filter(own)
    }

    pub fn kind(&self, word: &str) -> Option<&KindResult> {
        self.operations.iter().find(|k| k.kind == word)
    }

    /// Operations a second of the job's own kind.
    pub fn rate(&self) -> f64 {
        self.main_operations().map(|k| k.rate).sum()
    }

    /// Bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.main_operations().map(|k| k.bandwidth).sum()
    }
}

/// All rounds of a cell: each round ran all of its steps.
#[derive(Debug, Serialize)]
pub struct CellResult {
    /// What tells it from the other cells.
    pub label: String,
    /// Its rounds, in the order in which they ran; rounds of different cells interleave.
    pub rounds: Vec<Vec<StepResult>>,
}

impl CellResult {
    /// Whether data was damaged, or an update of a counter lost.
    pub fn damaged(&self) -> bool {
        let lost = |job: &JobResult| job.counted.is_some_and(|c| c.counters != c.updates);
        self.rounds.iter().flatten().flat_map(|s| &s.jobs).any(|job| job.damaged > 0 || lost(job))
    }

    /// Whether the figures of a round may not be believed.
    pub fn invalid(&self) -> bool {
        self.rounds.iter().flatten().any(|step| step.verdict.word == Word::Invalid)
    }
}

impl CellResult {
    /// Each round's result of the step with this label.
    pub fn step<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a StepResult> {
        self.rounds.iter().flatten().filter(move |s| s.label == label)
    }
}

/// A table of figures in the words of a classic tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it shows, with units.
    pub title: String,
    /// Column heads; one that begins with '<' is set to the left.
    pub head: Vec<String>,
    /// Rows of as many cells; an empty row draws a line.
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
}

/// The median of figures; `None` of none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().filter(|f| f.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}
