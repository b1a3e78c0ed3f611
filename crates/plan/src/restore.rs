// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan restore`: puts back what a killed run left changed.

use super::own_devices::OwnDevices;
use anyhow::{bail, Result};
use plumb_undo::change::Held;
use plumb_undo::journal::{restore, JOURNAL};
use plumb_undo::lock::Locks;
use std::path::Path;
use std::process::ExitCode;

/// `plumb plan restore DIR`.
///
/// # Errors
/// The directory is none of a plan, its plan still runs, or something cannot be put back.
pub fn main(dir: &Path, as_json: bool) -> Result<ExitCode> {
    if !dir.join(JOURNAL).exists() {
        bail!("{}: has no {JOURNAL}, so no plan has run there; name a plan's directory", dir.display());
    }
    let mut locks = Locks::default();
    locks.run(dir)?;
    let mut said = Vec::new();
    let whole = restore(dir, Held::NotSince, &OwnDevices, &mut |line| {
        said.push(line.to_string());
        if !as_json {
            println!("{line}");
        }
    })?;
    if as_json {
        println!("{}", serde_json::json!({"whole": whole, "done": said}));
    }
    if !whole {
        bail!(
            "not all could be put back, see above; mend it and call 'plumb plan restore {}' again",
            dir.display()
        );
    }
    if said.is_empty() && !as_json {
        println!("nothing was left changed");
    }
    Ok(ExitCode::SUCCESS)
}
