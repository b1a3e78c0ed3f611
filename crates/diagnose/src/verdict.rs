// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict: one line that is enough alone, facts below it, and how far to trust it.

use crate::case::{Case, Doubt, DoubtKind, Trust};
use crate::rules::{peer, RULES};
use crate::{spans, trigger, Finding, LEAST};
use plumb_model::Category;
use plumb_trace::units;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// What a line of the verdict says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Cause, share, estimated speed-up; enough alone.
    #[default]
    Bottleneck,
    /// A fact on the bottleneck, with a label of its own.
    Fact,
    /// The other findings.
    Also,
    /// The next step.
    Next,
    /// How far to trust it.
    Confidence,
}

/// A line of the verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub role: Role,
    /// `Bottleneck`, `Also`; of a fact its own, as `held by`.
    pub label: String,
    pub text: String,
    /// The moment that it is about, ns from the trace's begin, and the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
}

/// How far a verdict can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// There is no account of time, or nothing of the target in it.
    #[default]
    None,
    /// Much is lost or unexplained.
    Low,
    /// Something reduces confidence.
    Medium,
    High,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How far to trust the verdict, and what reduces confidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confidence {
    pub level: Level,
    /// What reduces it.
    pub reasons: Vec<Doubt>,
}

/// The kind of limit with the most time. The first three are the types of the evaluation of Linux by
/// Hitachi, Fujitsu and others (2004): CPU busy, CPU idle with I/O as the limit, lock contention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// There is no account of time.
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// Running.
    #[serde(rename = "CPU-bound", alias = "CPU busy")]
    Cpu,
    /// Block requests, the journal, write throttling.
    #[serde(rename = "I/O-bound", alias = "CPU idle: device")]
    Device,
    /// Locks of user code, of files and of the kernel.
    #[serde(rename = "lock contention")]
    Lock,
    /// Runnable, and not running.
    #[serde(rename = "CPU contention", alias = "CPU short")]
    Runnable,
    /// Reclaim, compaction, swap.
    #[serde(rename = "memory pressure", alias = "memory short")]
    Memory,
    /// Other threads, processes and hosts.
    #[serde(rename = "waiting for peers", alias = "waiting for others")]
    Peers,
    /// Timers.
    #[serde(rename = "intentional sleep", alias = "asleep on purpose")]
    Sleep,
}

const LIMITS: &[(Limit, &str, &[Category])] = &[
    (Limit::Cpu, "CPU-bound", &[Category::Running, Category::Interrupted]),
    (
        Limit::Device,
        "I/O-bound",
        &[
            Category::BlockLimit,
            Category::BlockQueued,
            Category::BlockPlugged,
            Category::BlockFlush,
            Category::BlockInserted,
            Category::BlockIssued,
            Category::BlockDone,
            Category::Journal,
            Category::Throttle,
            Category::OtherRunning,
            Category::OtherRunnable,
            Category::OtherWaiting,
        ],
    ),
    (
        Limit::Lock,
        "lock contention",
        &[Category::KernelLock, Category::UserLock, Category::FileLock, Category::Spinning],
    ),
    (
        Limit::Runnable,
        "CPU contention",
        &[Category::Woken, Category::Preempted, Category::Crowded, Category::Held, Category::WokenIdle],
    ),
    (Limit::Memory, "memory pressure", &[Category::Memory]),
    (
        Limit::Peers,
        "waiting for peers",
        &[
            Category::Pipe,
            Category::Socket,
            Category::Network,
            Category::Signalled,
            Category::InRequest,
            Category::Child,
            Category::Signal,
        ],
    ),
    (Limit::Sleep, "intentional sleep", &[Category::Timer]),
];

impl Limit {
    /// Former names of kinds in results, and what they are called now.
    pub const FORMER_NAMES: &[(&str, Self)] = &[
        ("CPU busy", Self::Cpu),
        ("CPU idle: device", Self::Device),
        ("CPU short", Self::Runnable),
        ("memory short", Self::Memory),
        ("waiting for others", Self::Peers),
        ("asleep on purpose", Self::Sleep),
    ];

