// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of the CPU and of memory.

use super::{dose, Fault, WORKS};
use crate::load::{cpu, memory, Dose};
use crate::setup::slow::Timing;
use crate::setup::Stage;
use anyhow::Result;

fn nothing(_: &mut Stage, _: Dose, _: bool) -> Result<()> {
    Ok(())
}

/// Calibrates with so many units of the kernel's work.
fn units(stage: &mut Stage, mut unit: impl FnMut() -> Result<()>) -> Result<()> {
    const UNITS: u64 = 1_000;
    stage.calibrate(UNITS, || (0..UNITS).try_for_each(|_| unit()))
}

fn zeroes(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    units(stage, cpu::zeroes()?)
}

fn numbers(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    units(stage, cpu::numbers())
}

fn cached_file(stage: &mut Stage, _: Dose, _: bool) -> Result<()> {
    stage.data(1)?;
    let blocks = cpu::blocks(&stage.place.dir.join("data"))?;
    units(stage, blocks)
}

/// As many pages at a time as the load takes, or nearly: their memory is as cold for the CPU.
fn pages(stage: &mut Stage, dose: Dose, _: bool) -> Result<()> {
    stage.calibrate(dose.fault, || memory::pages(dose.fault as usize))
}

/// `width` hogs of nice value `fault` on the victim's CPU. The victim is alone there otherwise.
fn hogs(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    let (victim, _) = stage.two_cpus()?;
    stage.place.cpu = Some(victim);
    let (cpu, nice) = (victim.to_string(), dose.fault.to_string());
    // `width` is the load's number of threads, which is one.
    let hogs = if dose.fault == 0 { 3 } else { 1 };
    for _ in 0..if on { hogs } else { 0 } {
        stage.neighbour(&["spin", "--cpu", &cpu, "--nice", &nice])?;
    }
    Ok(())
}

fn real_time_hog(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    let (victim, _) = stage.two_cpus()?;
    stage.place.cpu = Some(victim);
    if on {
        // Below the 95 % that real-time threads may have, so that nobody else starves.
        let (burst, rest) = (dose.fault.to_string(), (10_000 - dose.fault).to_string());
        stage.neighbour(&["fifo", "--cpu", &victim.to_string(), "--us", &burst, "--gap", &rest])?;
    }
    Ok(())
}

fn quota(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    if on {
        stage.cpu_quota(dose.fault, 20_000)?;
    }
    Ok(())
}

fn flood(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    let (victim, other) = stage.two_cpus()?;
    stage.place.cpu = Some(victim);
    if on {
        // Receive packet steering: the loopback's receiving half runs on the victim's CPU.
        stage.set("/sys/class/net/lo/queues/rx-0/rps_cpus", &format!("{:x}", 1_u64 << victim))?;
        let (cpu, gap) = (other.to_string(), dose.fault.to_string());
        stage.neighbour(&["flood", "--cpu", &cpu, "--gap", &gap, "--nice", "-20"])?;
    }
    Ok(())
}

/// The file is three times as large as the cache may be.
fn small_cache(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(dose.fault + 64)?;
    stage.ext4("defaults")?;
    stage.cold_data(dose.fault as usize)?;
    stage.slow(Timing { serial_ns_per_kib: 8_000, ..Timing::default() });
    if on {
        stage.memory_limit(dose.fault * 1024 / 3)?;
    }
    Ok(())
}

/// Half of what the target touches does not fit.
fn swap_to_memory(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.zram_swap(256)?;
    if on {
        stage.memory_limit(dose.fault * 512)?;
    }
    Ok(())
}

