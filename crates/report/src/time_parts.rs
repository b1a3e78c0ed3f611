// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Categories of time as sentences group them.

/// Parts of time that are one thing to a reader.
pub const PARTS: &[(&str, &[&str])] = &[
    ("running on a CPU", &["running"]),
    ("spinning for locks of the kernel", &["lock.spin"]),
    ("interrupts", &["interrupted"]),
    ("waiting for a CPU", &["runnable", "preempted", "runnable.own", "runnable.idle"]),
    ("ready on a CPU that stays idle", &["runnable.held"]),
    ("held back by a limit of the cgroup", &["block.limit"]),
    ("waiting for the device", &["block.device"]),
    (
        "waiting before the device",
        &["block.queue", "block.plug", "block.flush", "block.schedule", "block.wakeup"],
    ),
    ("waiting for other threads", &["other.running", "other.runnable", "other.waiting", "thread"]),
    ("waiting for locks of the kernel", &["lock.kernel"]),
    ("waiting for user locks", &["lock.user"]),
    ("waiting for file locks", &["lock.file"]),
    ("waiting for the journal", &["journal"]),
    ("pausing for dirtied pages", &["writeback.throttle"]),
    ("waiting for memory", &["memory"]),
    ("waiting for pipes and streams", &["pipe"]),
    ("waiting for sockets and the network", &["socket", "network"]),
    ("polling", &["poll"]),
    ("sleeping until a time", &["timer"]),
    ("waiting for signals", &["signal"]),
];
