// SPDX-License-Identifier: Apache-2.0 OR MIT
//! preadv2(2) and pwritev2(2): pieces, a place and flags in one call.

use super::vector::Vector;
use super::{result_of, sync, write_flags, Action, Engine, EngineError, OpenFile, Operation, Setup};
use crate::job::SyncMethod;

/// A call an operation, the buffer in `--vector` pieces; RWF_DSYNC with `--sync rwf-dsync`.
#[derive(Debug)]
pub struct Pwritev2 {
    files: Vec<OpenFile>,
    vector: Vector,
    /// RWF_ flags of a write.
    flags: libc::c_int,
    method: SyncMethod,
}

impl Engine for Pwritev2 {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        let (vector, flags) = (Vector::new(job), write_flags(job.sync));
        Ok(Pwritev2 { files: setup.files.to_vec(), vector, flags, method: job.sync })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let fd = self.files[operation.file as usize].fd;
        let offset = operation.offset as libc::off64_t;
        let (pieces, count) = self.vector.cut(operation.buffer, operation.len as usize);
        // SAFETY: the pieces are the slot's buffer, `len` bytes in all.
        Some(unsafe {
            match operation.action {
                Action::Read => result_of(libc::preadv2(fd, pieces, count, offset, 0)),
                Action::Write => result_of(libc::pwritev2(fd, pieces, count, offset, self.flags)),
                _ => sync(fd, self.method, operation.offset, u64::from(operation.len)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{job, suite, Bench};
    use super::super::Action;
    use super::Pwritev2;
    use crate::job::{Job, SyncMethod};

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Pwritev2>(&job());
        suite::<Pwritev2>(&Job { sync: SyncMethod::RwfDsync, ..job() });
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut bench = Bench::<Pwritev2>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
    }

    #[test]
    fn only_rwf_dsync_writes_with_a_flag() {
        // A device whose driver has no vectored write knows no flags: that it refuses shows that there was one.
        let dsync = Job { sync: SyncMethod::RwfDsync, ..job() };
        let mut bench = Bench::<Pwritev2>::on_device(&dsync, "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::EOPNOTSUPP));
    }
}
