// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel, processors, memory: the machine's part of an environment.

use crate::Root;
use plumb_trace::units::bytes;
use serde::{Deserialize, Serialize};

/// The kernel's names for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `6.1.0-18-amd64`.
    pub release: Option<String>,
    pub version: Option<String>,
    /// The instruction set that plumb was built for.
    pub machine: String,
}

impl Kernel {
    pub(crate) fn read(root: &Root) -> Kernel {
        Kernel {
            release: root.text("/proc/sys/kernel/osrelease"),
            version: root.text("/proc/sys/kernel/version"),
            machine: std::env::consts::ARCH.into(),
        }
    }

    pub(crate) fn line(&self) -> Option<String> {
        let version = self.version.as_ref().map_or(String::new(), |v| format!(" ({v})"));
        self.release.as_ref().map(|release| format!("{release} {}{version}", self.machine))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// As the hardware calls it.
    pub model: Option<String>,
    /// Those in use: `0-3`.
    pub online: Option<String>,
    pub count: Option<u64>,
    /// Who sets the clock rate of CPU 0: `performance`, `powersave`.
    pub governor: Option<String>,
    /// Whether two threads share a core: `on`, `off`, `notsupported`.
    pub smt: Option<String>,
}

impl Cpu {
    pub(crate) fn read(root: &Root) -> Cpu {
        let dir = "/sys/devices/system/cpu";
        let online = root.text(format!("{dir}/online"));
        Cpu {
            model: cpuinfo("model name", root),
            count: online.as_deref().and_then(cpus_of_list),
            online,
            governor: root.text(format!("{dir}/cpu0/cpufreq/scaling_governor")),
            smt: root.text(format!("{dir}/smt/control")),
        }
    }

    pub(crate) fn line(&self) -> Option<String> {
        let count = self.count.map(|n| format!("{n} x ")).unwrap_or_default();
        let name = self.model.clone().or_else(|| self.count.map(|_| "unnamed".into()))?;
        let governor = self.governor.as_ref().map(|g| format!(", governor {g}")).unwrap_or_default();
        let smt = self.smt.as_ref().map(|s| format!(", SMT {s}")).unwrap_or_default();
        Some(format!("{count}{name}{governor}{smt}"))
    }
}

fn cpuinfo(key: &str, root: &Root) -> Option<String> {
    let text = root.text("/proc/cpuinfo")?;
    let line = text.lines().filter_map(|l| l.split_once(':')).find(|(name, _)| name.trim() == key)?;
    Some(line.1.trim().to_string())
}

/// How many CPUs a list such as `0-3,8` names.
pub fn cpus_of_list(list: &str) -> Option<u64> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
        })
        .try_fold(0, |sum: u64, n| sum.checked_add(n?))
}

/// The kernel's source of time: `tsc`, `kvm-clock`.
pub fn clocksource(root: &Root) -> Option<String> {
    root.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The processor flag `hypervisor`; only x86 has one to ask.
pub(crate) fn virtual_machine(root: &Root) -> Option<bool> {
    cpuinfo("flags", root).map(|flags| flags.split(' ').any(|f| f == "hypervisor"))
}

pub(crate) fn load(root: &Root) -> Option<[f64; 3]> {
    let text = root.text("/proc/loadavg")?;
    let words: Vec<f64> = text.split(' ').take(3).map_while(|w| w.parse().ok()).collect();
    words.try_into().ok()
}

/// Memory, swap, and who takes pages away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All of it, bytes.
    pub total: Option<u64>,
    /// What can be had without swapping, bytes.
    pub available: Option<u64>,
    /// Swap, bytes.
    pub swap_total: Option<u64>,
    /// Swap that is free, bytes.
    pub swap_free: Option<u64>,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub huge_pages: Option<String>,
    /// DAMON schemes that are on and page out memory that is in no use, also the
    /// page cache that a test expects to find: `kdamond 0: pageout`.
    pub damon_pageout: Option<Vec<String>>,
}

/// Bytes of memory that can be had without swapping.
pub fn available_memory(root: &Root) -> Option<u64> {
    root.table("/proc/meminfo")?.get("MemAvailable").map(|kib| kib << 10)
}

