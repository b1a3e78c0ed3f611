// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model found, as it is written to a run directory. Times are ns.

use crate::account::Category;
use crate::profile::Origin;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// First moment that is accounted.
    pub begin: u64,
    /// Last moment.
    pub end: u64,
    /// Every process of the machine was recorded: what a wait waits for has an account of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everyone: bool,
    /// Events from `begin` on.
    pub events: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// Time in which the recording paused, to keep within its budget, ns; it is in `begin` to `end`.
    #[serde(default)]
    pub paused: u64,
    /// Transitions that cannot be, by kind: traces of missing events or of errors in the model.
    pub impossible: BTreeMap<String, u64>,
    /// Processes of the target, in the order of their begin.
    pub processes: Vec<ProcessRow>,
    /// Everybody else, by name.
    pub others: Vec<OtherRow>,
    /// CPUs.
    pub cpus: Vec<CpuRow>,
    /// Devices that were used.
    pub devices: Vec<DeviceRow>,
    /// What the unexplained time of the target consists of.
    pub unexplained: Vec<UnexplainedRow>,
    /// The critical path.
    pub path: PathResult,
    /// Locks for which the target slept, most time first.
    pub locks: Vec<LockRow>,
    /// How processes use disks, most device service time first.
    pub patterns: Vec<PatternRow>,
    /// What the target's CPU time went to, as samples saw it.
    pub samples: SampleResult,
    /// Files that were synced, most time first.
    pub synced_files: Vec<FileRow>,
    /// TCP segments that were sent again.
    pub retransmits: u64,
    /// Whether it was recorded who waited for them: waits in calls on a socket that do not say so were not prolonged.
    #[serde(default)]
    pub retransmit_waiters: bool,
    /// Many woken where one was meant.
    pub herds: HerdResult,
    /// Requests that the target served.
    #[serde(default)]
    pub service: ServiceResult,
    /// What froze the flight recorder; absent of other recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerRow>,
    /// Spans by what names them, most time first; empty where none were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanRow>,
    /// What the target's programs said that their threads waited for, most time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_events: Vec<WaitEventRow>,
    /// Rows that are not in this file, by list; the rows of `processes` and `threads` are added up in one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// A whole machine's services, most CPU time first; empty where the target is one.
    #[serde(skip)]
    pub services: Vec<ServiceRun>,
    /// What processes outside of the target did while it waited for them, followed like its own threads.
    #[serde(default)]
    pub peers: Vec<BlameRow>,
    /// How often a thread of the target left a CPU because the quota of its cgroup was used up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over_quota: u64,
    /// Journal commits.
    pub journal: JournalResult,
    /// The longest waits of each category.
    pub longest: BTreeMap<Category, Vec<WaitRow>>,
    /// How far the kernel's counters went from the beginning to the end.
    pub counters: BTreeMap<String, u64>,
    /// A few functions of each category, category by category, most time first; empty where no
    /// profile was made.
    #[serde(default)]
    pub hot: Vec<HotRow>,
}

impl RunResult {
    /// Time that was recorded, ns: from begin to end without pauses.
    pub fn recorded(&self) -> u64 {
        self.end.saturating_sub(self.begin).saturating_sub(self.paused)
    }
}

/// A system call, block request or wait for a CPU that took longer than a flight recorder was told that it may.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerRow {
    /// The condition, as it was asked for: `fsync > 50ms`.
    pub condition: String,
    /// When it began, from the trace's begin.
    pub at: u64,
    /// How long it took.
    pub time: u64,
    /// How much of that lies before the trace's begin.
    #[serde(default)]
    pub before: u64,
    /// Who called or waited, or issued the request.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Where that thread's time went meanwhile, largest first.
    pub parts: Vec<BlameRow>,
}

/// A function that had time of a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotRow {
    /// Category of the account.
    pub category: Category,
    /// Thread's name or disk that was waited for; empty where nobody in particular.
    pub who: String,
    /// On a CPU: the innermost function. A wait's: the user code that waits; of a lock of the
    /// kernel the kernel's function that wants it.
    pub function: String,
    /// File that it lies in; `kernel`.
    pub module: String,
    /// User code or the kernel.
    pub origin: Origin,
    /// Callers from which most of the time comes, innermost first, without those that tell nothing.
    pub under: Vec<String>,
    /// System call in which most of it was spent: `write(2)`; empty in none, or not known.
    pub call: String,
    /// Samples, or waits.
    pub count: u64,
    /// Time.
    pub time: u64,
    /// Instruction with most of it; absent where it was not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
}

