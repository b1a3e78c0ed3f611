// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who uses a block device: mounts in every namespace, swap, devices on top of it, processes.

use plumb_load::guard::swaps;
use plumb_machine::{mounts, mounts_of, process, Block, DeviceNumber, Mount, Root};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// A file system on it is mounted here; of a mount in another namespace, a process that sees it.
    Mount {
        point: PathBuf,
        /// Who sees it, where we do not.
        seen_by: Option<u32>,
    },
    Swap,
    /// A device of this name lies on it (device mapper, RAID).
    Below(String),
    /// A process has it open.
    Process {
        pid: u32,
        name: String,
    },
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mount { point, seen_by: None } => write!(f, "mounted on {0} (umount {0})", point.display()),
            User::Mount { point, seen_by: Some(pid) } => {
                write!(
                    f,
                    "mounted on {} in the namespace of process {pid} (nsenter -t {pid} -m umount {0})",
                    point.display()
                )
            }
            User::Swap => write!(f, "swapped to (swapoff)"),
            User::Below(name) => write!(f, "below the device {name}"),
            User::Process { pid, name } => write!(f, "open in process {pid} ({name})"),
        }
    }
}

/// Where a device is mounted: by its number, and by its name, because a file system may have a
/// number of its own (btrfs).
fn points(mounts: Vec<Mount>, number: DeviceNumber, device: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let of = move |m: &Mount| m.number == number || m.source == device;
    mounts.into_iter().filter(of).map(|m| m.point)
}

/// Who uses it, except these processes.
pub fn of(device: &Path, except: &[u32]) -> Vec<User> {
    let Ok(number) = std::fs::metadata(device).map(|m| m.rdev()) else { return Vec::new() };
    let (root, by_number) = (Root::real(), DeviceNumber::from_dev_t(number));
    let mut users: BTreeSet<User> =
        points(mounts(&root), by_number, device).map(|point| User::Mount { point, seen_by: None }).collect();
    if swaps(&root).iter().any(|(path, _)| path == device) {
        users.insert(User::Swap);
    }
    let holders = Block::of(by_number, &root).map_or_else(Vec::new, |block| block.holders(&root));
    users.extend(holders.into_iter().map(|holder| User::Below(holder.name)));
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut known: BTreeSet<_> = namespace("self").into_iter().collect();
    for pid in process::all(&root) {
        if namespace(&pid.to_string()).is_some_and(|ns| known.insert(ns)) {
            let theirs = points(mounts_of(&pid.to_string(), &root), by_number, device);
            users.extend(theirs.map(|point| User::Mount { point, seen_by: Some(pid) }));
        }
        if except.contains(&pid) {
            continue;
        }
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let is_it = |m: std::fs::Metadata| m.rdev() == number && m.mode() & libc::S_IFMT == libc::S_IFBLK;
        // stat(2) of something that hangs would hang: only what has the device's name is looked at.
        let named = |path: &Path| std::fs::read_link(path).is_ok_and(|target| target.starts_with("/dev"));
        let mut paths = files.map(|f| f.path());
        if paths.any(|path| named(&path) && std::fs::metadata(&path).is_ok_and(is_it)) {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            users.insert(User::Process { pid, name: name.trim().to_owned() });
        }
    }
    users.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number_and_by_name() {
        let mountinfo = "30 1 7:3 / /mnt/a\\040b rw,relatime - ext4 /dev/loop3 rw\n\
                         31 1 0:44 / /mnt/btrfs rw - btrfs /dev/loop3 rw\n\
                         32 1 254:0 / / rw - ext4 /dev/vda rw\n\
                         33 1 7:33 / /mnt/other rw shared:5 - xfs /dev/loop33 rw\n";
        let dir = tempfile::TempDir::new().expect("a directory");
        std::fs::create_dir_all(dir.path().join("proc/7")).expect("a directory");
        std::fs::write(dir.path().join("proc/7/mountinfo"), mountinfo).expect("a file");
        let mounts = mounts_of("7", &Root::at(dir.path()));
        assert_eq!(mounts.len(), 4);
        let points = points(mounts, DeviceNumber { major: 7, minor: 3 }, Path::new("/dev/loop3"));
        assert_eq!(points.collect::<Vec<_>>(), [PathBuf::from("/mnt/a b"), PathBuf::from("/mnt/btrfs")]);
    }
}