fn swap_to_disk(stage: &mut Stage, dose: Dose, on: bool) -> Result<()> {
    stage.slow_device(128)?;
    stage.device_swap()?;
    if on {
        stage.memory_limit(dose.fault * 1024 - dose.width * 1024)?;
    }
    stage.slow(Timing { each_us: 100, ..Timing::default() });
    Ok(())
}

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "cpu-spin",
        words: "computes all the time (weak: 30 % of it, and sleeps)",
        expect: &["cpu.user"],
        base: &["wait.sleep"],
        setup: nothing,
        load: cpu::user,
        strong: dose(80, 0, 10_000, 1),
        weak: dose(80, 7_000, 3_000, 1),
        compare: false,
    },
    Fault {
        name: "read-zero",
        words: "reads zeroes from /dev/zero that nobody needs",
        expect: &["cpu.kernel"],
        base: WORKS,
        setup: zeroes,
        load: cpu::read_zero,
        strong: dose(200, 1_000, 3_000, 1),
        weak: dose(200, 3_000, 1_000, 1),
        compare: true,
    },
    Fault {
        name: "random-numbers",
        words: "reads random numbers with getrandom(2), 4 KiB per call",
        expect: &["cpu.kernel"],
        base: WORKS,
        setup: numbers,
        load: cpu::random_numbers,
        strong: dose(200, 1_000, 3_000, 1),
        weak: dose(200, 3_000, 1_000, 1),
        compare: true,
    },
    Fault {
        name: "cached-reads",
        words: "reads the same blocks from the page cache again and again",
        expect: &["cpu.kernel"],
        base: WORKS,
        setup: cached_file,
        load: cpu::cached_reads,
        strong: dose(200, 1_000, 3_000, 1),
        weak: dose(200, 3_000, 1_000, 1),
        compare: true,
    },
    Fault {
        name: "cpu-hogs",
        words: "hogs on the victim's CPU: three, or a nice one (weak)",
        expect: &["cpu.wait"],
        base: WORKS,
        setup: hogs,
        load: cpu::work,
        strong: dose(25, 10_000, 0, 1),
        weak: dose(60, 10_000, 5, 1),
        compare: true,
    },
    Fault {
        name: "real-time-hog",
        words: "a SCHED_FIFO thread takes the victim's CPU for a part of each 10 ms",
        expect: &["cpu.wait"],
        base: WORKS,
        setup: real_time_hog,
        load: cpu::work,
        strong: dose(25, 10_000, 7_000, 1),
        weak: dose(60, 10_000, 2_600, 1),
        compare: true,
    },
    Fault {
        name: "cpu-quota",
        words: "a cgroup's CPU quota in periods of 20 ms",
        expect: &["cpu.throttled"],
        base: WORKS,
        setup: quota,
        load: cpu::work,
        strong: dose(25, 10_000, 6_000, 1),
        weak: dose(60, 10_000, 15_000, 1),
        compare: true,
    },
    Fault {
        name: "cpu-quota-threads",
        words: "two threads in a cgroup with a CPU quota",
        expect: &["cpu.throttled"],
        base: WORKS,
        setup: quota,
        load: cpu::work,
        strong: dose(25, 10_000, 10_000, 2),
        weak: dose(60, 10_000, 29_000, 2),
        compare: true,
    },
    Fault {
        name: "softirq-flood",
        words: "a flood of small datagrams, received on the victim's CPU",
        // ksoftirqd, a thread, takes over a flood that interrupts cannot keep up with: then the
        // victim waits for a CPU that a thread has, and both names are right.
        expect: &["cpu.interrupts", "cpu.wait"],
        base: WORKS,
        setup: flood,
        load: cpu::work,
        strong: dose(25, 10_000, 0, 1),
        weak: dose(60, 10_000, 270, 1),
        compare: true,
    },
    Fault {
        name: "small-cache",
        words: "a file is read again and again in a memory cgroup of a third of its size",
        expect: &["memory.reclaim"],
        base: WORKS,
        setup: small_cache,
        load: memory::reread,
        strong: dose(8, 300, 16, 1),
        weak: dose(5, 1_900, 16, 1),
        compare: true,
    },
    Fault {
        name: "swap-zram",
        words: "working set of twice the cgroup's memory limit, swap on zram",
        expect: &["memory.swap"],
        base: WORKS,
        setup: swap_to_memory,
        load: memory::walk,
        strong: dose(2, 500, 48, 1),
        weak: dose(2, 3_600, 20, 1),
        compare: true,
    },
    Fault {
        name: "swap-disk",
        words: "working set above the cgroup's memory limit, swap on a slow disk",
        expect: &["memory.swap"],
        base: WORKS,
        setup: swap_to_disk,
        load: memory::walk,
        strong: dose(2, 1_000, 24, 2),
        weak: dose(2, 4_000, 24, 1),
        compare: true,
    },
    Fault {
        name: "fault-storm",
        words: "each operation maps, touches and unmaps its buffer",
        expect: &["memory.faults"],
        base: WORKS,
        setup: pages,
        load: memory::new_mappings,
        strong: dose(200, 1_000, 3_000, 1),
        weak: dose(200, 3_000, 1_000, 1),
        compare: true,
    },
    Fault {
        name: "given-back",
        words: "each operation drops its buffer with MADV_DONTNEED",
        expect: &["memory.faults"],
        base: WORKS,
        setup: pages,
        load: memory::given_back,
        strong: dose(200, 1_000, 3_000, 1),
        weak: dose(200, 3_000, 1_000, 1),
        compare: true,
    },
];
