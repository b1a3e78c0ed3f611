// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May this file be made, or overwritten?

use super::claim::made_by_us;
use super::device::{from_error, kind, same_file, swaps};
use super::refusal::{Found, Refusal};
use plumb_machine::{Block, Root, Space};
use std::ffi::CString;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Whether a file can be made or grown by `size_to_add` bytes: it is a regular
/// file or not there yet, the directory can be written, and there is room.
/// Says nothing about what an existing file holds; see [`existing_file`].
///
/// # Errors
/// What was found and the next step.
pub fn file(path: &Path, size_to_add: u64) -> Result<(), Refusal> {
    let new = match regular(path)? {
        Some(_) => {
            may_write(path, path)?;
            0
        }
        None => 1,
    };
    // A relative path of one word has the empty path as its parent.
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    room(path, dir, new, size_to_add)
}

/// Whether `count` new files of `bytes` in all have room in a directory.
///
/// # Errors
/// What was found and the next step.
pub fn files(dir: &Path, count: u64, bytes: u64) -> Result<(), Refusal> {
    room(dir, dir, count, bytes)
}

/// Whether a file may be overwritten: it is not there, plumb load made it, or
/// `destroy` names it. Swap files and what a loop device shows never may.
///
/// # Errors
/// What was found and the next step.
pub fn existing_file(path: &Path, destroy: &[PathBuf]) -> Result<(), Refusal> {
    existing_file_in(path, destroy, &Root::real())
}

fn existing_file_in(path: &Path, destroy: &[PathBuf], root: &Root) -> Result<(), Refusal> {
    let refuse = |found| Err(Refusal::new(path, found));
    let Some(meta) = regular(path)? else { return Ok(()) };
    let is_it =
        |other: &Path| std::fs::metadata(other).is_ok_and(|o| (o.dev(), o.ino()) == (meta.dev(), meta.ino()));
    if let Some((swap, _)) = swaps(root).into_iter().find(|(p, file)| *file && is_it(&root.path(p))) {
        return refuse(Found::SwapFile(swap));
    }
    for disk in Block::disks(root) {
        let Some(backing) = disk.backing(root) else { continue };
        if is_it(&root.path(&backing)) || same_file(&backing, path, root) {
            return refuse(Found::Loop { by: disk.name, backing });
        }
    }
    if made_by_us(path) || destroy.iter().any(|d| is_it(d)) {
        return Ok(());
    }
    refuse(Found::NotOurs { length: meta.len() })
}

/// The file's facts; None where it is still to be made. Anything but a regular
/// file is refused, also when a link leads to it.
fn regular(path: &Path) -> Result<Option<Metadata>, Refusal> {
    let refuse = |found| Err(Refusal::new(path, found));
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        // A dangling link would be followed by open(O_CREAT): the file would
        // come to be where the user did not say.
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
            return if std::fs::symlink_metadata(path).is_ok() { refuse(Found::Missing) } else { Ok(None) };
        }
        Err(e) => return refuse(from_error(&e)),
    };
    let what = meta.file_type();
    if what.is_block_device() || what.is_char_device() {
        return refuse(Found::Device(path.canonicalize().unwrap_or_else(|_| path.into())));
    }
    if !what.is_file() {
        return refuse(Found::Special(kind(&meta)));
    }
    Ok(Some(meta))
}

fn c_path(object: &Path, path: &Path) -> Result<CString, Refusal> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Refusal::new(object, Found::Failed("its path holds a zero byte".into())))
}

fn may_write(object: &Path, path: &Path) -> Result<(), Refusal> {
    let name = c_path(object, path)?;
    // SAFETY: name ends with a zero and lives through the call.
    let denied = unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) } != 0;
    if denied {
        return Err(Refusal::new(object, from_error(&std::io::Error::last_os_error())));
    }
    Ok(())
}

