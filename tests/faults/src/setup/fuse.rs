// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file served over /dev/fuse: what a loop device needs below it to be a disk of our making.
//! What lies behind the file is a [`Backing`]. Speaks the protocol itself (version 7.31 of it, one
//! regular file as the root of the mount), because no library is needed for nine requests.

use crate::sys;
use anyhow::{bail, Context, Result};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// Largest request, bytes.
pub const MAX: usize = 1 << 20;

/// What a served file does. Called by many threads at once.
pub trait Backing: Send + Sync {
    /// Bytes; never changes.
    fn size(&self) -> u64;
    /// Reads up to `buffer.len()` bytes at `offset`; how many.
    ///
    /// # Errors
    /// Its errno is what the reader gets.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// Its errno is what the writer gets.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// fsync: what a loop device makes of a flush of its cache. It has no FUA; the block layer
    /// makes a write and a flush of one (drivers/block/loop.c, block/blk-flush.c).
    ///
    /// # Errors
    /// Its errno is what who flushes gets.
    fn flush(&self) -> io::Result<()>;
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

/// Opens a connection to the kernel; it serves nothing until [`mount`].
///
/// # Errors
/// No /dev/fuse, no root.
pub fn open() -> Result<File> {
    File::options().read(true).write(true).open("/dev/fuse").context("/dev/fuse")
}

/// Mounts the connection's file on the (new) file `path`. Whoever opens it waits until somebody
/// serves the connection.
///
/// # Errors
/// No root, or the kernel refuses the mount.
pub fn mount(device: &File, path: &Path) -> Result<()> {
    File::create(path).with_context(|| path.display().to_string())?;
    let target = CString::new(path.as_os_str().as_encoded_bytes())?;
    let options =
        format!("fd={},rootmode=100600,user_id=0,group_id=0,allow_other,max_read={MAX}", device.as_raw_fd());
    let options = CString::new(options)?;
    // SAFETY: all strings end in NUL and live long enough.
    let done = unsafe {
        libc::mount(
            c"plumb-faults".as_ptr(),
            target.as_ptr(),
            c"fuse".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            options.as_ptr().cast(),
        )
    };
    if done != 0 {
        bail!("{}: mount as fuse: {} (this needs root)", path.display(), io::Error::last_os_error());
    }
    Ok(())
}

/// Answers requests until the file is unmounted; as many threads as want to.
pub fn serve(mut device: &File, backing: &dyn Backing) {
    sys::sharp_timers();
    let mut request = vec![0; MAX + 4096];
    let mut reply = vec![0; MAX];
    loop {
        let len = match device.read(&mut request) {
            Ok(len) => len,
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return,
            // Aborted: by hand, or because the kernel gave it up.
            Err(e) if e.raw_os_error() == Some(libc::ECONNABORTED) => return,
            // Not mounted yet.
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            // ENOENT: the request was taken back; EINTR, EAGAIN: none was taken.
            Err(_) => continue,
        };
        let (head, body) = request[..len].split_at(40);
        let unique = long(head, 8);
        let (error, data): (i32, &[u8]) = match answer(backing, word(head, 4), body, &mut reply) {
            Some(Ok(len)) => (0, &reply[..len]),
            Some(Err(errno)) => (-errno, &[]),
            None => continue,
        };
        let mut out = Vec::with_capacity(16 + data.len());
        out.extend(u32::to_ne_bytes(16 + data.len() as u32));
        out.extend(i32::to_ne_bytes(error));
        out.extend(u64::to_ne_bytes(unique));
        out.extend(data);
        // ENOENT here: whoever asked was interrupted and waits no more.
        let _ = device.write(&out);
    }
}

/// `struct fuse_attr`.
fn attributes(size: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(88);
    for long in [1, size, size / 512, 0, 0, 0] {
        out.extend(u64::to_ne_bytes(long));
    }
    for word in [0, 0, 0, libc::S_IFREG | 0o600, 1, 0, 0, 0, 4096, 0] {
        out.extend(u32::to_ne_bytes(word));
    }
    out
}

/// Does a request; the length of its answer in `reply`, an errno, or nothing to answer.
fn answer(backing: &dyn Backing, opcode: u32, body: &[u8], reply: &mut [u8]) -> Option<Result<usize, i32>> {
    let put = |reply: &mut [u8], bytes: &[u8]| {
        reply[..bytes.len()].copy_from_slice(bytes);
        Some(Ok(bytes.len()))
    };
    match opcode {
        // FORGET, INTERRUPT, BATCH_FORGET are not answered.
        2 | 36 | 42 => None,
        // GETATTR, SETATTR: 16 bytes of validity (an hour), then the attributes.
        3 | 4 => {
            let mut out = u64::to_ne_bytes(3600).to_vec();
            out.extend([0; 8]);
            out.extend(attributes(backing.size()));
            put(reply, &out)
        }
        // OPEN: a handle and flags that nobody uses.
        14 => put(reply, &[0; 16]),
        // READ
        15 => {
            let size = (word(body, 16) as usize).min(MAX);
            Some(backing.read(&mut reply[..size], long(body, 8)).map_err(errno))
        }
        // WRITE
        16 => {
            let size = word(body, 16);
            match backing.write(&body[40..40 + size as usize], long(body, 8)) {
                Ok(()) => put(reply, &u64::to_ne_bytes(size.into())),
                Err(e) => Some(Err(errno(e))),
            }
        }
        // RELEASE; FLUSH, which is a close and no fsync.
        18 | 25 => Some(Ok(0)),
        // FSYNC
        20 => Some(backing.flush().map(|()| 0).map_err(errno)),
        // INIT: version, no read-ahead, ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES, then how
        // much may be outstanding (256, congested at 192) and the largest write.
        26 => {
            let flags = (1 << 0) | (1 << 5) | (1 << 15) | (1 << 22);
            let mut out = Vec::new();
            for word in [7_u32, 31, 0, flags, 256 | (192 << 16), MAX as u32, 1, (MAX / 4096) as u32] {
                out.extend(word.to_ne_bytes());
            }
            out.resize(64, 0);
            put(reply, &out)
        }
        _ => Some(Err(libc::ENOSYS)),
    }
}

fn errno(e: io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}
