// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lake: the tables of many runs of many hosts in one directory, which engines read in place. A run has a file in
//! each table: `TABLE/host=HOST/day=DAY/RUN.parquet`, partitioned as Hive does.
//!
//! A file appears when it is whole, and a run's file in `runs` behind all its others: what `runs` does not name is
//! not published to the end.

mod compact;
mod incoming;
mod policy;
mod read;
mod spool;
mod views;
mod windows;

use crate::export::parquet::{made, Parquet};
use crate::fill::fill;
use crate::query::RunDir;
use crate::table::{filled, Cell, Column, Identity, Kind, Sink, Table, RUNS, TABLES};
use anyhow::{bail, Context, Result};
pub use compact::{compact, Compacted};
use incoming::Incoming;
use plumb_machine::output;
use plumb_trace::reader::Trace;
pub use policy::{Policy, Rules};
pub use read::{read, Read};
use serde::Serialize;
pub use spool::{Spool, Waiting};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
pub use views::{of_directory as views_of, write as views, Engine, Place};
use windows::Day;

/// What every row says of its run, behind its table's own columns, so that few questions need a join. The host is in
/// the path.
const KEYS: [Column; 4] = [
    Column { name: "machine_id", kind: Kind::Text, about: "As in runs" },
    Column { name: "kernel", kind: Kind::Text, about: "As in runs" },
    Column { name: "plumb", kind: Kind::Text, about: "As in runs" },
    Column { name: "began_unix_ns", kind: Kind::Integer, about: "As in runs" },
];

/// What processes lock in a directory: a file, for NFS locks no directories.
const LOCK: &str = "lock";

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Published,
    /// It was there: it was not read again.
    Unchanged,
    /// It was there, of a shorter trace, by another version of plumb, or by other rules.
    Replaced,
    /// It was there, in a file that holds several runs: it was not read again.
    Joined,
}

/// A run in the lake.
#[derive(Debug, Serialize)]
pub struct Published {
    /// Its id, which the column `run` has there.
    pub run: String,
    pub host: String,
    /// When it began, UTC; `unknown` where it does not say.
    pub day: String,
    pub state: State,
    /// Files, one a table with rows. This and what follows is of what was read: nothing of a run that was there already.
    pub tables: u64,
    pub rows: u64,
    /// Of all its files.
    pub bytes: u64,
    /// No events of it are lost or cannot be read.
    pub valid: bool,
    /// What its reader must know, a sentence each.
    pub words: Vec<String>,
}

impl Published {
    /// Where a table has its file.
    fn partition(&self, lake: &Path, table: &Table) -> PathBuf {
        lake.join(table.name).join(format!("host={}", segment(&self.host))).join(format!("day={}", self.day))
    }
}

/// Runs whose files are synced together: each commit of a file system's journal then serves many of them.
pub const BATCH: usize = 32;

/// Puts the tables of runs into a lake, which is made where it is not there; of a watch each day's windows as a run. Done twice, it
/// changes nothing; done again after it was broken off, it goes on. `stop` ends it when it becomes true: what follows is not
/// tried then. Tells in their order what became of what it tried, by name: one has no trace or cannot be read, others are
/// published. They appear when all of them are whole, so that [`BATCH`] of them are a good number.
///
/// # Errors
/// The lake cannot be written.
pub fn publish(
    runs: &[RunDir],
    lake: &Path,
    policy: &Policy,
    stop: &AtomicBool,
) -> Result<Vec<(String, Result<Published>)>> {
    let incoming = Incoming::new(lake)?;
    let mut made = Vec::new();
    for run in runs {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match sources(run) {
            Err(error) => made.push((run.name.clone(), Err(error))),
            Ok(all) => {
                for source in all {
                    let to = incoming.path().join(made.len().to_string());
                    let one = Made::of(&source, lake, policy, &to, stop);
                    made.push((source.name.clone(), one.with_context(|| source.name)));
                }
            }
        }
    }
    incoming.sync()?;
    Ok(made.into_iter().map(|(name, made)| (name, made.and_then(|made| made.publish(lake)))).collect())
}

/// What becomes one run of the lake.
struct Source<'a> {
    /// As it is told of.
    name: String,
    of: Identity,
    /// Bytes of it: what grew is another one.
    size: u64,
    content: Content<'a>,
    words: Vec<String>,
}

enum Content<'a> {
    Recorded(&'a RunDir),
    Windows(Day),
}

