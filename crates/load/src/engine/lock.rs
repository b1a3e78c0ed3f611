// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters that all workers of a job count up, each under a lock.

use super::lock_words::{
    adaptive_lock, futex_lock, futex_unlock, requeue_lock, requeue_unlock, spin_lock, spin_unlock, Monitor,
};
use super::{result_of, Action, Engine, EngineError, Operation, Setup};
use crate::job::{Job, Lock};
use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What the shared memory begins with; its zeros mean: nobody has begun.
#[repr(C, align(64))]
struct Head {
    state: AtomicU32,
}

const BEGUN: u32 = 1;
const READY: u32 = 2;

/// A count and its lock, alone on a line of the cache.
#[repr(C, align(64))]
struct Counter {
    /// Written under the lock by load and store, so that a lock that does not exclude loses counts.
    count: AtomicU64,
    lock: UnsafeCell<Word>,
}

/// The lock that the job asks for.
#[repr(C)]
union Word {
    /// Of the futex and of the spinning lock.
    word: std::mem::ManuallyDrop<AtomicU32>,
    monitor: std::mem::ManuallyDrop<Monitor>,
    mutex: libc::pthread_mutex_t,
    rwlock: libc::pthread_rwlock_t,
}

const LINE: usize = 64;
const _: () = assert!(size_of::<Head>() == LINE && size_of::<Counter>() == LINE);

/// The others' wait for the first worker's initialisation ends after so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of shared memory that a job's counters need.
pub fn shared_len(job: &Job) -> usize {
    LINE * (job.counters as usize * parts(job.lock) + 1)
}

/// Parts that a counter has: of a count per CPU one for each that there may be.
fn parts(lock: Lock) -> usize {
    // Once, so that workers, which are forked, have the number that the memory was made for.
    static CPUS: OnceLock<usize> = OnceLock::new();
    if lock != Lock::PerCpu {
        return 1;
    }
    // SAFETY: a plain call.
    *CPUS.get_or_init(|| unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize)
}

/// The counts of a job's counters.
///
/// # Safety
/// `shared` is the memory, [`shared_len`] of the job at least, that its engines were opened with, zeroed before.
pub unsafe fn counters(shared: *const u8, job: &Job) -> Vec<u64> {
    let (first, parts) = (shared.wrapping_add(LINE).cast::<Counter>(), parts(job.lock));
    // SAFETY: as the caller says.
    let count = |i: usize| unsafe { (*first.add(i)).count.load(Ordering::Acquire) };
    (0..job.counters as usize).map(|i| (i * parts..(i + 1) * parts).map(count).sum()).collect()
}

/// Takes counter `offset`'s lock, counts, and gives it back; then the next one's, as often as the job's batch says.
///
/// A worker that dies with a lock in its hands leaves the others waiting:
/// robust mutexes would cost something in every operation.
#[derive(Debug)]
pub struct Locks {
    counters: *const Counter,
    count: u64,
    /// Updates of an operation.
    batch: u32,
    parts: u64,
    lock: Lock,
    /// For record locks: a description of our own, as those of one description do not exclude each other.
    own: Option<OwnedFd>,
}

impl Engine for Locks {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        let needed = shared_len(job);
        if setup.shared.is_null() || setup.shared_len < needed || setup.shared as usize % LINE != 0 {
            return Err(EngineError(format!(
                "{} counters need {needed} bytes of shared memory in whole cache lines, and there are {}; use fewer --counters",
                job.counters, setup.shared_len
            )));
        }
        let own = match job.lock {
            Lock::Fcntl => Some(own_description(setup)?),
            _ => None,
        };
        let counters = setup.shared.wrapping_add(LINE).cast::<Counter>().cast_const();
        // SAFETY: the memory is long enough, aligned, shared and was zeroed: a head and counters of zeros are valid.
        let head = unsafe { &*setup.shared.cast::<Head>() };
        initialise_once(head, || {
            for i in 0..job.counters as usize {
                // SAFETY: inside the memory; nobody else touches it before the head says that it is ready.
                unsafe { initialise((*counters.add(i)).lock.get(), job.lock)? };
            }
            Ok(())
        })?;
        let parts = parts(job.lock) as u64;
        Ok(Locks { counters, count: u64::from(job.counters), batch: job.batch, parts, lock: job.lock, own })
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        if operation.action != Action::Lock {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let first = operation.offset;
        if first >= self.count {
            return Some(-i64::from(libc::EINVAL));
        }
        let mut number = first;
        for _ in 0..self.batch {
            let returned = self.update(number);
            if returned < 0 {
                return Some(returned);
            }
            number += 1;
            if number == self.count {
                number = 0;
            }
        }
        Some(0)
    }
}

