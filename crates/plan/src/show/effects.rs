// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan changes on this system, and what it needs for that.

use super::super::file::{DeviceSpec, PlanFile, Settings, Value};
use super::super::state::Cell;
use super::super::{check, needs};
use plumb_trace::units;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What is done; all of it is put back but for what was lost on a path.
#[derive(Debug, Default, Serialize)]
pub(super) struct Effects {
    /// Devices that are served: name, model, length in bytes.
    pub served: Vec<Served>,
    /// Block devices of this machine whose contents are lost, and the file systems that are made on each.
    pub lost: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Those of them that would be refused now, and why.
    pub refused: BTreeMap<PathBuf, String>,
    /// File systems that are made and mounted: kind and options.
    pub mounted: BTreeSet<String>,
    /// Servers that are made, started, stopped and removed.
    pub servers: BTreeSet<String>,
    /// Directories that files are made in, and removed from.
    pub directories: BTreeSet<PathBuf>,
    /// Queue attributes of the devices and their values.
    pub queue: BTreeMap<String, BTreeSet<String>>,
    /// Kernel parameters and their values.
    pub sysctl: BTreeMap<String, BTreeSet<String>>,
    /// Files of /proc and /sys and their values.
    pub write: BTreeMap<PathBuf, BTreeSet<String>>,
    pub programs: BTreeSet<String>,
    pub recorded: usize,
    /// What is done on other hosts, in words, by host.
    pub hosts: BTreeMap<String, BTreeSet<String>>,
    /// Most memory that the served devices of one cell take, bytes.
    pub memory: u64,
    /// mkfs programs that are called.
    #[serde(skip)]
    mkfs: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Served {
    pub name: String,
    pub model: String,
    pub set: Vec<String>,
    pub size: u64,
}

impl Effects {
    pub(super) fn of(plan: &PlanFile, cells: &[&Cell]) -> Effects {
        let mut all = Effects::default();
        for cell in cells {
            all.add(&cell.settings, plan);
        }
        all
    }

    /// Asks the guard about the devices whose contents would be lost. Nothing is locked or written.
    pub(super) fn ask_guard(&mut self) {
        for path in self.lost.keys() {
            if let Some(why) = check::refusal(path) {
                self.refused.insert(path.clone(), why);
            }
        }
    }

    fn add(&mut self, cell: &Settings, plan: &PlanFile) {
        let devices = needs::devices(cell, plan);
        if let Some(host) = &cell.host {
            return self.elsewhere(host, cell, plan, &devices);
        }
        for (name, device) in &devices {
            self.device(name, device, cell);
        }
        let served = devices.iter().filter(|(_, d)| d.model.is_some());
        self.memory = self.memory.max(served.map(|(_, d)| needs::size(d)).sum());
        if let Some(made) = &cell.file_system {
            self.mkfs.insert(format!("mkfs.{}", made.kind));
            let options = [made.mkfs.join(" "), made.mount.clone()];
            let words = std::iter::once(&made.kind).chain(options.iter().filter(|o| !o.is_empty()));
            self.mounted.insert(words.cloned().collect::<Vec<_>>().join(", "));
        }
        let kind = cell.server.as_ref().and_then(|server| server.kind);
        self.servers.extend(kind.map(|kind| kind.name().to_string()));
        values(&mut self.queue, &cell.queue);
        values(&mut self.sysctl, &cell.sysctl);
        values(&mut self.write, &cell.write);
        self.programs.extend(cell.commands().filter_map(|(_, words)| words.first()).cloned());
        self.recorded += usize::from(cell.record.is_some());
    }

