// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that operations read into and write from.

use std::io;

/// One buffer a slot, page aligned (as O_DIRECT needs it), every page touched
/// before the clock starts.
#[derive(Debug)]
pub struct Buffers {
    start: *mut u8,
    each: usize,
    slots: usize,
}

/// Buffers begin at multiples of this, bytes.
const ALIGN: usize = 4096;

impl Buffers {
    /// `slots` buffers of `len` bytes.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn new(slots: usize, len: usize) -> io::Result<Self> {
        let each = len.max(1).next_multiple_of(ALIGN);
        let total = each.checked_mul(slots.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new anonymous mapping; populated, so that no fault is inside an operation.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                total,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Buffers { start: start.cast(), each, slots: slots.max(1) })
    }

    /// The buffer of a slot.
    #[inline(always)]
    pub fn at(&self, slot: u32) -> *mut u8 {
        debug_assert!((slot as usize) < self.slots);
        // SAFETY: slots are below the number that was mapped.
        unsafe { self.start.add(slot as usize * self.each) }
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes from one buffer's beginning to the next one's.
    pub fn each(&self) -> usize {
        self.each
    }

    /// The first `len` bytes of a slot's buffer.
    pub fn slice(&mut self, slot: u32, len: usize) -> &mut [u8] {
        assert!(len <= self.each);
        // SAFETY: inside the mapping, and borrowed with self.
        unsafe { std::slice::from_raw_parts_mut(self.at(slot), len) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.each * self.slots) };
    }
}
