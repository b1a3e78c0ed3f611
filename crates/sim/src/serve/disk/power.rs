// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk's power: cut, back, and whether it is there.

use super::super::media::Toll;
use super::control::{Answer, Order};
use super::{find, order, users_now};
use anyhow::{bail, Result};
use std::path::Path;

/// Cuts a disk's power: what was not flushed is lost, but for a share of `percent` of its sectors that
/// `seed` chooses. Every request fails until [`power_on`].
///
/// # Errors
/// There is none of that name, it is without power already, or its memory cannot be read.
pub fn cut(name: &str, percent: u64, seed: u64) -> Result<Toll> {
    match order(name, Order::Cut { percent, seed })? {
        Answer::Cut { lost, kept, torn, flushes } => Ok(Toll { lost, kept, torn, flushes }),
        other => bail!("{name}: its server says {other:?}"),
    }
}

/// Whether a disk has power.
///
/// # Errors
/// There is none of that name, or its server does not listen.
pub fn powered(name: &str) -> Result<bool> {
    match order(name, Order::Power)? {
        Answer::Power(on) => Ok(on),
        other => bail!("{name}: its server says {other:?}"),
    }
}

/// Power is back, with what survived. Whoever had the device in use before the cut holds data in the
/// page cache that was lost with it; only with `force` they may write them after all.
///
/// # Errors
/// There is none of that name, it has power, or its device is in use, by whom is told.
pub fn power_on(name: &str, force: bool) -> Result<()> {
    // Before its users: a disk that has power may have them.
    if powered(name)? {
        bail!("{name} has power already; plumb disk cut {name} cuts it");
    }
    if let Some(disk) = find(name).filter(|_| !force) {
        let users = users_now(&disk);
        if !users.is_empty() {
            let who: Vec<_> = users.iter().map(ToString::to_string).collect();
            let device = disk.device.as_deref().unwrap_or(Path::new(""));
            bail!(
                "{name}: {} is {}: what the page cache holds would be written as if nothing had happened; release it first, or: plumb disk power-on {name} --force",
                device.display(),
                who.join(", ")
            );
        }
    }
    order(name, Order::PowerOn).map(drop)
}
