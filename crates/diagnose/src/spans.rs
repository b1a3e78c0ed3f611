// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What spans and programs' own words for waits say of a finding and of the requests.

use crate::case::Case;
use crate::verdict::{Line, Role};
use crate::{Evidence, Finding};
use plumb_model::{Category, CauseRow, RunResult, SpanRow, TailRow};
use plumb_trace::units;
use std::collections::BTreeMap;

/// Wait events with less than this share of the time of a finding's categories say nothing of it.
const LEAST: f64 = 0.1;
/// A tail is told where its mean is so many times that of the others, and so much longer, ns.
const FAR: u64 = 4;
const LONG: u64 = 1_000_000;
/// The slowest lead the verdict where so many were seen, so many times as slow, with this share of the time of all.
const LEADING_SPANS: u64 = 5;
const LEADING_FACTOR: u64 = 10;
const LEADING_SHARE: f64 = 0.1;
/// The next step where no finding is about what the slowest wait for.
const LOOK: &str =
    "see the slowest one by one: the page's Requests, or plumb query 'select * from slow_spans' DIR";
/// Characters of a key in a sentence.
const KEY: usize = 60;

fn key(key: &str) -> String {
    let short: String = key.chars().take(KEY).collect();
    if short.len() < key.len() {
        format!("'{short}...'")
    } else {
        format!("'{key}'")
    }
}

/// What the programs said of waits that went to some categories.
pub fn said(result: &RunResult, categories: &[Category]) -> Option<Evidence> {
    let of = |map: &BTreeMap<Category, u64>| -> u64 { categories.iter().filter_map(|c| map.get(c)).sum() };
    let all: u64 = result.processes.iter().map(|p| of(&p.account)).sum();
    let mut rows: Vec<_> = result.wait_events.iter().map(|w| (of(&w.account), w)).collect();
    rows.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let share = |ns: u64| ns as f64 / all.max(1) as f64;
    let told = rows.iter().filter(|(ns, _)| *ns > 0 && share(*ns) >= LEAST).take(3);
    let words: Vec<String> = told
        .map(|(ns, w)| {
            // Who ended them, where that is mostly one.
            let ender = w.ended_by.first().filter(|e| e.time * 2 >= w.time);
            let ender = ender.map_or(String::new(), |e| {
                let span = if e.span.is_empty() { String::new() } else { format!(" with {}", key(&e.span)) };
                format!(" (ended by {} {}{span})", e.comm, e.thread)
            });
            format!("{} {:.0} %{ender}", w.name, share(*ns) * 100.0)
        })
        .collect();
    (!words.is_empty()).then(|| Evidence::new("wait event", words.join(", ")))
}

/// What parts of a span's time went to, in words, with their sums of what `of` says; most first.
fn grouped(causes: &[CauseRow], of: impl Fn(&CauseRow) -> u64) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<(&str, &str), Vec<(String, u64)>> = BTreeMap::new();
    for c in causes {
        let activity = match c.category {
            // What that one did is the reason.
            Category::OtherRunning | Category::OtherRunnable | Category::OtherWaiting => c.category.meaning(),
            category => category.activity(),
        };
        let who = match c.beside.as_str() {
            "" => c.who.clone(),
            beside => format!("{}, which served {beside}", c.who),
        };
        sums.entry((activity, &c.event)).or_default().push((who, of(c)));
    }
    let words = |((activity, event), who): ((&str, &str), Vec<(String, u64)>)| {
        let sum = who.iter().map(|(_, ns)| ns).sum();
        let what = if event.is_empty() { activity } else { event };
        let most = who.iter().filter(|(who, ns)| !who.is_empty() && ns * 2 > sum).max_by_key(|(_, ns)| *ns);
        (most.map_or(what.to_string(), |(who, _)| format!("{what} ({who})")), sum)
    };
    let mut rows: Vec<(String, u64)> = sums.into_iter().map(words).collect();
    rows.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    rows
}

