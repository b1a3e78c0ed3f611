// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pieces of a vectored operation.

use crate::job::Job;

/// Pieces of a buffer, one behind the other and of equal length but for the
/// last. They are cut anew only when the buffer or the length changes.
#[derive(Debug)]
pub(super) struct Vector {
    pieces: Vec<libc::iovec>,
    /// Pieces are whole multiples of this, bytes.
    unit: usize,
    buffer: *mut u8,
    len: usize,
    used: usize,
}

/// O_DIRECT takes whole sectors; of no device are they smaller.
const SECTOR: usize = 512;

impl Vector {
    /// As many pieces as the job says.
    pub fn new(job: &Job) -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Vector {
            pieces: vec![none; job.vector.max(1) as usize],
            unit: if job.direct { SECTOR } else { 1 },
            buffer: std::ptr::null_mut(),
            len: 0,
            used: 0,
        }
    }

    /// The buffer's first `len` bytes in pieces: fewer than the job says where there are not so many bytes
    /// (with O_DIRECT: sectors).
    #[inline(always)]
    pub fn cut(&mut self, buffer: *mut u8, len: usize) -> (*const libc::iovec, libc::c_int) {
        if self.buffer != buffer || self.len != len {
            self.cut_anew(buffer, len);
        }
        (self.pieces.as_ptr(), self.used as libc::c_int)
    }

    fn cut_anew(&mut self, buffer: *mut u8, len: usize) {
        let units = len / self.unit;
        self.used = self.pieces.len().min(units).max(1);
        let each = units / self.used * self.unit;
        for (i, piece) in self.pieces[..self.used].iter_mut().enumerate() {
            piece.iov_base = buffer.wrapping_add(i * each).cast();
            piece.iov_len = if i + 1 == self.used { len - i * each } else { each };
        }
        (self.buffer, self.len) = (buffer, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(job: &Job, len: usize) -> Vec<usize> {
        let mut buffer = vec![0u8; len];
        let start = buffer.as_mut_ptr();
        let mut vector = Vector::new(job);
        vector.cut(start, len);
        let mut at = start;
        for piece in &vector.pieces[..vector.used] {
            assert_eq!(piece.iov_base.cast(), at);
            at = at.wrapping_add(piece.iov_len);
        }
        assert_eq!(at, start.wrapping_add(len));
        vector.pieces[..vector.used].iter().map(|p| p.iov_len).collect()
    }

    #[test]
    fn pieces_cover_the_buffer() {
        let job = Job { vector: 4, ..Job::default() };
        assert_eq!(lens(&job, 4096), [1024; 4]);
        assert_eq!(lens(&job, 4099), [1024, 1024, 1024, 1027]);
        assert_eq!(lens(&job, 3), [1, 1, 1]);
        let direct = Job { direct: true, ..job };
        assert_eq!(lens(&direct, 5120), [1024, 1024, 1024, 2048]);
        assert_eq!(lens(&direct, 1024), [512, 512]);
    }
}
