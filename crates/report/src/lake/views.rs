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

/// Writes a view of each table in DuckDB's SQL. A view has all columns that its table has today, null where a file lacks
/// one; it is empty where the lake has no file of the table.
///
/// # Errors
/// It is no lake, or cannot be read.
pub fn duckdb(lake: &Path, out: &mut dyn Write) -> Result<()> {
    let shown = || lake.display().to_string();
    let root = lake.canonicalize().with_context(shown)?;
    super::is_lake(lake)?;
    // In a pattern of names that stands in a text of SQL.
    let plain = |p: &&str| !p.chars().any(|c| c.is_control() || matches!(c, '\'' | '*' | '?' | '['));
    let Some(path) = root.to_str().filter(plain) else {
        bail!("{}: its name has characters that SQL or a pattern cannot have; give it another", shown());
    };
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
        if root.join(table.name).is_dir() {
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
