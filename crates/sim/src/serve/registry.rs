// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which disks are served on this machine: a directory with a file `NAME.json` and a control socket
//! `NAME.sock` for each.
//!
//! It lies in /run/plumb/disks for root, in $XDG_RUNTIME_DIR/plumb/disks for others, and where
//! $PLUMB_RUNTIME_DIR says for who wants one apart. An entry whose server is gone without removing it
//! (kill -9) is removed by whoever looks next, and what it had changed is changed back.

use super::loop_device::Changed;
use super::{nbd, Backing, Disk};
use anyhow::{bail, Context, Result};
use plumb_machine::process::Identity;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest name: a socket's path has at most 107 bytes (unix(7)).
const LONGEST: usize = 48;

/// What the registry says of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub disk: Disk,
    /// Whether requests are served; before, only the name is taken.
    pub ready: bool,
    /// The process that holds the loop device.
    pub holder: Option<u32>,
    /// What of the loop device's queue is changed back at the end.
    pub changed: Vec<Changed>,
}

#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

/// When a process was started, clock ticks after boot; none when it is gone, or dead and not yet
/// waited for.
pub fn start_of(pid: u32) -> Option<u64> {
    Identity::of(pid as i32).filter(|p| p.runs()).map(|p| p.start)
}

/// Whether a disk's server lives.
pub fn alive(disk: &Disk) -> bool {
    Identity { pid: disk.pid as i32, start: disk.start }.runs()
}