/// The kind of request with the most time.
fn most(result: &RunResult) -> Option<Line> {
    let all: u64 = result.spans.iter().map(|s| s.total).sum();
    let s = result.spans.first().filter(|s| s.count > 0)?;
    // Of requests on sockets another line tells.
    if s.place == SpanRow::SOCKETS {
        return None;
    }
    let parts = grouped(&s.causes, |c| c.time);
    let parts = parts.iter().filter(|(_, ns)| ns * 20 >= s.total).take(3);
    let share = |ns: u64| ns as f64 * 100.0 / s.total.max(1) as f64;
    let parts: Vec<String> = parts.map(|(what, ns)| format!("{what} {:.0} %", share(*ns))).collect();
    let named = if s.key.is_empty() { String::new() } else { format!("{}: ", key(&s.key)) };
    let text = format!(
        "{named}{} of them, {} mean, {} p99, {:.0} % of the time of all; {}",
        units::count(s.count),
        units::brief(s.total / s.count),
        units::brief(s.p99),
        s.total as f64 * 100.0 / all.max(1) as f64,
        parts.join(", ")
    );
    Some(Line { role: Role::Fact, label: s.name.clone(), text, ..Line::default() })
}

/// The mean of the slowest without what the recorder took of them: that is no cause.
fn own_mean(t: &TailRow) -> u64 {
    let more = |c: &CauseRow| c.time.saturating_sub(c.typical);
    t.mean.saturating_sub(t.causes.iter().filter(|c| !is_cause(c)).map(more).sum())
}

fn is_cause(c: &CauseRow) -> bool {
    c.category != Category::Overhead
}

/// The kind that loses most by its slowest, where these are far from the others.
fn farthest(result: &RunResult) -> Option<(&SpanRow, &TailRow)> {
    let loss = |s: &SpanRow| s.tail.as_ref().map_or(0, |t| own_mean(t).saturating_sub(t.typical) * t.spans);
    let far = |s: &&SpanRow| {
        s.tail
            .as_ref()
            .is_some_and(|t| own_mean(t) >= t.typical * FAR && own_mean(t).saturating_sub(t.typical) >= LONG)
    };
    let s = result.spans.iter().filter(far).max_by_key(|s| loss(s))?;
    Some((s, s.tail.as_ref()?))
}

/// What the slowest of a kind wait for that the others do not.
fn slowest((s, t): (&SpanRow, &TailRow)) -> String {
    let causes: Vec<CauseRow> = t.causes.iter().filter(|c| is_cause(c)).cloned().collect();
    let more = grouped(&causes, |c| c.time - c.typical);
    let mean = own_mean(t);
    let more = more.iter().filter(|(_, ns)| ns * 10 >= mean.saturating_sub(t.typical)).take(3);
    let more: Vec<String> = more.map(|(what, ns)| format!("{what} +{}", units::brief(*ns))).collect();
    let named = if s.key.is_empty() { s.name.clone() } else { format!("{} {}", s.name, key(&s.key)) };
    format!(
        "{named}: {} mean, the others {}; {}",
        units::brief(mean),
        units::brief(t.typical),
        more.join(", ")
    )
}

/// What leads the verdict in the place of the largest finding.
pub struct Lead {
    pub text: String,
    pub next: String,
    /// When it was, from the trace's begin, and whose; of no one moment: none.
    pub at: Option<u64>,
    pub tid: Option<u32>,
}

/// The slowest percent, where it is the problem: it takes a good part of the time of all, many times as long as the
/// others, for what the first finding is not about.
pub fn leads(case: &Case<'_>, findings: &[Finding]) -> Option<Lead> {
    let (s, t) = farthest(case.result)?;
    let excess = own_mean(t).saturating_sub(t.typical) * (s.count / 100);
    let most = t.causes.iter().filter(|c| is_cause(c)).max_by_key(|c| c.time.saturating_sub(c.typical))?;
    let all: u64 = case.result.spans.iter().map(|s| s.total).sum();
    let about = |f: &&Finding| case.took.get(f.id.as_str()).is_some_and(|c| c.contains(&most.category));
    let told = findings.first().is_some_and(|f| about(&f));
    let leads = t.spans >= LEADING_SPANS
        && own_mean(t) >= t.typical * LEADING_FACTOR
        && excess as f64 >= all as f64 * LEADING_SHARE;
    // What to do about it, where a finding is; most time first.
    let next = findings.iter().find(about).map_or(LOOK, |f| f.next.as_str());
    (leads && !told && case.result.path.of != "command").then(|| {
        let text = format!("the slowest 1 % of {}", slowest((s, t)));
        Lead { text, next: next.into(), at: None, tid: None }
    })
}

/// Facts on the requests, for the verdict.
pub fn facts(result: &RunResult, leads: bool) -> impl Iterator<Item = Line> + '_ {
    let slowest = farthest(result).filter(|_| !leads).map(|far| Line {
        role: Role::Fact,
        label: "slowest 1 %".into(),
        text: format!("of {}", slowest(far)),
        ..Line::default()
    });
    most(result).into_iter().chain(slowest)
}