/// What the target's elapsed time went to when waits for its own threads are
/// followed to what those did: of the command's first thread, or of all threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// `command`: from its first thread's begin to its end. `requests`: from the arrival of each request to
    /// the first bytes sent back, waits for threads of the target followed. `threads`: the
    /// sum over all threads of the target.
    pub of: String,
    /// Its length; the parts add up to it.
    pub time: u64,
    /// What it went to, largest first.
    pub parts: Vec<BlameRow>,
    /// What the whole lives of those threads went to on whose ends the command's end depended.
    pub last: Vec<BlameRow>,
    /// The longest waits of those, in the order of time.
    pub steps: Vec<WaitRow>,
}

impl PathResult {
    /// Time in a category.
    pub fn part(&self, category: Category) -> u64 {
        self.parts.iter().filter(|p| p.category == category).map(|p| p.time).sum()
    }
}

/// Time in a category that somebody had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameRow {
    /// Category.
    pub category: Category,
    /// Thread's name or disk; empty where nobody in particular.
    pub who: String,
    /// Time.
    pub time: u64,
}

/// One wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRow {
    /// When, from the trace's begin.
    pub at: u64,
    /// How long.
    pub time: u64,
    /// Thread that waited; 0 on the critical path.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// What for.
    pub category: Category,
    /// Whose.
    pub who: String,
}

/// One lock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// Address; a user lock's within its process.
    pub lock: String,
    /// Process of a user lock, 0 for a lock of the kernel.
    pub pid: u32,
    /// mutex, rwsem, user lock ...
    pub kind: String,
    /// Function in which threads waited, empty where no stack was taken.
    pub site: String,
    /// Contentions, sleeping or not.
    pub contentions: u64,
    /// Waits that slept.
    pub waits: u64,
    /// Of those, for reading.
    pub readers: u64,
    /// Their time.
    pub time: u64,
    /// Longest.
    pub longest: u64,
    /// Most threads that waited at once.
    pub most_waiting: u32,
    /// Who held it while others waited.
    pub holders: Vec<BlameRow>,
    /// What the holders were at meanwhile.
    pub doing: Vec<BlameRow>,
    /// The last times that it changed hands, in the order of time.
    pub chain: Vec<HandoffRow>,
}

/// A lock passed from one thread to another that waited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRow {
    /// When, from the trace's begin.
    pub at: u64,
    /// Thread that let go; 0 not known.
    pub holder: u32,
    /// Its name.
    pub holder_comm: String,
    /// Function that let go; empty where no stack was taken.
    pub function: String,
    /// Thread that got it.
    pub next: u32,
    /// Its name.
    pub next_comm: String,
    /// How long it had waited.
    pub waited: u64,
    /// Threads that still waited.
    pub behind: u32,
    /// It wanted to read.
    pub read: bool,
}

/// One process, one disk, one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PatternRow {
    /// Process.
    pub pid: u32,
    /// Name of one of its threads.
    pub comm: String,
    /// It belongs to the target.
    pub target: bool,
    /// Disk.
    pub device: String,
    /// Writes, not reads.
    pub write: bool,
    /// Requests with data.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that began where the last one ended.
    pub sequential: u64,
    /// Those that began less than 1 MiB behind it.
    pub near: u64,
    /// Read-ahead of the kernel.
    pub ahead: u64,
    /// Requests with waiters (REQ_SYNC).
    pub sync: u64,
    /// Those with FUA or a flush first.
    pub barrier: u64,
    /// Mean number of requests with the driver when one was issued.
    pub depth: f64,
    /// Device service time: sum.
    pub service: u64,
    /// Median.
    pub service_median: u64,
    /// 99th percentile.
    pub service_p99: u64,
    /// Longest.
    pub service_max: u64,
    /// Time of those that took over ten times the median.
    pub service_stalled: u64,
    /// Its first third of time and its last; none where one of them had fewer than 30 requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thirds: Option<[ThirdRow; 2]>,
}

/// A part of the time in which a process used a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThirdRow {
    /// Requests with data.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that began where the last one ended, or less than 1 MiB behind it.
    pub sequential: u64,
    /// Mean number of requests with the driver when one was issued.
    pub depth: f64,
    /// Device service time, ns: sum.
    pub service: u64,
    /// Of one request, the geometric mean: a few that stalled change it little.
    pub service_typical: u64,
}

