// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the tables and their rows, in a database that has none of them.

use super::tables::{names, TABLES};
use crate::database::{self, Database, DatabaseError, Dialect};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows between two calls of the observer.
const APART: u64 = 1000;

/// What is being made: a table, its rows so far, and about how many it will have; 0 of what has no rows.
pub type Observer<'a> = dyn Fn(&str, u64, u64) + 'a;

/// What was made.
#[derive(Debug, Serialize)]
pub struct Filled {
    /// `postgresql` or `mariadb`.
    pub database: &'static str,
    pub scale: f64,
    pub rows: u64,
    /// From the connection to the end of the statistics, ns.
    pub time_ns: u64,
    /// What a user may want to know.
    pub notes: Vec<String>,
}

impl Output for Filled {
    const FORMAT: &'static Format = &formats::DBT3_FILL;
}

/// Why there are no tables, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("--to: cannot connect: {0}; check the URL, and that the server is up")]
    Connect(DatabaseError),
    #[error("cannot fill the database: {0} is there already; use an empty database, or drop what an earlier dbt3-fill made: drop table if exists {all}", all = names(""))]
    Exists(String),
    #[error("cannot fill the database: {said}; {left}")]
    Failed { said: String, left: String },
}

/// What an end before the time leaves.
fn left(dialect: Dialect, made: &[&str], committed: bool) -> String {
    match (dialect, made) {
        _ if committed => "the tables are whole, and not analyzed: analyze them".into(),
        (Dialect::Postgresql, _) => "its transaction was rolled back: no table was made".into(),
        (Dialect::Mariadb, []) => "no table was made".into(),
        (Dialect::Mariadb, made) => {
            format!("the tables are incomplete; drop them: drop table if exists {}", made.join(", "))
        }
    }
}

/// Makes tables, rows, keys and indexes, and has them analyzed.
///
/// # Errors
/// One of the tables is there, `stop` was set, or the database said no.
pub fn fill(url: &str, scale: f64, stop: &AtomicBool, observer: &Observer<'_>) -> Result<Filled, FillError> {
    let dialect = Dialect::of(url).unwrap_or(Dialect::Postgresql);
    let begun = Instant::now();
    let mut database = database::connect(url).map_err(FillError::Connect)?;
    let database = database.as_mut();
    let failed = |e: DatabaseError, made: &[&str], committed: bool| FillError::Failed {
        said: e.0,
        left: left(dialect, made, committed),
    };
    let mut made = Vec::new();
    if let Some(table) = one_that_exists(database, dialect).map_err(|e| failed(e, &[], false))? {
        return Err(FillError::Exists(table));
    }
    if dialect == Dialect::Postgresql {
        run(database, "begin").map_err(|e| failed(e, &[], false))?;
    }
    let rows =
        tables(database, dialect, scale, &mut made, stop, observer).map_err(|e| failed(e, &made, false))?;
    if dialect == Dialect::Postgresql {
        run(database, "commit").map_err(|e| failed(e, &made, false))?;
    }
    observer("statistics", 0, 0);
    let notes = analyze(database, dialect).map_err(|e| failed(e, &made, true))?;
    let time_ns = begun.elapsed().as_nanos() as u64;
    Ok(Filled { database: dialect.word(), scale, rows, time_ns, notes })
}

fn run(database: &mut dyn Database, sql: &str) -> Result<(), DatabaseError> {
    database.run(&database::text(sql)?, &mut |_| ())
}

/// The first of our tables that is there already.
fn one_that_exists(database: &mut dyn Database, dialect: Dialect) -> Result<Option<String>, DatabaseError> {
    let schema = match dialect {
        Dialect::Postgresql => "current_schema()",
        Dialect::Mariadb => "database()",
    };
    let mut found = None;
    let sql = format!(
        "select table_name from information_schema.tables where table_schema = {schema} and table_name in ({}) \
         order by table_name",
        names("'")
    );
    database.run(&database::text(&sql)?, &mut |row| {
        let name = row.first().copied().flatten().unwrap_or_default();
        found.get_or_insert(String::from_utf8_lossy(name).into_owned());
    })?;
    Ok(found)
}

/// Makes them with all rows and indexes; returns the rows.
fn tables(
    database: &mut dyn Database,
    dialect: Dialect,
    scale: f64,
    made: &mut Vec<&'static str>,
    stop: &AtomicBool,
    observer: &Observer<'_>,
) -> Result<u64, DatabaseError> {
    let stopped = || match stop.load(Ordering::Acquire) {
        true => Err(DatabaseError("stopped by a signal".into())),
        false => Ok(()),
    };
    let mut all = 0;
    for table in TABLES {
        stopped()?;
        run(database, &table.create(dialect))?;
        made.push(table.name);
        let (mut next, mut rows, expected) = (table.lines(scale), 0, table.expected(scale));
        observer(table.name, 0, expected);
        database.load(table.name, &mut |out| {
            let more = !stop.load(Ordering::Acquire) && next(out);
            rows += u64::from(more);
            if more && rows % APART == 0 {
                observer(table.name, rows, expected);
            }
            more
        })?;
        all += rows;
    }
    for table in TABLES {
        stopped()?;
        if let Some(sql) = table.index(dialect) {
            observer(&format!("indexes of {}", table.name), 0, 0);
            run(database, &sql)?;
        }
    }
    stopped()?;
    Ok(all)
}

fn analyze(database: &mut dyn Database, dialect: Dialect) -> Result<Vec<String>, DatabaseError> {
    match dialect {
        Dialect::Mariadb => run(database, &format!("analyze table {}", names("")))?,
        Dialect::Postgresql => {
            run(database, &format!("vacuum (analyze) {}", names("")))?;
            // So that the load does not meet the write-back of what was loaded. A member of pg_checkpoint may.
            if let Err(e) = run(database, "checkpoint") {
                return Ok(vec![format!("no checkpoint was made ({e}); one will come on its own")]);
            }
        }
    }
    Ok(Vec::new())
}
