// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many small files as few: of each table, host and day one, `all+COLUMNS.parquet`.

use super::incoming::Incoming;
use crate::export::parquet::join::{join, Part};
use crate::table::TABLES;
use anyhow::{anyhow, bail, Context, Error, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::{lock, utc_of, LockError};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Seconds.
const DAY: u64 = 86_400;
/// Of runs that do not say when they began.
const UNKNOWN: &str = "day=unknown";

/// What joined files are called before the number of their columns. The name of a single run has no `+`.
pub(super) const ALL: &str = "all+";

#[derive(Debug, Default, Serialize)]
pub struct Compacted {
    /// Files that were there, and that are there now.
    pub before: u64,
    pub after: u64,
    /// Of these, those of today and yesterday (UTC): more may come, and what is joined is not replaced.
    pub recent: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Files that cannot be read and stay as they are, each with its reason.
    pub skipped: Vec<String>,
}

impl Compacted {
    fn skip(&mut self, path: &Path, error: &Error) {
        self.skipped.push(format!("{}: {error:#}", path.display()));
        self.after += 1;
    }

    /// Whether a file that was read stays as it is, which is told.
    fn skips(&mut self, part: &Part, read: Result<()>) -> bool {
        let error = read.err();
        error.iter().for_each(|error| self.skip(part.path(), error));
        error.is_some()
    }
}

impl Output for Compacted {
    const FORMAT: &'static Format = &formats::COMPACT;
}

/// Joins the files of each table, host and day, but for today's and yesterday's. What reads the lake meanwhile may see rows twice, or miss a file that it has listed.
/// Broken off, it is done again by the next call. `stop` ends it when it becomes true.
///
/// # Errors
/// It is no lake, or cannot be written.
pub fn compact(lake: &Path, stop: &AtomicBool) -> Result<Compacted> {
    super::is_lake(lake)?;
    super::is_no_spool(lake)?;
    let made = Incoming::new(lake)?;
    // Two at once would each leave out what the other joined meanwhile.
    let all = made.all()?;
    match lock(&all) {
        Err(LockError::Locked(_)) => {
            bail!("{}: another plumb lake compact is at it; wait until it has ended", lake.display())
        }
        Err(LockError::System(error)) => return Err(error).with_context(|| lake.display().to_string()),
        Ok(()) => {}
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let recent = PathBuf::from(format!("day={}", &utc_of(now.saturating_sub(DAY))[..10]));
    let mut out = Compacted::default();
    for table in TABLES {
        for host in below(&lake.join(table.name), "host=")? {
            for day in below(&host, "day=")? {
                if stop.load(Ordering::Relaxed) {
                    bail!("ended before all was joined; what is joined stays, the rest can be joined later");
                }
                if recent.as_os_str() <= day.file_name().unwrap_or_default() && !day.ends_with(UNKNOWN) {
                    let files = files(&day)?.len() as u64;
                    (out.before, out.after, out.recent) =
                        (out.before + files, out.after + files, out.recent + files);
                    continue;
                }
                partition(&day, made.path(), stop, &mut out)?;
            }
        }
    }
    Ok(out)
}

/// Directories whose names begin so, in their order; none where there is no directory.
pub(super) fn below(dir: &Path, name: &str) -> Result<Vec<PathBuf>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry.with_context(|| dir.display().to_string())?;
        // Not through links: they may lead out of the lake.
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_dir && entry.file_name().to_string_lossy().starts_with(name) {
            out.push(entry.path());
        }
    }
    out.sort();
    Ok(out)
}

/// The Parquet files of a directory, in the order of their names, each with what its name says.
pub(super) fn files(dir: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry.with_context(|| dir.display().to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(stem) =
            name.strip_suffix(".parquet").filter(|_| entry.file_type().is_ok_and(|t| t.is_file()))
        {
            out.push((entry.path(), stem.to_owned()));
        }
    }
    out.sort();
    Ok(out)
}

