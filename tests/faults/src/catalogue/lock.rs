// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of locking.

use super::{dose, Fault, WORKS};
use crate::load::{lock, Dose};
use crate::setup::slow::Timing;
use crate::setup::Stage;
use anyhow::Result;

fn nothing(_: &mut Stage, _: Dose, _: bool) -> Result<()> {
    Ok(())
}

/// Held for `fault`, free for `width` us.
fn holder(stage: &mut Stage, kind: &str, dose: Dose) -> Result<()> {
    stage.neighbour(&[kind, "--us", &dose.fault.to_string(), "--gap", &dose.width.to_string()])
}

fn flock_holder(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    if on {
        return holder(stage, "flock", dose);
    }
    Ok(std::fs::write(stage.place.dir.join("lock"), [0; 4096])?)
}

fn mutex_holder(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    holder(stage, "mutex", Dose { fault: if on { dose.fault } else { 0 }, ..dose })
}

fn semaphore_holder(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.semaphore()?;
    holder(stage, "semaphore", Dose { fault: if on { dose.fault } else { 0 }, ..dose })
}

fn lease_holder(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    if on {
        return holder(stage, "lease", dose);
    }
    Ok(std::fs::write(stage.place.dir.join("leased"), "")?)
}

fn lock_file(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    Ok(std::fs::write(stage.place.dir.join("lock"), [0; 4096])?)
}

fn delayed_files(stage: &mut Stage, dose: Dose, _: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("defaults")?;
    stage.slow(Timing { each_us: dose.fault, ..Timing::default() });
    Ok(())
}

