// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies inside the kernel: sendfile(2) and copy_file_range(2), from a file
//! to the same place of its partner.

use super::position::Position;
use super::{errno, result_of, sync, Action, Engine, EngineError, Operation, Setup};
use crate::job::SyncMethod;
use std::os::fd::RawFd;

/// sendfile(2); lseek(2) of the partner before it where the order is not the file's.
#[derive(Debug)]
pub struct Sendfile {
    files: Vec<(RawFd, Position)>,
    method: SyncMethod,
}

/// copy_file_range(2): the file system may share the blocks instead of copying them.
#[derive(Debug)]
pub struct CopyFileRange {
    files: Vec<(RawFd, RawFd)>,
    method: SyncMethod,
}

/// The files' descriptors and their partners'.
fn pairs(setup: &Setup<'_>) -> Result<Vec<(RawFd, RawFd)>, EngineError> {
    let pair = |(i, file): (usize, &super::OpenFile)| {
        if file.copy_to < 0 {
            return Err(EngineError(format!(
                "file {i} has nothing to be copied to; --through sendfile and copy-file-range go with --what copy"
            )));
        }
        Ok((file.fd, file.copy_to))
    };
    setup.files.iter().enumerate().map(pair).collect()
}

fn failed(call: &str) -> EngineError {
    let next = match errno() {
        libc::EXDEV => {
            "the two files lie on different file systems; put them on one, or choose --through sendfile"
        }
        libc::EINVAL => "these kinds of file cannot be copied so; use regular files, or choose --what write",
        libc::EOPNOTSUPP | libc::ENOSYS => {
            "this file system or kernel does not have it; choose the other of sendfile and copy-file-range"
        }
        libc::EBADF => "the file must be open for reading, its partner for writing, without O_APPEND",
        _ => "choose the other of --through sendfile and copy-file-range",
    };
    EngineError::last(call, next)
}

/// One call; `len` 0 asks only whether it can be.
pub(super) fn copy_file_range(from: RawFd, to: RawFd, offset: u64, len: usize) -> i64 {
    let (mut here, mut there) = (offset as libc::off64_t, offset as libc::off64_t);
    // SAFETY: both places are ours and live as long as the call does.
    result_of(unsafe { libc::copy_file_range(from, &mut here, to, &mut there, len, 0) })
}

/// One call, to where the partner stands; `len` 0 asks only whether it can be.
fn sendfile(from: RawFd, to: RawFd, offset: u64, len: usize) -> i64 {
    let mut here = offset as libc::off_t;
    // SAFETY: the place is ours and lives as long as the call does.
    result_of(unsafe { libc::sendfile(to, from, &mut here, len) })
}

impl Engine for Sendfile {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let pairs = pairs(setup)?;
        if pairs.first().is_some_and(|&(from, to)| sendfile(from, to, 0, 0) < 0) {
            return Err(failed("sendfile of the first file"));
        }
        let files = pairs.into_iter().map(|(from, to)| (from, Position::new(to))).collect();
        Ok(Sendfile { files, method: setup.job.sync })
    }

    /// A sync is one of the partner: that is where something was written.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let (from, to) = &mut self.files[operation.file as usize];
        if operation.action != Action::Copy {
            return Some(sync(to.fd, self.method, operation.offset, u64::from(operation.len)));
        }
        let sought = to.go(operation.offset);
        if sought < 0 {
            return Some(sought);
        }
        let result = sendfile(*from, to.fd, operation.offset, operation.len as usize);
        Some(to.moved(result))
    }
}

impl Engine for CopyFileRange {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let files = pairs(setup)?;
        if files.first().is_some_and(|&(from, to)| copy_file_range(from, to, 0, 0) < 0) {
            return Err(failed("copy_file_range of the first file"));
        }
        Ok(CopyFileRange { files, method: setup.job.sync })
    }

    /// A sync is one of the partner: that is where something was written.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let (from, to) = self.files[operation.file as usize];
        let (offset, len) = (operation.offset, operation.len);
        Some(match operation.action {
            Action::Copy => copy_file_range(from, to, offset, len as usize),
            _ => sync(to, self.method, offset, u64::from(len)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, job, Bench};
    use super::*;
    use crate::job::{Job, What};

    fn copy() -> Job {
        Job { what: What::Copy, sync: SyncMethod::Fdatasync, ..job() }
    }

    fn copies<E: Engine>() {
        let held = bytes(10_000, 1);
        let mut to = vec![0; 10_000];
        let mut bench = Bench::<E>::pair(&copy(), &held, &to, true).expect("the engine starts");
        for (offset, len) in [(0, 4096), (4096, 1000), (9000, 100), (512, 512), (1024, 3000)] {
            assert_eq!(bench.run(Action::Copy, 0, offset as u64, len), len as i64);
            to[offset..offset + len].copy_from_slice(&held[offset..offset + len]);
            assert!(bench.contents(1) == to, "{len} bytes at {offset}");
        }
        assert_eq!(bench.run(Action::Copy, 0, 8192, 4096), 1808, "short at the file's end");
        assert_eq!(bench.run(Action::Copy, 0, 20_000, 4096), 0);
        to[8192..].copy_from_slice(&held[8192..]);
        assert_eq!(bench.run(Action::Copy, 0, 0, 4096), 4096);
        assert_eq!(bench.run(Action::Sync, 0, 0, 0), 0);
        assert!(bench.contents(1) == to);
        assert!(bench.contents(0) == held);
    }

    fn refuses<E: Engine>() {
        let said = Bench::<E>::pair(&copy(), &[1; 10], &[2; 10], false).err().expect("read only").0;
        assert!(said.contains("open for reading"), "{said}");
        let said = Bench::<E>::try_new(&copy(), &[&[1]], true).err().expect("no partner").0;
        assert!(said.contains("file 0") && said.contains("--what copy"), "{said}");
    }

    #[test]
    fn sendfile_copies_places() {
        copies::<Sendfile>();
        refuses::<Sendfile>();
    }

    #[test]
    fn copy_file_range_copies_places() {
        copies::<CopyFileRange>();
        refuses::<CopyFileRange>();
    }

    #[test]
    fn errors_of_a_copy_come_back() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("from");
        std::fs::write(&path, [1; 4096]).expect("a file");
        let from = std::fs::File::open(path).expect("that file");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        use std::os::fd::AsRawFd;
        let (from, full) = (from.as_raw_fd(), full.as_raw_fd());
        assert_eq!(sendfile(from, from, 0, 4096), -i64::from(libc::EBADF), "it is open for reading");
        assert_eq!(copy_file_range(from, from, 0, 4096), -i64::from(libc::EBADF), "it is open for reading");
        assert_eq!(sendfile(from, full, 0, 4096), -i64::from(libc::EINVAL));
        assert_eq!(copy_file_range(from, full, 0, 4096), -i64::from(libc::EINVAL));
        assert!(failed("copy_file_range").0.contains("regular files"));
    }
}
