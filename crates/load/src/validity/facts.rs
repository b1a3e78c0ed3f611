// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that the checks may look at.
//!
//! Two kinds of None. Of what was *measured*: it is not known, and a check that
//! needs it says that it did not look. Of what was *asked* (marked so): it was
//! not asked for, and its check has nothing against the result.

use crate::witness::{Attribution, Evidence, OwnTimes};
use plumb_machine::{Difference, Environment};

/// The facts of one run. Sizes in bytes, times in ns, shares from 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The job means to measure the page cache, or takes things as it finds
    /// them; false where it claims to measure the device.
    pub cache_is_the_target: bool,
    /// Its reads and writes go past the page cache (O_DIRECT).
    pub bypasses_cache: bool,
    /// It promises that what it counts as written is durable.
    pub sync_promises: bool,
    pub creates_files: bool,

    /// Bytes that the load says it read.
    pub read_bytes: Option<u64>,
    /// Bytes that the load says it wrote.
    pub written_bytes: Option<u64>,
    /// fsync, fdatasync and their like that succeeded, and writes that are synchronous themselves.
    pub syncs: Option<u64>,
    pub operations: Option<u64>,
    pub files_created: Option<u64>,
    /// Threads or processes that worked.
    pub workers: Option<u64>,
    pub elapsed_ns: Option<u64>,
    /// Length of all files or of the device range together.
    pub file_bytes: Option<u64>,
    /// Latency that half of the operations stayed below.
    pub median_latency_ns: Option<u64>,

    /// Bytes read from the device.
    pub device_read_bytes: Option<u64>,
    /// Bytes that the kernel read from devices for the workers themselves.
    pub own_read_bytes: Option<u64>,
    /// Bytes written to the device.
    pub device_written_bytes: Option<u64>,
    /// Flushes that the device completed.
    pub device_flushes: Option<u64>,
    /// Whether the device's write cache loses its content with the power (`write back`).
    pub volatile_write_cache: Option<bool>,
    /// Whether a single write can go past that cache; then no flush is needed for it.
    pub forced_unit_access: Option<bool>,
    /// Whether the device or the file system compresses or joins equal blocks.
    pub storage_compresses: Option<bool>,
    /// Share of the data that a compressor would save.
    pub compressible: Option<f64>,
    /// The file system: `ext4`.
    pub file_system: Option<String>,
    /// Files that were deleted there by plumb load within the last five minutes.
    pub recently_deleted: Option<u64>,

    /// Memory available at the begin.
    pub memory_available: Option<u64>,
    /// Share of the operations' latency in which they could have run and others did.
    pub run_queue_share: Option<f64>,
    /// Time that the control group was throttled.
    pub throttled_ns: Option<u64>,
    /// Pages swapped in or out.
    pub swapped_pages: Option<u64>,
    /// DAMON schemes that page memory out.
    pub damon_pageout: Option<Vec<String>>,
    /// Share of the machine's busy time that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The kernel's source of time.
    pub clock_source: Option<String>,
    /// How much the clock in use runs against CLOCK_MONOTONIC, millionths.
    pub clock_drift_ppm: Option<f64>,
    pub clock_cost_ns: Option<u64>,
    /// What differs in the environment after the run.
    pub environment_changes: Option<Vec<Difference>>,

    /// Asked: operations begin at set times, whatever became of those before.
    pub open_loop: bool,
    /// In an open loop: how late 99 % of the operations were begun at most.
    pub generator_lag_p99_ns: Option<u64>,
    /// In an open loop: share of operations that the generator itself began late.
    pub generator_late_share: Option<f64>,
    /// In an open loop: operations that were due and never begun.
    pub never_begun: Option<u64>,
    /// Operations per second in the first third of the time.
    pub rate_first_third: Option<f64>,
    /// The same in the last third.
    pub rate_last_third: Option<f64>,
    /// Asked: whether the steady state was reached that was to be waited for.
    pub steady_state_reached: Option<bool>,
    pub errors: Option<u64>,
    /// Reads and writes that moved less than asked.
    pub short_transfers: Option<u64>,
    /// Threads are more than the CPUs on purpose (tests of locks): they wait for each other's CPU.
    pub crowded: bool,
    /// Asked: how many threads should work at once (locks that do not sleep).
    pub parallelism_asked: Option<f64>,
    /// CPU seconds per second that they had.
    pub parallelism_achieved: Option<f64>,
    /// Asked: the highest quantile that is reported: 0.999.
    pub highest_quantile: Option<f64>,
    /// Asked: blocks whose content was not what was written.
    pub verify_failures: Option<u64>,
    /// Asked: time that workers waited because the log of operations was full.
    pub log_wait_ns: Option<u64>,

    /// Asked: whether operations are requests to a server.
    pub asks_a_server: bool,
    /// Asked: whether some are SQL: what the device reads and writes meanwhile may be the database's.
    pub asks_a_database: bool,
    /// Asked: whether all are SQL, and their number is set: a query takes as long as it takes.
    pub counts_queries: bool,
    /// Asked: whether some go over TCP.
    pub asks_by_tcp: bool,
    /// CPU seconds per second of each worker that asks.
    pub client_cpu_share: Option<f64>,
    /// Local ports of its connections, and of those in TIME_WAIT.
    pub client_ports: Option<u64>,
    /// Local ports there are.
    pub local_ports: Option<u64>,
    /// SYNs and SYN/ACKs of this network namespace that were sent again.
    pub syn_retransmits: Option<u64>,
    /// Connections of this network namespace that found the accept queue full.
    pub listen_overflows: Option<u64>,
}

