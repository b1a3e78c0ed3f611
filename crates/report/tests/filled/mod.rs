// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded traces as tables, and other people's readers of what is written.
#![allow(dead_code, reason = "not every test needs all of it")]

use plumb_analysis::Analysis;
use plumb_report::table::{read, Cell, Sink, Table, TABLES};
use plumb_trace::reader::Trace;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

pub const TRACES: &[&str] = &[
    "appenders",
    "cold-read",
    "cpu-quota",
    "direct-writes",
    "dirty-throttle",
    "epoll",
    "hogs",
    "interrupts",
    "io-limit",
    "join",
    "memory",
    "mutex",
    "pipe",
    "row-lock",
    "sleep",
    "tcp-peer",
    "unix-socket",
    "write-fsync",
];

/// Directory of a recorded trace.
pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name)
}

/// Fills a sink with the tables of a trace.
pub fn fill(dir: &Path, run: &str, sink: &mut dyn Sink) -> Analysis {
    let trace = Trace::open(dir).expect("a trace");
    read(run, &trace, &AtomicBool::new(false), sink).expect("readable")
}

/// A cell that is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    None,
    Integer(i64),
    Real(f64),
    Text(String),
}

#[derive(Default)]
pub struct Keep {
    pub rows: Vec<Vec<Vec<Kept>>>,
}

impl Keep {
    pub fn of(&self, table: &str) -> (&'static Table, &[Vec<Kept>]) {
        let table = plumb_report::table::find(table).expect("a table");
        (table, self.rows.get(table.place as usize).map_or(&[], Vec::as_slice))
    }

    /// Sum of a column of whole numbers, of the rows that are chosen by another column's text.
    pub fn sum(&self, table: &str, column: &str, only: Option<(&str, &str)>) -> i64 {
        let (table, rows) = self.of(table);
        let at = table.column(column).expect("a column");
        let chosen = |r: &&Vec<Kept>| {
            only.is_none_or(|(c, text)| r[table.column(c).expect("a column")] == Kept::Text(text.into()))
        };
        let value = |r: &Vec<Kept>| match r[at] {
            Kept::Integer(v) => v,
            _ => 0,
        };
        rows.iter().filter(chosen).map(value).sum()
    }
}

impl Sink for Keep {
    fn wants(&self, _: &'static Table) -> bool {
        true
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        assert_eq!(cells.len(), table.columns.len(), "{}", table.name);
        self.rows.resize(TABLES.len(), Vec::new());
        let keep = |(cell, column): (&Cell<'_>, &plumb_report::table::Column)| {
            use plumb_report::table::Kind;
            let (kind, kept) = match *cell {
                Cell::None => return Kept::None,
                Cell::Integer(v) => (Kind::Integer, Kept::Integer(v)),
                Cell::Real(v) => (Kind::Real, Kept::Real(v)),
                Cell::Text(v) => (Kind::Text, Kept::Text(v.into())),
            };
            assert_eq!(kind, column.kind, "{}.{}", table.name, column.name);
            kept
        };
        self.rows[table.place as usize].push(cells.iter().zip(table.columns).map(keep).collect());
    }
}

/// A Python that has these modules: `PLUMB_PYTHON`, the one that `scripts/deps.sh peers` makes, or the system's.
pub fn python(modules: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin/python");
    let named = std::env::var_os("PLUMB_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        let out = Command::new(python).args(["-c", &format!("import {modules}")]).output();
        out.is_ok_and(|o| o.status.success())
    };
    named.into_iter().chain([own, "python3".into()]).find(has)
}

/// Runs a program in Python; its standard output.
pub fn run_python(python: &Path, program: &str, arguments: &[&std::ffi::OsStr]) -> String {
    let out = Command::new(python).args(["-c", program]).args(arguments).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}
