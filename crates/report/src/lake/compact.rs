// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many small files as few: of each table, host and day one, `all+COLUMNS.parquet`.

use super::incoming::Incoming;
use crate::export::parquet::join::{join, Failed, Part};
use crate::table::TABLES;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::{lock, utc_of, LockError};
use serde::Serialize;
use std::collections::BTreeMap;
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
                partition(&day, made.path(), &mut out)?;
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

fn partition(dir: &Path, made: &Path, out: &mut Compacted) -> Result<()> {
    // By the number of columns: the joined file, and those of single runs.
    let mut groups: BTreeMap<usize, (Option<Part>, Vec<Part>)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (path, stem) in files(dir)? {
        out.before += 1;
        match Part::open(&path, &stem) {
            Err(error) => {
                out.skipped.push(format!("{}: {error:#}", path.display()));
                out.after += 1;
                // Nothing is joined in its place.
                broken.push(stem);
            }
            Ok(part) => {
                let group = groups.entry(part.columns()).or_default();
                if group.0.iter().chain(&group.1).any(|other| !other.fits(&part)) {
                    out.skipped
                        .push(format!("{}: it has other columns than those beside it", path.display()));
                    out.after += 1;
                    broken.push(stem);
                    continue;
                }
                match stem.starts_with(ALL) {
                    true => group.0 = Some(part),
                    false => group.1.push(part),
                }
            }
        }
    }
    for (columns, (joined, single)) in groups {
        out.after += 1;
        if broken.contains(&format!("{ALL}{columns}")) {
            out.after += single.len() as u64 - 1;
            continue;
        }
        if single.len() + usize::from(joined.is_some()) < 2 {
            continue;
        }
        let name = dir.join(format!("{ALL}{columns}.parquet"));
        let is_joined = |part: &Part| part.path() == name;
        let mut parts: Vec<Part> = joined.into_iter().chain(single).collect();
        let path = made.join("joined.parquet");
        // One that cannot be read stays as it is.
        while parts.len() > 1 {
            if let Some((joined, single)) = parts.split_first_mut().filter(|(first, _)| is_joined(first)) {
                // A file of its own is later than what was joined: it was replaced, or joining it was broken off.
                joined.without(single);
            }
            match join(&parts, &path) {
                Ok(bytes) => {
                    out.bytes += bytes;
                    let synced = File::open(&path).and_then(|file| file.sync_all());
                    synced.with_context(|| path.display().to_string())?;
                    std::fs::rename(&path, &name).with_context(|| name.display().to_string())?;
                    parts.iter().filter(|part| !is_joined(part)).try_for_each(Part::remove)?;
                    break;
                }
                Err(Failed::Part(number, error)) => {
                    let part = parts.remove(number);
                    out.skipped.push(format!("{}: {error:#}", part.path().display()));
                    out.after += 1;
                    if is_joined(&part) {
                        out.after += parts.len() as u64 - 1;
                        break;
                    }
                }
                Err(Failed::Other(error)) => return Err(error.context(dir.display().to_string())),
            }
        }
    }
    Ok(())
}
