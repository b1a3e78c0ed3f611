// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The I/O scheduler lp-deadline (kmod/) on this machine: what is there, and setting it. Everything is read from and
//! written to below a root, which tests make up.

pub mod change;
pub mod install;
pub mod knobs;
pub mod status;

/// The scheduler's name in /sys/block/DEVICE/queue/scheduler.
pub const SCHEDULER: &str = "lp-deadline";
/// Its module as /sys/module names it.
const MODULE: &str = "lp_deadline";

use crate::disks::named;
use anyhow::Result;
use plumb_machine::{Block, Root};

/// A device that is given by its node or by the kernel's name.
///
/// # Errors
/// There is none; named.
pub fn device(device: &str, root: &Root) -> Result<Block> {
    named(device, root, "plumb iosched status")
}

/// The disk of such a device: of a partition the whole one.
///
/// # Errors
/// As `device`.
pub fn disk(name: &str, root: &Root) -> Result<Block> {
    let block = device(name, root)?;
    Ok(block.disk(root).unwrap_or(block))
}

/// The schedulers that a disk may have, and the one that it has: `none [kyber] bfq`. None: it has no choice.
pub fn schedulers(disk: &Block, root: &Root) -> Option<(Vec<String>, String)> {
    let text = root.text(disk.dir.join("queue/scheduler"))?;
    let bare = |w: &str| w.trim_matches(['[', ']']).to_string();
    let chosen = text.split_whitespace().find(|w| w.starts_with('[')).or(text.split_whitespace().next())?;
    Some((text.split_whitespace().map(bare).collect(), bare(chosen)))
}
