// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model as a file says it (TOML), and the presets in `presets/`.

use crate::device::channels::Channels;
use crate::device::faulty::Fault;
use crate::device::hdd::Hdd;
use crate::device::network::Network;
use crate::device::ssd::Ssd;
use crate::device::volume::Volume;
use crate::device::{channels, faulty, hdd, instant, network, ssd, volume, Device};
use plumb_load::job::Bytes;
use plumb_machine::json::{formats, Format, Output};
use serde::{Deserialize, Serialize};

mod presets;

/// A model of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where the figures come from; which of them are estimates.
    pub source: String,
    /// Length of the real one. A served one may be shorter, and then is its outer part.
    pub size: Bytes,
    pub medium: Medium,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What goes wrong with it.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(), json(Vec<BTreeMap<String, Value>>))]
    pub faults: Vec<Fault>,
}

impl Output for Spec {
    const FORMAT: &'static Format = &formats::DISK_MODEL;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Medium {
    Hdd(Box<Hdd>),
    Ssd(Box<Ssd>),
    /// A cloud's volume, known by its limits.
    Volume(Box<Volume>),
    /// Channels before one line, an arm that needs few figures.
    Channels(Channels),
    /// Takes no time at all: what the way to a device costs.
    Instant,
}

/// Why a model cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

impl Spec {
    /// All presets, in the order of `plumb disk list --models`.
    pub fn presets() -> Vec<Spec> {
        presets::all()
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// There is none; the nearest and all names are told.
    pub fn preset(name: &str) -> Result<Spec, SpecError> {
        presets::named(name)
    }

    /// A preset's name, or the path of a file (it has a `/` or ends in `.toml`), with `--set KEY=VALUE`
    /// (dotted keys of the file, as in `medium.write-cache=true`) over it.
    ///
    /// # Errors
    /// No such preset or file, an unknown key, a value that makes no sense; named.
    pub fn load(name: &str, set: &[String]) -> Result<Spec, SpecError> {
        presets::load(name, set)
    }

    /// Whether it turns: its seeks and revolutions, not its way, take the time.
    pub fn rotational(&self) -> bool {
        match &self.medium {
            Medium::Hdd(_) => true,
            Medium::Channels(channels) => channels.rotational(),
            Medium::Ssd(_) | Medium::Volume(_) | Medium::Instant => false,
        }
    }

    /// How long a turn takes, ns; none of what does not turn.
    pub fn turn_ns(&self) -> Option<f64> {
        match &self.medium {
            Medium::Hdd(hdd) => Some(60e9 / f64::from(hdd.rpm)),
            Medium::Channels(channels) if channels.rotation.0 > 0 => Some(channels.rotation.0 as f64),
            _ => None,
        }
    }

    /// The device, `size` bytes long, with everything random from `seed`.
    ///
    /// # Errors
    /// Figures that contradict each other; named.
    pub fn build(&self, size: u64, seed: u64) -> Result<Box<dyn Device>, SpecError> {
        let mut device: Box<dyn Device> = match &self.medium {
            Medium::Hdd(hdd) => hdd::build(hdd, size, seed)?,
            Medium::Ssd(ssd) => ssd::build(ssd, size, seed)?,
            Medium::Volume(volume) => volume::build(volume, size, seed)?,
            Medium::Channels(channels) => channels::build(channels, size)?,
            Medium::Instant => Box::new(instant::Instant::new(size)),
        };
        if let Some(network) = &self.network {
            device = network::build(network, device, seed)?;
        }
        if !self.faults.is_empty() {
            device = faulty::build(&self.faults, device, seed)?;
        }
        Ok(device)
    }
}
