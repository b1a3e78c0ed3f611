// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SQL over runs' tables, by SQLite. Only the tables and columns that a statement uses are loaded;
//! above [`MEMORY`] they lie in a temporary file that goes when the query does.

mod error;
mod examples;
mod functions;
mod runs;
mod show;
mod standard;

pub use error::Wrong;
pub use examples::EXAMPLES;
pub use functions::ABOUT as FUNCTIONS;
pub use runs::{runs, RunDir};
pub use show::{Format, Rows};

use crate::table::{find, Cell, Sink, Table, TABLES};
use anyhow::{anyhow, Context as _, Result};
use plumb_diagnose::Limit;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Bytes of tables above which SQLite puts them into a file (in `SQLITE_TMPDIR`, `TMPDIR`, /var/tmp or /tmp).
pub const MEMORY: u64 = 512 << 20;

/// Tables that a statement uses, by place, and of each the places of its columns, ascending.
pub type Uses = BTreeMap<usize, Vec<usize>>;

/// What a statement does, as SQLite told while it prepared it.
#[derive(Debug, Default)]
struct Heard {
    uses: Uses,
    /// What was refused, in words.
    refused: Option<String>,
}

/// A statement, before and while its tables are filled.
#[derive(Debug)]
pub struct Query {
    sql: String,
    uses: Uses,
    connection: Connection,
}

