// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two rings of io_uring, as the kernel shares them (`linux/io_uring.h`).

use super::{errno, Done};
use std::os::fd::RawFd;
use std::sync::atomic::{fence, AtomicU32, Ordering};

/// How a ring is set up (`IORING_SETUP_`).
mod flags {
    pub const SQPOLL: u32 = 1 << 1;
    pub const SUBMIT_ALL: u32 = 1 << 7;
    pub const COOP_TASKRUN: u32 = 1 << 8;
    pub const TASKRUN_FLAG: u32 = 1 << 9;
    pub const SINGLE_ISSUER: u32 = 1 << 12;
    pub const DEFER_TASKRUN: u32 = 1 << 13;
}

/// From the best to what the first kernels had: a kernel that does not know a flag says EINVAL.
const PLAIN: [u32; 4] = [
    flags::SUBMIT_ALL
        | flags::COOP_TASKRUN
        | flags::TASKRUN_FLAG
        | flags::SINGLE_ISSUER
        | flags::DEFER_TASKRUN,
    flags::SUBMIT_ALL | flags::COOP_TASKRUN | flags::TASKRUN_FLAG,
    flags::SUBMIT_ALL,
    0,
];
const POLLED: [u32; 3] = [
    flags::SQPOLL | flags::SUBMIT_ALL | flags::SINGLE_ISSUER,
    flags::SQPOLL | flags::SUBMIT_ALL,
    flags::SQPOLL,
];

const FEATURE_SINGLE_MMAP: u32 = 1 << 0;
const FEATURE_SQPOLL_NONFIXED: u32 = 1 << 7;
const FEATURE_EXT_ARG: u32 = 1 << 8;

const SQ_NEED_WAKEUP: u32 = 1 << 0;
const SQ_CQ_OVERFLOW: u32 = 1 << 1;
const SQ_TASKRUN: u32 = 1 << 2;

const OFFSET_SQES: libc::off_t = 0x1000_0000;

const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// The kernel's polling thread sleeps after so long without work, ms.
const POLL_IDLE_MS: u32 = 1000;

/// A submission (`struct io_uring_sqe`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Submission {
    pub opcode: u8,
    pub flags: u8,
    pub ioprio: u16,
    pub fd: i32,
    pub offset: u64,
    pub address: u64,
    pub len: u32,
    pub rw_flags: u32,
    pub user_data: u64,
    pub buffer: u16,
    pub personality: u16,
    pub file_index: i32,
    pub rest: [u64; 2],
}

/// A completion (`struct io_uring_cqe`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Debug, Default)]
struct SqOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    address: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct CqOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    overflow: u32,
    completions: u32,
    flags: u32,
    reserved: u32,
    address: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: SqOffsets,
    cq: CqOffsets,
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct Limit {
    sigmask: u64,
    sigmask_size: u32,
    pad: u32,
    timespec: u64,
}

/// Memory that is shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(fd: RawFd, offset: libc::off_t, len: usize) -> Result<Self, i32> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            let (protection, how) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            libc::mmap(std::ptr::null_mut(), len, protection, how, fd, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(Mapping { start: start.cast(), len })
    }

    /// A counter that the kernel writes or reads at the same time.
    fn shared(&self, offset: u32) -> *const AtomicU32 {
        self.start.wrapping_add(offset as usize).cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// A descriptor that is closed when it is dropped.
#[derive(Debug)]
struct Descriptor(RawFd);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used again.
        unsafe { libc::close(self.0) };
    }
}

/// Both rings. The pointers lead into the mappings.
#[derive(Debug)]
pub(super) struct Ring {
    sq_head: *const AtomicU32,
    sq_tail: *const AtomicU32,
    sq_flags: *const AtomicU32,
    submissions: *mut Submission,
    sq_mask: u32,
    /// Submissions written; `sq_tail` is how many the kernel was told of.
    written: u32,
    cq_head: *const AtomicU32,
    cq_tail: *const AtomicU32,
    completions: *const Completion,
    cq_mask: u32,
    read: u32,
    fd: Descriptor,
    _rings: Mapping,
    _submissions: Mapping,
}

impl Ring {
    /// Rings for `entries` operations at once; `polled`: a thread of the kernel fetches submissions.
    ///
    /// # Errors
    /// The error number.
    pub fn new(entries: u32, polled: bool) -> Result<Self, i32> {
        let ways: &[u32] = if polled { &POLLED } else { &PLAIN };
        let mut error = libc::EINVAL;
        for &flags in ways {
            match Self::with_flags(entries, flags) {
                Err(libc::EINVAL) => error = libc::EINVAL,
                other => return other,
            }
        }
        Err(error)
    }

