// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How operations go into the kernel: one file an interface, one trait.

mod char;
mod copy;
mod dispatch;
mod flags;
mod io_uring;
mod libaio;
mod lock;
mod lock_words;
mod mmap;
mod names;
mod network;
mod null;
mod position;
mod posix_aio;
mod pwrite;
mod pwritev2;
mod ring;
mod sql;
mod stdio;
mod stream;
#[cfg(test)]
mod testing;
mod vector;
mod write;
mod writev;

pub use char::Char;
pub use copy::{CopyFileRange, Sendfile};
pub use dispatch::{available, choose, Visitor};
pub use flags::{copy_flags, open_flags};
pub use io_uring::{IoUring, IoUringFixed, IoUringPlain, IoUringSqpoll};
pub use libaio::Libaio;
pub use lock::{counters, shared_len, Locks};
pub use mmap::Mmap;
pub use names::NameCalls;
pub use network::{
    BlockingServer, DatagramServer, EpollEdgeServer, EpollExclusiveServer, EpollServer, EventRequests,
    Listeners, PollServer, Requests, RingServer, SelectServer, UDP,
};
pub use null::Null;
pub use posix_aio::PosixAio;
pub use pwrite::Pwrite;
pub use pwritev2::Pwritev2;
pub use sql::Sql;
pub use stdio::Stdio;
pub use write::Write;
pub use writev::Writev;

use crate::buffers::Buffers;
use crate::job::{Job, SyncMethod};
use crate::names::Names;
use flags::write_flags;
use plumb_trace::load::OperationKind;
use std::os::fd::RawFd;

/// What the kernel is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `len` bytes from `offset` into the slot's buffer.
    Read,
    /// `len` bytes of the slot's buffer to `offset`.
    Write,
    /// Make durable what was written to the file.
    Sync,
    /// Copy `len` bytes at `offset` from the file into its partner.
    Copy,
    /// Something with the name number `offset`.
    Name,
    /// Take the lock of counter `offset` and count.
    Lock,
    /// Send the slot's buffer on connection `offset`, and read the answer.
    Request,
    /// Answer a request that came.
    Serve,
}

#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// What it is called in results.
    pub kind: OperationKind,
    pub action: Action,
    /// Which of the worker's files.
    pub file: u32,
    /// Bytes; at most 1 GiB.
    pub len: u32,
    /// Where in the file, bytes; of names, locks and connections their number.
    pub offset: u64,
    /// The slot's buffer, `len` bytes at least.
    pub buffer: *mut u8,
}

/// A file that a worker has open.
#[derive(Debug, Clone, Copy)]
pub struct OpenFile {
    /// Open with the flags that the job asks for.
    pub fd: RawFd,
    /// Where a copy goes to; -1 when the job does not copy.
    pub copy_to: RawFd,
    /// Its length when it was opened, bytes.
    pub size: u64,
}

/// What an engine is opened with.
#[derive(Debug)]
pub struct Setup<'a> {
    pub job: &'a Job,
    /// The worker's files, open.
    pub files: &'a [OpenFile],
    pub buffers: &'a Buffers,
    /// Names to work on, for operations on names.
    pub names: &'a Names,
    /// Memory that all workers of the job share, zeroed, for locks and counters.
    pub shared: *mut u8,
    /// Its length, bytes.
    pub shared_len: usize,
    /// Where a server's connections come from; -1: it is none.
    pub listener: RawFd,
    /// The worker's number in its job.
    pub worker: u32,
}

/// An engine that cannot start here, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

impl EngineError {
    /// `what` failed with the last system error; `next` says what to do.
    pub fn last(what: &str, next: &str) -> Self {
        EngineError(format!("{what}: {}; {next}", std::io::Error::last_os_error()))
    }
}

/// How long [`Engine::finish`] waits for an operation's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    No,
    /// At most so many ns.
    For(u64),
    Yes,
}

#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// The slot that it was started in.
    pub slot: u32,
    /// Bytes, or the negative error number.
    pub result: i64,
}

/// What a database answered, besides bytes.
#[derive(Debug, Default)]
pub struct Answered {
    /// Rows of the last answer.
    pub rows: u64,
    /// What it said to the first request that failed.
    pub failure: Option<String>,
}

