// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two readings of the counters, and what happened between them.

use super::counters::{DeviceCounters, Snapshot};
use super::thread_counters::OwnTimes;
use plumb_machine::DeviceNumber;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one device did during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDelta {
    pub number: DeviceNumber,
    /// Whether another device of the list stands on it.
    pub below: bool,
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of reads, summed over them, ns.
    pub read_ns: u64,
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of writes, summed over them, ns.
    pub write_ns: u64,
    /// Time with any request, ns.
    pub busy_ns: u64,
    /// Bytes discarded.
    pub discarded_bytes: Option<u64>,
    pub flushes: Option<u64>,
    /// Time of flushes, summed over them, ns.
    pub flush_ns: Option<u64>,
}

/// What happened during a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// How long it was, ns.
    pub elapsed_ns: u64,
    pub threads: u64,
    /// Time of all threads on a CPU, ns; None where the scheduler does not tell.
    pub on_cpu_ns: Option<u64>,
    /// Run-queue wait of all threads, ns.
    pub run_queue_ns: Option<u64>,
    /// How often threads were put on a CPU.
    pub slices: Option<u64>,
    /// What the threads told of themselves; None before [`Evidence::add_own_times`].
    pub own: Option<OwnTimes>,
    pub devices: Vec<DeviceDelta>,
    /// Periods in which the control group's CPU quota ran out.
    pub throttled_periods: Option<u64>,
    /// Time lost to that, ns.
    pub throttled_ns: Option<u64>,
    /// Bytes that this control group read from the devices, at every level of their stack.
    pub group_read_bytes: Option<u64>,
    /// Bytes that it wrote to them.
    pub group_written_bytes: Option<u64>,
    /// Time in which some task waited for a CPU, ns.
    pub stalled_cpu_ns: Option<u64>,
    pub stalled_memory_ns: Option<u64>,
    /// For I/O.
    pub stalled_io_ns: Option<u64>,
    /// Time that all CPUs worked, ns.
    pub machine_busy_ns: Option<u64>,
    /// Time that the hypervisor gave to others, ns.
    pub steal_ns: Option<u64>,
    /// Counters of /proc/vmstat.
    pub memory: BTreeMap<String, u64>,
    /// Counters of the network namespace.
    #[serde(default)]
    pub network: BTreeMap<String, u64>,
}

/// Two readings and their difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub begin: Snapshot,
    pub end: Snapshot,
    pub delta: Delta,
}

fn less(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.saturating_sub(b))
}

impl DeviceDelta {
    fn between(a: &DeviceCounters, b: &DeviceCounters) -> DeviceDelta {
        DeviceDelta {
            number: b.number,
            below: b.below,
            reads: b.reads.saturating_sub(a.reads),
            read_bytes: b.read_bytes.saturating_sub(a.read_bytes),
            read_ns: b.read_ns.saturating_sub(a.read_ns),
            writes: b.writes.saturating_sub(a.writes),
            written_bytes: b.written_bytes.saturating_sub(a.written_bytes),
            write_ns: b.write_ns.saturating_sub(a.write_ns),
            busy_ns: b.busy_ns.saturating_sub(a.busy_ns),
            discarded_bytes: less(b.discarded_bytes, a.discarded_bytes),
            flushes: less(b.flushes, a.flushes),
            flush_ns: less(b.flush_ns, a.flush_ns),
        }
    }
}

