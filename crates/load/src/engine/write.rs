// SPDX-License-Identifier: Apache-2.0 OR MIT
//! read(2) and write(2) at the file's position.

use super::position::Position;
use super::{result_of, sync, Action, Engine, EngineError, Operation, Setup};
use crate::job::SyncMethod;

/// A call an operation where the order is that of the file; lseek(2) before it where it is not.
#[derive(Debug)]
pub struct Write {
    files: Vec<Position>,
    method: SyncMethod,
}

impl Engine for Write {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let files = setup.files.iter().map(|file| Position::new(file.fd)).collect();
        Ok(Write { files, method: setup.job.sync })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let file = &mut self.files[operation.file as usize];
        let len = operation.len as usize;
        if operation.action == Action::Sync {
            return Some(sync(file.fd, self.method, operation.offset, u64::from(operation.len)));
        }
        let sought = file.go(operation.offset);
        if sought < 0 {
            return Some(sought);
        }
        // SAFETY: the buffer is the slot's and has `len` bytes.
        let result = result_of(unsafe {
            match operation.action {
                Action::Read => libc::read(file.fd, operation.buffer.cast(), len),
                _ => libc::write(file.fd, operation.buffer.cast(), len),
            }
        });
        Some(file.moved(result))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{job, seeks_only_when_needed, suite, Bench};
    use super::super::Action;
    use super::Write;

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Write>(&job());
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut bench = Bench::<Write>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
    }

    #[test]
    fn it_seeks_only_out_of_order() {
        seeks_only_when_needed::<Write>(&job());
    }
}
