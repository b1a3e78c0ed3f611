// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the rules look at: the target's time by category, from which each rule
//! takes what it explains, and the metrics beside it.

use crate::rules::peer::LOCAL;
use crate::Evidence;
use plumb_model::{At, BlameRow, Category, PatternRow, RunResult, WaitRow};
use plumb_trace::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What reduces confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Something about one finding.
    #[default]
    Finding,
    LostEvents,
    /// Events that the kernel could not raise: a probe interrupted itself.
    MissedEvents,
    LostOperations,
    /// Parts of the trace cannot be read.
    Damage,
    /// The trace has no end.
    CutOff,
    Thinned,
    Unexplained,
    LostTime,
    /// The recorder itself took the target's time.
    Overhead,
    /// Transitions that cannot be.
    Contradiction,
    /// Events without which there is no account of time.
    NotRecorded,
    NothingSeen,
}

impl DoubtKind {
    /// With this the measurement is not valid.
    pub fn invalidates(self) -> bool {
        matches!(self, Self::LostEvents | Self::LostOperations | Self::Damage)
    }
}

/// Something that reduces confidence, and its words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    pub kind: DoubtKind,
    pub words: String,
}

impl Doubt {
    pub fn new(kind: DoubtKind, words: String) -> Self {
        Self { kind, words }
    }
}

/// How far the trace can be trusted.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Events without which there is no account, and that were not recorded.
    pub no_account: Vec<String>,
    /// What holds for everything: lost events, thinned sets.
    pub doubts: Vec<Doubt>,
    /// Rotational disks, by name.
    pub rotating: Vec<String>,
}

/// Overhead of which shares are free, of the whole.
const NOTABLE: f64 = 0.02;
/// Waits on the run queue: who is who ran instead.
const RUNNABLE: [Category; 3] = [Category::Woken, Category::Preempted, Category::Crowded];

/// What is waited for is a process of a machine that was recorded whole: the reason is in that one's account. Threads of the kernel
/// have none.
fn has_account(result: &RunResult, part: &BlameRow) -> bool {
    let other = || result.others.iter().any(|o| o.comm == part.who);
    let named = part.category == Category::Pipe || !part.who.is_empty();
    !result.services.is_empty() && LOCAL.contains(&part.category) && named && !other()
}

/// A long wait, as evidence.
fn longest(w: &WaitRow) -> Evidence {
    Evidence {
        label: "longest wait".into(),
        words: format!(
            "{} in {} ({}) at {}{}",
            units::brief(w.time),
            w.comm,
            w.tid,
            units::duration(w.at),
            match w.who.as_str() {
                "" => String::new(),
                who if RUNNABLE.contains(&w.category) => format!(" ({}, CPU taken by {who})", w.category),
                who => format!(" ({}, {who})", w.category),
            }
        ),
        at: Some(w.at),
        time: Some(w.time),
        tid: Some(w.tid),
    }
}

#[derive(Debug, Default)]
pub struct Seen {
    /// Time that it explains, ns.
    pub time: u64,
    /// Cause and place for the verdict's first line; empty: the rule's title.
    pub headline: String,
    /// Function, device or lock that it is about.
    pub place: String,
    /// Block device that it is about.
    pub device: String,
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What reduces confidence in it.
    pub doubt: Vec<String>,
    /// Next step; empty: the rule's.
    pub next: String,
}

pub struct Case<'a> {
    /// Everything that the model found.
    pub result: &'a RunResult,
    pub trust: &'a Trust,
    /// The time that the shares are of, ns: a command's, that of the requests that were served, or that in which
    /// the target's threads were busy.
    pub whole: u64,
    /// Time in which its threads were busy, ns; nothing of a command.
    pub busy: u64,
    /// What they did in the rest of it, ns, most first; nothing of a command.
    pub rest: Vec<(&'static str, u64)>,
    /// What is left of each category, ns.
    left: BTreeMap<Category, f64>,
    /// Categories that each rule took from.
    pub took: BTreeMap<&'static str, Vec<Category>>,
    parts: Vec<BlameRow>,
    /// Shares of the target's running time but for [`Case::overhead`], by what samples saw; they add up to 1.
    sampled: BTreeMap<String, f64>,
    /// Share of the running time that samples saw in the recording's tracepoints, 0 to 1.
    pub probed: f64,
    /// Time that the recording took of the target, ns: its tracepoints, as far as samples tell, and waits for a CPU
    /// behind the recorder.
    pub overhead: u64,
    /// `whole` is without it: so much that shares would be of another time than the program's own.
    pub net: bool,
}

