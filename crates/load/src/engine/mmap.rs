// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory copied from or to a mapping of the file.
//!
//! An error of the device, or a file that someone shortens meanwhile, comes as
//! SIGBUS and ends the process: a mapping has no other way to say it. Workers
//! are processes of their own, so it is the run that finds out and reports it.

use super::{result_of, sync, Action, Engine, EngineError, OpenFile, Operation, Setup};
use crate::job::SyncMethod;

/// A memory copy an operation; the kernel is entered only by page faults.
#[derive(Debug)]
pub struct Mmap {
    files: Vec<OpenFile>,
    maps: Vec<Map>,
    method: SyncMethod,
    /// Bytes of a page less one.
    page_mask: u64,
}

/// A shared mapping of a whole file; writable where the descriptor is.
#[derive(Debug)]
struct Map {
    start: *mut u8,
    len: u64,
    writable: bool,
}

impl Map {
    fn open(number: usize, file: &OpenFile) -> Result<Self, EngineError> {
        if file.size == 0 {
            return Err(EngineError(format!(
                "file {number} is empty: there is nothing to map; choose --layout overwrite, preallocated or sparse and a --size above 0"
            )));
        }
        // SAFETY: a plain system call, and a new mapping at a place that the kernel chooses.
        unsafe {
            let flags = libc::fcntl(file.fd, libc::F_GETFL);
            let writable = flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDWR;
            let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
            let len = file.size as usize;
            let start = libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.fd, 0);
            if start == libc::MAP_FAILED {
                let what = format!("mmap of file {number}, {len} bytes");
                return Err(EngineError::last(&what, "choose another --through, or a smaller --size"));
            }
            Ok(Map { start: start.cast(), len: file.size, writable })
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.len as usize) };
    }
}

impl Engine for Mmap {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let maps = setup.files.iter().enumerate().map(|(i, file)| Map::open(i, file));
        // SAFETY: reads a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Ok(Mmap {
            maps: maps.collect::<Result<_, _>>()?,
            files: setup.files.to_vec(),
            method: setup.job.sync,
            page_mask: u64::try_from(page).unwrap_or(4096) - 1,
        })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        let map = &self.maps[operation.file as usize];
        let (offset, len) = (operation.offset, u64::from(operation.len));
        if operation.action == Action::Sync {
            return Some(self.sync(operation));
        }
        let len = len.min(map.len.saturating_sub(offset)) as usize;
        match operation.action {
            // SAFETY: `offset` and `len` lie in the mapping as far as `len` is not 0; the buffer is the slot's.
            Action::Read => unsafe {
                std::ptr::copy_nonoverlapping(map.start.wrapping_add(offset as usize), operation.buffer, len);
            },
            // As write(2) says it of a descriptor that is open for reading.
            _ if !map.writable => return Some(-i64::from(libc::EBADF)),
            // A mapping cannot grow a file.
            _ if len == 0 && operation.len > 0 => return Some(-i64::from(libc::EFAULT)),
            // SAFETY: as above, and the mapping is writable.
            _ => unsafe {
                std::ptr::copy_nonoverlapping(operation.buffer, map.start.wrapping_add(offset as usize), len);
            },
        }
        Some(len as i64)
    }

    fn close(&mut self) -> i64 {
        self.maps.clear();
        0
    }
}

impl Mmap {
    /// The pages that `offset` and `len` touch, or with `len` 0 the whole file.
    fn sync(&self, operation: &Operation) -> i64 {
        let (offset, len) = (operation.offset, u64::from(operation.len));
        if self.method != SyncMethod::Msync {
            return sync(self.files[operation.file as usize].fd, self.method, offset, len);
        }
        let map = &self.maps[operation.file as usize];
        let (begin, end) = match len {
            0 => (0, map.len),
            _ => (offset.min(map.len) & !self.page_mask, offset.saturating_add(len).min(map.len)),
        };
        // SAFETY: inside the mapping, from the beginning of a page.
        unsafe {
            let start = map.start.wrapping_add(begin as usize);
            result_of(libc::msync(start.cast(), (end - begin) as usize, libc::MS_SYNC) as isize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, job, suite, Bench};
    use super::super::Action;
    use super::Mmap;
    use crate::job::{Job, SyncMethod};

    #[test]
    fn bytes_go_where_they_should() {
        suite::<Mmap>(&job());
        suite::<Mmap>(&Job { sync: SyncMethod::Msync, ..job() });
    }

    #[test]
    fn msync_takes_places_inside_pages() {
        let mut bench = Bench::<Mmap>::new(&Job { sync: SyncMethod::Msync, ..job() }, &[&bytes(100_000, 1)]);
        for (offset, len) in [(0, 0), (1, 1), (4095, 2), (5000, 16_000), (99_999, 4096), (200_000, 4096)] {
            assert_eq!(bench.run(Action::Sync, 0, offset, len), 0, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn it_neither_grows_a_file_nor_leaves_it() {
        let mut bench = Bench::<Mmap>::new(&job(), &[&[0; 5000]]);
        bench.data(4096).fill(3);
        assert_eq!(bench.run(Action::Write, 0, 4096, 4096), 904);
        assert_eq!(bench.run(Action::Write, 0, 8192, 4096), -i64::from(libc::EFAULT));
        assert_eq!(bench.contents(0).len(), 5000);
        assert_eq!(bench.contents(0)[4096..], [3; 904]);
    }

    #[test]
    fn an_empty_file_is_refused_with_a_way_out() {
        let said = Bench::<Mmap>::try_new(&job(), &[&[1], &[]], true).err().expect("nothing to map").0;
        assert!(said.contains("file 1") && said.contains("--layout"), "{said}");
    }
}
