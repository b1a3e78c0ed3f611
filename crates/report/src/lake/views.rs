// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes the tables of a lake known to an engine by their names.

use super::compact::{below, files};
use super::KEYS;
use crate::table::{Column, Kind, Table, TABLES};
use anyhow::{bail, Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Columns that the paths of the files have.
const PARTITIONS: [Column; 2] = [
    Column { name: "host", kind: Kind::Text, about: "Name of the machine" },
    Column { name: "day", kind: Kind::Text, about: "When the run began, UTC" },
];

/// Whose SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Duckdb,
    Clickhouse,
    Spark,
}

/// Where the files of a lake are.
pub enum Place<'a> {
    /// Absolute path.
    Directory(&'a str),
    /// `s3://BUCKET/PREFIX`, and the same as an address of HTTP.
    Bucket { url: &'a str, http: &'a str },
}

impl Place<'_> {
    fn name(&self) -> &str {
        let (Self::Directory(name) | Self::Bucket { url: name, .. }) = self;
        name
    }
}

/// Writes a view of each table of a directory in an engine's SQL.
///
/// # Errors
/// It is no lake, or cannot be read.
pub fn of_directory(lake: &Path, engine: Engine, out: &mut dyn Write) -> Result<()> {
    let root = lake.canonicalize().with_context(|| lake.display().to_string())?;
    super::is_lake(lake)?;
    // A directory stays when its last file has gone.
    let some = |host: &PathBuf| {
        let days = below(host, "day=").unwrap_or_default();
        days.iter().any(|day| files(day).is_ok_and(|files| !files.is_empty()))
    };
    let has = |table: &str| below(&root.join(table), "host=").is_ok_and(|hosts| hosts.iter().any(some));
    write(engine, &Place::Directory(&root.to_string_lossy()), &has, out)
}

/// Writes a view of each table in an engine's SQL. A view has all columns that its table has today, null where a file lacks
/// one; it is empty where the lake has no file of the table.
///
/// # Errors
/// The lake's name cannot stand in a statement.
pub fn write(
    engine: Engine,
    place: &Place<'_>,
    has: &dyn Fn(&str) -> bool,
    out: &mut dyn Write,
) -> Result<()> {
    let name = place.name();
    // In a pattern of names that stands in a text of SQL.
    if name.chars().any(|c| {
        c.is_control() || matches!(c, '\'' | '\\' | '*' | '?' | '[' | '{' | char::REPLACEMENT_CHARACTER)
    }) {
        bail!("{name}: its name has characters that SQL or a pattern cannot have; give it another");
    }
    writeln!(
        out,
        "-- The tables of {name}; plumb lake views makes this. Columns: plumb query --schema TABLE."
    )?;
    match engine {
        // As SQLite and Spark have it, so that a statement gives its rows in the same order.
        Engine::Duckdb => writeln!(out, "set default_null_order = 'nulls_first_on_asc_last_on_desc';")?,
        // A row without a partner has nulls, as elsewhere.
        Engine::Clickhouse => writeln!(out, "-- In every session that asks:\nset join_use_nulls = 1;")?,
        Engine::Spark => {}
    }
    for table in TABLES {
        let statement = match engine {
            Engine::Duckdb => duckdb(table, place, has(table.name)),
            Engine::Clickhouse => clickhouse(table, place, has(table.name)),
            Engine::Spark => spark(table, place, has(table.name)),
        };
        writeln!(out, "{statement};")?;
    }
    Ok(())
}

fn duckdb(table: &'static Table, place: &Place<'_>, there: bool) -> String {
    let name = table.name;
    let mut out = format!("create or replace view {name} as\n  {}", nothing(table, duckdb_type, '"'));
    if there {
        out += &format!(
            "\n  union all by name\n  select * from read_parquet('{}/{name}/*/*/*.parquet', union_by_name = true,\n         \
             hive_partitioning = true, hive_types_autocast = false)",
            place.name()
        );
    }
    out
}

/// Columns of the path are cut out of its end: whether a server makes them itself, and refuses those that a file has too, depends on
/// its version.
fn clickhouse(table: &'static Table, place: &Place<'_>, there: bool) -> String {
    let in_path = |c: &Column| PARTITIONS.iter().any(|p| p.name == c.name) && table.column(c.name).is_none();
    let own: Vec<_> = columns(table)
        .filter(|c| !in_path(c))
        .map(|c| format!("`{}` Nullable({})", c.name, clickhouse_type(c.kind)))
        .collect();
    let own = own.join(", ");
    let (name, mut cut) = (table.name, String::new());
    for column in PARTITIONS.iter().filter(|c| in_path(c)) {
        let behind = if column.name == "host" { "day=[^/]*/[^/]*" } else { "[^/]*" };
        let path = if there { "_path" } else { "''" };
        cut += &format!(
            ",\n         decodeURLComponent(extract({path}, '/{0}=([^/]*)/{behind}$')) as `{0}`",
            column.name
        );
    }
    let from = match place {
        _ if !there => format!("null('{own}')"),
        Place::Directory(path) => format!("file('{path}/{name}/*/*/*.parquet', Parquet,\n       '{own}')"),
        Place::Bucket { http, .. } => {
            let http = http.replace('%', "%25").replace(' ', "%20").replace('#', "%23");
            format!("s3('{http}{name}/*/*/*.parquet', Parquet,\n       '{own}')")
        }
    };
    format!("create or replace view {name} as\n  select *{cut}\n  from {from}\n  settings use_hive_partitioning = 0")
}

fn spark(table: &'static Table, place: &Place<'_>, there: bool) -> String {
    let name = table.name;
    if !there {
        return format!("create or replace temporary view {name} as\n  {}", nothing(table, spark_type, '`'));
    }
    let columns: Vec<_> = columns(table).map(|c| format!("`{}` {}", c.name, spark_type(c.kind))).collect();
    let path = match place {
        // A cluster may have another file system by default.
        Place::Directory(path) => format!("file://{path}"),
        // Hadoop's name for who reads them.
        Place::Bucket { url, .. } => url.replacen("s3://", "s3a://", 1),
    };
    format!(
        "create or replace temporary view {name}\n  ({})\n  using parquet options (path '{path}/{name}')",
        columns.join(", ")
    )
}

/// A query that has a table's columns and no rows.
fn nothing(table: &'static Table, kind: fn(Kind) -> &'static str, quote: char) -> String {
    let null = |c: &Column| format!("cast(null as {}) as {quote}{}{quote}", kind(c.kind), c.name);
    let nulls: Vec<_> = columns(table).map(null).collect();
    format!("select {}\n   where false", nulls.join(",\n         "))
}

/// A table's columns in a lake.
fn columns(table: &'static Table) -> impl Iterator<Item = &'static Column> {
    let added = KEYS.iter().chain(&PARTITIONS).filter(|c| table.column(c.name).is_none());
    table.columns.iter().chain(added)
}

fn duckdb_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "bigint",
        Kind::Real => "double",
        Kind::Text => "varchar",
    }
}

fn clickhouse_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "Int64",
        Kind::Real => "Float64",
        Kind::Text => "String",
    }
}

fn spark_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "bigint",
        Kind::Real => "double",
        Kind::Text => "string",
    }
}