impl Memory {
    pub(crate) fn read(root: &Root) -> Memory {
        let table = root.table("/proc/meminfo").unwrap_or_default();
        let of = |key: &str| table.get(key).map(|kib| kib * 1024);
        Memory {
            total: of("MemTotal"),
            available: of("MemAvailable"),
            swap_total: of("SwapTotal"),
            swap_free: of("SwapFree"),
            huge_pages: root
                .text("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|t| t.split(['[', ']']).nth(1).map(str::to_string)),
            damon_pageout: damon(root),
        }
    }

    pub(crate) fn line(&self) -> Option<String> {
        let mut words = vec![format!("{} in all", bytes(self.total?))];
        words.extend(self.available.map(|n| format!("{} available", bytes(n))));
        words.extend(self.swap_total.map(|n| {
            if n == 0 {
                "no swap".into()
            } else {
                format!("swap {}", bytes(n))
            }
        }));
        words.extend(self.huge_pages.as_ref().map(|h| format!("huge pages {h}")));
        let schemes = self.damon_pageout.iter().flatten();
        words.extend(schemes.map(|s| format!("DAMON pages out ({s})")));
        Some(words.join(", "))
    }
}

/// The page-out schemes of each kdamond that runs
/// (Documentation/admin-guide/mm/damon/usage.rst), and DAMON_RECLAIM.
fn damon(root: &Root) -> Option<Vec<String>> {
    let reclaim = root.text("/sys/module/damon_reclaim/parameters/enabled");
    let dir = "/sys/kernel/mm/damon/admin/kdamonds";
    if reclaim.is_none() && root.text(format!("{dir}/nr_kdamonds")).is_none() {
        return None;
    }
    let mut found = Vec::new();
    if reclaim.is_some_and(|on| on == "Y") {
        found.push("DAMON_RECLAIM".to_string());
    }
    let numbered = |dir: &str| root.names(dir).into_iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    for daemon in numbered(dir) {
        if root.text(format!("{dir}/{daemon}/state")).as_deref() != Some("on") {
            continue;
        }
        let contexts = format!("{dir}/{daemon}/contexts");
        for context in numbered(&contexts) {
            let schemes = format!("{contexts}/{context}/schemes");
            for scheme in numbered(&schemes) {
                if root.text(format!("{schemes}/{scheme}/action")).as_deref() == Some("pageout") {
                    found.push(format!("kdamond {daemon}"));
                }
            }
        }
    }
    found.dedup();
    Some(found)
}

/// vm.dirty_*: of each pair of bytes and percent the one that is not zero holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyLimits {
    /// Writers are throttled from here on, percent of available memory.
    pub ratio: Option<u64>,
    /// The same, bytes.
    pub bytes: Option<u64>,
    /// Write-back begins here, percent of available memory.
    pub background_ratio: Option<u64>,
    /// The same, bytes.
    pub background_bytes: Option<u64>,
    /// A page is written back at this age, hundredths of a second.
    pub expire_centisecs: Option<u64>,
    /// How often the flusher looks, hundredths of a second.
    pub writeback_centisecs: Option<u64>,
}

impl DirtyLimits {
    pub(crate) fn read(root: &Root) -> DirtyLimits {
        let of = |name: &str| root.number(format!("/proc/sys/vm/dirty_{name}"));
        DirtyLimits {
            ratio: of("ratio"),
            bytes: of("bytes"),
            background_ratio: of("background_ratio"),
            background_bytes: of("background_bytes"),
            expire_centisecs: of("expire_centisecs"),
            writeback_centisecs: of("writeback_centisecs"),
        }
    }

    pub(crate) fn line(&self) -> Option<String> {
        let limit = |length: Option<u64>, ratio: Option<u64>| match length.filter(|n| *n > 0) {
            Some(n) => Some(bytes(n)),
            None => ratio.map(|r| format!("{r} %")),
        };
        let background = limit(self.background_bytes, self.background_ratio)?;
        let throttled = limit(self.bytes, self.ratio)?;
        let age = self.expire_centisecs.map(|n| format!(", at the age of {:.1} s", n as f64 / 100.0));
        Some(format!("written from {background}{}, throttled from {throttled}", age.unwrap_or_default()))
    }
}

/// A word of what the kernel says of stalls of some task of the machine (Documentation/accounting/psi.rst).
fn some_stalled(resource: &str, word: &str, root: &Root) -> Option<String> {
    let text = root.text(format!("/proc/pressure/{resource}"))?;
    let some = text.lines().find(|l| l.starts_with("some"))?;
    some.split(' ').find_map(|w| w.strip_prefix(word)).map(String::from)
}

/// Time in which some task of the machine was stalled for `cpu`, `memory` or `io`, since it started, ns.
pub fn stalled(resource: &str, root: &Root) -> Option<u64> {
    some_stalled(resource, "total=", root)?.parse::<u64>().ok().map(|us| us * 1000)
}

/// Share of the last ten seconds in which some task was stalled, percent (/proc/pressure).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    pub cpu: Option<f64>,
    pub memory: Option<f64>,
    /// Waiting for I/O.
    pub io: Option<f64>,
}

impl Pressure {
    pub(crate) fn read(root: &Root) -> Pressure {
        let of = |name: &str| some_stalled(name, "avg10=", root)?.parse().ok();
        Pressure { cpu: of("cpu"), memory: of("memory"), io: of("io") }
    }

    pub(crate) fn line(&self) -> Option<String> {
        Some(format!("CPU {:.1} %, memory {:.1} %, I/O {:.1} % of 10 s", self.cpu?, self.memory?, self.io?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(
            (cpus_of_list("0-3,8"), cpus_of_list("0"), cpus_of_list("3-1"), cpus_of_list("x")),
            (Some(5), Some(1), None, None)
        );
    }
}
