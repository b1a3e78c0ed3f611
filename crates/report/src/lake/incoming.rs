// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where files are made before they get their names: on the lake's own file system, out of its readers' sight.

use anyhow::{Context, Result};
use plumb_machine::{lock, output, LockError};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Readers of Hive's layout pass over names that begin with a dot.
const INCOMING: &str = ".incoming";
/// fsync(2) at once. Journalling file systems commit once for those that wait together.
const SYNCS: usize = 16;
const DAY: Duration = Duration::from_secs(86400);

/// A directory, removed with all that is in it when it is dropped.
pub struct Incoming {
    path: PathBuf,
    /// Locked: whoever finds it unlocked may remove it.
    _lock: File,
}

impl Incoming {
    /// Makes it, and removes those of processes that ended without.
    ///
    /// # Errors
    /// The lake cannot be written.
    pub fn new(lake: &Path) -> Result<Self> {
        let all = lake.join(INCOMING);
        output::directory(&all)?;
        sweep(&all)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        loop {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
            let path = all.join(format!("{}.{}.{now}", super::segment(host.trim()), std::process::id()));
            output::directory(&path)?;
            let locked = match File::open(&path) {
                Ok(file) => lock(&file).map(|()| file),
                Err(error) => Err(LockError::System(error)),
            };
            // Another process may have swept it away before it was locked.
            match locked {
                Ok(file) if path.exists() => return Ok(Self { path, _lock: file }),
                Err(LockError::System(error)) if path.exists() => {
                    return Err(error).with_context(|| path.display().to_string());
                }
                _ => {}
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of all of them, open: what is locked.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn all(&self) -> Result<File> {
        let all = self.path.parent().unwrap_or(&self.path);
        File::open(all).with_context(|| all.display().to_string())
    }

    /// What is in it, in directories of it, outlasts the machine.
    ///
    /// # Errors
    /// A write failed.
    pub fn sync(&self) -> Result<()> {
        let mut files = Vec::new();
        for dir in entries(&self.path)? {
            files.extend(entries(&dir)?);
        }
        let sync = |path: &PathBuf| {
            File::open(path).and_then(|file| file.sync_all()).with_context(|| path.display().to_string())
        };
        std::thread::scope(|scope| {
            let one = |part| scope.spawn(move || <[PathBuf]>::iter(part).try_for_each(sync));
            let all: Vec<_> = files.chunks(files.len().div_ceil(SYNCS).max(1)).map(one).collect();
            all.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(dir).and_then(|all| all.map(|e| Ok(e?.path())).collect());
    all.with_context(|| dir.display().to_string())
}

/// Removes what nobody holds; where the file system has no locks, what is a day old.
fn sweep(all: &Path) -> Result<()> {
    let lock = |path: &Path| File::open(path).ok().map(|file| (lock(&file), file));
    for path in entries(all)? {
        let Some((Ok(()), _held)) = lock(&path) else { continue };
        let has_locks = matches!(lock(&path), Some((Err(LockError::Locked(_)), _)));
        let age = path.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        if has_locks || age.is_some_and(|age| age > DAY) {
            // Another process may be at it as well.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