fn durable_directories(stage: &mut Stage, dose: Dose, _: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("dirsync")?;
    stage.slow(Timing { each_us: dose.fault, ..Timing::default() });
    Ok(())
}

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "held-mutex",
        words: "one thread holds a mutex for milliseconds that four others need",
        expect: &["lock.user"],
        // The holder computes with the mutex, and rests between.
        base: &["cpu.user", "wait.sleep"],
        setup: nothing,
        load: lock::held_mutex,
        strong: dose(50, 1_000, 16_000, 4),
        weak: dose(90, 6_000, 4_500, 1),
        compare: true,
    },
    Fault {
        name: "shared-mutex",
        words: "a mutex in shared memory that another process holds for milliseconds",
        expect: &["lock.user"],
        base: WORKS,
        setup: mutex_holder,
        load: lock::shared_mutex,
        strong: dose(100, 2_000, 9_000, 1_000),
        weak: dose(100, 6_000, 6_000, 7_000),
        compare: true,
    },
    Fault {
        name: "priority-mutex",
        words: "one thread holds a mutex of the priority inheritance protocol that two others need",
        expect: &["lock.user"],
        base: &["cpu.user", "wait.sleep"],
        setup: nothing,
        load: lock::held_pi_mutex,
        strong: dose(50, 1_000, 16_000, 2),
        weak: dose(90, 6_000, 4_500, 1),
        compare: true,
    },
    Fault {
        name: "read-write-lock",
        words: "a thread writes under a read-write lock that readers hold nearly always",
        expect: &["lock.user"],
        base: &["cpu.user", "wait.sleep"],
        setup: nothing,
        load: lock::read_write_lock,
        strong: Dose { rest: 2_000, ..dose(100, 1_000, 8_000, 1) },
        weak: Dose { rest: 5_000, ..dose(100, 6_000, 5_000, 1) },
        compare: true,
    },
    Fault {
        name: "semaphore",
        words: "a System V semaphore that another process holds for milliseconds",
        expect: &["peer.process"],
        base: WORKS,
        setup: semaphore_holder,
        load: lock::semaphore,
        strong: dose(100, 2_000, 9_000, 1_000),
        weak: dose(100, 5_000, 7_000, 5_000),
        compare: true,
    },
    Fault {
        name: "lease",
        words: "opens a file on which a neighbour has a lease that it gives back late",
        expect: &["peer.process", "lock.file"],
        base: &["cpu.user", "wait.sleep"],
        setup: lease_holder,
        load: lock::leased,
        strong: Dose { rest: 300, ..dose(100, 2_000, 5_500, 100) },
        weak: Dose { rest: 300, ..dose(100, 6_000, 2_200, 100) },
        compare: true,
    },
    Fault {
        name: "one-mutex",
        words: "eight threads queue for the one mutex that each holds while it waits",
        // Many threads, one lock: a convoy is what it is, a user lock what it is made of.
        expect: &["lock.convoy", "lock.user"],
        // Whoever holds the mutex sleeps, and the weak dose rests besides.
        base: &["cpu.user", "wait.sleep"],
        setup: nothing,
        load: lock::convoy,
        strong: dose(100, 50, 800, 8),
        weak: Dose { rest: 5_000, ..dose(100, 0, 1_000, 8) },
        compare: true,
    },
    Fault {
        name: "five-mutexes",
        words: "two hundred threads queue for five mutexes, under which they wait",
        expect: &["lock.convoy", "lock.user"],
        base: &["cpu.user", "wait.sleep"],
        setup: nothing,
        load: lock::convoy_five,
        strong: dose(30, 10, 500, 200),
        weak: Dose { rest: 5_000, ..dose(100, 0, 1_000, 40) },
        compare: true,
    },
    Fault {
        name: "herd",
        words: "every waiting thread is woken for each work item",
        expect: &["lock.herd"],
        // Threads without work wait in the same futex: that is no fault.
        base: &["cpu.user", "lock.user"],
        setup: nothing,
        load: lock::herd_condition,
        strong: dose(600, 300, 0, 64),
        weak: dose(800, 700, 0, 16),
        compare: true,
    },
    Fault {
        name: "flock",
        words: "a neighbour holds flock on a file for milliseconds",
        expect: &["lock.file"],
        base: WORKS,
        setup: flock_holder,
        load: lock::file_lock,
        strong: dose(100, 2_000, 9_000, 1_000),
        weak: dose(100, 6_000, 7_000, 7_000),
        compare: true,
    },
    Fault {
        name: "record-lock",
        words: "threads lock the same range of a file with fcntl",
        expect: &["lock.file"],
        base: &["cpu.user", "wait.sleep"],
        setup: lock_file,
        load: lock::record_lock,
        strong: dose(100, 100, 1_500, 6),
        weak: dose(80, 2_500, 5_000, 2),
        compare: true,
    },
    Fault {
        name: "one-inode",
        words: "threads append to one file with O_DIRECT: the inode's lock is held while the disk works",
        expect: &["lock.kernel"],
        base: &["cpu.user", "device.slow", "device.saturated", "sync.write"],
        setup: delayed_files,
        load: lock::one_inode,
        strong: dose(60, 100, 1_500, 8),
        weak: dose(100, 1_500, 3_000, 2),
        compare: true,
    },
    Fault {
        name: "one-directory",
        words: "threads make and rename files in one directory mounted with dirsync",
        expect: &["lock.kernel"],
        base: &["cpu.user", "device.slow", "sync.write", "wait.sleep"],
        setup: durable_directories,
        load: lock::one_directory,
        strong: dose(10, 100, 1_000, 8),
        weak: Dose { rest: 6_000, ..dose(16, 100, 1_000, 4) },
        compare: true,
    },
    Fault {
        name: "address-space",
        words: "one thread populates memory with the lock of the address space that others need to map",
        expect: &["lock.kernel"],
        // The populating thread itself uses the CPU in the kernel, for page faults, and rests between.
        base: &["cpu.user", "cpu.kernel", "memory.faults", "wait.sleep"],
        setup: nothing,
        load: lock::address_space,
        strong: dose(40, 500, 20, 6),
        weak: Dose { rest: 12_000, ..dose(60, 6_000, 16, 1) },
        compare: true,
    },
];