    /// Its words in results; empty where it is not known.
    pub fn name(self) -> &'static str {
        LIMITS.iter().find(|(limit, ..)| *limit == self).map_or("", |(_, name, _)| name)
    }

    /// Categories of the account whose time speaks for it.
    pub fn categories(self) -> &'static [Category] {
        LIMITS.iter().find(|(limit, ..)| *limit == self).map_or(&[], |(.., categories)| categories)
    }

    pub(crate) fn of(case: &Case<'_>) -> Self {
        let most = LIMITS.iter().max_by_key(|(.., categories)| case.time(categories));
        most.map_or(Self::Unknown, |(limit, ..)| *limit)
    }
}

/// Above this share of unexplained or lost time confidence is reduced; above the second it is low.
const DOUBTFUL: f64 = 0.02;
const LOW: f64 = 0.1;

/// Below this share the largest finding is no bottleneck.
pub(crate) const DOMINANT: f64 = 0.2;

/// From this share of a program's own code on it is healthy: nothing but itself limits it.
const CPU_BOUND: f64 = 0.5;

/// Below this many busy threads on average a target without a command is idle.
const BUSY: f64 = 0.2;

/// The time before requests were read is printed from this share of their time on.
const UNREAD: f64 = 0.1;

/// Facts of the largest finding that a verdict has.
const FACTS: usize = 3;

/// The next step where the target only waited.
const ONLY_WAITED: &str = "record it while it works, with its child processes (without --no-children)";

/// Other findings that it names.
const OTHERS: usize = 4;

fn line(role: Role, label: &str, text: String) -> Line {
    Line { role, label: label.into(), text, ..Line::default() }
}

fn bottleneck(text: String) -> Line {
    line(Role::Bottleneck, "Bottleneck", text)
}

/// The lines as text; labels of facts are aligned.
pub(crate) fn text(lines: &[Line]) -> Vec<String> {
    let facts = lines.iter().filter(|l| l.role == Role::Fact);
    let width = facts.map(|l| l.label.chars().count()).max().unwrap_or(0);
    let text = |l: &Line| match l.role {
        Role::Fact => format!("  {:<width$}  {}", l.label, l.text),
        _ => format!("{}: {}", l.label, l.text),
    };
    lines.iter().map(text).collect()
}

/// Where the trace has no account of time.
pub(crate) fn no_account(trust: &Trust) -> (Vec<Line>, Confidence) {
    let missing = trust.no_account.join(" and ");
    let reason = format!("{missing} not recorded");
    let confidence = Confidence {
        level: Level::None,
        reasons: [vec![Doubt::new(DoubtKind::NotRecorded, reason)], trust.doubts.clone()].concat(),
    };
    let lines = vec![
        bottleneck(format!(
            "not measured: the trace has no {missing} events, so there is no account of time"
        )),
        line(Role::Fact, "still valid", "counts of requests and devices".into()),
        line(Role::Next, "Next", "record the default events: plumb run -e default -- COMMAND".into()),
        line(Role::Confidence, "Confidence", words(&confidence, None)),
    ];
    (lines, confidence)
}

/// Where nothing of the target was seen.
pub(crate) fn nothing_seen(trust: &Trust) -> (Vec<Line>, Confidence) {
    let reason = Doubt::new(DoubtKind::NothingSeen, "no event of the target".into());
    let confidence =
        Confidence { level: Level::None, reasons: [vec![reason], trust.doubts.clone()].concat() };
    let lines = vec![
        bottleneck("not measured: the trace has no events of the target".into()),
        line(
            Role::Next,
            "Next",
            "check that the target ran during the recording, and that its events were recorded".into(),
        ),
        line(Role::Confidence, "Confidence", words(&confidence, None)),
    ];
    (lines, confidence)
}

