// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May a device of this machine be written by a plan, and how is a file system made on it?
//!
//! Served disks are the plan's own. A device that the plan names by its path must pass
//! [`plumb_load::guard::device`], each time before it is written. What an earlier repetition left
//! there is known by the label of its file system. A device that was written without one is made zero
//! afterwards, up to [`WHOLE`]; of a larger one the beginning and the end are, and the first bytes
//! ([`SCRATCH_MAGIC`]) say that what is between them is a plan's.

use anyhow::{bail, Context, Result};
use plumb_load::guard::{
    device, unused_device, DeviceClaim, Found, Refusal, SCRATCH, SCRATCH_MAGIC, UNKNOWN,
};
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

/// The largest device that is made zero as a whole, bytes: a disk of 200 MB/s takes five seconds for it.
const WHOLE: u64 = 1 << 30;

/// Whether the device may be written now.
///
/// # Errors
/// What stands against it, and the next step.
pub fn claim(path: &Path, destroy: &[PathBuf]) -> Result<DeviceClaim, Refusal> {
    let root = Root::real();
    match device(path, destroy, &root) {
        Err(Refusal { found: Found::Content(_), .. }) => {
            let claim = unused_device(path, &root)?;
            if ours(claim.file(), &claim.content) {
                return Ok(claim);
            }
            Err(Refusal { object: path.into(), found: Found::Content(claim.content) })
        }
        other => other,
    }
}

/// Whether a plan's scratch data or a file system with a plan's label is all that a device holds.
fn ours(file: &File, content: &[String]) -> bool {
    let [one] = content else { return false };
    if one.starts_with(SCRATCH) {
        return true;
    }
    let Some((_, at, length)) =
        LABELS.iter().find(|(word, ..)| one.contains(word) && one.contains("file system"))
    else {
        return false;
    };
    let mut label = vec![0; *length];
    let read = file.read_exact_at(&mut label, *at);
    let end = label.iter().position(|b| *b == 0).unwrap_or(*length);
    read.is_ok() && label[..end] == *LABEL.as_bytes()
}

/// Clears a device on which a plan began to make a file system, if what stands there is no finished one and nothing else
/// that is known; says whether it did. A device that is in use or gone is left alone.
///
/// # Errors
/// The device's.
pub fn clear_unfinished(path: &Path) -> Result<bool> {
    match only(path, &[UNKNOWN, SCRATCH]) {
        None => Ok(false),
        Some(claim) => clear(&claim).map(|()| true),
    }
}

/// Whether data of no known format, maybe of a file system that was not finished, is all that a device holds.
pub fn is_unfinished(path: &Path) -> bool {
    only(path, &[UNKNOWN]).is_some()
}

/// A device that holds something, and nothing but these.
fn only(path: &Path, words: &[&str]) -> Option<DeviceClaim> {
    let claim = unused_device(path, &Root::real()).ok()?;
    let known = |content: &String| words.iter().any(|word| content.starts_with(word));
    (!claim.content.is_empty() && claim.content.iter().all(known)).then_some(claim)
}

/// Makes a device empty or, where it is large, a plan's scratch device.
///
/// # Errors
/// The device's.
pub fn clear(claim: &DeviceClaim) -> Result<()> {
    if claim.size > WHOLE {
        return begin(claim);
    }
    overwrite(claim, &[(0, claim.size)], &[])
}

/// Makes it a plan's scratch device: wherever a format keeps its magic numbers are zeros, but for [`SCRATCH_MAGIC`].
///
/// # Errors
/// The device's.
pub fn begin(claim: &DeviceClaim) -> Result<()> {
    // The beginning with all that is looked at there, the second superblock of btrfs, the end.
    let places = [(0, 5 * PIECE), (64 << 20, PIECE), (claim.size.saturating_sub(PIECE), PIECE)];
    overwrite(claim, &places, SCRATCH_MAGIC)
}

/// Bytes that are written at once.
const PIECE: u64 = 1 << 20;

fn overwrite(claim: &DeviceClaim, places: &[(u64, u64)], magic: &[u8]) -> Result<()> {
    let zeros = vec![0; PIECE as usize];
    let write = || -> io::Result<()> {
        for (from, length) in places {
            let end = (from + length).min(claim.size);
            let mut at = *from;
            while at < end {
                let piece = (end - at).min(PIECE);
                claim.file().write_all_at(&zeros[..piece as usize], at)?;
                at += piece;
            }
        }
        claim.file().write_all_at(magic, 0)?;
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
            assert_eq!(ours(image.as_file(), &content), is_ours, "{label}");
        }
        image.as_file().write_all_at(b"plumb-plan\0", 0x478).expect("written");
        let two = [content[0].clone(), "LUKS (magic at byte 0)".into()];
        assert!(!ours(image.as_file(), &two), "and something else");
        assert!(!ours(image.as_file(), &["LUKS (magic at byte 0)".into()]));
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
            assert!(ours(image.as_file(), &content), "{kind}: {content:?}");
        }
    }

    struct Loop(PathBuf);

    impl Loop {
        fn of(image: &Path, mib: u64) -> Option<Loop> {
            File::create(image).and_then(|file| file.set_len(mib << 20)).expect("an image");
            let made = Command::new("losetup").args(["-f", "--show"]).arg(image).output().ok()?;
            let node = String::from_utf8(made.stdout).ok()?;
            made.status.success().then(|| Loop(node.trim().into()))
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
        }
    }

    #[test]
    fn what_a_plan_wrote_to_a_device_without_a_file_system_is_known_again() {
        let test = "what_a_plan_wrote_to_a_device_without_a_file_system_is_known_again";
        // SAFETY: a call without arguments.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIP {test}: needs root");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        // Made zero as a whole; and only at its ends, with what is between them in place.
        for (mib, scratch) in [(16, false), (1025, true)] {
            let Some(disk) = Loop::of(&dir.path().join(mib.to_string()), mib) else {
                println!("SKIP {test}: losetup makes no loop device here");
                return;
            };
            let path = &disk.0;
            let middle = (mib / 2) << 20;
            let claimed = claim(path, &[]).unwrap_or_else(|e| panic!("empty: {e}"));
            claimed.file().write_all_at(&vec![b'x'; 4 << 20], middle).expect("a load");
            drop(claimed);
            let refused = claim(path, &[]).expect_err("somebody's data").to_string();
            assert!(refused.contains("data of no known format"), "{refused}");
            let claimed = claim(path, std::slice::from_ref(path)).unwrap_or_else(|e| panic!("named: {e}"));
            clear(&claimed).expect("cleared");
            let mut byte = [0];
            claimed.file().read_exact_at(&mut byte, middle).expect("read");
            assert_eq!(byte == *b"x", scratch);
            drop(claimed);
            claim(path, &[]).unwrap_or_else(|e| panic!("the next repetition: {e}"));
            let others = device(path, &[], &Root::real()).map(drop).map_err(|e| e.to_string());
            assert_eq!(others.is_err_and(|e| e.contains("scratch data of plumb plan")), scratch);
            assert!(!is_unfinished(path), "nothing that its user must look at");
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
