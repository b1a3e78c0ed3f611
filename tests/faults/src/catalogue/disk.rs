// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of devices, of how they are asked, of file systems.

use super::{dose, Fault, WORKS};
use crate::load::{disk, Dose};
use crate::setup::slow::Timing;
use crate::setup::Stage;
use anyhow::Result;

/// A disk whose every request takes `us` longer, however many there are.
const fn each(us: u64) -> Timing {
    Timing { each_us: us, ..FAST }
}

/// A disk that does one request after the other, `us` each.
const fn serial(us: u64) -> Timing {
    Timing { serial_us: us, ..FAST }
}

const FAST: Timing = Timing {
    each_us: 0,
    serial_us: 0,
    serial_ns_per_kib: 0,
    stall_every: 0,
    stall_us: 0,
    flush_us: 0,
    fails_after: 0,
    fails_us: 0,
};

/// 100 MB/s and a flush of 0.5 ms: a plain disk.
const PLAIN: Timing = Timing { serial_ns_per_kib: 10_000, flush_us: 500, ..FAST };

fn delayed(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    stage.slow(each(if on { dose.fault } else { 0 }));
    Ok(())
}

fn delayed_files(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    stage.ext4("defaults")?;
    for i in 0..dose.ops {
        let path = stage.place.dir.join(format!("file{i}"));
        std::fs::write(&path, vec![7; 64 << 10])?;
        crate::sys::evict(&path)?;
    }
    stage.slow(each(if on { dose.fault } else { 0 }));
    Ok(())
}

/// One request of 25 takes `fault` us longer.
fn stalling(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    stage.slow(if on { Timing { stall_every: 25, stall_us: dose.fault, ..each(200) } } else { each(200) });
    Ok(())
}

/// After eight tenths of the requests each takes `fault` us longer.
fn slower(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    let fails = Timing { fails_after: dose.ops * 8 / 10, fails_us: dose.fault, ..each(100) };
    stage.slow(if on { fails } else { each(100) });
    Ok(())
}

fn saturated(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    stage.slow(serial(if on { dose.fault } else { 20 }));
    Ok(())
}

fn constant_delay(stage: &mut Stage, dose: Dose, _: bool) -> Result<()> {
    stage.slow_device(256)?;
    stage.slow(each(dose.fault));
    Ok(())
}

/// A cold file on a disk that takes `fault` us a request, with the fault or without.
fn cold_file(stage: &mut Stage, dose: Dose, _: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("defaults")?;
    stage.cold_data(64)?;
    stage.slow(each(dose.fault));
    Ok(())
}

fn no_read_ahead(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    cold_file(stage, dose, on)?;
    if on {
        let path = stage.sys_block()?.join("queue/read_ahead_kb");
        stage.set(path, "0")?;
    }
    Ok(())
}

/// `fault` requests a second.
fn requests_limit(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fast_device(256)?;
    if on {
        stage.io_limit("riops", dose.fault)?;
    }
    Ok(())
}

/// `fault` KiB a second.
fn bytes_limit(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fast_device(256)?;
    if on {
        stage.io_limit("rbps", dose.fault << 10)?;
    }
    Ok(())
}

fn write_limit(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.fast_device(256)?;
    if on {
        stage.io_limit("wbps", dose.fault << 10)?;
    }
    Ok(())
}

/// A neighbour's `fault` threads read all the time. The disk takes four requests at once; the others
/// wait in mq-deadline's queue.
fn scheduler(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(256)?;
    let queue = stage.sys_block()?.join("queue");
    // While there is no scheduler this is the driver's depth, and it stays so under one.
    stage.set(queue.join("nr_requests"), "4")?;
    stage.set(queue.join("scheduler"), "mq-deadline")?;
    stage.slow(serial(300));
    if on {
        stage.neighbour(&["reads", "--width", &dose.fault.to_string()])?;
    }
    Ok(())
}

fn files(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("defaults")?;
    stage.data(4)?;
    // Written before the load begins: it must not pay for the set-up's dirty pages.
    crate::setup::tool("sync", &["-f".as_ref(), stage.place.dir.as_ref()])?;
    stage.slow(PLAIN);
    Ok(())
}