    fn with_flags(entries: u32, flags: u32) -> Result<Self, i32> {
        let mut params = Params { flags, sq_thread_idle: POLL_IDLE_MS, ..Params::default() };
        // SAFETY: the kernel reads and fills the parameters.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(&mut params)) };
        if fd < 0 {
            return Err(errno());
        }
        let fd = Descriptor(fd as RawFd);
        let needed = FEATURE_SINGLE_MMAP
            | FEATURE_EXT_ARG
            | if flags & flags::SQPOLL != 0 { FEATURE_SQPOLL_NONFIXED } else { 0 };
        if params.features & needed != needed {
            return Err(libc::ENOSYS);
        }
        let sq_end = params.sq.array as usize + params.sq_entries as usize * size_of::<u32>();
        let cq_end = params.cq.completions as usize + params.cq_entries as usize * size_of::<Completion>();
        let rings = Mapping::new(fd.0, 0, sq_end.max(cq_end))?;
        let sqes = Mapping::new(fd.0, OFFSET_SQES, params.sq_entries as usize * size_of::<Submission>())?;
        // The kernel's index from places to submissions: place i is submission i, for good.
        for i in 0..params.sq_entries {
            let at =
                rings.start.wrapping_add(params.sq.array as usize).cast::<u32>().wrapping_add(i as usize);
            // SAFETY: inside the mapping, as the kernel described it; nothing is submitted yet.
            unsafe { at.write(i) };
        }
        Ok(Ring {
            sq_head: rings.shared(params.sq.head),
            sq_tail: rings.shared(params.sq.tail),
            sq_flags: rings.shared(params.sq.flags),
            submissions: sqes.start.cast(),
            sq_mask: params.sq_entries - 1,
            written: 0,
            cq_head: rings.shared(params.cq.head),
            cq_tail: rings.shared(params.cq.tail),
            completions: rings.start.wrapping_add(params.cq.completions as usize).cast(),
            cq_mask: params.cq_entries - 1,
            read: 0,
            fd,
            _rings: rings,
            _submissions: sqes,
        })
    }

    /// Writes a submission; the kernel learns of it by [`Self::publish`].
    /// There is room: no more are under way than the ring has entries.
    #[inline(always)]
    pub fn push(&mut self, submission: Submission) {
        // SAFETY: the index is masked into the mapping; the kernel has fetched what was there before.
        unsafe { self.submissions.add((self.written & self.sq_mask) as usize).write(submission) };
        self.written = self.written.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline(always)]
    pub fn publish(&self) {
        // SAFETY: in the mapping.
        unsafe { (*self.sq_tail).store(self.written, Ordering::Release) };
    }

    /// Submissions that the kernel has not fetched.
    #[inline(always)]
    pub fn queued(&self) -> u32 {
        // SAFETY: in the mapping.
        self.written.wrapping_sub(unsafe { (*self.sq_head).load(Ordering::Acquire) })
    }

    /// Whether completions wait for the kernel to be entered.
    #[inline(always)]
    pub fn needs_enter(&self) -> bool {
        // SAFETY: in the mapping.
        unsafe { (*self.sq_flags).load(Ordering::Relaxed) & (SQ_CQ_OVERFLOW | SQ_TASKRUN) != 0 }
    }

    /// Whether the kernel's polling thread sleeps; asked after [`Self::publish`].
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        // The tail must be seen before the flag is read, or both sides could miss each other.
        fence(Ordering::SeqCst);
        // SAFETY: in the mapping.
        unsafe { (*self.sq_flags).load(Ordering::Relaxed) & SQ_NEED_WAKEUP != 0 }
    }

    /// Adds what has ended to `done` and returns how many there were. No system call.
    #[inline(always)]
    pub fn reap(&mut self, done: &mut Vec<Done>) -> u32 {
        self.each(|c| done.push(Done { slot: c.user_data as u32, result: i64::from(c.result) }))
    }

    /// Gives what has ended to `take`, and returns how many there were. No system call.
    #[inline(always)]
    pub fn each(&mut self, mut take: impl FnMut(Completion)) -> u32 {
        // SAFETY: in the mapping; between head and tail the kernel has written, and waits for the new head.
        unsafe {
            let tail = (*self.cq_tail).load(Ordering::Acquire);
            let count = tail.wrapping_sub(self.read);
            if count == 0 {
                return 0;
            }
            while self.read != tail {
                take(self.completions.add((self.read & self.cq_mask) as usize).read());
                self.read = self.read.wrapping_add(1);
            }
            (*self.cq_head).store(tail, Ordering::Release);
            count
        }
    }

    /// io_uring_enter(2): hands over `submit` submissions and waits for `least` completions, at most `limit` ns.
    ///
    /// # Errors
    /// The error number; ETIME when the time was over.
    #[inline(always)]
    pub fn enter(&self, submit: u32, least: u32, wakeup: bool, limit: Option<u64>) -> Result<(), i32> {
        let mut flags = ENTER_GETEVENTS | if wakeup { ENTER_SQ_WAKEUP } else { 0 };
        let timespec = super::timespec(limit.unwrap_or(0));
        let argument =
            Limit { sigmask: 0, sigmask_size: 0, pad: 0, timespec: std::ptr::from_ref(&timespec) as u64 };
        let (mut at, mut size) = (std::ptr::null(), 0);
        if limit.is_some() {
            flags |= ENTER_EXT_ARG;
            (at, size) = (std::ptr::from_ref(&argument), size_of::<Limit>());
        }
        // SAFETY: the argument is null or lives as long as the call does.
        let entered =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, self.fd.0, submit, least, flags, at, size) };
        if entered < 0 {
            return Err(errno());
        }
        Ok(())
    }

    /// io_uring_register(2).
    ///
    /// # Errors
    /// The error number.
    ///
    /// # Safety
    /// `argument` leads to `count` of what `what` takes.
    pub unsafe fn register(&self, what: u32, argument: *const libc::c_void, count: u32) -> Result<(), i32> {
        // SAFETY: as the caller says.
        let registered =
            unsafe { libc::syscall(libc::SYS_io_uring_register, self.fd.0, what, argument, count) };
        if registered < 0 {
            return Err(errno());
        }
        Ok(())
    }
}
