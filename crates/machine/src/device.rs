// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block devices under a target, with the settings that a result hangs on.

use crate::{Block, DeviceNumber, Root};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One block device. None where the kernel does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The kernel's name; for device mapper with the administrator's.
    pub name: String,
    pub number: DeviceNumber,
    /// What it stands on directly; empty for the last in the stack.
    pub stands_on: Vec<String>,
    /// Whether it is a partition; then what follows is its disk's, but for the size.
    pub partition: bool,
    /// Length, bytes.
    pub size: Option<u64>,
    /// Model of the hardware, as it tells it.
    pub model: Option<String>,
    pub rotational: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Requests that the scheduler's queue holds.
    pub nr_requests: Option<u64>,
    /// `write back` or `write through`: whether a flush is needed.
    pub write_cache: Option<String>,
    /// Whether it writes through its cache on request (forced unit access).
    pub fua: Option<bool>,
    /// Largest request, KiB.
    pub max_sectors_kb: Option<u64>,
    /// Bytes that are read ahead, KiB.
    pub read_ahead_kb: Option<u64>,
    /// 0: neighbouring requests are merged; 1: only in the simple case; 2: never.
    pub nomerges: Option<u64>,
    /// Smallest unit it addresses, bytes.
    pub logical_block_size: Option<u64>,
    /// Smallest unit it writes without reading first, bytes.
    pub physical_block_size: Option<u64>,
    /// The file under a loop device.
    pub backing_file: Option<PathBuf>,
}

impl Device {
    /// Reads what sysfs says of a device.
    pub(crate) fn read(block: &Block, root: &Root) -> Device {
        let disk = block.disk(root);
        let dir = disk.as_ref().map_or(&block.dir, |d| &d.dir);
        let queue = |name: &str| root.number::<u64>(dir.join("queue").join(name));
        let text = |name: &str| root.text(dir.join(name)).filter(|t| !t.is_empty());
        let below = block.slaves(root).into_iter().chain(disk.clone());
        let scheduler = |all: String| all.split(['[', ']']).nth(1).map(str::to_string).unwrap_or(all);
        Device {
            name: block.described(root),
            number: block.number,
            stands_on: below.map(|b| b.name).collect(),
            partition: disk.is_some(),
            // In sectors of 512 bytes whatever the device's own are.
            size: root.number::<u64>(block.dir.join("size")).map(|sectors| sectors * 512),
            model: text("device/model"),
            rotational: queue("rotational").map(|n| n == 1),
            scheduler: text("queue/scheduler").map(scheduler),
            nr_requests: queue("nr_requests"),
            write_cache: text("queue/write_cache"),
            fua: queue("fua").map(|n| n == 1),
            max_sectors_kb: queue("max_sectors_kb"),
            read_ahead_kb: queue("read_ahead_kb"),
            nomerges: queue("nomerges"),
            logical_block_size: queue("logical_block_size"),
            physical_block_size: queue("physical_block_size"),
            backing_file: block.backing(root),
        }
    }

    /// One line for a reader.
    pub fn line(&self) -> String {
        let mut words = vec![format!("{} ({})", self.name, self.number)];
        let mut add = |word: Option<String>| words.extend(word);
        add(self.model.clone());
        add(self.size.map(plumb_trace::units::bytes));
        add(self.rotational.map(|turns| if turns { "rotational" } else { "not rotational" }.into()));
        add(self.scheduler.as_ref().map(|s| format!("scheduler {s}")));
        add(self.nr_requests.map(|n| format!("{n} requests")));
        add(self.write_cache.as_ref().map(|w| format!("cache {w}")));
        add(self.fua.map(|fua| if fua { "FUA" } else { "no FUA" }.into()));
        add(self.max_sectors_kb.map(|n| format!("requests to {n} KiB")));
        add(self.nomerges.filter(|n| *n > 0).map(|n| format!("nomerges {n}")));
        add(self.logical_block_size.zip(self.physical_block_size).map(|(l, p)| format!("blocks {l}/{p} B")));
        add(self.backing_file.as_ref().map(|f| format!("shows {}", f.display())));
        if !self.stands_on.is_empty() {
            words.push(format!("on {}", self.stands_on.join(", ")));
        }
        words.join(", ")
    }
}
