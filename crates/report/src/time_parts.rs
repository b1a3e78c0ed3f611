// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Categories of time as sentences group them.

/// Parts of time that are one thing to a reader.
pub const PARTS: &[(&str, &[&str])] = &[
    ("running on a CPU", &["running"]),
    ("spinning for kernel locks", &["lock.spin"]),
    ("interrupts", &["interrupted"]),
    ("waiting for a CPU", &["runnable", "preempted", "runnable.own", "runnable.idle"]),
    ("runnable on a CPU that stays idle", &["runnable.held"]),
    ("waiting for a CPU that the recorder has", &["overhead"]),
    ("throttled by the cgroup", &["block.limit"]),
    ("waiting for the device", &["block.device"]),
    (
        "waiting before the device",
        &["block.queue", "block.plug", "block.flush", "block.schedule", "block.wakeup"],
    ),
    ("waiting for other threads", &["other.running", "other.runnable", "other.waiting", "thread"]),
    ("waiting for other threads with a request in progress", &["thread.request"]),
    ("waiting for kernel locks", &["lock.kernel"]),
    ("waiting for user-space locks", &["lock.user"]),
    ("waiting for file locks", &["lock.file"]),
    ("waiting for the journal", &["journal"]),
    ("throttled for dirtying pages", &["writeback.throttle"]),
    ("waiting for memory", &["memory"]),
    ("waiting for pipes and streams", &["pipe"]),
    ("waiting for sockets and the network", &["socket", "network"]),
    ("polling", &["poll"]),
    ("sleeping on a timer", &["timer"]),
    ("waiting for signals", &["signal"]),
    ("stopped", &["stopped"]),
    ("not recorded", &["paused"]),
];
