// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page-aligned memory.

use std::io;

/// Memory of whole pages, as direct I/O wants it.
#[derive(Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, like a Vec's memory.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeros; at least one byte.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice
        // touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            let cause = io::Error::last_os_error();
            return Err(io::Error::new(
                cause.kind(),
                format!("{length} bytes of memory for data: {cause}; ask for smaller blocks"),
            ));
        }
        Ok(Self { start: start.cast(), length })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is initialised (zeros from the
        // kernel), and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in bytes; &mut self makes the access the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping; no slice of it
        // outlives self.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