/// What samples saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleResult {
    /// Samples of the target.
    pub samples: u64,
    /// By what they were at.
    pub at: BTreeMap<String, u64>,
    /// Kernel functions, most samples first.
    pub functions: Vec<FunctionRow>,
    /// System calls that they were in.
    pub calls: BTreeMap<String, u64>,
}

/// A function of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Name.
    pub function: String,
    /// What it was called for.
    pub at: String,
    /// Samples in it.
    pub samples: u64,
}

/// Wakeups of many threads by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HerdResult {
    /// Threads woken in herds of four or more.
    pub wakeups: u64,
    /// Of those, threads that slept again within 0.2 ms of running.
    pub futile: u64,
    /// Largest herd.
    pub largest: u32,
    /// Time from the wakeup to the new sleep of the futile ones.
    pub time: u64,
}

/// A program of a machine with what it started, as if it had been the target alone. Devices, CPUs, others, counters and
/// contradictions are the machine's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceRun {
    /// Name of the program.
    pub name: String,
    /// Its processes, those that ended included; as far as their ids were not used again.
    pub pids: BTreeSet<u32>,
    /// How many there were.
    pub processes: u64,
    /// What it did: all its processes in one row.
    pub result: RunResult,
}

/// Requests of clients on connections that processes of the target accepted. What is received and then sent is a
/// request, whatever the protocol: pipelined requests count as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceResult {
    /// Requests that were answered.
    pub requests: u64,
    /// Time from the arrival of each to the first bytes sent back.
    pub time: u64,
    /// The longest.
    pub longest: u64,
    /// Of the time, until they were received: while the thread that waited for one was woken, and while data was in a TCP socket that
    /// nobody read. Absent where the trace does not tell of the latter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<u64>,
    /// What threads of the target did meanwhile that requests in progress waited for (`thread.request`).
    pub meanwhile: Vec<BlameRow>,
    /// Which threads those were, most time first.
    pub blockers: Vec<BlockerRow>,
}

/// A thread of the target that requests in progress waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockerRow {
    /// Thread that ended the waits.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// How many.
    pub waits: u64,
    /// Their time.
    pub time: u64,
}

/// A file that was synced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Path, as /proc told it.
    pub path: String,
    /// Calls of fsync(2) and the like.
    pub calls: u64,
    /// Their time.
    pub time: u64,
}

/// Commits of all journals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalResult {
    /// Transactions committed.
    pub commits: u64,
    /// Their time.
    pub time: u64,
}

/// The columns of Horikawa's tables. Use of a CPU and of disks may overlap, as
/// read-ahead and writeback do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// On a CPU.
    pub cpu_used: u64,
    /// Waiting for a CPU.
    pub cpu_wait: u64,
    /// At least one of its requests was with a device.
    pub disk_used: u64,
    /// Requests of its own waited, and none was with a device.
    pub disk_wait: u64,
    /// Requests with data.
    pub accesses: u64,
    /// Of those, writes.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests without data (flushes).
    pub flushes: u64,
    /// Sum over the accesses of the device service time.
    pub service: u64,
    /// Sum over the accesses of the time from queue to completion.
    pub response: u64,
}

impl Use {
    /// Mean bytes of an access, 0 without any.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.accesses.max(1) as f64
    }
    /// Mean device service time of an access, ns, 0 without any.
    pub fn mean_service(&self) -> f64 {
        self.service as f64 / self.accesses.max(1) as f64
    }
    /// Adds another's.
    pub fn merge(&mut self, o: &Use) {
        for (a, b) in [
            (&mut self.cpu_used, o.cpu_used),
            (&mut self.cpu_wait, o.cpu_wait),
            (&mut self.disk_used, o.disk_used),
            (&mut self.disk_wait, o.disk_wait),
            (&mut self.accesses, o.accesses),
            (&mut self.writes, o.writes),
            (&mut self.bytes, o.bytes),
            (&mut self.flushes, o.flushes),
            (&mut self.service, o.service),
            (&mut self.response, o.response),
        ] {
            *a = a.saturating_add(b);
        }
    }
}

