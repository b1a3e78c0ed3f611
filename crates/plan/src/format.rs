// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May a device of this machine be written by a plan, and how is a file system made on it?
//!
//! Served disks are the plan's own. A device that the plan names by its path must pass
//! [`plumb_load::guard::device`], each time before it is written. What an earlier repetition left
//! there is known by the label of its file system; a device that was written without one has its
//! beginning and end cleared afterwards, so that it is again as empty as the guard found it.

use anyhow::{bail, Context, Result};
use plumb_load::guard::{device, DeviceClaim, Found, Refusal, UNKNOWN};
use plumb_machine::Root;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Label of every file system that a plan makes.
pub const LABEL: &str = "plumb-plan";

/// Where the superblock's label stands, and how long it may be: ext4(5), xfs_db(8) `sb_fname`,
/// btrfs' on-disk format.
const LABELS: [(&str, u64, usize); 3] = [("ext", 0x478, 16), ("XFS", 0x6c, 12), ("btrfs", 0x1_012b, 256)];

/// Whether the device may be written now.
///
/// # Errors
/// What stands against it, and the next step.
pub fn claim(path: &Path, destroy: &[PathBuf]) -> Result<DeviceClaim, Refusal> {
    let root = Root::real();
    match device(path, destroy, &root) {
        Err(Refusal { found: Found::Content(content), .. }) if ours(path, &content) => {
            let claim = device(path, &[path.to_path_buf()], &root)?;
            if claim.content == content {
                return Ok(claim);
            }
            Err(Refusal { object: path.into(), found: Found::Content(claim.content) })
        }
        other => other,
    }
}

/// Whether a file system with a plan's label is all that a device holds.
fn ours(path: &Path, content: &[String]) -> bool {
    let [one] = content else { return false };
    let Some((_, at, length)) =
        LABELS.iter().find(|(word, ..)| one.contains(word) && one.contains("file system"))
    else {
        return false;
    };
    let mut label = vec![0; *length];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut label, *at));
    let end = label.iter().position(|b| *b == 0).unwrap_or(*length);
    read.is_ok() && label[..end] == *LABEL.as_bytes()
}

/// Clears a device on which a plan began to make a file system, if what stands there is no finished one and nothing else
/// that is known; says whether it did. A device that is in use or gone is left alone.
///
/// # Errors
/// The device's.
pub fn clear_unfinished(path: &Path) -> Result<bool> {
    match unfinished(path) {
        None => Ok(false),
        Some(claim) => clear(&claim).map(|()| true),
    }
}

/// Whether [`clear_unfinished`] would clear it.
pub fn is_unfinished(path: &Path) -> bool {
    unfinished(path).is_some()
}

fn unfinished(path: &Path) -> Option<DeviceClaim> {
    let claim = device(path, &[path.to_path_buf()], &Root::real()).ok()?;
    let unknown = |c: &String| c.starts_with(UNKNOWN);
    (!claim.content.is_empty() && claim.content.iter().all(unknown)).then_some(claim)
}

/// Overwrites with zeros wherever a format keeps its magic numbers.
///
/// # Errors
/// The device's.
pub fn clear(claim: &DeviceClaim) -> Result<()> {
    const PIECE: u64 = 1 << 20;
    let zeros = vec![0; PIECE as usize];
    // The beginning with all that is looked at there, the second superblock of btrfs, the end.
    let places = [(0, 5 * PIECE), (64 << 20, PIECE), (claim.size.saturating_sub(PIECE), PIECE)];
    let write = || -> io::Result<()> {
        for (from, length) in places {
            let end = (from + length).min(claim.size);
            let mut at = from;
            while at < end {
                let piece = (end - at).min(PIECE);
                claim.file().write_all_at(&zeros[..piece as usize], at)?;
                at += piece;
            }
        }
        claim.file().sync_all()
    };
    write().with_context(|| claim.node.display().to_string())?;
    const BLKRRPART: libc::c_ulong = 0x125f;
    // SAFETY: the descriptor is open; the call takes no argument. Where partitions were, the kernel
    // forgets them; a device that can have none refuses.
    unsafe { libc::ioctl(claim.file().as_raw_fd(), BLKRRPART as _, 0) };
    Ok(())
}