/// The verdict of a case; findings with the largest share first.
pub(crate) fn lines(case: &Case<'_>, findings: &[Finding]) -> (Vec<Line>, Confidence) {
    let confidence = confidence(case, findings);
    let tail = spans::leads(case, findings);
    let slow = tail.is_some();
    let lead = trigger::leads(case, findings).or(tail);
    let first = first(case, findings);
    let mut out = match &lead {
        Some(l) => {
            let leading = Line { at: l.at, tid: l.tid, ..bottleneck(l.text.clone()) };
            vec![leading, line(Role::Fact, "of all", first)]
        }
        None => vec![bottleneck(first)],
    };
    out.extend(busy(case));
    let command = case.result.path.of == "command";
    out.extend(requests(case).filter(|_| !command));
    if let Some(f) = findings.first() {
        let facts = f
            .evidence
            .iter()
            .filter(|e| !e.label.is_empty() && e.at.is_none() && e.time.is_none())
            .take(FACTS);
        out.extend(facts.map(|e| line(Role::Fact, &e.label, e.words.clone())));
        let backed = |file| line(Role::Fact, "device", format!("{} is a loop device of {file}", f.device));
        out.extend(case.backing(&f.device).map(backed));
    }
    out.extend(requests(case).filter(|_| command));
    out.extend(spans::facts(case.result, slow && case.result.trigger.is_none()));
    // Which threads a request's path goes through: its parts are those at the end.
    let through =
        case.result.path.of == "requests" && findings.first().is_some_and(|f| f.id != "peer.thread");
    let waited: u64 = case.result.service.blockers.iter().map(|b| b.time).sum();
    if through && waited as f64 >= case.whole as f64 * DOMINANT {
        let facts = peer::blockers(case, case.whole);
        out.extend(facts.into_iter().map(|e| line(Role::Fact, &e.label, e.words)));
    }
    // An idle command's first finding is none of its bottlenecks.
    let rests = command && idle(case, findings).is_some();
    let others = if rests { findings } else { findings.get(1..).unwrap_or_default() };
    let also = others.iter().take(OTHERS).map(|f| format!("{} {:.0} %", f.title, f.share * 100.0));
    let mut also: Vec<String> = also.collect();
    if others.len() > OTHERS {
        also.push(format!("{} more", others.len() - OTHERS));
    }
    if !also.is_empty() {
        out.push(line(Role::Also, "Also", also.join(", ")));
    }
    if let Some(lead) = lead {
        out.push(line(Role::Next, "Next", lead.next));
    } else if let Some(f) = findings.first() {
        out.push(line(Role::Next, "Next", f.next.clone()));
    } else if case.whole == 0 {
        out.push(line(Role::Next, "Next", ONLY_WAITED.into()));
    }
    out.push(line(Role::Confidence, "Confidence", words(&confidence, Some(case))));
    (out, confidence)
}

/// Why a target without a bottleneck has none: it was idle for most of the time.
fn idle(case: &Case<'_>, findings: &[Finding]) -> Option<String> {
    if case.result.path.of == "command" {
        let idle = case.share(case.time(&[Category::Idle]) as f64);
        let most = idle > LEAST && idle > findings.first().map_or(0.0, |f| f.share);
        return most.then(|| {
            format!(
                "idle {:.0} % of {} wall time{}, waiting for requests",
                idle * 100.0,
                units::brief(case.whole),
                net(case)
            )
        });
    }
    let busy = case.busy as f64 / case.elapsed() as f64;
    (busy < BUSY && !case.rest.is_empty()).then(|| {
        let (busy, elapsed) = (units::brief(case.busy), units::brief(case.elapsed()));
        format!("busy for {busy} of {elapsed}, {} the rest", case.rest[0].0)
    })
}

