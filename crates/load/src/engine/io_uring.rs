// SPDX-License-Identifier: Apache-2.0 OR MIT
//! io_uring: plain, with registered buffers and files, and with a thread of
//! the kernel that polls for submissions.
//!
//! Nothing but [`Engine::finish`] enters the kernel (polled: nearly nothing),
//! once for handing over and waiting together, and not at all while there are
//! completions to fetch and nothing to hand over.

use super::ring::{Ring, Submission};
use super::{sync, write_flags, Action, Done, Engine, EngineError, OpenFile, Operation, Setup, Wait};
use crate::job::SyncMethod;

/// A submission an operation; `FIXED` registers buffers and files, `POLLED` has a polling thread.
#[derive(Debug)]
pub struct IoUring<const FIXED: bool, const POLLED: bool> {
    files: Vec<OpenFile>,
    method: SyncMethod,
    /// RWF_ flags of a write.
    flags: u32,
    ring: Ring,
    under_way: u32,
}

pub type IoUringPlain = IoUring<false, false>;
/// With registered buffers and files.
pub type IoUringFixed = IoUring<true, false>;
pub type IoUringSqpoll = IoUring<false, true>;

const OP_READ_FIXED: u8 = 4;
const OP_WRITE_FIXED: u8 = 5;
const OP_READ: u8 = 22;
const OP_WRITE: u8 = 23;
const FIXED_FILE: u8 = 1 << 0;
const REGISTER_BUFFERS: u32 = 0;
const REGISTER_FILES: u32 = 2;

/// With a polling thread, how often a wait without end looks for a completion
/// before it sleeps: longer than a fast device takes, far shorter than a time
/// slice. A wait with an end does not look, or it could return too late.
const LOOKS: u32 = 2000;

/// Enters in a row that may hand over nothing for want of memory (EAGAIN).
const TRIES: u32 = 1000;

fn failed(what: &str, errno: i32) -> EngineError {
    let next = match errno {
        libc::EPERM => "sysctl kernel.io_uring_disabled (or a container's seccomp filter) forbids it: set it to 0, or choose --through libaio or posix-aio",
        libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP => "it needs Linux 5.11 or later with CONFIG_IO_URING, not forbidden by sysctl kernel.io_uring_disabled; choose --through libaio or posix-aio",
        libc::ENOMEM => "raise the limit of locked memory (ulimit -l), or use a smaller --block or --depth, or --through io-uring without registered buffers",
        libc::EMFILE | libc::ENFILE => "raise the limit of open files (ulimit -n), or use fewer --files",
        _ => "choose --through libaio or posix-aio",
    };
    EngineError(format!("{what}: {}; {next}", std::io::Error::from_raw_os_error(errno)))
}

/// Whether this kernel has it for us.
pub(super) fn available(fixed: bool, polled: bool) -> Result<(), EngineError> {
    let ring = Ring::new(1, polled).map_err(|e| failed("io_uring_setup", e))?;
    if fixed {
        let mut byte = [0u8; 1];
        let piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        // SAFETY: one piece of memory, which lives longer than the ring's use of it.
        unsafe { ring.register(REGISTER_BUFFERS, std::ptr::from_ref(&piece).cast(), 1) }
            .map_err(|e| failed("io_uring_register of a buffer", e))?;
    }
    Ok(())
}

