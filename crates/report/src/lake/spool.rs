// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lake that runs pass through: what is published into it goes on to another one, which may be out of reach, and stays
//! until it is there. A run's file in `runs` is kept behind that in `.sent`: a run that was sent is not read again.

use super::compact::{below, files, ALL};
use super::{lock_file, remove};
use crate::table::{Table, RUNS, TABLES};
use anyhow::{bail, Context, Result};
use plumb_machine::{lock, output, LockError};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Readers of Hive's layout pass over names that begin with a dot.
const SENT: &str = ".sent";

/// A lake that runs pass through, of one process at a time.
pub struct Spool {
    lake: PathBuf,
    _lock: File,
}

/// A run that is whole in a spool.
#[derive(Debug)]
pub struct Waiting {
    pub run: String,
    /// Of all its files.
    pub bytes: u64,
    /// Its files by their place in a lake, `TABLE/host=HOST/day=DAY/RUN.parquet`, but that in `runs`.
    pub files: Vec<(String, PathBuf)>,
    /// That in `runs`, which comes last.
    pub last: (String, PathBuf),
    /// Where a run of this id may have files that this one has not: those that were sent of it, as far as that is known.
    pub gone: Vec<String>,
    /// Whether sending one was begun from here.
    pub begun: bool,
    /// What stays here of it: its file in `runs`, and which files may be where it goes.
    kept: PathBuf,
    keys: PathBuf,
}

impl Spool {
    /// Makes it where it is not there. Rows of runs that are not whole in it are removed: who broke off makes them anew.
    ///
    /// # Errors
    /// It cannot be written, or another process has it.
    pub fn open(lake: &Path) -> Result<Self> {
        let sent = lake.join(SENT);
        output::directory(&sent)?;
        output::directory(&lake.join(RUNS.name))?;
        let held = lock_file(&sent)?;
        match lock(&held) {
            Ok(()) => {}
            Err(LockError::Locked(_)) => {
                bail!("{}: another plumb publish is at it; wait until it has ended", lake.display())
            }
            Err(LockError::System(error)) => return Err(error).with_context(|| lake.display().to_string()),
        }
        let spool = Self { lake: lake.to_owned(), _lock: held };
        for table in others() {
            for (partition, name) in spool.names(table)? {
                if !lake.join(RUNS.name).join(&partition).join(&name).exists() {
                    remove(&lake.join(table.name).join(&partition).join(&name))?;
                }
            }
        }
        Ok(spool)
    }

    pub fn lake(&self) -> &Path {
        &self.lake
    }

    /// Runs that are whole and wait, in the order of hosts, days and names.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn waiting(&self) -> Result<Vec<Waiting>> {
        let mut out = Vec::new();
        for (partition, name) in self.names(&RUNS)? {
            let at = |table: &Table| {
                let place = Path::new(table.name).join(&partition).join(&name);
                (place.display().to_string(), self.lake.join(place))
            };
            let (files, absent): (Vec<_>, Vec<_>) = others().map(at).partition(|(_, path)| path.exists());
            let last = at(&RUNS);
            let kept = self.lake.join(SENT).join(&last.0);
            let keys = kept.with_extension("keys");
            let known = match std::fs::read_to_string(&keys) {
                Err(e) if e.kind() == ErrorKind::NotFound => None,
                known => Some(known.with_context(|| keys.display().to_string())?),
            };
            let is_gone = |key: &String| known.as_ref().is_none_or(|known| known.lines().any(|k| k == key));
            let length = |(_, path): &(String, PathBuf)| {
                path.metadata().map(|m| m.len()).with_context(|| path.display().to_string())
            };
            out.push(Waiting {
                run: name.trim_end_matches(".parquet").to_owned(),
                bytes: files.iter().chain([&last]).map(length).sum::<Result<u64>>()?,
                gone: absent.into_iter().map(|(key, _)| key).filter(is_gone).collect(),
                begun: known.is_some(),
                files,
                last,
                kept,
                keys,
            });
        }
        Ok(out)
    }

    /// Partition and name of a table's files of single runs.
    fn names(&self, table: &Table) -> Result<Vec<(PathBuf, String)>> {
        let mut out = Vec::new();
        for host in below(&self.lake.join(table.name), "host=")? {
            for day in below(&host, "day=")? {
                let partition = day.strip_prefix(self.lake.join(table.name))?.to_path_buf();
                for (path, _) in files(&day)? {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    if !name.starts_with(ALL) {
                        out.push((partition.clone(), name));
                    }
                }
            }
        }
        Ok(out)
    }
}

impl Waiting {
    /// Called before it goes: from now on its files may be there, beside older ones.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn begin(&self) -> Result<()> {
        self.tell(self.files.iter().map(|(key, _)| key).chain(&self.gone))
    }

    /// It is where it was to go: it waits no longer.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn sent(&self) -> Result<()> {
        self.directory()?;
        std::fs::rename(&self.last.1, &self.kept).with_context(|| self.kept.display().to_string())?;
        self.files.iter().try_for_each(|(_, path)| remove(path))?;
        self.tell(self.files.iter().map(|(key, _)| key))
    }

    fn directory(&self) -> Result<()> {
        self.kept.parent().map_or(Ok(()), output::directory)
    }

    fn tell<'a>(&self, keys: impl Iterator<Item = &'a String>) -> Result<()> {
        self.directory()?;
        let text: String = keys.map(|key| format!("{key}\n")).collect();
        let made = self.keys.with_extension("made");
        std::fs::write(&made, text)
            .and_then(|()| std::fs::rename(&made, &self.keys))
            .with_context(|| self.keys.display().to_string())
    }
}

pub(super) fn is_spool(lake: &Path) -> bool {
    lake.join(SENT).is_dir()
}

/// What a spool keeps of a run that was sent; its place in a lake that is no spool has nothing.
pub(super) fn kept(lake: &Path, runs: &Path, name: &str) -> PathBuf {
    lake.join(SENT).join(runs.strip_prefix(lake).unwrap_or(runs)).join(name)
}

fn others() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().copied().filter(|t| t.place != RUNS.place)
}
