// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide undo`: puts back whatever a guide changed, what it was told to keep too.

use super::state::{self, State};
use crate::own_devices::OwnDevices;
use anyhow::{bail, Result};
use plumb_undo::change::Held;
use plumb_undo::devices::Devices;
use plumb_undo::guardian::Whose;
use plumb_undo::journal::{restore, JOURNAL};
use plumb_undo::lock::Locks;
use std::path::Path;
use std::process::ExitCode;

pub const GUIDE: Whose = Whose {
    who: "the guide's process",
    restore: "plumb guide undo",
    only_journal: false,
    devices: &GuideDevices,
};

/// As a plan's; and the user's own commands may undo what the user's own commands did.
#[derive(Debug)]
pub struct GuideDevices;

impl Devices for GuideDevices {
    fn is_served(&self, name: &str) -> bool {
        OwnDevices.is_served(name)
    }

    fn stop(&self, name: &str, force: bool) -> Result<()> {
        OwnDevices.stop(name, force)
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn is_unfinished(&self, device: &Path) -> bool {
        OwnDevices.is_unfinished(device)
    }

    fn clear_unfinished(&self, device: &Path) -> Result<bool> {
        OwnDevices.clear_unfinished(device)
    }
}

/// `plumb guide undo DIR`.
///
/// # Errors
/// The directory is none of a guide, its guide still runs, or something cannot be put back.
pub fn main(dir: &Path, as_json: bool) -> Result<ExitCode> {
    if !dir.join(JOURNAL).exists() {
        bail!(
            "cannot undo {}: no {JOURNAL} there, so no guide has run in it; name a guide's directory",
            dir.display()
        );
    }
    let mut locks = Locks::default();
    locks.run(dir)?;
    let mut said = Vec::new();
    let whole = restore(dir, Held::NotSince, &GuideDevices, &mut |line| {
        said.push(line.to_string());
        if !as_json {
            println!("{line}");
        }
    })?;
    if as_json {
        println!("{}", serde_json::json!({"whole": whole, "done": said}));
    }
    if !whole {
        bail!("cannot put all back, see above; mend it and call 'plumb guide undo {}' again", dir.display());
    }
    // What is put back is not kept any more.
    if let Some(state) = state::read(dir)?.filter(|s| s.keep) {
        state::write(dir, &State { keep: false, ..state })?;
    }
    if said.is_empty() && !as_json {
        println!("nothing was left changed");
    }
    Ok(ExitCode::SUCCESS)
}
