// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names made, opened, asked for, changed and deleted, one an operation.

use super::flags::durable;
use super::{result_of, sync, Action, Engine, EngineError, Operation, Setup};
use crate::job::{SyncMethod, What};
use crate::names::{NameBuffer, Names};
use std::ffi::CStr;
use std::os::fd::RawFd;

/// What the job does, with name number `offset`.
#[derive(Debug)]
pub struct NameCalls {
    names: Names,
    what: What,
    path: NameBuffer,
    other: NameBuffer,
    /// A bit a name: whether it has its other name now.
    renamed: Vec<u64>,
    /// How a file is opened that is made.
    flags: libc::c_int,
    method: SyncMethod,
    /// Files are made durable each by itself, one of so many.
    every: u64,
    made: u64,
}

impl Engine for NameCalls {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        let bits = if job.what == What::Rename { setup.names.count().div_ceil(64) } else { 0 };
        let direct = if job.direct { libc::O_DIRECT } else { 0 };
        Ok(NameCalls {
            names: setup.names.clone(),
            what: job.what,
            path: NameBuffer::default(),
            other: NameBuffer::default(),
            renamed: vec![0; bits as usize],
            flags: libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC | direct | durable(job),
            method: job.sync,
            every: job.every.max(1),
            made: 0,
        })
    }

    /// A file that is made is synchronised before it is closed; there is no file open for a sync of its own.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        if operation.action != Action::Name {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let number = operation.offset;
        if self.what == What::Rename {
            return Some(self.rename(number));
        }
        let path = self.names.path(number, false, &mut self.path);
        Some(match self.what {
            What::Create => {
                self.made += 1;
                let method = if self.made % self.every == 0 { self.method } else { SyncMethod::None };
                create(path, self.flags, operation, method)
            }
            What::Open => open(path),
            What::Stat => stat(path),
            // SAFETY: a C string.
            What::Unlink => result_of(unsafe { libc::unlink(path.as_ptr()) } as isize),
            _ => -i64::from(libc::EOPNOTSUPP),
        })
    }
}

impl NameCalls {
    /// To the other name, and the next time back.
    fn rename(&mut self, number: u64) -> i64 {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let Some(bits) = self.renamed.get_mut(word) else { return -i64::from(libc::EINVAL) };
        let back = *bits & bit != 0;
        let from = self.names.path(number, back, &mut self.path);
        let to = self.names.path(number, !back, &mut self.other);
        // SAFETY: C strings.
        let result = result_of(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) } as isize);
        if result == 0 {
            *bits ^= bit;
        }
        result
    }
}

/// Makes a file, writes the buffer into it, and closes it; the bytes
/// written, or the first error. What was made stays.
fn create(path: &CStr, flags: libc::c_int, operation: &Operation, method: SyncMethod) -> i64 {
    // SAFETY: a C string; the buffer is the slot's and has `len` bytes; the descriptor is ours.
    unsafe {
        let fd: RawFd = libc::open(path.as_ptr(), flags, 0o644);
        if fd < 0 {
            return result_of(fd as isize);
        }
        let mut result = 0;
        if operation.len > 0 {
            result = result_of(libc::write(fd, operation.buffer.cast(), operation.len as usize));
        }
        if result >= 0 && method.is_call() {
            result = match sync(fd, method, 0, 0) {
                0 => result,
                error => error,
            };
        }
        let closed = result_of(libc::close(fd) as isize);
        if result >= 0 && closed < 0 {
            return closed;
        }
        result
    }
}

fn open(path: &CStr) -> i64 {
    // SAFETY: a C string; the descriptor is ours.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return result_of(fd as isize);
        }
        result_of(libc::close(fd) as isize)
    }
}

fn stat(path: &CStr) -> i64 {
    let mut attributes = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a C string, and room for the attributes.
    result_of(unsafe { libc::stat(path.as_ptr(), attributes.as_mut_ptr()) } as isize)
}

#[cfg(test)]
mod tests {
    use super::super::testing::bytes;
    use super::super::Setup;
    use super::*;
    use crate::buffers::Buffers;
    use crate::job::Job;
    use plumb_trace::load::OperationKind;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const NAMES: u64 = 70;

    struct Place {
        dir: TempDir,
        names: Names,
        buffers: Buffers,
    }