fn sources(run: &RunDir) -> Result<Vec<Source<'_>>> {
    let mut out = Vec::new();
    if run.trace {
        let of = Identity::of(&Trace::open(&run.path).with_context(|| run.name.clone())?);
        let (name, content) = (run.name.clone(), Content::Recorded(run));
        out.push(Source { name, of, size: size(run)?, content, words: Vec::new() });
    }
    let mut nameless = 0;
    for path in &run.windows {
        let name = path.display().to_string();
        let (days, lacking) = Day::all(path)?;
        nameless += lacking;
        for day in days {
            let (name, of, size) = (name.clone(), day.of.clone(), day.size());
            out.push(Source { name, of, size, content: Content::Windows(day), words: Vec::new() });
        }
    }
    if nameless > 0 {
        let words = format!("{nameless} windows of an older plumb do not say of which host they are");
        match out.first_mut() {
            Some(first) => first.words.push(words),
            None => bail!("{}: {words}", run.name),
        }
    }
    if out.is_empty() {
        bail!("{}: has no trace, and nothing else tells on which host and when it was", run.name);
    }
    Ok(out)
}

/// A run whose files are whole, out of the readers' sight.
struct Made {
    out: Published,
    /// Where they are, and those tables that have rows; none for a run that was in the lake.
    files: Option<(PathBuf, Vec<&'static Table>)>,
}

impl Made {
    fn of(source: &Source<'_>, lake: &Path, policy: &Policy, to: &Path, stop: &AtomicBool) -> Result<Self> {
        let of = &source.of;
        let id = match of.run_id.as_str() {
            // A machine begins one recording at a time, to the ns.
            "" if of.machine_id.is_empty() => format!("{}-{}", segment(&of.host), of.realtime),
            "" => format!("{}-{}", of.machine_id, of.realtime),
            id => segment(id),
        };
        let mut out = Published {
            run: id.clone(),
            host: of.host.clone(),
            day: of.began().get(..10).unwrap_or("unknown").to_owned(),
            state: State::Joined,
            tables: 0,
            rows: 0,
            bytes: 0,
            valid: true,
            words: source.words.clone(),
        };
        let runs = out.partition(lake, &RUNS);
        if compact::has(&runs, &id)? {
            return Ok(Self { out, files: None });
        }
        // The file in `runs` comes last: all others are there.
        let of_what = format!("{} {} {}", env!("CARGO_PKG_VERSION"), policy.fingerprint(), source.size);
        let name = format!("{id}.parquet");
        // Of a spool, what was sent is there as well.
        let there =
            [runs.join(&name), spool::kept(lake, &runs, &name)].into_iter().find(|path| path.exists());
        if there.as_deref().and_then(made) == Some(of_what.clone()) {
            out.state = State::Unchanged;
            return Ok(Self { out, files: None });
        }
        out.state = if there.is_some() { State::Replaced } else { State::Published };
        let mut files = Parquet::of(to, &policy.tables, &KEYS, &of_what)?;
        let mut rows = Keyed { files: &mut files, policy, of };
        match &source.content {
            Content::Recorded(run) => {
                // The directory's name means nothing on another machine.
                let named = RunDir { name: id, windows: Vec::new(), ..(*run).clone() };
                let filled = fill(&named, &policy.tables, &mut rows, stop)?;
                out.valid = filled.valid;
                out.words.extend(filled.words);
            }
            Content::Windows(day) => day.fill(&id, &mut rows),
        }
        let counts = files.finish()?;
        out.rows = counts.iter().sum();
        let (some, none): (Vec<&Table>, Vec<_>) =
            policy.tables.iter().partition(|t| counts[t.place as usize] > 0);
        none.iter().try_for_each(|t| remove(&file(to, t)))?;
        for table in &some {
            let path = file(to, table);
            out.bytes += path.metadata().with_context(|| path.display().to_string())?.len();
        }
        out.tables = some.len() as u64;
        Ok(Self { out, files: Some((to.to_owned(), some)) })
    }

