// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that the run shares with its worker processes: a head with the
//! words they wait on, and a seat for each worker with its figures.
//!
//! A seat is written by its worker alone, with plain relaxed stores, and read
//! by the run while it goes on (progress, time series) and at its end.

use crate::log::Ring;
use crate::witness::OwnTimes;
use plumb_stats::histogram::Histogram;
use plumb_trace::load::OperationKind;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Kinds of operations that have figures of their own.
pub const KINDS: usize = OperationKind::COUNT;

/// What all workers look at.
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    pub ready: AtomicU32,
    /// 1: begin; 2: end without having begun.
    pub go: AtomicU32,
    /// Not 0: no operation begins any more.
    pub stop: AtomicU32,
    /// When the run begins, ns of CLOCK_MONOTONIC.
    pub start: AtomicU64,
    /// Workers that are no servers, and how many of them have ended: a server of the same step ends behind them.
    pub clients: AtomicU32,
    pub ended: AtomicU32,
}

impl Head {
    /// There were clients, and all have ended.
    pub fn clients_ended(&self) -> bool {
        let clients = self.clients.load(Acquire);
        clients > 0 && self.ended.load(Acquire) >= clients
    }
}

/// What was done of one kind.
#[repr(C)]
#[derive(Debug)]
pub struct Sum {
    /// Operations that ended, all of them.
    pub count: AtomicU64,
    /// Bytes that they moved.
    pub bytes: AtomicU64,
    /// Of these, operations that failed.
    pub errors: AtomicU64,
    /// Of these, operations that moved fewer bytes than asked for.
    pub short: AtomicU64,
}

/// The first operation that failed.
#[repr(C)]
#[derive(Debug)]
pub struct Failure {
    /// Error number; 0 when none failed.
    pub errno: AtomicU32,
    pub kind: AtomicU32,
    /// Which of the worker's files.
    pub file: AtomicU32,
    /// Where in it, bytes.
    pub offset: AtomicU64,
}

/// What became of an open loop's schedule.
#[repr(C)]
#[derive(Debug)]
pub struct Generator {
    pub due: AtomicU64,
    /// Of these, operations that never began.
    pub never_begun: AtomicU64,
    /// Operations that were begun late although their worker was free.
    pub late: AtomicU64,
    /// How late operations began although their worker was free.
    pub lag: Histogram,
}

#[repr(C)]
#[derive(Debug)]
pub struct Seat {
    /// Process, once it lives.
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// 1 when it came to its own end.
    pub done: AtomicU32,
    /// When it began its first counted operation, ns.
    pub begin: AtomicU64,
    /// When its last operation ended, ns.
    pub end: AtomicU64,
    /// What was done, by kind.
    pub sums: [Sum; KINDS],
    /// Longest operation since the reader looked last, ns.
    pub longest: AtomicU64,
    /// The first operation that failed.
    pub failure: Failure,
    /// Rows of the last answer of a database.
    pub rows: AtomicU64,
    /// What became of the schedule.
    pub generator: Generator,
    /// Blocks that were read and were not what was written.
    pub damaged: AtomicU64,
    /// Times that it waited for room in the log.
    pub log_waits: AtomicU64,
    /// How long it did, ns.
    pub log_wait_ns: AtomicU64,
    /// Operations that the log could not take, because nobody read it any more.
    pub log_lost: AtomicU64,
    /// Operations of the log's events that could not be written.
    pub events_lost: AtomicU64,
    /// What the thread had used when it began, when its first counted operation ended, and when it ended itself.
    pub times: [OwnTimes; 3],
    /// Why it could not start, or what a database said to the first request that failed; text that ends in 0.
    pub message: [u8; 512],
    /// From the beginning of the operation to its end, by kind.
    pub service: [Histogram; KINDS],
    /// From the moment that it was due, by kind; of an open loop only.
    pub response: [Histogram; KINDS],
}

