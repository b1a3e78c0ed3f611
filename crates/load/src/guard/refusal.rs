// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something is not written: what was found, where, and the next step.

use plumb_machine::{DeviceNumber, FileUser};
use plumb_trace::units::{bytes, count};
use std::fmt;
use std::path::{Path, PathBuf};

/// The answer no, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {found}; {}", object.display(), found.next_step())]
pub struct Refusal {
    /// The path that the user named.
    pub object: PathBuf,
    pub found: Found,
}

impl Refusal {
    pub(crate) fn new(object: &Path, found: Found) -> Refusal {
        Refusal { object: object.to_path_buf(), found }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is nothing of that name, or a link that leads nowhere.
    Missing,
    /// Its directory is missing or not a directory.
    NoDirectory(PathBuf),
    /// A file was asked for, and this is something else: `fifo`, `socket`, `directory`.
    Special(&'static str),
    /// A block device was asked for, and this is something else.
    NotBlockDevice(&'static str),
    /// A file was asked for, and this is a device or a link to one.
    Device(PathBuf),
    /// The file system or the device can only be read.
    ReadOnly,
    /// This user may not write there.
    NotPermitted(String),
    /// Less room than the files need, bytes.
    NoSpace {
        /// What the files will take.
        need: u64,
        /// What this user may still take.
        free: u64,
    },
    NoInodes {
        need: u64,
        free: u64,
    },
    /// The device, or one that stands on it, is mounted.
    Mounted {
        device: String,
        number: DeviceNumber,
        /// Where; None where a file system is known to use it whose mount cannot be seen.
        point: Option<PathBuf>,
    },
    /// The device, or one that stands on it, is swapped to.
    Swap {
        device: String,
        number: DeviceNumber,
    },
    /// The kernel swaps to this file.
    SwapFile(PathBuf),
    /// Device mapper, md or bcache stands on it.
    Held {
        /// The device that is held.
        device: String,
        number: DeviceNumber,
        by: String,
    },
    /// A loop device shows it, or the same file, as a disk.
    Loop {
        by: String,
        backing: PathBuf,
    },
    /// A process has it open for writing, as a virtual machine has its disk.
    Opened {
        /// The device that is open.
        device: String,
        number: DeviceNumber,
        by: String,
        pid: u32,
    },
    /// A process has the file open for writing.
    Written(FileUser),
    /// Somebody holds a lock on the file; None where the kernel does not tell who.
    Locked(Option<FileUser>),
    /// Something else stands where the file or device was that was checked.
    Replaced,
    /// The kernel refuses an exclusive open: somebody in it uses the device.
    Busy,
    /// The device has no size.
    NoMedium,
    /// It is not empty; in the order of what it most likely is.
    Content(Vec<String>),
    /// A file that plumb load did not make.
    NotOurs {
        /// Its length, bytes.
        length: u64,
    },
    /// The kernel's answer to a system call.
    Failed(String),
}

impl Found {
    /// Whether naming it with `--destroy` would change the answer.
    pub fn yields_to_destroy(&self) -> bool {
        matches!(self, Found::Content(_) | Found::NotOurs { .. })
    }

    /// What the user can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Found::Missing => "check the path",
            Found::NoDirectory(_) => "make the directory first, or name another",
            Found::Special(_) => "name a regular file, or a directory for test files",
            Found::NotBlockDevice(_) => "name a block device such as those that lsblk lists",
            Found::Device(_) => "to measure the device itself make it the target by its own path",
            Found::ReadOnly => "name a place that can be written",
            Found::NotPermitted(_) => "run as a user who may write there, or name another place",
            Found::NoSpace { .. } => "free some space, or make the job's files smaller",
            Found::NoInodes { .. } => "remove some files, or let the job make fewer",
            Found::Mounted { .. } => {
                "unmount it first, if its data can be lost; --destroy does not overrule this"
            }
            Found::Swap { .. } | Found::SwapFile(_) => {
                "swapoff it first, if it can be lost; --destroy does not overrule this"
            }
            Found::Held { .. } => {
                "take down what stands on it first (lsblk shows it); --destroy does not overrule this"
            }
            Found::Loop { .. } => {
                "detach the loop device first (losetup -d); --destroy does not overrule this"
            }
            Found::Opened { .. } | Found::Written(_) | Found::Locked(Some(_)) => {
                "end that process first; --destroy does not overrule this"
            }
            Found::Locked(None) => "find who locks it (lslocks); --destroy does not overrule this",
            Found::Replaced => "find who replaces it; nothing was written",
            Found::Busy => "find who uses it (lsblk, fuser -v); --destroy does not overrule this",
            Found::NoMedium => "insert a medium or set the device up",
            Found::Content(_) => "if it can be lost, name the device with --destroy as well",
            Found::NotOurs { .. } => "if it can be lost, name the file with --destroy as well",
            Found::Failed(_) => "see the kernel's answer",
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Found::Missing => write!(f, "does not exist"),
            Found::NoDirectory(dir) => write!(f, "{} is not a directory", dir.display()),
            Found::Special(kind) => write!(f, "is a {kind}, not a regular file"),
            Found::NotBlockDevice(kind) => write!(f, "is a {kind}, not a block device"),
            Found::Device(node) => write!(f, "leads to the device {}", node.display()),
            Found::ReadOnly => write!(f, "can only be read"),
            Found::NotPermitted(why) => write!(f, "may not be written ({why})"),
            Found::NoSpace { need, free } => {
                write!(f, "{} are needed and {} are free", bytes(*need), bytes(*free))
            }
            Found::NoInodes { need, free } => {
                write!(f, "{} files are needed and {} inodes are free", count(*need), count(*free))
            }
            Found::Mounted { device, number, point: Some(point) } => {
                write!(f, "{device} ({number}) is mounted at {}", point.display())
            }
            Found::Mounted { device, number, point: None } => {
                write!(f, "{device} ({number}) belongs to a mounted btrfs")
            }
            Found::Swap { device, number } => write!(f, "{device} ({number}) is active swap"),
            Found::SwapFile(path) => write!(f, "{} is an active swap file", path.display()),
            Found::Held { device, number, by } => write!(f, "{device} ({number}) is held by {by}"),
            Found::Loop { by, backing } => {
                write!(f, "the loop device {by} shows {} as a disk", backing.display())
            }
            Found::Opened { device, number, by, pid } => {
                write!(f, "{device} ({number}) is open for writing in {by} (process {pid})")
            }
            Found::Written(FileUser { pid, name }) => {
                write!(f, "is open for writing in {name} (process {pid})")
            }
            Found::Locked(Some(FileUser { pid, name })) => write!(f, "is locked by {name} (process {pid})"),
            Found::Locked(None) => write!(f, "is locked by another process"),
            Found::Replaced => write!(f, "was replaced while it was being checked"),
            Found::Busy => write!(f, "cannot open it exclusively: it is in use"),
            Found::NoMedium => write!(f, "has no size"),
            Found::Content(what) => write!(f, "holds {}", what.join(", ")),
            Found::NotOurs { length } => {
                write!(f, "exists ({}) and was not made by plumb load", bytes(*length))
            }
            Found::Failed(why) => write!(f, "{why}"),
        }
    }
}