/// One process of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Process id; 0: the sum of those beyond 10,000, the ones with the least thread time.
    pub pid: u32,
    /// Name of its first thread.
    pub comm: String,
    /// Command line, where it could be read.
    pub cmdline: String,
    /// Process id of its parent; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Begin.
    pub begin: u64,
    /// From its begin to its end.
    pub elapsed: u64,
    /// CPU and disks, all threads.
    #[serde(flatten)]
    pub usage: Use,
    /// Sum of the threads' life times; the account adds up to it.
    pub thread_time: u64,
    /// Where that time went, by category.
    pub account: BTreeMap<Category, u64>,
    /// Who or what its waits went to, largest first.
    pub blame: Vec<BlameRow>,
    /// Where the time of reads and writes with O_DIRECT went.
    pub direct: BTreeMap<Category, u64>,
    /// Where the time of fsync(2) and the like, and of writes with O_SYNC or O_DSYNC went.
    pub synced: BTreeMap<Category, u64>,
    /// Calls of that kind.
    pub syncs: u64,
    /// Calls of fadvise64(2).
    pub advised: u64,
    /// CPU time as the kernel counted it for threads that ended, for comparison.
    pub kernel_cpu: Option<u64>,
    /// Times its threads left a CPU by their own will, and not.
    pub switches: [u64; 2],
    /// Threads.
    pub threads: Vec<ThreadRow>,
    /// System calls that were recorded.
    pub syscalls: Vec<SyscallRow>,
    /// Operations that it told of itself: a workload's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationRow>,
}

impl ProcessRow {
    /// Time in a category, ns.
    pub fn part(&self, category: Category) -> u64 {
        self.account.get(&category).copied().unwrap_or(0)
    }
}

/// One thread of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Thread id; 0: the sum of those of the process beyond 10,000.
    pub tid: u32,
    /// Begin.
    pub begin: u64,
    /// From its begin to its end.
    pub elapsed: u64,
    /// CPU and disks.
    #[serde(flatten)]
    pub usage: Use,
    /// Where that time went, by category; adds up to `elapsed`.
    pub account: BTreeMap<Category, u64>,
}

/// One system call of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SyscallRow {
    /// Name.
    pub name: String,
    /// Calls that returned.
    pub calls: u64,
    /// Sum of their durations.
    pub total: u64,
    /// Longest.
    pub max: u64,
    /// Where that time went, by category; adds up to `total`.
    pub account: BTreeMap<Category, u64>,
    /// Block requests that the thread itself asked for within the calls.
    pub own_requests: u64,
    /// Block requests of other threads (journal, writeback) that the calls waited for.
    pub other_requests: u64,
    /// Bytes of those.
    pub other_bytes: u64,
    /// Bytes that the calls read or wrote.
    pub bytes: u64,
}

/// The operations of one kind that a process told of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// write, read, sync ...: [`plumb_trace::load::OperationKind`].
    pub kind: String,
    /// Operations that ended.
    pub count: u64,
    /// Of those, failed.
    pub errors: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of their durations.
    pub total: u64,
    /// Longest.
    pub max: u64,
    /// Sum of how long after its intended time each began.
    pub late: u64,
    /// Operations whose end was not told: cut off, or lost.
    pub unfinished: u64,
    /// A thread had several open at once. Then `accounted` is less than `total`:
    /// time goes to the oldest that is open, once.
    pub overlapping: bool,
    /// What the account adds up to; `total` where nothing overlaps.
    pub accounted: u64,
    /// Where that time went, by category.
    pub account: BTreeMap<Category, u64>,
}

/// The spans of one name and key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanRow {
    /// What the kind of span is called.
    pub name: String,
    /// What names those of this row: a number or a text; empty where nothing does.
    pub key: String,
    /// Program and functions where it begins and ends.
    pub place: String,
    /// Spans that ended.
    pub count: u64,
    /// Spans whose end was not seen: cut off, or lost.
    pub unfinished: u64,
    /// Sum of their durations.
    pub total: u64,
    /// Duration that half of them do not exceed, within 1 %.
    pub p50: u64,
    /// The same of 90 %.
    pub p90: u64,
    /// The same of 99 %.
    pub p99: u64,
    /// The same of 99.9 %.
    pub p999: u64,
    /// Longest.
    pub max: u64,
    /// Where the time went; adds up to `total`.
    pub account: BTreeMap<Category, u64>,
    /// The same with who and what, most time first; not all where there are many.
    pub causes: Vec<CauseRow>,
    /// What the slowest have more of than the others; absent with few spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailRow>,
    /// The slowest.
    pub slowest: Vec<SlowSpanRow>,
}

