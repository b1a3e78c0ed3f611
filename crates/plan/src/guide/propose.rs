// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the findings of a measured run to the changes that they point to.

use super::action::Action;
use super::command::{Launch, Observed};
use super::may::{allows, May};
use super::present::present;
use super::state::{Found, Measured, Proposal, State, Verdict};
use super::tunables::{Candidates, Tunable, When, TUNABLES};
use anyhow::Result;
use plumb_compare::run_directory::read;
use plumb_diagnose::BLOCK;
use plumb_machine::Root;
use plumb_model::{sum, Category, PatternRow, RunResult};
use std::collections::BTreeSet;
use std::path::Path;

/// A pattern with so many of its requests in sequence is sequential.
const SEQUENTIAL: f64 = 0.6;
/// Share of the waiting for a device that is for a request (tag).
const TAGS: f64 = 0.2;
/// From so many requests in flight on, the threads of a process use the device at once.
const SEVERAL: f64 = 1.5;
/// Whoever has less of the device's time than this part of the target's does not share it.
const USER: f64 = 0.05;

/// Changes that the findings of the present measurement point to and that were not tried, the largest finding's
/// first; those that the user did not allow among them.
///
/// # Errors
/// The result of the measured run cannot be read.
pub fn proposals(
    dir: &Path,
    state: &State,
    measured: &Measured,
    observed: &Observed,
    launch: &Launch,
) -> Result<Vec<Proposal>> {
    let result: RunResult = read(&dir.join(&measured.run).join("result.json"))?;
    let root = Root::real();
    let mut all: Vec<Proposal> = Vec::new();
    for finding in &measured.findings {
        for tunable in TUNABLES {
            let Some((_, when)) = tunable.findings.iter().find(|(id, _)| *id == finding.id) else { continue };
            if holds(*when, &finding.device, &result) {
                all.extend(of_tunable(state, tunable, finding, observed, launch, &root));
            }
        }
        all.extend(of_user(state, Some(finding), launch));
    }
    if let Some(first) = measured.findings.first() {
        let of_any =
            of_user(state, None, launch).into_iter().map(|p| Proposal { finding: first.clone(), ..p });
        all.extend(of_any);
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    all.retain(|p| {
        let name = (p.key.clone(), p.of.clone());
        let is_new = !seen.contains(&name) && !was_tried(state, p);
        if is_new {
            seen.push(name);
        }
        is_new
    });
    Ok(all)
}

/// Whether it was tried and undone: a value that was tried is not tried again.
fn was_tried(state: &State, proposal: &Proposal) -> bool {
    let changes = state.steps.iter().filter_map(|s| s.change.as_ref());
    changes.into_iter().any(|c| (&c.key, &c.of, &c.to) == (&proposal.key, &proposal.of, &proposal.to))
}

/// The next candidate of a tunable, where it has one.
fn of_tunable(
    state: &State,
    tunable: &'static Tunable,
    finding: &Found,
    observed: &Observed,
    launch: &Launch,
    root: &Root,
) -> Option<Proposal> {
    let now = present(tunable.setting, &finding.device, observed, launch, root).ok()?;
    let allowed = allows(&state.may, tunable.key);
    let mut candidates = now.candidates(tunable);
    if let Some(Some(value)) = allowed {
        let action = now.action(tunable.setting, value).filter(|_| now.value != value);
        candidates = action.map(|action| (value.to_string(), action)).into_iter().collect();
    }
    let of_it =
        |s: &&super::state::Step| s.change.as_ref().is_some_and(|c| c.key == tunable.key && c.of == now.of);
    let last = state.steps.iter().rfind(of_it);
    // Where one more did not help, still more does not either.
    let in_order = matches!(tunable.candidates, Candidates::Larger(_) | Candidates::Smaller(_));
    if in_order && last.is_some_and(|s| s.verdict != Verdict::Accepted) {
        return None;
    }
    let tried =
        |to: &str| state.steps.iter().filter(of_it).any(|s| s.change.as_ref().is_some_and(|c| c.to == to));
    let (to, action) = candidates.into_iter().find(|(to, _)| !tried(to))?;
    Some(Proposal {
        key: tunable.key.into(),
        of: now.of,
        from: now.value,
        to,
        finding: finding.clone(),
        because: tunable.because.into(),
        costs: tunable.costs.into(),
        action,
        may: format!("--may {}", tunable.key),
        allowed: allowed.is_some(),
    })
}

/// Changes that the user named for this finding, or for any.
fn of_user(state: &State, finding: Option<&Found>, launch: &Launch) -> Vec<Proposal> {
    let id = finding.map(|f| f.id.as_str());
    let make = |key: String, from: String, to: String, action: Action| Proposal {
        key,
        of: "command".into(),
        from,
        to,
        finding: finding.cloned().unwrap_or_else(no_finding),
        because: "named by the user".into(),
        costs: "known to the user".into(),
        action,
        may: String::new(),
        allowed: true,
    };
    let mut all = Vec::new();
    for may in &state.may {
        let May::Env { name, value, finding } = may else { continue };
        if finding.as_deref() == id {
            let set = launch.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            let from = set.or_else(|| std::env::var(name).ok()).unwrap_or_else(|| "unset".into());
            let action = Action::Env { name: name.clone(), value: value.clone() };
            all.push(make(format!("env:{name}"), from, value.clone(), action));
        }
    }
    for trial in state.trials.iter().filter(|t| t.finding.as_deref() == id) {
        let action = Action::Command(trial.clone());
        all.push(make(trial.name.clone(), "as found".into(), "applied".into(), action));
    }
    // Several values of one variable are tried one by one.
    all.retain(|p| !was_tried(state, p));
    all
}

fn no_finding() -> Found {
    Found {
        id: String::new(),
        headline: String::new(),
        device: String::new(),
        share: 0.0,
        next: String::new(),
    }
}

/// Whether the run shows what a tunable needs besides its finding.
fn holds(when: When, device: &str, result: &RunResult) -> bool {
    let ours = || result.patterns.iter().filter(|p| device.is_empty() || p.device == device);
    let main = || ours().filter(|p| p.target).max_by_key(|p| p.service);
    let time = |categories: &[Category]| -> u64 {
        let sums = sum(result.processes.iter());
        categories.iter().map(|c| sums.part(*c)).sum()
    };
    match when {
        When::Always => true,
        // Direct reads pass the page cache, and its read-ahead.
        When::SequentialReads => {
            let direct: u64 =
                result.processes.iter().flat_map(|p| BLOCK.iter().filter_map(|c| p.direct.get(c))).sum();
            direct * 2 <= time(BLOCK) && main().is_some_and(|p| !p.write && sequential(p) >= SEQUENTIAL)
        }
        When::Shared => {
            let most = main().map_or(0, |p| p.service);
            let users = ours().filter(|p| p.service as f64 > most as f64 * USER).map(|p| p.pid);
            let threads = result.processes.iter().map(|p| p.threads.len()).max().unwrap_or(0);
            let several = threads > 1 && main().is_some_and(|p| p.depth >= SEVERAL);
            users.collect::<BTreeSet<_>>().len() > 1 || several
        }
        When::TagWait => time(&[Category::BlockQueued]) as f64 > time(BLOCK) as f64 * TAGS,
    }
}

fn sequential(p: &PatternRow) -> f64 {
    (p.sequential + p.near) as f64 / p.requests.saturating_sub(1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::ProcessRow;

    fn pattern(pid: u32, write: bool, sequential: u64) -> PatternRow {
        PatternRow {
            pid,
            target: true,
            device: "sda".into(),
            write,
            requests: 101,
            sequential,
            service: 1000,
            depth: 1.0,
            ..PatternRow::default()
        }
    }

    #[test]
    fn what_must_be_seen_besides_is_of_the_findings_device() {
        let of = |patterns: Vec<PatternRow>| RunResult { patterns, ..RunResult::default() };
        let reads = of(vec![pattern(1, false, 90)]);
        assert!(holds(When::SequentialReads, "sda", &reads));
        assert!(!holds(When::SequentialReads, "sdb", &reads));
        assert!(!holds(When::SequentialReads, "sda", &of(vec![pattern(1, true, 90)])));
        assert!(!holds(When::SequentialReads, "sda", &of(vec![pattern(1, false, 10)])));
        let mut direct = reads.clone();
        let waited = [(Category::BlockIssued, 1000)];
        direct.processes.push(ProcessRow {
            account: waited.into(),
            direct: waited.into(),
            ..ProcessRow::default()
        });
        assert!(!holds(When::SequentialReads, "sda", &direct));
        assert!(!holds(When::Shared, "sda", &reads));
        assert!(holds(When::Shared, "sda", &of(vec![pattern(1, false, 9), pattern(2, false, 9)])));
        assert!(!holds(When::TagWait, "sda", &reads));
    }
}
