// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One reading of the kernel's counters. What a kernel does not have is None.

use plumb_machine::mount::beneath;
use plumb_machine::{cgroup, clock, host, system, DeviceNumber, Root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the scheduler says of one thread (/proc/PID/task/TID/schedstat).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    pub pid: u32,
    pub tid: u32,
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Time runnable while another ran, ns.
    pub run_queue_ns: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// One device's counters (Documentation/block/stat.rst).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    pub number: DeviceNumber,
    /// Whether another device of this list stands on it, so that both count the same requests.
    pub below: bool,
    pub reads: u64,
    /// Reads that were joined to another.
    pub reads_merged: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time that reads took, summed over them, ns.
    pub read_ns: u64,
    pub writes: u64,
    /// Writes that were joined to another.
    pub writes_merged: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time that writes took, summed over them, ns.
    pub write_ns: u64,
    /// Requests that the device has now.
    pub in_flight: u64,
    /// Time in which it had any, ns.
    pub busy_ns: u64,
    /// Time of all requests, summed over them, ns.
    pub queue_ns: u64,
    /// Discards completed (kernel 4.18 on).
    pub discards: Option<u64>,
    /// Discards that were joined to another.
    pub discards_merged: Option<u64>,
    /// Bytes discarded.
    pub discarded_bytes: Option<u64>,
    /// Time that discards took, summed over them, ns.
    pub discard_ns: Option<u64>,
    /// Flushes completed (kernel 5.5 on; a partition's are counted at its disk).
    pub flushes: Option<u64>,
    /// Time that flushes took, summed over them, ns.
    pub flush_ns: Option<u64>,
}

impl DeviceCounters {
    fn parse(number: DeviceNumber, below: bool, text: &str) -> Option<DeviceCounters> {
        let n: Vec<u64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
        if n.len() < 11 {
            return None;
        }
        // Sectors of this file are of 512 bytes, times are in milliseconds.
        let (sectors, ms) =
            (|i: usize| n.get(i).map(|v| v * 512), |i: usize| n.get(i).map(|v| v * 1_000_000));
        Some(DeviceCounters {
            number,
            below,
            reads: n[0],
            reads_merged: n[1],
            read_bytes: sectors(2)?,
            read_ns: ms(3)?,
            writes: n[4],
            writes_merged: n[5],
            written_bytes: sectors(6)?,
            write_ns: ms(7)?,
            in_flight: n[8],
            busy_ns: ms(9)?,
            queue_ns: ms(10)?,
            discards: n.get(11).copied(),
            discards_merged: n.get(12).copied(),
            discarded_bytes: sectors(13),
            discard_ns: ms(14),
            flushes: n.get(15).copied(),
            flush_ns: ms(16),
        })
    }
}

/// What this process's control groups count, summed from its own up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupCounters {
    /// Periods in which the CPU quota ran out.
    pub throttled_periods: Option<u64>,
    /// Time that was lost to it, summed over CPUs, ns.
    pub throttled_ns: Option<u64>,
    /// Bytes its own group read from the devices watched.
    pub read_bytes: Option<u64>,
    /// Bytes its own group wrote to them.
    pub written_bytes: Option<u64>,
}

/// Time in which some task of the machine was stalled, ns (/proc/pressure, `some`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    pub cpu_ns: Option<u64>,
    pub memory_ns: Option<u64>,
    /// Waiting for I/O.
    pub io_ns: Option<u64>,
}

/// All CPUs together (/proc/stat), ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Time that CPUs worked, in whatever mode.
    pub busy_ns: u64,
    /// Time that the hypervisor gave to others while a CPU had work.
    pub steal_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    pub threads: Vec<ThreadTimes>,
    pub devices: Vec<DeviceCounters>,
    pub cgroup: CgroupCounters,
    pub stalled: Stalled,
    /// All CPUs; None where /proc/stat cannot be read.
    pub machine: Option<Machine>,
    /// Counters of /proc/vmstat that tell of reclaim, paging and DAMON.
    pub memory: BTreeMap<String, u64>,
    /// Counters of this network namespace that tell of connections ([`NETWORK`]).
    #[serde(default)]
    pub network: BTreeMap<String, u64>,
    /// Connections in TIME_WAIT.
    pub time_wait: Option<u64>,
    /// Ports that connections take by themselves.
    pub local_ports: Option<u64>,
}

/// What is kept of /proc/net/snmp and /proc/net/netstat (Documentation/networking/snmp_counter.rst).
const NETWORK: [&str; 3] = ["ActiveOpens", "ListenOverflows", "TCPSynRetrans"];

/// How the names begin of what is kept of /proc/vmstat.
const VMSTAT: [&str; 7] =
    ["pgpg", "pswp", "pgmajfault", "pgsteal", "workingset_refault", "allocstall", "damon"];

