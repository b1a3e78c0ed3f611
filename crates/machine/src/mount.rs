// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounts, from /proc/PID/mountinfo, and the block devices that carry a path.

use crate::{unescape, Block, DeviceNumber, Root};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The file system's `st_dev`; major 0 where no block device of that number carries it.
    pub number: DeviceNumber,
    /// The directory of the file system that is seen at the mount point.
    pub subtree: PathBuf,
    pub point: PathBuf,
    /// `ext4`, `xfs`.
    pub kind: String,
    /// What was mounted: a node's path, or a word of the file system's.
    pub source: PathBuf,
    /// Options of the mount, then of the file system.
    pub options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        Some(Mount {
            number: DeviceNumber::parse(left.get(2)?)?,
            subtree: unescape(left.get(3)?),
            point: unescape(left.get(4)?),
            kind: (*right.first()?).into(),
            source: unescape(right.get(1)?),
            options: format!("{},{}", left.get(5)?, right.get(2).unwrap_or(&"")),
        })
    }

    /// The block devices of the file system: by its number; where that is
    /// anonymous, by its source (bcachefs joins several with colons) and by
    /// what btrfs lists.
    pub fn devices(&self, root: &Root) -> Vec<DeviceNumber> {
        if self.number.major != 0 {
            return vec![self.number];
        }
        let source = self.source.to_string_lossy();
        let mut found: Vec<DeviceNumber> =
            source.split(':').filter(|s| s.starts_with('/')).filter_map(|s| root.device(s)).collect();
        if self.kind == "btrfs" {
            let whole = btrfs(root).into_iter().find(|devices| devices.iter().any(|d| found.contains(d)));
            found = whole.unwrap_or(found);
        }
        found
    }
}

/// The devices of each mounted btrfs.
pub fn btrfs(root: &Root) -> Vec<Vec<DeviceNumber>> {
    let number = |uuid: &str, name: &String| {
        DeviceNumber::parse(&root.text(format!("/sys/fs/btrfs/{uuid}/devices/{name}/dev"))?)
    };
    let all = root.names("/sys/fs/btrfs").into_iter().map(|uuid| {
        let names = root.names(format!("/sys/fs/btrfs/{uuid}/devices"));
        names.iter().filter_map(|name| number(&uuid, name)).collect::<Vec<_>>()
    });
    all.filter(|devices| !devices.is_empty()).collect()
}

/// The mounts that a process (its number, or `self`) sees; none where it is gone.
pub fn mounts_of(process: &str, root: &Root) -> Vec<Mount> {
    let text = root.text(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    text.lines().filter_map(Mount::parse).collect()
}

/// The mounts that this process sees.
pub fn mounts(root: &Root) -> Vec<Mount> {
    mounts_of("self", root)
}

/// The mounts of every namespace that may be read: of this process, of the
/// first one, of containers.
pub fn mounts_everywhere(root: &Root) -> Vec<Mount> {
    let processes = root.names("/proc").into_iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for process in ["self".to_string()].into_iter().chain(processes) {
        let space = std::fs::read_link(root.path(format!("/proc/{process}/ns/mnt"))).ok();
        if space.is_none_or(|space| seen.insert(space)) {
            all.extend(mounts_of(&process, root));
        }
    }
    all
}

/// The mount that a path lies in: the longest mount point above it, of equal
/// ones the last, which hides the others.
pub fn mount_of(path: &Path, root: &Root) -> Option<Mount> {
    let path = path.canonicalize().or_else(|_| path.parent().unwrap_or(path).canonicalize()).ok()?;
    let above = mounts(root).into_iter().filter(|m| path.starts_with(&m.point));
    above.max_by_key(|m| m.point.components().count())
}

/// The block devices that carry a path, from the file system's (or from the
/// node itself) down to those that stand on nothing else. Empty for a file
/// system without any, such as tmpfs or NFS.
pub fn devices_under(path: &Path, root: &Root) -> Vec<Block> {
    let mut found = Vec::new();
    descend(path, root, &mut found);
    found
}

fn descend(path: &Path, root: &Root, found: &mut Vec<Block>) {
    let node = std::fs::metadata(path).ok().and_then(|meta| root.device_of(path, &meta));
    let numbers = match (node, mount_of(path, root)) {
        (Some(number), _) => vec![number],
        (None, Some(mount)) => {
            let upper = mount.options.split(',').find_map(|o| o.strip_prefix("upperdir="));
            match upper.map(Path::new).filter(|dir| mount.kind == "overlay" && !dir.starts_with(&mount.point))
            {
                Some(dir) => return descend(dir, root, found),
                None => mount.devices(root),
            }
        }
        (None, None) => Vec::new(),
    };
    walk(numbers, root, found);
}

/// What stands under a device: slaves, the disk of a partition, the device
/// under a loop device's file. Without itself.
pub fn beneath(number: DeviceNumber, root: &Root) -> Vec<Block> {
    let mut found = Vec::new();
    walk(vec![number], root, &mut found);
    found.retain(|b| b.number != number);
    found
}

fn walk(numbers: Vec<DeviceNumber>, root: &Root, found: &mut Vec<Block>) {
    let mut open: Vec<Block> = numbers.into_iter().rev().filter_map(|n| Block::of(n, root)).collect();
    while let Some(block) = open.pop() {
        if found.iter().any(|b| b.number == block.number) {
            continue;
        }
        open.extend(block.slaves(root));
        open.extend(block.disk(root));
        let backing = block.backing(root);
        found.push(block);
        // A file of a mount that has no place in the tree (a served disk's) has a name that means nothing here.
        let here =
            |file: &PathBuf| root.path(file).exists() || file.to_string_lossy().ends_with(" (deleted)");
        if let Some(file) = backing.filter(here) {
            descend(&root.path(file), root, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.number, DeviceNumber { major: 98, minor: 0 });
        assert_eq!(mount.point, Path::new("/mnt 2"));
        assert_eq!((mount.kind.as_str(), mount.options.as_str()), ("ext3", "rw,noatime,rw,errors=continue"));
        assert!(Mount::parse("36 35 98:0 /").is_none());
    }

    #[test]
    fn the_later_of_two_mounts_on_one_point_counts() {
        let dir = tempfile::TempDir::new().unwrap();
        let here = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(here.join("proc/self")).unwrap();
        let line =
            |number: &str, point: &Path| format!("1 1 {number} / {} rw - ext4 x rw\n", point.display());
        let text = line("8:1", Path::new("/")) + &line("8:2", &here) + &line("8:3", &here);
        std::fs::write(here.join("proc/self/mountinfo"), text).unwrap();
        let found = mount_of(&here.join("not yet there"), &Root::at(&here)).unwrap();
        assert_eq!(found.number, DeviceNumber { major: 8, minor: 3 });
    }
}
