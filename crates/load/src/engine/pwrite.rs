// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pread(2) and pwrite(2).

use super::{result_of, sync, Action, Engine, EngineError, OpenFile, Operation, Setup};
use crate::job::SyncMethod;

/// A call an operation, its place in the call.
#[derive(Debug)]
pub struct Pwrite {
    files: Vec<OpenFile>,
    method: SyncMethod,
}

impl Engine for Pwrite {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        Ok(Pwrite { files: setup.files.to_vec(), method: setup.job.sync })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let fd = self.files[operation.file as usize].fd;
        let (len, offset) = (operation.len as usize, operation.offset as libc::off64_t);
        // SAFETY: the buffer is the slot's and has `len` bytes.
        Some(unsafe {
            match operation.action {
                Action::Read => result_of(libc::pread64(fd, operation.buffer.cast(), len, offset)),
                Action::Write => result_of(libc::pwrite64(fd, operation.buffer.cast(), len, offset)),
                _ => sync(fd, self.method, operation.offset, u64::from(operation.len)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{job, suite, Bench};
    use super::*;

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Pwrite>(&job());
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut bench = Bench::<Pwrite>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
    }
}