    impl Place {
        fn new(made: bool) -> Self {
            let dir = TempDir::new().expect("a directory");
            let names = Names::new(dir.path(), NAMES, 3);
            names.make_dirs().expect("directories");
            let mut buffers = Buffers::new(1, 4096).expect("memory");
            buffers.slice(0, 4096).copy_from_slice(&bytes(4096, 1));
            let place = Place { dir, names, buffers };
            for i in 0..if made { NAMES } else { 0 } {
                std::fs::write(place.path(i, "txt"), i.to_string()).expect("a file");
            }
            place
        }

        fn path(&self, i: u64, ending: &str) -> PathBuf {
            self.dir.path().join(format!("{:05}/{i:010}.{ending}", i % 3))
        }

        fn engine(&self, job: &Job) -> NameCalls {
            let setup = Setup {
                job,
                files: &[],
                buffers: &self.buffers,
                names: &self.names,
                shared: std::ptr::null_mut(),
                shared_len: 0,
                listener: -1,
                worker: 0,
            };
            NameCalls::open(&setup).expect("the engine starts")
        }

        fn run(&self, engine: &mut NameCalls, i: u64, len: u32) -> i64 {
            let buffer = self.buffers.at(0);
            let (kind, action) = (OperationKind::Other, Action::Name);
            engine
                .start(&Operation { kind, action, file: 0, len, offset: i, buffer }, 0)
                .expect("it ends at once")
        }
    }

    fn job(what: What) -> Job {
        Job { what, ..Job::default() }
    }

    #[test]
    fn files_are_made_with_what_is_in_the_buffer() {
        let place = Place::new(false);
        for sync in [SyncMethod::None, SyncMethod::Fsync, SyncMethod::ODsync] {
            let mut engine = place.engine(&Job { sync, ..job(What::Create) });
            let first = sync as u64 * 3;
            for (i, len) in [(first, 0), (first + 1, 100), (first + 2, 4096)] {
                assert_eq!(place.run(&mut engine, i, len), i64::from(len));
                assert!(std::fs::read(place.path(i, "txt")).expect("made") == bytes(4096, 1)[..len as usize]);
                assert_eq!(
                    place.run(&mut engine, i, len),
                    -i64::from(libc::EEXIST),
                    "never over another one"
                );
            }
        }
        std::fs::remove_dir_all(place.dir.path().join("00002")).expect("removed");
        assert_eq!(place.run(&mut place.engine(&job(What::Create)), 2, 1), -i64::from(libc::ENOENT));
    }

    #[test]
    fn names_are_opened_asked_for_and_deleted() {
        let place = Place::new(true);
        for (what, there) in [(What::Open, true), (What::Stat, true), (What::Unlink, false)] {
            let mut engine = place.engine(&job(what));
            for i in 0..NAMES {
                assert_eq!(place.run(&mut engine, i, 0), 0, "{what} {i}");
                assert_eq!(place.path(i, "txt").exists(), there, "{what} {i}");
            }
        }
        for what in [What::Open, What::Stat, What::Unlink, What::Rename] {
            assert_eq!(place.run(&mut place.engine(&job(what)), 5, 0), -i64::from(libc::ENOENT), "{what}");
        }
    }

    #[test]
    fn renames_go_there_and_back() {
        let place = Place::new(true);
        let mut engine = place.engine(&job(What::Rename));
        for (from, to) in [("txt", "new"), ("new", "txt"), ("txt", "new")] {
            for i in 0..NAMES {
                assert!(place.path(i, from).exists());
                assert_eq!(place.run(&mut engine, i, 0), 0);
                assert!(!place.path(i, from).exists());
                assert_eq!(std::fs::read(place.path(i, to)).expect("renamed"), i.to_string().as_bytes());
            }
        }
        assert_eq!(place.run(&mut engine, 1000, 0), -i64::from(libc::EINVAL), "a name that is none");
    }

    #[test]
    fn a_sync_by_itself_is_no_figure() {
        let place = Place::new(false);
        let mut engine = place.engine(&job(What::Create));
        let (kind, action) = (OperationKind::Sync, Action::Sync);
        let sync = Operation { kind, action, file: 0, len: 0, offset: 0, buffer: place.buffers.at(0) };
        assert_eq!(engine.start(&sync, 0), Some(-i64::from(libc::EOPNOTSUPP)));
    }
}
