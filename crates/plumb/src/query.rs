// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb query`: SQL over the tables of runs.

use crate::cli::QueryArgs;
use crate::quality::NOT_VALID;
use anyhow::{bail, Context, Result};
use plumb_report::fill::fill;
use plumb_report::lake;
use plumb_report::plain::Plain;
use plumb_report::query::{runs, Format, Query, MEMORY};
use plumb_report::table::{find, Table, TABLES};
use plumb_trace::units;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Below this share of likeness a name is not offered.
const ALIKE: f64 = 0.8;

/// Writes the tables with their columns.
pub fn table_list(out: &mut dyn Write) -> Result<()> {
    for table in TABLES {
        writeln!(out, "{}: {}", table.name, table.about)?;
        let columns: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
        writeln!(out, "    {}\n", plumb_report::terminal::wrapped(&columns.join(", "), 4))?;
    }
    Ok(())
}

/// Writes a table's definition as SQL.
pub fn schema_of(name: &str, out: &mut dyn Write) -> Result<()> {
    let Some(table) = find(name) else {
        let near = TABLES
            .iter()
            .map(|t| t.name)
            .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
        let near = near.filter(|n| strsim::jaro_winkler(name, n) >= ALIKE);
        let near = near.map_or(String::new(), |n| format!("there is {n}; "));
        bail!("there is no table {name}; {near}plumb query --tables lists all");
    };
    Ok(out.write_all(table.sql().as_bytes())?)
}

/// What a file says; standard input for `-`.
fn statement(file: &Path) -> Result<String> {
    let read = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    read.with_context(|| format!("cannot read the statement in {}", file.display()))
}

/// Runs the command.
///
/// # Errors
/// The statement cannot be run, or a run not be read.
pub fn main(args: &QueryArgs) -> Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.tables || args.schema.is_some() {
        match &args.schema {
            Some(name) => schema_of(name, &mut out)?,
            None => table_list(&mut out)?,
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let first = args.sql.clone().unwrap_or_default();
    let (sql, first) = match &args.file {
        Some(file) => (statement(file)?, Some(PathBuf::from(first))),
        None => (first, None),
    };
    if args.file.is_none() && Path::new(&sql).is_dir() {
        bail!("'{sql}' is a directory, and the statement comes first: plumb query \"select * from verdict\" {sql}");
    }
    // Before the runs are read: that may take minutes.
    let query = Query::new(&sql, MEMORY)?;
    query.hints().iter().for_each(|hint| eprintln!("hint: {hint}"));
    let named = first.into_iter().chain(args.runs.iter().cloned());
    let (lakes, named): (Vec<_>, Vec<_>) = named.partition(|path| lake::looks_like(path));
    let mut seen = Vec::new();
    for lake in &lakes {
        let real = lake.canonicalize().with_context(|| lake.display().to_string())?;
        if seen.contains(&real) {
            bail!("{}: is named twice: its rows would count twice; name it once", lake.display());
        }
        seen.push(real);
    }
    let runs = runs(&named)?;
    let used: Vec<&'static Table> = query.tables().collect();
    let mut valid = true;
    let mut loader = query.loader()?;
    let terminal = std::io::stderr().is_terminal();
    for (i, run) in runs.iter().enumerate() {
        let begin = Instant::now();
        if terminal {
            eprint!("\rreading {} ({} of {}) ...", run.name, i + 1, runs.len());
        }
        let read = fill(run, &used, &mut loader, &AtomicBool::new(false));
        if terminal {
            eprint!("\r\x1b[K");
        }
        let filled = read?;
        valid &= filled.valid;
        filled.words.iter().chain(&filled.absent).for_each(|w| eprintln!("plumb: {}: {w}", run.name));
        if terminal && begin.elapsed().as_secs() >= 5 {
            eprintln!("read {} in {}", run.name, units::duration(begin.elapsed().as_nanos() as u64));
        }
    }
    for lake in &lakes {
        let read = lake::read(lake, query.uses(), &mut loader, &AtomicBool::new(false))?;
        valid &= read.skipped.is_empty();
        read.skipped.iter().for_each(|s| eprintln!("plumb: left out: {s}"));
        read.absent.iter().for_each(|s| eprintln!("plumb: {}: {s}", lake.display()));
    }
    loader.finish()?;
    let format = match (args.csv, args.json) {
        (true, _) => Format::Csv,
        (_, true) => Format::Json,
        _ => Format::Table,
    };
    // A file gets what is there; a terminal what can be seen.
    if std::io::stdout().is_terminal() {
        query.run(format, &mut Plain(&mut out))?;
    } else {
        query.run(format, &mut out)?;
    }
    out.flush().context("standard output")?;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}
