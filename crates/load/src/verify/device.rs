// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes that are there: read past the page cache where the file system
//! lets that be, so that the device answers and not the memory.

use super::VerifyError;
use crate::data::Memory;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Direct I/O is aligned to this: no device has longer logical blocks.
const ALIGN: u64 = 4096;
const WINDOW: u64 = 1 << 20;

/// A file, and a window of it in memory.
pub(super) struct Device {
    /// None for a file that is gone: it reads as zeros.
    file: Option<File>,
    direct: bool,
    memory: Memory,
    begin: u64,
    /// Valid bytes of the window, with the zeros behind the file's end.
    valid: u64,
}

impl Device {
    pub(super) fn open(path: &Path) -> Result<Self, VerifyError> {
        let failed = |source: io::Error| VerifyError::Io { path: path.to_owned(), source };
        let memory = Memory::new(WINDOW as usize).map_err(failed)?;
        let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
        let (file, direct) = match open(libc::O_DIRECT) {
            Ok(file) => (Some(file), true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => (None, false),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (Some(open(0).map_err(failed)?), false),
            Err(e) => return Err(failed(e)),
        };
        Ok(Self { file, direct, memory, begin: 0, valid: 0 })
    }

    pub(super) fn gone(&self) -> bool {
        self.file.is_none()
    }

    pub(super) fn direct(&self) -> bool {
        self.direct
    }

    /// `length` bytes at `offset`; behind the file's end they are zeros. When
    /// the window must move it takes in what is needed up to `until`.
    pub(super) fn bytes(&mut self, offset: u64, length: u64, until: u64) -> io::Result<&[u8]> {
        let end = offset.saturating_add(length);
        if offset < self.begin || end > self.begin + self.valid {
            self.load(offset, length, until)?;
        }
        let at = (offset - self.begin) as usize;
        Ok(&self.memory.bytes()[at..at + length as usize])
    }

    fn load(&mut self, offset: u64, length: u64, until: u64) -> io::Result<()> {
        self.valid = 0;
        self.begin = offset / ALIGN * ALIGN;
        let least = offset - self.begin + length;
        let wanted = until.saturating_sub(self.begin).min(WINDOW).max(least).next_multiple_of(ALIGN) as usize;
        if wanted > self.memory.bytes().len() {
            self.memory = Memory::new(wanted)?;
        }
        let buf = &mut self.memory.bytes_mut()[..wanted];
        let mut got = 0;
        if let Some(file) = &self.file {
            while got < wanted {
                match file.read_at(&mut buf[got..], self.begin + got as u64) {
                    Ok(0) => break,
                    Ok(n) => got += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    // Only the file's end leaves direct I/O at an odd place.
                    Err(e) if e.raw_os_error() == Some(libc::EINVAL) && got as u64 % ALIGN != 0 => break,
                    // The error may be of a place that nobody asked for.
                    Err(_) if got as u64 >= least => {
                        self.valid = got as u64;
                        return Ok(());
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        buf[got..].fill(0);
        self.valid = wanted as u64;
        Ok(())
    }
}
