// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a search found, as JSON and in sentences.

use super::metric;
use super::repository::parents;
use super::state::State;
use anyhow::Result;
use plumb_analysis::NOT_VALID;
use plumb_machine::json;
use plumb_report::plain::Plain;
use plumb_stats::changepoint::scan;
use plumb_stats::changepoint::search::{interval, Next};
use plumb_stats::repetitions::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// Rests beyond so many scales are outliers.
const OUTLIER: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Found,
    NoDifference,
    /// `--most` runs were made before.
    Undecided,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub verdict: Verdict,
    /// Versions, by number, with one of which the metric changed; of `undecided` those that together have 1 - error.
    pub candidates: Vec<usize>,
    /// That it is one of them, 0 to 1.
    pub probability: f64,
    /// That no version changed it.
    pub none: f64,
    /// Last version less first, as parts of the first, and the 95 % interval.
    pub change: f64,
    pub low: f64,
    pub high: f64,
    /// Medians of the runs on both sides of the change; of the ends where there is none.
    pub before: f64,
    pub after: f64,
    /// Standard deviation from run to run, as a part.
    pub noise: f64,
    /// Between the extremes of what the machine did to all versions, as a part.
    pub drift: f64,
    pub runs: usize,
    pub measured_versions: usize,
    /// Runs that warmed up or failed.
    pub other_runs: usize,
    pub builds: usize,
    /// Runs of each version with which a full scan has the same error; none where 100,000 have not.
    pub scan_repetitions: Option<u32>,
    pub scan_runs: Option<u64>,
    pub doubts: Vec<String>,
}

/// How many versions were measured.
pub fn measured(state: &State) -> usize {
    state.runs.iter().map(|r| r.version).collect::<BTreeSet<_>>().len()
}

impl Answer {
    /// Where the search is over, or out of runs.
    pub fn of(state: &State, next: Next) -> Answer {
        let (search, asked) = (state.search(), &state.asked);
        let last = asked.versions.len() - 1;
        let empty = Answer {
            verdict: Verdict::Undecided,
            candidates: (1..=last).collect(),
            probability: 0.0,
            none: 0.0,
            change: 0.0,
            low: 0.0,
            high: 0.0,
            before: 0.0,
            after: 0.0,
            noise: 0.0,
            drift: 0.0,
            runs: state.runs.len(),
            measured_versions: measured(state),
            other_runs: state.other_runs,
            builds: state.builds,
            scan_repetitions: None,
            scan_runs: None,
            doubts: Vec::new(),
        };
        let Some(posterior) = search.posterior() else { return empty };
        let (verdict, candidates) = match next {
            Next::Found { first, last } => (Verdict::Found, (first..=last).collect()),
            Next::NoDifference => (Verdict::NoDifference, Vec::new()),
            Next::Measure(_) => (Verdict::Undecided, likely(&posterior.changed, 1.0 - asked.error)),
        };
        let probability = candidates.iter().map(|c: &usize| posterior.changed[c - 1]).sum();
        let part = |difference: f64| difference.exp_m1();
        let (low, high) = interval(&posterior, state.runs.len());
        let (first, end) = match verdict {
            Verdict::Found => (candidates[0], candidates[candidates.len() - 1]),
            _ => (1, last),
        };
        let side = |on: &dyn Fn(usize) -> bool| {
            let runs = state.runs.iter().filter(|r| on(r.version));
            median(&runs.map(|r| r.value).collect::<Vec<_>>())
        };
        let best = &posterior.best;
        let noise = best.noise();
        let scan = scan::repetitions(best.difference.abs() / noise.max(1e-9), asked.error);
        let scan = scan.filter(|_| verdict == Verdict::Found);
        let mut doubts = Vec::new();
        let drift = part(best.drifted());
        if drift > asked.least / 2.0 {
            doubts.push(format!(
                "the machine drifted by {:.1} % during the search; the runs of both ends were used to take it out",
                drift * 100.0
            ));
        }
        for stray in search.strays(&posterior).iter().filter(|_| verdict == Verdict::Found) {
            let name = asked.versions[stray.version].short(asked.repository.is_some());
            let off = part(stray.by) * 100.0;
            doubts.push(format!(
                "{name} lies {off:+.1} % off the level of its side: more than one version may have changed the metric"
            ));
        }
        let outliers = best.rest.iter().filter(|r| r.abs() > OUTLIER).count();
        if outliers > 0 {
            doubts.push(format!("{outliers} of {} runs are outliers", state.runs.len()));
        }
        if let (Some(repository), [only], Verdict::Found) =
            (&asked.repository, candidates.as_slice(), verdict)
        {
            let id = &asked.versions[*only].id;
            if parents(repository, id) > 1 {
                doubts.push(format!("it is a merge; to search its branch: --good $(git merge-base {id}^1 {id}^2) --bad {id}^2"));
            }
        }
        Answer {
            verdict,
            probability,
            none: posterior.none,
            change: part(best.difference),
            low: part(low),
            high: part(high),
            before: side(&|v| v < first && (verdict == Verdict::Found || v == 0)),
            after: side(&|v| v >= end),
            noise: part(noise),
            drift,
            scan_repetitions: scan,
            scan_runs: scan.map(|r| u64::from(r) * asked.versions.len() as u64),
            candidates,
            doubts,
            ..empty
        }
    }

