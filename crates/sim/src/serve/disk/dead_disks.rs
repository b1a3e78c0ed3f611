// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices of disks that have ended, which mounts keep.

use super::super::loop_device::backing;
use super::{list, users, User};
use std::path::{Path, PathBuf};

/// A dead disk's device: everything on it fails, and the kernel takes it down after the last unmount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// What the disk was called.
    pub name: String,
    /// `/dev/loopN`.
    pub device: PathBuf,
    pub mounts: Vec<User>,
}

/// The disk whose file a loop device shows.
fn name(backing: &str) -> Option<&str> {
    // Of a file whose mount is gone the kernel may say so behind it.
    backing.rsplit_once("plumb-disk-").map(|(_, name)| name.split([' ', '/']).next().unwrap_or(name))
}

/// Whether a process holds a disk's device, whichever registry that is in.
fn holds(user: &User) -> bool {
    let User::Process { pid, .. } = user else { return false };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|&b| b == 0).skip(1).take(2).eq([&b"disk"[..], &b"holder"[..]])
}

/// Dead disks that are still mounted, by device.
pub fn dead() -> Vec<Dead> {
    let living: Vec<_> = list().into_iter().filter_map(|disk| disk.device).collect();
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut found: Vec<Dead> = blocks
        .filter_map(|block| {
            let device = Path::new("/dev").join(block.file_name());
            let name = name(&backing(&device)?)?.to_owned();
            let users = if living.contains(&device) { Vec::new() } else { users::of(&device, &[]) };
            let held = users.iter().any(holds);
            let mounts: Vec<_> = users.into_iter().filter(|u| matches!(u, User::Mount { .. })).collect();
            (!held && !mounts.is_empty()).then_some(Dead { name, device, mounts })
        })
        .collect();
    found.sort_by(|a, b| a.device.cmp(&b.device));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_known_by_its_file() {
        assert_eq!(name("/plumb-disk-old"), Some("old"));
        assert_eq!(name("/proc/7/fd/9/plumb-disk-a.b-2 (deleted)"), Some("a.b-2"));
        assert_eq!(name("/home/me/disk.img"), None);
    }
}