    /// What a cell does on another host; of a guest nothing is left, and its devices are served here.
    fn elsewhere(&mut self, host: &str, cell: &Settings, plan: &PlanFile, devices: &[(&str, &DeviceSpec)]) {
        let also = cell.record_hosts.as_ref().map(|b| b.all()).unwrap_or_default();
        let exporting = devices.iter().filter_map(|(_, d)| d.host.as_deref());
        for name in std::iter::once(host).chain(also.iter().copied()).chain(exporting) {
            let Some(spec) = plan.hosts.get(name) else { continue };
            let all = self.hosts.entry(name.to_string()).or_default();
            match &spec.guest {
                Some(kernel) => all.insert(format!(
                    "a guest is booted with Linux {kernel}; Debian's package of it is fetched once, and kept in ~/.cache/plumb/guests"
                )),
                None => all.insert(format!("reached by '{}'; this program is copied there, and removed", spec.reach.join(" "))),
            };
            if also.contains(&name) {
                all.insert("kernel events of everything are recorded".into());
            }
        }
        let Some(spec) = plan.hosts.get(host) else { return };
        if spec.guest.is_some() {
            let served = devices.iter().filter(|(_, d)| d.model.is_some());
            let all = self.hosts.entry(host.to_string()).or_default();
            all.extend(served.clone().map(|(name, d)| {
                let model = d.model.as_deref().unwrap_or_default();
                format!(
                    "{name}: model {model}, {}, is served in the memory of this machine",
                    units::bytes(needs::size(d))
                )
            }));
            self.memory = self.memory.max(served.map(|(_, d)| needs::size(d)).sum());
            return;
        }
        let mut there = Effects::default();
        there.add(&Settings { host: None, record_hosts: None, ..cell.clone() }, plan);
        let all = self.hosts.entry(host.to_string()).or_default();
        all.extend(there.served.iter().map(|s| format!("model {} is served in memory", s.model)));
        all.extend(there.lost.keys().map(|path| format!("{}: WHAT IT HOLDS IS LOST", path.display())));
        all.extend(there.mounted.iter().map(|m| format!("{m} is mounted")));
        all.extend(
            there.directories.iter().map(|d| format!("files are made in {}, and removed", d.display())),
        );
        let set = |key: String, values: &BTreeSet<String>| {
            format!("{key} = {}", values.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        };
        all.extend(there.queue.iter().map(|(key, v)| set(format!("queue {key}"), v)));
        all.extend(there.sysctl.iter().map(|(key, v)| set(key.clone(), v)));
        all.extend(there.write.iter().map(|(key, v)| set(key.display().to_string(), v)));
        all.extend(there.programs.iter().map(|p| format!("{p} is called")));
        if there.recorded > 0 {
            all.insert("kernel events of the cell are recorded".into());
        }
    }

    fn device(&mut self, name: &str, device: &DeviceSpec, cell: &Settings) {
        if let Some(model) = &device.model {
            if self.served.iter().all(|s| s.name != name) {
                let size = needs::size(device);
                let served =
                    Served { name: name.into(), model: model.clone(), set: device.set.clone(), size };
                self.served.push(served);
            }
        }
        if let Some(path) = &device.path {
            let kinds = self.lost.entry(path.clone()).or_default();
            kinds.extend(cell.file_system.as_ref().map(|fs| fs.kind.clone()));
        }
        self.directories.extend(device.directory.clone());
    }

    /// What must be there, in words.
    pub(super) fn needs(&self) -> Vec<String> {
        let mut all = Vec::new();
        let settings = !self.queue.is_empty() || !self.sysctl.is_empty() || !self.write.is_empty();
        if !self.served.is_empty() || !self.lost.is_empty() || settings || self.recorded > 0 {
            all.push("root".to_string());
        }
        if self.memory > 0 {
            all.push(format!("up to {} of memory", units::bytes(self.memory)));
        }
        all.extend(self.mkfs.iter().cloned());
        all.extend(self.programs.iter().cloned());
        all
    }
}

fn values<K: Ord + Clone>(all: &mut BTreeMap<K, BTreeSet<String>>, given: &BTreeMap<K, Value>) {
    for (key, value) in given {
        all.entry(key.clone()).or_default().extend(value.words());
    }
}
