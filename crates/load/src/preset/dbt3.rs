// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decision support: 22 queries over eight tables, one after the other or in several streams.

mod answer;
mod check;
mod fill;
mod queries;
mod tables;

pub use check::{check, CheckError, Checked, QueryChecked};
pub use fill::{fill, Filled};

use super::figures::{each, failures, number, steps, Rounds};
use super::{refuse, Classic};
use crate::job::{Cell, Given, Job, JobError, Step, What};
use crate::result::{CellResult, JobResult, KindResult, StepResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Each query is a step of its own, Q1 to Q22 in this order, and runs once (the power test). With --streams N there is one step, \
throughput: N connections run all queries at the same time, each beginning at another one (a rotation of Q1 to Q22). The tables come from \
plumb load dbt3-fill; plumb load dbt3-check looks whether the answers are right. Q15 is the specification's variant with a common \
table expression. The first line of each query is a comment, /* Q1 */.

Examples:
  plumb load dbt3-fill --scale 0.1 --to 'postgresql:///bench?host=/var/run/postgresql'
  plumb load dbt3 --scale 0.1 --to 'postgresql:///bench?host=/var/run/postgresql' --repeat 5
  plumb load dbt3 --queries Q1,Q6 --operations 10 --to mariadb://root@localhost/bench
  plumb load dbt3 --streams 4 --to mariadb://root@localhost/bench

Source: DBT-3 of the Open Source Development Labs, whose queries and data are derived from TPC-H. Times are not comparable with \
published results of that.";

/// Options of dbt3.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Dbt3Args {
    /// Queries, in the order in which they run [default: Q1 to Q22]
    #[arg(long, value_delimiter = ',', value_name = "QUERY", value_parser = queries::number)]
    pub queries: Vec<u8>,
    /// Run all queries in N streams at once, in place of one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub streams: Option<u32>,
    /// Scale that the tables were made with: Q11 depends on it [default: 1]
    #[arg(long, value_name = "SCALE", value_parser = scale)]
    pub scale: Option<f64>,
}

const THROUGHPUT: &str = "throughput";

/// A scale that tables can have.
///
/// # Errors
/// It is no number, or out of range.
pub fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err("a number from 0.001 to 1000; scale 1 has about 1 GB of rows".into()),
    }
}

impl Dbt3Args {
    fn numbers(&self) -> Vec<u8> {
        if self.queries.is_empty() {
            return queries::ALL.collect();
        }
        self.queries.clone()
    }

    /// A job that runs these, each as often as is said, by default once.
    fn job(&self, numbers: &[u8], given: &Given) -> Job {
        let scale = self.scale.unwrap_or(1.0);
        let sql: Vec<String> = numbers.iter().map(|&n| queries::text(n, scale)).collect();
        let timed = given.has("time") || given.has("bytes");
        let operations = if timed { None } else { Some(sql.len() as u64) };
        let threads = self.streams.unwrap_or(1);
        given.over(&Job { what: What::Request, sql, operations, threads, ..Job::default() })
    }
}