/// A neighbour commits `fault` KiB at a time to the same journal.
fn journal(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("defaults")?;
    stage.slow(PLAIN);
    if on {
        stage.neighbour(&["commits", "--us", &dose.fault.to_string(), "--gap", &dose.width.to_string()])?;
    }
    Ok(())
}

/// At most `fault` KiB of this device may be dirty; nobody else's limits change.
fn dirty_limit(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(192)?;
    stage.ext4("defaults")?;
    if on {
        let bdi = format!("/sys/class/bdi/{}", stage.number()?);
        stage.set(format!("{bdi}/strict_limit"), "1")?;
        std::fs::write(format!("{bdi}/max_bytes"), (dose.fault << 10).to_string())?;
    }
    stage.slow(PLAIN);
    Ok(())
}

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "device-delayed",
        words: "a disk with some milliseconds of service time, one request in flight",
        expect: &["device.slow"],
        base: WORKS,
        setup: delayed,
        load: disk::direct_reads,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "device-delayed-files",
        words: "cold files of 64 KiB on a disk with some milliseconds of service time",
        expect: &["device.slow"],
        base: WORKS,
        setup: delayed_files,
        load: disk::many_files,
        strong: dose(100, 2_000, 5_500, 1),
        weak: dose(100, 6_000, 2_000, 1),
        compare: true,
    },
    Fault {
        name: "device-stalls",
        words: "one request of 25 takes a hundred times as long as the others",
        expect: &["device.stall"],
        base: &["cpu.user", "device.slow"],
        setup: stalling,
        load: disk::direct_reads,
        strong: dose(200, 800, 80_000, 1),
        weak: dose(200, 2_800, 30_000, 1),
        compare: true,
    },
    Fault {
        name: "device-slower",
        words: "a device that takes some milliseconds longer for each of the last fifth of the requests",
        expect: &["device.slower"],
        base: &["cpu.user", "device.slow"],
        setup: slower,
        load: disk::direct_reads,
        strong: dose(500, 300, 12_000, 1),
        weak: dose(500, 3_000, 8_000, 1),
        compare: true,
    },
    Fault {
        name: "device-saturated",
        words: "eight threads read a disk that does one request after the other",
        expect: &["device.saturated"],
        base: WORKS,
        setup: saturated,
        load: disk::direct_reads,
        strong: dose(60, 500, 1_600, 8),
        weak: dose(60, 2_500, 2_200, 8),
        compare: true,
    },
    Fault {
        name: "small-reads",
        words: "sequential reads with O_DIRECT in 4 KiB instead of 1 MiB",
        expect: &["io.small"],
        base: WORKS,
        setup: constant_delay,
        load: disk::small_reads,
        strong: dose(30, 4_000, 0, 1),
        weak: dose(12, 60_000, 0, 1),
        compare: true,
    },
    Fault {
        name: "small-writes",
        words: "sequential writes with O_DIRECT in 4 KiB instead of 1 MiB",
        expect: &["io.small"],
        base: WORKS,
        setup: constant_delay,
        load: disk::small_writes,
        strong: dose(16, 10_000, 0, 1),
        weak: dose(5, 130_000, 0, 1),
        compare: true,
    },
    Fault {
        name: "random-reads",
        words: "random cached reads of 16 KiB instead of sequential ones",
        expect: &["io.random"],
        base: WORKS,
        setup: cold_file,
        load: disk::random_reads,
        strong: dose(400, 400, 1_300, 1),
        weak: dose(300, 2_000, 550, 1),
        compare: true,
    },
    Fault {
        name: "random-direct",
        words: "random O_DIRECT reads of 4 KiB instead of sequential cached ones",
        expect: &["io.random"],
        base: WORKS,
        setup: cold_file,
        load: disk::random_direct,
        strong: dose(400, 400, 1_200, 1),
        weak: dose(300, 2_000, 600, 1),
        compare: true,
    },
    Fault {
        name: "random-mapped",
        words: "random page faults on a mapped file instead of sequential ones",
        expect: &["io.random"],
        base: WORKS,
        setup: cold_file,
        load: disk::random_mapped,
        strong: dose(400, 400, 1_300, 1),
        weak: dose(300, 2_000, 600, 1),
        compare: true,
    },
    Fault {
        name: "advised-random",
        words: "a sequential reader that told the kernel POSIX_FADV_RANDOM",
        // Its requests are 4 KiB and sequential, which is io.small word by word; the cause is the advice.
        expect: &["io.readahead", "io.small"],
        base: WORKS,
        setup: cold_file,
        load: disk::advised_random,
        strong: dose(600, 300, 500, 1),
        weak: dose(400, 1_600, 250, 1),
        compare: true,
    },
    Fault {
        name: "no-read-ahead",
        words: "a sequential reader on a device whose read_ahead_kb is 0",
        // As above.
        expect: &["io.readahead", "io.small"],
        base: WORKS,
        setup: no_read_ahead,
        load: disk::sequential_reads,
        strong: dose(250, 700, 500, 1),
        weak: dose(100, 6_000, 220, 1),
        compare: true,
    },
    Fault {
        name: "limit-requests",
        words: "a cgroup's limit on reads a second",
        expect: &["io.limit"],
        base: WORKS,
        setup: requests_limit,
        load: disk::direct_reads,
        strong: dose(100, 2_000, 100, 1),
        weak: dose(100, 6_000, 115, 1),
        compare: true,
    },
    Fault {
        name: "limit-bytes",
        words: "a cgroup's limit on bytes read a second",
        expect: &["io.limit"],
        base: WORKS,
        setup: bytes_limit,
        load: disk::direct_reads,
        strong: dose(100, 2_000, 7_000, 1),
        weak: dose(100, 6_000, 7_300, 1),
        compare: true,
    },
    Fault {
        name: "limit-writes",
        words: "a cgroup's limit on bytes written a second",
        expect: &["io.limit"],
        base: WORKS,
        setup: write_limit,
        load: disk::direct_writes,
        strong: dose(100, 2_000, 7_000, 1),
        weak: dose(100, 6_000, 7_300, 1),
        compare: true,
    },
    Fault {
        name: "scheduler-queue",
        words: "reads wait in mq-deadline's queue behind a neighbour that reads all the time",
        expect: &["io.scheduler"],
        base: WORKS,
        setup: scheduler,
        load: disk::client_reads,
        strong: dose(100, 1_500, 16, 1),
        weak: dose(60, 10_000, 10, 1),
        compare: true,
    },
    Fault {
        name: "fsync-each",
        words: "fsync after every 512 bytes appended",
        expect: &["sync.write"],
        base: WORKS,
        setup: files,
        load: disk::fsync_each,
        strong: dose(150, 1_300, 0, 1),
        weak: dose(50, 12_000, 0, 1),
        compare: true,
    },
    Fault {
        name: "synchronous-writes",
        words: "4 KiB overwritten with O_SYNC",
        expect: &["sync.write"],
        base: WORKS,
        setup: files,
        load: disk::synchronous,
        strong: dose(250, 800, 0, 1),
        weak: dose(70, 9_000, 0, 1),
        compare: true,
    },
    Fault {
        name: "log-each",
        words: "the line in the log is made durable after each operation on other data",
        // The log is a small synchronous write; that it is a log is the more exact name.
        expect: &["wait.log", "sync.write"],
        base: WORKS,
        setup: files,
        load: disk::log_each,
        strong: dose(250, 800, 0, 1),
        weak: dose(80, 8_000, 0, 1),
        compare: true,
    },
    Fault {
        name: "shared-journal",
        words: "fsync of 4 KiB while a neighbour commits megabytes to the same journal",
        expect: &["journal.shared"],
        base: &["cpu.user", "sync.write"],
        setup: journal,
        load: disk::commits,
        strong: dose(40, 3_000, 4_096, 5_000),
        weak: dose(60, 8_000, 2_048, 30_000),
        compare: true,
    },
    Fault {
        name: "dirty-limit",
        words: "buffered writes where little of the device may be dirty",
        expect: &["writeback.throttle"],
        base: &["cpu.user", "cpu.kernel"],
        setup: dirty_limit,
        load: disk::buffered_writes,
        strong: dose(45, 4_500, 2_048, 1),
        weak: dose(60, 10_000, 16_384, 1),
        compare: true,
    },
];
