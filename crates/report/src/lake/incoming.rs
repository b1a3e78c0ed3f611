// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where files are made before they get their names: on the lake's own file system, out of its readers' sight.

use anyhow::{Context, Result};
use plumb_machine::output;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Readers of Hive's layout pass over names that begin with a dot.
const INCOMING: &str = ".incoming";

/// A directory for one run, removed with all that is in it when it is dropped.
pub struct Incoming(PathBuf);

impl Incoming {
    /// Makes it, and removes those of this machine's processes that ended without.
    ///
    /// # Errors
    /// The lake cannot be written.
    pub fn new(lake: &Path, run: &str) -> Result<Self> {
        let all = lake.join(INCOMING);
        output::directory(&all)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mine = format!(".{}.", super::segment(host.trim()));
        for entry in std::fs::read_dir(&all).with_context(|| all.display().to_string())? {
            let entry = entry.with_context(|| all.display().to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.rsplit_once(&mine).and_then(|(_, pid)| pid.parse::<u32>().ok());
            if process.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Another process of this machine may be at it as well.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let path = all.join(format!("{run}{mine}{}", std::process::id()));
        output::directory(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of all of them, open: what is locked.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn all(&self) -> Result<File> {
        let all = self.0.parent().unwrap_or(&self.0);
        File::open(all).with_context(|| all.display().to_string())
    }

    /// What is in it outlasts the machine.
    ///
    /// # Errors
    /// A write failed.
    pub fn sync(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.0).with_context(|| self.0.display().to_string())? {
            let path = entry?.path();
            File::open(&path).and_then(|file| file.sync_all()).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
