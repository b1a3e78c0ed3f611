// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices as sysfs relates them: partitions, holders above, slaves
//! below. Devices are known by their number; a name is only for the reader.

use crate::{DeviceNumber, Root};
use std::path::PathBuf;

/// A block device, or a partition, and its directory in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub number: DeviceNumber,
    /// The kernel's name for it: `sda1`, `dm-0`.
    pub name: String,
    /// Its directory, links followed.
    pub dir: PathBuf,
}

impl Block {
    /// The device of this number; None where sysfs knows none.
    pub fn of(number: DeviceNumber, root: &Root) -> Option<Block> {
        Block::in_dir(format!("/sys/dev/block/{number}").into(), root)
    }

    fn in_dir(dir: PathBuf, root: &Root) -> Option<Block> {
        let dir = root.resolve(dir)?;
        let number = DeviceNumber::parse(&root.text(dir.join("dev"))?)?;
        Some(Block { number, name: dir.file_name()?.to_string_lossy().into_owned(), dir })
    }

    fn linked(&self, what: &str, root: &Root) -> Vec<Block> {
        let dir = self.dir.join(what);
        root.names(&dir).into_iter().filter_map(|name| Block::in_dir(dir.join(name), root)).collect()
    }

    /// Every block device that is not a partition.
    pub fn disks(root: &Root) -> Vec<Block> {
        let dir = |name| PathBuf::from("/sys/block").join(name);
        root.names("/sys/block").into_iter().filter_map(|name| Block::in_dir(dir(name), root)).collect()
    }

    /// What is built directly on it: device mapper (LVM, LUKS, multipath), md, bcache.
    pub fn holders(&self, root: &Root) -> Vec<Block> {
        self.linked("holders", root)
    }

    /// What it is directly built on.
    pub fn slaves(&self, root: &Root) -> Vec<Block> {
        self.linked("slaves", root)
    }

    /// The disk of a partition.
    pub fn disk(&self, root: &Root) -> Option<Block> {
        root.text(self.dir.join("partition"))?;
        Block::in_dir(self.dir.parent()?.to_path_buf(), root)
    }

    /// The partitions of a disk that the kernel knows.
    pub fn partitions(&self, root: &Root) -> Vec<Block> {
        let names = root.names(&self.dir).into_iter().map(|name| self.dir.join(name));
        names
            .filter(|dir| root.text(dir.join("partition")).is_some())
            .filter_map(|dir| Block::in_dir(dir, root))
            .collect()
    }

    /// The file or device under a loop device. The kernel adds ` (deleted)`
    /// when it has no name any more.
    pub fn backing(&self, root: &Root) -> Option<PathBuf> {
        root.text(self.dir.join("loop/backing_file")).map(PathBuf::from)
    }

    /// Its name, with the one that the administrator gave it: `dm-0 (vg-home)`.
    pub fn described(&self, root: &Root) -> String {
        match root.text(self.dir.join("dm/name")) {
            Some(name) => format!("{} ({name})", self.name),
            None => self.name.clone(),
        }
    }
}