    /// Gives the files their names, those in `runs` last; takes away what a table without rows had by other rules.
    fn publish(self, lake: &Path) -> Result<Published> {
        let Some((made, some)) = self.files else { return Ok(self.out) };
        let others = TABLES.iter().copied().filter(|t| t.place != RUNS.place);
        if spool::is_spool(lake) {
            // It goes on from there: half of this run and half of an older one must not. In a lake that engines read, a run that is
            // replaced stays there.
            remove(&self.out.partition(lake, &RUNS).join(format!("{}.parquet", self.out.run)))?;
        }
        for table in others.chain([&RUNS]) {
            let dir = self.out.partition(lake, table);
            let there = dir.join(format!("{}.parquet", self.out.run));
            if some.iter().any(|t| t.place == table.place) {
                output::directory(&dir)?;
                std::fs::rename(file(&made, table), &there).with_context(|| there.display().to_string())?;
            } else {
                remove(&there)?;
            }
        }
        Ok(self.out)
    }
}

fn file(dir: &Path, table: &Table) -> PathBuf {
    dir.join(format!("{}.parquet", table.name))
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).with_context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// # Errors
/// It is a spool: what is in it goes on, and away.
pub fn is_no_spool(lake: &Path) -> Result<()> {
    if spool::is_spool(lake) {
        bail!("{}: is a spool: what waits in it goes on as it is", lake.display());
    }
    Ok(())
}

/// A file in a directory that processes lock, made where it is not there.
fn lock_file(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    file.with_context(|| path.display().to_string())
}

/// Whether a directory is a lake, and no run.
pub fn looks_like(path: &Path) -> bool {
    is_lake(path).is_ok() && path.join(".incoming").is_dir()
}

/// # Errors
/// Nothing was published there.
fn is_lake(lake: &Path) -> Result<()> {
    if !lake.join(RUNS.name).is_dir() {
        let name = lake.display();
        bail!("{name}: is no lake: it has no directory 'runs'; plumb publish RUN --to {name} makes one");
    }
    Ok(())
}

/// A text as part of a path, as Hive writes it: what is no letter, digit or one of `._-` is percent and two digits.
pub fn segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'.' if out.is_empty() => out += "%2E",
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => out.push(byte as char),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    // Names of files end at 255 bytes.
    out.truncate(200);
    if out.is_empty() {
        "unknown".into()
    } else {
        out
    }
}

/// Bytes of a run's trace and loads: a trace that grew is another one.
fn size(run: &RunDir) -> Result<u64> {
    let length = |path: &Path| path.metadata().map(|m| m.len()).with_context(|| path.display().to_string());
    let below = run.path.join("trace");
    let trace = if below.is_dir() { &below } else { &run.path };
    let mut bytes = run.loads.iter().map(|path| length(path)).sum::<Result<u64>>()?;
    for entry in std::fs::read_dir(trace).with_context(|| trace.display().to_string())? {
        bytes += length(&entry.with_context(|| trace.display().to_string())?.path())?;
    }
    Ok(bytes)
}

/// Hands rows on with [`KEYS`], without what the rules hold back.
struct Keyed<'a> {
    files: &'a mut Parquet,
    policy: &'a Policy,
    of: &'a Identity,
}

impl Sink for Keyed<'_> {
    fn wants(&self, table: &'static Table) -> bool {
        self.files.wants(table)
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        let of = self.of;
        let text = |text| Cell::from(filled(text));
        let keys = [text(&of.machine_id), text(&of.kernel), text(&of.plumb), of.known().into()];
        let mut all = cells.to_vec();
        for column in self.policy.without(table) {
            all[column] = Cell::None;
        }
        all.extend(KEYS.iter().zip(keys).filter(|(k, _)| table.column(k.name).is_none()).map(|(_, v)| v));
        self.files.row(table, &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_part_of_a_path() {
        for (text, expected) in [
            ("web-1.example", "web-1.example"),
            ("", "unknown"),
            ("..", "%2E."),
            ("a/b", "a%2Fb"),
            ("day=1", "day%3D1"),
            ("\u{e9}", "%C3%A9"),
        ] {
            assert_eq!(segment(text), expected);
        }
        assert!(segment(&"x".repeat(1000)).len() < 255);
    }

    #[test]
    fn keys_mean_what_they_mean_in_runs() {
        for key in &KEYS {
            let of_runs = RUNS.columns.iter().find(|c| c.name == key.name).expect("a column of runs");
            assert_eq!(of_runs.kind, key.kind, "{}", key.name);
            for table in TABLES.iter().filter(|t| t.place != RUNS.place) {
                assert_eq!(table.column(key.name), None, "{} of {} is another thing", key.name, table.name);
            }
        }
    }
}
