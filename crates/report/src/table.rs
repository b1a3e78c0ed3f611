// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run's tables: what SQL, CSV and Parquet see of it. Each table and column is defined once,
//! with its words; docs/tables.md is made of the definitions.
//!
//! Every table begins with a column `run`. Times are ns, moments ns from the run's begin.

mod account;
mod context;
mod disks;
mod docs;
mod locks;
mod read;
mod results;
mod spans;
mod stacks;
mod streamed;
mod windows;
mod words;
mod workloads;

pub(crate) use account::filled;
pub use context::Context;
pub use docs::markdown;
pub use read::read;
pub use results::{Identity, RUNS};
pub use streamed::Filler;
pub use windows::windows;
pub use words::{absent, load};

use plumb_model::Category;

/// Rises when a column goes or changes its type or meaning. New columns leave it: readers of older files have null there.
pub const SCHEMA: u32 = 1;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// There is none, or it is not known.
    None,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

impl From<i64> for Cell<'_> {
    fn from(v: i64) -> Self {
        Self::Integer(v)
    }
}

impl From<u64> for Cell<'_> {
    /// The kernel says "none" with its largest numbers (a flush's sector), and no reader has an
    /// unsigned type: what is above `i64::MAX` is none.
    fn from(v: u64) -> Self {
        i64::try_from(v).map_or(Self::None, Self::Integer)
    }
}

impl From<u32> for Cell<'_> {
    fn from(v: u32) -> Self {
        Self::Integer(v.into())
    }
}

impl From<bool> for Cell<'_> {
    fn from(v: bool) -> Self {
        Self::Integer(v.into())
    }
}

impl From<f64> for Cell<'_> {
    /// What is no number is none.
    fn from(v: f64) -> Self {
        if v.is_finite() {
            Self::Real(v)
        } else {
            Self::None
        }
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(v: &'a str) -> Self {
        Self::Text(v)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(v: &'a String) -> Self {
        Self::Text(v)
    }
}

impl From<&Category> for Cell<'_> {
    fn from(v: &Category) -> Self {
        Self::Text(v.name())
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(v: Option<T>) -> Self {
        v.map_or(Self::None, Into::into)
    }
}

/// What a column's cells are, where they are not none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Cell::Integer`].
    Integer,
    /// [`Cell::Real`].
    Real,
    /// [`Cell::Text`].
    Text,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name; the unit is its end: `_ns`, `_us`, `bytes`.
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
}

/// What must have been recorded for a table to have rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing: every trace has it.
    Trace,
    /// Switches and wakeups: the account of time.
    Account,
    Block,
    Syscalls,
    /// Contentions of locks, or futexes.
    Locks,
    /// The sampling clock.
    Samples,
    /// Samples or stacks of waits.
    Profile,
    /// What workloads tell of their operations.
    Operations,
    /// `load.json`.
    Load,
    /// Windows of a watch.
    Windows,
}

#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// Place in [`TABLES`].
    pub place: Place,
    pub about: &'static str,
    /// What its rows come from.
    pub part: Part,
    /// Columns; the first is `run`.
    pub columns: &'static [Column],
}

impl Table {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The table as SQL defines it, its words in comments.
    pub fn sql(&self) -> String {
        let width = self.columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let mut out = format!("-- {}\nCREATE TABLE {} (\n", self.about, self.name);
        for (i, c) in self.columns.iter().enumerate() {
            let comma = if i + 1 < self.columns.len() { "," } else { "" };
            out +=
                &format!("    {:width$} {:8} -- {}\n", c.name, format!("{}{comma}", c.kind.name()), c.about);
        }
        out + ");\n"
    }
}

/// Takes rows. What goes wrong is kept until the end: the model that makes the rows cannot be stopped.
pub trait Sink {
    /// Whether rows of this table are asked for; others need not be made.
    fn wants(&self, table: &'static Table) -> bool;
    /// A row: as many cells as the table has columns.
    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]);
}

/// Several sinks that take the rows of one pass.
pub struct Several<'a>(pub Vec<&'a mut dyn Sink>);

impl Sink for Several<'_> {
    fn wants(&self, table: &'static Table) -> bool {
        self.0.iter().any(|s| s.wants(table))
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        for sink in &mut self.0 {
            if sink.wants(table) {
                sink.row(table, cells);
            }
        }
    }
}

/// The column that every table begins with.
pub(crate) const RUN: Column =
    Column { name: "run", kind: Kind::Text, about: "Directory of the run, as it was given" };

