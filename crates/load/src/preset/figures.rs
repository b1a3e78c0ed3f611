// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tables of presets share: medians over rounds with their spread,
//! and figures as text.

use crate::result::{median, CellResult, JobResult, StepResult};

/// Takes medians over rounds and remembers how far the rounds were apart.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The most rounds that a figure had.
    most: usize,
    /// Name, least, greatest of the figure with the widest spread for its size.
    widest: Option<(String, f64, f64)>,
}

impl Rounds {
    /// The median of a figure's rounds; `None` of none.
    pub(super) fn median(&mut self, name: &str, figures: impl IntoIterator<Item = f64>) -> Option<f64> {
        let figures: Vec<f64> = figures.into_iter().filter(|f| f.is_finite()).collect();
        self.most = self.most.max(figures.len());
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if figures.len() > 1 && least > 0.0 {
            let wider = self.widest.as_ref().is_none_or(|(_, l, g)| greatest / least > g / l);
            if wider {
                self.widest = Some((name.to_string(), least, greatest));
            }
        }
        median(figures)
    }

    /// A sentence on the rounds, for below the table.
    pub(super) fn note(&self, unit: &str) -> String {
        match (&self.widest, self.most) {
            (_, 0) => "No round ended.".into(),
            (_, 1) => "One round: how far rounds lie apart is not known; --repeat tells.".into(),
            (None, n) => format!("Medians of {n} rounds."),
            (Some((name, least, greatest)), n) => format!(
                "Medians of {n} rounds; furthest apart was {name}: {}..{} {unit}.",
                number(Some(*least), 1),
                number(Some(*greatest), 1)
            ),
        }
    }
}

/// A figure with so many decimals; `-` where there is none.
pub(super) fn number(figure: Option<f64>, decimals: usize) -> String {
    // The sum of nothing is -0, which nobody wants to read.
    figure.map_or_else(|| "-".into(), |f| format!("{:.decimals$}", f + 0.0))
}

/// Kibibytes a second, as Iozone and Bonnie++ count.
pub(super) fn kib_per_s(bytes: u64, ns: u64) -> f64 {
    per_s(bytes as f64 / 1024.0, ns)
}

/// So many in this time, a second; not a number when there was no time.
pub(super) fn per_s(count: f64, ns: u64) -> f64 {
    if ns == 0 {
        return f64::NAN;
    }
    count / (ns as f64 / 1e9)
}

/// CPU time of a job's workers, percent of its elapsed time (above 100 with several CPUs).
pub(super) fn cpu_percent(job: &JobResult) -> f64 {
    match job.elapsed_ns {
        0 => f64::NAN,
        ns => (job.cpu.user_ns + job.cpu.system_ns) as f64 * 100.0 / ns as f64,
    }
}

/// Bytes that a job's own operations moved.
pub(super) fn bytes(job: &JobResult) -> u64 {
    job.main_operations().map(|k| k.bytes).sum()
}

/// Operations of the job's own kind that ended without error.
pub(super) fn operations(job: &JobResult) -> u64 {
    job.main_operations().map(|k| k.count - k.errors.min(k.count)).sum()
}

/// A figure of each round of a step's first job.
pub(super) fn each<'a>(
    cell: &'a CellResult,
    step: &'a str,
    figure: impl Fn(&JobResult) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    cell.step(step).filter_map(|s| s.jobs.first()).map(figure)
}

/// The first round's steps: what was to be done, in order.
pub(super) fn steps(cell: &CellResult) -> &[StepResult] {
    cell.rounds.first().map(Vec::as_slice).unwrap_or_default()
}

/// Says what failed, so that no figure is read without it.
pub(super) fn failures(cells: &[CellResult]) -> Option<String> {
    let mut failed = 0;
    let mut first = None;
    for step in cells.iter().flat_map(|c| c.rounds.iter().flatten()) {
        for job in &step.jobs {
            failed += job.operations.iter().map(|k| k.errors).sum::<u64>();
            first = first.or_else(|| job.failures.first().map(|f| format!("{}: {f}", step.label)));
        }
    }
    (failed > 0).then(|| {
        format!(
            "{failed} operations failed and are in no figure; the first: {}.",
            first.unwrap_or_else(|| "-".into())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_tell_their_number_and_spread() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.note("us"), "No round ended.");
        assert_eq!(rounds.median("a", [5.0]), Some(5.0));
        assert!(rounds.note("us").contains("One round"));
        assert_eq!(rounds.median("narrow", [10.0, 11.0, 12.0]), Some(11.0));
        assert_eq!(rounds.median("wide", [1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(rounds.median("none", []), None);
        assert_eq!(rounds.note("us"), "Medians of 3 rounds; furthest apart was wide: 1.0..3.0 us.");
    }

    #[test]
    fn rates_of_no_time_are_no_figures() {
        assert_eq!(kib_per_s(2048, 1_000_000_000), 2.0);
        assert_eq!(number(Some([0.0; 0].iter().sum()), 1), "0.0");
        let mut rounds = Rounds::default();
        assert_eq!(number(rounds.median("a", [kib_per_s(1, 0)]), 1), "-");
    }
}
