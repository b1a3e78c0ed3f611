// SPDX-License-Identifier: Apache-2.0 OR MIT
//! aio_read(3) and aio_write(3) of the C library.
//!
//! glibc does them with threads of its own, at most 20 a process, and those of
//! one descriptor one after the other: a greater depth waits in its lists.

use super::{errno, sync, Action, Done, Engine, EngineError, OpenFile, Operation, Setup, Wait};
use crate::job::SyncMethod;

/// A control block a slot.
#[derive(Debug)]
pub struct PosixAio {
    files: Vec<OpenFile>,
    method: SyncMethod,
    /// Boxed: glibc keeps their addresses while they are under way.
    blocks: Box<[libc::aiocb]>,
    /// The addresses of those under way, null for the other slots.
    list: Vec<*const libc::aiocb>,
    under_way: usize,
}

impl Engine for PosixAio {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let slots = setup.buffers.slots();
        let new = || {
            // SAFETY: a control block of zeros is valid.
            let mut block: libc::aiocb = unsafe { std::mem::zeroed() };
            block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            block
        };
        Ok(PosixAio {
            files: setup.files.to_vec(),
            method: setup.job.sync,
            blocks: (0..slots).map(|_| new()).collect(),
            list: vec![std::ptr::null(); slots],
            under_way: 0,
        })
    }

    /// Starts at once: there is nothing to hand over in a batch. A sync is a call of its own and ends here.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, slot: u32) -> Option<i64> {
        let fd = self.files[operation.file as usize].fd;
        if operation.action == Action::Sync {
            return Some(sync(fd, self.method, operation.offset, u64::from(operation.len)));
        }
        let block: *mut libc::aiocb = &mut self.blocks[slot as usize];
        // SAFETY: the slot is free, so its block is ours; block and buffer stay where they are until it ended.
        let started = unsafe {
            (*block).aio_fildes = fd;
            (*block).aio_buf = operation.buffer.cast();
            (*block).aio_nbytes = operation.len as usize;
            (*block).aio_offset = operation.offset as libc::off_t;
            match operation.action {
                Action::Read => libc::aio_read(block),
                _ => libc::aio_write(block),
            }
        };
        if started != 0 {
            return Some(-i64::from(errno()));
        }
        self.list[slot as usize] = block;
        self.under_way += 1;
        None
    }

    fn finish(&mut self, wait: Wait, done: &mut Vec<Done>) -> Result<(), i32> {
        loop {
            let found = self.collect(done);
            if found || wait == Wait::No || self.under_way == 0 {
                return Ok(());
            }
            match self.suspend(wait) {
                0 => {}
                libc::EAGAIN => return Ok(()),
                libc::EINTR if wait == Wait::Yes => {}
                libc::EINTR => return Ok(()),
                error => return Err(error),
            }
        }
    }

    /// Waits for what is under way: its buffers must not be given back before.
    fn close(&mut self) -> i64 {
        let mut done = Vec::new();
        while self.under_way > 0 {
            if let Err(error) = self.finish(Wait::Yes, &mut done) {
                return -i64::from(error);
            }
        }
        0
    }
}

impl PosixAio {
    fn collect(&mut self, done: &mut Vec<Done>) -> bool {
        let before = self.under_way;
        for (slot, (block, listed)) in self.blocks.iter_mut().zip(&mut self.list).enumerate() {
            if listed.is_null() {
                continue;
            }
            // SAFETY: it was started, and its result was not fetched yet.
            let result = unsafe {
                match libc::aio_error(block) {
                    libc::EINPROGRESS => continue,
                    0 => libc::aio_return(block) as i64,
                    error => {
                        libc::aio_return(block);
                        -i64::from(error)
                    }
                }
            };
            *listed = std::ptr::null();
            self.under_way -= 1;
            done.push(Done { slot: slot as u32, result });
        }
        self.under_way < before
    }

    /// Sleeps until one ended: 0, or the error number (EAGAIN when the time is over).
    fn suspend(&self, wait: Wait) -> i32 {
        let limit = match wait {
            Wait::For(ns) => Some(super::timespec(ns)),
            _ => None,
        };
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: null or the addresses of blocks under way.
        let woken = unsafe { libc::aio_suspend(self.list.as_ptr(), self.list.len() as libc::c_int, limit) };
        if woken == 0 {
            0
        } else {
            errno()
        }
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{closes, job, queue, suite, Bench};
    use super::super::Action;
    use super::PosixAio;
    use crate::job::Job;

    #[test]
    fn bytes_go_where_they_should() {
        suite::<PosixAio>(&job());
    }

    #[test]
    fn many_at_once_end_once_each() {
        queue::<PosixAio>(&Job { depth: 16, ..job() });
        queue::<PosixAio>(&Job { depth: 16, direct: true, ..job() });
        closes::<PosixAio>(&Job { depth: 16, ..job() });
    }

    #[test]
    fn a_full_device_is_an_error() {
        let mut bench = Bench::<PosixAio>::on_device(&job(), "/dev/full");
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
    }
}