/// How long the target's threads were busy, and what they did else.
fn busy(case: &Case<'_>) -> Option<Line> {
    let rest: u64 = case.rest.iter().map(|(_, time)| time).sum();
    let all = case.busy + rest;
    let share = |time: u64| time as f64 * 100.0 / all.max(1) as f64;
    let waits = case.rest.iter().filter(|(_, time)| time.saturating_mul(200) >= all).take(3);
    let waits = waits.map(|(wait, time)| format!("{wait} {:.0} %", share(*time)));
    let waits = waits.collect::<Vec<_>>().join(", ");
    let text = format!("{:.0} % of {} thread time; {waits}", share(case.busy), units::brief(all));
    (rest > 0 && case.busy > 0).then(|| line(Role::Fact, "busy", text))
}

/// The requests that the target answered.
fn requests(case: &Case<'_>) -> Option<Line> {
    let s = &case.result.service;
    let text = || {
        let (mean, max) = (units::brief(s.time / s.requests), units::brief(s.longest));
        let text = format!("{} answered, {mean} mean, {max} max", units::count(s.requests));
        // Every request waits for its thread's wakeup.
        match s.unread.filter(|unread| *unread as f64 >= s.time as f64 * UNREAD) {
            Some(unread) => {
                format!("{text}; {} of the mean before they were read", units::brief(unread / s.requests))
            }
            None => text,
        }
    };
    (s.requests > 0).then(|| line(Role::Fact, "requests", text()))
}

/// Where every thread of a target without a command waited all the time for what is no reason by itself: a
/// request, another thread of it, a child, a signal.
fn only_waited(case: &Case<'_>) -> String {
    let time = case.result.path.time;
    let share = |ns: u64| ns as f64 * 100.0 / time as f64;
    let waits = case.rest.iter().take(3).map(|(wait, ns)| format!("{wait} {:.0} %", share(*ns)));
    let waits: Vec<String> = waits.collect();
    format!("none: the target waited for all of {} thread time ({})", units::brief(time), waits.join(", "))
}

/// Cause, share and estimated speed-up.
fn first(case: &Case<'_>, findings: &[Finding]) -> String {
    let of = match (case.result.path.of.as_str(), case.rest.is_empty()) {
        ("command", _) => "wall time",
        ("requests", _) => "request time",
        (_, true) => "thread time",
        (_, false) => "busy thread time",
    };
    let whole = format!("{} {of}{}", units::brief(case.whole), net(case));
    let unreliable = case.unreliable();
    let unreliable = if unreliable.is_empty() {
        String::new()
    } else {
        format!("; unreliable: {}", unreliable.join(", "))
    };
    if case.whole == 0 {
        return only_waited(case);
    }
    if let Some(idle) = idle(case, findings) {
        let busy = findings.first().filter(|_| case.result.path.of != "command");
        let busy = busy.map(|f| format!("; when busy: {} ({:.0} %)", f.headline, f.share * 100.0));
        return format!("none: {idle}{}{unreliable}", busy.unwrap_or_default());
    }
    let Some(f) = findings.first() else {
        return format!(
            "none found in {whole}: no cause has {:.0} % of it ({} rules evaluated{unreliable})",
            LEAST * 100.0,
            RULES.len()
        );
    };
    let share = format!("{:.0} % of {whole}", f.share * 100.0);
    let faster = if f.speedup.estimate >= 1.05 {
        format!(", {} without it", f.speedup.words())
    } else {
        String::new()
    };
    if f.share < DOMINANT {
        return format!("none dominates; the largest is {} ({share}{faster}{unreliable})", f.headline);
    }
    let own_code = RULES.iter().any(|rule| rule.id == f.id && rule.own_code);
    if own_code && f.share >= CPU_BOUND {
        // Of the headline: ", mostly in f()", or ", 34 % of it in f()".
        let place = f.headline.strip_prefix("CPU time in user code").unwrap_or_default();
        let place = place.replacen(", mostly in ", " in ", 1);
        return format!("none outside the program: CPU-bound{place} (user code {share}{unreliable})");
    }
    format!("{} ({share}{faster}{unreliable})", f.headline)
}

