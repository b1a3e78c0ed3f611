// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup of the target's own with one limit: version 1 where its controller is mounted, else 2.

use super::{patiently, Stage, Undo};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Files of a cgroup and what to write to them.
type Knobs<'a> = &'a [(&'a str, String)];

impl Stage {
    /// The target may use the CPU for `quota` of each `period`, us.
    ///
    /// # Errors
    /// No cpu controller, no root.
    pub fn cpu_quota(&mut self, quota: u64, period: u64) -> Result<()> {
        self.cgroup(
            "cpu",
            &[("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
            &[("cpu.max", format!("{quota} {period}"))],
        )
    }

    /// The target may use so many KiB of memory, the page cache's included.
    ///
    /// # Errors
    /// No memory controller, no root.
    pub fn memory_limit(&mut self, kib: u64) -> Result<()> {
        let bytes = (kib << 10).to_string();
        self.cgroup(
            "memory",
            &[("memory.limit_in_bytes", bytes.clone()), ("memory.swappiness", "100".to_owned())],
            &[("memory.max", bytes)],
        )
    }

    /// The target may read (`what` rbps: bytes, riops: requests) or write (wbps, wiops) so much a
    /// second on the stage's device.
    ///
    /// # Errors
    /// No device, no blkio or io controller, no root.
    pub fn io_limit(&mut self, what: &str, limit: u64) -> Result<()> {
        let number = self.number()?;
        let (direction, unit) = what.split_at(1);
        let file =
            format!("blkio.throttle.{}_{unit}_device", if direction == "r" { "read" } else { "write" });
        self.cgroup(
            "blkio",
            &[(&file, format!("{number} {limit}"))],
            &[("io.max", format!("{number} {what}={limit}"))],
        )
    }

    /// The target can be frozen by its cgroup.
    ///
    /// # Errors
    /// No cgroup can be made.
    pub fn freezer(&mut self) -> Result<()> {
        self.cgroup("freezer", &[], &[])?;
        self.guards.extend(self.place.cgroup.last().map(|dir| Box::new(Thaw(dir.clone())) as Box<dyn Undo>));
        Ok(())
    }

    fn cgroup(&mut self, controller: &str, v1: Knobs<'_>, v2: Knobs<'_>) -> Result<()> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
        let (root, knobs) = match find(&mounts, controller) {
            Some(root) => (root, v1),
            None => {
                let name = if controller == "blkio" { "io" } else { controller };
                let root = unified(&mounts, name).with_context(|| {
                    format!(
                        "no cgroup controller '{controller}' is mounted: mount -t cgroup -o {controller} ..."
                    )
                })?;
                // It may be switched on already, and then the file below says the rest.
                let _ = std::fs::write(root.join("cgroup.subtree_control"), format!("+{name}"));
                (root, v2)
            }
        };
        let dir = root.join(format!("plumb-faults-{}-{}", std::process::id(), self.guards.len()));
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        self.guards.push(Box::new(Group(dir.clone())));
        for (file, value) in knobs {
            let path = dir.join(file);
            std::fs::write(&path, value).with_context(|| format!("{}: writing '{value}'", path.display()))?;
        }
        self.place.cgroup.push(dir);
        Ok(())
    }
}

/// Where a version 1 controller is mounted.
fn find(mounts: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (dir, kind, options) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup" && options.split(',').any(|o| o == controller)).then(|| dir.into())
    })
}

/// Where version 2 is mounted, if it has the controller.
fn unified(mounts: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (dir, kind) = (Path::new(words.next()?), words.next()?);
        let has = || {
            let list = std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
            // Every group of version 2 can be frozen.
            controller == "freezer" || list.split_whitespace().any(|c| c == controller)
        };
        (kind == "cgroup2" && has()).then(|| dir.to_owned())
    })
}

/// Freezes the processes of a group, or lets them go on.
pub fn freeze(group: &Path, frozen: bool) -> Result<()> {
    let old = group.join("freezer.state");
    let (path, value) = match old.exists() {
        true => (old, if frozen { "FROZEN" } else { "THAWED" }),
        false => (group.join("cgroup.freeze"), if frozen { "1" } else { "0" }),
    };
    std::fs::write(&path, value).with_context(|| format!("{}: writing '{value}'", path.display()))
}

/// Nothing stays frozen when whoever froze it is killed.
struct Thaw(PathBuf);

impl Undo for Thaw {
    fn undo(&mut self) -> Result<()> {
        freeze(&self.0, false)
    }
}

struct Group(PathBuf);

impl Undo for Group {
    fn undo(&mut self) -> Result<()> {
        patiently(|| std::fs::remove_dir(&self.0).with_context(|| self.0.display().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_controller_is_found_by_its_name_not_by_a_part_of_it() {
        let mounts = "cgroup /cg/cpuacct cgroup rw,relatime,cpuacct 0 0\n\
                      cgroup /cg/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup2 /cg/unified cgroup2 rw 0 0\n";
        assert_eq!(find(mounts, "cpu"), Some("/cg/cpu".into()));
        assert_eq!(find(mounts, "memory"), None);
    }
}
