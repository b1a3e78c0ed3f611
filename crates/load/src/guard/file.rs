// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May this file be made, or overwritten?

use super::claim::{is_ours, sign};
use super::device::{from_error, handle, kind, swaps, through};
use super::refusal::{Found, Refusal};
use plumb_machine::{lock, writer_of, Block, LockError, Root, Space};
use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
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

/// A file that may be written: opened once, and locked while it is held.
#[derive(Debug)]
pub struct FileClaim {
    file: File,
    checked: CheckedFile,
}

/// A file that may be written, and is not held open.
#[derive(Debug)]
pub struct CheckedFile {
    /// Its path, links followed.
    name: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl CheckedFile {
    /// Its path, if that still leads to what was checked.
    ///
    /// # Errors
    /// Somebody put something else in its place.
    pub fn still_there(&self) -> Result<&Path, Refusal> {
        match std::fs::symlink_metadata(&self.name) {
            Ok(meta) if (meta.dev(), meta.ino()) == self.id => Ok(&self.name),
            _ => Err(Refusal::new(&self.name, Found::Replaced)),
        }
    }
}

impl FileClaim {
    fn new(file: File, name: PathBuf) -> io::Result<FileClaim> {
        let meta = file.metadata()?;
        Ok(FileClaim { file, checked: CheckedFile { name, id: (meta.dev(), meta.ino()) } })
    }

    /// A path that leads to the very file that was checked, whatever becomes of its name; valid in this process, and
    /// those that it forks, while the claim lives.
    pub fn path(&self) -> PathBuf {
        through(&self.file)
    }

    /// Asks once more, before the first write, whether its name leads to the file that was checked.
    ///
    /// # Errors
    /// Somebody put something else in its place.
    pub fn still_there(&self) -> Result<(), Refusal> {
        self.checked.still_there().map(drop)
    }

    /// The open file.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Keeps it no longer open: its file system can be unmounted.
    pub fn let_go(self) -> CheckedFile {
        self.checked
    }
}

/// Makes a file of the load's own, where nothing may stand yet; follows no link.
///
/// # Errors
/// It cannot be made, or something stands there meanwhile.
pub fn new_file(path: &Path) -> Result<FileClaim, Refusal> {
    let failed = |e: io::Error| {
        let found = if e.kind() == io::ErrorKind::AlreadyExists { Found::Replaced } else { from_error(&e) };
        Refusal::new(path, found)
    };
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file = File::options().read(true).write(true).create_new(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    sign(&file);
    // Nobody else can have it yet.
    let _ = lock(&file);
    FileClaim::new(file, path.to_path_buf()).map_err(failed)
}

/// Whether a file may be overwritten: it is not there (None), plumb load made it, or
/// `destroy` names it. Swap files, what a loop device shows, and what others write or lock never may.
///
/// # Errors
/// What was found and the next step.
pub fn existing_file(path: &Path, destroy: &[PathBuf]) -> Result<Option<FileClaim>, Refusal> {
    existing_file_in(path, destroy, &Root::real())
}

fn existing_file_in(path: &Path, destroy: &[PathBuf], root: &Root) -> Result<Option<FileClaim>, Refusal> {
    if regular(path)?.is_none() {
        return Ok(None);
    }
    let claim = unused_file(path, root)?;
    let is_it = |other: &Path| std::fs::metadata(other).is_ok_and(|o| (o.dev(), o.ino()) == claim.checked.id);
    if is_ours(&claim.file, &claim.checked.name) || destroy.iter().any(|d| is_it(d)) {
        return Ok(Some(claim));
    }
    let length = claim.file.metadata().map_or(0, |meta| meta.len());
    Err(Refusal::new(path, Found::NotOurs { length }))
}

/// Opens a regular file for reading and writing, and locks it, unless anybody uses it: the kernel as swap or below a
/// loop device, a process that locked it or has it open for writing.
///
/// # Errors
/// What was found and the next step.
pub fn unused_file(path: &Path, root: &Root) -> Result<FileClaim, Refusal> {
    let refuse = |found| Refusal::new(path, found);
    let failed = |e: io::Error| refuse(from_error(&e));
    // Followed once: what is opened is what was looked at.
    let name = path.canonicalize().map_err(failed)?;
    let handle = handle(&name).map_err(failed)?;
    let meta = handle.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(refuse(special(&meta, &name)));
    }
    let is_it = |other: &Path| {
        std::fs::metadata(root.path(other)).is_ok_and(|o| (o.dev(), o.ino()) == (meta.dev(), meta.ino()))
    };
    if let Some((swap, _)) = swaps(root).into_iter().find(|(path, file)| *file && is_it(path)) {
        return Err(refuse(Found::SwapFile(swap)));
    }
    for disk in Block::disks(root) {
        if let Some(backing) = disk.backing(root).filter(|backing| is_it(backing)) {
            return Err(refuse(Found::Loop { by: disk.name, backing }));
        }
    }
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
    let file = options.open(through(&handle)).map_err(failed)?;
    match lock(&file) {
        Ok(()) => {}
        Err(LockError::Locked(by)) => return Err(refuse(Found::Locked(by))),
        Err(LockError::System(e)) => return Err(failed(e)),
    }
    if let Some(user) = writer_of(&meta, root) {
        return Err(refuse(Found::Written(user)));
    }
    FileClaim::new(file, name).map_err(failed)
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
    if !meta.is_file() {
        return refuse(special(&meta, path));
    }
    Ok(Some(meta))
}

fn special(meta: &Metadata, path: &Path) -> Found {
    let what = meta.file_type();
    if what.is_block_device() || what.is_char_device() {
        return Found::Device(path.canonicalize().unwrap_or_else(|_| path.into()));
    }
    Found::Special(kind(meta))
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

    fn found<T: std::fmt::Debug>(result: Result<T, Refusal>) -> Found {
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

    #[test]
    fn a_file_that_others_lock_or_write_is_never_overwritten() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, "x").unwrap();
        let named = [path.clone()];
        // As a served disk, another load, and a virtual machine hold theirs.
        let claim = unused_file(&path, &Root::real()).unwrap();
        let refused = found(existing_file(&path, &named));
        assert!(
            matches!(&refused, Found::Locked(Some(user)) if user.pid == std::process::id()),
            "{refused:?}"
        );
        assert!(!refused.yields_to_destroy());
        drop(claim);
        let mut writer = std::process::Command::new("sh")
            .args(["-c", "exec 9<>\"$1\" && echo ready && read line", "sh"])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let refused = found(existing_file(&path, &named));
        assert!(matches!(&refused, Found::Written(user) if user.pid == writer.id()), "{refused:?}");
        assert!(!refused.yields_to_destroy());
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(existing_file(&path, &named).unwrap().is_some());
    }

    #[test]
    fn a_new_file_follows_no_link_and_a_replaced_one_is_told() {
        let dir = tempfile::TempDir::new().unwrap();
        let (path, precious) = (dir.path().join("new"), dir.path().join("precious"));
        symlink("precious", &path).unwrap();
        assert_eq!(found(new_file(&path)), Found::Replaced);
        assert!(!precious.exists());
        std::fs::remove_file(&path).unwrap();
        let claim = new_file(&path).unwrap();
        claim.still_there().unwrap();
        std::fs::write(&precious, "mine").unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink("precious", &path).unwrap();
        assert_eq!(found(claim.still_there()), Found::Replaced);
        std::fs::write(claim.path(), "ours").unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
        assert_eq!(found(claim.let_go().still_there().map(Path::to_path_buf)), Found::Replaced);
    }
}
