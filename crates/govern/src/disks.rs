// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which disks are meant. Where devices are built on others (LVM, LUKS, md), it is the disks at the bottom:
//! there requests wait for each other.

use anyhow::{bail, Context, Result};
use plumb_machine::{Block, DeviceNumber, Root};
use serde::Serialize;
use std::path::Path;

/// Names of devices that are memory, or a file of another disk.
const NO_DISKS: [&str; 5] = ["loop", "ram", "zram", "fd", "sr"];

/// A disk without anything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    pub name: String,
    /// Its number, as cgroup files and BPF have it.
    pub number: DeviceNumber,
    /// It says that it turns.
    pub rotational: bool,
}

impl Disk {
    fn of(block: &Block, root: &Root) -> Disk {
        let rotational = root.number::<u8>(block.dir.join("queue/rotational")) == Some(1);
        Disk { name: block.name.clone(), number: block.number, rotational }
    }

    /// It holds nothing any more: a medium was taken out, a loop device lost its file. Its number stays.
    pub fn is_empty(&self, root: &Root) -> bool {
        let size = Path::new("/sys/dev/block").join(self.number.to_string()).join("size");
        root.number::<u64>(size) == Some(0)
    }

    /// The number as the kernel has it inside.
    pub fn kernel_number(&self) -> u32 {
        self.number.kernel()
    }
}

/// A device that is given by its node (`/dev/sda1`) or by the kernel's name for it. `lists`: what command lists devices.
///
/// # Errors
/// There is none, or it is something else; named.
pub fn named(device: &str, root: &Root, lists: &str) -> Result<Block> {
    let node = match device.starts_with('/') {
        true => Path::new(device).to_path_buf(),
        false => Path::new("/dev").join(device),
    };
    root.device(&node).and_then(|number| Block::of(number, root)).with_context(|| {
        let not = if root.path(&node).exists() { "is not a block device" } else { "no such block device" };
        format!("{device}: {not}; '{lists}' lists those that there are")
    })
}

/// The disks below a device, which is given as in [`named`].
///
/// # Errors
/// As [`named`].
pub fn below(device: &str, root: &Root) -> Result<Vec<Disk>> {
    let block = named(device, root, "lsblk")?;
    let mut found = Vec::new();
    descend(block, root, 0, &mut found);
    Ok(found.iter().map(|b| Disk::of(b, root)).collect())
}

/// Every disk that holds data of its own.
///
/// # Errors
/// There is none.
pub fn all(root: &Root) -> Result<Vec<Disk>> {
    let is_disk = |b: &Block| {
        !NO_DISKS
            .iter()
            .any(|no| b.name.strip_prefix(no).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit())))
            && b.slaves(root).is_empty()
            && root.number::<u64>(b.dir.join("size")).is_some_and(|sectors| sectors > 0)
    };
    let disks: Vec<Disk> =
        Block::disks(root).iter().filter(|b| is_disk(b)).map(|b| Disk::of(b, root)).collect();
    if disks.is_empty() {
        bail!("this machine shows no disk of its own; name the device: --protect /dev/loop0");
    }
    Ok(disks)
}

fn descend(block: Block, root: &Root, depth: u32, found: &mut Vec<Block>) {
    let block = block.disk(root).unwrap_or(block);
    let slaves = block.slaves(root);
    // sysfs has no loops; a written tree might.
    if slaves.is_empty() || depth > 16 {
        if !found.iter().any(|b| b.number == block.number) {
            found.push(block);
        }
        return;
    }
    for slave in slaves {
        descend(slave, root, depth + 1, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// sda with sda1, and dm-0 on sda1 and sdb.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::TempDir::new().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        for (name, number, size) in [
            ("sda", "8:0", 100),
            ("sdb", "8:16", 100),
            ("dm-0", "253:0", 100),
            ("loop0", "7:0", 8),
            ("sdc", "8:32", 0),
        ] {
            put(&format!("sys/devices/{name}/dev"), number);
            put(&format!("sys/devices/{name}/size"), &size.to_string());
            put(&format!("sys/devices/{name}/queue/rotational"), if name == "sda" { "1" } else { "0" });
            put(&format!("dev/{name}"), "");
        }
        put("sys/devices/sda/sda1/dev", "8:1");
        put("sys/devices/sda/sda1/partition", "1");
        put("dev/sda1", "");
        for at in ["sys/block", "sys/class/block", "sys/dev/block", "sys/devices/dm-0/slaves"] {
            std::fs::create_dir_all(dir.path().join(at)).expect("made");
        }
        let link = |to: &str, at: &str| symlink(to, dir.path().join(at)).expect("linked");
        for (name, number) in
            [("sda", "8:0"), ("sdb", "8:16"), ("dm-0", "253:0"), ("loop0", "7:0"), ("sdc", "8:32")]
        {
            link(&format!("../devices/{name}"), &format!("sys/block/{name}"));
            link(&format!("../../devices/{name}"), &format!("sys/class/block/{name}"));
            link(&format!("../../devices/{name}"), &format!("sys/dev/block/{number}"));
        }
        link("../../devices/sda/sda1", "sys/class/block/sda1");
        link("../../devices/sda/sda1", "sys/dev/block/8:1");
        link("../../sda/sda1", "sys/devices/dm-0/slaves/sda1");
        link("../../sdb", "sys/devices/dm-0/slaves/sdb");
        dir
    }

    #[test]
    fn what_is_built_on_others_means_the_disks_at_the_bottom() {
        let dir = tree();
        let root = Root::at(dir.path());
        let names = |device: &str| -> Vec<String> {
            below(device, &root).expect(device).into_iter().map(|d| d.name).collect()
        };
        assert_eq!(names("/dev/sda1"), ["sda"]);
        assert_eq!(names("dm-0"), ["sda", "sdb"]);
        let said = below("/dev/sdx", &root).expect_err("none").to_string();
        assert!(said.contains("/dev/sdx") && said.contains("lsblk"), "{said}");
        let all = all(&root).expect("two");
        assert_eq!(
            all.iter().map(|d| (d.name.as_str(), d.rotational)).collect::<Vec<_>>(),
            [("sda", true), ("sdb", false)]
        );
        assert_eq!(all[1].kernel_number(), 8 << 20 | 16);
    }
}
