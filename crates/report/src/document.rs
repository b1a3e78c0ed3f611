// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report document, `report.json`: everything that the page shows, and the only thing that it reads.
//!
//! Times are ns from the run's begin unless a field says otherwise. What would be rows by the
//! hundred thousand is a [`Packed`] table of columns. What a crate above this one writes is a [`Value`] here;
//! `json(TYPE)` names its type for `cargo xtask gen`, and the compiler drops it.

pub use crate::export::profile::ProfileDocument;
pub use plumb_analysis::hosts::Hosts;
pub use plumb_analysis::Quality;

use plumb_diagnose::Diagnosis;
use plumb_machine::json::{formats, Format, Output};
use plumb_model::RunResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// `report.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Version of plumb.
    pub plumb: String,
    /// What it reports of: `run`, `load`, `plan`, `comparison`, `fleet`, or `hosts`, the recordings of several.
    pub kind: String,
    /// What the page is called: the command, the plan's title, `A and B`, the recordings' names.
    pub title: String,
    /// When what it reports of was made, UTC as 2026-01-31T12:00:00Z; empty where nothing tells.
    pub made: String,
    /// What names mean, and which colour they have.
    pub words: Words,
    /// A recorded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The repetitions that the run is one of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Set>,
    /// The recordings of several hosts that are one set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<RecordingRow>,
    /// Requests and commands between hosts, or between the services of one: of a set, or of a trace with TCP segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// Results of workloads that ran: what `plumb load --json` prints.
    #[serde(default)]
    #[cfg_attr(any(), json(plumb_load::session::Document))]
    pub loads: Vec<Value>,
    /// A plan's report: `report.json` of a plan's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(), json(plumb_plan::report::Report))]
    pub plan: Option<Value>,
    /// Charts of a plan. `absent` has those that are left out, as the part `charts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<ChartImage>,
    /// A comparison: what `plumb compare --json` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(), json(plumb_compare::comparison::Comparison))]
    pub comparison: Option<Value>,
    /// The runs of a lake before and after a change: what `plumb compare --lake --json` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(), json(plumb_compare::fleet::Fleet))]
    pub fleet: Option<Value>,
    /// Profiles of a comparison's sides, before and after.
    #[serde(default)]
    pub profiles: Vec<ProfileDocument>,
    /// Other pages that this one leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// Parts that are not there, and why.
    #[serde(default)]
    pub absent: Vec<Absent>,
}

impl Output for Document {
    const FORMAT: &'static Format = &formats::REPORT;
}

/// A chart that was drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartImage {
    /// Its file, from the plan's directory.
    pub file: String,
    /// What it is called.
    pub title: String,
    /// What it shows, in words, for those who cannot see it; empty where the file has none.
    pub description: String,
    /// What is in the file.
    pub svg: String,
}

/// Another page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// What it is of: of a comparison `A` or `B`.
    pub of: String,
    /// Its file, from this page's directory.
    pub href: String,
}

/// One host's recording of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingRow {
    /// Its name in the set.
    pub name: String,
    /// What its host calls itself.
    pub hostname: String,
    /// How long it was recorded, ns.
    pub elapsed: u64,
    /// Events of it.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// First sentence of its verdict.
    pub verdict: String,
    /// Why it cannot be read; empty where it can.
    pub error: String,
}

/// Repetitions of the same (`plumb run --repeat`), and how far they agree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// Directory of the repetition that is reported of: of the whole ones that of median elapsed time.
    pub median_run: String,
    /// Repetitions that were asked for.
    pub asked: u32,
    /// Why it ended before all were made; empty where it did not.
    pub ended_early: String,
    /// Elapsed times of the whole ones, ns.
    pub elapsed: Spread,
    /// In the order in which they were made.
    pub repetitions: Vec<Repeated>,
}

/// How far figures lie apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub least: f64,
    /// Largest.
    pub most: f64,
    /// Lower end of the median's 95 % interval; absent where there are too few for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A repetition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Run directory, in the set's.
    pub dir: String,
    /// Whole: neither interrupted nor ended by an error of the recording. Others are left out of the spread.
    pub complete: bool,
    /// Elapsed time of the target, ns.
    pub elapsed: u64,
    /// The command's exit code; 128 + n for signal n; absent when it still ran, or is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Events that were lost.
    pub lost: u64,
    /// First line of its verdict; empty where nothing is kept of it.
    pub verdict: String,
    /// Time of all its threads by category, ns; empty where nothing is kept of it.
    pub account: BTreeMap<String, u64>,
    /// Its own page lies in its directory.
    pub page: bool,
}