/// What the time is without, where shares are of less than was recorded.
fn net(case: &Case<'_>) -> &'static str {
    match case.net {
        true => " without measurement overhead",
        false => "",
    }
}

/// Share of the recorded time that the recording took, 0 to 1.
fn overhead(case: &Case<'_>) -> f64 {
    case.overhead as f64 / (case.whole + if case.net { case.overhead } else { 0 }).max(1) as f64
}

fn confidence(case: &Case<'_>, findings: &[Finding]) -> Confidence {
    let share = |c: Category| case.share(case.time(&[c]) as f64);
    let (unexplained, lost) = (share(Category::Unexplained), share(Category::Lost));
    let mut reasons = case.trust.doubts.clone();
    if unexplained > DOUBTFUL {
        let words = format!("{:.1} % of the time unexplained", unexplained * 100.0);
        reasons.push(Doubt::new(DoubtKind::Unexplained, words));
    }
    if lost > DOUBTFUL {
        // Also of a thread that was seen in a state which it cannot be in, with every event there.
        let words = format!("{:.1} % of the time unknown", lost * 100.0);
        reasons.push(Doubt::new(DoubtKind::LostTime, words));
    }
    let overhead = overhead(case);
    if overhead > DOUBTFUL {
        // It paused: a budget was given.
        let budget = if case.result.paused > 0 { "a smaller --budget" } else { "--budget 5%" };
        let words = format!(
            "{:.1} % measurement overhead: record less, as with {budget}, --sample 0 or -e default,-syscall",
            overhead * 100.0
        );
        reasons.push(Doubt::new(DoubtKind::Overhead, words));
    }
    let impossible: u64 = case.result.impossible.values().sum();
    if impossible * 1000 > case.result.events {
        let words = format!(
            "{} contradictory transitions in {} events",
            units::count(impossible),
            units::count(case.result.events)
        );
        reasons.push(Doubt::new(DoubtKind::Contradiction, words));
    }
    let own = findings.first().map_or(0, |f| f.doubt.len().saturating_sub(case.trust.doubts.len()));
    if let Some(f) = findings.first() {
        let own = f.doubt.iter().take(own);
        reasons.extend(own.map(|words| Doubt::new(DoubtKind::Finding, words.clone())));
    }
    let damaged = !case.unreliable().is_empty();
    let level = match (damaged || unexplained + lost > LOW, reasons.is_empty()) {
        (true, _) => Level::Low,
        (false, false) => Level::Medium,
        (false, true) => Level::High,
    };
    Confidence { level, reasons }
}

/// The level, and the figures or reasons for it.
fn words(confidence: &Confidence, case: Option<&Case<'_>>) -> String {
    let mut reasons: Vec<String> = confidence.reasons.iter().map(|d| d.words.clone()).collect();
    if let Some(case) = case {
        let has = |kind| confidence.reasons.iter().any(|d| d.kind == kind);
        let share = |c: Category| case.share(case.time(&[c]) as f64);
        let mut figures = Vec::new();
        if !has(DoubtKind::LostEvents) {
            figures.push("0 events lost".to_string());
        }
        if !has(DoubtKind::Unexplained) {
            figures.push(format!("{:.1} % unexplained", share(Category::Unexplained) * 100.0));
        }
        let lost = share(Category::Lost);
        if lost >= 0.0005 && !has(DoubtKind::LostTime) {
            figures.push(format!("{:.1} % of the time unknown", lost * 100.0));
        }
        if case.result.paused > 0 {
            let all = (case.result.end - case.result.begin).max(1) as f64;
            let share = 100.0 - case.result.paused as f64 * 100.0 / all;
            figures.push(format!("recorded {share:.0} % of the time, to keep within --budget"));
        }
        if !figures.is_empty() {
            reasons.insert(0, figures.join(", "));
        }
    }
    format!("{} ({})", confidence.level.word(), reasons.join("; "))
}
