// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of the kernel that a simulated trace has.

use crate::device::Operation;
use plumb_load::job::{Job, SyncMethod};
use plumb_trace::kernel::req;

/// Operation and flags, of a bio or of a request. A direct write is synchronous (dio_bio_write_op(),
/// block/fops.c); who flushes sends an empty write with a flush before it (blkdev_issue_flush()).
pub fn opf(operation: Operation, fua: bool, bio: bool) -> u32 {
    match operation {
        Operation::Read => req::READ,
        Operation::Write => req::WRITE | req::SYNC | req::IDLE | if fua { req::FUA } else { 0 },
        Operation::Flush if bio => req::WRITE | req::SYNC | req::PREFLUSH,
        Operation::Flush => req::FLUSH | req::PREFLUSH,
        Operation::Discard => req::DISCARD,
    }
}

/// Identities, in the shape of kernel addresses.
pub mod addresses {
    pub fn bio(number: u32) -> u64 {
        0xffff_8881_0000_0000 + u64::from(number) * 0x100
    }

    pub fn request(number: u32) -> u64 {
        0xffff_8882_0000_0000 + u64::from(number) * 0x200
    }

    /// The request of a bio that asks for a flush alone, which never goes to the device itself.
    pub fn flush_of(bio: u32) -> u64 {
        0xffff_8883_0000_0000 + u64::from(bio) * 0x200
    }
}

/// Numbers of the system calls that a job makes.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    read: u32,
    write: u32,
    sync: u32,
    /// Waits for what went through a queue.
    pub queue: u32,
    /// Waits for the clock.
    pub sleep: u32,
}

impl Calls {
    pub fn of(job: &Job) -> Calls {
        let sync = if job.sync == SyncMethod::Fdatasync { libc::SYS_fdatasync } else { libc::SYS_fsync };
        Calls {
            read: libc::SYS_pread64 as u32,
            write: libc::SYS_pwrite64 as u32,
            sync: sync as u32,
            queue: libc::SYS_io_uring_enter as u32,
            sleep: libc::SYS_clock_nanosleep as u32,
        }
    }

    /// The call of an operation.
    pub fn of_operation(&self, operation: Operation) -> u32 {
        match operation {
            Operation::Read => self.read,
            Operation::Flush => self.sync,
            Operation::Write | Operation::Discard => self.write,
        }
    }
}

/// Names of the events that a simulated trace may have, and of those that it would have if they happened:
/// what is not among them was not simulated.
pub fn events() -> String {
    [
        "block_bio_backmerge",
        "block_bio_frontmerge",
        "block_bio_queue",
        "block_getrq",
        "block_rq_complete",
        "block_rq_insert",
        "block_rq_issue",
        "block_rq_merge",
        "block_rq_requeue",
        "block_split",
        "irq_handler_entry",
        "irq_handler_exit",
        "local_timer_entry",
        "local_timer_exit",
        "sched_exit",
        "sched_migrate",
        "sched_switch",
        "sched_wakeup_new",
        "sched_waking",
        "sys_enter",
        "sys_exit",
    ]
    .join(",")
}