impl<const FIXED: bool, const POLLED: bool> Engine for IoUring<FIXED, POLLED> {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let slots = setup.buffers.slots() as u32;
        let ring = Ring::new(slots, POLLED).map_err(|e| failed("io_uring_setup", e))?;
        if FIXED {
            let buffers: Vec<_> = (0..slots)
                .map(|slot| libc::iovec {
                    iov_base: setup.buffers.at(slot).cast(),
                    iov_len: setup.buffers.each(),
                })
                .collect();
            // SAFETY: as many pieces of memory as are said; they live longer than the ring.
            unsafe { ring.register(REGISTER_BUFFERS, buffers.as_ptr().cast(), slots) }
                .map_err(|e| failed(&format!("io_uring_register of {slots} buffers"), e))?;
            let files: Vec<_> = setup.files.iter().map(|file| file.fd).collect();
            // SAFETY: as many descriptors as are said.
            unsafe { ring.register(REGISTER_FILES, files.as_ptr().cast(), files.len() as u32) }
                .map_err(|e| failed(&format!("io_uring_register of {} files", files.len()), e))?;
        }
        let flags = write_flags(setup.job.sync) as u32;
        Ok(IoUring { files: setup.files.to_vec(), method: setup.job.sync, flags, ring, under_way: 0 })
    }

    /// A sync is a call of its own and ends here.
    #[inline(always)]
    fn start(&mut self, operation: &Operation, slot: u32) -> Option<i64> {
        let fd = self.files[operation.file as usize].fd;
        let (opcode, rw_flags) = match operation.action {
            Action::Read => (if FIXED { OP_READ_FIXED } else { OP_READ }, 0),
            Action::Write => (if FIXED { OP_WRITE_FIXED } else { OP_WRITE }, self.flags),
            _ => return Some(sync(fd, self.method, operation.offset, u64::from(operation.len))),
        };
        self.ring.push(Submission {
            opcode,
            flags: if FIXED { FIXED_FILE } else { 0 },
            fd: if FIXED { operation.file as i32 } else { fd },
            offset: operation.offset,
            address: operation.buffer as u64,
            len: operation.len,
            rw_flags,
            user_data: u64::from(slot),
            buffer: if FIXED { slot as u16 } else { 0 },
            ..Submission::default()
        });
        self.under_way += 1;
        None
    }

    /// Shows the submissions to the kernel. A polling thread takes them from there; else the next
    /// [`Engine::finish`] hands them over in the same call that waits.
    #[inline(always)]
    fn submit(&mut self) -> Result<(), i32> {
        self.ring.publish();
        if POLLED && self.ring.needs_wakeup() {
            return match self.ring.enter(self.ring.queued(), 0, true, None) {
                Err(libc::EINTR) | Ok(()) => Ok(()),
                Err(error) => Err(error),
            };
        }
        Ok(())
    }

    #[inline]
    fn finish(&mut self, wait: Wait, done: &mut Vec<Done>) -> Result<(), i32> {
        self.ring.publish();
        let mut ended = self.ring.reap(done);
        let mut tries = 0;
        loop {
            let waits = ended == 0 && self.under_way > 0 && wait != Wait::No;
            if POLLED && waits && wait == Wait::Yes {
                ended = self.look(done);
                if ended > 0 {
                    break;
                }
            }
            let queued = self.ring.queued();
            let hands_over = queued > 0 && (!POLLED || self.ring.needs_wakeup());
            if !waits && !hands_over && !self.ring.needs_enter() {
                break;
            }
            let limit = match wait {
                Wait::For(ns) if waits => Some(ns),
                _ => None,
            };
            let entered = self.ring.enter(queued, u32::from(waits), POLLED && hands_over, limit);
            ended += self.ring.reap(done);
            match entered {
                // Overfull (EBUSY): what was just fetched makes room.
                Ok(()) | Err(libc::EINTR | libc::EBUSY) => {}
                Err(libc::ETIME) => break,
                Err(libc::EAGAIN) if tries < TRIES => tries += 1,
                Err(error) => {
                    self.under_way -= ended;
                    return Err(error);
                }
            }
            if ended > 0 || wait != Wait::Yes || self.under_way == 0 {
                break;
            }
        }
        self.under_way -= ended;
        Ok(())
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

impl<const FIXED: bool, const POLLED: bool> IoUring<FIXED, POLLED> {
    /// Looks for completions for a while without sleeping.
    fn look(&mut self, done: &mut Vec<Done>) -> u32 {
        for _ in 0..LOOKS {
            let ended = self.ring.reap(done);
            if ended > 0 {
                return ended;
            }
            std::hint::spin_loop();
        }
        0
    }
}

impl<const FIXED: bool, const POLLED: bool> Drop for IoUring<FIXED, POLLED> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{closes, job, lockable, queue, suite, Bench};
    use super::super::{Action, Done, Engine, Wait};
    use super::*;
    use crate::job::Job;

    /// Rings that were closed count as locked memory for a while longer.
    fn here(fixed: bool, polled: bool) -> bool {
        lockable(8 << 20) && available(fixed, polled).map_err(|e| println!("SKIP io_uring: {e}")).is_ok()
    }

    fn all<const FIXED: bool, const POLLED: bool>() {
        if !here(FIXED, POLLED) {
            return;
        }
        suite::<IoUring<FIXED, POLLED>>(&job());
        suite::<IoUring<FIXED, POLLED>>(&Job { sync: SyncMethod::RwfDsync, ..job() });
        for depth in [2, 5, 64] {
            queue::<IoUring<FIXED, POLLED>>(&Job { depth, ..job() });
        }
        queue::<IoUring<FIXED, POLLED>>(&Job { depth: 16, direct: true, ..job() });
        closes::<IoUring<FIXED, POLLED>>(&Job { depth: 32, ..job() });
    }

    #[test]
    fn plain() {
        all::<false, false>();
    }

    #[test]
    fn registered() {
        all::<true, false>();
    }

    #[test]
    fn polled() {
        all::<false, true>();
    }

    #[test]
    fn a_full_device_is_an_error() {
        if here(false, false) {
            let mut bench = Bench::<IoUringPlain>::on_device(&job(), "/dev/full");
            assert_eq!(bench.run(Action::Write, 0, 0, 4096), -i64::from(libc::ENOSPC));
        }
    }

    #[test]
    fn rings_come_round() {
        if !here(false, false) {
            return;
        }
        // Far more operations than the rings have entries, some under way while others are started.
        let depth = 4;
        let mut bench = Bench::<IoUringPlain>::new(&Job { depth, ..job() }, &[&[5; 4096 * 64]]);
        let (mut started, mut ended) = (0u64, 0u64);
        let mut done: Vec<Done> = (0..depth).map(|slot| Done { slot, result: 0 }).collect();
        while ended < 1000 {
            for free in std::mem::take(&mut done) {
                if started < 1000 {
                    assert_eq!(bench.start(Action::Read, 0, started % 64 * 4096, 4096, free.slot), None);
                    started += 1;
                }
            }
            bench.engine.submit().expect("submitted");
            bench.engine.finish(Wait::Yes, &mut done).expect("finished");
            assert!(!done.is_empty(), "a wait without end returns with something");
            assert!(done.iter().all(|d| d.result == 4096));
            ended += done.len() as u64;
        }
        assert_eq!((started, ended), (1000, 1000));
    }

    #[test]
    fn what_is_forbidden_is_named() {
        let said = failed("io_uring_setup", libc::EPERM).0;
        assert!(said.contains("kernel.io_uring_disabled") && said.contains("libaio"), "{said}");
    }
}
