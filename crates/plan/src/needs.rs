// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine lacks for a cell, in its user's words. Such a cell is skipped, and the report says why.
//!
//! What a cell needs on another host, or in a guest, is looked up there.

mod machine;

pub use machine::Machine;

use super::arguments;
use super::file::{DeviceSpec, PlanFile, Server, Settings};
use super::state::Cell;
use crate::program::Program;
use anyhow::{bail, Context, Result};
use plumb_load::database::Dialect;
use plumb_machine::child::own_cpus;
use plumb_machine::Space;
use plumb_trace::units;
use std::path::Path;

/// Length of a served device that does not say it.
pub const DEFAULT_SIZE: u64 = 1 << 30;
/// What a repetition's files take, about: results, tables, a short log.
const A_REPETITION: u64 = 256 << 10;
/// What a recorded repetition's trace takes, about: 32 bytes for each of two million events.
const A_RECORDING: u64 = 64 << 20;
/// Packages that bring mkfs.KIND, where they are not called KINDprogs or so.
const PACKAGES: &[(&str, &str)] = &[
    ("ext2", "e2fsprogs"),
    ("ext3", "e2fsprogs"),
    ("ext4", "e2fsprogs"),
    ("xfs", "xfsprogs"),
    ("btrfs", "btrfs-progs"),
    ("f2fs", "f2fs-tools"),
    ("jfs", "jfsutils"),
    ("reiserfs", "reiserfsprogs"),
    ("nilfs2", "nilfs-tools"),
    ("bcachefs", "bcachefs-tools"),
    ("vfat", "dosfstools"),
    ("exfat", "exfatprogs"),
    ("ntfs", "ntfs-3g"),
];

/// Says in each cell that is not skipped yet what this machine lacks for it.
pub fn mark(cells: &mut [Cell], plan: &PlanFile, program: &dyn Program) {
    let machine = Machine::real();
    for cell in cells.iter_mut().filter(|c| c.skipped.is_none()) {
        cell.skipped = machine.lacks(cell, plan, program);
    }
}

/// Whether the output directory has room for what is to be measured, about.
///
/// # Errors
/// It has not, or cannot be looked at.
pub fn room(dir: &Path, plan: &PlanFile, cells: &[Cell]) -> Result<()> {
    let live = || cells.iter().filter(|c| c.skipped.is_none());
    let recordings = |c: &Cell| {
        let also = c.settings.record_hosts.as_ref().map_or(0, |names| names.all().len() as u64);
        // What comes from another host is here twice for a moment.
        u64::from(c.settings.record.is_some()) + 2 * also
    };
    let recorded: u64 = live().map(recordings).sum();
    let need = u64::from(plan.repeat) * (live().count() as u64 * A_REPETITION + recorded * A_RECORDING);
    let there = std::path::absolute(dir)?;
    let Some(there) = there.ancestors().find(|d| d.exists()) else { return Ok(()) };
    let free = Space::of(there).with_context(|| there.display().to_string())?.free;
    if free < need {
        bail!(
            "{}: the plan's results take about {} and {} are free; name another directory with -o, or give --no-record",
            dir.display(),
            units::bytes(need),
            units::bytes(free)
        );
    }
    Ok(())
}

/// The devices that a cell works on, with their names.
pub(super) fn devices<'a>(cell: &'a Settings, plan: &'a PlanFile) -> Vec<(&'a str, &'a DeviceSpec)> {
    let names = cell.device.as_ref().map(|d| d.all()).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| plan.devices.get_key_value(name))
        .map(|(n, d)| (n.as_str(), d))
        .collect()
}

/// Length of a served device, bytes.
pub(super) fn size(device: &DeviceSpec) -> u64 {
    device.size.map_or(DEFAULT_SIZE, |s| s.0)
}

