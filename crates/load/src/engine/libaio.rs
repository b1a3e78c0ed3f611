// SPDX-License-Identifier: Apache-2.0 OR MIT
//! io_submit(2) and io_getevents(2), Linux's older interface for operations
//! under way at once. Without O_DIRECT a submission ends when the operation does.

use super::{errno, sync, write_flags, Action, Done, Engine, EngineError, OpenFile, Operation, Setup, Wait};
use crate::job::SyncMethod;
use std::collections::VecDeque;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// What io_getevents(2) fills (`linux/aio_abi.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// A context of the kernel, a control block a slot.
#[derive(Debug)]
pub struct Libaio {
    files: Vec<OpenFile>,
    method: SyncMethod,
    /// RWF_ flags of a write.
    flags: i32,
    context: libc::c_ulong,
    blocks: Box<[libc::iocb]>,
    events: Box<[Event]>,
    /// Started, not handed over yet: the addresses of their blocks.
    queued: VecDeque<*mut libc::iocb>,
    /// Refused when they were handed over; they end with the next [`Engine::finish`].
    refused: Vec<Done>,
    under_way: usize,
}

/// A new context for `events` operations at once.
fn setup(events: usize) -> Result<libc::c_ulong, EngineError> {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes the context's number.
    if unsafe { libc::syscall(libc::SYS_io_setup, events as libc::c_long, &mut context) } != 0 {
        let next = match errno() {
            libc::EAGAIN => "raise sysctl fs.aio-max-nr, or use a smaller --depth or fewer workers",
            _ => "this kernel has no asynchronous I/O (CONFIG_AIO); choose --through io-uring or posix-aio",
        };
        return Err(EngineError::last(&format!("io_setup of {events}"), next));
    }
    Ok(context)
}

/// Whether this kernel has it.
pub(super) fn available() -> Result<(), EngineError> {
    let context = setup(1)?;
    // SAFETY: the context was just made, and nothing is under way in it.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    Ok(())
}

impl Engine for Libaio {
    fn open(given: &Setup<'_>) -> Result<Self, EngineError> {
        let slots = given.buffers.slots();
        let context = setup(slots)?;
        let new = |slot: usize| {
            // SAFETY: a control block of zeros is valid.
            let mut block: libc::iocb = unsafe { std::mem::zeroed() };
            block.aio_data = slot as u64;
            block
        };
        Ok(Libaio {
            files: given.files.to_vec(),
            method: given.job.sync,
            flags: write_flags(given.job.sync),
            context,
            blocks: (0..slots).map(new).collect(),
            events: vec![Event::default(); slots].into(),
            queued: VecDeque::with_capacity(slots),
            refused: Vec::with_capacity(slots),
            under_way: 0,
        })
    }

    /// A sync is a call of its own and ends here.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, slot: u32) -> Option<i64> {
        let fd = self.files[operation.file as usize].fd;
        let block = &mut self.blocks[slot as usize];
        (block.aio_lio_opcode, block.aio_rw_flags) = match operation.action {
            Action::Read => (IOCB_CMD_PREAD, 0),
            Action::Write => (IOCB_CMD_PWRITE, self.flags),
            _ => return Some(sync(fd, self.method, operation.offset, u64::from(operation.len))),
        };
        block.aio_fildes = fd as u32;
        block.aio_buf = operation.buffer as u64;
        block.aio_nbytes = u64::from(operation.len);
        block.aio_offset = operation.offset as i64;
        self.queued.push_back(block);
        None
    }

    fn submit(&mut self) -> Result<(), i32> {
        while !self.queued.is_empty() {
            let batch = self.queued.make_contiguous();
            // SAFETY: addresses of blocks of free slots; they and the buffers stay until the operations ended.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    batch.len() as libc::c_long,
                    batch.as_mut_ptr(),
                )
            };
            if taken > 0 {
                self.queued.drain(..taken as usize);
                self.under_way += taken as usize;
                continue;
            }
            match errno() {
                libc::EINTR => {}
                // The rest goes when there is room again.
                libc::EAGAIN if self.under_way > 0 => return Ok(()),
                libc::EAGAIN => return Err(libc::EAGAIN),
                // It is the first one's error; the others have not been looked at.
                error => {
                    if let Some(first) = self.queued.pop_front() {
                        // SAFETY: the address of one of our blocks, which the kernel has not taken.
                        let slot = unsafe { (*first).aio_data } as u32;
                        self.refused.push(Done { slot, result: -i64::from(error) });
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, wait: Wait, done: &mut Vec<Done>) -> Result<(), i32> {
        self.submit()?;
        let before = done.len();
        done.append(&mut self.refused);
        if self.under_way == 0 {
            return Ok(());
        }
        let found = done.len() > before;
        let mut limit = match wait {
            _ if found => Some(super::timespec(0)),
            Wait::No => Some(super::timespec(0)),
            Wait::For(ns) => Some(super::timespec(ns)),
            Wait::Yes => None,
        };
        let least = libc::c_long::from(!found && wait != Wait::No);
        let limit = limit.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        loop {
            let most = self.events.len() as libc::c_long;
            // SAFETY: there is room for `most` events; the time limit is null or ours.
            let ended = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    least,
                    most,
                    self.events.as_mut_ptr(),
                    limit,
                )
            };
            if ended >= 0 {
                let ended = &self.events[..ended as usize];
                self.under_way -= ended.len();
                done.extend(ended.iter().map(|e| Done { slot: e.data as u32, result: e.result }));
                return Ok(());
            }
            match errno() {
                libc::EINTR if wait == Wait::Yes => {}
                libc::EINTR => return Ok(()),
                error => return Err(error),
            }
        }
    }

    /// Waits for what is under way, as io_destroy(2) does.
    fn close(&mut self) -> i64 {
        let context = std::mem::take(&mut self.context);
        if context == 0 {
            return 0;
        }
        // SAFETY: the context is ours and is not used again.
        super::result_of(unsafe { libc::syscall(libc::SYS_io_destroy, context) } as isize)
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{closes, job, queue, suite};
    use super::Libaio;
    use crate::job::{Job, SyncMethod};

    fn here() -> bool {
        super::available().map_err(|e| println!("SKIP libaio: {e}")).is_ok()
    }

    #[test]
    fn bytes_go_where_they_should() {
        if here() {
            suite::<Libaio>(&job());
            suite::<Libaio>(&Job { sync: SyncMethod::RwfDsync, ..job() });
        }
    }

    #[test]
    fn many_at_once_end_once_each() {
        if here() {
            queue::<Libaio>(&Job { depth: 32, ..job() });
            queue::<Libaio>(&Job { depth: 16, direct: true, ..job() });
            closes::<Libaio>(&Job { depth: 32, ..job() });
        }
    }
}