impl Classic for Dbt3Args {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let streams = "choose with --streams";
        refuse(
            given,
            &[
                ("what", "it asks a database"),
                ("sql", "choose with --queries"),
                ("threads", streams),
                ("processes", streams),
            ],
        )?;
        if !given.has("to") {
            return Err(JobError("dbt3 needs a database: --to postgresql://... or mariadb://...".into()));
        }
        let numbers = self.numbers();
        if let Some(twice) = (1..numbers.len()).find(|&i| numbers[..i].contains(&numbers[i])) {
            let label = queries::label(numbers[twice]);
            return Err(JobError(format!("--queries: {label} twice; --operations N runs each N times")));
        }
        let step = |label: String, job| Step { label, jobs: vec![job] };
        let steps = match self.streams {
            Some(_) => vec![step(THROUGHPUT.into(), self.job(&numbers, given))],
            None => numbers.iter().map(|&n| step(queries::label(n), self.job(&[n], given))).collect(),
        };
        Ok(vec![Cell { label: "dbt3".into(), steps }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut table = if self.streams.is_some() { throughput(cells) } else { power(cells) };
        table.notes.push(
            "Queries and data are derived from TPC-H; the times are not comparable with its published results.".into(),
        );
        table.notes.extend(failures(cells));
        vec![table]
    }
}

fn power(cells: &[CellResult]) -> Table {
    let mut rounds = Rounds::default();
    let mut times = Vec::new();
    for cell in cells {
        for StepResult { label, jobs, .. } in steps(cell) {
            let ms = |j: &JobResult| {
                let done = j.kind("request").filter(|k| k.count > k.errors);
                done.map_or(f64::NAN, |k| k.latency().mean_ns / 1e6)
            };
            let rows = jobs.first().and_then(|j| j.answer_rows);
            times.push((label.clone(), rounds.median(label, each(cell, label, ms)).map(|ms| ms / 1e3), rows));
        }
    }
    let whole = times.iter().all(|(_, time, _)| time.is_some());
    let sum: f64 = times.iter().filter_map(|(_, time, _)| *time).sum();
    let mut rows: Vec<Vec<String>> = times
        .into_iter()
        .map(|(label, time, rows)| {
            let share = time.map(|time| time / sum * 100.0);
            let rows = rows.filter(|_| time.is_some()).map_or_else(|| "-".into(), |rows| rows.to_string());
            vec![label, number(time, 4), number(share, 1), rows]
        })
        .collect();
    rows.push(Vec::new());
    // Without one of them it is another sum.
    rows.push(vec![
        "sum".into(),
        number(whole.then_some(sum), 4),
        number(whole.then_some(100.0), 1),
        String::new(),
    ]);
    let head = ["<query", "s", "% of the sum", "rows"].map(String::from).to_vec();
    Table { title: "DBT-3, one query after the other".into(), head, rows, notes: vec![rounds.note("ms")] }
}

fn throughput(cells: &[CellResult]) -> Table {
    let mut rounds = Rounds::default();
    let mut rows = Vec::new();
    for cell in cells {
        let Some(job) = steps(cell).first().and_then(|s| s.jobs.first()).map(|j| &j.job) else { continue };
        let of = |figure: &dyn Fn(&KindResult) -> f64| {
            let all = each(cell, THROUGHPUT, |j| j.kind("request").map_or(f64::NAN, figure));
            Rounds::default().median("", all)
        };
        let elapsed = each(cell, THROUGHPUT, |j| j.elapsed_ns as f64 / 1e9);
        rows.push(vec![
            job.threads.to_string(),
            number(of(&|k| (k.count - k.errors) as f64), 0),
            number(rounds.median(THROUGHPUT, elapsed), 3),
            number(of(&|k| k.rate * 3600.0), 0),
            number(of(&|k| k.latency().mean_ns / 1e9), 4),
            number(of(&|k| k.latency().max.map_or(f64::NAN, |ns| ns as f64 / 1e9)), 4),
        ]);
    }
    let head = ["streams", "queries", "s", "queries an hour", "mean s", "longest s"];
    let head = head.map(String::from).to_vec();
    Table { title: "DBT-3, streams at once".into(), head, rows, notes: vec![rounds.note("s")] }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    fn to() -> Given {
        given(Job { to: "postgresql:///bench".into(), ..Job::default() }, &["to"])
    }

    #[test]
    fn a_step_for_each_query_in_its_order() {
        let cells = parse(&["dbt3"]).cells(&to()).expect("cells");
        let labels: Vec<_> = cells[0].steps.iter().map(|s| s.label.as_str()).collect();
        assert_eq!((labels.len(), labels[0], labels[21]), (22, "Q1", "Q22"));
        let job = &cells[0].steps[5].jobs[0];
        assert_eq!((job.operations, job.threads, job.to.as_str()), (Some(1), 1, "postgresql:///bench"));
        assert!(job.sql[0].starts_with("/* Q6 */\n"));
        let cells = parse(&["dbt3", "--queries", "Q6,1", "--scale", "0.1"]).cells(&to()).expect("cells");
        let labels: Vec<_> = cells[0].steps.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["Q6", "Q1"]);
    }

    #[test]
    fn streams_are_threads_of_one_step() {
        let cells = parse(&["dbt3", "--streams", "3"]).cells(&to()).expect("cells");
        let [step] = &cells[0].steps[..] else { panic!("one step") };
        let job = &step.jobs[0];
        assert_eq!((step.label.as_str(), job.threads, job.sql.len()), ("throughput", 3, 22));
        assert_eq!(job.operations, Some(22), "each worker runs all of them");
    }

    #[test]
    fn without_a_database_there_are_no_jobs() {
        let said = parse(&["dbt3"]).cells(&Given::default()).expect_err("no database").0;
        assert!(said.contains("--to postgresql://"), "{said}");
        let line = Job { to: "postgresql:///x".into(), threads: 2, ..Job::default() };
        let said = parse(&["dbt3"]).cells(&given(line, &["to", "threads"])).expect_err("streams").0;
        assert!(said.contains("--streams"), "{said}");
        let twice = parse(&["dbt3", "--queries", "Q1,Q6,Q1"]).cells(&to());
        assert!(twice.is_err_and(|e| e.0.contains("Q1 twice")));
        let http = given(Job { to: "x:80".into(), ..Job::default() }, &["to"]);
        assert!(parse(&["dbt3"]).cells(&http).is_err_and(|e| e.0.contains("mariadb://")));
    }

    #[test]
    fn time_takes_the_place_of_one_operation() {
        let line = Job { to: "postgresql:///x".into(), time: Some(crate::job::Time(1)), ..Job::default() };
        let cells = parse(&["dbt3"]).cells(&given(line, &["to", "time"])).expect("cells");
        assert_eq!(cells[0].steps[0].jobs[0].operations, None);
    }

    #[test]
    fn the_table_has_shares_and_a_sum() {
        let preset = parse(&["dbt3", "--queries", "Q1,Q6"]);
        let cells = preset.cells(&to()).expect("cells");
        let made = |i: usize, ns: u64| {
            let step_of = &cells[0].steps[i];
            step(&step_of.label, &step_of.jobs[0], ns, &[("request", &[ns])])
        };
        let round = |factor: u64| vec![made(0, 3_000_000_000 * factor), made(1, 1_000_000_000 * factor)];
        let result = cell("dbt3", vec![round(1), round(3), round(2)]);
        let table = &preset.figures(&[result], None)[0];
        assert_eq!(table.rows[0], ["Q1", "6.0000", "75.0", "4"]);
        assert_eq!(table.rows[1], ["Q6", "2.0000", "25.0", "4"]);
        assert_eq!(table.rows[3], ["sum", "8.0000", "100.0", ""]);
        let failed =
            cell("dbt3", vec![vec![made(0, 1_000_000_000), step("Q6", &cells[0].steps[1].jobs[0], 1, &[])]]);
        let table = &preset.figures(&[failed], None)[0];
        assert_eq!((table.rows[1][1].as_str(), table.rows[3][1].as_str()), ("-", "-"));
    }
}