impl Machine {
    /// What this machine lacks for a cell; None when it can run.
    pub fn lacks(&self, cell: &Cell, plan: &PlanFile, program: &dyn Program) -> Option<String> {
        let devices = devices(&cell.settings, plan);
        let cell = &cell.settings;
        if let Some(host) = cell.host.as_ref().and_then(|name| plan.hosts.get(name)) {
            let others = cell.record_hosts.as_ref().map(|names| names.all()).unwrap_or_default();
            let mut others = others.into_iter().filter_map(|name| plan.hosts.get(name));
            return match host.guest {
                Some(_) => self.memory(&devices).or_else(|| self.boots(cell)),
                None => self.command(&host.reach).or_else(|| others.find_map(|h| self.command(&h.reach))),
            };
        }
        self.privilege(cell, &devices)
            .or_else(|| devices.iter().find_map(|(name, device)| self.device(name, device)))
            .or_else(|| self.memory(&devices))
            .or_else(|| self.confines(cell))
            .or_else(|| cell.file_system.as_ref().and_then(|fs| self.file_system(&fs.kind)))
            .or_else(|| devices.iter().find_map(|(_, device)| self.queue(cell, device)))
            .or_else(|| self.files(cell))
            .or_else(|| cell.server.as_ref().and_then(|server| self.server(server)))
            .or_else(|| cell.commands().find_map(|(_, words)| self.command(words)))
            .or_else(|| self.engine(cell, program))
            .or_else(|| cell.record.as_ref().and_then(|_| self.recording()))
    }

    /// What booting a guest needs of this machine; the rest is looked up in the guest.
    fn boots(&self, cell: &Settings) -> Option<String> {
        let mkfs = cell.file_system.as_ref().map(|fs| format!("mkfs.{}", fs.kind));
        if let Some(mkfs) = mkfs.filter(|mkfs| !self.tool(mkfs)) {
            return Some(format!("a guest gets {mkfs} of this machine, where it is not installed"));
        }
        let tools = [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("busybox", "busybox-static"),
            ("cpio", "cpio"),
            ("depmod", "kmod"),
            ("xz", "xz-utils"),
            ("tc", "iproute2"),
        ];
        let (tool, package) = tools.into_iter().find(|(tool, _)| !self.tool(tool))?;
        Some(format!("a guest needs {tool}, which is not installed: apt install {package}"))
    }

    fn privilege(&self, cell: &Settings, devices: &[(&str, &DeviceSpec)]) -> Option<String> {
        if self.is_root() {
            return None;
        }
        let what = match () {
            () if devices.iter().any(|(_, d)| d.model.is_some()) => "to serve a device",
            () if cell.file_system.is_some() => "to make and mount a file system",
            () if devices.iter().any(|(_, d)| d.path.is_some()) => "to write to a device",
            () if !cell.queue.is_empty() || !cell.sysctl.is_empty() || !cell.write.is_empty() => {
                "to change settings of the kernel"
            }
            () if cell.memory.is_some() => "to limit memory",
            () if cell.record.is_some() => "to record events of the kernel",
            () => return None,
        };
        Some(format!("needs root {what}: call plumb with sudo"))
    }

    fn device(&self, name: &str, device: &DeviceSpec) -> Option<String> {
        let serves = self.exists("/dev/fuse") && self.exists("/dev/loop-control");
        if device.model.is_some() && !serves {
            return Some(
                "a served device needs /dev/fuse and /dev/loop-control: 'modprobe fuse loop'".into(),
            );
        }
        if let Some(path) = &device.path {
            if !self.exists(path) {
                return Some(format!(
                    "device {name}: {} does not exist; give --device {name}=PATH",
                    path.display()
                ));
            }
            if self.disk(path).is_none() {
                return Some(format!(
                    "device {name}: {} is not a block device; give --device {name}=PATH",
                    path.display()
                ));
            }
        }
        let dir = device.directory.as_ref().filter(|dir| !self.is_directory(dir))?;
        Some(format!("device {name}: there is no directory {}; give --device {name}=PATH", dir.display()))
    }

