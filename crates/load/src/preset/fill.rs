// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a preset's tables and their rows, in a database that has none of them.

use crate::database::{self, Database, DatabaseError, Dialect, Lines};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows between two calls of the observer.
const APART: u64 = 1000;

/// What is being made: a table, its rows so far, and about how many it will have; 0 of what has no rows.
pub type Observer<'a> = dyn Fn(&str, u64, u64) + 'a;

/// A table of a preset; `Size` is what its rows depend on.
pub(super) trait Fill<Size: Copy> {
    fn name(&self) -> &'static str;

    /// The statement that makes it.
    fn create(&self, dialect: Dialect) -> String;

    /// Rows, about.
    fn expected(&self, size: Size) -> u64;

    /// Appends a row to the buffer each time that it is called, until it is false.
    fn lines(&self, size: Size) -> Box<Lines<'static>>;

    /// Statements for what is made when the rows are there.
    fn indexes(&self, dialect: Dialect) -> Vec<String>;
}

/// What to make.
pub(super) struct Set<'a, Table, Size> {
    /// The command that makes it.
    pub command: &'static str,
    pub tables: &'a [Table],
    pub size: Size,
    /// Statements for what comes after the indexes.
    pub after: Option<String>,
}

/// What was made.
#[derive(Debug)]
pub struct Filled {
    /// `postgresql` or `mariadb`.
    pub database: &'static str,
    pub tables: usize,
    pub rows: u64,
    /// From the connection to the end of the statistics, ns.
    pub time_ns: u64,
    /// What a user may want to know.
    pub notes: Vec<String>,
}

/// Why there are no tables, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("--to: cannot connect: {0}; check the URL, and that the server is up")]
    Connect(DatabaseError),
    #[error("cannot fill the database: {table} is there already; use an empty database; if an earlier {command} made it: drop table if exists {all}")]
    Exists { table: String, command: &'static str, all: String },
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

/// Names of tables in quotes, with commas between.
pub(super) fn names<Table: Fill<Size>, Size: Copy>(tables: &[Table], quote: &str) -> String {
    tables.iter().map(|table| format!("{quote}{}{quote}", table.name())).collect::<Vec<_>>().join(", ")
}

/// Makes tables, rows, keys and indexes, and has them analyzed.
///
/// # Errors
/// One of the tables is there, `stop` was set, or the database said no.
pub(super) fn fill<Table: Fill<Size>, Size: Copy>(
    url: &str,
    set: &Set<'_, Table, Size>,
    stop: &AtomicBool,
    observer: &Observer<'_>,
) -> Result<Filled, FillError> {
    let dialect = Dialect::of(url).unwrap_or(Dialect::Postgresql);
    let begun = Instant::now();
    let mut database = database::connect(url).map_err(FillError::Connect)?;
    let database = database.as_mut();
    let failed = |e: DatabaseError, made: &[&str], committed: bool| FillError::Failed {
        said: e.0,
        left: left(dialect, made, committed),
    };
    let mut made = Vec::new();
    let there = one_that_exists(database, dialect, &names(set.tables, "'"));
    if let Some(table) = there.map_err(|e| failed(e, &[], false))? {
        return Err(FillError::Exists { table, command: set.command, all: names(set.tables, "") });
    }
    if dialect == Dialect::Postgresql {
        run(database, "begin").map_err(|e| failed(e, &[], false))?;
    }
    let rows =
        tables(database, dialect, set, &mut made, stop, observer).map_err(|e| failed(e, &made, false))?;
    if dialect == Dialect::Postgresql {
        run(database, "commit").map_err(|e| failed(e, &made, false))?;
    }
    observer("statistics", 0, 0);
    let notes = analyze(database, dialect, &names(set.tables, "")).map_err(|e| failed(e, &made, true))?;
    let time_ns = begun.elapsed().as_nanos() as u64;
    Ok(Filled { database: dialect.word(), tables: set.tables.len(), rows, time_ns, notes })
}

fn run(database: &mut dyn Database, sql: &str) -> Result<(), DatabaseError> {
    database.run(&database::text(sql)?, &mut |_| ())
}

/// The first of these tables, names in quotes, that is there already.
fn one_that_exists(
    database: &mut dyn Database,
    dialect: Dialect,
    names: &str,
) -> Result<Option<String>, DatabaseError> {
    let schema = match dialect {
        Dialect::Postgresql => "current_schema()",
        Dialect::Mariadb => "database()",
    };
    let mut found = None;
    let sql = format!(
        "select table_name from information_schema.tables where table_schema = {schema} and table_name in ({names}) \
         order by table_name"
    );
    database.run(&database::text(&sql)?, &mut |row| {
        let name = row.first().copied().flatten().unwrap_or_default();
        found.get_or_insert(String::from_utf8_lossy(name).into_owned());
    })?;
    Ok(found)
}

/// Makes them with all rows, indexes and what comes after; returns the rows.
fn tables<Table: Fill<Size>, Size: Copy>(
    database: &mut dyn Database,
    dialect: Dialect,
    set: &Set<'_, Table, Size>,
    made: &mut Vec<&'static str>,
    stop: &AtomicBool,
    observer: &Observer<'_>,
) -> Result<u64, DatabaseError> {
    let stopped = || match stop.load(Ordering::Acquire) {
        true => Err(DatabaseError("stopped by a signal".into())),
        false => Ok(()),
    };
    let mut all = 0;
    for table in set.tables {
        stopped()?;
        let name = table.name();
        run(database, &table.create(dialect))?;
        made.push(name);
        let (mut next, mut rows, expected) = (table.lines(set.size), 0, table.expected(set.size));
        observer(name, 0, expected);
        database.load(name, &mut |out| {
            let more = !stop.load(Ordering::Acquire) && next(out);
            rows += u64::from(more);
            if more && rows % APART == 0 {
                observer(name, rows, expected);
            }
            more
        })?;
        all += rows;
    }
    for table in set.tables {
        for sql in table.indexes(dialect) {
            stopped()?;
            observer(&format!("indexes of {}", table.name()), 0, 0);
            run(database, &sql)?;
        }
    }
    stopped()?;
    if let Some(sql) = &set.after {
        run(database, sql)?;
    }
    Ok(all)
}

fn analyze(database: &mut dyn Database, dialect: Dialect, names: &str) -> Result<Vec<String>, DatabaseError> {
    match dialect {
        Dialect::Mariadb => run(database, &format!("analyze table {names}"))?,
        Dialect::Postgresql => {
            run(database, &format!("vacuum (analyze) {names}"))?;
            // So that the load does not meet the write-back of what was loaded. A member of pg_checkpoint may.
            if let Err(e) = run(database, "checkpoint") {
                return Ok(vec![format!("no checkpoint was made ({e}); one will come on its own")]);
            }
        }
    }
    Ok(Vec::new())
}
