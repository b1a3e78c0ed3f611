// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the system, as a journal has them. Their names and fields are a file format: a journal that a killed
//! older plumb left must stay readable.

use crate::devices::Devices;
use crate::limit::Limit;
use crate::mounted;
use plumb_machine::DeviceNumber;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kind of a device that is cleared for the file system that comes next.
pub const CLEARED: &str = "none";

/// How the name of a [`Change::Tree`] begins.
pub const SERVER: &str = "plumb-server-";

/// A change of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// A run began: what follows was done by this process since this boot of the machine.
    Began {
        /// The kernel's id of this boot.
        boot: String,
        pid: i32,
        /// When, UTC.
        utc: String,
    },
    /// A disk is served; undone by stopping it.
    Disk {
        /// Its name in the registry.
        name: String,
    },
    /// A directory is made; undone by removing it, if it is empty.
    Directory { path: PathBuf },
    /// A directory for a server's files is made; undone by removing it with all that is in it.
    Tree {
        /// Its name begins with [`SERVER`].
        path: PathBuf,
    },
    /// A file system is made. This is not undone: it is told to whoever reads the journal. Only one that was not
    /// finished is cleared from a device of this machine by the guardian, or no guard would let the next run near it.
    Formatted {
        device: PathBuf,
        /// `ext4`, `xfs`.
        kind: String,
    },
    /// A file system is mounted.
    Mount {
        point: PathBuf,
        device: PathBuf,
        /// The served disk that it is on, if it is on one.
        disk: Option<String>,
    },
    /// A word of a mounted file system is changed, to its opposite.
    Mounted {
        point: PathBuf,
        /// What is mounted there: another file system stays as it is.
        device: DeviceNumber,
        /// One of [`crate::mounted::WORDS`].
        old: String,
    },
    /// A file of /proc or /sys is written.
    Write {
        path: PathBuf,
        /// What it held (of a choice, the word in brackets); None of one that cannot be read, which is not undone.
        old: Option<String>,
        new: String,
        /// What to write, and where, to undo it, where that is not the old value: the kernel sets some values
        /// to 0 when their counterpart is set, and does not take the 0 back.
        instead: Option<(PathBuf, String)>,
    },
    /// The scheduler of a queue is about to change, which sets other attributes to their defaults.
    Queue {
        /// The queue's directory in sysfs.
        dir: PathBuf,
        values: BTreeMap<String, String>,
    },
    /// A cgroup is made; undone by moving what is in it to its parent and removing it.
    Cgroup { path: PathBuf },
    /// A cgroup v2 gives a controller to those below it.
    Controller {
        /// The file `cgroup.subtree_control` of the group.
        path: PathBuf,
        /// `io`.
        name: String,
    },
    /// A cgroup's limit of a disk is changed, now or later and maybe often.
    Limit(Limit),
    /// A command of the user's changed something; undone by another one of the user's.
    Command {
        name: String,
        /// Program and arguments; it does no harm where the first command was not run.
        undo: Vec<String>,
        /// Where both are run; none: wherever whoever undoes is.
        #[serde(default)]
        directory: Option<PathBuf>,
    },
    /// A process group works; undone by killing it.
    Processes {
        group: i32,
        /// The leader's start, clock ticks after boot.
        start: u64,
    },
}

impl Change {
    /// What makes it none of plumb's: every change is one of the kernel's settings, a mount, a served disk, processes, an
    /// empty directory or that of a server, of a guide also a command of the user's. What a journal says besides is not done.
    pub fn is_foreign(&self, devices: &dyn Devices) -> Option<String> {
        let no_setting = |path: &Path| {
            (!devices.is_setting(path)).then(|| format!("{} is no setting of the kernel's", path.display()))
        };
        match self {
            Self::Write { path, instead, .. } => {
                let other = instead.as_ref().and_then(|(path, _)| no_setting(path));
                no_setting(path).or(other)
            }
            Self::Queue { dir, values } => {
                let outside = values.keys().find(|name| name.contains("..") || name.starts_with('/'));
                no_setting(dir).or_else(|| outside.map(|name| format!("{name} is no attribute of a queue")))
            }
            Self::Tree { path } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                (!name.starts_with(SERVER)).then(|| format!("{} is no directory of a server", path.display()))
            }
            Self::Cgroup { path } | Self::Controller { path, .. } => no_setting(path),
            Self::Limit(limit) => no_setting(&limit.path),
            Self::Mounted { old, .. } => mounted::pair(old)
                .is_none()
                .then(|| format!("{old} is no word of a mount that plumb changes")),
            Self::Command { name, .. } => (!devices.runs_commands())
                .then(|| format!("{name} is a command, which this journal has none of")),
            Self::Began { .. }
            | Self::Disk { .. }
            | Self::Directory { .. }
            | Self::Formatted { .. }
            | Self::Mount { .. }
            | Self::Processes { .. } => None,
        }
    }
}

/// A change that stands open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub number: u32,
    pub change: Change,
    /// What a file read after it was written, if the run came so far.
    pub took: Option<String>,
    /// It was made before the machine was started last.
    pub before_boot: bool,
}

/// Whether the locks of the run that made the changes were held all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// By it, and by its guardian after it.
    Ever,
    /// Both are gone: its devices may be somebody else's since.
    NotSince,
}
