// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that lock: in user space, on files, and in the kernel.

use super::{threads, Ctx};
use crate::sys::ipc::Semaphore;
use crate::sys::{self, Aligned, Map, Mutex, ReadWriteLock};
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex as StdMutex};

/// One thread computes with a mutex locked for `fault` us, again and again, and leaves it free for
/// `work` us in between; the others need it for a moment in each operation. Without the fault it
/// computes outside of the mutex.
pub fn held_mutex(ctx: &Ctx) -> Result<()> {
    held(ctx, &Mutex::new()?)
}

/// The same with a mutex of the priority inheritance protocol (FUTEX_LOCK_PI).
pub fn held_pi_mutex(ctx: &Ctx) -> Result<()> {
    held(ctx, &Mutex::inheriting()?)
}

fn held(ctx: &Ctx, mutex: &Mutex) -> Result<()> {
    let left = AtomicU64::new(ctx.dose.width);
    let left = &left;
    let hold = || sys::burn(std::time::Duration::from_micros(ctx.dose.fault));
    threads(ctx.dose.width + 1, |thread| {
        if thread == ctx.dose.width {
            while left.load(SeqCst) > 0 {
                if ctx.on {
                    mutex.with(hold);
                } else {
                    hold();
                }
                sys::sleep_us(ctx.dose.work);
            }
            return Ok(());
        }
        for _ in 0..ctx.dose.ops {
            ctx.work();
            mutex.with(|| ctx.spin(5));
        }
        left.fetch_sub(1, SeqCst);
        Ok(())
    })
}

/// Needs a mutex in shared memory that another process holds for long.
pub fn shared_mutex(ctx: &Ctx) -> Result<()> {
    let file = File::options().read(true).write(true).open(ctx.file("mutex"))?;
    let mutex = Mutex::in_file(&file, false)?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        mutex.with(|| ctx.spin(5));
    }
    Ok(())
}

/// `width` threads, each operation a wait of `fault` us under the one mutex; without the fault each
/// thread has a mutex of its own.
pub fn convoy(ctx: &Ctx) -> Result<()> {
    let count = if ctx.on { 1 } else { ctx.dose.width };
    queue(ctx, count)
}

/// As [`convoy`] with five mutexes.
pub fn convoy_five(ctx: &Ctx) -> Result<()> {
    let count = if ctx.on { 5 } else { ctx.dose.width };
    queue(ctx, count)
}

fn queue(ctx: &Ctx, mutexes: u64) -> Result<()> {
    let mutexes = (0..mutexes).map(|_| Mutex::new()).collect::<Result<Vec<_>>>()?;
    let mutexes = &mutexes;
    threads(ctx.dose.width, |thread| {
        let mutex = &mutexes[thread as usize % mutexes.len()];
        for _ in 0..ctx.dose.ops {
            ctx.work();
            mutex.with(|| sys::sleep_us(ctx.dose.fault));
            sys::sleep_us(ctx.dose.rest);
        }
        Ok(())
    })
}

