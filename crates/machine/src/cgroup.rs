// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups of processes, in either version, and what limits this one.

use crate::{mounts, Mount, Root};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
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

/// A group that a process is in, of one hierarchy (cgroups(7), /proc/PID/cgroup).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Controllers of the hierarchy, separated by commas, or `name=systemd`; empty for version 2.
    pub controllers: String,
    /// Where it lies in the hierarchy.
    pub path: PathBuf,
}

impl Group {
    fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|c| c == controller)
    }

    fn mount(&self, root: &Root) -> Option<Mount> {
        let first = self.controllers.split(',').next().unwrap_or_default();
        let here = |m: &Mount| match first {
            "" => m.kind == "cgroup2",
            first => m.kind == "cgroup" && m.options.split(',').any(|o| o == first),
        };
        mounts(root).into_iter().find(here)
    }

    /// Its directory, unless this process cannot see it: in a container the mount may show one subtree alone.
    pub fn directory(&self, root: &Root) -> Option<PathBuf> {
        let mount = self.mount(root)?;
        Some(mount.point.join(self.path.strip_prefix(&mount.subtree).ok()?))
    }
}

/// The groups that a process (its number, or `self`) is in, one a hierarchy; none where it is gone.
pub fn groups(process: impl Display, root: &Root) -> Vec<Group> {
    let text = root.text(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some(Group { controllers: parts.next()?.into(), path: parts.next()?.into() })
    };
    text.lines().filter_map(group).collect()
}

/// A process's group for a controller: of version 1 where the controller is there, else of version 2.
fn group(process: impl Display, controller: &str, root: &Root) -> Option<Group> {
    let all = groups(process, root);
    let v1 = all.iter().find(|g| g.has(controller));
    v1.or_else(|| all.iter().find(|g| g.controllers.is_empty())).cloned()
}

/// The directory of a process's group for a controller; None where there is none, or it cannot be seen.
pub fn directory(process: impl Display, controller: &str, root: &Root) -> Option<PathBuf> {
    group(process, controller, root)?.directory(root)
}

/// The directories of this process's group for a controller, from its own up to
/// the mount's. Version 1 where the controller is mounted there, else version 2.
pub fn directories(controller: &str, root: &Root) -> Vec<PathBuf> {
    let Some(group) = group("self", controller, root) else { return Vec::new() };
    let Some(mount) = group.mount(root) else { return Vec::new() };
    let leaf = group.directory(root).unwrap_or_else(|| mount.point.clone());
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
