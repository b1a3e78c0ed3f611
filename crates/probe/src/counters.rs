// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters that the kernel keeps anyway, for what no event tells: time stolen
//! by the hypervisor, faults that read, swapping, quotas, retransmissions.

use plumb_machine::{cgroup, Root};
use plumb_trace::schema::StateCounter;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Lines of /proc/vmstat that are told.
const VMSTAT: &[&str] = &[
    "pgfault",
    "pgmajfault",
    "pswpin",
    "pswpout",
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_movable",
    "pgscan_direct",
    "pgscan_kswapd",
    "workingset_refault_anon",
    "workingset_refault_file",
    "compact_stall",
    "nr_dirty",
    "nr_writeback",
];

/// Columns of /proc/net/snmp and /proc/net/netstat that are told.
const TCP: &[&str] = &["RetransSegs", "OutSegs", "ListenOverflows"];

/// Columns of /proc/stat, proc_stat(5), that are told for each CPU.
const STAT: &[(usize, &str)] = &[(6, "irq"), (7, "softirq"), (8, "steal")];

/// A cgroup's CPU quota in one period, ns.
const QUOTA: &str = "cgroup.quota";

#[derive(Debug, Default)]
pub struct Counters {
    pid: Option<u32>,
    cgroups: Vec<(&'static str, PathBuf)>,
    /// What a cgroup's counter stood at when the process came into it, and what those before it added.
    bases: BTreeMap<String, (u64, u64)>,
    tick: u64,
}

impl Counters {
    /// Those of the machine, and of the cgroups that `pid` is in.
    pub fn new(pid: Option<u32>) -> Self {
        // SAFETY: a call without pointers.
        let hz = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1);
        Self { pid, tick: 1_000_000_000 / hz, ..Self::default() }
    }

    /// Looks whether the process went into another cgroup, as a command that
    /// was started for a container does; its counters go on from there.
    pub fn follow(&mut self) {
        let now = self.pid.map(cgroups).unwrap_or_default();
        if now.is_empty() || now == self.cgroups {
            return;
        }
        for (name, value) in self.of_cgroups() {
            let (base, before) = self.bases.get(&name).copied().unwrap_or((value, 0));
            self.bases.insert(name, (0, before + value.saturating_sub(base)));
        }
        self.cgroups = now;
        for (name, value) in self.of_cgroups() {
            let (_, before) = self.bases.get(&name).copied().unwrap_or_default();
            self.bases.insert(name, (value, before));
        }
    }

    pub fn read(&mut self, at: u64) -> Vec<StateCounter> {
        self.follow();
        let mut out = Vec::new();
        let mut tell = |name: String, value: u64| out.push(StateCounter { at, value, name });
        for line in file("/proc/stat").lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for (column, name) in STAT {
                if let Some(Ok(ticks)) = words.get(*column).map(|w| w.parse::<u64>()) {
                    tell(format!("{}.{name}", words[0]), ticks * self.tick);
                }
            }
        }
        for (name, value) in pairs(&file("/proc/vmstat")) {
            if VMSTAT.contains(&name.as_str()) {
                tell(format!("vmstat.{name}"), value);
            }
        }
        for (path, protocol) in [("/proc/net/snmp", "Tcp:"), ("/proc/net/netstat", "TcpExt:")] {
            // Two lines of each protocol: names, values.
            let text = file(path);
            let lines = text.lines().map(|l| l.split(' ').collect::<Vec<_>>());
            let lines: Vec<_> = lines.filter(|words| words[0] == protocol).collect();
            let [names, values] = &lines[..] else { continue };
            for (name, value) in names.iter().zip(values).filter(|(name, _)| TCP.contains(name)) {
                if let Ok(value) = value.parse() {
                    tell(format!("tcp.{name}"), value);
                }
            }
        }
        for (name, value) in self.of_cgroups() {
            let (base, before) = self.bases.get(&name).copied().unwrap_or_default();
            // A quota is a setting: it is told as it is.
            let value = if name == QUOTA { value } else { before + value.saturating_sub(base) };
            tell(name, value);
        }
        out
    }

    /// Counters of the cgroups that the process is in, as they stand.
    fn of_cgroups(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        let mut tell = |name: &str, value: u64| out.push((name.to_string(), value));
        for (kind, dir) in &self.cgroups {
            let path = |name: &str| dir.join(name).display().to_string();
            match *kind {
                "cpu" => {
                    for (name, value) in pairs(&file(&path("cpu.stat"))) {
                        match name.as_str() {
                            "nr_throttled" => tell("cgroup.nr_throttled", value),
                            "throttled_time" => tell("cgroup.throttled", value),
                            "throttled_usec" => tell("cgroup.throttled", value * 1000),
                            _ => {}
                        }
                    }
                    let quota = file(&path("cpu.cfs_quota_us"));
                    let max = file(&path("cpu.max"));
                    let quota = quota.trim().parse().ok().or_else(|| max.split(' ').next()?.parse().ok());
                    if let Some(us) = quota.filter(|us: &i64| *us > 0) {
                        tell(QUOTA, us as u64 * 1000);
                    }
                }
                "memory" => {
                    if let Ok(n) = file(&path("memory.failcnt")).trim().parse() {
                        tell("cgroup.memory_failcnt", n);
                    }
                    for (name, value) in pairs(&file(&path("memory.events"))) {
                        if name == "max" {
                            tell("cgroup.memory_failcnt", value);
                        }
                    }
                }
                _ => {}
            }
        }
        out
    }
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn pairs(text: &str) -> Vec<(String, u64)> {
    let pair = |l: &str| l.split_once(' ').and_then(|(n, v)| Some((n.to_string(), v.trim().parse().ok()?)));
    text.lines().filter_map(pair).collect()
}

/// Directories of the cgroups of a process, by controller.
fn cgroups(pid: u32) -> Vec<(&'static str, PathBuf)> {
    let of = |controller| Some((controller, cgroup::directory(pid, controller, &Root::real())?));
    ["cpu", "memory"].into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_the_counters() {
        let all = Counters::new(Some(std::process::id())).read(7);
        let value = |name: &str| all.iter().find(|c| c.name == name).map(|c| c.value);
        assert!(value("vmstat.pgfault") > Some(0));
        assert!(value("cpu0.steal").is_some() && value("tcp.RetransSegs").is_some(), "{all:?}");
        assert!(value("tcp.ListenOverflows").is_some() && value("tcp.OutSegs").is_some(), "{all:?}");
        assert!(all.iter().all(|c| c.at == 7));
    }
}