impl Snapshot {
    pub(super) fn take(pids: &[u32], devices: &[DeviceNumber], root: &Root) -> Snapshot {
        let beneath: Vec<DeviceNumber> =
            devices.iter().flat_map(|d| beneath(*d, root)).map(|block| block.number).collect();
        let device = |number: &DeviceNumber| {
            let text = root.text(format!("/sys/dev/block/{number}/stat"))?;
            DeviceCounters::parse(*number, beneath.contains(number), &text)
        };
        let memory = root.table("/proc/vmstat").unwrap_or_default();
        let kept = |name: &str| VMSTAT.iter().any(|begin| name.starts_with(begin));
        Snapshot {
            at_ns: clock::now(),
            threads: threads(pids, root),
            devices: devices.iter().filter_map(device).collect(),
            cgroup: cgroup(devices, root),
            stalled: stalled(root),
            machine: machine(root),
            memory: memory.into_iter().filter(|(name, _)| kept(name)).collect(),
            network: network(root),
            time_wait: time_wait(root),
            local_ports: local_ports(root),
        }
    }
}

/// The threads of these processes that live now.
pub(super) fn threads(pids: &[u32], root: &Root) -> Vec<ThreadTimes> {
    let mut found = Vec::new();
    for &pid in pids {
        for name in root.names(format!("/proc/{pid}/task")) {
            let text = root.text(format!("/proc/{pid}/task/{name}/schedstat"));
            let times = text.and_then(|t| schedstat(&t)).zip(name.parse().ok());
            found.extend(times.map(|([on_cpu_ns, run_queue_ns, slices], tid)| ThreadTimes {
                pid,
                tid,
                on_cpu_ns,
                run_queue_ns,
                slices,
            }));
        }
    }
    found
}

/// On a CPU (ns), in the run queue (ns), slices.
pub(super) fn schedstat(text: &str) -> Option<[u64; 3]> {
    let words: Vec<u64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
    words.try_into().ok()
}

fn cgroup(devices: &[DeviceNumber], root: &Root) -> CgroupCounters {
    let tables: Vec<_> =
        cgroup::directories("cpu", root).iter().filter_map(|dir| root.table(dir.join("cpu.stat"))).collect();
    let sum = |key: &str, scale: u64| {
        let values: Vec<u64> = tables.iter().filter_map(|t| t.get(key)).map(|v| v * scale).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    };
    let own =
        |controller: &str, file: &str| root.text(cgroup::directories(controller, root).first()?.join(file));
    let (v2, v1) = (own("io", "io.stat"), own("blkio", "blkio.throttle.io_service_bytes"));
    let ours = |line: &&str| {
        let number = line.split(' ').next().and_then(DeviceNumber::parse);
        number.is_some_and(|n| devices.contains(&n))
    };
    let bytes = |key: &str, word: &str| {
        if let Some(text) = &v2 {
            let values = text
                .lines()
                .filter(ours)
                .filter_map(|line| line.split(' ').find_map(|w| w.strip_prefix(key))?.parse::<u64>().ok());
            return Some(values.sum());
        }
        let values = v1.as_ref()?.lines().filter(ours).filter_map(|line| {
            let (head, value) = line.rsplit_once(' ')?;
            head.ends_with(word).then(|| value.parse::<u64>().ok())?
        });
        Some(values.sum())
    };
    CgroupCounters {
        throttled_periods: sum("nr_throttled", 1),
        throttled_ns: sum("throttled_usec", 1000).or_else(|| sum("throttled_time", 1)),
        read_bytes: bytes("rbytes=", "Read"),
        written_bytes: bytes("wbytes=", "Write"),
    }
}

/// Lines come in pairs: `TcpExt: NAME NAME ...`, `TcpExt: 1 2 ...`.
fn network(root: &Root) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for file in ["/proc/net/snmp", "/proc/net/netstat"] {
        let text = root.text(file).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let named = pair[0].split_whitespace().zip(pair[1].split_whitespace());
            let known = named.filter(|(name, _)| NETWORK.contains(name));
            found.extend(known.filter_map(|(name, n)| Some((name.to_string(), n.parse().ok()?))));
        }
    }
    found
}

/// `TCP: inuse 5 orphan 0 tw 3 alloc 9 mem 0`.
fn time_wait(root: &Root) -> Option<u64> {
    let text = root.text("/proc/net/sockstat")?;
    let mut words = text.lines().find(|line| line.starts_with("TCP:"))?.split_whitespace();
    words.find(|w| *w == "tw")?;
    words.next()?.parse().ok()
}

fn local_ports(root: &Root) -> Option<u64> {
    let text = root.text("/proc/sys/net/ipv4/ip_local_port_range")?;
    let (low, high) = text.split_once(char::is_whitespace)?;
    let (low, high): (u64, u64) = (low.parse().ok()?, high.trim().parse().ok()?);
    Some((high + 1).saturating_sub(low))
}

fn stalled(root: &Root) -> Stalled {
    let of = |name: &str| system::stalled(name, root);
    Stalled { cpu_ns: of("cpu"), memory_ns: of("memory"), io_ns: of("io") }
}

fn machine(root: &Root) -> Option<Machine> {
    host::CpuTime::now(root).map(|time| Machine { busy_ns: time.busy, steal_ns: time.stolen })
}