/// A part that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// `account`, `timeline`, `profile`, `requests`, `locks`, `operations`, `loads`, `hosts`; `arguments` (how plumb
    /// was called), `trace` (a part of it, or all).
    pub part: String,
    /// Why, and what to do for it to be there, in a sentence.
    pub why: String,
}

/// What names mean.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// Parts that a thread's time is split into, in the order of reports.
    pub categories: Vec<CategoryWords>,
    /// What colours stand for.
    pub kinds: Vec<KindWords>,
    /// Layers of a block request, in the order that it passes them.
    pub layers: Vec<LayerWords>,
    /// States of a CPU, as [`Timeline`] numbers them.
    #[serde(default)]
    pub cpus: Vec<CpuWords>,
    #[serde(default)]
    pub roles: Roles,
}

/// A category of the account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryWords {
    /// Its name in accounts and tables.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Place in [`Words::kinds`].
    pub kind: u32,
    /// Words in a chain of what a wait was for. `{who}` is the thread or disk, `{request}` the block
    /// request.
    #[serde(default)]
    pub step: String,
    /// The same where nobody is known.
    #[serde(default)]
    pub alone: String,
    /// The thread has a CPU.
    #[serde(default)]
    pub on_cpu: bool,
}

/// A state of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuWords {
    pub name: String,
    /// What it means.
    pub about: String,
}

/// Names of categories that the page draws for a purpose of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Running code.
    pub running: String,
    /// On a CPU in an interrupt handler.
    pub interrupted: String,
    /// A block request at the device.
    pub in_flight: String,
    /// Waiting for a user-space lock.
    pub user_lock: String,
    /// Waiting for a kernel lock.
    pub kernel_lock: String,
    /// Blocked for an unknown reason.
    pub unexplained: String,
    /// Events are missing.
    pub lost: String,
}

/// What one colour stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindWords {
    /// In legends.
    pub word: String,
    /// `#rrggbb`; black text can be read on it.
    pub color: String,
}

/// A layer of a block request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerWords {
    /// blktrace's letters: `Q2G`.
    pub name: String,
    /// What happens between the two.
    pub about: String,
    /// Name of the category that a wait for it has.
    pub category: String,
}

/// A recorded run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Machine, target and options.
    pub environment: BTreeMap<String, String>,
    /// Words that plumb was called with; empty where only the trace is there.
    pub arguments: Vec<String>,
    /// How far the trace can be trusted.
    pub quality: Quality,
    /// Verdict, kind of limit, findings; those of services.
    pub diagnosis: Diagnosis,
    /// Account, tables, devices, locks, critical path.
    pub result: RunResult,
    /// The wall-clock profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileDocument>,
    /// What threads and CPUs did when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Block requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// Operations that workloads told of themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
}

/// A table by columns, each of them `rows` unsigned numbers in LEB128, then deflate (raw), then
/// base64. What a column says is a difference says of how much it is above the row before's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// Rows.
    pub rows: u64,
    /// Columns by name.
    pub columns: BTreeMap<String, String>,
}

/// How many there were of what a table shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// In the trace.
    pub seen: u64,
    /// In the table.
    pub shown: u64,
    /// How they were chosen, a sentence; empty where all are shown.
    pub how: String,
}

