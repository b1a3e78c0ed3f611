// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model in real time, with data: as a block device on a stock kernel, or over NBD.
//!
//! Data flows: FUSE ([`fuse`]) or NBD ([`nbd`]) request -> [`realtime`] (the model, and
//! the clock that it is advanced by) and [`media`] (the bytes, which of them are durable)
//! -> reply when the model says so. [`disk`] makes the block device of it: a server
//! process, a loop device, an entry in the registry; nothing is left when they end.

pub mod disk;
pub mod fuse;
pub mod log;
pub mod loop_device;
pub mod media;
pub mod nbd;
pub mod realtime;
pub mod registry;

use crate::spec::Spec;
use plumb_load::job::Bytes;
use plumb_machine::json::{formats, Format, Output};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backing {
    /// In memory; gone at the end.
    Memory,
    /// In this file, which is made, or is there and as long as the disk.
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServeOptions {
    /// Its name in the registry; none: the model's name, with a number if that is taken.
    pub name: Option<String>,
    pub spec: Spec,
    /// The device's length, a multiple of 4096.
    pub size: Bytes,
    /// Where the bytes are.
    pub backing: Backing,
    pub seed: u64,
    /// A line for each request goes here, see [`log`].
    pub log: Option<PathBuf>,
    /// Serve NBD here besides or instead: `HOST:PORT`, or a Unix socket's path.
    pub nbd: Option<String>,
    /// No block device: NBD alone.
    pub no_device: bool,
    /// Ends when this process does; none: lives until `plumb disk stop`.
    pub owner: Option<u32>,
}

/// A served disk, as the registry knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub name: String,
    /// `/dev/loopN`; none where it is served over NBD alone.
    pub device: Option<PathBuf>,
    pub nbd: Option<String>,
    pub spec: Spec,
    /// Bytes.
    pub size: Bytes,
    pub seed: u64,
    /// Where the bytes are.
    pub backing: Backing,
    pub log: Option<PathBuf>,
    pub pid: u32,
    /// Its start, clock ticks after boot: tells it from a later process of that number.
    pub start: u64,
    /// How exact it is on this machine.
    pub timing: Option<Timing>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untimed: Option<String>,
}

impl Output for Disk {
    const FORMAT: &'static Format = &formats::DISK;
}

/// How far a device's times are from its model's on this machine, ns: what a user of the
/// block device saw at depth 1, less what the model said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Requests that were looked at.
    pub requests: u64,
    /// The way there and back, median; replies go out so much earlier.
    pub path_p50: u64,
    /// The model's time for them, median.
    #[serde(default)]
    pub model_p50: u64,
    /// Median of the error that is left; may be negative.
    pub error_p50: i64,
    /// 99 % are not above.
    pub error_p99: i64,
}