/// Whether a disk may be called so.
///
/// # Errors
/// It may not; why, and what may be said.
pub fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= LONGEST && name.chars().all(good) {
        return Ok(());
    }
    bail!("'{name}' is no name for a disk: at most {LONGEST} letters, digits, '.', '_' and '-', a letter or digit first");
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Registry {
    /// Where this user's registry lies; it need not be there.
    pub fn find() -> Self {
        // SAFETY: a call without arguments.
        let user = unsafe { libc::geteuid() };
        let given = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let dir = match given("PLUMB_RUNTIME_DIR") {
            Some(dir) => dir,
            None if user == 0 => "/run/plumb".into(),
            None => match given("XDG_RUNTIME_DIR") {
                Some(dir) => dir.join("plumb"),
                None => std::env::temp_dir().join(format!("plumb-{user}")),
            },
        };
        Self { dir: dir.join("disks") }
    }

    /// Makes the directory where it is not there yet.
    ///
    /// # Errors
    /// It cannot be made, or is somebody else's.
    pub fn make(&self) -> Result<()> {
        let dir = &self.dir;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .with_context(|| format!("{}: the list of served disks cannot be kept there", dir.display()))?;
        // SAFETY: a call without arguments.
        let user = unsafe { libc::geteuid() };
        let owner = std::fs::metadata(dir).with_context(|| dir.display().to_string())?.uid();
        if owner != user {
            bail!(
                "{}: belongs to user {owner}; set PLUMB_RUNTIME_DIR to a directory of your own",
                dir.display()
            );
        }
        Ok(())
    }

    /// Nobody else changes the registry until this is dropped.
    fn lock(&self) -> Result<File> {
        let dir = File::open(&self.dir).with_context(|| self.dir.display().to_string())?;
        // SAFETY: an open descriptor.
        if unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX) } != 0 {
            bail!("{}: flock: {}", self.dir.display(), std::io::Error::last_os_error());
        }
        Ok(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    /// Where a disk's server listens for orders.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.sock"))
    }

    fn read(path: &Path) -> Option<Entry> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Removes what is left of a dead one; the registry is locked. Names the files that were there.
    fn bury(&self, entry: &Entry) -> Vec<String> {
        let file = format!("plumb-disk-{}", entry.disk.name);
        entry.changed.iter().for_each(|change| change.restore_after(&file));
        // The entry last: who is killed between the two is told by it.
        let nbd = entry.disk.nbd.as_deref().and_then(nbd::socket_path).filter(|path| nbd::is_dead(path));
        let own = [self.socket(&entry.disk.name), self.file(&entry.disk.name)];
        let all = nbd.map(Path::to_path_buf).into_iter().chain(own);
        all.filter(|path| std::fs::remove_file(path).is_ok()).map(|path| file_name(&path)).collect()
    }

    /// Removes what a server that was killed while it wrote left; the registry is locked, so that nobody writes.
    fn sweep(&self) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        for file in std::fs::read_dir(&self.dir).with_context(|| self.dir.display().to_string())?.flatten() {
            let path = file.path();
            let is_new = file_name(&path).strip_prefix('.').is_some_and(|n| {
                n.rsplit_once('.')
                    .is_some_and(|(_, pid)| !pid.is_empty() && pid.chars().all(|c| c.is_ascii_digit()))
            });
            let ownerless =
                path.extension().is_some_and(|e| e == "sock") && !path.with_extension("json").exists();
            if (is_new || ownerless) && std::fs::remove_file(&path).is_ok() {
                gone.push(file_name(&path));
            }
        }
        Ok(gone)
    }

    fn living(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for name in self.sweep()? {
            eprintln!(
                "plumb: {}: the process that wrote it was killed; removed",
                self.dir.join(name).display()
            );
        }
        for file in std::fs::read_dir(&self.dir).with_context(|| self.dir.display().to_string())?.flatten() {
            let path = file.path();
            if path.extension().is_none_or(|e| e != "json") {
                continue;
            }
            match Self::read(&path) {
                Some(entry) if alive(&entry.disk) => entries.push(entry),
                Some(entry) => {
                    let gone = self.bury(&entry).join(", ");
                    let back: Vec<String> = entry.changed.iter().map(|c| file_name(&c.path)).collect();
                    let back = if back.is_empty() {
                        back.join("")
                    } else {
                        format!("; put back {}", back.join(", "))
                    };
                    eprintln!("plumb: disk {}: its server was killed; removed {gone}{back}", entry.disk.name);
                }
                // Of another version of the program: its own to remove.
                None => {}
            }
        }
        entries.sort_by(|a, b| a.disk.name.cmp(&b.disk.name));
        Ok(entries)
    }

    /// Those whose servers live, by name; the others are removed.
    ///
    /// # Errors
    /// The directory is there and cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        match std::fs::metadata(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            _ => {}
        }
        let _lock = self.lock()?;
        self.living()
    }

    fn write(&self, entry: &Entry) -> Result<()> {
        let path = self.file(&entry.disk.name);
        let new = self.dir.join(format!(".{}.{}", entry.disk.name, std::process::id()));
        let _ = std::fs::remove_file(&new);
        let text = serde_json::to_vec_pretty(entry)?;
        let made = File::options().write(true).create_new(true).mode(0o600).open(&new);
        made.and_then(|mut file| file.write_all(&text))
            .and_then(|()| std::fs::rename(&new, &path))
            .inspect_err(|_| drop(std::fs::remove_file(&new)))
            .with_context(|| path.display().to_string())
    }

    /// Takes a name for a disk: the one that it has, or where that is empty `model`, with a number if
    /// that is taken; and refuses a file that another disk is kept in.
    ///
    /// # Errors
    /// The name is taken, the file is another disk's, or the directory cannot be written.
    pub fn claim(&self, entry: &mut Entry, model: &str) -> Result<()> {
        self.make()?;
        let _lock = self.lock()?;
        let living = self.living()?;
        if let Backing::File(file) = &entry.disk.backing {
            let inode = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
            let own = inode(file);
            let same = |other: &Entry| match &other.disk.backing {
                Backing::File(path) => path == file || (own.is_some() && inode(path) == own),
                Backing::Memory => false,
            };
            if let Some(other) = living.iter().find(|e| same(e)) {
                let name = &other.disk.name;
                bail!("{}: the disk {name} is kept in it; plumb disk stop {name} ends that", file.display());
            }
        }
        let taken = |name: &str| {
            living.iter().find(|e| e.disk.name == name).map(|e| e.disk.pid).or_else(|| {
                // An entry that cannot be read is somebody's too.
                self.file(name).exists().then_some(0)
            })
        };
        let name = &mut entry.disk.name;
        if name.is_empty() {
            let plain: String = model
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
                .collect();
            let plain = plain.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let plain = if plain.is_empty() { "disk" } else { plain };
            let plain = &plain[..plain.len().min(LONGEST - 6)];
            let numbered = (2..100_000).map(|n| format!("{plain}-{n}"));
            let free = std::iter::once(plain.to_owned()).chain(numbered).find(|n| taken(n).is_none());
            *name = free.context("no name is free; give one with --name")?;
        } else {
            check_name(name)?;
            match taken(name) {
                None => {}
                Some(0) => bail!(
                    "the name {name} is taken by an entry that cannot be read: {}; remove it if no other plumb uses it",
                    self.file(name).display()
                ),
                Some(pid) => bail!(
                    "the name {name} is taken by a disk that process {pid} serves; plumb disk stop {name} ends it, --name gives another name"
                ),
            }
        }
        let _ = std::fs::remove_file(self.socket(&entry.disk.name));
        self.write(entry)
    }

    /// Writes a claimed entry anew.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn update(&self, entry: &Entry) -> Result<()> {
        let _lock = self.lock()?;
        self.write(entry)
    }

    /// Removes an entry, if it is still this one.
    pub fn remove(&self, entry: &Entry) {
        let Ok(_lock) = self.lock() else { return };
        let same = |now: &Entry| (now.disk.pid, now.disk.start) == (entry.disk.pid, entry.disk.start);
        if Self::read(&self.file(&entry.disk.name)).is_some_and(|now| same(&now)) {
            self.bury(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;
    use plumb_load::job::Bytes;

    fn entry(name: &str) -> Entry {
        let pid = std::process::id();
        let disk = Disk {
            name: name.into(),
            device: None,
            nbd: None,
            spec: Spec::preset("instant").expect("a preset"),
            size: Bytes(1 << 20),
            seed: 1,
            backing: Backing::Memory,
            log: None,
            pid,
            start: start_of(pid).expect("this process"),
            timing: None,
            untimed: None,
        };
        Entry { disk, ready: true, holder: None, changed: Vec::new() }
    }

    fn registry() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().expect("directory");
        let registry = Registry { dir: dir.path().join("disks") };
        (dir, registry)
    }

    fn names(registry: &Registry) -> Vec<String> {
        registry.entries().expect("entries").into_iter().map(|e| e.disk.name).collect()
    }

    #[test]
    fn a_name_is_taken_once_and_numbered_where_none_was_given() {
        let (_dir, registry) = registry();
        assert!(names(&registry).is_empty(), "no directory, no disks");
        registry.claim(&mut entry("a"), "model").expect("free");
        let error = registry.claim(&mut entry("a"), "model").expect_err("taken").to_string();
        assert!(
            error.contains("plumb disk stop a") && error.contains(&std::process::id().to_string()),
            "{error}"
        );
        for expected in ["my-model", "my-model-2", "my-model-3"] {
            let mut unnamed = entry("");
            registry.claim(&mut unnamed, "my model").expect("numbered");
            assert_eq!(unnamed.disk.name, expected);
        }
        registry.remove(&entry("my-model-2"));
        assert_eq!(names(&registry), ["a", "my-model", "my-model-3"]);
    }

    #[test]
    fn who_is_gone_is_removed_and_what_it_changed_changed_back() {
        let (dir, registry) = registry();
        let knob = dir.path().join("knob");
        std::fs::write(&knob, "write through").expect("write");
        let mut dead = entry("dead");
        dead.disk.start += 1;
        dead.changed =
            vec![Changed { path: knob.clone(), old: "write back".into(), new: "write through".into() }];
        registry.claim(&mut dead, "model").expect("free");
        std::fs::write(registry.socket("dead"), "").expect("write");
        registry.claim(&mut entry("alive"), "model").expect("free");
        assert_eq!(names(&registry), ["alive"]);
        assert!(!registry.socket("dead").exists());
        assert_eq!(std::fs::read_to_string(&knob).expect("read"), "write back");
        registry.claim(&mut entry("dead"), "model").expect("free again");
    }

    #[test]
    fn what_a_killed_server_was_writing_is_removed() {
        let (_dir, registry) = registry();
        registry.claim(&mut entry("a"), "model").expect("free");
        std::fs::write(registry.socket("a"), "").expect("write");
        for left in [".a.4711", ".b.c.1", "b.sock"] {
            std::fs::write(registry.dir.join(left), "half").expect("write");
        }
        std::fs::write(registry.dir.join("other.json"), "of another version").expect("write");
        std::fs::write(registry.socket("other"), "").expect("write");
        assert_eq!(names(&registry), ["a"]);
        let left = std::fs::read_dir(&registry.dir).expect("read").flatten();
        let mut left: Vec<String> = left.map(|e| file_name(&e.path())).collect();
        left.sort();
        assert_eq!(left, ["a.json", "a.sock", "other.json", "other.sock"]);
    }

    #[test]
    fn an_entry_is_removed_only_by_its_own_server() {
        let (_dir, registry) = registry();
        registry.claim(&mut entry("a"), "model").expect("free");
        let mut other = entry("a");
        other.disk.pid += 1;
        registry.remove(&other);
        assert_eq!(names(&registry), ["a"]);
        registry.remove(&entry("a"));
        assert!(names(&registry).is_empty());
    }

    #[test]
    fn a_file_is_one_disks() {
        let (dir, registry) = registry();
        let file = dir.path().join("image");
        std::fs::write(&file, "").expect("write");
        std::fs::hard_link(&file, dir.path().join("same")).expect("link");
        let mut first = entry("a");
        first.disk.backing = Backing::File(file);
        registry.claim(&mut first, "model").expect("free");
        let mut second = entry("b");
        second.disk.backing = Backing::File(dir.path().join("same"));
        let error = registry.claim(&mut second, "model").expect_err("the same file").to_string();
        assert!(error.contains("plumb disk stop a"), "{error}");
    }

    #[test]
    fn names_are_checked() {
        for good in ["a", "disk-1", "A.b_c"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "a/b", "a b", "../x", &"x".repeat(49)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_process_is_told_from_a_later_one_and_a_dead_one_is_none() {
        assert!(start_of(std::process::id()).is_some_and(|s| s > 0));
        assert_eq!(start_of(u32::MAX), None);
        let mut child = std::process::Command::new("true").spawn().expect("true");
        assert!(super::super::loop_device::within(std::time::Duration::from_secs(10), || {
            start_of(child.id()).is_none()
        }));
        child.wait().expect("wait");
    }
}
