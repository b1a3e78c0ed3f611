// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May this block device be written? Every question is asked by device number:
//! names move, links lead elsewhere, and one disk has many nodes.

use super::refusal::{Found, Refusal};
use super::samples::{self, Samples};
use super::signatures::signatures;
use plumb_machine::mount::btrfs;
use plumb_machine::{mounts_everywhere, unescape, writer, Block, DeviceNumber, Root};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A device that may be written, opened exclusively: while it is held nobody
/// can mount it, swap to it or build upon it.
#[derive(Debug)]
pub struct DeviceClaim {
    file: File,
    pub number: DeviceNumber,
    /// Its node, links followed.
    pub node: PathBuf,
    /// Its length, bytes.
    pub size: u64,
    /// What will be lost, as far as it was recognised.
    pub content: Vec<String>,
    /// What was read to know that, beyond the places of signatures; None where those were enough.
    pub samples: Option<Samples>,
}

impl DeviceClaim {
    /// The open device, to read and write.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A path that leads to the very device that was checked, whatever becomes
    /// of its name; valid in this process while the claim lives.
    pub fn path(&self) -> PathBuf {
        through(&self.file)
    }

    /// Asks once more, before the first write, whether its node is the device that was checked.
    ///
    /// # Errors
    /// Somebody put something else in its place.
    pub fn still_there(&self, root: &Root) -> Result<(), Refusal> {
        let meta = std::fs::symlink_metadata(&self.node);
        match meta.ok().and_then(|meta| root.device_of(&self.node, &meta)) {
            Some(number) if number == self.number => Ok(()),
            _ => Err(Refusal::new(&self.node, Found::Replaced)),
        }
    }
}

/// A path to an open file, in the process that has it open and those that it forks.
pub(super) fn through(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// What stands at a path whose links were followed already: opened neither for reading nor for writing, which of a
/// device can do things, so that what is looked at is what is opened afterwards, by [`through`].
pub(super) fn handle(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)
}

/// Whether a block device may be overwritten.
///
/// No, without appeal, when it, its whole disk, a partition of it or anything
/// that stands on one of them is mounted, swapped to, held, shown by a loop
/// device, or open for writing in another process. No, unless `destroy` names the device, when it is not empty.
///
/// # Errors
/// What was found and the next step.
pub fn device(path: &Path, destroy: &[PathBuf], root: &Root) -> Result<DeviceClaim, Refusal> {
    let mut claim = open(path, root)?;
    let named = destroy
        .iter()
        .any(|d| std::fs::metadata(d).ok().and_then(|meta| root.device_of(d, &meta)) == Some(claim.number));
    // Nothing hangs on what is in the middle of a device whose content may be lost.
    claim
        .recognise(if named { samples::ends } else { samples::samples }, root)
        .map_err(|found| Refusal::new(path, found))?;
    if !claim.content.is_empty() && !named {
        return Err(Refusal::new(path, Found::Content(claim.content)));
    }
    Ok(claim)
}

/// As [`device`], whatever it holds: who asks decides by [`DeviceClaim::content`].
///
/// # Errors
/// As [`device`], but for the content.
pub fn unused_device(path: &Path, root: &Root) -> Result<DeviceClaim, Refusal> {
    let mut claim = open(path, root)?;
    claim.recognise(samples::samples, root).map_err(|found| Refusal::new(path, found))?;
    Ok(claim)
}

/// Opens a device that nobody uses.
fn open(path: &Path, root: &Root) -> Result<DeviceClaim, Refusal> {
    let refuse = |found| Refusal::new(path, found);
    let failed = |e: io::Error| refuse(from_error(&e));
    let node = path.canonicalize().map_err(failed)?;
    let handle = handle(&node).map_err(failed)?;
    let meta = handle.metadata().map_err(failed)?;
    let number = root.device_of(&node, &meta).ok_or_else(|| refuse(Found::NotBlockDevice(kind(&meta))))?;
    let block = Block::of(number, root).ok_or_else(|| {
        refuse(Found::Failed(format!("the kernel has no block device {number} in /sys/dev/block")))
    })?;
    if let Some(found) = in_use(&block, root) {
        return Err(refuse(found));
    }
    if root.text(block.dir.join("ro")).as_deref() == Some("1") {
        return Err(refuse(Found::ReadOnly));
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL | libc::O_CLOEXEC)
        .open(through(&handle))
        .map_err(failed)?;
    let opened = file.metadata().map_err(failed)?;
    if (opened.dev(), opened.ino(), opened.rdev()) != (meta.dev(), meta.ino(), meta.rdev()) {
        return Err(refuse(Found::Replaced));
    }
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    if size == 0 {
        return Err(refuse(Found::NoMedium));
    }
    Ok(DeviceClaim { file, number, node, size, content: Vec::new(), samples: None })
}

impl DeviceClaim {
    fn recognise(&mut self, look: fn(&File, u64) -> Samples, root: &Root) -> Result<(), Found> {
        self.content = signatures(&self.file, self.size).map_err(|e| from_error(&e))?;
        if self.content.is_empty() {
            let samples = look(&self.file, self.size);
            self.content.extend(samples.data.clone());
            self.samples = Some(samples);
        }
        // SAFETY: the descriptor is open; the call touches no memory of ours. What
        // was looked at must not wait in the page cache for the measurement.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let block = Block::of(self.number, root);
        let partitions: Vec<String> =
            block.into_iter().flat_map(|b| b.partitions(root)).map(|p| p.name).collect();
        if !partitions.is_empty() {
            self.content.push(format!("partitions ({})", partitions.join(", ")));
        }
        Ok(())
    }
}

