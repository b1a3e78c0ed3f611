// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict in words.

use crate::case::{Case, Trust};
use crate::rules::RULES;
use crate::{Finding, LEAST};
use plumb_model::Category;
use plumb_trace::units;

/// Kinds of limits and the categories whose time speaks for each. The first
/// three are the types of the evaluation of Linux by Hitachi, Fujitsu and
/// others (2004): CPU busy, CPU idle with the device as the limit, lock contention.
const KINDS: &[(&str, &[Category])] = &[
    ("CPU busy", &[Category::Running, Category::Interrupted]),
    (
        "CPU idle: device",
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
    ("lock contention", &[Category::KernelLock, Category::UserLock, Category::FileLock, Category::Spinning]),
    (
        "CPU short",
        &[Category::Woken, Category::Preempted, Category::Crowded, Category::Held, Category::WokenIdle],
    ),
    ("memory short", &[Category::Memory]),
    (
        "waiting for others",
        &[Category::Pipe, Category::Socket, Category::Network, Category::Signalled, Category::Child],
    ),
    ("asleep on purpose", &[Category::Timer]),
];

/// Above this share of unexplained or lost time a verdict is doubtful.
const DOUBTFUL: f64 = 0.02;

/// The kind of limit with the most time.
pub(crate) fn kind(case: &Case<'_>) -> String {
    let time = |k: &&(&str, &[Category])| case.time(k.1);
    KINDS.iter().max_by_key(time).map_or(String::new(), |k| k.0.into())
}

pub(crate) fn no_account(trust: &Trust) -> Vec<String> {
    let mut doubts = trust.doubts.join("; ");
    if doubts.is_empty() {
        doubts = "No event was lost".into();
    }
    vec![
        format!(
            "No account of time: without {} in the trace (see -e); the counts of requests and devices hold.",
            trust.no_account.join(" and ")
        ),
        format!("{doubts}."),
    ]
}

/// Categories of the account that speak for a kind of limit; none for one that is not known.
pub fn categories(kind: &str) -> &'static [Category] {
    KINDS.iter().find(|(name, _)| *name == kind).map_or(&[], |(_, categories)| categories)
}

/// The sentences; the first says it all.
pub(crate) fn sentences(case: &Case<'_>, kind: &str, findings: &[Finding]) -> Vec<String> {
    let whole = units::duration(case.whole);
    let of = if case.result.path.of == "command" {
        format!("the {whole} that it took")
    } else {
        format!("{whole} of its threads' time")
    };
    let mut out = Vec::new();
    let idle = case.share(case.time(&[Category::Poll]) as f64);
    let first = findings.first().map_or(0.0, |f| f.share);
    if idle > first && idle > LEAST {
        out.push(format!(
            "Idle for {:.0} % of {of}: it waited in poll, select or epoll until somebody wanted something.",
            idle * 100.0
        ));
    }
    match findings.first() {
        Some(f) => out.push(format!(
            "{}: {:.0} % of {of}; {}.{}",
            capital(&f.title),
            f.share * 100.0,
            f.words,
            if f.bound >= 1.05 {
                format!(" Without it, it would be at most {} times as fast.", factor(f.bound))
            } else {
                String::new()
            }
        )),
        None if !out.is_empty() => {}
        None => out.push(format!("Nothing stands out in {of} ({} rules looked).", RULES.len())),
    }
    let then: Vec<String> = findings
        .iter()
        .skip(1)
        .map(|f| format!("{} {:.0} % ({}x)", f.title, f.share * 100.0, factor(f.bound)))
        .collect();
    if !then.is_empty() {
        out.push(format!("Then: {}.", then.join("; ")));
    }
    if let Some(f) = findings.first() {
        out.push(format!("Next: {} Type: {kind}.", f.next));
    }
    out.push(trust(case, findings));
    out
}

fn factor(bound: f64) -> String {
    match bound {
        b if b >= 100.0 => "100 or more".into(),
        b if b >= 10.0 => format!("{b:.0}"),
        b => format!("{b:.2}"),
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}

fn trust(case: &Case<'_>, findings: &[Finding]) -> String {
    let share = |c: Category| case.share(case.time(&[c]) as f64);
    let (unexplained, lost) = (share(Category::Unexplained), share(Category::Lost));
    let mut doubts = case.doubts(&[]);
    if unexplained > DOUBTFUL {
        doubts.push(format!("{:.1} % of the time is unexplained", unexplained * 100.0));
    }
    if lost > DOUBTFUL {
        doubts.push(format!("{:.1} % of the time is lost", lost * 100.0));
    }
    let impossible: u64 = case.result.impossible.values().sum();
    if impossible * 1000 > case.result.events {
        doubts.push(format!("{impossible} of {} transitions contradict each other", case.result.events));
    }
    let first = findings.first().map(|f| f.doubt.len() > case.doubts(&[]).len());
    if doubts.is_empty() {
        let untold = if lost >= 0.0001 {
            format!(", {:.2} % is lost because the kernel did not raise a switch", lost * 100.0)
        } else {
            String::new()
        };
        let see = if first == Some(true) { "; the finding names its own doubt" } else { "" };
        format!("No event was lost; {:.2} % of the time is unexplained{untold}{see}.", unexplained * 100.0)
    } else {
        format!("Take it with doubt: {}.", doubts.join("; "))
    }
}
