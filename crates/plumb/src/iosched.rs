// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb iosched`: the words of [`plumb_govern::iosched`].

mod show;

use crate::changes::Changes;
use crate::cli::{IoschedArgs, IoschedCommand};
use anyhow::{bail, Result};
use plumb_govern::iosched::{self, change, install, knobs, status::Status};
use plumb_machine::json;
use plumb_machine::{Block, Root};
use std::io::{self, Write};
use std::process::ExitCode;

/// The disk that is named; of a partition the whole one, which is told.
fn disk(device: &str, root: &Root) -> Result<Block> {
    let block = iosched::device(device, root)?;
    let Some(disk) = block.disk(root) else { return Ok(block) };
    eprintln!("{} is a partition of {}, whose queue it is", block.name, disk.name);
    Ok(disk)
}

/// Does it.
///
/// # Errors
/// A sentence that names the disk, knob or file, and the next step.
pub fn main(args: &IoschedArgs) -> Result<ExitCode> {
    let root = args.root.as_ref().map_or_else(Root::real, |dir| Root::at(dir));
    let (did, as_json) = match &args.command {
        IoschedCommand::Status { device, advanced, json } => {
            let only = device.as_ref().map(|d| disk(d, &root)).transpose()?;
            show::status(&Status::of(only.as_ref(), &root), *json, *advanced)?;
            return Ok(ExitCode::SUCCESS);
        }
        IoschedCommand::Set { device, knobs, json } => {
            let knobs = knobs.iter().map(|w| knobs::parse(w)).collect::<Result<Vec<_>>>()?;
            (change::set(&disk(device, &root)?, &knobs, &root)?, *json)
        }
        IoschedCommand::Install { words, persistent, load_early, json } => {
            let (knobs, disks): (Vec<_>, Vec<_>) = words.iter().partition(|w| w.contains('='));
            let knobs = knobs.into_iter().map(|w| knobs::parse(w)).collect::<Result<Vec<_>>>()?;
            let disks = disks.into_iter().map(|d| disk(d, &root)).collect::<Result<Vec<Block>>>()?;
            if disks.is_empty() {
                bail!("no disk is named; 'plumb iosched status' lists those that there are");
            }
            if !persistent {
                bail!(
                    "install writes {}; say so with --persistent, or use 'plumb iosched set', which lasts until the next start",
                    install::RULES
                );
            }
            (install::install(&disks, &knobs, *load_early, &root)?, *json)
        }
        IoschedCommand::Remove { devices, persistent, json } => {
            let mut did = Vec::new();
            for device in devices {
                did.extend(change::remove(&disk(device, &root)?, &root)?);
            }
            if *persistent {
                did.extend(install::uninstall(&root)?);
            }
            (did, *json)
        }
    };
    let mut out = io::stdout().lock();
    if as_json {
        json::write(&mut out, &Changes { done: &did })?;
    } else {
        did.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if did.is_empty() {
            writeln!(out, "it was so already")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