/// Whether a directory has the run in a joined file.
///
/// # Errors
/// The directory or such a file cannot be read.
pub(super) fn has(dir: &Path, run: &str) -> Result<bool> {
    if !dir.exists() {
        return Ok(false);
    }
    for (path, _) in files(dir)?.iter().filter(|(_, stem)| stem.starts_with(ALL)) {
        let part = Part::open(path, "").with_context(|| path.display().to_string())?;
        if part.runs().any(|r| r == run) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is joined: the files of single runs with as many columns, and what was joined before.
#[derive(Default)]
struct Group {
    joined: Option<Part>,
    single: Vec<Part>,
    /// What was joined cannot be read: nothing is put in its place.
    broken: bool,
}

impl Group {
    /// The files that are there.
    fn count(&self) -> usize {
        self.single.len() + usize::from(self.joined.is_some())
    }

    /// One that fits what was joined before, or else most of them.
    fn pattern(&self) -> Option<&Part> {
        let mut patterns: Vec<(&Part, usize)> = Vec::new();
        for part in &self.single {
            match patterns.iter_mut().find(|(other, _)| other.fits(part)) {
                Some((_, count)) => *count += 1,
                None => patterns.push((part, 1)),
            }
        }
        let most = patterns.into_iter().rev().max_by_key(|(_, count)| *count);
        self.joined.as_ref().or(most.map(|(part, _)| part))
    }

    /// Leaves out, and names, what cannot be joined to the others: before anything is written, for what was joined must lose no
    /// run for one that cannot be read.
    fn check(&mut self, out: &mut Compacted) {
        if self.broken || self.count() < 2 {
            return;
        }
        if self.joined.take_if(|part| out.skips(part, part.check())).is_some() {
            self.broken = true;
            return;
        }
        let Some(pattern) = self.pattern() else { return };
        let mut fit: VecDeque<bool> = self.single.iter().map(|part| part.fits(pattern)).collect();
        self.single.retain(|part| {
            let read = match fit.pop_front() {
                Some(false) => Err(anyhow!("it has other columns than those beside it")),
                _ => part.check(),
            };
            !out.skips(part, read)
        });
        if let Some(joined) = &mut self.joined {
            // A file of its own is later than what was joined: it was replaced, or joining it was broken off.
            joined.without(&self.single);
        }
    }
}

fn partition(dir: &Path, made: &Path, stop: &AtomicBool, out: &mut Compacted) -> Result<()> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for (path, stem) in files(dir)? {
        out.before += 1;
        let said = stem.strip_prefix(ALL).map(|columns| columns.parse::<usize>().ok());
        let part = Part::open(&path, &stem).and_then(|part| match said {
            Some(said) if said != Some(part.columns()) => {
                bail!("it has {} columns, not what its name says", part.columns())
            }
            _ => Ok(part),
        });
        match part {
            Err(error) => {
                out.skip(&path, &error);
                if let Some(columns) = said.flatten() {
                    groups.entry(columns).or_default().broken = true;
                }
            }
            Ok(part) => {
                let group = groups.entry(part.columns()).or_default();
                match said {
                    Some(_) => group.joined = Some(part),
                    None => group.single.push(part),
                }
            }
        }
    }
    for (columns, mut group) in groups {
        group.check(out);
        if group.broken || group.count() < 2 {
            out.after += group.count() as u64;
            continue;
        }
        out.after += 1;
        let parts: Vec<Part> = group.joined.into_iter().chain(group.single).collect();
        let (path, name) = (made.join("joined.parquet"), dir.join(format!("{ALL}{columns}.parquet")));
        out.bytes += join(&parts, &path, stop).with_context(|| dir.display().to_string())?;
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.with_context(|| path.display().to_string())?;
        std::fs::rename(&path, &name).with_context(|| name.display().to_string())?;
        parts.iter().filter(|part| part.path() != name).try_for_each(Part::remove)?;
    }
    Ok(())
}
