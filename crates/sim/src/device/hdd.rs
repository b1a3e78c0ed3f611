// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hard disk: platters that turn, an arm, a buffer, a queue.
//!
//! Data flows: a command that finds a place in the queue (`disk`) -> controller and wire, one
//! at a time each -> read: buffer (`segments`, `dirty`) or arm; write: buffer, and arm at once
//! or later -> arm: seek (`seek`), turn, transfer (`arm`, over the sectors of `geometry`) -> wire.
//! The arm takes the command that it can begin with soonest. With nothing to do it writes what waits
//! in the buffer, or reads on behind the last read.
//!
//! Source: Ruemmler & Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994.
//! Not modelled: spare sectors, thermal recalibration, a read that begins anywhere on the track,
//! written sectors that are read from the buffer after they reached the medium.

mod arm;
mod dirty;
mod disk;
mod geometry;
mod seek;
mod segments;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{Even, Hdd, Seek, Zone, Zones};

use super::Device;
use crate::spec::SpecError;
use disk::Disk;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// The disk's outermost `size` bytes, a multiple of 512. The seed says at which angle it stands at
/// time 0.
///
/// # Errors
/// Figures that make no sense or contradict each other, or a size that the disk has not; named.
pub fn build(hdd: &Hdd, size: u64, seed: u64) -> Result<Box<dyn Device>, SpecError> {
    Ok(Box::new(Disk::new(hdd, size, seed)?))
}
