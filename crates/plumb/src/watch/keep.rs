// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb watch` keeps, and what goes: windows/DATE.jsonl and runs/DATE-TIME-TRIGGER/ in a directory of its own.

use super::config::Retention;
use super::say;
use anyhow::{Context, Result};
use plumb_machine::json::{self, Output};
use plumb_machine::{output, utc_of};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory.
#[derive(Debug, Clone)]
pub struct Store {
    windows: PathBuf,
    runs: PathBuf,
    retention: Retention,
}

/// One thing that is kept.
struct Kept {
    path: PathBuf,
    bytes: u64,
    /// When it was written last.
    at: SystemTime,
}

impl Store {
    /// # Errors
    /// It cannot be made, or belongs to somebody else.
    pub fn open(dir: &Path, retention: Retention) -> Result<Self> {
        let (windows, runs) = (dir.join("windows"), dir.join("runs"));
        output::directory(&windows)?;
        output::directory(&runs)?;
        Ok(Self { windows, runs, retention })
    }

    /// Appends an item to its day's file; `at`: seconds after 1970.
    ///
    /// # Errors
    /// As write(2); a part of a line is cut off again.
    pub fn window<T: Output>(&self, at: u64, item: &T) -> Result<()> {
        let path = self.windows.join(format!("{}.jsonl", &utc_of(at)[..10]));
        let append = || -> std::io::Result<()> {
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let mut file = File::options().create(true).append(true).custom_flags(flags).open(&path)?;
            let before = file.metadata()?.len();
            let mut lines = Vec::new();
            if before == 0 {
                json::begin_lines::<T>(&mut lines)?;
            }
            json::line(&mut lines, item)?;
            file.write_all(&lines).inspect_err(|_| _ = file.set_len(before))
        };
        append().with_context(|| path.display().to_string())
    }

    /// The directory of a run that there is not yet.
    pub fn run(&self, at: u64, name: &str) -> PathBuf {
        let stamp: String = utc_of(at).chars().filter(char::is_ascii_digit).collect();
        let (date, time) = stamp.split_at(8.min(stamp.len()));
        let base = format!("{date}-{time}-{name}");
        let numbered = (2..).map(|n| self.runs.join(format!("{base}-{n}")));
        std::iter::once(self.runs.join(&base)).chain(numbered).find(|dir| !dir.exists()).unwrap_or_default()
    }

    /// Removes what is too old, and of what is too much the oldest runs, then windows: those are small, and tell of
    /// all the time. `now`: seconds after 1970.
    pub fn retain(&self, now: u64) {
        let all = [&self.runs, &self.windows].map(|dir| {
            let mut all: Vec<Kept> = kept(dir).collect();
            all.sort_by_key(|k| k.at);
            all
        });
        let mut bytes: u64 = all.iter().flatten().map(|k| k.bytes).sum();
        let oldest =
            UNIX_EPOCH + Duration::from_secs(now).saturating_sub(Duration::from_nanos(self.retention.age));
        // The newest of each stays, however large: it is being written.
        for kept in all.iter().flat_map(|all| all.iter().take(all.len().saturating_sub(1))) {
            if kept.at >= oldest && bytes <= self.retention.size {
                continue;
            }
            let gone = if kept.path.is_dir() {
                std::fs::remove_dir_all(&kept.path)
            } else {
                std::fs::remove_file(&kept.path)
            };
            match gone {
                Ok(()) => bytes -= kept.bytes,
                Err(error) => say(&format!("{}: {error}", kept.path.display())),
            }
        }
    }
}

/// What lies in a directory and is called as [`Store`] calls things: nothing else is ever removed.
fn kept(dir: &Path) -> impl Iterator<Item = Kept> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let digits = name.chars().filter(|c| *c != '-').take(8).filter(char::is_ascii_digit).count();
        let meta = entry.metadata().ok()?;
        let (path, at) = (entry.path(), meta.modified().ok()?);
        let bytes = if meta.is_dir() { size(&path) } else { meta.len() };
        (digits == 8).then_some(Kept { path, bytes, at })
    })
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_live::shown::Shown;

    const DAY: u64 = 86_400;
    const AT: u64 = 20_000 * DAY;

    fn store(size: u64, days: u64) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("directory");
        let retention = Retention { size, age: days * DAY * 1_000_000_000 };
        let store = Store::open(dir.path(), retention).expect("ours");
        (dir, store)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .expect("a directory")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// As if it was written then.
    fn aged(path: &Path, at: u64) {
        File::open(path)
            .and_then(|f| f.set_modified(UNIX_EPOCH + Duration::from_secs(at)))
            .expect("its time");
    }

    #[test]
    fn windows_are_lines_of_their_day() {
        let (_dir, store) = store(u64::MAX, 7);
        for at in [AT, AT + 60, AT + DAY] {
            store.window(at, &Shown::default()).expect("room");
        }
        assert_eq!(names(&store.windows), ["2024-10-04.jsonl", "2024-10-05.jsonl"]);
        let text = std::fs::read_to_string(store.windows.join("2024-10-04.jsonl")).expect("lines");
        let begins: Vec<&str> = text.lines().map(|l| &l[..10]).collect();
        assert_eq!(begins, ["{\"format\":", "{\"seconds\"", "{\"seconds\""]);
        let run = store.run(AT + 3661, "slow");
        assert!(run.ends_with("runs/20241004-010101-slow"), "{}", run.display());
        std::fs::create_dir(&run).expect("room");
        assert!(store.run(AT + 3661, "slow").ends_with("runs/20241004-010101-slow-2"));
    }

    #[test]
    fn what_is_old_or_too_much_goes_and_nothing_else() {
        let (_dir, store) = store(2500, 7);
        let run = |day: u64| {
            let dir = store.run(AT + day * DAY, "slow");
            std::fs::create_dir_all(dir.join("trace")).expect("room");
            std::fs::write(dir.join("trace/cpu_0"), vec![0; 1000]).expect("room");
            aged(&dir, AT + day * DAY);
        };
        (0..10).for_each(run);
        std::fs::create_dir(store.runs.join("of-somebody-else")).expect("room");
        aged(&store.runs.join("of-somebody-else"), AT);
        store.retain(AT + 10 * DAY);
        assert_eq!(names(&store.runs), ["20241012-000000-slow", "20241013-000000-slow", "of-somebody-else"]);
        store.retain(AT + 100 * DAY);
        assert_eq!(names(&store.runs), ["20241013-000000-slow", "of-somebody-else"], "the newest stays");
    }
}
