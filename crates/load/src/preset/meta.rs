// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bonnie++'s tests of many files: made, asked for, deleted, in order and at random.

use super::figures::{cpu_percent, each, failures, number, operations, per_s, Rounds};
use super::{refuse, Classic};
use crate::job::{Bytes, Cell, Given, Job, JobError, Order, Step, What};
use crate::result::{CellResult, JobResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Examples:
  plumb load meta --files 16384
  plumb load meta --files 10000 --block 4K --dirs 10 --sync fsync
  plumb load meta --paper

Source: Bonnie++ (Russell Coker). --paper: \"What kernel 2.6 can do\" (NTT Comware): about 100,000 files of 80 to \
100 bytes (here 90) in 10 directories.";

/// Options of meta.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct MetaArgs {
    /// 100,000 files of 90 bytes in 10 directories
    #[arg(long)]
    pub paper: bool,
}

impl Classic for MetaArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "its tests are fixed: create, stat and delete, in order and at random";
        refuse(given, &[("what", own), ("order", own), ("depth", "a name is done at a time")])?;
        let base = match self.paper {
            true => Job { files: 100_000, block: Bytes(90), dirs: 10, ..Job::default() },
            false => Job { files: 16 * 1024, block: Bytes(0), ..Job::default() },
        };
        let mut steps = Vec::new();
        for (word, order) in [("sequential", Order::Sequential), ("random", Order::RandomOnce)] {
            for (verb, what) in [("create", What::Create), ("stat", What::Stat), ("delete", What::Unlink)] {
                let mut job = given.over(&Job { what, order, ..base.clone() });
                if what != What::Create {
                    // Only the files' makers have bytes to write; an operation on a name has none.
                    job.block = Bytes(job.block.0.max(1));
                }
                steps.push(Step { label: format!("{word} {verb}"), jobs: vec![job] });
            }
        }
        let first = &steps[0].jobs[0];
        Ok(vec![Cell { label: format!("{} files of {} bytes", first.files, first.block.0), steps }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            for step in super::figures::steps(cell) {
                let label = step.label.as_str();
                let rates = each(cell, label, |j| per_s(operations(j) as f64, j.elapsed_ns));
                let us =
                    |figure: fn(&JobResult) -> f64| Rounds::default().median("", each(cell, label, figure));
                rows.push(vec![
                    label.to_string(),
                    number(rounds.median(label, rates), 0),
                    number(us(cpu_percent), 0),
                    number(
                        us(|j| j.main_operations().next().map_or(f64::NAN, |k| k.latency().mean_ns / 1e3)),
                        1,
                    ),
                    number(
                        us(|j| {
                            j.main_operations()
                                .filter_map(|k| k.latency().max)
                                .max()
                                .map_or(f64::NAN, |m| m as f64 / 1e3)
                        }),
                        1,
                    ),
                ]);
            }
        }
        let mut notes = vec![rounds.note("/s")];
        notes.push("Names are ten digits and .txt (Bonnie++: digits and letters); random means each name once, in a random order.".into());
        notes.extend(failures(cells));
        let title = cells.first().map_or_else(|| "Many files".to_string(), |c| c.label.clone());
        let head = ["<test", "/s", "CPU %", "mean us", "max us"].map(String::from).to_vec();
        vec![Table { title, head, rows, notes }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    #[test]
    fn six_tests_of_the_papers_files() {
        let cells = parse(&["meta", "--paper"]).cells(&Given::default()).expect("cells");
        let labels: Vec<_> = cells[0].steps.iter().map(|s| s.label.as_str()).collect();
        let expected = [
            "sequential create",
            "sequential stat",
            "sequential delete",
            "random create",
            "random stat",
            "random delete",
        ];
        assert_eq!(labels, expected);
        let job = &cells[0].steps[3].jobs[0];
        assert_eq!((job.files, job.block, job.dirs, job.order), (100_000, Bytes(90), 10, Order::RandomOnce));
        let few = given(Job { files: 50, ..Job::default() }, &["files"]);
        let cells = parse(&["meta"]).cells(&few).expect("cells");
        assert_eq!((cells[0].steps[0].jobs[0].files, cells[0].steps[0].jobs[0].block), (50, Bytes(0)));
    }

    #[test]
    fn rates_are_operations_a_second() {
        let preset = parse(&["meta"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        let made =
            step("sequential create", &cells[0].steps[0].jobs[0], 500_000_000, &[("create", &[20_000; 100])]);
        let table = &preset.figures(&[cell("files", vec![vec![made]])], None)[0];
        assert_eq!(table.rows, [["sequential create", "200", "50", "20.0", "20.0"]]);
    }
}
