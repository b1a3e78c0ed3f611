// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tunables that a guide knows: which finding of a measured run each is for, what must be seen besides, where its
//! value stands, and which values are tried, in their order. All of them are put back by the journal.

/// A setting that a guide may change.
#[derive(Debug)]
pub struct Tunable {
    /// Its name for `--may`.
    pub key: &'static str,
    /// Findings that it is for (ids of `plumb findings`), each with what must be seen besides.
    pub findings: &'static [(&'static str, When)],
    pub setting: Setting,
    pub candidates: Candidates,
    /// How it removes the time of the finding.
    pub because: &'static str,
    /// What it costs, or risks.
    pub costs: &'static str,
}

/// What must be seen in the run besides the finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// The target's main use of the device is reading in sequence.
    SequentialReads,
    /// Several processes or threads use the device at once.
    Shared,
    /// A fifth of the waiting for the device is for a request (tag).
    TagWait,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The scheduler of the finding's device.
    Scheduler,
    /// An attribute of the queue of the finding's device.
    Queue(&'static str),
    /// A file of /proc or /sys that holds for the system.
    System(&'static str),
    /// Files of /sys that hold for the system, one for each CPU: before and after the CPU's number.
    EachCpu(&'static str, &'static str),
    /// The limit at which writers are throttled, bytes: `vm.dirty_bytes`, or a share of memory.
    DirtyLimit,
    /// A limit of the command's cgroup.
    Group { controller: &'static str, v2: &'static str, v1: &'static str },
    /// The limit of the finding's device in the command's cgroup, or in one above it.
    DeviceLimit,
    /// A word of the file systems on the finding's device, and its opposite.
    Mount([&'static str; 2]),
    /// CPUs that the command may use.
    Cpus,
    /// Nice value of the command.
    Nice,
}

impl Setting {
    /// What a change of it holds for.
    pub fn scope(self) -> &'static str {
        match self {
            Setting::Scheduler | Setting::Queue(_) => "the finding's device",
            Setting::System(_) | Setting::EachCpu(..) | Setting::DirtyLimit => "the system",
            Setting::Group { .. } | Setting::DeviceLimit => "the command's cgroup",
            Setting::Mount(_) => "the file systems on the finding's device",
            Setting::Cpus | Setting::Nice => "the command",
        }
    }

    /// Where the present value is read.
    pub fn place(self) -> String {
        match self {
            Setting::Scheduler => "/sys/block/DEVICE/queue/scheduler".into(),
            Setting::Queue(name) => format!("/sys/block/DEVICE/queue/{name}"),
            Setting::System(path) => path.into(),
            Setting::EachCpu(before, after) => format!("{before}N{after}"),
            Setting::DirtyLimit => "/proc/sys/vm/dirty_bytes, dirty_ratio".into(),
            Setting::Group { v2, v1, .. } => format!("{v2} ({v1})"),
            Setting::DeviceLimit => "io.max (blkio.throttle.*_device)".into(),
            Setting::Mount(_) => "/proc/self/mountinfo".into(),
            Setting::Cpus => "sched_getaffinity(2)".into(),
            Setting::Nice => "getpriority(2)".into(),
        }
    }

    pub fn undo(self) -> &'static str {
        match self {
            Setting::Scheduler => "the scheduler and the queue's attributes are written back",
            Setting::Cpus | Setting::Nice => "holds for the measured command alone",
            _ => "the value is written back",
        }
    }
}

/// Values that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// Numbers above the present one. When one does not help, those behind it are not tried.
    Larger(&'static [u64]),
    /// Numbers below the present one, likewise.
    Smaller(&'static [i64]),
    /// Those of these words that the file offers, but for the present one.
    Words(&'static [&'static str]),
    /// No limit.
    Unlimited,
    /// Every CPU that is online.
    AllCpus,
}

use Candidates::{AllCpus, Larger, Smaller, Unlimited, Words};
use When::{Always, SequentialReads, Shared, TagWait};

const MIB: u64 = 1 << 20;

/// In the order in which they are proposed for one finding.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        key: "cpu-max",
        findings: &[("cpu.throttled", Always)],
        setting: Setting::Group { controller: "cpu", v2: "cpu.max", v1: "cpu.cfs_quota_us" },
        candidates: Unlimited,
        because: "the cgroup's quota stops the command for the rest of each period",
        costs: "the group can take CPU time from others",
    },
    Tunable {
        key: "io-max",
        findings: &[("io.limit", Always)],
        setting: Setting::DeviceLimit,
        candidates: Unlimited,
        because: "blk-throttle holds the group's requests back before they reach the device",
        costs: "the group can take the device's time from others",
    },
    Tunable {
        key: "memory-high",
        findings: &[("memory.reclaim", Always), ("memory.swap", Always)],
        setting: Setting::Group { controller: "memory", v2: "memory.high", v1: "memory.limit_in_bytes" },
        candidates: Unlimited,
        because: "the cgroup's limit makes its tasks reclaim their own memory",
        costs: "the group can take memory from others",
    },
    Tunable {
        key: "mount-sync",
        findings: &[
            ("sync.write", Always),
            ("device.slow", Always),
            ("device.saturated", Always),
            ("io.depth", Always),
            ("io.small", Always),
            ("io.random", Always),
        ],
        setting: Setting::Mount(["sync", "async"]),
        candidates: Words(&["async"]),
        because: "a file system that is mounted sync writes to the device in every write(2)",
        costs: "a crash loses what was written and not synced in the last half minute",
    },
    Tunable {
        key: "read-ahead",
        findings: &[
            ("io.readahead", Always),
            ("io.small", SequentialReads),
            ("io.depth", SequentialReads),
            ("device.slow", SequentialReads),
            ("device.saturated", SequentialReads),
            ("io.scheduler", SequentialReads),
        ],
        setting: Setting::Queue("read_ahead_kb"),
        candidates: Larger(&[512, 2048, 8192]),
        because: "the kernel reads the next pages in larger requests, before they are asked for",
        costs: "memory; data that random readers do not need are read too",
    },
    Tunable {
        key: "scheduler",
        findings: &[
            ("io.scheduler", Always),
            ("device.saturated", Shared),
            ("device.slow", Shared),
            ("io.random", Shared),
            ("io.small", Shared),
            ("io.depth", Shared),
        ],
        setting: Setting::Scheduler,
        candidates: Words(&["bfq", "mq-deadline", "kyber", "none"]),
        because: "it decides in which order the requests of several processes reach the device",
        costs: "CPU time for each request; bfq lets the device idle between requests of one process",
    },
    Tunable {
        key: "nr-requests",
        findings: &[("device.saturated", TagWait), ("io.depth", TagWait), ("device.slow", TagWait)],
        setting: Setting::Queue("nr_requests"),
        candidates: Larger(&[256, 1024]),
        because: "bios wait for a free request (tag) of the queue",
        costs: "a read can queue behind more writes",
    },
    Tunable {
        key: "dirty-bytes",
        findings: &[("writeback.throttle", Always)],
        setting: Setting::DirtyLimit,
        candidates: Larger(&[256 * MIB, 1024 * MIB]),
        because: "writers sleep in balance_dirty_pages while more than this is dirty",
        costs: "a crash loses more data that nobody synced, and a sync takes longer",
    },
    Tunable {
        key: "dirty-background-bytes",
        findings: &[("writeback.throttle", Always)],
        setting: Setting::System("/proc/sys/vm/dirty_background_bytes"),
        candidates: Larger(&[64 * MIB]),
        because: "the flusher threads write from this limit on, so that writers reach the next one later",
        costs: "less data are overwritten in memory before they are written",
    },
    Tunable {
        key: "swappiness",
        findings: &[("memory.swap", Always)],
        setting: Setting::System("/proc/sys/vm/swappiness"),
        candidates: Smaller(&[10, 1]),
        because: "reclaim takes page cache before it swaps out",
        costs: "files are read again from the disk",
    },
    Tunable {
        key: "thp",
        findings: &[("memory.faults", Always)],
        setting: Setting::System("/sys/kernel/mm/transparent_hugepage/enabled"),
        candidates: Words(&["always"]),
        because: "one page fault maps 2 MiB instead of 4 KiB",
        costs: "memory, and latency of compaction",
    },
    Tunable {
        key: "affinity",
        findings: &[("cpu.wait", Always), ("cpu.crowded", Always)],
        setting: Setting::Cpus,
        candidates: AllCpus,
        because: "the command may run on CPUs that its affinity excludes",
        costs: "others on these CPUs run less",
    },
    Tunable {
        key: "nice",
        findings: &[("cpu.wait", Always)],
        setting: Setting::Nice,
        candidates: Smaller(&[-5, -15]),
        because: "a lower nice value has a larger share of a contended CPU",
        costs: "the other processes of the CPU run less",
    },
    Tunable {
        key: "governor",
        findings: &[("cpu.user", Always), ("cpu.kernel", Always)],
        setting: Setting::EachCpu("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_governor"),
        candidates: Words(&["performance"]),
        because: "the CPU runs at its highest frequency",
        costs: "power",
    },
];

pub fn by_key(key: &str) -> Option<&'static Tunable> {
    TUNABLES.iter().find(|t| t.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_one_that_the_diagnosis_has() {
        for tunable in TUNABLES {
            for (id, _) in tunable.findings {
                assert!(plumb_diagnose::RULES.iter().any(|r| r.id == *id), "{}: {id}", tunable.key);
            }
        }
    }

    #[test]
    fn a_key_names_one_tunable() {
        for tunable in TUNABLES {
            assert_eq!(TUNABLES.iter().filter(|t| t.key == tunable.key).count(), 1, "{}", tunable.key);
            assert!(!tunable.key.contains(['=', ':', '@']), "{}", tunable.key);
        }
    }
}
