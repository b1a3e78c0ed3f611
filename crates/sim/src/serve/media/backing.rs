// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file below a served disk: in memory, or the user's.

use super::SECTOR;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file of `size` zero bytes in memory that has no name.
///
/// # Errors
/// The kernel's.
pub(super) fn memory(size: u64) -> io::Result<File> {
    // SAFETY: a valid name.
    let fd = unsafe { libc::memfd_create(c"plumb-disk".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to the File.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(size)?;
    Ok(file)
}

/// Makes or opens the file of a disk, and locks it.
///
/// # Errors
/// As [`super::Media::file`].
pub(super) fn file(path: &Path, size: u64) -> io::Result<File> {
    let refuse =
        |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", path.display()));
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    if size == 0 || size % SECTOR != 0 {
        return Err(refuse(format!("{size} bytes: a disk's length is a multiple of {SECTOR}")));
    }
    let mut options = File::options();
    // Not waiting: somebody may put a FIFO there meanwhile.
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    match options.clone().create_new(true).open(path) {
        Ok(file) => {
            // Locked before it has a length: who finds it meanwhile finds it in use or too short.
            let done = lock(&file).and_then(|()| file.set_len(size));
            return match done {
                Ok(()) => Ok(file),
                Err(e) => {
                    let _ = std::fs::remove_file(path);
                    Err(named(e))
                }
            };
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(named(e)),
    }
    // Looked at before it is opened: opening a device can do things.
    regular(&std::fs::metadata(path).map_err(named)?).map_err(refuse)?;
    let file = options.open(path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    regular(&metadata).map_err(refuse)?;
    if let Some(device) = loop_device_of(&metadata) {
        let device = device.display();
        return Err(refuse(format!(
            "{device} uses it; detach that first (losetup -d {device}), or name another file"
        )));
    }
    if metadata.len() != size {
        return Err(refuse(format!(
            "is {} bytes long, the disk {size}; give that size, or name a file that does not exist yet",
            metadata.len()
        )));
    }
    lock(&file).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => refuse("another process has it locked; is it served already?".into()),
        _ => named(e),
    })?;
    Ok(file)
}

fn regular(metadata: &Metadata) -> Result<(), String> {
    if metadata.is_file() {
        return Ok(());
    }
    Err("not a regular file; name one, or a file that does not exist yet".into())
}

fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The loop device that has this file below it, as /sys/block/loopN/loop/backing_file says.
fn loop_device_of(metadata: &Metadata) -> Option<PathBuf> {
    let is_it = |block: &Path| {
        let path = std::fs::read_to_string(block.join("loop/backing_file")).ok()?;
        let below = std::fs::metadata(path.trim_end_matches('\n')).ok()?;
        ((below.dev(), below.ino()) == (metadata.dev(), metadata.ino())).then_some(())
    };
    let blocks = std::fs::read_dir("/sys/block").ok()?;
    let mut loops = blocks.flatten().filter(|b| b.file_name().as_encoded_bytes().starts_with(b"loop"));
    loops.find_map(|b| is_it(&b.path()).map(|()| Path::new("/dev").join(b.file_name())))
}

/// Makes bytes zero: a hole where the file system can.
///
/// # Errors
/// The file system's.
pub(super) fn zero(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (Ok(begin), Ok(count)) = (libc::off_t::try_from(offset), libc::off_t::try_from(length)) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    // SAFETY: the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), how, begin, count) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
        return Err(error);
    }
    const PIECE: u64 = 1 << 16;
    let zeroes = vec![0; length.min(PIECE) as usize];
    let mut done = 0;
    while done < length {
        let piece = &zeroes[..(length - done).min(PIECE) as usize];
        file.write_all_at(piece, offset + done)?;
        done += piece.len() as u64;
    }
    Ok(())
}