/// The command that makes a file system with a plan's label, on whatever the device holds.
pub fn mkfs(kind: &str, options: &[String], device: &Path) -> Command {
    let mut command = Command::new(format!("mkfs.{kind}"));
    // Programs of a system's administrator are not in everybody's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    match kind {
        "ext2" | "ext3" | "ext4" => command.args(["-q", "-F", "-L", LABEL]),
        "xfs" | "btrfs" => command.args(["-q", "-f", "-L", LABEL]),
        "f2fs" => command.args(["-q", "-f", "-l", LABEL]),
        "nilfs2" => command.args(["-q", "-f", "-L", LABEL]),
        "vfat" => command.args(["-n", LABEL]),
        "exfat" => command.args(["-L", LABEL]),
        "ntfs" => command.args(["-q", "-F", "-L", LABEL]),
        "jfs" => command.args(["-q", "-L", LABEL]),
        "reiserfs" => command.args(["-q", "-f", "-l", LABEL]),
        _ => &mut command,
    };
    command.args(options).arg(device);
    command
}

/// Whether a file system of this kind, made by a plan, is known again by its label.
///
/// # Errors
/// It is not: then a device of this machine is not formatted with it, unless it may be destroyed anyway.
pub fn known_again(kind: &str, options: &[String], device: &Path, destroy: &[PathBuf]) -> Result<()> {
    let root = Root::real();
    let labelled = ["ext2", "ext3", "ext4", "xfs", "btrfs"].contains(&kind);
    let own = options.iter().any(|o| o.starts_with("-L") || o.starts_with("--label"));
    if (labelled && !own)
        || destroy.iter().any(|d| root.device(d).is_some() && root.device(d) == root.device(device))
    {
        return Ok(());
    }
    let why = if own { "with a label of its own".to_string() } else { format!("of the kind {kind}") };
    bail!(
        "{}: a file system {why} is not known again as the plan's before the next repetition; name the device \
         with --destroy as well, or use a served disk",
        device.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_tells_ours_from_others() {
        let image = tempfile::NamedTempFile::new().expect("a file");
        image.as_file().set_len(16 << 20).expect("its length");
        let content = ["an ext2, ext3 or ext4 file system (magic at byte 1080)".to_string()];
        for (label, is_ours) in [("plumb-plan", true), ("plumb-plan2", false), ("home", false), ("", false)] {
            let mut bytes = [0; 16];
            bytes[..label.len()].copy_from_slice(label.as_bytes());
            image.as_file().write_all_at(&bytes, 0x478).expect("written");
            assert_eq!(ours(image.path(), &content), is_ours, "{label}");
        }
        image.as_file().write_all_at(b"plumb-plan\0", 0x478).expect("written");
        let two = [content[0].clone(), "LUKS (magic at byte 0)".into()];
        assert!(!ours(image.path(), &two), "and something else");
        assert!(!ours(image.path(), &["LUKS (magic at byte 0)".into()]));
    }

    #[test]
    fn labels_stand_where_mkfs_writes_them() {
        for kind in ["ext2", "ext4", "xfs"] {
            let image = tempfile::NamedTempFile::new().expect("a file");
            image.as_file().set_len(320 << 20).expect("its length");
            match mkfs(kind, &[], image.path()).output() {
                Ok(out) if out.status.success() => {}
                _ => {
                    println!("SKIP labels_stand_where_mkfs_writes_them ({kind}): no mkfs.{kind} here");
                    continue;
                }
            }
            let content = plumb_load::guard::recognise(image.as_file(), 320 << 20).expect("read");
            assert!(ours(image.path(), &content), "{kind}: {content:?}");
        }
    }

    #[test]
    fn a_kind_without_a_known_label_needs_destroy() {
        let device = Path::new("/dev/nothing");
        assert!(known_again("ext4", &[], device, &[]).is_ok());
        assert!(known_again("f2fs", &[], device, &[]).is_err());
        assert!(known_again("ext4", &["-L".into(), "x".into()], device, &[]).is_err());
    }
}
