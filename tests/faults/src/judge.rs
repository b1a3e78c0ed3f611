// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What plumb said, held against what is known. No I/O: everything here is tested with made-up results.

use crate::catalogue::Fault;
use crate::run::Strength;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Share of the target's time from which a finding that is not honest counts as a false alarm.
pub const ALARM: f64 = 0.10;
/// Share of the strong faults that must be found.
pub const RECALL_STRONG: f64 = 0.95;
/// Share of the weak faults that must be found.
pub const RECALL_WEAK: f64 = 0.85;
/// Most false alarms on the clean runs.
pub const FALSE_ALARMS: usize = 1;
/// Share of the measured speed-ups that must be in their estimates' ranges.
pub const INSIDE: f64 = 0.9;
/// Median of |estimate / measured - 1| at most.
pub const ESTIMATE_ERROR: f64 = 0.1;

/// One of plumb's findings; what it says besides stays in the raw file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub id: String,
    /// Share of the target's time, 0 to 1.
    #[serde(default)]
    pub share: f64,
    /// How many times faster without it.
    #[serde(default)]
    pub speedup: Option<Speedup>,
    /// It in one line, with who it is about.
    #[serde(default)]
    pub headline: String,
}

impl Finding {
    /// Whether it says that a process of this name is the cause.
    fn names(&self, comm: &str) -> bool {
        self.headline.split([' ', ',']).any(|word| word == comm)
    }
}

/// An estimated speed-up: nine of ten measured ones must lie between `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// What one run of plumb says that is judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Said {
    pub findings: Vec<Finding>,
    /// Unexplained share of the processes' time.
    pub unexplained: f64,
    /// Unexplained share of the critical path.
    pub path_unexplained: f64,
    /// Largest difference between a process's account and its time, as a share of it.
    pub gap: f64,
    /// Events that were lost.
    pub lost: u64,
}

impl Said {
    /// Reads `plumb run --json`.
    ///
    /// # Errors
    /// What is missing or has another shape, in words.
    pub fn read(result: &Value) -> Result<Self, String> {
        let findings = result.get("findings").ok_or("no .findings: this plumb does not tell any")?;
        let findings = Vec::deserialize(findings).map_err(|e| format!(".findings: {e}"))?;
        let processes = result["processes"].as_array().ok_or("no .processes")?;
        let (mut time, mut unexplained, mut gap) = (0.0, 0.0, 0.0_f64);
        for process in processes {
            let own = process["thread_time"].as_f64().ok_or("a process without .thread_time")?;
            let account = process["account"].as_object().ok_or("a process without .account")?;
            let sum: f64 = account.values().filter_map(Value::as_f64).sum();
            time += own;
            unexplained += account.get("unexplained").and_then(Value::as_f64).unwrap_or(0.0);
            gap = gap.max((sum - own).abs() / own.max(1.0));
        }
        let parts = result["path"]["parts"].as_array();
        let of = |part: &Value| part["time"].as_u64().unwrap_or(0);
        let path: u64 = parts.into_iter().flatten().map(of).sum();
        let dark = parts.into_iter().flatten().filter(|p| p["category"] == "unexplained");
        let path_unexplained = dark.map(of).sum::<u64>() as f64 / path.max(1) as f64;
        let lost = result["lost_events"].as_u64().unwrap_or(0);
        Ok(Self { findings, unexplained: unexplained / f64::max(time, 1.0), path_unexplained, gap, lost })
    }
}

/// The judgement of one run of a fault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// What was found first, of what counts.
    pub first: Option<Finding>,
    /// Whether that names the cause.
    pub ok: bool,
    /// Whether a finding before it names the neighbour.
    pub after_neighbour: bool,
}

/// Whether the most important finding names the cause. With the weak dose the larger part of the
/// program's time is what it honestly is, and findings that say so are passed over; as are those that
/// name the neighbour, who is a cause too.
///
/// `neighbour`: its name, and the findings that it honestly causes.
pub fn fault(
    fault: &Fault,
    strength: Strength,
    findings: &[Finding],
    neighbour: Option<(&str, &[&str])>,
) -> Judged {
    let weak = strength == Strength::Weak;
    let right = |f: &Finding| fault.expect.contains(&f.id.as_str());
    let named = |f: &Finding| {
        neighbour.is_some_and(|(comm, causes)| causes.contains(&f.id.as_str()) && f.names(comm))
    };
    let theirs = |f: &Finding| weak && !right(f) && named(f);
    let honest = |f: &Finding| weak && fault.base.contains(&f.id.as_str());
    let counts = |f: &Finding| !honest(f) && !theirs(f);
    let at = findings.iter().position(counts).unwrap_or(findings.len());
    let first = findings.get(at).cloned();
    let ok = first.as_ref().is_some_and(right);
    Judged { first, ok, after_neighbour: findings[..at].iter().any(theirs) }
}

/// Findings of a clean run that are not honest and large enough to send somebody the wrong way.
pub fn alarms(honest: &[&str], findings: &[Finding]) -> Vec<Finding> {
    findings.iter().filter(|f| f.share >= ALARM && !honest.contains(&f.id.as_str())).cloned().collect()
}

/// A measured speed-up beside its estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// estimate / measured - 1.
    pub error: f64,
    /// Whether it is in the range.
    pub inside: bool,
}