pub(super) fn from_error(error: &io::Error) -> Found {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Found::Missing,
        Some(libc::EBUSY) => Found::Busy,
        Some(libc::EROFS) => Found::ReadOnly,
        Some(libc::ENOMEDIUM | libc::ENXIO) => Found::NoMedium,
        Some(libc::EACCES | libc::EPERM) => Found::NotPermitted(error.to_string()),
        _ => Found::Failed(error.to_string()),
    }
}

pub(super) fn kind(meta: &std::fs::Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "fifo",
        () if kind.is_socket() => "socket",
        () if kind.is_char_device() => "character device",
        () if kind.is_block_device() => "block device",
        () if kind.is_symlink() => "symbolic link",
        () => "regular file",
    }
}

/// The device, its disk, its partitions, and all that stands on any of them.
fn family(block: &Block, root: &Root) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut open: Vec<Block> = block.disk(root).into_iter().collect();
    open.extend(block.partitions(root));
    // Only the device's own disk counts, not that disk's other partitions.
    let mut above = block.holders(root);
    for relative in &open {
        above.extend(relative.holders(root));
    }
    all.push(block.clone());
    all.append(&mut open);
    while let Some(next) = above.pop() {
        if all.iter().all(|b| b.number != next.number) {
            above.extend(next.holders(root));
            above.extend(next.partitions(root));
            all.push(next);
        }
    }
    all
}

fn in_use(block: &Block, root: &Root) -> Option<Found> {
    let mut members = family(block, root);
    // A loop device over a device writes that device, past whatever holds it.
    let shown = block.disk(root).unwrap_or_else(|| block.clone());
    let below = shown.backing(root).and_then(|b| root.device(b)).and_then(|n| Block::of(n, root));
    if let Some(below) = below {
        members.extend(family(&below, root));
    }
    mounted(&members, root)
        .or_else(|| swapped(&members, &shown, root))
        .or_else(|| held(&members, root))
        .or_else(|| looped(&members, &shown, root))
        .or_else(|| opened(&members, root))
}

fn mounted(members: &[Block], root: &Root) -> Option<Found> {
    let found = |number: DeviceNumber, point: Option<PathBuf>| {
        let member = members.iter().find(|m| m.number == number)?;
        Some(Found::Mounted { device: member.described(root), number, point })
    };
    let mut at = mounts_everywhere(root)
        .into_iter()
        .filter_map(|m| m.devices(root).into_iter().find_map(|number| found(number, Some(m.point.clone()))));
    at.next().or_else(|| btrfs(root).into_iter().flatten().find_map(|number| found(number, None)))
}

/// What the kernel swaps to, and whether it is a file.
pub fn swaps(root: &Root) -> Vec<(PathBuf, bool)> {
    let text = root.text("/proc/swaps").unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let path = words.next()?.trim_end_matches(r"\040(deleted)").to_string();
        Some((unescape(&path), words.next()? == "file"))
    };
    text.lines().skip(1).filter_map(line).collect()
}

fn swapped(members: &[Block], shown: &Block, root: &Root) -> Option<Found> {
    let backing = shown.backing(root);
    swaps(root).into_iter().find_map(|(path, is_file)| {
        if is_file {
            let same = backing.as_ref().is_some_and(|b| same_file(b, &path, root));
            return same.then_some(Found::SwapFile(path));
        }
        let number = root.device(&path)?;
        let member = members.iter().find(|m| m.number == number)?;
        Some(Found::Swap { device: member.described(root), number })
    })
}

fn held(members: &[Block], root: &Root) -> Option<Found> {
    members.iter().find_map(|member| {
        let by = member.holders(root).first()?.described(root);
        Some(Found::Held { device: member.described(root), number: member.number, by })
    })
}

fn looped(members: &[Block], shown: &Block, root: &Root) -> Option<Found> {
    let own = shown.backing(root);
    Block::disks(root).into_iter().filter(|l| l.number != shown.number).find_map(|l| {
        let backing = l.backing(root)?;
        let number = root.device(&backing);
        let uses_us = members.iter().any(|m| Some(m.number) == number);
        let shares = own.as_ref().is_some_and(|own| same_file(own, &backing, root));
        (uses_us || shares).then_some(Found::Loop { by: l.name, backing })
    })
}

/// A process that may write one of them, as far as processes can be looked at.
/// Who only reads does no harm: udev does so at every change.
fn opened(members: &[Block], root: &Root) -> Option<Found> {
    let member = |path: &Path| {
        let number = root.device(path)?;
        members.iter().find(|m| m.number == number)
    };
    let (user, member) = writer(root, member)?;
    Some(Found::Opened {
        device: member.described(root),
        number: member.number,
        by: user.name,
        pid: user.pid,
    })
}

/// Whether two paths of the tree lead to one file.
fn same_file(a: &Path, b: &Path, root: &Root) -> bool {
    let inode = |p: &Path| std::fs::metadata(root.path(p)).ok().map(|m| (m.dev(), m.ino()));
    inode(a).is_some_and(|a| Some(a) == inode(b))
}

#[cfg(test)]
mod tests;
