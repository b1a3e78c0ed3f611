// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How `plumb trigger` asks a `plumb watch` for a run: by a file of the run's name in `asked/` of its directory.

use anyhow::{bail, Context, Result};
use plumb_machine::{lock, output, LockError};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Most names that are taken at a time; the others wait.
const MOST: usize = 16;
/// Longest name of a run.
const LONGEST: usize = 64;

/// Whether a run can be called so: the name is part of a directory's.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(plain)
}

/// Where a watch is asked, locked by the one that answers.
#[derive(Debug)]
pub struct Asked {
    dir: PathBuf,
    _held: File,
}

fn place(dir: &Path) -> PathBuf {
    dir.join("asked")
}

impl Asked {
    /// # Errors
    /// Another watch has the directory, or it cannot be made.
    pub fn open(dir: &Path) -> Result<Self> {
        let place = place(dir);
        output::directory(&place)?;
        let held = File::open(&place).with_context(|| place.display().to_string())?;
        match lock(&held) {
            Ok(()) => Ok(Self { dir: place, _held: held }),
            Err(LockError::Locked(by)) => {
                let by = by.map_or(String::new(), |p| format!(" (process {}, {})", p.pid, p.name));
                bail!(
                    "{}: another plumb watch{by} keeps its windows there; name another directory",
                    dir.display()
                )
            }
            Err(LockError::System(error)) => Err(error).with_context(|| place.display().to_string()),
        }
    }

    /// What was asked for since.
    pub fn take(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let take = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| is_name(name))?;
            std::fs::remove_file(entry.path()).ok().map(|()| name)
        };
        entries.filter_map(take).take(MOST).collect()
    }
}

/// Asks the watch of a directory for a run.
///
/// # Errors
/// Nobody watches there, or the name is none.
pub fn ask(dir: &Path, name: &str) -> Result<()> {
    if !is_name(name) {
        bail!("--name '{name}': a name has up to {LONGEST} letters, digits, - and _, for it is part of a directory's");
    }
    let place = place(dir);
    let nobody = || {
        format!("{}: no plumb watch keeps its windows there; start one, or name its directory", dir.display())
    };
    let there = File::open(&place).with_context(nobody)?;
    if lock(&there).is_ok() {
        bail!("{}", nobody());
    }
    let file = place.join(name);
    // Who else may ask could have put a link there.
    match File::options().write(true).create_new(true).open(&file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| file.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watch_answers_and_only_while_it_is_there() {
        let dir = tempfile::tempdir().expect("directory");
        assert!(ask(dir.path(), "oom").expect_err("nobody").to_string().contains("no plumb watch"));
        let asked = Asked::open(dir.path()).expect("free");
        let other = Asked::open(dir.path()).expect_err("taken").to_string();
        assert!(
            other.contains("another plumb watch") && other.contains(&std::process::id().to_string()),
            "{other}"
        );
        for name in ["oom", "oom", "fatal"] {
            ask(dir.path(), name).expect("somebody watches");
        }
        std::fs::write(dir.path().join("asked/not a name"), "").expect("a file");
        assert!(ask(dir.path(), "../oom").expect_err("no name").to_string().contains("letters"));
        let mut names = asked.take();
        names.sort();
        assert_eq!(names, ["fatal", "oom"]);
        assert!(asked.take().is_empty(), "once");
        drop(asked);
        assert!(ask(dir.path(), "oom").expect_err("gone").to_string().contains("no plumb watch"));
    }
}
