// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What there is on this machine: kernel, tools, devices. Read only; nothing is loaded or changed.

use plumb_machine::system::available_memory;
use plumb_machine::{Block, Root};
use plumb_probe::check::{self, Status};
use plumb_trace::suggest::nearest;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A machine; what takes long to look up is looked up once.
#[derive(Debug)]
pub struct Machine {
    root: Root,
    path: Vec<PathBuf>,
    user: u32,
    recording: OnceCell<Option<String>>,
    loads: RefCell<HashMap<Vec<OsString>, Option<String>>>,
}

impl Machine {
    pub fn real() -> Machine {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut path: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // mkfs lies in sbin, which users' PATH often lacks.
        path.extend(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
        // SAFETY: a call without arguments.
        Machine::at(Root::real(), path, unsafe { libc::geteuid() })
    }

    /// One whose /proc, /sys, /dev and /lib lie in a tree.
    pub(super) fn at(root: Root, path: Vec<PathBuf>, user: u32) -> Machine {
        Machine { root, path, user, recording: OnceCell::new(), loads: RefCell::default() }
    }

    /// Whether this user may do all that a plan does.
    pub fn is_root(&self) -> bool {
        self.user == 0
    }

    /// Whether a program is there: a path that can be run, or a name in PATH or sbin.
    pub fn tool(&self, name: &str) -> bool {
        let runs = |path: PathBuf| {
            std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        match name.contains('/') {
            true => runs(PathBuf::from(name)),
            false => self.path.iter().any(|dir| runs(dir.join(name))),
        }
    }

    pub(super) fn limits_memory(&self) -> bool {
        crate::confine::root_of_memory(&self.root).is_some()
    }

    pub(super) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.root.path(path).exists()
    }

    pub(super) fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.root.path(path).is_dir()
    }

    /// Bytes that may be taken without swapping.
    pub fn available_memory(&self) -> Option<u64> {
        available_memory(&self.root)
    }

    /// The directory in /sys of the whole disk that a node stands for.
    pub(super) fn disk(&self, node: &Path) -> Option<PathBuf> {
        let block = Block::of(self.root.device(node)?, &self.root)?;
        Some(block.disk(&self.root).unwrap_or(block).dir)
    }

    /// The queue of a device like one that is served: a loop device, or any.
    pub(super) fn any_queue(&self) -> Option<PathBuf> {
        let disks = Block::disks(&self.root);
        let like = disks.iter().find(|d| d.name.starts_with("loop")).or(disks.first())?;
        Some(like.dir.join("queue"))
    }

    pub(super) fn knows_file_system(&self, kind: &str) -> bool {
        let known = self.root.text("/proc/filesystems").unwrap_or_default();
        known.lines().filter_map(|line| line.split_whitespace().last()).any(|word| word == kind)
            || self.module(&[kind.to_string(), format!("fs-{kind}")])
    }

    /// Why a scheduler cannot be set on a queue.
    pub(super) fn lacks_scheduler(&self, name: &str, queue: &Path) -> Option<String> {
        let listed = self.root.text(queue.join("scheduler"))?;
        let there: Vec<&str> = listed.split_whitespace().map(|w| w.trim_matches(['[', ']'])).collect();
        // The kernel loads the module of one that is not listed when it is asked for.
        let found = there.contains(&name) || self.module(&[name.to_string(), format!("{name}-iosched")]);
        (!found).then(|| format!("this kernel has no I/O scheduler {name}; there are: {}", there.join(", ")))
    }

    /// Why a file of /proc or /sys cannot be set.
    pub(super) fn lacks_file(&self, path: &Path) -> Option<String> {
        match std::fs::metadata(self.root.path(path)) {
            Err(_) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let there = path.parent().map(|dir| self.root.names(dir)).unwrap_or_default();
                let near = nearest(&name, &there).map(|n| format!("; did you mean {n}?"));
                Some(format!("this kernel has no {}{}", path.display(), near.unwrap_or_default()))
            }
            Ok(meta) if meta.is_dir() => Some(format!("{} is a directory", path.display())),
            Ok(meta) if meta.permissions().mode() & 0o222 == 0 => {
                Some(format!("{} can only be read", path.display()))
            }
            Ok(_) => None,
        }
    }

    /// Whether the running kernel has a module of one of these names or aliases, built in or to be loaded.
    ///
    /// Source: modules.dep(5), modules.alias: text with one module a line.
    fn module(&self, names: &[String]) -> bool {
        let Some(release) = self.root.text("/proc/sys/kernel/osrelease") else { return false };
        let plain = |name: &str| name.replace('-', "_");
        let wanted: Vec<String> = names.iter().map(|n| plain(n)).collect();
        let dir = Path::new("/lib/modules").join(release);
        let text = |file: &str| self.root.text(dir.join(file)).unwrap_or_default();
        let is_file = |line: &str| {
            let path = line.split(':').next().unwrap_or_default();
            let file = path.rsplit('/').next().unwrap_or_default();
            file.split_once(".ko").is_some_and(|(name, _)| wanted.contains(&plain(name)))
        };
        let is_alias = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some("alias") && words.next().is_some_and(|alias| wanted.contains(&plain(alias)))
        };
        text("modules.dep").lines().any(is_file)
            || text("modules.builtin").lines().any(is_file)
            || text("modules.alias").lines().any(is_alias)
    }

    /// Why nothing can be recorded here.
    pub(super) fn recording(&self) -> Option<String> {
        let look = || {
            let missing = check::run().into_iter().find(|c| c.status == Status::Missing)?;
            Some(format!(
                "cannot record: {} ({}); 'plumb check' says what to do",
                missing.name, missing.found
            ))
        };
        self.recording.get_or_init(look).clone()
    }

    /// What a load lacks, looked up once for all cells that have the same.
    pub(super) fn of_load(
        &self,
        words: Vec<OsString>,
        look: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        if let Some(known) = self.loads.borrow().get(&words) {
            return known.clone();
        }
        let found = look();
        self.loads.borrow_mut().insert(words, found.clone());
        found
    }
}
