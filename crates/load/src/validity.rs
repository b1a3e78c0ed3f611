// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May this result be believed? Each check looks at facts of the run and says
//! with figures what speaks against it, and what to do about it.
//!
//! - `facts`: all that checks may look at.
//! - `checks`: the one table of them; `storage`, `machine`, `method`, `network`: their functions.

mod checks;
mod facts;
mod machine;
mod method;
mod network;
mod storage;

pub use checks::{markdown, Check, CHECKS};
pub use facts::Facts;

use serde::{Deserialize, Serialize};

/// How much a reason weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the result stands.
    Note,
    /// The result may not be what it says.
    Suspect,
    /// The result is not what it says.
    Invalid,
}

/// What one check says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Nothing speaks against the result.
    Fine,
    Against(Severity, String),
}

/// Why a result is doubted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub check: String,
    pub severity: Severity,
    /// What was found, with figures.
    pub sentence: String,
    /// What to do about it.
    pub next_step: String,
}

/// The verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    Valid,
    /// At least one reason to doubt it.
    Suspect,
    /// At least one reason not to use it.
    Invalid,
}

/// Whether a result may be believed, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub word: Word,
    /// Reasons and notes, the weightiest first.
    pub reasons: Vec<Reason>,
    /// Checks that lacked a fact to look at: no all-clear came from them.
    pub not_looked_at: Vec<String>,
}

impl Verdict {
    /// Asks every check of the table.
    pub fn of(facts: &Facts) -> Verdict {
        let (mut reasons, mut not_looked_at) = (Vec::new(), Vec::new());
        for check in CHECKS {
            match (check.judge)(facts) {
                None => not_looked_at.push(check.name.to_string()),
                Some(Finding::Fine) => {}
                Some(Finding::Against(severity, sentence)) => reasons.push(Reason {
                    check: check.name.into(),
                    severity,
                    sentence,
                    next_step: check.next_step.into(),
                }),
            }
        }
        reasons.sort_by_key(|r| std::cmp::Reverse(r.severity));
        let word = match reasons.first().map(|r| r.severity) {
            Some(Severity::Invalid) => Word::Invalid,
            Some(Severity::Suspect) => Word::Suspect,
            Some(Severity::Note) | None => Word::Valid,
        };
        Verdict { word, reasons, not_looked_at }
    }
}

/// A share as the checks write it: `12.3 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Against it from `suspect` on, more so from `invalid` on.
fn graded(value: f64, suspect: f64, invalid: f64, sentence: impl FnOnce() -> String) -> Finding {
    if value >= invalid {
        Finding::Against(Severity::Invalid, sentence())
    } else if value >= suspect {
        Finding::Against(Severity::Suspect, sentence())
    } else {
        Finding::Fine
    }
}

#[cfg(test)]
mod tests;
