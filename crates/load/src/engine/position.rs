// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a descriptor stands, so that lseek(2) is called only when it must be.

use super::result_of;
use std::os::fd::RawFd;

/// No file is so long: what comes after an error is not known.
const UNKNOWN: u64 = u64::MAX;

/// A descriptor and the place that it stands at. The place belongs to the
/// open file description: two workers must not share one.
#[derive(Debug)]
pub(super) struct Position {
    pub fd: RawFd,
    at: u64,
}

impl Position {
    /// A descriptor, wherever it stands now.
    pub fn new(fd: RawFd) -> Self {
        // SAFETY: a plain system call; it fails where nothing can be sought in.
        let at = unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) };
        Position { fd, at: u64::try_from(at).unwrap_or(UNKNOWN) }
    }

    /// Goes to `offset` unless it stands there; 0 or the negative error number.
    #[inline(always)]
    pub fn go(&mut self, offset: u64) -> i64 {
        if self.at == offset {
            return 0;
        }
        // SAFETY: a plain system call on a descriptor.
        let sought =
            result_of(unsafe { libc::lseek64(self.fd, offset as libc::off64_t, libc::SEEK_SET) } as isize);
        self.at = if sought < 0 { UNKNOWN } else { offset };
        sought.min(0)
    }

    /// Takes note of what a call at this place returned, and returns it.
    #[inline(always)]
    pub fn moved(&mut self, result: i64) -> i64 {
        self.at = if result < 0 { UNKNOWN } else { self.at.wrapping_add(result as u64) };
        result
    }
}
