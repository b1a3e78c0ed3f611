// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one table of checks. Reports and documentation come from it.

use super::facts::Facts;
use super::{machine, method, network, storage, Finding};

#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name in results and on the command line.
    pub name: &'static str,
    /// What it looks at and when it speaks.
    pub looks_at: &'static str,
    /// What to do when it speaks.
    pub next_step: &'static str,
    /// Looks; None where a fact is missing.
    pub judge: fn(&Facts) -> Option<Finding>,
}

/// The names of [`CHECKS`] with their columns, for the documentation.
pub fn markdown() -> String {
    let mut text = String::from("| check | looks at | next step |\n|---|---|---|\n");
    for check in CHECKS {
        text.push_str(&format!("| `{}` | {} | {} |\n", check.name, check.looks_at, check.next_step));
    }
    text
}

/// Every check: first what was read and written, then the machine, then the method, then the network.
pub const CHECKS: &[Check] = &[
    Check {
        name: "read-from-cache",
        looks_at: "bytes that the load read against bytes that the device read, when the device is measured",
        next_step: "read with O_DIRECT, drop the caches before, or say that the cache is what is measured",
        judge: storage::read_from_cache,
    },
    Check {
        name: "cache-missed",
        looks_at: "bytes that the device read, when the page cache is measured",
        next_step: "warm the cache first, use a smaller file, or measure the device",
        judge: storage::cache_missed,
    },
    Check {
        name: "write-not-on-device",
        looks_at:
            "bytes that the load wrote against bytes that the device wrote, when the device is measured",
        next_step: "end with fsync within the measured time, write with O_DIRECT, or measure the cache",
        judge: storage::write_not_on_device,
    },
    Check {
        name: "sync-without-flush",
        looks_at: "flushes at the device against syncs that the load made, when durability is promised",
        next_step: "look for nobarrier, a virtual disk that ignores flushes, or a write_cache set by hand",
        judge: storage::sync_without_flush,
    },
    Check {
        name: "promise-without-sync",
        looks_at: "syncs that the load made, when durability is promised",
        next_step: "let the job sync, or do not promise that its writes are durable",
        judge: storage::promise_without_sync,
    },
    Check {
        name: "volatile-cache",
        looks_at: "writes to a device whose write cache is volatile, without any flush",
        next_step: "sync if the writes should be durable; otherwise publish this note with the figure",
        judge: storage::volatile_cache,
    },
    Check {
        name: "file-fits-memory",
        looks_at: "the files' length against available memory, when buffered I/O should measure the device",
        next_step: "use files of at least twice the memory, or O_DIRECT",
        judge: storage::file_fits_memory,
    },
    Check {
        name: "compressible-data",
        looks_at: "how far the data can be compressed, when the storage may do that",
        next_step: "write data that does not compress",
        judge: storage::compressible_data,
    },
    Check {
        name: "other-writers",
        looks_at: "bytes that the device wrote beyond the load's and its file system's",
        next_step: "find who writes (plumb record), stop it, and repeat",
        judge: storage::other_writers,
    },
    Check {
        name: "other-readers",
        looks_at: "bytes that the device read beyond the load's",
        next_step: "find who reads (plumb record); or is it read-ahead (queue/read_ahead_kb)?",
        judge: storage::other_readers,
    },
    Check {
        name: "recent-deletes",
        looks_at: "files deleted shortly before files are made: ext4 steps around their inodes for minutes",
        next_step: "wait five minutes between such runs, or use a fresh file system",
        judge: storage::recent_deletes,
    },
    Check {
        name: "cpu-contention",
        looks_at: "the share of latency that is the load's own wait for a CPU",
        next_step: "stop other programs or use fewer workers than CPUs; the device is not what is measured",
        judge: machine::cpu_contention,
    },
    Check {
        name: "throttled",
        looks_at: "time in which the control group's CPU quota was used up",
        next_step: "raise the CPU limit, or use fewer workers",
        judge: machine::throttled,
    },
    Check {
        name: "swapped",
        looks_at: "pages swapped in or out during the run",
        next_step: "free memory, or give the load less of it",
        judge: machine::swapped,
    },
    Check {
        name: "damon-pageout",
        looks_at: "DAMON schemes that take pages from the cache while it is measured",
        next_step: "switch the scheme off for the time of the run (/sys/kernel/mm/damon)",
        judge: machine::damon_pageout,
    },
    Check {
        name: "steal",
        looks_at: "the share of busy CPU time that the hypervisor gave to others",
        next_step: "use a host that is not shared, or repeat at a quiet time",
        judge: machine::steal,
    },
    Check {
        name: "clock-source",
        looks_at: "the kernel's source of time",
        next_step: "find out why the kernel gave up the TSC (kernel log)",
        judge: machine::clock_source,
    },
    Check {
        name: "clock-drift",
        looks_at: "the clock in use against CLOCK_MONOTONIC",
        next_step: "use CLOCK_MONOTONIC instead of the cycle counter",
        judge: machine::clock_drift,
    },
    Check {
        name: "clock-cost",
        looks_at: "what two readings of the clock cost against the median latency",
        next_step: "measure batches of operations, or use the cycle counter",
        judge: machine::clock_cost,
    },
    Check {
        name: "environment-changed",
        looks_at: "what of the environment differs after the run",
        next_step: "find out who changed it, and repeat",
        judge: machine::environment_changed,
    },
    Check {
        name: "generator-lag",
        looks_at: "in an open loop: operations that the generator itself began late",
        next_step: "use more workers or a lower rate",
        judge: method::generator_lag,
    },
    Check {
        name: "never-begun",
        looks_at: "in an open loop: operations that were due and never begun, which no latency tells of",
        next_step: "lower the rate to what the system can do, or allow more in flight",
        judge: method::never_begun,
    },
    Check {
        name: "rate-drift",
        looks_at: "the rate in the first third of the time against the last third",
        next_step: "run longer, warm up first, or ask for the steady state",
        judge: method::rate_drift,
    },
    Check {
        name: "steady-state",
        looks_at: "whether the steady state was reached that was asked for",
        next_step: "allow more time, or precondition the device",
        judge: method::steady_state,
    },
    Check {
        name: "duration",
        looks_at: "how long was measured",
        next_step: "run longer",
        judge: method::duration_of_run,
    },
    Check {
        name: "operations",
        looks_at: "how many operations were measured",
        next_step: "run longer, or make the operations smaller",
        judge: method::operations,
    },
    Check {
        name: "quantile-samples",
        looks_at: "operations beyond the highest quantile that is reported",
        next_step: "run longer, or report a lower quantile",
        judge: method::quantile_samples,
    },
    Check {
        name: "errors",
        looks_at: "operations that failed",
        next_step: "see the errors by kind in the result; a failed operation is not a fast one",
        judge: method::errors,
    },
    Check {
        name: "short-transfers",
        looks_at: "reads and writes that moved less than asked",
        next_step: "check the files' length and the free space",
        judge: method::short_transfers,
    },
    Check {
        name: "verification",
        looks_at: "blocks whose content was not what was written",
        next_step: "stop using the storage until it is explained; see the blocks in the result",
        judge: method::verification,
    },
    Check {
        name: "parallelism",
        looks_at: "CPU seconds per second against the threads that should work at once",
        next_step: "free the CPUs, or ask for no more threads than CPUs",
        judge: method::parallelism,
    },
    Check {
        name: "log-waits",
        looks_at: "time that workers waited because the log of operations was full",
        next_step: "log to another disk, or log fewer operations",
        judge: method::log_waits,
    },
    Check {
        name: "client-busy",
        looks_at: "CPU seconds per second that the workers had which ask a server",
        next_step: "ask from more workers (--threads, --processes) or from another machine",
        judge: network::client_busy,
    },
    Check {
        name: "client-ports",
        looks_at: "local ports in use or in TIME_WAIT, against net.ipv4.ip_local_port_range",
        next_step: "let connections stay (--per-connection 0), or widen the range with sysctl",
        judge: network::client_ports,
    },
    Check {
        name: "backlog",
        looks_at: "SYN retransmissions and overflows of accept queues in this network namespace",
        next_step: "raise net.core.somaxconn and net.ipv4.tcp_max_syn_backlog and the server's backlog, or connect less often",
        judge: network::backlog,
    },
];
