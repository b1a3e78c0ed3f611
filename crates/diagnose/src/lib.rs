// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From where the time went to why: rules over the account and the metrics.
//!
//! Each nanosecond of the critical path belongs to at most one finding, so the
//! shares of all findings never exceed the whole. A finding's speed-up is an
//! estimate from its share and from what would replace its time. Holds
//! opinions, does no I/O.

mod case;
mod places;
mod rules;
mod spans;
mod speedup;
mod trigger;
mod verdict;

pub use case::{Doubt, DoubtKind, Trust};
pub use rules::{BLOCK, RULES};
pub use speedup::{Replaced, Speedup};
pub use verdict::{Confidence, Level, Limit, Line, Role};

use case::Case;
use plumb_model::{RunResult, ServiceRun};
use serde::{Deserialize, Serialize};

/// Below this share of the target's time nothing is found.
pub const LEAST: f64 = 0.05;

/// A reason for the target's time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Id of the rule.
    pub id: String,
    /// The rule in words.
    pub title: String,
    /// Cause and place, as the first line of a verdict has them.
    #[serde(default)]
    pub headline: String,
    /// Function, device or lock that it is about; empty: none in particular.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Block device that it is about; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Share of the target's time, 0 to 1.
    pub share: f64,
    /// Time, ns.
    pub time: u64,
    /// Estimated speed-up without it.
    pub speedup: Speedup,
    /// What was seen, in one sentence.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What reduces confidence in it.
    pub doubt: Vec<String>,
    /// The next step.
    pub next: String,
}

/// A fact that a finding rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is, in one or two words: `held by`, `longest wait`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The fact.
    pub words: String,
    /// When, ns from the trace's begin; absent for a sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// How long, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
}

impl Evidence {
    fn new(label: &str, words: String) -> Self {
        Self { label: label.into(), words, ..Self::default() }
    }
}

/// What limits the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The verdict as text, a line each; the first is enough alone.
    pub verdict: Vec<String>,
    /// The same, with labels and texts apart.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// How far to trust it.
    #[serde(default)]
    pub confidence: Confidence,
    /// Kind of limit, see docs/findings.md.
    pub kind: Limit,
    /// Reasons, largest first.
    pub findings: Vec<Finding>,
    /// Of a whole machine what limits each of its services, most CPU time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceDiagnosis>,
}

impl Diagnosis {
    fn new((lines, confidence): (Vec<Line>, Confidence), kind: Limit, findings: Vec<Finding>) -> Self {
        Self { verdict: verdict::text(&lines), lines, confidence, kind, findings, services: Vec::new() }
    }
}

/// A program of a machine with what it started, and what limits it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceDiagnosis {
    /// Name of the program.
    pub name: String,
    /// Its processes, those that ended included.
    pub processes: u64,
    /// On a CPU, ns.
    pub cpu_used: u64,
    /// Time in which its threads were busy: they ran or waited, but for no request, ns.
    pub busy: u64,
    /// Requests of clients that it answered.
    pub requests: u64,
    /// What limits it.
    pub diagnosis: Diagnosis,
}

/// What limits a service of a machine.
pub fn diagnose_service(run: &ServiceRun, trust: &Trust) -> ServiceDiagnosis {
    let all = run.result.processes.iter().flat_map(|p| &p.account);
    ServiceDiagnosis {
        name: run.name.clone(),
        processes: run.processes,
        cpu_used: run.result.processes.iter().map(|p| p.usage.cpu_used).sum(),
        busy: all.filter(|(category, _)| !category.rests()).map(|(_, ns)| ns).sum(),
        requests: run.result.service.requests,
        diagnosis: diagnose(&run.result, trust),
    }
}

/// Applies the rules.
pub fn diagnose(result: &RunResult, trust: &Trust) -> Diagnosis {
    if !trust.no_account.is_empty() {
        return Diagnosis::new(verdict::no_account(trust), Limit::Unknown, Vec::new());
    }
    let mut case = Case::new(result, trust);
    if case.whole == 0 {
        let only_waited = result.path.time > 0;
        let lines = if only_waited { verdict::lines(&case, &[]) } else { verdict::nothing_seen(trust) };
        return Diagnosis::new(lines, Limit::Unknown, Vec::new());
    }
    let mut findings = Vec::new();
    // In the order of the table: what a rule takes is gone for those behind it.
    for rule in RULES {
        let before = case.untaken();
        let Some(mut seen) = (rule.look)(&mut case) else { continue };
        let took = case.taken_since(&before);
        if let Some(said) = spans::said(result, &took) {
            seen.evidence.insert(0, said);
        }
        case.took.insert(rule.id, took);
        let time = seen.time.min(case.whole);
        let or = |own: String, rule: &str| if own.is_empty() { rule.into() } else { own };
        findings.push(Finding {
            id: rule.id.into(),
            title: rule.title.into(),
            headline: or(seen.headline, rule.title),
            place: seen.place,
            device: seen.device,
            share: time as f64 / case.whole as f64,
            time,
            speedup: rule.replaced.speedup(time as f64 / case.whole as f64),
            words: seen.words,
            evidence: seen.evidence,
            doubt: case.doubts(&seen.doubt),
            next: or(seen.next, rule.next),
        });
    }
    findings.retain(|f| f.share >= LEAST);
    findings.sort_by(|a, b| b.share.total_cmp(&a.share));
    // Own code that holds what the rest waits for is not the reason why nothing runs beside it.
    let rule = |f: &Finding| RULES.iter().find(|rule| rule.id == f.id);
    let held = |f: &Finding| f.share >= verdict::DOMINANT && rule(f).is_some_and(|r| r.held_by_own_code);
    let own = findings.first().and_then(rule).is_some_and(|r| r.own_code);
    if let Some(at) = findings.iter().position(held).filter(|_| own) {
        findings[..=at].rotate_right(1);
    }
    let kind = Limit::of(&case);
    Diagnosis::new(verdict::lines(&case, &findings), kind, findings)
}
