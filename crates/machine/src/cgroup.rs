// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control group of this process, in either version, and what it limits.

use crate::{mounts, Root};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Limits of this process's control groups and of all above them, the tightest
/// of each kind. None within: no limit of that kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// CPUs' worth of time (`cpu.max`; `cpu.cfs_quota_us` over its period).
    pub cpus: Option<f64>,
    /// Bytes of memory, the page cache among them (`memory.max`, `memory.limit_in_bytes`).
    pub memory: Option<u64>,
    /// Lines of `io.max`, or of `blkio.throttle.*` with the file's name before them.
    pub io: Vec<String>,
}

/// v1 writes "no limit" as the largest number of pages; nothing has half of that.
const V1_NO_LIMIT: u64 = 1 << 62;
const V1_THROTTLES: [&str; 4] =
    ["read_bps_device", "write_bps_device", "read_iops_device", "write_iops_device"];

/// The directories of this process's group for a controller, from its own up to
/// the mount's. Version 1 where the controller is mounted there, else version 2.
pub fn directories(controller: &str, root: &Root) -> Vec<PathBuf> {
    let own = root.text("/proc/self/cgroup").unwrap_or_default();
    let all: Vec<_> = own
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    let v1 = all.iter().find(|(names, _)| names.split(',').any(|n| n == controller));
    let (kind, path) = match (v1, all.iter().find(|(names, _)| names.is_empty())) {
        (Some((_, path)), _) => ("cgroup", *path),
        (None, Some((_, path))) => ("cgroup2", *path),
        (None, None) => return Vec::new(),
    };
    let mount = mounts(root)
        .into_iter()
        .find(|m| m.kind == kind && (kind == "cgroup2" || m.options.split(',').any(|o| o == controller)));
    let Some(mount) = mount else { return Vec::new() };
    // In a container the mount may show only the group's own subtree.
    let within = Path::new(path).strip_prefix(&mount.subtree).unwrap_or(Path::new(""));
    let leaf = mount.point.join(within);
    let up: Vec<PathBuf> =
        leaf.ancestors().take_while(|dir| dir.starts_with(&mount.point)).map(Path::to_path_buf).collect();
    up.into_iter().filter(|dir| root.path(dir).is_dir()).collect()
}

/// What limits this process; None where no control group of it can be seen.
pub(crate) fn limits(root: &Root) -> Option<CgroupLimits> {
    let (cpu, memory) = (directories("cpu", root), directories("memory", root));
    let mut io = directories("io", root);
    io.extend(directories("blkio", root));
    io.sort();
    io.dedup();
    if cpu.is_empty() && memory.is_empty() && io.is_empty() {
        return None;
    }
    Some(CgroupLimits {
        cpus: cpu.iter().filter_map(|dir| cpus(dir, root)).min_by(f64::total_cmp),
        memory: memory.iter().filter_map(|dir| bytes(dir, root)).min(),
        io: io.iter().flat_map(|dir| throttles(dir, root)).collect(),
    })
}

fn cpus(dir: &Path, root: &Root) -> Option<f64> {
    let (quota, period) = match root.text(dir.join("cpu.max")) {
        Some(text) => {
            let (quota, period) = text.split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => (root.number(dir.join("cpu.cfs_quota_us"))?, root.number(dir.join("cpu.cfs_period_us"))?),
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn bytes(dir: &Path, root: &Root) -> Option<u64> {
    let v2 = root.number(dir.join("memory.max"));
    v2.or_else(|| root.number(dir.join("memory.limit_in_bytes")).filter(|n| *n < V1_NO_LIMIT))
}

fn throttles(dir: &Path, root: &Root) -> Vec<String> {
    let lines = |file: &str, prefix: &str| {
        let text = root.text(dir.join(file)).unwrap_or_default();
        text.lines().map(|l| format!("{prefix}{l}")).collect::<Vec<_>>()
    };
    let v1 =
        V1_THROTTLES.iter().flat_map(|name| lines(&format!("blkio.throttle.{name}"), &format!("{name} ")));
    lines("io.max", "").into_iter().chain(v1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fake;

    #[test]
    fn version_2_takes_the_tightest_limit_on_the_way_up() {
        let fake = Fake::new();
        fake.mount("self", "0:30", "/sys/fs/cgroup", "cgroup2", "cgroup2");
        fake.put("/proc/self/cgroup", "0::/a/b\n");
        fake.put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        fake.put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        fake.put("/sys/fs/cgroup/a/memory.max", "max\n");
        fake.put("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
        fake.put("/sys/fs/cgroup/a/b/io.max", "8:0 rbps=1000 wbps=max riops=max wiops=max\n");
        let limits = limits(&fake.root()).unwrap();
        assert_eq!((limits.cpus, limits.memory), (Some(0.5), Some(1_048_576)));
        assert_eq!(limits.io, ["8:0 rbps=1000 wbps=max riops=max wiops=max"]);
    }

    #[test]
    fn version_1_says_no_limit_in_its_own_way() {
        let fake = Fake::new();
        for (name, number) in [("cpu", "0:31"), ("memory", "0:32"), ("blkio", "0:33")] {
            let path = format!("/sys/fs/cgroup/{name}");
            fake.mount("self", number, &path, "cgroup", &format!("cgroup rw,{name},"));
        }
        fake.put("/proc/self/cgroup", "3:cpu:/\n2:memory:/x\n1:blkio:/x\n0::/\n");
        fake.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        fake.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        fake.put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        fake.put("/sys/fs/cgroup/blkio/x/blkio.throttle.write_bps_device", "7:0 1048576\n");
        let found = limits(&fake.root()).unwrap();
        let io = vec!["write_bps_device 7:0 1048576".to_string()];
        assert_eq!(found, CgroupLimits { cpus: None, memory: None, io });
        assert_eq!(limits(&Fake::new().root()), None);
    }
}
