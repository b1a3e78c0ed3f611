// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's numbers that records carry, each defined here alone.

/// Thread ids end here on 64-bit kernels: PID_MAX_LIMIT, include/linux/threads.h. From here on are those of threads outside of
/// the recorder's PID namespace: processes' (PLUMB_OUTSIDE), then the kernel's.
pub const PID_MAX_LIMIT: u32 = 1 << 22;
/// The first of the kernel's threads among those outside of the recorder's PID namespace (PLUMB_OUTSIDE_KERNEL).
pub const OUTSIDE_KERNEL: u32 = 1 << 23;
/// A thread id from here on is a damaged record's.
pub const TID_LIMIT: u32 = OUTSIDE_KERNEL + PID_MAX_LIMIT;
/// The last moment of the kernel's clocks, ns: KTIME_MAX, include/linux/ktime.h. A later one is a damaged record's.
pub const KTIME_MAX: u64 = i64::MAX as u64;
/// The most bytes that one call moves: MAX_RW_COUNT, include/linux/fs.h. More is a damaged record's.
pub const MAX_RW_COUNT: u64 = 0x7fff_f000;
/// Greater CPU numbers are a damaged record's; NR_CPUS ends at 8192.
pub const MOST_CPUS: u32 = 1 << 16;

/// Operation and flags of a bio or request (`opf`): enum req_op and enum req_flag_bits of
/// include/linux/blk_types.h, the same from 6.1 to 6.18.
#[allow(missing_docs, reason = "the kernel documents its names")]
pub mod req {
    pub const OP_MASK: u32 = 0xff;
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const SECURE_ERASE: u32 = 5;
    pub const ZONE_APPEND: u32 = 7;
    pub const WRITE_ZEROES: u32 = 9;
    pub const DRV_IN: u32 = 34;
    pub const DRV_OUT: u32 = 35;

    pub const SYNC: u32 = 1 << 11;
    pub const META: u32 = 1 << 12;
    pub const PRIO: u32 = 1 << 13;
    pub const IDLE: u32 = 1 << 15;
    pub const FUA: u32 = 1 << 17;
    pub const PREFLUSH: u32 = 1 << 18;
    pub const RAHEAD: u32 = 1 << 19;

    /// The operation without its flags.
    pub fn op(opf: u32) -> u32 {
        opf & OP_MASK
    }

    /// Whether data goes to the device: so in odd operations.
    pub fn is_write(opf: u32) -> bool {
        opf & 1 == 1
    }

    /// Whether data is transferred: not by a flush, nor by a discard, which has a length all the same.
    pub fn moves_data(opf: u32, bytes: u32) -> bool {
        bytes > 0 && !matches!(op(opf), DISCARD | SECURE_ERASE | WRITE_ZEROES)
    }

    /// The operation in words.
    pub fn word(opf: u32) -> &'static str {
        match op(opf) {
            READ => "read",
            WRITE => "write",
            FLUSH => "flush",
            DISCARD => "discard",
            SECURE_ERASE => "secure erase",
            ZONE_APPEND => "zone append",
            WRITE_ZEROES => "write zeroes",
            DRV_IN | DRV_OUT => "driver",
            _ => "other",
        }
    }

    /// The operation of a request of this length in words. An empty write asks for a flush: block/blk-flush.c
    /// sends one of its own for it, and clears PREFLUSH.
    pub fn word_of(opf: u32, bytes: u32) -> &'static str {
        match op(opf) {
            WRITE if bytes == 0 => "empty write",
            _ => word(opf),
        }
    }
}

/// I/O priorities: include/uapi/linux/ioprio.h.
#[allow(missing_docs, reason = "the kernel documents its names")]
pub mod ioprio {
    pub const REALTIME: u32 = 1;
    pub const BEST_EFFORT: u32 = 2;
    pub const IDLE: u32 = 3;

    /// As a request carries it.
    pub const fn value(class: u32, level: u32) -> u32 {
        class << 13 | level
    }

    /// Its class; 0 where none was set.
    pub const fn class(ioprio: u32) -> u32 {
        ioprio >> 13
    }
}

/// Bits of `prev_state`: TASK_ and EXIT_ of include/linux/sched.h, 4.14 to 6.18; 0 is TASK_RUNNING.
#[allow(missing_docs, reason = "the kernel documents its names")]
pub mod task_state {
    pub const RUNNING: u32 = 0;
    pub const INTERRUPTIBLE: u32 = 0x1;
    pub const UNINTERRUPTIBLE: u32 = 0x2;
    /// __TASK_STOPPED | __TASK_TRACED
    pub const STOPPED: u32 = 0x4 | 0x8;
    /// TASK_FROZEN (Linux 6.1): in the cgroup v1 freezer, or while the system suspends.
    pub const FROZEN: u32 = 0x8000;
    pub const EXIT_DEAD: u32 = 0x10;
    pub const TASK_DEAD: u32 = 0x80;
    /// EXIT_DEAD | EXIT_ZOMBIE | TASK_DEAD: the thread never runs again.
    pub const DEAD: u32 = EXIT_DEAD | 0x20 | TASK_DEAD;
    /// What /proc and tracepoints report: S D T t X Z P.
    pub const REPORT: u32 = 0x7f;
    /// With UNINTERRUPTIBLE it is TASK_IDLE: a sleep that the load average does not count.
    pub const NOLOAD: u32 = 0x400;
    /// Waits for a lock of a kernel with real-time locks.
    pub const RTLOCK_WAIT: u32 = 0x1000;
}

/// Vectors of soft interrupts: include/linux/interrupt.h.
#[allow(missing_docs, reason = "the kernel documents its names")]
pub mod softirq {
    pub const TIMER: u32 = 1;
    pub const NET_RX: u32 = 3;
    pub const HRTIMER: u32 = 8;
    pub const RCU: u32 = 9;
    /// The place is the vector.
    pub const NAMES: [&str; 10] =
        ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];
}

/// Priority of a thread of nice 0, as the scheduler counts (0-139): DEFAULT_PRIO of include/linux/sched/prio.h.
pub const DEFAULT_PRIO: u16 = 120;

/// Device numbers as records carry them: `dev_t` of include/linux/kdev_t.h, which is not that of user programs.
pub mod dev {
    const MINORBITS: u32 = 20;

    /// The number of a major and a minor.
    pub const fn new(major: u32, minor: u32) -> u32 {
        major << MINORBITS | minor
    }

    /// The part that stands for the driver.
    pub const fn major(dev: u32) -> u32 {
        dev >> MINORBITS
    }

    /// The part that stands for the device.
    pub const fn minor(dev: u32) -> u32 {
        dev & ((1 << MINORBITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{dev, ioprio, req};

    #[test]
    fn an_operation_has_its_word_whatever_its_flags() {
        assert_eq!(req::word(req::WRITE | req::SYNC), "write");
        assert_eq!(req::word_of(req::WRITE | req::PREFLUSH, 0), "empty write");
        assert_eq!(req::word_of(req::FLUSH | req::PREFLUSH, 0), "flush");
        assert_eq!(req::word(6), "other");
        assert!(req::moves_data(req::WRITE, 512) && !req::moves_data(req::DISCARD, 512));
        assert!(!req::moves_data(req::READ, 0));
    }

    #[test]
    fn numbers_are_put_together_and_taken_apart() {
        assert_eq!((dev::major(dev::new(259, 7)), dev::minor(dev::new(259, 7))), (259, 7));
        assert_eq!(ioprio::class(ioprio::value(ioprio::IDLE, 4)), ioprio::IDLE);
    }
}