/// What threads and CPUs did when.
///
/// `intervals`: lane by lane, in the order of time. Columns: `gap` (ns between the end of the
/// interval before in the lane, or the run's begin, and its begin), `length` (ns), `state` (of a
/// thread a place in [`Words::categories`]; of a CPU 0 idle, 1 busy, 2 not seen yet, 3 lost), `who`
/// (place in [`Timeline::whos`], 0 nobody; of a busy CPU the thread), `wait` (row in `waits` and one,
/// 0 none), `request` (row in [`Requests::table`] and one, 0 none or not shown), `merged` (intervals
/// that it stands for: 1, or more where short ones were put together under the state of most time;
/// wait and request are those of the longest of them that has this state), `interrupted` (ns of the
/// length in which an interrupt had the CPU; the account has them under `interrupted`).
///
/// `waits`: in the order of their intervals. Columns: `stack` (place in [`Timeline::stacks`], 0
/// none), `waker` (place in [`Timeline::lanes`] and one; 0: nobody, an interrupt, or no lane),
/// `waker_name` (place in whos, 0 not known).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of the run, ns.
    pub length: u64,
    /// CPUs first, then threads by process.
    pub lanes: Vec<Lane>,
    /// Threads' names and disks; 0 is empty.
    pub whos: Vec<String>,
    /// Kernel stacks, innermost function first; 0 is empty.
    pub stacks: Vec<Vec<String>>,
    /// See above.
    pub intervals: Packed,
    /// See above.
    pub waits: Packed,
    /// Of the intervals.
    pub sampled: Sampled,
}

/// A thread or CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// `thread` or `cpu`.
    pub kind: String,
    /// Thread or CPU number.
    pub id: u32,
    /// Process; 0 of a CPU.
    pub pid: u32,
    /// The thread's last name, or `CPU 0`.
    pub name: String,
    /// Name of its process.
    pub process: String,
    /// Rows of [`Timeline::intervals`]: how many before its own.
    pub first: u64,
    /// Its own.
    pub rows: u64,
}

/// Block requests.
///
/// `table`, in the order in which they were queued. Columns: `queued` (ns, the first from the run's
/// begin, others a difference), `q2g`, `g2f`, `f2i`, `i2d`, `d2c` (ns), `device` (place in
/// [`Requests::devices`]), `write` (0, 1), `flags` (the kernel's REQ_OP_ in the low eight bits, its REQ_
/// flags above), `bytes` (0: it has no data), `sector` (0 where there is no data),
/// `owner` (place in [`Timeline::lanes`] and one, 0 no lane), `owner_name` (place in whos),
/// `depth` (requests with the driver when it was issued; 0 not known), `operation` (place in
/// [`Requests::operations`]), `slow` (1: it is one of the slowest, and only for that in the table; those with
/// 0 are every k-th, so that means and shares of them are fair for all). Documents of earlier versions lack
/// the last two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Names of the disks.
    pub devices: Vec<String>,
    /// What requests do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<RequestKind>,
    /// Names of owners; 0 is empty.
    pub whos: Vec<String>,
    /// See above.
    pub table: Packed,
    /// Of the requests.
    pub sampled: Sampled,
    /// All requests with data by time of completion and latency, a map a disk and direction.
    pub heat: Vec<Heat>,
    /// All requests that the driver had, by disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depth: Vec<Depth>,
}

/// What a request does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKind {
    /// read, write, flush, discard ...; empty write: asks for a flush, and the kernel sends one of its own.
    pub word: String,
    /// It counts with the writes, as a flush and a discard do.
    pub write: bool,
    /// Data goes to or from the device. A discard has a length, and no data.
    pub data: bool,
}

/// How many requests the driver had at once, in columns of time; the first begins with the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Disk.
    pub device: String,
    /// Width of a column, ns. There are as many as reach to the last completion.
    pub step: u64,
    /// Most at once in each column.
    pub most: Vec<u32>,
    /// Sum of the times that those that completed were with the driver in each column, ns; divided by
    /// the width it is their mean number.
    pub time: Vec<u64>,
}

/// How many requests took how long when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Disk.
    pub device: String,
    /// Direction.
    pub write: bool,
    /// Width of a column of time, ns; the first begins with the run.
    pub step: u64,
    /// Edges of the latencies (Q2C), ns, ascending; one more than there are rows.
    pub edges: Vec<u64>,
    /// Cells that are not empty: column, row, requests.
    pub cells: Vec<(u32, u32, u64)>,
}

/// Operations of workloads.
///
/// `table`, in the order of their begins. Columns: `begin` (ns, as `queued` above), `length` (ns),
/// `kind` (place in [`Operations::kinds`]), `lane` (as `owner`), `bytes`, `failed` (error number, 0 none),
/// `late` (us after its intended time), `slow` (as a request's).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Kinds of operations.
    pub kinds: Vec<String>,
    /// See above.
    pub table: Packed,
    /// Of the operations.
    pub sampled: Sampled,
}