impl<'a> Case<'a> {
    /// Puts the result on the table.
    pub fn new(result: &'a RunResult, trust: &'a Trust) -> Self {
        // A command's and a request's path has no rest: it is waited for.
        let threads = result.path.of != "command" && result.path.of != "requests";
        let recorded = result.path.parts.iter().filter(|p| p.category != Category::Paused);
        let (work, idle): (Vec<&BlameRow>, Vec<&BlameRow>) =
            recorded.partition(|p| !threads || !(p.category.rests() || has_account(result, p)));
        let mut rest: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut busy = 0;
        if threads {
            idle.iter().for_each(|p| *rest.entry(p.category.resting()).or_default() += p.time);
            busy = work.iter().map(|p| p.time).sum();
        } else if result.path.of != "command" {
            let all = result.processes.iter().flat_map(|p| &p.account);
            for (category, time) in all.filter(|(c, _)| **c != Category::Paused) {
                match category.rests() {
                    true => *rest.entry(category.resting()).or_default() += time,
                    false => busy += time,
                }
            }
        }
        let parts: Vec<BlameRow> = work.into_iter().cloned().collect();
        let mut rest: Vec<(&'static str, u64)> = rest.into_iter().filter(|(_, time)| *time > 0).collect();
        rest.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let whole = parts.iter().map(|p| p.time).sum();
        let mut left: BTreeMap<Category, f64> = BTreeMap::new();
        for p in &parts {
            *left.entry(p.category).or_default() += p.time as f64;
        }
        let sampled = BTreeMap::new();
        let mut case = Self {
            result,
            trust,
            whole,
            busy,
            rest,
            left,
            took: BTreeMap::new(),
            parts,
            sampled,
            probed: 0.0,
            overhead: 0,
            net: false,
        };
        case.sampled = case.split_running();
        case.set_overhead_aside();
        case
    }

    /// Shares of running time, from samples, or else from the recorded system calls.
    fn split_running(&self) -> BTreeMap<String, f64> {
        let s = &self.result.samples;
        if s.samples >= 20 {
            // Running time has no interrupts in it where their events tell of them.
            let told = self.parts.iter().any(|p| p.category == Category::Interrupted);
            let counts = || s.at.iter().filter(|(at, _)| !(told && *at == At::Interrupt.name()));
            let all: u64 = counts().map(|(_, n)| n).sum();
            return counts().map(|(at, n)| (at.clone(), *n as f64 / all.max(1) as f64)).collect();
        }
        let running: u64 = self.result.processes.iter().map(|p| p.part(Category::Running)).sum();
        let calls: u64 = self
            .result
            .processes
            .iter()
            .flat_map(|p| &p.syscalls)
            .filter_map(|c| c.account.get(&Category::Running))
            .sum();
        let share = calls as f64 / running.max(1) as f64;
        BTreeMap::from([(At::Call.name().into(), share), (At::User.name().into(), 1.0 - share)])
    }

    /// What the recording takes is none of the target's doing: no rule finds it, and without the recording the
    /// target would end sooner.
    fn set_overhead_aside(&mut self) {
        let share = self.sampled.remove(At::Probe.name()).unwrap_or(0.0);
        let probes = self.take(&[Category::Running], self.left(&[Category::Running]) * share);
        self.probed = share;
        self.overhead = probes + self.take_all(&[Category::Overhead]);
        if self.overhead as f64 > self.whole as f64 * NOTABLE {
            self.whole -= self.overhead.min(self.whole);
            self.net = true;
        }
        self.sampled.values_mut().for_each(|of| *of /= (1.0 - share).max(f64::EPSILON));
    }

    /// Share of the running time that was spent there, 0 to 1.
    pub fn sampled(&self, at: At) -> f64 {
        self.sampled.get(at.name()).copied().unwrap_or(0.0)
    }

    /// Whether samples, not only system calls, tell of running time.
    pub fn has_samples(&self) -> bool {
        self.result.samples.samples >= 20
    }

    /// Time of some categories that no rule has taken, ns.
    pub fn left(&self, categories: &[Category]) -> f64 {
        categories.iter().filter_map(|c| self.left.get(c)).sum()
    }

    /// Time of some categories, whether taken or not, ns.
    pub fn time(&self, categories: &[Category]) -> u64 {
        self.parts.iter().filter(|p| categories.contains(&p.category)).map(|p| p.time).sum()
    }

    /// Time of some categories of which somebody is named, ns.
    pub fn named(&self, categories: &[Category]) -> u64 {
        let parts = self.parts.iter().filter(|p| categories.contains(&p.category) && !p.who.is_empty());
        parts.map(|p| p.time).sum()
    }

    /// Takes up to `ns` from what is left of some categories; returns what was taken.
    pub fn take(&mut self, categories: &[Category], ns: f64) -> u64 {
        // Differences of sums may come out a little below zero.
        let have = self.left(categories).max(0.0);
        let take = ns.clamp(0.0, have);
        if have > 0.0 {
            for c in categories {
                if let Some(left) = self.left.get_mut(c) {
                    *left -= *left * take / have;
                }
            }
        }
        take as u64
    }

    /// What no rule has taken yet, by category.
    pub fn untaken(&self) -> BTreeMap<Category, f64> {
        self.left.clone()
    }

    /// The categories from which something was taken since then.
    pub fn taken_since(&self, before: &BTreeMap<Category, f64>) -> Vec<Category> {
        let less = |c: &Category, ns: f64| self.left.get(c).is_some_and(|left| *left < ns);
        before.iter().filter(|(c, ns)| less(c, **ns)).map(|(c, _)| *c).collect()
    }

    /// Takes all that is left of some categories.
    pub fn take_all(&mut self, categories: &[Category]) -> u64 {
        self.take(categories, f64::INFINITY)
    }

    /// Share of the whole.
    pub fn share(&self, ns: f64) -> f64 {
        ns / self.whole.max(1) as f64
    }

    /// Doubts of a finding and of everything.
    pub fn doubts(&self, own: &[String]) -> Vec<String> {
        own.iter().chain(self.trust.doubts.iter().map(|d| &d.words)).cloned().collect()
    }

    /// Why the measurement is not valid; empty where it is.
    pub fn unreliable(&self) -> Vec<String> {
        let doubts = self.trust.doubts.iter().filter(|d| d.kind.invalidates());
        doubts.map(|d| d.words.clone()).collect()
    }

    /// File behind a loop device; none of other devices.
    pub fn backing(&self, device: &str) -> Option<&str> {
        let device = self.result.devices.iter().find(|d| d.name == device)?;
        Some(device.backing.as_str()).filter(|file| !file.is_empty())
    }

    pub fn rotates(&self, disk: &str) -> bool {
        self.trust.rotating.iter().any(|d| d == disk)
    }

    /// Who had the time of some categories, largest first, in words: `name 71 %, ...`.
    pub fn who(&self, categories: &[Category]) -> String {
        let all = self.time(categories).max(1);
        let mut sums = self.shares(categories);
        sums.retain(|(who, time)| !who.is_empty() && *time * 200 >= all);
        let words = sums.iter().take(3).map(|(n, t)| format!("{n} {:.0} %", *t as f64 * 100.0 / all as f64));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Who had how much of the time of some categories, ns, largest first.
    fn shares(&self, categories: &[Category]) -> Vec<(&str, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for p in self.parts.iter().filter(|p| categories.contains(&p.category)) {
            *sums.entry(&p.who).or_default() += p.time;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        sums
    }

    /// Who had at least half of the time of some categories; empty where nobody had.
    pub fn most(&self, categories: &[Category]) -> String {
        let half = self.time(categories) / 2;
        let most = self.shares(categories).into_iter().next().filter(|(_, time)| *time >= half);
        most.map_or(String::new(), |(who, _)| who.into())
    }

    /// Who runs in the time of some categories, in words: who had most of it, or the two with a fifth each. Empty where
    /// nobody had.
    pub fn runners(&self, categories: &[Category]) -> String {
        let all = self.time(categories);
        let sums = self.shares(categories);
        let mut large =
            sums.iter().filter(|(who, time)| !who.is_empty() && *time * 5 >= all).map(|(who, _)| who);
        match (self.most(categories), large.next(), large.next()) {
            (most, ..) if !most.is_empty() => format!("{most} runs"),
            (_, Some(first), Some(second)) => format!("{first} and {second} run"),
            (_, Some(first), None) => format!("{first} and others run"),
            (_, None, _) => String::new(),
        }
    }

    /// The longest waits of some categories, as evidence.
    pub fn longest(&self, categories: &[Category]) -> Vec<Evidence> {
        let waits = categories.iter().filter_map(|c| self.result.longest.get(c)).flatten();
        self.first_of(waits.collect())
    }

    /// The longest of these that may be meant: where every request was answered, no wait within one is longer than the longest, and
    /// where nobody waits for the end of a command, a rest is none.
    fn first_of(&self, mut waits: Vec<&WaitRow>) -> Vec<Evidence> {
        let served = &self.result.service;
        let answered = served.longest > 0 && self.result.path.time <= served.time + served.longest;
        match self.result.path.of.as_str() {
            "requests" if answered => waits.retain(|w| w.time <= served.longest),
            "threads" => waits.retain(|w| !w.category.rests()),
            _ => {}
        }
        waits.sort_by_key(|w| std::cmp::Reverse(w.time));
        waits.iter().take(3).map(|w| longest(w)).collect()
    }

    /// The longest waits that a thread of this name ended.
    pub fn longest_behind(&self, who: &str) -> Vec<Evidence> {
        self.first_of(self.result.longest.values().flatten().filter(|w| w.who == who).collect())
    }

    /// How far a counter of the kernel went.
    pub fn counter(&self, name: &str) -> u64 {
        self.result.counters.get(name).copied().unwrap_or(0)
    }

    /// Elapsed time of the trace that was recorded, ns.
    pub fn elapsed(&self) -> u64 {
        self.result.recorded().max(1)
    }

    /// The target's most time-consuming use of a disk, all of its processes together.
    pub fn main_pattern(&self) -> Option<PatternRow> {
        let mut sums: BTreeMap<(&str, bool), PatternRow> = BTreeMap::new();
        for p in self.result.patterns.iter().filter(|p| p.target) {
            let sum = sums.entry((&p.device, p.write)).or_insert_with(|| PatternRow {
                service_median: p.service_median,
                thirds: p.thirds.clone(),
                device: p.device.clone(),
                write: p.write,
                comm: p.comm.clone(),
                pid: p.pid,
                ..PatternRow::default()
            });
            let weight = (p.requests as f64, sum.requests as f64);
            sum.depth = (p.depth * weight.0 + sum.depth * weight.1) / (weight.0 + weight.1).max(1.0);
            sum.requests += p.requests;
            sum.bytes += p.bytes;
            sum.sequential += p.sequential;
            sum.near += p.near;
            sum.ahead += p.ahead;
            sum.sync += p.sync;
            sum.barrier += p.barrier;
            sum.service += p.service;
            sum.service_p99 = sum.service_p99.max(p.service_p99);
            sum.service_max = sum.service_max.max(p.service_max);
            sum.service_stalled += p.service_stalled;
        }
        sums.into_values().max_by_key(|p| p.service)
    }
}
