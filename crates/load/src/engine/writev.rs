// SPDX-License-Identifier: Apache-2.0 OR MIT
//! readv(2) and writev(2) at the file's position.

use super::position::Position;
use super::vector::Vector;
use super::{result_of, sync, Action, Engine, EngineError, Operation, Setup};
use crate::job::SyncMethod;

/// A call an operation, the buffer in `--vector` pieces; lseek(2) before it where the order is not the file's.
#[derive(Debug)]
pub struct Writev {
    files: Vec<Position>,
    vector: Vector,
    method: SyncMethod,
}

impl Engine for Writev {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let files = setup.files.iter().map(|file| Position::new(file.fd)).collect();
        Ok(Writev { files, vector: Vector::new(setup.job), method: setup.job.sync })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let file = &mut self.files[operation.file as usize];
        if operation.action == Action::Sync {
            return Some(sync(file.fd, self.method, operation.offset, u64::from(operation.len)));
        }
        let sought = file.go(operation.offset);
        if sought < 0 {
            return Some(sought);
        }
        let (pieces, count) = self.vector.cut(operation.buffer, operation.len as usize);
        // SAFETY: the pieces are the slot's buffer, `len` bytes in all.
        let result = result_of(unsafe {
            match operation.action {
                Action::Read => libc::readv(file.fd, pieces, count),
                _ => libc::writev(file.fd, pieces, count),
            }
        });
        Some(file.moved(result))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, job, seeks_only_when_needed, suite, takes_direct, Bench};
    use super::super::Action;
    use super::Writev;
    use crate::job::Job;

    #[test]
    fn bytes_go_where_they_should() {
        for vector in [1, 4, 1024] {
            suite::<Writev>(&Job { vector, ..job() });
        }
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut bench = Bench::<Writev>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
    }

    #[test]
    fn it_seeks_only_out_of_order() {
        seeks_only_when_needed::<Writev>(&job());
    }

    #[test]
    fn pieces_are_whole_sectors_past_the_page_cache() {
        if takes_direct() {
            let held = bytes(4 * 4096, 1);
            let mut bench = Bench::<Writev>::new(&Job { direct: true, vector: 3, ..job() }, &[&held]);
            assert_eq!(bench.run(Action::Read, 0, 4096, 8192), 8192);
            assert!(bench.data(8192) == &held[4096..12_288]);
        }
    }
}
