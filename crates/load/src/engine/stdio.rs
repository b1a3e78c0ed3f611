// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fread(3) and fwrite(3).
//!
//! A write has ended when it is in the C library's buffer: that is what the
//! interface promises, and what is measured. Sync and close bring it to the
//! kernel; an error of an earlier write may come with them.

use super::stream::{Streams, Transfer};

/// A call an operation; fseeko(3) before it only where the place or the direction changes.
pub type Stdio = Streams<Blocks>;

/// A block in one call.
#[derive(Debug)]
pub struct Blocks;

impl Transfer for Blocks {
    #[inline(always)]
    unsafe fn read(stream: *mut libc::FILE, buffer: *mut u8, len: usize) -> usize {
        // SAFETY: as the caller says.
        unsafe { libc::fread(buffer.cast(), 1, len, stream) }
    }

    #[inline(always)]
    unsafe fn write(stream: *mut libc::FILE, buffer: *const u8, len: usize) -> usize {
        // SAFETY: as the caller says.
        unsafe { libc::fwrite(buffer.cast(), 1, len, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{job, suite, Bench};
    use super::super::{Action, Engine};
    use super::Stdio;
    use crate::job::{Job, SyncMethod};

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Stdio>(&job());
    }

    #[test]
    fn a_full_device_is_an_error_when_the_buffer_is_handed_over() {
        let mut bench = Bench::<Stdio>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 100), 100);
        assert_eq!(bench.run(Action::Sync, 0, 0, 0), -i64::from(libc::ENOSPC));
        assert_eq!(bench.run(Action::Write, 0, 0, 100), 100);
        assert_eq!(bench.engine.close(), -i64::from(libc::ENOSPC));
    }

    #[test]
    fn sync_hands_the_buffer_over() {
        let mut bench = Bench::<Stdio>::new(&Job { sync: SyncMethod::Fdatasync, ..job() }, &[&[0; 64]]);
        bench.data(64).fill(1);
        assert_eq!(bench.run(Action::Write, 0, 0, 64), 64);
        assert_eq!(bench.contents(0), [0; 64]);
        assert_eq!(bench.run(Action::Sync, 0, 0, 64), 0);
        assert_eq!(bench.contents(0), [1; 64]);
    }
}