impl Locks {
    /// Takes counter `number`'s lock, counts, and gives it back; 0, or an error's negative number.
    #[inline(always)]
    fn update(&mut self, number: u64) -> i64 {
        // SAFETY: below the number of counters, which were initialised with this kind of lock.
        unsafe {
            let counter = &*self.counters.add(number as usize);
            let lock = counter.lock.get();
            match self.lock {
                Lock::Mutex => {
                    let error = libc::pthread_mutex_lock(std::ptr::addr_of_mut!((*lock).mutex));
                    if error != 0 {
                        return -i64::from(error);
                    }
                    counter.up();
                    -i64::from(libc::pthread_mutex_unlock(std::ptr::addr_of_mut!((*lock).mutex)))
                }
                Lock::Rwlock => {
                    let error = libc::pthread_rwlock_wrlock(std::ptr::addr_of_mut!((*lock).rwlock));
                    if error != 0 {
                        return -i64::from(error);
                    }
                    counter.up();
                    -i64::from(libc::pthread_rwlock_unlock(std::ptr::addr_of_mut!((*lock).rwlock)))
                }
                Lock::Futex => {
                    futex_lock(&(*lock).word);
                    counter.up();
                    futex_unlock(&(*lock).word);
                    0
                }
                Lock::Spin => {
                    spin_lock(&(*lock).word);
                    counter.up();
                    spin_unlock(&(*lock).word);
                    0
                }
                Lock::Atomic => {
                    counter.count.fetch_add(1, Ordering::Relaxed);
                    0
                }
                Lock::Adaptive => {
                    adaptive_lock(&(*lock).word);
                    counter.up();
                    futex_unlock(&(*lock).word);
                    0
                }
                Lock::Requeue => {
                    requeue_lock(&(*lock).monitor);
                    counter.up();
                    requeue_unlock(&(*lock).monitor);
                    0
                }
                Lock::PerCpu => {
                    // The thread may be moved before it counts, so it is atomic; nearly always nobody else has the line.
                    let cpu = libc::sched_getcpu().max(0) as u64 % self.parts;
                    let part = &*self.counters.add((number * self.parts + cpu) as usize);
                    part.count.fetch_add(1, Ordering::Relaxed);
                    0
                }
                Lock::Fcntl => {
                    let taken = self.record(libc::F_WRLCK, number);
                    if taken < 0 {
                        return taken;
                    }
                    counter.up();
                    self.record(libc::F_UNLCK, number)
                }
            }
        }
    }
}

impl Locks {
    /// Takes or gives back the record lock of one byte.
    fn record(&self, kind: libc::c_int, byte: u64) -> i64 {
        let Some(own) = &self.own else { return -i64::from(libc::EBADF) };
        // SAFETY: a record of zeros is valid.
        let mut record: libc::flock = unsafe { std::mem::zeroed() };
        record.l_type = kind as libc::c_short;
        record.l_whence = libc::SEEK_SET as libc::c_short;
        record.l_start = byte as libc::off_t;
        record.l_len = 1;
        // SAFETY: the record lives as long as the call does.
        result_of(unsafe { libc::fcntl(own.as_raw_fd(), libc::F_OFD_SETLKW, &record) } as isize)
    }
}

impl Counter {
    #[inline(always)]
    fn up(&self) {
        self.count.store(self.count.load(Ordering::Acquire) + 1, Ordering::Release);
    }
}

/// The first file once more: descriptors that were inherited or duplicated share a description.
fn own_description(setup: &Setup<'_>) -> Result<OwnedFd, EngineError> {
    let next = "give --lock fcntl a file that can be written, and mount /proc";
    let Some(file) = setup.files.first() else {
        return Err(EngineError(format!("--lock fcntl needs a file to lock; {next}")));
    };
    let path = format!("/proc/self/fd/{}\0", file.fd);
    // SAFETY: a C string; a descriptor that was opened is ours.
    unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(EngineError::last("opening the file of --lock fcntl for this worker", next));
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Lets the first one do it, and the others wait until it is done.
fn initialise_once(head: &Head, first: impl FnOnce() -> Result<(), EngineError>) -> Result<(), EngineError> {
    if head.state.compare_exchange(0, BEGUN, Ordering::Acquire, Ordering::Acquire).is_ok() {
        first()?;
        head.state.store(READY, Ordering::Release);
        return Ok(());
    }
    let end = Instant::now() + PATIENCE;
    while head.state.load(Ordering::Acquire) != READY {
        if Instant::now() > end {
            return Err(EngineError(
                "the worker that initialises the locks did not finish; see its own message, then start again"
                    .into(),
            ));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Makes a lock that works between processes.
///
/// # Safety
/// `lock` is memory of zeros that nobody else uses yet.
unsafe fn initialise(lock: *mut Word, kind: Lock) -> Result<(), EngineError> {
    // SAFETY: as the caller says; attributes are initialised before they are used.
    let error = unsafe {
        match kind {
            Lock::Mutex => {
                let mut attributes = std::mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
                let error = libc::pthread_mutex_init(std::ptr::addr_of_mut!((*lock).mutex), &attributes);
                libc::pthread_mutexattr_destroy(&mut attributes);
                error
            }
            Lock::Rwlock => {
                let mut attributes = std::mem::zeroed();
                libc::pthread_rwlockattr_init(&mut attributes);
                libc::pthread_rwlockattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
                let error = libc::pthread_rwlock_init(std::ptr::addr_of_mut!((*lock).rwlock), &attributes);
                libc::pthread_rwlockattr_destroy(&mut attributes);
                error
            }
            _ => 0,
        }
    };
    if error != 0 {
        let said = std::io::Error::from_raw_os_error(error);
        return Err(EngineError(format!("initialising a shared {kind}: {said}; choose --lock futex")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