/// What a part of a span's time went to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseRow {
    /// Category.
    pub category: Category,
    /// Thread's name or disk; empty where nobody in particular.
    pub who: String,
    /// Whose requests the disk served meanwhile, mostly, where that was no thread of the target.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beside: String,
    /// What its program said that it waits for; empty where it said nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Time; of a tail, its mean.
    pub time: u64,
    /// Spans that had any of it; 0 of a tail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spans: u64,
    /// Of a tail: the mean of the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub typical: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The slowest percent of a row's spans beside the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailRow {
    /// How many were looked at: the slowest percent, at most 32.
    pub spans: u64,
    /// Duration of the fastest of these.
    pub least: u64,
    /// Their mean duration.
    pub mean: u64,
    /// Mean duration of a sample of those below the 99th percentile.
    pub typical: u64,
    /// What they have more of, most first.
    pub causes: Vec<CauseRow>,
}

/// One slow span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowSpanRow {
    /// When it began, from the trace's begin.
    pub at: u64,
    /// How long it took.
    pub time: u64,
    /// Thread.
    pub thread: u32,
    /// Where its time went, most first.
    pub causes: Vec<CauseRow>,
}

/// Waits that a program gave one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitEventRow {
    /// Class and name, as the program's own views show them.
    pub name: String,
    /// Waits.
    pub waits: u64,
    /// Their time, asleep.
    pub time: u64,
    /// Longest.
    pub max: u64,
    /// Their time by the program's clock: the whole of the call in which it waited, as its own views show it.
    pub elapsed: u64,
    /// What the waits were for, as the kernel's events tell; adds up to `time`.
    pub account: BTreeMap<Category, u64>,
    /// Threads of the target that ended them, most time first.
    pub ended_by: Vec<EndedByRow>,
}

/// Who ended waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedByRow {
    /// Thread.
    pub thread: u32,
    /// Its name.
    pub comm: String,
    /// Key of the span that it was in, or that it ended last.
    pub span: String,
    /// Time of the waits that it ended.
    pub time: u64,
}

/// Threads outside the target, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherRow {
    /// Name.
    pub comm: String,
    /// Threads.
    pub threads: u64,
    /// The recorder itself.
    pub recorder: bool,
    /// On a CPU.
    pub cpu_used: u64,
    /// Waiting for a CPU.
    pub cpu_wait: u64,
    /// Requests with data.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuRow {
    /// Number.
    pub cpu: u32,
    /// Running threads.
    pub busy: u64,
    /// Idle.
    pub idle: u64,
    /// In interrupts.
    pub interrupts: u64,
    /// Before its first event.
    pub unseen: u64,
    /// Events missing.
    pub lost: u64,
    /// Switches.
    pub switches: u64,
}

/// One device's queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Kernel name, or major:minor.
    pub name: String,
    /// Device number.
    pub dev: u32,
    /// File behind a loop device; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub backing: String,
    /// Reads with data.
    pub reads: u64,
    /// Writes with data.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discards, secure erases and zeroes that the device writes by itself.
    #[serde(default)]
    pub discards: u64,
    /// Bytes that those concern.
    #[serde(default)]
    pub discard_bytes: u64,
    /// Flushes that the kernel sent.
    pub flushes: u64,
    /// Bios that joined a request.
    pub merges: u64,
    /// Requests that came back from the driver.
    pub requeues: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Time with at least one request at the driver.
    pub busy: u64,
    /// Mean number of requests at the driver over the whole time.
    pub mean_in_flight: f64,
    /// Most requests at the driver at once.
    pub max_in_flight: u32,
    /// Mean of queue to slot.
    pub q2g: f64,
    /// Mean of slot to insertion, a flush left out.
    pub g2i: f64,
    /// Mean of the wait for a flush that had to come first.
    pub flush: f64,
    /// Mean of insertion to issue.
    pub i2d: f64,
    /// Mean of issue to completion.
    pub d2c: f64,
}

/// A part of the target's unexplained time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnexplainedRow {
    /// System call, or `-` outside of any recorded one.
    pub syscall: String,
    /// Kernel stack, innermost first, where the wait was above the threshold; else empty.
    pub stack: Vec<String>,
    /// Waits.
    pub waits: u64,
    /// Their time.
    pub time: u64,
}