/// One thread hands out work, `width` wait for it: with the fault all are woken for each piece,
/// without it one.
pub fn herd_condition(ctx: &Ctx) -> Result<()> {
    struct Board {
        pieces: u64,
        done: u64,
        over: bool,
    }
    let board = StdMutex::new(Board { pieces: 0, done: 0, over: false });
    let (more, done) = (Condvar::new(), Condvar::new());
    let lock = || board.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    threads(ctx.dose.width + 1, |thread| {
        if thread == 0 {
            for i in 0..ctx.dose.ops {
                ctx.work();
                let mut b = lock();
                b.pieces += 1;
                if ctx.on {
                    more.notify_all();
                } else {
                    more.notify_one();
                }
                while b.done <= i {
                    b = done.wait(b).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            }
            lock().over = true;
            more.notify_all();
            return Ok(());
        }
        let mut b = lock();
        loop {
            if b.pieces > 0 {
                b.pieces -= 1;
                drop(b);
                ctx.spin(5);
                b = lock();
                b.done += 1;
                done.notify_one();
            } else if b.over {
                return Ok(());
            } else {
                b = more.wait(b).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    })
}

/// The first thread writes under a read-write lock that `width` readers hold for `fault` us at a time, resting for
/// `rest` us in between; without the fault it has one of its own.
pub fn read_write_lock(ctx: &Ctx) -> Result<()> {
    let (read, write) = (ReadWriteLock::new()?, ReadWriteLock::new()?);
    let over = AtomicBool::new(false);
    threads(ctx.dose.width + 1, |thread| {
        if thread > 0 {
            while !over.load(SeqCst) {
                read.with(false, || sys::sleep_us(ctx.dose.fault));
                sys::sleep_us(ctx.dose.rest);
            }
            return Ok(());
        }
        let lock = if ctx.on { &read } else { &write };
        for _ in 0..ctx.dose.ops {
            ctx.work();
            lock.with(true, || ctx.spin(5));
        }
        over.store(true, SeqCst);
        Ok(())
    })
}

/// Needs a System V semaphore that another process holds for long.
pub fn semaphore(ctx: &Ctx) -> Result<()> {
    let semaphore = Semaphore::open(&ctx.file("semaphore"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        semaphore.add(-1)?;
        ctx.spin(5);
        semaphore.add(1)?;
    }
    Ok(())
}

/// Opens a file on which a neighbour has a lease, which it gives back late.
pub fn leased(ctx: &Ctx) -> Result<()> {
    for _ in 0..ctx.dose.ops {
        ctx.work();
        drop(File::options().read(true).write(true).open(ctx.file("leased"))?);
        // The neighbour takes it again.
        sys::sleep_us(ctx.dose.rest);
    }
    Ok(())
}

/// Needs flock(2) on a file that a neighbour locks for long.
pub fn file_lock(ctx: &Ctx) -> Result<()> {
    let file = File::options().read(true).write(true).open(ctx.file("lock"))?;
    for _ in 0..ctx.dose.ops {
        ctx.work();
        sys::flock(&file, true)?;
        ctx.spin(5);
        sys::flock(&file, false)?;
    }
    Ok(())
}

/// `width` threads lock the same range of a file with fcntl(2) for `fault` us at a time; without
/// the fault each a range of its own.
pub fn record_lock(ctx: &Ctx) -> Result<()> {
    threads(ctx.dose.width, |thread| {
        let file = File::options().read(true).write(true).open(ctx.file("lock"))?;
        let start = if ctx.on { 0 } else { thread * 100 };
        for _ in 0..ctx.dose.ops {
            ctx.work();
            sys::record_lock(&file, true, start, 100)?;
            sys::sleep_us(ctx.dose.fault);
            sys::record_lock(&file, false, start, 100)?;
        }
        Ok(())
    })
}

/// `width` threads append 4 KiB past the cache: to one file with the fault, else each to its own.
pub fn one_inode(ctx: &Ctx) -> Result<()> {
    threads(ctx.dose.width, |thread| {
        let name = format!("log{}", if ctx.on { 0 } else { thread });
        let file =
            File::options().append(true).create(true).custom_flags(libc::O_DIRECT).open(ctx.file(&name))?;
        let mut block = Aligned::new(4096);
        for _ in 0..ctx.dose.ops {
            ctx.work();
            // On an O_APPEND file pwrite appends too, under the inode's lock.
            file.write_all_at(block.bytes(), 0)?;
        }
        Ok(())
    })
}

/// `width` threads make and rename files: in one directory with the fault, else each in its own.
/// The mount option dirsync makes each change wait for the journal, with the directory locked.
pub fn one_directory(ctx: &Ctx) -> Result<()> {
    threads(ctx.dose.width, |thread| {
        let dir = ctx.file(&format!("dir{}", if ctx.on { 0 } else { thread }));
        std::fs::create_dir_all(&dir)?;
        for i in 0..ctx.dose.ops {
            ctx.work();
            let new = dir.join(format!("t{thread}-{i}.new"));
            File::create(&new)?;
            std::fs::rename(&new, dir.join(format!("t{thread}-{i}")))?;
            sys::sleep_us(ctx.dose.rest);
        }
        Ok(())
    })
}

/// One thread populates `fault` MiB with the address space's lock held; the others map and unmap a
/// page in each operation, which needs the same lock. Without the fault nobody populates.
pub fn address_space(ctx: &Ctx) -> Result<()> {
    let big = Map::anonymous((ctx.dose.fault as usize).max(1) << 20)?;
    let over = AtomicBool::new(false);
    let left = AtomicU64::new(ctx.dose.width);
    threads(ctx.dose.width + 1, |thread| {
        if thread == ctx.dose.width {
            while ctx.on && !over.load(SeqCst) {
                big.advise(libc::MADV_POPULATE_WRITE);
                big.advise(libc::MADV_DONTNEED);
                sys::sleep_us(ctx.dose.rest);
            }
            return Ok(());
        }
        for _ in 0..ctx.dose.ops {
            ctx.work();
            Map::anonymous(8192)?.touch(0);
        }
        if left.fetch_sub(1, SeqCst) == 1 {
            over.store(true, SeqCst);
        }
        Ok(())
    })
}
