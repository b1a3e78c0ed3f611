// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file below a served disk: in memory, or the user's.

use super::SECTOR;
use plumb_load::guard::{unused_file, Found};
use plumb_machine::{lock, Root};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

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
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_CLOEXEC);
    match options.create_new(true).open(path) {
        Ok(file) => {
            // Locked before it has a length: who finds it meanwhile finds it in use or too short.
            let locked = lock(&file).map_err(|_| io::Error::other("another process has it locked"));
            let done = locked.and_then(|()| file.set_len(size));
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
    let file = unused_file(path, &Root::real()).map_err(|refusal| refuse(why(&refusal.found)))?.into_file();
    let there = file.metadata().map_err(named)?.len();
    if there != size {
        return Err(refuse(format!(
            "is {there} bytes long, the disk {size}; give that size, or name a file that does not exist yet"
        )));
    }
    Ok(file)
}

/// Why a file is no disk's, and what to do.
fn why(found: &Found) -> String {
    match found {
        Found::Special(_) | Found::Device(_) => {
            "not a regular file; name one, or a file that does not exist yet".into()
        }
        Found::Loop { by, .. } => {
            format!("/dev/{by} uses it; detach that first (losetup -d /dev/{by}), or name another file")
        }
        Found::SwapFile(_) => format!("{found}; swapoff it first, or name another file"),
        Found::Locked(_) => format!("{found}; is it served already? end that first, or name another file"),
        Found::Written(_) => format!("{found}; end that process first, or name another file"),
        other => other.to_string(),
    }
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
