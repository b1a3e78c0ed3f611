// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The books as rows of a result, with names for numbers.

use crate::account::Category;
use crate::files::Synced;
use crate::functions::user_functions;
use crate::locks::{kind, Locks};
use crate::parts::{Names, Parts, Who};
use crate::path::{Path, Step};
use crate::pattern::{beyond, Patterns};
use crate::result::{
    BlameRow, FileRow, FunctionRow, HandoffRow, LockRow, PathResult, PatternRow, SampleResult, WaitRow,
};
use crate::samples::{Counts, Samples};
use crate::services::Service;
use crate::setup::Setup;
use crate::wait_frames::{is_runtime, lets_go};
use plumb_trace::units;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Locks and patterns in a result.
const MOST_LOCKS: usize = 20;
/// From this share of the threads' busy time on, the requests that they served are what a service is about.
const SERVES: f64 = 0.2;
const MOST_PATTERNS: usize = 50;
const MOST_FILES: usize = 20;
const MOST_FUNCTIONS: usize = 30;

pub(super) struct Rows<'a> {
    pub names: &'a Names,
    pub setup: &'a Setup,
}

impl Rows<'_> {
    fn who(&self, who: Who) -> String {
        match who {
            Who::Nobody => String::new(),
            Who::Name(n) => self.names.name(n).into(),
            Who::Disk(dev) => self.disk(dev),
        }
    }

    fn disk(&self, dev: u32) -> String {
        let disk = self.setup.state.disks.iter().find(|s| s.dev == dev);
        disk.map_or_else(|| units::device(dev), |d| d.name.clone())
    }

    pub fn blame(&self, parts: &Parts) -> Vec<BlameRow> {
        let mut rows: BTreeMap<(Category, String), u64> = BTreeMap::new();
        for (part, ns) in parts.iter() {
            *rows.entry((part.category, self.who(part.who))).or_default() += ns;
        }
        let mut rows: Vec<BlameRow> =
            rows.into_iter().map(|((category, who), time)| BlameRow { category, who, time }).collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.time));
        rows
    }

    pub fn waits(&self, waits: Vec<Step>) -> Vec<WaitRow> {
        let row = |w: Step| WaitRow {
            at: w.from.saturating_sub(self.setup.begin),
            time: w.to - w.from,
            tid: w.tid,
            comm: self.names.name(w.name).into(),
            category: w.part.category,
            who: self.who(w.part.who),
        };
        waits.into_iter().map(row).collect()
    }

    /// The command's; where there is none, that of the requests that were served, or the sum over all threads.
    pub fn path(&self, command: Option<(&Parts, &Path)>, whole: &Parts, served: &Parts) -> PathResult {
        let command = command.filter(|(followed, _)| followed.total() > 0);
        let busy = whole.iter().filter(|(p, _)| !p.category.rests()).map(|(_, ns)| ns).sum::<u64>();
        let serves = served.total() as f64 > busy as f64 * SERVES;
        let (of, parts) = match (command, serves) {
            (Some((followed, _)), _) => ("command", followed),
            (None, true) => ("requests", served),
            (None, false) => ("threads", whole),
        };
        PathResult {
            of: of.into(),
            time: parts.total(),
            parts: self.blame(parts),
            last: command.map_or_else(Vec::new, |(_, path)| self.blame(&path.parts)),
            steps: command.map_or_else(Vec::new, |(_, path)| self.waits(path.steps())),
        }
    }

    /// Those for which threads of a service waited, or of all of the target.
    pub fn locks(&self, locks: &Locks, service: Option<Service>) -> Vec<LockRow> {
        let texts: HashMap<u32, &str> =
            self.setup.state.stacks.iter().map(|s| (s.stack, s.text.as_str())).collect();
        let mut shown = locks.by_time(service);
        shown.truncate(MOST_LOCKS);
        let handoffs = shown.iter().flat_map(|(_, _, l)| &l.chain);
        let wanted: HashSet<u32> = handoffs.map(|h| h.user_stack).filter(|stack| *stack != 0).collect();
        let user: HashMap<u32, &str> = user_functions(&self.setup.state, &wanted)
            .into_iter()
            .filter_map(|(stack, names)| Some((stack, names.into_iter().find(|n| !is_runtime(n))?)))
            .collect();
        let kernel = |stack: u32| {
            let text = texts.get(&stack).copied().unwrap_or("");
            let name = text.split(';').find(|f| !lets_go(f));
            name.unwrap_or("").to_string()
        };
        shown
            .into_iter()
            .map(|((pid, address), [waits, time, longest], l)| {
                let chain = l.chain.iter().map(|h| HandoffRow {
                    at: h.at.saturating_sub(self.setup.begin),
                    holder: h.holder,
                    holder_comm: self.who(h.holder_name),
                    function: if pid == 0 {
                        kernel(h.stack)
                    } else {
                        user.get(&h.user_stack).map_or_else(String::new, |n| n.to_string())
                    },
                    next: h.next,
                    next_comm: self.who(h.next_name),
                    waited: h.waited,
                    behind: h.behind,
                    read: h.read,
                });
                let chain: Vec<HandoffRow> = chain.collect();
                let site = if pid == 0 { kernel(l.stack) } else { most_common(&chain) };
                LockRow {
                    lock: format!("{address:#x}"),
                    pid,
                    kind: kind(l.flags).into(),
                    site,
                    contentions: l.contentions,
                    waits,
                    readers: l.readers,
                    time,
                    longest,
                    most_waiting: l.most_waiting,
                    holders: self.blame(&l.holders),
                    doing: self.blame(&l.doing),
                    chain,
                }
            })
            .collect()
    }

    pub fn files(&self, synced: &Synced, service: Option<Service>) -> Vec<FileRow> {
        let row = |(path, calls, time)| FileRow { path, calls, time };
        synced.rows(service).into_iter().take(MOST_FILES).map(row).collect()
    }

    /// Most device service time first.
    pub fn patterns(&self, patterns: &Patterns, targets: &HashSet<u32>) -> Vec<PatternRow> {
        let mut rows: Vec<PatternRow> = patterns
            .0
            .iter()
            .map(|((pid, dev, write), p)| PatternRow {
                pid: *pid,
                comm: self.names.name(p.name).into(),
                target: targets.contains(pid),
                device: self.disk(*dev),
                write: *write,
                requests: p.requests,
                bytes: p.bytes,
                sequential: p.sequential,
                near: p.near,
                ahead: p.ahead,
                sync: p.sync,
                barrier: p.barrier,
                depth: p.depth as f64 / p.requests.max(1) as f64,
                service: u64::try_from(p.service.sum).unwrap_or(u64::MAX),
                service_median: p.service.quantile(0.5),
                service_p99: p.service.quantile(0.99),
                service_max: p.service.max,
                service_stalled: beyond(&p.service, 10.0),
                thirds: p.course.thirds(),
            })
            .collect();
        rows.sort_by(|a, b| (b.target, b.service).cmp(&(a.target, a.service)).then(a.pid.cmp(&b.pid)));
        rows.truncate(MOST_PATTERNS);
        rows
    }
}