#[derive(Debug)]
pub struct Board {
    start: *mut u8,
    len: usize,
    seats: usize,
    /// Bytes that the workers of each job share for locks and counters.
    shared: usize,
    jobs: usize,
    logged: bool,
}

// SAFETY: what lies in the mapping is atomics, or written by one worker only.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

fn whole(len: usize) -> usize {
    len.next_multiple_of(4096)
}

impl Board {
    /// Maps a board of `seats` seats for `jobs` jobs, whose workers share
    /// `shared` bytes each, with rings for the log when asked for.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn new(seats: usize, jobs: usize, shared: usize, logged: bool) -> io::Result<Self> {
        let ring = if logged { whole(size_of::<Ring>()) } else { 0 };
        let shared = whole(shared);
        let len = 4096 + jobs * shared + seats * (whole(size_of::<Seat>()) + ring);
        // SAFETY: a new anonymous mapping, zeroed, which is a valid empty value of all that lies in it.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Board { start: start.cast(), len, seats, shared, jobs, logged })
    }

    /// Bytes that the workers of a job share.
    pub fn shared_len(&self) -> usize {
        self.shared
    }

    /// The words that all look at.
    pub fn head(&self) -> &Head {
        // SAFETY: the mapping begins with it.
        unsafe { &*self.start.cast() }
    }

    /// Memory that the workers of job `job` share.
    pub fn shared(&self, job: usize) -> *mut u8 {
        assert!(job < self.jobs);
        // SAFETY: inside the mapping.
        unsafe { self.start.add(4096 + job * self.shared) }
    }

    fn seat_at(&self, i: usize) -> *mut Seat {
        assert!(i < self.seats);
        // SAFETY: inside the mapping.
        unsafe { self.start.add(4096 + self.jobs * self.shared + i * whole(size_of::<Seat>())).cast() }
    }

    /// A seat, to read.
    pub fn seat(&self, i: usize) -> &Seat {
        // SAFETY: the seat is there as long as the board.
        unsafe { &*self.seat_at(i) }
    }

    /// A seat, for the worker that sits on it.
    ///
    /// # Safety
    /// Only one worker may have it, and readers must bear figures that change.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn seat_mut(&self, i: usize) -> &mut Seat {
        // SAFETY: as the caller promises.
        unsafe { &mut *self.seat_at(i) }
    }

    /// The log ring of a worker; `None` when there is no log.
    pub fn ring(&self, i: usize) -> Option<*mut Ring> {
        assert!(i < self.seats);
        // SAFETY: inside the mapping.
        self.logged.then(|| unsafe {
            let first = 4096 + self.jobs * self.shared + self.seats * whole(size_of::<Seat>());
            self.start.add(first + i * whole(size_of::<Ring>())).cast()
        })
    }

    pub fn seats(&self) -> usize {
        self.seats
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Adds to a word that only this thread writes.
#[inline(always)]
pub fn add(word: &AtomicU64, n: u64) {
    word.store(word.load(Relaxed) + n, Relaxed);
}

/// Sleeps while `word` is `value`, until woken or `ns` have passed.
pub fn wait_word(word: &AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // SAFETY: the word lives in memory shared between processes, so the futex is not a private one.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time, ptr::null::<u32>(), 0)
    };
}

/// Wakes all that sleep on `word`.
pub fn wake_word(word: &AtomicU32) {
    // SAFETY: as above.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, ptr::null::<u8>(), 0, 0)
    };
}

impl Seat {
    /// Keeps why the worker could not start, or what the database said.
    pub fn say(&mut self, text: &str) {
        let mut len = text.len().min(self.message.len() - 1);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.message[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.message[len] = 0;
    }

    /// Why the worker could not start, or what the database said.
    pub fn said(&self) -> Option<String> {
        let len = self.message.iter().position(|&b| b == 0).unwrap_or(self.message.len());
        (len > 0).then(|| String::from_utf8_lossy(&self.message[..len]).into_owned())
    }
}
