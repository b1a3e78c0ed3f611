// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that undoing a plan's changes touches: served disks, and file systems that were not finished.

use super::format;
use anyhow::Result;
use plumb_sim::serve::disk;
use plumb_undo::devices::Devices;
use plumb_undo::guardian::Whose;
use std::path::Path;

pub const PLAN: Whose =
    Whose { who: "the plan's process", restore: "plumb plan restore", only_journal: false, devices: &OWN };
pub const GUIDE: Whose = Whose {
    who: "the guide's process",
    restore: "plumb guide undo",
    only_journal: false,
    devices: &OwnDevices { commands: true },
};

/// Those of a plan, whose changes no command undoes.
pub const OWN: OwnDevices = OwnDevices { commands: false };

/// Served disks of the registry, devices as [`format`] knows them.
#[derive(Debug)]
pub struct OwnDevices {
    /// The user's own commands undo what the user's own commands did.
    commands: bool,
}

impl Devices for OwnDevices {
    fn is_served(&self, name: &str) -> bool {
        disk::list().iter().any(|d| d.name == name)
    }

    fn stop(&self, name: &str, force: bool) -> Result<()> {
        disk::stop(name, force)
    }

    fn runs_commands(&self) -> bool {
        self.commands
    }

    fn is_unfinished(&self, device: &Path) -> bool {
        format::is_unfinished(device)
    }

    fn clear_unfinished(&self, device: &Path) -> Result<bool> {
        format::clear_unfinished(device)
    }
}
