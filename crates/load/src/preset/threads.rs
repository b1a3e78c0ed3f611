// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that count under a lock: what the lock and the scheduler cost.

use super::figures::{each, failures, number, steps, Rounds};
use super::{refuse, Classic};
use crate::job::{Cell, Given, Job, JobError, What};
use crate::result::{CellResult, JobResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Examples:
  plumb load threads
  plumb load threads --thread-counts 1,2,4 --updates 100000 --lock futex
  plumb load threads --paper

Source: the thread test of \"What kernel 2.6 can do\" (NTT Comware): 10 to 250 threads count 5 counters under \
mutexes, 1000 to 50,000 updates each; the figure is the mean over all threads of the time from their common start \
to the thread's end.";

/// Options of threads.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ThreadsArgs {
    /// Numbers of threads [default: 10,50,100,250, or --threads]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub thread_counts: Vec<u32>,
    /// Updates of each thread [default: 1000,5000,10000,50000, or --operations]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub updates: Vec<u64>,
    /// The paper's two series: 10 to 250 threads of 50,000 updates, and 200 threads of 1000 to 50,000
    #[arg(long, conflicts_with_all = ["thread_counts", "updates"])]
    pub paper: bool,
}

const THREADS: [u32; 4] = [10, 50, 100, 250];
const UPDATES: [u64; 4] = [1000, 5000, 10_000, 50_000];

impl ThreadsArgs {
    fn pairs(&self, given: &Given) -> Vec<(u32, u64)> {
        if self.paper {
            let first = THREADS.map(|threads| (threads, 50_000));
            return first.into_iter().chain(UPDATES.map(|updates| (200, updates))).collect();
        }
        let line = given.over(&Job::default());
        let threads = match self.thread_counts.is_empty() {
            false => self.thread_counts.clone(),
            true if given.has("threads") => vec![line.threads],
            true => THREADS.to_vec(),
        };
        let updates = match (self.updates.is_empty(), line.operations) {
            (false, _) => self.updates.clone(),
            (true, Some(n)) => vec![n],
            (true, None) => UPDATES.to_vec(),
        };
        threads.iter().flat_map(|&t| updates.iter().map(move |&u| (t, u))).collect()
    }
}

impl Classic for ThreadsArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        refuse(given, &[("what", "it locks and counts")])?;
        if self.paper || !self.thread_counts.is_empty() {
            refuse(given, &[("threads", "choose with --thread-counts")])?;
        }
        if self.paper || !self.updates.is_empty() {
            refuse(given, &[("operations", "choose with --updates")])?;
        }
        let cell = |(threads, updates)| {
            let job = Job { what: What::LockAndUpdate, threads, operations: Some(updates), ..Job::default() };
            let job = given.over_except(&job, &["threads", "operations"]);
            Cell::of(format!("{threads} threads of {updates} updates"), job)
        };
        Ok(self.pairs(given).into_iter().map(cell).collect())
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        let mut lost = Vec::new();
        for cell in cells {
            let Some(job) = steps(cell).first().and_then(|s| s.jobs.first()).map(|j| &j.job) else {
                continue;
            };
            let of = |figure: &dyn Fn(&JobResult) -> f64| {
                Rounds::default().median("", each(cell, &cell.label, figure))
            };
            let mean = |j: &JobResult| j.thread_mean_ns.map_or(f64::NAN, |ns| ns / 1e6);
            let slowest = |j: &JobResult| {
                j.workers.iter().map(|w| w.ended_ns).max().map_or(f64::NAN, |m| m as f64 / 1e6)
            };
            rows.push(vec![
                job.workers().to_string(),
                job.operations.map_or_else(|| "-".into(), |n| n.to_string()),
                job.counters.to_string(),
                job.lock.to_string(),
                number(rounds.median(&cell.label, each(cell, &cell.label, mean)), 3),
                number(of(&slowest), 3),
                number(of(&|j| j.kind("lock").map_or(f64::NAN, |k| k.latency().mean_ns / 1e3)), 3),
                number(of(&|j| j.cpu.parallelism), 2),
            ]);
            let counted = cell.step(&cell.label).flat_map(|s| &s.jobs).filter_map(|j| j.counted);
            lost.extend(counted.filter(|c| c.counters != c.updates).map(|c| {
                format!(
                    "{}: the counters hold {} of {} updates: the lock does not lock.",
                    cell.label, c.counters, c.updates
                )
            }));
        }
        let mut notes = vec![rounds.note("ms")];
        notes.push("A thread's time counts from the common start of all threads to its own end.".into());
        notes.push("Parallelism: CPU seconds of all threads a second; on few CPUs threads wait for these, not for the lock.".into());
        notes.extend(lost);
        notes.extend(failures(cells));
        let head = [
            "threads",
            "updates each",
            "counters",
            "<lock",
            "mean ms of a thread",
            "slowest ms",
            "us an update",
            "parallelism",
        ];
        vec![Table { title: "Threads that count".into(), head: head.map(String::from).to_vec(), rows, notes }]
    }

    fn rounds(&self) -> Option<u32> {
        Some(3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;
    use crate::job::Lock;
    use crate::result::Counted;

    #[test]
    fn threads_and_updates_are_the_papers() {
        let cells = parse(&["threads"]).cells(&Given::default()).expect("cells");
        assert_eq!(cells.len(), 16);
        let job = &cells[15].steps[0].jobs[0];
        assert_eq!(
            (job.threads, job.operations, job.counters, job.lock),
            (250, Some(50_000), 5, Lock::Mutex)
        );
        let paper = parse(&["threads", "--paper"]).cells(&Given::default()).expect("cells");
        assert_eq!(paper.iter().filter(|c| c.steps[0].jobs[0].threads == 200).count(), 4);
        assert_eq!(paper.len(), 8);
    }

    #[test]
    fn given_options_narrow_it() {
        let line = Job { threads: 3, operations: Some(9), lock: Lock::Spin, ..Job::default() };
        let given = given(line, &["threads", "operations", "lock"]);
        let cells = parse(&["threads"]).cells(&given).expect("cells");
        let job = &cells[0].steps[0].jobs[0];
        assert_eq!((cells.len(), job.threads, job.operations, job.lock), (1, 3, Some(9), Lock::Spin));
        let both = parse(&["threads", "--updates", "5"]).cells(&given);
        assert!(both.is_err_and(|e| e.0.contains("--updates")));
    }

    #[test]
    fn the_figure_is_the_mean_of_all_threads() {
        let preset = parse(&["threads", "--thread-counts", "2", "--updates", "4"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        let mut made = step(&cells[0].label, &cells[0].steps[0].jobs[0], 6_000_000, &[("lock", &[2000; 8])]);
        made.jobs[0].thread_mean_ns = Some(4_000_000.0);
        made.jobs[0].counted = Some(Counted { counters: 7, updates: 8 });
        let table = &preset.figures(&[cell(&cells[0].label, vec![vec![made]])], None)[0];
        assert_eq!(table.rows[0], ["2", "4", "5", "mutex", "4.000", "6.000", "2.000", "1.00"]);
        assert!(table.notes.iter().any(|n| n.contains("7 of 8 updates")), "{:?}", table.notes);
    }
}
