// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hands of a governor: a directory with the journal of what it changes, and a guardian that puts it back if
//! this process is killed. Of both killed, the next one puts it back.

use anyhow::{bail, Context, Result};
use plumb_govern::cgroup::{Controller, Group, Version};
use plumb_plan::own_devices::OWN;
use plumb_undo::change::{Change, Held};
use plumb_undo::guardian::{Guardian, Whose};
use plumb_undo::journal::{restore, Journal, JOURNAL};
use plumb_undo::lock::{holder_of_directory, Locks};
use plumb_undo::undone::Undone;
use std::path::{Path, PathBuf};

const GOVERNOR: Whose =
    Whose { who: "plumb govern", restore: "plumb plan restore", only_journal: true, devices: &OWN };

pub struct Session {
    pub journal: Journal,
    guardian: Guardian,
    dir: PathBuf,
    _locks: Locks,
}

/// Where the directories lie: gone with the machine's next start, as the limits are.
fn base() -> PathBuf {
    let run = std::env::var_os("PLUMB_RUNTIME_DIR").map_or_else(|| "/run/plumb".into(), PathBuf::from);
    run.join("govern")
}

/// Whether a process of that number runs this program.
fn is_plumb(pid: &str) -> bool {
    let exe = |pid: &str| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    exe(pid).is_some_and(|theirs| exe("self") == Some(theirs))
}

/// Puts back what killed ones left where nobody does; says each thing.
///
/// # Errors
/// Something cannot be put back; named.
pub fn restore_left() -> Result<Vec<String>> {
    let mut said = Vec::new();
    for entry in std::fs::read_dir(base()).into_iter().flatten().flatten() {
        let dir = entry.path();
        // One that works holds its lock, and so does a guardian; one that begins is about to take it.
        let begins = !dir.join(JOURNAL).exists() && is_plumb(&entry.file_name().to_string_lossy());
        if holder_of_directory(&dir).is_some() || begins {
            continue;
        }
        let mut locks = Locks::default();
        match locks.directory(&dir) {
            // It has ended properly just now.
            Err(_) if !dir.exists() => continue,
            locked => locked?,
        };
        if !restore(&dir, Held::NotSince, &OWN, &mut |line| said.push(line.to_string()))? {
            bail!(
                "{}: what an earlier plumb govern changed cannot all be put back: {}; mend it, then 'plumb govern --restore'",
                dir.display(),
                said.join("; ")
            );
        }
        std::fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
        said.push(format!("{}: removed", dir.display()));
    }
    Ok(said)
}

impl Session {
    /// Begins. This process must have one thread.
    ///
    /// # Errors
    /// Somebody governs one of these groups already, or there is no place for the journal.
    pub fn begin(low: &[Group]) -> Result<Session> {
        let dir = base().join(std::process::id().to_string());
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let mut locks = Locks::default();
        locks.run(&dir)?;
        for group in low {
            if let Err(error) = locks.group(&group.dir) {
                // Nothing is in it.
                let _ = std::fs::remove_dir(&dir);
                return Err(error);
            }
        }
        let mut journal = Journal::open(&dir, &OWN)?;
        journal.begin()?;
        let guardian = Guardian::start(&dir, GOVERNOR)?;
        Ok(Session { journal, guardian, dir, _locks: locks })
    }

    /// A cgroup for a command.
    ///
    /// # Errors
    /// It cannot be made, or cannot be limited.
    pub fn make_group(&mut self, controller: &Controller) -> Result<Group> {
        if controller.version == Version::V2 {
            self.give_controller(&controller.mount)?;
        }
        let dir = controller.mount.join(format!("plumb-govern-{}", std::process::id()));
        Journal::will(&mut self.journal, Change::Cgroup { path: dir.clone() })?;
        std::fs::create_dir(&dir).with_context(|| format!("make cgroup {}", dir.display()))?;
        let group = Group { version: controller.version, dir };
        group.can_be_limited()?;
        Ok(group)
    }

    /// Groups directly below the root of v2 get the controllers of I/O and, for whose dirty pages are written back, of
    /// memory.
    fn give_controller(&mut self, mount: &Path) -> Result<()> {
        let path = mount.join("cgroup.subtree_control");
        let read = || std::fs::read_to_string(&path).with_context(|| path.display().to_string());
        for (name, needed) in [("io", true), ("memory", false)] {
            if read()?.split_whitespace().any(|c| c == name) {
                continue;
            }
            let new = format!("+{name}");
            let change = Change::Controller { path: path.clone(), name: name.into() };
            let number = Journal::will(&mut self.journal, change)?;
            match std::fs::write(&path, &new) {
                Ok(()) => {}
                Err(e) if needed => {
                    return Err(e).with_context(|| format!("{}: does not take {new}", path.display()))
                }
                Err(_) => self.journal.done(number)?,
            }
        }
        Ok(())
    }

    /// Puts everything back and ends.
    ///
    /// # Errors
    /// Something stands; named.
    pub fn close(mut self) -> Result<()> {
        let mut stands = Vec::new();
        for undone in self.journal.undo_since(0) {
            match undone {
                Undone::Forced(what) => eprintln!("plumb: {what}"),
                Undone::LeftAlone(what) => eprintln!("plumb: left alone: {what}"),
                Undone::Failed(what) => stands.push(what),
                Undone::Nothing | Undone::Did(_) => {}
            }
        }
        self.guardian.goodbye();
        if !stands.is_empty() {
            bail!("cannot be put back: {}; mend it, then 'plumb govern --restore'", stands.join("; "));
        }
        std::fs::remove_dir_all(&self.dir).with_context(|| self.dir.display().to_string())
    }
}