/// An interface of the kernel. Results are bytes (0 where an operation has
/// none), or the negative error number.
pub trait Engine: Sized {
    /// Its operations begin when somebody asks for them: [`Engine::ready`] waits for that.
    const SERVES: bool = false;

    /// Makes it ready; called in the worker's own thread.
    ///
    /// # Errors
    /// This kernel or limit does not have it; says what to do.
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError>;

    /// Whether an operation can begin; waits for `ns` at most, or for a tenth of a second.
    ///
    /// # Errors
    /// The error number; none will begin any more.
    fn ready(&mut self, _ns: u64) -> Result<bool, i32> {
        Ok(true)
    }

    /// Starts an operation in a free slot. `Some`: it has ended already, as
    /// every operation of a synchronous engine has.
    fn start(&mut self, operation: &Operation, slot: u32) -> Option<i64>;

    /// Hands everything that was started to the kernel.
    ///
    /// # Errors
    /// The error number; nothing more can be started.
    fn submit(&mut self) -> Result<(), i32> {
        Ok(())
    }

    /// Adds the operations that ended to `done`.
    ///
    /// # Errors
    /// The error number; nothing more will end.
    fn finish(&mut self, _wait: Wait, _done: &mut Vec<Done>) -> Result<(), i32> {
        Ok(())
    }

    /// Of a database's clients alone.
    fn answered(&self) -> Option<&Answered> {
        None
    }

    /// Closes what it holds itself (a stream, a mapping, a ring); the
    /// descriptors are the worker's.
    fn close(&mut self) -> i64 {
        0
    }
}

/// What a system call returned: its value, or the negative error number.
#[inline(always)]
pub fn result_of(value: isize) -> i64 {
    if value >= 0 {
        value as i64
    } else {
        -i64::from(errno())
    }
}

#[inline]
pub fn errno() -> i32 {
    // SAFETY: the address of a thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// Raises the limit of open files to `wanted`, or as far as it goes; `option` is what asks for so many.
///
/// # Errors
/// Fewer are allowed.
pub fn raise_limit(wanted: u64, option: &str) -> Result<(), EngineError> {
    // SAFETY: plain data, filled and read by the calls.
    unsafe {
        let mut limit: libc::rlimit64 = std::mem::zeroed();
        libc::getrlimit64(libc::RLIMIT_NOFILE, &mut limit);
        if wanted <= limit.rlim_cur {
            return Ok(());
        }
        let raised = libc::rlimit64 { rlim_cur: wanted, rlim_max: limit.rlim_max.max(wanted) };
        if libc::setrlimit64(libc::RLIMIT_NOFILE, &raised) == 0 {
            return Ok(());
        }
        let most = libc::rlimit64 { rlim_cur: limit.rlim_max, ..limit };
        libc::setrlimit64(libc::RLIMIT_NOFILE, &most);
        Err(EngineError(format!(
            "{wanted} open files are needed and {} are allowed; use fewer {option}, or raise 'ulimit -n'",
            limit.rlim_max
        )))
    }
}

/// A span of time, ns, as the kernel takes it.
fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Makes a file's data durable by a call, as the method says; returns 0 or the negative error number.
pub fn sync(fd: RawFd, method: SyncMethod, offset: u64, len: u64) -> i64 {
    // SAFETY: plain system calls on a descriptor.
    unsafe {
        match method {
            SyncMethod::Fsync => result_of(libc::fsync(fd) as isize),
            SyncMethod::Fdatasync => result_of(libc::fdatasync(fd) as isize),
            SyncMethod::SyncSync => {
                libc::sync();
                libc::sync();
                0
            }
            SyncMethod::SyncFileRange => result_of(libc::sync_file_range(
                fd,
                offset as libc::off64_t,
                len as libc::off64_t,
                libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER,
            ) as isize),
            SyncMethod::None
            | SyncMethod::OSync
            | SyncMethod::ODsync
            | SyncMethod::RwfDsync
            | SyncMethod::Msync => 0,
        }
    }
}
