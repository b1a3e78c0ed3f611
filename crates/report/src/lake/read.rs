// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lake's rows for plumb's own questions. What was not published to the end is left out, and what is there twice because
//! joining was broken off counts once.

use super::compact::{below, files, ALL};
use super::policy::BULK;
use crate::export::parquet::join::Part;
use crate::query::Uses;
use crate::table::{Sink, Table, RUNS, TABLES};
use anyhow::{bail, Result};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Of the rows that were handed on.
#[derive(Debug, Default)]
pub struct Read {
    /// Runs that are published to the end.
    pub runs: u64,
    /// Files, and runs in files, that cannot be read, each with its reason; their rows are left out.
    pub skipped: Vec<String>,
    /// Tables that were asked for and of which the lake has no file, a sentence each.
    pub absent: Vec<String>,
}

/// Hands the rows of tables and columns that are used to a sink, in the order of hosts, days and runs; `stop` ends it when
/// it becomes true. The column `run` has the run's id.
///
/// # Errors
/// It is no lake, or a directory of it cannot be read.
pub fn read(lake: &Path, uses: &Uses, sink: &mut dyn Sink, stop: &AtomicBool) -> Result<Read> {
    super::is_lake(lake)?;
    let mut out = Read::default();
    let mut whole = HashSet::new();
    for day in days(lake, &RUNS)? {
        for part in parts(&day, &mut out.skipped)? {
            for run in part.runs() {
                whole.insert((place(&day), run.to_owned()));
            }
        }
    }
    out.runs = whole.len() as u64;
    for (table, columns) in uses {
        let table = TABLES[*table];
        let days = days(lake, table)?;
        if days.is_empty() {
            out.absent.push(absent(table));
        }
        for day in days {
            if stop.load(Ordering::Relaxed) {
                bail!("ended before all was read");
            }
            // What `runs` cannot read is named already.
            let mut named = Vec::new();
            let skipped = if table.place == RUNS.place { &mut named } else { &mut out.skipped };
            let parts = parts(&day, skipped)?;
            let (joined, single): (Vec<_>, Vec<_>) = parts.iter().partition(|p| is_joined(p));
            let alone: BTreeSet<&str> = single.iter().flat_map(|p| p.runs()).collect();
            let place = place(&day);
            let is_whole = |run: &str| whole.contains(&(place.clone(), run.to_owned()));
            for part in joined {
                let keeps = |run: &str| is_whole(run) && !alone.contains(run);
                rows(part, (table, columns), &keeps, sink, &mut out.skipped);
            }
            for part in single {
                rows(part, (table, columns), &is_whole, sink, &mut out.skipped);
            }
        }
    }
    Ok(out)
}

/// That a lake has no file of a table, and why that may be.
fn absent(table: &Table) -> String {
    let name = table.name;
    match BULK.contains(&table.place) {
        true => format!("has no file of {name}: a bulky table is published where the rules name it (plumb publish --rules); ask the runs themselves"),
        false => format!("has no file of {name}: no run in it has rows of it, or the rules leave it out"),
    }
}

fn rows(
    part: &Part,
    used: (&'static Table, &[usize]),
    keeps: &dyn Fn(&str) -> bool,
    sink: &mut dyn Sink,
    skipped: &mut Vec<String>,
) {
    let table = used.0;
    let damaged = part.rows(used, keeps, &mut |cells| sink.row(table, cells));
    skipped.extend(damaged.into_iter().map(|words| format!("{}: {words}", part.path().display())));
}

fn days(lake: &Path, table: &Table) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for host in below(&lake.join(table.name), "host=")? {
        out.extend(below(&host, "day=")?);
    }
    Ok(out)
}

/// Host and day of a partition, which are the same in every table.
fn place(day: &Path) -> PathBuf {
    let mut names = day.iter().rev();
    let (day, host) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    Path::new(host).join(day)
}

fn parts(day: &Path, skipped: &mut Vec<String>) -> Result<Vec<Part>> {
    let mut out = Vec::new();
    for (path, stem) in files(day)? {
        match Part::open(&path, &stem) {
            Ok(part) => out.push(part),
            Err(error) => skipped.push(format!("{}: {error:#}", path.display())),
        }
    }
    Ok(out)
}

fn is_joined(part: &Part) -> bool {
    part.path().file_name().is_some_and(|n| n.to_string_lossy().starts_with(ALL))
}