/// Lets reading pass and keeps what is read.
fn listen(heard: &Arc<Mutex<Heard>>) -> impl FnMut(AuthContext<'_>) -> Authorization + Send + 'static {
    let heard = Arc::clone(heard);
    move |context| {
        let Ok(mut heard) = heard.lock() else { return Authorization::Deny };
        let refused = match context.action {
            AuthAction::Select | AuthAction::Recursive | AuthAction::Function { .. } => None,
            AuthAction::Read { table_name, column_name } => {
                if let Some(table) = find(table_name) {
                    let columns = heard.uses.entry(table.place as usize).or_default();
                    if let Some(at) = table.column(column_name) {
                        if let Err(place) = columns.binary_search(&at) {
                            columns.insert(place, at);
                        }
                    }
                }
                None
            }
            AuthAction::Insert { table_name } => Some(format!("insert into {table_name}")),
            AuthAction::Update { table_name, .. } => Some(format!("update {table_name}")),
            AuthAction::Delete { table_name } => Some(format!("delete from {table_name}")),
            AuthAction::DropTable { table_name } => Some(format!("drop {table_name}")),
            AuthAction::CreateTable { table_name } | AuthAction::CreateTempTable { table_name } => {
                Some(format!("create {table_name}"))
            }
            AuthAction::Attach { filename } => Some(format!("attach {filename}")),
            AuthAction::Pragma { pragma_name, .. } => Some(format!("pragma {pragma_name}")),
            _ => Some("change the database".into()),
        };
        match refused {
            None => Authorization::Allow,
            Some(what) => {
                // SQLite asks for its own bookkeeping first, and does not ask on where that is refused:
                // the table's name would not be told. The statement is only prepared, not run.
                let bookkeeping = |words: &str| words.contains("sqlite_");
                if heard.refused.as_deref().is_none_or(bookkeeping) {
                    heard.refused = Some(what.clone());
                }
                if bookkeeping(&what) {
                    Authorization::Allow
                } else {
                    Authorization::Deny
                }
            }
        }
    }
}

impl Query {
    /// Finds out what a statement uses. `memory`: see [`MEMORY`].
    ///
    /// # Errors
    /// It is no statement that reads, or names what is not there: [`Wrong`] shows the place.
    pub fn new(sql: &str, memory: u64) -> Result<Self> {
        let sql = &*standard::for_sqlite(sql);
        let uses = Self::learn(sql)?;
        // A database without a name lies in memory as long as its cache holds it, then in a file.
        let connection = Connection::open("").context("a temporary database")?;
        let kib = (memory >> 10).max(64);
        connection
            .execute_batch(&format!(
                "PRAGMA cache_size=-{kib}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
            ))
            .context("a temporary database")?;
        functions::add(&connection).context("functions for SQL")?;
        for (table, columns) in &uses {
            connection.execute_batch(&create(TABLES[*table], columns)).context("a temporary database")?;
        }
        Ok(Self { sql: sql.into(), uses, connection })
    }

    /// Prepares it among tables that are empty.
    fn learn(sql: &str) -> Result<Uses> {
        let mut empty = Connection::open_in_memory().context("a database in memory")?;
        functions::add(&empty).context("functions for SQL")?;
        for table in TABLES {
            let all: Vec<usize> = (0..table.columns.len()).collect();
            empty.execute_batch(&create(table, &all)).context("a database in memory")?;
        }
        let heard = Arc::new(Mutex::new(Heard::default()));
        empty.authorizer(Some(listen(&heard))).context("a database in memory")?;
        let prepared = empty.prepare(sql).map(|s| (s.readonly(), s.column_count()));
        let mut heard = heard.lock().map_err(|_| anyhow!("the statement could not be looked at"))?;
        if let Some(what) = heard.refused.take() {
            return Err(Wrong::refused(&what).into());
        }
        let (reads, columns) = prepared.map_err(|e| Wrong::of(sql, e))?;
        if !reads || columns == 0 {
            return Err(Wrong::no_query().into());
        }
        if joins_by_name(sql) {
            // What columns two tables have in common decides, and SQLite tells nothing of these.
            for table in TABLES.iter().filter(|t| words(sql).any(|w| w.eq_ignore_ascii_case(t.name))) {
                heard.uses.insert(table.place as usize, (0..table.columns.len()).collect());
            }
        }
        for columns in heard.uses.values_mut().filter(|c| c.is_empty()) {
            // count(*): rows, no column.
            columns.push(0);
        }
        Ok(std::mem::take(&mut heard.uses))
    }

    /// Tables and columns that it uses.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The tables that it uses.
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> + '_ {
        self.uses.keys().map(|place| TABLES[*place])
    }

    /// Hints on texts of the statement that match no row, because they are former names of a verdict's kind.
    pub fn hints(&self) -> Vec<String> {
        let verdict = find("verdict").map(|t| (t.place as usize, t.column("kind")));
        let uses_kind = verdict.is_some_and(|(place, kind)| {
            self.uses.get(&place).is_some_and(|columns| kind.is_some_and(|k| columns.contains(&k)))
        });
        if !uses_kind {
            return Vec::new();
        }
        let former = Limit::FORMER_NAMES.iter().filter(|(old, _)| self.sql.contains(&format!("'{old}'")));
        former.map(|(old, limit)| format!("kind '{old}' is now '{}'", limit.name())).collect()
    }

    /// Takes the rows of one run, or of several; [`Loader::finish`] tells whether that went well.
    ///
    /// # Errors
    /// The temporary database cannot be written.
    pub fn loader(&self) -> Result<Loader<'_>> {
        self.connection.execute_batch("BEGIN").context("a temporary database")?;
        let mut inserts = Vec::new();
        inserts.resize_with(TABLES.len(), || None);
        for (table, columns) in &self.uses {
            let marks = vec!["?"; columns.len()].join(",");
            let sql = format!("INSERT INTO {} VALUES ({marks})", TABLES[*table].name);
            let statement = self.connection.prepare(&sql).context("a temporary database")?;
            inserts[*table] = Some((statement, columns.as_slice()));
        }
        Ok(Loader { query: self, inserts, rows: BTreeMap::new(), failed: None })
    }

    /// Runs it and hands each row on.
    ///
    /// # Errors
    /// The statement's while it runs.
    pub fn each(&self, row: &mut dyn FnMut(&[Cell<'_>])) -> Result<()> {
        let wrong = |e| Wrong::of(&self.sql, e);
        let mut statement = self.connection.prepare(&self.sql).map_err(wrong)?;
        let columns = statement.column_count();
        let mut rows = statement.raw_query();
        while let Some(found) = rows.next().map_err(wrong)? {
            let cell = |at| match found.get_ref_unwrap(at) {
                ValueRef::Integer(v) => Cell::Integer(v),
                ValueRef::Real(v) => Cell::Real(v),
                ValueRef::Text(v) => std::str::from_utf8(v).map_or(Cell::None, Cell::Text),
                ValueRef::Null | ValueRef::Blob(_) => Cell::None,
            };
            row(&(0..columns).map(cell).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Runs it and writes what it finds; the rows that it found.
    ///
    /// # Errors
    /// The statement's while it runs, or the writer's.
    pub fn run(&self, format: Format, out: &mut dyn Write) -> Result<u64> {
        let mut statement = self.connection.prepare(&self.sql).map_err(|e| Wrong::of(&self.sql, e))?;
        show::write(&mut statement, &self.sql, format, out)
    }
}

/// Words of a statement; those in texts and comments among them.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// Whether it may join tables by the names of their columns.
fn joins_by_name(sql: &str) -> bool {
    words(sql).any(|w| w.eq_ignore_ascii_case("natural") || w.eq_ignore_ascii_case("using"))
}

fn create(table: &Table, columns: &[usize]) -> String {
    let column = |at: &usize| format!("{} {}", table.columns[*at].name, table.columns[*at].kind.name());
    let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    format!("CREATE TABLE {} ({columns})", table.name)
}

/// Takes rows into the tables of a query.
pub struct Loader<'q> {
    query: &'q Query,
    inserts: Vec<Option<(Statement<'q>, &'q [usize])>>,
    rows: BTreeMap<&'static str, u64>,
    failed: Option<rusqlite::Error>,
}

impl Loader<'_> {
    /// Rows that each table has got so far.
    pub fn rows(&self, table: &Table) -> u64 {
        self.rows.get(table.name).copied().unwrap_or(0)
    }

    /// Everything is there.
    ///
    /// # Errors
    /// A row could not be kept: the disk with temporary files is full.
    pub fn finish(self) -> Result<()> {
        let advice = "rows could not be kept; TMPDIR names a directory with room for them";
        if let Some(error) = self.failed {
            return Err(error).context(advice);
        }
        drop(self.inserts);
        self.query.connection.execute_batch("COMMIT").context(advice)
    }

    fn insert(&mut self, table: &'static Table, cells: &[Cell<'_>]) -> rusqlite::Result<()> {
        let Some((statement, columns)) = &mut self.inserts[table.place as usize] else { return Ok(()) };
        for (i, column) in columns.iter().enumerate() {
            match cells.get(*column).copied().unwrap_or(Cell::None) {
                Cell::None => statement.raw_bind_parameter(i + 1, rusqlite::types::Null)?,
                Cell::Integer(v) => statement.raw_bind_parameter(i + 1, v)?,
                Cell::Real(v) => statement.raw_bind_parameter(i + 1, v)?,
                Cell::Text(v) => statement.raw_bind_parameter(i + 1, v)?,
            }
        }
        statement.raw_execute()?;
        *self.rows.entry(table.name).or_default() += 1;
        Ok(())
    }
}

impl Sink for Loader<'_> {
    fn wants(&self, table: &'static Table) -> bool {
        self.failed.is_none() && self.inserts[table.place as usize].is_some()
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        if self.failed.is_none() {
            self.failed = self.insert(table, cells).err();
        }
    }
}

#[cfg(test)]
mod tests;