/// The function that let go most often.
fn most_common(chain: &[HandoffRow]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for h in chain.iter().filter(|h| !h.function.is_empty()) {
        *counts.entry(&h.function).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(f, _)| f.to_string()).unwrap_or_default()
}

/// Samples of the target's processes.
pub(super) fn sample_rows(samples: &Samples, targets: &HashSet<u32>) -> SampleResult {
    let mut all = Counts::default();
    for counts in samples.processes.iter().filter(|(p, _)| targets.contains(p)).map(|(_, c)| c) {
        all.samples += counts.samples;
        counts.at.iter().for_each(|(k, n)| *all.at.entry(*k).or_default() += n);
        counts.functions.iter().for_each(|(k, n)| *all.functions.entry(k.clone()).or_default() += n);
        counts.calls.iter().for_each(|(k, n)| *all.calls.entry(k.clone()).or_default() += n);
    }
    let mut functions: Vec<FunctionRow> = all
        .functions
        .into_iter()
        .map(|((at, function), samples)| FunctionRow { function, at: at.name().into(), samples })
        .collect();
    functions.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.function.cmp(&b.function)));
    functions.truncate(MOST_FUNCTIONS);
    SampleResult {
        samples: all.samples,
        at: all.at.into_iter().map(|(at, n)| (at.name().to_string(), n)).collect(),
        functions,
        calls: all.calls.into_iter().collect(),
    }
}

/// How far each counter went within the time that is accounted.
pub(super) fn counters(setup: &Setup) -> BTreeMap<String, u64> {
    let mut spans: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for c in &setup.state.counters {
        spans.entry(&c.name).and_modify(|(_, last)| *last = c.value).or_insert((c.value, c.value));
    }
    // A setting does not grow: it is told as it is.
    let told = |(name, (first, last)): (&str, (u64, u64))| {
        let value = if name == "cgroup.quota" { last } else { last.saturating_sub(first) };
        (name.to_string(), value)
    };
    spans.into_iter().map(told).collect()
}
