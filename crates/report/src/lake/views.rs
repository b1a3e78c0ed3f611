// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes the tables of a lake known to an engine by their names.

use super::KEYS;
use crate::table::{Column, Kind, Table, TABLES};
use anyhow::{bail, Context, Result};
use std::io::Write;
use std::path::Path;

/// Columns that the paths of the files have.
const PARTITIONS: [Column; 2] = [
    Column { name: "host", kind: Kind::Text, about: "Name of the machine" },
    Column { name: "day", kind: Kind::Text, about: "When the run began, UTC" },
];

/// Writes a view of each table of a directory in DuckDB's SQL.
///
/// # Errors
/// It is no lake, or cannot be read.
pub fn of_directory(lake: &Path, out: &mut dyn Write) -> Result<()> {
    let root = lake.canonicalize().with_context(|| lake.display().to_string())?;
    super::is_lake(lake)?;
    duckdb(&root.to_string_lossy(), &|table| root.join(table).is_dir(), out)
}

/// Writes a view of each table in DuckDB's SQL. A view has all columns that its table has today, null where a file lacks
/// one; it is empty where the lake has no file of the table.
///
/// # Errors
/// The lake's name cannot stand in a statement.
pub fn duckdb(path: &str, has: &dyn Fn(&str) -> bool, out: &mut dyn Write) -> Result<()> {
    // In a pattern of names that stands in a text of SQL.
    if path
        .chars()
        .any(|c| c.is_control() || matches!(c, '\'' | '*' | '?' | '[' | char::REPLACEMENT_CHARACTER))
    {
        bail!("{path}: its name has characters that SQL or a pattern cannot have; give it another");
    }
    writeln!(
        out,
        "-- The tables of {path}; plumb lake views makes this. Columns: plumb query --schema TABLE."
    )?;
    // As SQLite and Spark have it, so that a statement gives its rows in the same order.
    writeln!(out, "set default_null_order = 'nulls_first_on_asc_last_on_desc';")?;
    for table in TABLES {
        let nulls: Vec<_> = columns(table)
            .map(|c| format!("cast(null as {}) as \"{}\"", duckdb_type(c.kind), c.name))
            .collect();
        write!(
            out,
            "create or replace view {} as\n  select {}\n   where false",
            table.name,
            nulls.join(",\n         ")
        )?;
        if has(table.name) {
            write!(
                out,
                "\n  union all by name\n  select * from read_parquet('{path}/{}/*/*/*.parquet', union_by_name = true,\n         \
                 hive_partitioning = true, hive_types_autocast = false)",
                table.name
            )?;
        }
        writeln!(out, ";")?;
    }
    Ok(())
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