impl Evidence {
    /// From two readings. A thread that the first did not see counts from zero:
    /// it was born in between.
    pub fn between(begin: Snapshot, end: Snapshot) -> Evidence {
        let devices = end.devices.iter().filter_map(|b| {
            let a = begin.devices.iter().find(|a| a.number == b.number)?;
            Some(DeviceDelta::between(a, b))
        });
        let counted = |begin: &BTreeMap<String, u64>, end: &BTreeMap<String, u64>| {
            let both =
                end.iter().filter_map(|(name, b)| Some((name.clone(), b.saturating_sub(*begin.get(name)?))));
            both.collect()
        };
        let memory = counted(&begin.memory, &end.memory);
        let network = counted(&begin.network, &end.network);
        let mut times = [0u64; 3];
        for t in &end.threads {
            let before = begin.threads.iter().find(|b| (b.pid, b.tid) == (t.pid, t.tid));
            let before = before.map_or([0; 3], |b| [b.on_cpu_ns, b.run_queue_ns, b.slices]);
            for (sum, (now, then)) in
                times.iter_mut().zip([t.on_cpu_ns, t.run_queue_ns, t.slices].into_iter().zip(before))
            {
                *sum += now.saturating_sub(then);
            }
        }
        let seen = |n: u64| (!end.threads.is_empty()).then_some(n);
        let machine = begin.machine.as_ref().zip(end.machine.as_ref());
        let delta = Delta {
            elapsed_ns: end.at_ns.saturating_sub(begin.at_ns),
            threads: end.threads.len() as u64,
            on_cpu_ns: seen(times[0]),
            run_queue_ns: seen(times[1]),
            slices: seen(times[2]),
            own: None,
            devices: devices.collect(),
            throttled_periods: less(end.cgroup.throttled_periods, begin.cgroup.throttled_periods),
            throttled_ns: less(end.cgroup.throttled_ns, begin.cgroup.throttled_ns),
            group_read_bytes: less(end.cgroup.read_bytes, begin.cgroup.read_bytes),
            group_written_bytes: less(end.cgroup.written_bytes, begin.cgroup.written_bytes),
            stalled_cpu_ns: less(end.stalled.cpu_ns, begin.stalled.cpu_ns),
            stalled_memory_ns: less(end.stalled.memory_ns, begin.stalled.memory_ns),
            stalled_io_ns: less(end.stalled.io_ns, begin.stalled.io_ns),
            machine_busy_ns: machine.map(|(a, b)| b.busy_ns.saturating_sub(a.busy_ns)),
            steal_ns: machine.map(|(a, b)| b.steal_ns.saturating_sub(a.steal_ns)),
            memory,
            network,
        };
        Evidence { begin, end, delta }
    }

    /// Takes in what each worker thread read of itself over its work (the
    /// difference of two [`super::own_times`]). Where all of them know their
    /// scheduling, that replaces what was seen from beside, which misses the
    /// last moments of a thread and counts others of its process.
    pub fn add_own_times(&mut self, threads: &[OwnTimes]) {
        let own = OwnTimes::sum(threads);
        if own.known & OwnTimes::SCHEDULING != 0 {
            self.delta.threads = threads.len() as u64;
            self.delta.on_cpu_ns = Some(own.on_cpu_ns);
            self.delta.run_queue_ns = Some(own.run_queue_ns);
            self.delta.slices = Some(own.slices);
        }
        self.delta.own = Some(own);
    }
}

impl Delta {
    /// The devices that the file system (or the load) itself speaks to: those
    /// below them count the same requests once more.
    pub fn top_devices(&self) -> impl Iterator<Item = &DeviceDelta> {
        self.devices.iter().filter(|d| !d.below)
    }

    /// Bytes read from the devices; None where no device is known.
    pub fn device_read_bytes(&self) -> Option<u64> {
        (!self.devices.is_empty()).then(|| self.top_devices().map(|d| d.read_bytes).sum())
    }

    /// Bytes written to the devices; None where no device is known.
    pub fn device_written_bytes(&self) -> Option<u64> {
        (!self.devices.is_empty()).then(|| self.top_devices().map(|d| d.written_bytes).sum())
    }

    /// Flushes: the most that any level of the stack counts, since partitions
    /// and most of device mapper leave the counting to what is below.
    pub fn flushes(&self) -> Option<u64> {
        self.devices.iter().filter_map(|d| d.flushes).max()
    }

    /// Time of flushes, summed over them, ns; of the level that counts most.
    pub fn flush_ns(&self) -> Option<u64> {
        self.devices.iter().filter_map(|d| d.flush_ns).max()
    }

    /// Bytes that the devices wrote beyond `ours`: other processes' data, and
    /// the file system's own, which only the size tells apart.
    pub fn others_written_bytes(&self, ours: u64) -> Option<u64> {
        self.device_written_bytes().map(|all| all.saturating_sub(ours))
    }
}