impl Facts {
    /// Takes in what the witness saw.
    pub fn with_evidence(mut self, evidence: &Evidence, attribution: &Attribution) -> Facts {
        let delta = &evidence.delta;
        self.elapsed_ns = self.elapsed_ns.or(Some(delta.elapsed_ns));
        self.device_read_bytes = delta.device_read_bytes();
        let own = delta.own.as_ref().filter(|own| own.known & OwnTimes::IO != 0);
        self.own_read_bytes = own.map(|own| own.read_bytes);
        self.device_written_bytes = delta.device_written_bytes();
        self.device_flushes = delta.flushes();
        self.throttled_ns = delta.throttled_ns;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        if attribution.scheduling_known {
            self.run_queue_share = share(attribution.run_queue_ns, attribution.latency_ns);
        }
        self.steal_share =
            delta.steal_ns.zip(delta.machine_busy_ns).and_then(|(s, b)| share(s, s.saturating_add(b)));
        let counted = |name: &str| delta.network.get(name).copied();
        self.syn_retransmits = counted("TCPSynRetrans");
        self.listen_overflows = counted("ListenOverflows");
        // Of the connections that a job may have no more are open than were opened; TIME_WAIT is counted at the end.
        let open = self.client_ports.zip(counted("ActiveOpens")).map(|(most, opened)| most.min(opened));
        self.client_ports = open.zip(evidence.end.time_wait).map(|(open, waiting)| open + waiting);
        self.local_ports = evidence.end.local_ports;
        self.swapped_pages =
            delta.memory.get("pswpin").zip(delta.memory.get("pswpout")).map(|(i, o)| i.saturating_add(*o));
        self
    }

    /// Takes in the environment before the run, and what had changed after it.
    pub fn with_environment(mut self, before: &Environment, after: &Environment) -> Facts {
        self.memory_available = before.memory.available;
        // A limit on the group's memory limits its page cache too.
        if let Some(limit) = before.cgroup.as_ref().and_then(|c| c.memory) {
            self.memory_available = self.memory_available.map(|free| free.min(limit));
        }
        self.damon_pageout = before.memory.damon_pageout.clone();
        self.clock_source = before.clocksource.clone();
        self.file_system = before.file_system.as_ref().map(|f| f.kind.clone());
        let known: Vec<bool> =
            before.devices.iter().filter_map(|d| d.write_cache.as_ref()).map(|w| w == "write back").collect();
        self.volatile_write_cache = (!known.is_empty()).then(|| known.contains(&true));
        let forced: Vec<bool> = before.devices.iter().filter_map(|d| d.fua).collect();
        self.forced_unit_access = (!forced.is_empty()).then(|| !forced.contains(&false));
        self.environment_changes = Some(Environment::differences(before, after));
        self
    }
}
