// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fread(3) and fwrite(3).
//!
//! A write has ended when it is in the C library's buffer: that is what the
//! interface promises, and what is measured. Sync and close bring it to the
//! kernel; an error of an earlier write may come with them.

use super::stream::{close_all, Direction, Stream};
use super::{Action, Engine, EngineError, Operation, Setup};
use crate::job::SyncMethod;

/// A call an operation; fseeko(3) before it only where the place or the direction changes.
#[derive(Debug)]
pub struct Stdio {
    streams: Vec<Stream>,
    method: SyncMethod,
}

impl Engine for Stdio {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let streams = setup.files.iter().map(Stream::open).collect::<Result<_, _>>()?;
        Ok(Stdio { streams, method: setup.job.sync })
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
                Direction::Reading => libc::fread(operation.buffer.cast(), 1, len, stream.file()),
                Direction::Writing => libc::fwrite(operation.buffer.cast(), 1, len, stream.file()),
            }
        };
        Some(stream.moved(count, len))
    }

    fn close(&mut self) -> i64 {
        close_all(&mut self.streams)
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