/// How far the estimate is off; nothing where either is missing.
pub fn measured(speedup: Option<Speedup>, measured: Option<f64>) -> Option<Measured> {
    let (s, m) = (speedup?, measured.filter(|m| *m > 0.0)?);
    Some(Measured { error: s.estimate / m - 1.0, inside: (s.low..=s.high).contains(&m) })
}

/// The middle of the values (of the two in the middle the mean); nothing of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Found of all, as a share; nothing of nothing is 1.
pub fn recall(found: impl Iterator<Item = bool>) -> f64 {
    let (mut all, mut yes) = (0_u32, 0_u32);
    for ok in found {
        all += 1;
        yes += u32::from(ok);
    }
    if all == 0 {
        1.0
    } else {
        f64::from(yes) / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::FAULTS;
    use serde_json::json;

    fn finding(id: &str, share: f64) -> Finding {
        let speedup = Some(Speedup { estimate: 1.0 / (1.0 - share), low: 1.0, high: 9.0 });
        Finding { id: id.into(), share, speedup, headline: String::new() }
    }

    fn known(name: &str) -> &'static Fault {
        FAULTS.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn a_result_is_read_with_its_account() {
        let result = json!({
            "lost_events": 3,
            "path": {"parts": [{"category": "running", "time": 900}, {"category": "unexplained", "time": 100}]},
            "findings": [{"id": "lock.user", "share": 0.7, "speedup": {"estimate": 3.1, "low": 2.0, "high": 4.0}, "doubt": "low"}, {"id": "cpu.user", "share": 0.2}],
            "processes": [
                {"thread_time": 1000, "account": {"running": 300, "lock.user": 650, "unexplained": 50}},
                {"thread_time": 1000, "account": {"running": 900}},
            ],
        });
        let said = Said::read(&result).expect("readable");
        let speedup = Some(Speedup { estimate: 3.1, low: 2.0, high: 4.0 });
        let first = &said.findings[0];
        assert_eq!((first.id.as_str(), first.share, first.speedup), ("lock.user", 0.7, speedup));
        assert_eq!(said.findings[1].speedup, None);
        assert!((said.path_unexplained - 0.1).abs() < 1e-9);
        assert!((said.unexplained - 0.025).abs() < 1e-9);
        assert!((said.gap - 0.1).abs() < 1e-9, "the second process misses a tenth");
        assert_eq!(said.lost, 3);
    }

    #[test]
    fn a_result_without_findings_is_an_error_that_says_so() {
        let error = Said::read(&json!({"processes": []})).expect_err("no findings");
        assert!(error.contains(".findings"), "{error}");
        let error = Said::read(&json!({"processes": [], "findings": {"id": "x"}})).expect_err("an object");
        assert!(error.contains(".findings"), "{error}");
    }

    #[test]
    fn the_strong_dose_must_be_first_and_the_weak_one_first_besides_what_the_program_is() {
        let flock = known("flock");
        let found = [finding("cpu.user", 0.7), finding("lock.file", 0.25)];
        assert!(!fault(flock, Strength::Strong, &found, None).ok);
        let weak = fault(flock, Strength::Weak, &found, None);
        assert!(weak.ok);
        assert_eq!(weak.first, Some(finding("lock.file", 0.25)));
        let other = [finding("cpu.user", 0.7), finding("wait.sleep", 0.2)];
        assert!(!fault(flock, Strength::Weak, &other, None).ok);
        let none = Judged { first: None, ok: false, after_neighbour: false };
        assert_eq!(fault(flock, Strength::Strong, &[], None), none);
    }

    #[test]
    fn what_the_neighbour_does_is_passed_over_where_it_is_named_and_the_dose_is_weak() {
        let flock = known("flock");
        let headline = "CPU contention: run-queue wait while sh runs".to_owned();
        let theirs = Finding { headline, ..finding("cpu.wait", 0.4) };
        let found = [theirs, finding("lock.file", 0.25)];
        let causes = &["cpu.wait"][..];
        let judged = fault(flock, Strength::Weak, &found, Some(("sh", causes)));
        assert!(judged.ok && judged.after_neighbour);
        assert!(!fault(flock, Strength::Strong, &found, Some(("sh", causes))).ok);
        assert!(!fault(flock, Strength::Weak, &found, Some(("dd", causes))).ok, "another one is named");
        assert!(
            !fault(flock, Strength::Weak, &found, Some(("sh", &["io.scheduler"]))).ok,
            "it causes others"
        );
        assert!(!fault(flock, Strength::Weak, &found, None).ok, "nobody ran beside it");
    }

    #[test]
    fn only_large_dishonest_findings_are_alarms() {
        let found = [finding("cpu.user", 0.9), finding("lock.user", 0.12), finding("device.slow", 0.09)];
        assert_eq!(alarms(&["cpu.user"], &found), [finding("lock.user", 0.12)]);
        assert!(alarms(&["cpu.user", "lock.user"], &found).is_empty());
    }

    #[test]
    fn numbers() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
        let three = Some(Speedup { estimate: 3.0, low: 2.5, high: 4.0 });
        assert_eq!(measured(three, Some(2.0)), Some(Measured { error: 0.5, inside: false }));
        assert_eq!(measured(three, Some(4.0)), Some(Measured { error: -0.25, inside: true }));
        assert_eq!(measured(None, Some(2.0)), None);
        assert_eq!(measured(three, None), None);
        assert!((recall([true, true, false, true].into_iter()) - 0.75).abs() < 1e-9);
        assert!((recall(std::iter::empty()) - 1.0).abs() < 1e-9);
    }
}
