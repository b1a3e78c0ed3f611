// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb query`.

use clap::Args;
use plumb_report::query::{EXAMPLES, FUNCTIONS};
use std::path::PathBuf;

/// Help's last part.
pub fn help() -> String {
    let mut out = String::from("Functions in addition to SQLite's own:\n");
    for (name, about) in FUNCTIONS {
        out += &format!("  {name:22}  {about}\n");
    }
    out += "\nExit codes: 0 done, 2 error, 3 events of a run were lost or cannot be read.\n\nExamples:";
    for (question, sql, runs) in EXAMPLES {
        out += &format!("\n\n  # {question}\n  plumb query \"{}\" {runs}", sql.replace('\n', "\n  "));
    }
    out
}

/// What to ask of which runs.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// What to ask: one SELECT, in SQLite's SQL. With --file the first run.
    #[arg(required_unless_present_any = ["tables", "schema"])]
    pub sql: Option<String>,
    /// Run or trace directories; sets and plans stand for all runs in them, and so do lakes (plumb publish).
    #[arg(value_name = "RUN", required_unless_present_any = ["tables", "schema", "file"])]
    pub runs: Vec<PathBuf>,
    /// Read the statement from a file; `-`: from standard input. sql/ has questions that DuckDB answers too.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["tables", "schema"])]
    pub file: Option<PathBuf>,
    /// List the tables and their columns.
    #[arg(long, conflicts_with_all = ["sql", "runs"])]
    pub tables: bool,
    /// List the columns of a table, and what they say.
    #[arg(long, value_name = "TABLE", conflicts_with_all = ["sql", "runs", "tables"])]
    pub schema: Option<String>,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON: a list of objects.
    #[arg(long)]
    pub json: bool,
}
