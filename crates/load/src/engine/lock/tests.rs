// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No count is lost, between threads and between processes.

use super::{counters, shared_len, Locks};
use crate::buffers::Buffers;
use crate::engine::testing::Watchdog;
use crate::engine::{Action, Engine, EngineError, OpenFile, Operation, Setup};
use crate::job::{Job, Lock, What};
use crate::names::Names;
use clap::ValueEnum;
use plumb_trace::load::OperationKind;
use std::os::fd::AsRawFd;
use std::path::Path;

const THREADS: u64 = 8;
const COUNTERS: u32 = 3;

/// Memory that a child shares, of zeros.
struct Shared {
    start: *mut u8,
    len: usize,
    _watchdog: Watchdog,
}

// SAFETY: only engines touch it, and they are made for that.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Self {
        let len = shared_len(&job(Lock::PerCpu));
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            let how = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), len, protection, how, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Shared { start: start.cast(), len, _watchdog: Watchdog::new() }
    }

    fn counts(&self, lock: Lock) -> Vec<u64> {
        // SAFETY: the memory that the engines were opened with.
        unsafe { counters(self.start, &job(lock)) }
    }

    fn open(&self, job: &Job, file: &std::fs::File) -> Result<Locks, EngineError> {
        let buffers = Buffers::new(1, 64).expect("memory");
        let names = Names::new(Path::new("/nowhere"), 0, 0);
        Locks::open(&Setup {
            job,
            files: &[OpenFile { fd: file.as_raw_fd(), copy_to: -1, size: 0 }],
            buffers: &buffers,
            names: &names,
            shared: self.start,
            shared_len: self.len,
            listener: -1,
            worker: 0,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[test]
fn a_batch_goes_round_the_counters() {
    let (shared, file) = (Shared::new(), tempfile::tempfile().expect("a file"));
    let mut engine = shared.open(&Job { batch: 4, ..job(Lock::Mutex) }, &file).expect("the engine starts");
    assert_eq!(count(&mut engine, 2), 0);
    // Counters 2, 0, 1 and 2.
    assert_eq!(shared.counts(Lock::Mutex), [1, 1, 2]);
}

fn count(engine: &mut Locks, counter: u64) -> i64 {
    let (kind, action, buffer) = (OperationKind::Lock, Action::Lock, std::ptr::null_mut());
    engine
        .start(&Operation { kind, action, file: 0, len: 0, offset: counter, buffer }, 0)
        .expect("ends at once")
}

fn job(lock: Lock) -> Job {
    Job { what: What::LockAndUpdate, lock, counters: COUNTERS, ..Job::default() }
}

/// Operations of a worker: so many that they outlast a time slice and workers meet. A record lock is two system calls, often with a sleep;
/// a spinning one wastes the time of those that share a CPU with its holder.
fn operations(lock: Lock) -> u64 {
    match lock {
        Lock::Fcntl => 1000,
        Lock::Spin => 10_000,
        _ => 500_000,
    }
}

#[test]
fn threads_lose_no_count() {
    for &lock in Lock::value_variants() {
        let (shared, file) = (Shared::new(), tempfile::tempfile().expect("a file"));
        let operations = operations(lock);
        let ready = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut engine = shared.open(&job(lock), &file).expect("the engine starts");
                    ready.wait();
                    for i in 0..operations {
                        assert_eq!(count(&mut engine, i % u64::from(COUNTERS)), 0, "{lock}");
                    }
                });
            }
        });
        let counts = shared.counts(lock);
        assert_eq!(counts.iter().sum::<u64>(), THREADS * operations, "{lock}: {counts:?}");
        assert!(
            counts.iter().all(|&n| n >= THREADS * (operations / u64::from(COUNTERS))),
            "{lock}: {counts:?}"
        );
    }
}

#[test]
fn processes_lose_no_count() {
    for &lock in Lock::value_variants() {
        let (shared, file) = (Shared::new(), tempfile::tempfile().expect("a file"));
        let operations = operations(lock);
        let job = job(lock);
        // The children only count: nothing that another thread of the test could have locked before the fork.
        let mut engine = shared.open(&job, &file).expect("the engine starts");
        let mut own = shared.open(&job, &file).expect("the engine starts");
        // SAFETY: the child calls nothing but the engine and _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: a watchdog is a thread, and those stay behind; a child that hangs ends by a signal.
            unsafe { libc::alarm(60) };
            let failed = (0..operations).any(|_| count(&mut own, 1) != 0);
            // SAFETY: leaves without running anything of the parent's.
            unsafe { libc::_exit(i32::from(failed)) };
        }
        let failed = (0..operations).filter(|_| count(&mut engine, 1) != 0).count();
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((failed, status), (0, 0), "{lock}");
        assert_eq!(shared.counts(lock), [0, 2 * operations, 0], "{lock}");
    }
}

#[test]
fn what_is_no_counter_is_an_error() {
    let (shared, file) = (Shared::new(), tempfile::tempfile().expect("a file"));
    let mut engine = shared.open(&job(Lock::Atomic), &file).expect("the engine starts");
    assert_eq!(count(&mut engine, u64::from(COUNTERS)), -i64::from(libc::EINVAL));
    assert_eq!(shared.counts(Lock::Atomic), [0; 3]);
    let said = shared.open(&Job { counters: 1000, ..job(Lock::Mutex) }, &file).expect_err("too few bytes").0;
    assert!(said.contains("1000 counters") && said.contains("--counters"), "{said}");
}

#[test]
fn a_record_lock_excludes_the_other_worker() {
    let (shared, file) = (Shared::new(), tempfile::tempfile().expect("a file"));
    let mut engine = shared.open(&job(Lock::Fcntl), &file).expect("the engine starts");
    // SAFETY: a record of zeros is valid.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    (record.l_type, record.l_start, record.l_len) = (libc::F_WRLCK as libc::c_short, 1, 1);
    // SAFETY: the record lives as long as the calls do.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &record) }, 0);
    assert_eq!(count(&mut engine, 0), 0, "another byte is free");
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = shared.open(&job(Lock::Fcntl), &file).expect("the engine starts");
            assert_eq!(count(&mut other, 1), 0);
            ended.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!ended.load(std::sync::atomic::Ordering::SeqCst), "it must wait for the byte");
        record.l_type = libc::F_UNLCK as libc::c_short;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &record) }, 0);
    });
    assert_eq!(shared.counts(Lock::Fcntl), [1, 1, 0]);
}