    /// 0 where a version was found.
    pub fn exit_code(&self) -> ExitCode {
        if self.verdict == Verdict::Found {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(NOT_VALID)
        }
    }
}

/// The fewest versions that together are so probable; all where they are not.
fn likely(changed: &[f64], probability: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (1..=changed.len()).collect();
    order.sort_by(|a, b| changed[b - 1].total_cmp(&changed[a - 1]));
    let mut sum = 0.0;
    let enough = order.iter().position(|v| {
        sum += changed[v - 1];
        sum >= probability
    });
    order.truncate(enough.map_or(order.len(), |at| at + 1));
    order.sort_unstable();
    order
}

/// Prints it.
///
/// # Errors
/// Standard output's.
pub fn print(answer: &Answer, state: &State, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        json::write(&mut out, state)?;
    } else {
        write!(Plain(&mut out), "{}", text(answer, state))?;
    }
    Ok(out.flush()?)
}

fn text(a: &Answer, state: &State) -> String {
    let asked = &state.asked;
    let is_commit = asked.repository.is_some();
    let named = |v: usize| {
        let version = &asked.versions[v];
        let subject = if is_commit { format!(" {}", version.subject) } else { String::new() };
        format!("{}{subject}", version.short(is_commit))
    };
    let last = asked.versions.len() - 1;
    let percent = |part: f64| format!("{:+.1} %", part * 100.0);
    let shown = |value: f64| metric::shown(&asked.figure, value);
    let change = format!(
        "{} ({} -> {}; 95 % interval {} to {})",
        percent(a.change),
        shown(a.before),
        shown(a.after),
        percent(a.low),
        percent(a.high)
    );
    let what = if is_commit { "commit" } else { "version" };
    let mut lines = match (a.verdict, a.candidates.as_slice()) {
        (Verdict::Found, [only]) => vec![format!("Changed with {}, {what} {only} of {last}", named(*only))],
        (Verdict::Found, several) => {
            let mut lines = vec![format!(
                "Changed with one of {} {what}s, between which none can be measured:",
                several.len()
            )];
            lines.extend(several.iter().map(|v| format!("  {}", named(*v))));
            lines
        }
        (Verdict::NoDifference, _) => vec![format!(
            "No change of {:.1} % or more between {} and {}: no {what} is to be blamed",
            asked.least * 100.0,
            named(0),
            named(last)
        )],
        (Verdict::Undecided, several) => vec![format!(
            "Undecided after {} runs: one of {} {what}s, from {} to {}",
            a.runs + a.other_runs,
            several.len(),
            named(several.first().copied().unwrap_or(0)),
            named(several.last().copied().unwrap_or(last))
        )],
    };
    lines.push(format!("  {:<13} {change}", metric::name(&asked.figure)));
    if a.verdict != Verdict::NoDifference {
        let other = 1.0 - a.probability - a.none;
        lines.push(format!(
            "  probability   {:.1} %; another {what} {:.1} %, none {:.1} % (at most {:.0} % asked)",
            a.probability * 100.0,
            other.max(0.0) * 100.0,
            a.none * 100.0,
            asked.error * 100.0
        ));
    }
    let scan = a.scan_repetitions.zip(a.scan_runs).map_or(String::new(), |(each, all)| {
        format!("; a full scan with this error: {all} ({each} of each of {})", last + 1)
    });
    lines.push(format!(
        "  runs          {} of {} {what}s, {} others (warm-up, failed), {} builds{scan}",
        a.runs, a.measured_versions, a.other_runs, a.builds
    ));
    lines.push(format!(
        "  noise         {:.1} % from run to run, drift {:.1} %",
        a.noise * 100.0,
        a.drift * 100.0
    ));
    lines.extend(state.skipped.iter().map(|s| format!("Skipped: {}: {}", named(s.version), s.why)));
    lines.extend(a.doubts.iter().map(|d| format!("Doubt: {d}")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_that_are_likely_enough() {
        assert_eq!(likely(&[0.1, 0.5, 0.05, 0.3], 0.75), [2, 4]);
        assert_eq!(likely(&[0.1, 0.2], 0.95), [1, 2]);
    }
}
