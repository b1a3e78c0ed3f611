// SPDX-License-Identifier: Apache-2.0 OR MIT
//! getc(3) and putc(3): a call a character.
//!
//! The locking ones, not `getc_unlocked`: that is what a program that says
//! `getc` gets. What [`super::Stdio`] says of the buffer holds here as well.

use super::stream::{Streams, Transfer};

extern "C" {
    fn getc(stream: *mut libc::FILE) -> libc::c_int;
    fn putc(c: libc::c_int, stream: *mut libc::FILE) -> libc::c_int;
}

/// As many calls an operation as it has bytes.
pub type Char = Streams<Characters>;

/// A character in one call.
#[derive(Debug)]
pub struct Characters;

impl Transfer for Characters {
    #[inline(always)]
    unsafe fn read(stream: *mut libc::FILE, buffer: *mut u8, len: usize) -> usize {
        for i in 0..len {
            // SAFETY: as the caller says.
            unsafe {
                let c = getc(stream);
                if c == libc::EOF {
                    return i;
                }
                buffer.add(i).write(c as u8);
            }
        }
        len
    }

    #[inline(always)]
    unsafe fn write(stream: *mut libc::FILE, buffer: *const u8, len: usize) -> usize {
        for i in 0..len {
            // SAFETY: as the caller says.
            unsafe {
                if putc(libc::c_int::from(buffer.add(i).read()), stream) == libc::EOF {
                    return i;
                }
            }
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{job, suite, Bench};
    use super::super::{Action, Engine};
    use super::Char;

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Char>(&job());
    }

    #[test]
    fn a_full_device_is_an_error_when_the_buffer_is_full() {
        let mut bench = Bench::<Char>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 16_384), -i64::from(libc::ENOSPC));
        assert_eq!(bench.run(Action::Write, 0, 0, 10), 10);
        assert_eq!(bench.engine.close(), -i64::from(libc::ENOSPC));
    }
}
