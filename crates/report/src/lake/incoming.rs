// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where files are made before they get their names: on the lake's own file system, out of its readers' sight.

use super::{lock_file, LOCK};
use anyhow::{Context, Result};
use plumb_machine::{lock, output, LockError};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Readers of Hive's layout pass over names that begin with a dot.
const INCOMING: &str = ".incoming";
const TRIES: u32 = 100;
/// fsync(2) at once. Journalling file systems commit once for those that wait together.
const SYNCS: usize = 16;
const DAY: Duration = Duration::from_secs(86400);

/// A directory, removed with all that is in it when it is dropped.
pub struct Incoming {
    path: PathBuf,
    /// Locked: whoever finds it unlocked may remove the directory.
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
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = super::segment(host.trim());
        sweep(&all, &host)?;
        let mut tries = 0;
        loop {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
            let path = all.join(format!("{host}.{}.{now}", std::process::id()));
            let made = output::directory(&path).and_then(|()| {
                let file = lock_file(&path)?;
                match lock(&file) {
                    Err(LockError::System(error)) => Err(error).with_context(|| path.display().to_string()),
                    locked => Ok((locked.is_ok(), file)),
                }
            });
            tries += 1;
            match made {
                Ok((true, file)) if path.join(LOCK).exists() => return Ok(Self { path, _lock: file }),
                // Another process may sweep it away before it is locked.
                Err(error) if tries == TRIES || path.exists() => return Err(error),
                _ => {}
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a process locks that wants to be alone at the lake.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn all(&self) -> Result<File> {
        lock_file(self.path.parent().unwrap_or(&self.path))
    }

    /// What is in it, in directories of it, outlasts the machine.
    ///
    /// # Errors
    /// A write failed.
    pub fn sync(&self) -> Result<()> {
        let mut files = Vec::new();
        for dir in entries(&self.path)?.into_iter().filter(|path| path.is_dir()) {
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

/// Removes what nobody of this host holds, and of others what is a day old: whether another host holds a lock is seen
/// on some file systems alone.
fn sweep(all: &Path, host: &str) -> Result<()> {
    let lock = |file: &Path| File::options().read(true).write(true).open(file).ok().map(|f| (lock(&f), f));
    for path in entries(all)?.into_iter().filter(|path| path.is_dir()) {
        let file = path.join(LOCK);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // HOST.PID.NS, and a host's name may have dots.
        let own = name.rsplitn(3, '.').nth(2) == Some(host);
        let free = match lock(&file) {
            // Where there are no locks, a second one is had as well.
            Some((Ok(()), _held)) => own && matches!(lock(&file), Some((Err(LockError::Locked(_)), _))),
            _ => false,
        };
        let age = path.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        if free || age.is_some_and(|age| age > DAY) {
            // Another process may be at it as well.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