    fn memory(&self, devices: &[(&str, &DeviceSpec)]) -> Option<String> {
        let served: Vec<u64> =
            devices.iter().filter(|(_, d)| d.model.is_some()).map(|(_, d)| size(d)).collect();
        let need: u64 = served.iter().fold(0, |all, size| all.saturating_add(*size));
        let free = self.available_memory()?;
        (need > free).then(|| {
            format!(
                "the served device's contents take up to {} of memory and {} are available: make its size smaller",
                units::bytes(need),
                units::bytes(free)
            )
        })
    }

    fn confines(&self, cell: &Settings) -> Option<String> {
        let (cpus, own) = (cell.cpus.unwrap_or(0) as usize, own_cpus().len());
        if cpus > own {
            return Some(format!("cpus = {cpus}, and plumb may use {own}"));
        }
        if cpus > 0 && cell.record.is_some() && !self.tool("taskset") {
            return Some("taskset is not installed: apt install util-linux".into());
        }
        (cell.memory.is_some() && !self.limits_memory())
            .then(|| "memory: this machine has no cgroup controller for it".into())
    }

    fn file_system(&self, kind: &str) -> Option<String> {
        let mounts = self.knows_file_system(kind) || self.tool(&format!("mount.{kind}"));
        if !mounts {
            return Some(format!("this kernel has no file system {kind}"));
        }
        if self.tool(&format!("mkfs.{kind}")) {
            return None;
        }
        let package = PACKAGES.iter().find(|(known, _)| *known == kind);
        let install = package.map_or_else(|| "install it".into(), |(_, p)| format!("apt install {p}"));
        Some(format!("mkfs.{kind} is not installed: {install}"))
    }

    fn queue(&self, cell: &Settings, device: &DeviceSpec) -> Option<String> {
        let queue = match &device.path {
            Some(path) => self.disk(path)?.join("queue"),
            None => self.any_queue()?,
        };
        for (attribute, value) in &cell.queue {
            if attribute == "scheduler" {
                let words = value.words();
                let missing = words.first().and_then(|name| self.lacks_scheduler(name, &queue));
                if missing.is_some() {
                    return missing;
                }
            } else if !attribute.starts_with("iosched/") {
                // What lies in iosched/ is known when the scheduler is set.
                let missing = self.lacks_file(&queue.join(attribute));
                if missing.is_some() {
                    return Some(format!("queue.{attribute}: {}", missing.unwrap_or_default()));
                }
            }
        }
        None
    }

    fn files(&self, cell: &Settings) -> Option<String> {
        let sysctl = cell.sysctl.keys().find_map(|key| {
            let path = Path::new("/proc/sys").join(key.replace('.', "/"));
            Some(format!("sysctl {key}: {}", self.lacks_file(&path)?))
        });
        sysctl.or_else(|| cell.write.keys().find_map(|path| self.lacks_file(path)))
    }

    fn server(&self, server: &Server) -> Option<String> {
        let kind = server.kind?;
        let (client, package) = match kind {
            Dialect::Postgresql => ("psql", "postgresql-client"),
            Dialect::Mariadb => ("mariadb", "mariadb-client"),
        };
        let no_client =
            || (!self.tool(client)).then(|| format!("{client} is not installed: apt install {package}"));
        super::server::programs(kind).err().map(|why| why.to_string()).or_else(no_client)
    }

    fn command(&self, words: &[String]) -> Option<String> {
        let own = |name: &str| name.contains('{') || name == "plumb";
        let name = words.first().filter(|name| !own(name) && !self.tool(name))?;
        Some(match name.contains('/') {
            true => format!("{name} does not exist or cannot be run"),
            false => format!("{name} is not installed, or not in PATH"),
        })
    }

    fn engine(&self, cell: &Settings, program: &dyn Program) -> Option<String> {
        if cell.command.is_some() {
            return None;
        }
        self.of_load(arguments::load_arguments(cell, &[]), || {
            let jobs = match arguments::jobs(cell, program) {
                Ok(jobs) => jobs,
                Err(e) => return Some(format!("{e:#}")),
            };
            let missing = jobs.iter().find_map(|job| plumb_load::engine::available(job.through).err());
            missing.map(|e| format!("--through: {e}"))
        })
    }
}

#[cfg(test)]
mod tests;
