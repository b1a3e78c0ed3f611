// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment that a result was made in: what of machine, kernel, file
//! system and disk a figure hangs on. Nothing that names the machine or its
//! user: no host name, no serial number, no kernel command line. What cannot
//! be read is None, never a guess.

mod compare;
mod nameless;

pub use compare::Difference;

use crate::cgroup::{self, CgroupLimits};
use crate::system::{self, Cpu, DirtyLimits, Kernel, Memory, Pressure};
use crate::{devices_under, mount_of, utc, Device, Root};
use plumb_trace::units::bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file system that holds the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// `ext4`, `xfs`.
    pub kind: String,
    pub source: PathBuf,
    pub mounted_at: PathBuf,
    /// Options of the mount, then of the file system.
    pub options: String,
}

/// What a result was made in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub plumb: String,
    /// When it was read, UTC.
    pub utc: String,
    pub kernel: Kernel,
    pub cpu: Cpu,
    pub memory: Memory,
    /// The kernel's source of time: `tsc`, `kvm-clock`.
    pub clocksource: Option<String>,
    /// When dirty pages are written back.
    pub dirty: DirtyLimits,
    /// How much was stalled just before.
    pub pressure: Pressure,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Limits of the control group; None where it has none to see.
    pub cgroup: Option<CgroupLimits>,
    /// The target's file system; None when the target is a device.
    pub file_system: Option<FileSystem>,
    /// The devices under the target, from the top down.
    pub devices: Vec<Device>,
    /// Whether the processor says that it is a virtual one.
    pub virtual_machine: Option<bool>,
}

impl Environment {
    /// Reads the environment of a target: a file (also one still to be made), a
    /// directory or a block device.
    pub fn capture(target: &Path) -> Environment {
        Environment::capture_in(target, &Root::real())
    }

    /// The same from a written tree.
    pub fn capture_in(target: &Path, root: &Root) -> Environment {
        let is_device = std::fs::metadata(target).is_ok_and(|m| root.device_of(target, &m).is_some());
        let file_system = mount_of(target, root).filter(|_| !is_device).map(|m| FileSystem {
            kind: m.kind,
            source: m.source,
            mounted_at: m.point,
            options: m.options,
        });
        let all = Environment {
            plumb: env!("CARGO_PKG_VERSION").into(),
            utc: utc(),
            kernel: Kernel::read(root),
            cpu: Cpu::read(root),
            memory: Memory::read(root),
            clocksource: system::clocksource(root),
            dirty: DirtyLimits::read(root),
            pressure: Pressure::read(root),
            load: system::load(root),
            cgroup: cgroup::limits(root),
            file_system,
            devices: devices_under(target, root).iter().map(|b| Device::read(b, root)).collect(),
            virtual_machine: system::virtual_machine(root),
        };
        nameless::remove_names(all, root)
    }

    /// What differs between two environments, but for what always does (the
    /// time, the load, free memory).
    pub fn differences(a: &Environment, b: &Environment) -> Vec<Difference> {
        compare::differences(a, b)
    }

    /// What makes figures of two environments those of two machines: kernel, CPUs, memory (above 1 %), and the control group's
    /// limits of both. In words; none: they can be compared.
    pub fn other_machine(a: &Environment, b: &Environment) -> Option<String> {
        let near = a.memory.total.zip(b.memory.total).is_some_and(|(a, b)| a.abs_diff(b) <= a / 100);
        let counts = |what: &str| match what {
            "memory.total" => !near,
            // Who sets the clock rate changes with a profile of power.
            "cpu.governor" => false,
            what => ["kernel.", "cpu.", "cgroup.cpus", "cgroup.memory"].iter().any(|of| what.starts_with(of)),
        };
        let all = compare::differences(a, b).into_iter().filter(|d| counts(&d.what));
        let all: Vec<String> = all.map(|d| format!("{} {} instead of {}", d.what, d.b, d.a)).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The human table: a name and what stands beside it. What is not known has no line.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("plumb", self.plumb.clone()), ("time", self.utc.clone())];
        let mut add = |name, value: Option<String>| lines.extend(value.map(|v| (name, v)));
        add("kernel", self.kernel.line());
        add("CPU", self.cpu.line());
        add("virtual", self.virtual_machine.map(|v| if v { "yes" } else { "no hint of it" }.into()));
        add("clock", self.clocksource.clone());
        add("memory", self.memory.line());
        add("dirty pages", self.dirty.line());
        add("pressure", self.pressure.line());
        add("load", self.load.map(|l| format!("{:.2} {:.2} {:.2}", l[0], l[1], l[2])));
        if let Some(limits) = &self.cgroup {
            add("CPU limit", limits.cpus.map(|n| format!("{n:.2} CPUs")));
            add("memory limit", limits.memory.map(bytes));
            add("I/O limit", (!limits.io.is_empty()).then(|| limits.io.join("; ")));
        }
        add(
            "file system",
            self.file_system.as_ref().map(|fs| {
                format!(
                    "{} of {} at {} ({})",
                    fs.kind,
                    fs.source.display(),
                    fs.mounted_at.display(),
                    fs.options
                )
            }),
        );
        for device in &self.devices {
            add("device", Some(device.line()));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