fn room(object: &Path, dir: &Path, new_files: u64, need: u64) -> Result<(), Refusal> {
    let refuse = |found| Err(Refusal::new(object, found));
    if !dir.is_dir() {
        return refuse(Found::NoDirectory(dir.into()));
    }
    if new_files > 0 {
        may_write(object, dir)?;
    }
    let space = match Space::of(dir) {
        Ok(space) => space,
        Err(error) => return refuse(from_error(&error)),
    };
    if space.read_only {
        return refuse(Found::ReadOnly);
    }
    if need > space.free {
        return refuse(Found::NoSpace { need, free: space.free });
    }
    match space.free_files {
        Some(free) if new_files > free => refuse(Found::NoInodes { need: new_files, free }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn found(result: Result<(), Refusal>) -> Found {
        let refusal = result.expect_err("must be refused");
        assert!(refusal.to_string().contains(refusal.found.next_step()));
        refusal.found
    }

    #[test]
    fn a_new_file_with_room_is_fine_and_without_it_is_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("new");
        file(&path, 1 << 20).unwrap();
        assert!(matches!(found(file(&path, u64::MAX)), Found::NoSpace { need: u64::MAX, .. }));
        assert!(matches!(found(files(dir.path(), u64::MAX, 1)), Found::NoInodes { .. }));
        files(dir.path(), 10, 1 << 20).unwrap();
        let lost = dir.path().join("no/such");
        assert_eq!(found(file(&lost, 1)), Found::NoDirectory(dir.path().join("no")));
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_also_behind_a_link() {
        let dir = tempfile::TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        let name = CString::new(at("fifo").as_os_str().as_bytes()).unwrap();
        // SAFETY: name ends with a zero and lives through the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        symlink("fifo", at("to-fifo")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        assert_eq!(found(file(&at("fifo"), 0)), Found::Special("fifo"));
        assert_eq!(found(file(&at("to-fifo"), 0)), Found::Special("fifo"));
        assert_eq!(found(file(&at("socket"), 0)), Found::Special("socket"));
        assert_eq!(found(file(dir.path(), 0)), Found::Special("directory"));
        assert_eq!(found(file(&at("null"), 0)), Found::Device("/dev/null".into()));
        assert_eq!(found(file(&at("dangling"), 0)), Found::Missing);
    }

    #[test]
    fn a_file_system_that_can_only_be_read_is_refused() {
        let read_only = plumb_machine::mounts(&Root::real())
            .into_iter()
            .find(|m| m.options.starts_with("ro,") && std::fs::read_dir(&m.point).is_ok());
        let Some(mount) = read_only else {
            println!("SKIP a_file_system_that_can_only_be_read_is_refused: none is mounted here");
            return;
        };
        let refused = found(file(&mount.point.join("new file"), 0));
        assert!(matches!(refused, Found::NotPermitted(_) | Found::ReadOnly), "{refused:?}");
    }

    #[test]
    fn a_users_file_is_overwritten_only_when_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let (mine, link) = (dir.path().join("mine"), dir.path().join("link"));
        existing_file(&mine, &[]).unwrap();
        std::fs::write(&mine, "precious").unwrap();
        symlink("mine", &link).unwrap();
        let refused = found(existing_file(&mine, &[]));
        assert_eq!(refused, Found::NotOurs { length: 8 });
        assert!(refused.yields_to_destroy());
        existing_file(&mine, std::slice::from_ref(&link)).unwrap();
        existing_file(&link, std::slice::from_ref(&mine)).unwrap();
        assert!(existing_file(&mine, &[dir.path().join("other")]).is_err());
        assert_eq!(std::fs::read(&mine).unwrap(), b"precious");
    }

    #[test]
    fn a_swap_file_and_a_loop_devices_file_are_never_overwritten() {
        let dir = tempfile::TempDir::new().unwrap();
        let tree = dir.path();
        for made in ["proc", "sys/block/loop0/loop"] {
            std::fs::create_dir_all(tree.join(made)).unwrap();
        }
        std::fs::create_dir_all(tree.join("sys/dev/block")).unwrap();
        symlink("../../block/loop0", tree.join("sys/dev/block/7:0")).unwrap();
        std::fs::write(tree.join("sys/block/loop0/dev"), "7:0\n").unwrap();
        std::fs::write(tree.join("sys/block/loop0/loop/backing_file"), "/image\n").unwrap();
        std::fs::write(tree.join("proc/swaps"), "Filename Type Size\n/swap\\040file file 8 0 -2\n").unwrap();
        for name in ["swap file", "image"] {
            std::fs::write(tree.join(name), "x").unwrap();
        }
        let ask = |name: &str| {
            let path = tree.join(name);
            found(existing_file_in(&path, std::slice::from_ref(&path), &Root::at(tree)))
        };
        assert_eq!(ask("swap file"), Found::SwapFile("/swap file".into()));
        assert_eq!(ask("image"), Found::Loop { by: "loop0".into(), backing: "/image".into() });
        assert!(!ask("image").yields_to_destroy());
    }
}
