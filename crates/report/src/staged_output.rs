// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file or directory that is made beside its final name, and gets it when all of it is there.

use crate::table::find;
use anyhow::{bail, Context, Result};
use plumb_machine::output;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    /// A directory with an exported trace, or with tables.
    Directory,
}

/// What is being made. It is removed when it is dropped before [`StagedOutput::rename`].
#[derive(Debug)]
pub struct StagedOutput {
    path: PathBuf,
    made: PathBuf,
    kind: Kind,
}

/// Removes what was made so far.
fn remove(path: &Path, kind: Kind) {
    let _ = match kind {
        Kind::File => std::fs::remove_file(path),
        Kind::Directory => std::fs::remove_dir_all(path),
    };
}

/// Whether a directory holds an exported trace or tables and nothing else, so that it may be replaced.
fn is_export(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let names: Option<Vec<String>> = entries.map(|e| e.ok()?.file_name().into_string().ok()).collect();
    let trace = |name: &String| name == "metadata" || name.starts_with("channel0_");
    let table = |name: &String| {
        let ends = name.strip_suffix(".csv").or_else(|| name.strip_suffix(".parquet"));
        ends.is_some_and(|name| find(name).is_some())
    };
    names.is_some_and(|names| names.iter().all(trace) || names.iter().all(table))
}

impl StagedOutput {
    /// Nothing made yet.
    ///
    /// # Errors
    /// Something is there, and `force` is not given or it is not what an export made.
    pub fn new(path: &Path, kind: Kind, force: bool) -> Result<Self> {
        let Some(name) = path.file_name() else {
            bail!("{}: no name of a file or directory; give one", path.display());
        };
        if path.symlink_metadata().is_ok() {
            if !force {
                bail!(
                    "{}: is there already; choose another name, or replace it with --force",
                    path.display()
                );
            }
            if kind == Kind::Directory && !is_export(path) {
                bail!(
                    "{}: holds more than an export, so --force does not replace it; remove it yourself",
                    path.display()
                );
            }
            if kind == Kind::File && path.is_dir() {
                bail!("{}: is a directory, not a file; choose another name", path.display());
            }
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        Ok(Self { path: path.into(), made: path.with_file_name(hidden), kind })
    }

    #[allow(clippy::misnamed_getters, reason = "what is written to; it gets its name when it is whole")]
    pub fn path(&self) -> &Path {
        &self.made
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What an error begins with.
    pub fn cannot(&self) -> String {
        format!("{}: cannot be written", self.path.display())
    }

    /// The file, empty; nothing that is there is followed or written over.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(&self) -> Result<File> {
        output::create(&self.made).with_context(|| self.cannot())
    }

    /// All of it is there: it gets its name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn rename(self) -> Result<()> {
        if self.kind == Kind::Directory && self.path.exists() {
            // A directory replaces only an empty one.
            let mut old = self.made.clone().into_os_string();
            old.push(".old");
            let old = PathBuf::from(old);
            std::fs::rename(&self.path, &old).with_context(|| self.cannot())?;
            std::fs::rename(&self.made, &self.path).with_context(|| self.cannot())?;
            remove(&old, Kind::Directory);
        } else {
            std::fs::rename(&self.made, &self.path).with_context(|| self.cannot())?;
        }
        Ok(())
    }
}

impl Drop for StagedOutput {
    fn drop(&mut self) {
        remove(&self.made, self.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_never_has_the_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        let beside = StagedOutput::new(&path, Kind::File, false).expect("free");
        std::fs::write(beside.path(), "half").expect("written");
        drop(beside);
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
        let beside = StagedOutput::new(&path, Kind::File, false).expect("free");
        std::fs::write(beside.path(), "whole").expect("written");
        beside.rename().expect("renamed");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "whole");
        let refused = StagedOutput::new(&path, Kind::File, false).expect_err("it is there");
        assert!(refused.to_string().contains("--force"), "{refused}");
        StagedOutput::new(&path, Kind::File, true).expect("replaced");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
    }

    #[test]
    fn only_an_exported_trace_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        std::fs::create_dir(&path).expect("made");
        std::fs::write(path.join("metadata"), "").expect("written");
        let beside = StagedOutput::new(&path, Kind::Directory, true).expect("an export");
        std::fs::create_dir(beside.path()).expect("made");
        std::fs::write(beside.path().join("channel0_0"), "").expect("written");
        beside.rename().expect("renamed");
        assert!(path.join("channel0_0").exists() && !path.join("metadata").exists());
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
        std::fs::write(path.join("letter"), "").expect("written");
        StagedOutput::new(&path, Kind::Directory, true).expect_err("somebody's own");
    }
}
