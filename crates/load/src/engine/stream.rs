// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file as a stream of the C library, as fopen(3) would give it, and the
//! engine over such streams, whatever calls move its bytes.

use super::{errno, result_of, sync, Action, Engine, EngineError, OpenFile, Operation, Setup};
use crate::job::SyncMethod;
use std::marker::PhantomData;

/// What the stream did last: ISO C wants a seek where it turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Reading,
    Writing,
}

/// A stream over a duplicate of the worker's descriptor, which stays the
/// worker's when the stream is closed.
#[derive(Debug)]
struct Stream {
    file: *mut libc::FILE,
    at: u64,
    /// `None`: the next operation seeks.
    last: Option<Direction>,
}

impl Stream {
    /// A stream in the mode that the descriptor is open in.
    fn open(file: &OpenFile) -> Result<Self, EngineError> {
        let failed =
            |what| EngineError::last(what, "raise the limit of open files (ulimit -n) or use fewer --files");
        // SAFETY: plain system calls on a descriptor; the mode is a C string.
        unsafe {
            let flags = libc::fcntl(file.fd, libc::F_GETFL);
            if flags < 0 {
                return Err(EngineError::last("fcntl(F_GETFL) of a file", "open the files first"));
            }
            let mode = match flags & libc::O_ACCMODE {
                libc::O_RDONLY => c"r",
                libc::O_WRONLY => c"w",
                _ => c"r+",
            };
            let own = libc::fcntl(file.fd, libc::F_DUPFD_CLOEXEC, 0);
            if own < 0 {
                return Err(failed("a second descriptor for a stream"));
            }
            let stream = libc::fdopen(own, mode.as_ptr());
            if stream.is_null() {
                let error = failed("fdopen");
                libc::close(own);
                return Err(error);
            }
            Ok(Stream { file: stream, at: 0, last: None })
        }
    }

    /// Seeks, if it is not there or turns round; 0 or the negative error
    /// number. Seeking writes out what the stream still holds.
    #[inline(always)]
    fn go(&mut self, offset: u64, direction: Direction) -> i64 {
        if self.at == offset && self.last == Some(direction) {
            return 0;
        }
        // SAFETY: the stream is open.
        if unsafe { libc::fseeko(self.file, offset as libc::off_t, libc::SEEK_SET) } != 0 {
            self.last = None;
            return -i64::from(errno());
        }
        (self.at, self.last) = (offset, Some(direction));
        0
    }

    /// Takes note that `count` of `len` bytes went through, and returns them
    /// or, if the stream has an error, its negative number.
    #[inline(always)]
    fn moved(&mut self, count: usize, len: usize) -> i64 {
        self.at += count as u64;
        if count < len {
            return self.cut_short(count);
        }
        count as i64
    }

    #[cold]
    fn cut_short(&mut self, count: usize) -> i64 {
        let error = errno();
        self.last = None;
        // SAFETY: the stream is open.
        unsafe {
            let failed = libc::ferror(self.file) != 0;
            libc::clearerr(self.file);
            if failed {
                -i64::from(error)
            } else {
                count as i64
            }
        }
    }

    /// Hands what it holds to the kernel, then synchronises.
    fn sync(&mut self, method: SyncMethod, offset: u64, len: u64) -> i64 {
        // SAFETY: the stream is open.
        let fd = unsafe {
            if libc::fflush(self.file) != 0 {
                let error = errno();
                libc::clearerr(self.file);
                return -i64::from(error);
            }
            libc::fileno(self.file)
        };
        sync(fd, method, offset, len)
    }

    /// Hands what it holds to the kernel and closes; once.
    fn close(&mut self) -> i64 {
        let file = std::mem::replace(&mut self.file, std::ptr::null_mut());
        if file.is_null() {
            return 0;
        }
        // SAFETY: the stream was open, and is not used again.
        result_of(unsafe { libc::fclose(file) } as isize)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}

/// Which calls move an operation's bytes through a stream.
pub trait Transfer {
    /// Reads up to `len` bytes; returns how many.
    ///
    /// # Safety
    /// The stream is open and the buffer has `len` bytes.
    unsafe fn read(stream: *mut libc::FILE, buffer: *mut u8, len: usize) -> usize;

    /// Writes up to `len` bytes; returns how many.
    ///
    /// # Safety
    /// The stream is open and the buffer has `len` bytes.
    unsafe fn write(stream: *mut libc::FILE, buffer: *const u8, len: usize) -> usize;
}

#[derive(Debug)]
pub struct Streams<T> {
    streams: Vec<Stream>,
    method: SyncMethod,
    transfer: PhantomData<T>,
}

impl<T: Transfer> Engine for Streams<T> {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let streams = setup.files.iter().map(Stream::open).collect::<Result<_, _>>()?;
        Ok(Streams { streams, method: setup.job.sync, transfer: PhantomData })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let stream = &mut self.streams[operation.file as usize];
        let len = operation.len as usize;
        let direction = match operation.action {
            Action::Read => Direction::Reading,
            Action::Write => Direction::Writing,
            _ => return Some(stream.sync(self.method, operation.offset, u64::from(operation.len))),
        };
        let sought = stream.go(operation.offset, direction);
        if sought < 0 {
            return Some(sought);
        }
        // SAFETY: the stream is open; the buffer is the slot's and has `len` bytes.
        let count = unsafe {
            match direction {
                Direction::Reading => T::read(stream.file, operation.buffer, len),
                Direction::Writing => T::write(stream.file, operation.buffer, len),
            }
        };
        Some(stream.moved(count, len))
    }

    /// Closes all streams; the first error, or 0.
    fn close(&mut self) -> i64 {
        let mut first = 0;
        for mut stream in self.streams.drain(..) {
            let result = stream.close();
            if first == 0 {
                first = result;
            }
        }
        first
    }
}
