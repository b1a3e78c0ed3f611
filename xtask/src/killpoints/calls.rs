// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which system calls change the system: mounts, loop and device-mapper devices, cgroups, settings, BPF objects, names
//! of files; and the lines of a journal, since a kill may come between a line and its change.

use std::path::{Path, PathBuf};

/// The undo journal's name in its directory.
const JOURNAL: &str = "changes.jsonl";

/// A change that a system call is about to make.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Mount(PathBuf),
    Unmount(PathBuf),
    /// A directory, file, link or socket with a name.
    Make(PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    /// A file of /sys or /proc/sys, or of a tree that stands for them.
    Setting(PathBuf),
    /// A file of a command's own is written, or cut to nothing.
    Write(PathBuf),
    /// A line of an undo journal.
    Journal,
    /// Something that an object of the kernel is told (ioctl).
    Order(&'static str),
    /// A BPF program, map or link.
    Bpf(&'static str),
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mount(path) => write!(f, "mount {}", path.display()),
            Self::Unmount(path) => write!(f, "umount {}", path.display()),
            Self::Make(path) => write!(f, "make {}", path.display()),
            Self::Remove(path) => write!(f, "remove {}", path.display()),
            Self::Rename(_, to) => write!(f, "rename to {}", to.display()),
            Self::Setting(path) => write!(f, "set {}", path.display()),
            Self::Write(path) => write!(f, "write {}", path.display()),
            Self::Journal => write!(f, "write {JOURNAL}"),
            Self::Order(what) | Self::Bpf(what) => write!(f, "{what}"),
        }
    }
}

/// What of the file system a command may change without that being a change of the system.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Its output, which stays: only journals and mount points in it count.
    pub output: Option<PathBuf>,
    /// A tree that stands for the machine's root: writes in it are settings.
    pub tree: Option<PathBuf>,
}

impl Scope {
    /// Whether a name that is made or removed counts.
    fn names(&self, path: &Path) -> bool {
        let Some(output) = self.output.as_ref().filter(|o| path.starts_with(o)) else {
            return !own_process(path) && !path.starts_with("/dev/pts");
        };
        let first = path.strip_prefix(output).ok().and_then(|p| p.components().next());
        // What is within the mount goes with it.
        first.is_some_and(|c| c.as_os_str() == "mount")
            && path.components().count() <= output.components().count() + 2
    }

    /// What a write to this file is.
    pub fn write(&self, path: &Path) -> Option<Change> {
        if path.file_name().is_some_and(|n| n == JOURNAL) {
            return Some(Change::Journal);
        }
        let kernel = path.starts_with("/sys") || path.starts_with("/proc/sys");
        let tree = self.tree.as_ref().filter(|t| path.starts_with(t));
        match (kernel, tree) {
            (true, _) => Some(Change::Setting(path.into())),
            (_, Some(tree)) if path.starts_with(tree.join("sys")) => Some(Change::Setting(path.into())),
            (_, Some(_)) => Some(Change::Write(path.into())),
            _ => None,
        }
    }

    pub fn make(&self, path: PathBuf) -> Option<Change> {
        self.names(&path).then_some(Change::Make(path))
    }

    pub fn remove(&self, path: PathBuf) -> Option<Change> {
        self.names(&path).then_some(Change::Remove(path))
    }

    pub fn rename(&self, from: PathBuf, to: PathBuf) -> Option<Change> {
        self.names(&to).then_some(Change::Rename(from, to))
    }

    /// A file that is there and is opened to be written anew. sysfs has no such thing, also where a tree stands for it.
    pub fn truncate(&self, path: PathBuf) -> Option<Change> {
        match self.write(&path) {
            Some(Change::Write(path)) => Some(Change::Write(path)),
            _ => None,
        }
    }
}

/// Attributes of processes end with them.
fn own_process(path: &Path) -> bool {
    path.starts_with("/proc") && !path.starts_with("/proc/sys")
}

/// What a request of ioctl(2) changes.
pub fn ioctl(request: u32) -> Option<Change> {
    let what = match request {
        0x4c00 => "LOOP_SET_FD",
        0x4c01 => "LOOP_CLR_FD",
        0x4c02 | 0x4c04 => "LOOP_SET_STATUS",
        0x4c06 => "LOOP_CHANGE_FD",
        0x4c07 => "LOOP_SET_CAPACITY",
        0x4c08 => "LOOP_SET_DIRECT_IO",
        0x4c09 => "LOOP_SET_BLOCK_SIZE",
        0x4c0a => "LOOP_CONFIGURE",
        0x4c80..=0x4c82 => "LOOP_CTL",
        // NBD_SET_SOCK to NBD_SET_FLAGS
        0xab00..=0xab0a => "NBD ioctl",
        0xc004_5877 => "FIFREEZE",
        0xc004_5878 => "FITHAW",
        // DM_DEV_CREATE to DM_TABLE_CLEAR, without what only tells
        _ if (request >> 8) & 0xff == 0xfd && matches!(request & 0xff, 1 | 3..=6 | 9 | 10) => "DM ioctl",
        _ => return None,
    };
    Some(Change::Order(what))
}

/// What a command of bpf(2) makes.
pub fn bpf(command: u64) -> Option<Change> {
    let what = match command {
        0 => "BPF_MAP_CREATE",
        5 => "BPF_PROG_LOAD",
        6 => "BPF_OBJ_PIN",
        8 => "BPF_PROG_ATTACH",
        17 => "BPF_RAW_TRACEPOINT_OPEN",
        28 => "BPF_LINK_CREATE",
        _ => return None,
    };
    Some(Change::Bpf(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_no_change_but_its_journal_and_mount_points_are() {
        let scope = Scope { output: Some("/s/out".into()), tree: None };
        assert_eq!(scope.make("/s/out/plan.json".into()), None);
        assert!(
            scope.make("/s/out/mount".into()).is_some() && scope.make("/s/out/mount/disk".into()).is_some()
        );
        assert_eq!(scope.make("/s/out/mount/disk/file".into()), None);
        assert!(scope.make("/run/x".into()).is_some());
        assert_eq!(scope.write(Path::new("/s/out/changes.jsonl")), Some(Change::Journal));
        assert_eq!(scope.write(Path::new("/s/out/output.txt")), None);
        assert_eq!(scope.write(Path::new("/proc/self/oom_score_adj")), None);
        let knob = Path::new("/sys/block/sda/queue/scheduler");
        assert_eq!(scope.write(knob), Some(Change::Setting(knob.into())));
    }

    #[test]
    fn a_tree_has_settings_and_files() {
        let scope = Scope { output: None, tree: Some("/t".into()) };
        let (knob, rules) = ("/t/sys/devices/sda/queue/scheduler", "/t/etc/udev/rules.d/a.rules");
        assert_eq!(scope.write(Path::new(knob)), Some(Change::Setting(knob.into())));
        assert_eq!(scope.write(Path::new(rules)), Some(Change::Write(rules.into())));
        assert_eq!(scope.truncate(knob.into()), None);
        assert!(scope.truncate(rules.into()).is_some());
    }

    #[test]
    fn what_only_tells_is_no_change() {
        assert_eq!((ioctl(0x4c03), ioctl(0x4c05), ioctl(0xc138_fd00)), (None, None, None));
        assert!(ioctl(0x4c0a).is_some() && ioctl(0xc138_fd03).is_some());
        assert!(bpf(1).is_none() && bpf(5).is_some());
    }
}