/// Defines a table and the function that hands a row of it to a sink.
///
/// `table!(STATIC, Place, Part, "name", "about", function(row: Type, context) { column: Kind = value, "words"; })`
macro_rules! table {
    ($table:ident, $place:ident, $part:ident, $name:literal, $about:literal,
     $function:ident($row:ident: $type:ty, $context:ident) {
        $($column:ident: $kind:ident = $value:expr, $words:literal;)*
    }) => {
        #[doc = $about]
        pub static $table: $crate::table::Table = $crate::table::Table {
            name: $name,
            place: $crate::table::Place::$place,
            about: $about,
            part: $crate::table::Part::$part,
            columns: &[
                $crate::table::RUN,
                $($crate::table::Column {
                    name: stringify!($column),
                    kind: $crate::table::Kind::$kind,
                    about: $words,
                },)*
            ],
        };

        #[allow(unused_variables, reason = "not every table needs the context")]
        pub(super) fn $function<S: $crate::table::Sink + ?Sized>(
            sink: &mut S,
            $context: &$crate::table::Context,
            $row: $type,
        ) {
            sink.row(
                &$table,
                &[$crate::table::Cell::from($context.run.as_str()), $($crate::table::Cell::from($value),)*],
            );
        }
    };
}
pub(crate) use table;

/// Names every table once, in the order of the manual.
macro_rules! tables {
    ($($place:ident $path:path;)*) => {
        /// Where a table stands in [`TABLES`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Place {
            $(#[doc = stringify!($path)] $place,)*
        }

        pub static TABLES: &[&Table] = &[$(&$path,)*];
    };
}

tables! {
    Runs results::RUNS;
    Run results::RUN_TABLE;
    Processes account::PROCESSES;
    Threads account::THREADS;
    Account account::ACCOUNT;
    ThreadAccount account::THREAD_ACCOUNT;
    Blame account::BLAME;
    Path account::PATH;
    Steps account::STEPS;
    Longest account::LONGEST;
    Categories account::CATEGORY_TABLE;
    Verdict results::VERDICT;
    Findings results::FINDINGS;
    Services results::SERVICES;
    Evidence results::EVIDENCE;
    Intervals streamed::INTERVALS;
    CpuIntervals streamed::CPU_INTERVALS;
    Waits streamed::WAITS;
    Stacks stacks::STACKS;
    Requests streamed::REQUESTS;
    Devices disks::DEVICES;
    Patterns disks::PATTERNS;
    SyncedFiles disks::SYNCED_FILES;
    Samples streamed::SAMPLES;
    Profile results::PROFILE;
    Hot results::HOT;
    Functions results::FUNCTIONS;
    Syscalls account::SYSCALLS;
    SyscallAccount account::SYSCALL_ACCOUNT;
    Locks locks::LOCKS;
    LockHolders locks::LOCK_HOLDERS;
    Handoffs locks::HANDOFFS;
    Operations streamed::OPERATIONS;
    OperationKinds workloads::OPERATION_KINDS;
    OperationAccount workloads::OPERATION_ACCOUNT;
    Spans spans::SPANS;
    SpanCauses spans::SPAN_CAUSES;
    SlowSpans spans::SLOW_SPANS;
    WaitEvents spans::WAIT_EVENTS;
    WaitEventEnders spans::WAIT_EVENT_ENDERS;
    Loads workloads::LOADS;
    LoadSeconds workloads::LOAD_SECONDS;
    Windows windows::WINDOWS;
    WindowServices windows::WINDOW_SERVICES;
    WindowDevices windows::WINDOW_DEVICES;
    Cpus results::CPUS;
    Others results::OTHERS;
    Unexplained results::UNEXPLAINED;
    Counters results::COUNTERS;
}

/// A table by its name.
pub fn find(name: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|t| t.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tables_stand_where_they_say() {
        for (i, table) in TABLES.iter().enumerate() {
            assert_eq!(table.place as usize, i, "{}", table.name);
        }
        let names: HashSet<&str> = TABLES.iter().map(|t| t.name).collect();
        assert_eq!(names.len(), TABLES.len());
    }

    #[test]
    fn columns_have_names_of_their_own_and_words() {
        for table in TABLES {
            let names: HashSet<&str> = table.columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            for column in table.columns {
                assert!(
                    !column.about.is_empty()
                        && (!column.about.ends_with('.') || column.about.ends_with(" ...")),
                    "{}.{}",
                    table.name,
                    column.name
                );
                assert!(column
                    .name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()));
            }
        }
    }

    #[test]
    fn what_is_too_large_for_every_reader_is_none() {
        assert_eq!(Cell::from(u64::MAX), Cell::None);
        assert_eq!(Cell::from(i64::MAX as u64), Cell::Integer(i64::MAX));
        assert_eq!(Cell::from(f64::NAN), Cell::None);
        assert_eq!(Cell::from(Some(3u32)), Cell::Integer(3));
    }
}
