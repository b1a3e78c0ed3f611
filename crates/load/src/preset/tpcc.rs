// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Order entry: five short transactions over nine tables, in a mix.

mod fill;
mod tables;
mod transactions;

pub use fill::fill;

use super::figures::{each, failures, number, steps, Rounds};
use super::{refuse, Classic};
use crate::job::{Cell, Given, Job, JobError, Step, What};
use crate::result::{CellResult, KindResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Each worker sends transactions, one after the other: of 100 requests 45 new orders, 43 payments, 4 order states, 4 deliveries and 4 \
stock levels, in an order of --seed; worker N of M begins at the Nth of M parts. Each transaction is a stored procedure of \
plumb load tpcc-fill, which chooses warehouse, district, customer and items at random; a request is its call, and has a comment \
before it, /* new_order */. One of 100 new orders has an item that does not exist and is rolled back: it counts as done. A deadlock \
or another error of the database is a failed operation and is not tried again.

The transactions of a warehouse wait for each other's row locks: with fewer warehouses than workers that is what is measured.

Examples:
  plumb load tpcc-fill --warehouses 4 --to 'postgresql:///bench?host=/var/run/postgresql'
  plumb load tpcc --threads 4 --time 60s --ramp 10s --to 'postgresql:///bench?host=/var/run/postgresql'
  plumb load tpcc --threads 4 --rate 200 --time 60s --to mariadb://root@localhost/bench

Source: TPC-C, from which tables, rows and transactions are derived. There are no keying and think times, no terminals and no audit; \
rates are not comparable with published results of that.";

/// Options of tpcc.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TpccArgs {}

const TPCC: &str = "tpcc";

/// A number of warehouses that tables can have.
///
/// # Errors
/// It is no number, or out of range.
pub fn warehouses(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(warehouses) if (1..=10_000).contains(&warehouses) => Ok(warehouses),
        _ => Err("a number from 1 to 10000; a warehouse has about 100 MB of rows".into()),
    }
}

impl Classic for TpccArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        refuse(given, &[("what", "it asks a database"), ("sql", "the mix is fixed")])?;
        if !given.has("to") {
            return Err(JobError("tpcc needs a database: --to postgresql://... or mariadb://...".into()));
        }
        let timed = given.has("time") || given.has("bytes");
        let operations = if timed { None } else { Some(1000) };
        let sql = transactions::deck(given.over(&Job::default()).seed);
        let job = given.over(&Job { what: What::Request, sql, operations, ..Job::default() });
        Ok(vec![Cell { label: TPCC.into(), steps: vec![Step { label: TPCC.into(), jobs: vec![job] }] }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            let Some(job) = steps(cell).first().and_then(|s| s.jobs.first()).map(|j| &j.job) else {
                continue;
            };
            let of = |figure: &dyn Fn(&KindResult) -> f64| {
                each(cell, TPCC, |j| j.kind("request").map_or(f64::NAN, figure)).collect::<Vec<_>>()
            };
            let median = |figure: &dyn Fn(&KindResult) -> f64| Rounds::default().median("", of(figure));
            let rate = rounds.median("transactions/s", of(&done));
            rows.push(vec![
                job.workers().to_string(),
                number(rate, 1),
                number(rate.map(|rate| rate * 60.0 * transactions::NEW_ORDERS), 0),
                number(median(&|k| k.latency().mean_ns / 1e6), 2),
                number(median(&|k| k.latencies().quantile(0.5) as f64 / 1e6), 2),
                number(median(&|k| k.latencies().quantile(0.99) as f64 / 1e6), 2),
                number(median(&|k| k.errors as f64), 0),
            ]);
        }
        let head =
            ["workers", "transactions/s", "new orders a minute", "mean ms", "p50 ms", "p99 ms", "failed"];
        let mut notes = vec![rounds.note("transactions/s")];
        notes.push(
            "New orders: 45 of 100 transactions. Derived from TPC-C; not comparable with its published results."
                .into(),
        );
        notes.extend(failures(cells));
        let head = head.map(String::from).to_vec();
        vec![Table { title: "Order entry, derived from TPC-C".into(), head, rows, notes }]
    }
}

/// Transactions a second that did not fail.
fn done(kind: &KindResult) -> f64 {
    kind.rate * kind.count.saturating_sub(kind.errors) as f64 / kind.count as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    fn to() -> Job {
        Job { to: "postgresql:///bench".into(), ..Job::default() }
    }

    #[test]
    fn a_worker_has_the_deck_of_the_seed() {
        let job = |job: Job, keys: &[&str]| {
            let cells = parse(&["tpcc"]).cells(&given(job, keys)).expect("cells");
            cells[0].steps[0].jobs[0].clone()
        };
        let first = job(to(), &["to"]);
        assert_eq!(
            (first.sql.len(), first.operations, first.to.as_str()),
            (100, Some(1000), "postgresql:///bench")
        );
        let other = job(Job { seed: 7, threads: 3, ..to() }, &["to", "seed", "threads"]);
        assert_eq!((other.seed, other.threads), (7, 3));
        assert_ne!(other.sql, first.sql);
        let timed = job(Job { time: Some(crate::job::Time(1)), ..to() }, &["to", "time"]);
        assert_eq!(timed.operations, None);
    }

    #[test]
    fn without_a_database_there_are_no_jobs() {
        let said = parse(&["tpcc"]).cells(&Given::default()).expect_err("no database").0;
        assert!(said.contains("--to postgresql://"), "{said}");
        let own = given(Job { sql: vec!["select 1".into()], ..to() }, &["to", "sql"]);
        assert!(parse(&["tpcc"]).cells(&own).is_err_and(|e| e.0.contains("--sql")));
        for (text, right) in [("1", true), ("10000", true), ("0", false), ("10001", false), ("a", false)] {
            assert_eq!(warehouses(text).is_ok(), right, "{text}");
        }
    }

    #[test]
    fn the_table_has_rate_latency_and_failures() {
        let preset = parse(&["tpcc"]);
        let cells = preset.cells(&given(to(), &["to"])).expect("cells");
        let job = &cells[0].steps[0].jobs[0];
        let round = || {
            let mut step = step(TPCC, job, 1_000_000_000, &[("request", &[2_000_000, 4_000_000])]);
            step.jobs[0].operations[0].errors = 1;
            vec![step]
        };
        let table = &preset.figures(&[cell(TPCC, vec![round(), round()])], None)[0];
        assert_eq!(table.rows[0][..4], ["1", "1.0", "27", "3.00"]);
        assert_eq!(table.rows[0][6], "1");
        assert!(table.notes.iter().any(|note| note.contains("not comparable")));
    }
}
