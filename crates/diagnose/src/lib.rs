// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From where the time went to why: rules over the account and the metrics.
//!
//! Each nanosecond of the critical path belongs to at most one finding, so the
//! shares of all findings never exceed the whole. A finding's bound is the
//! largest speed-up if its time went away and everything else stayed (Amdahl's
//! law on the path). Holds opinions, does no I/O.

mod case;
mod places;
mod rules;
mod verdict;

pub use case::Trust;
pub use rules::RULES;
pub use verdict::categories;

use case::Case;
use plumb_model::RunResult;
use serde::{Deserialize, Serialize};

/// Below this share of the target's time nothing is found.
pub const LEAST: f64 = 0.05;

/// A reason for the target's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule.
    pub id: String,
    /// The rule in words.
    pub title: String,
    /// Share of the target's time, 0 to 1.
    pub share: f64,
    /// Time, ns.
    pub time: u64,
    /// Largest speed-up if it went away, a factor of at least 1.
    pub bound: f64,
    /// What was seen, in one sentence.
    pub words: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// Why it may be wrong.
    pub doubt: Vec<String>,
    /// What to do or look at next.
    pub next: String,
}

/// Something that can be looked up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// In words.
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

/// What limits the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Sentences; the first is the verdict.
    pub verdict: Vec<String>,
    /// `CPU busy`, `CPU idle: device`, `lock contention` and others, see docs/findings.md.
    pub kind: String,
    /// Reasons, largest first.
    pub findings: Vec<Finding>,
}

/// Finds out.
pub fn diagnose(result: &RunResult, trust: &Trust) -> Diagnosis {
    if !trust.no_account.is_empty() {
        return Diagnosis { verdict: verdict::no_account(trust), ..Diagnosis::default() };
    }
    let mut case = Case::new(result, trust);
    if case.whole == 0 {
        let sentence =
            "Nothing of the target was seen: it ended before it began, or its events were not recorded.";
        return Diagnosis { verdict: vec![sentence.into()], ..Diagnosis::default() };
    }
    let mut findings = Vec::new();
    // In the order of the table: what a rule takes is gone for those behind it.
    for rule in RULES {
        case.begin();
        let Some(seen) = (rule.look)(&mut case) else { continue };
        let time = seen.time.min(case.whole);
        findings.push(Finding {
            id: rule.id.into(),
            title: rule.title.into(),
            share: time as f64 / case.whole as f64,
            time,
            bound: case.bound(time),
            words: seen.words,
            evidence: seen.evidence,
            doubt: case.doubts(&seen.doubt),
            next: rule.next.into(),
        });
    }
    findings.retain(|f| f.share >= LEAST);
    findings.sort_by(|a, b| b.share.total_cmp(&a.share));
    let kind = verdict::kind(&case);
    Diagnosis { verdict: verdict::sentences(&case, &kind, &findings), kind, findings }
}
