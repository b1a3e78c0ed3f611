// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flash: dies behind channels behind a controller, a write cache, garbage collection.
//!
//! Data flows: command -> a place in the queue -> controller -> of a read: dies, each
//! page by itself -> channel -> interface; of a write: interface -> cache, which is
//! programmed to the dies in the background (or, written through: channel -> dies).
//! When the spare area is used up, each page that is programmed makes the die copy
//! others and erase a block now and then; who comes then, waits: that is the tail.
//!
//! Simplified: a page is read from the die that its address is striped to, but programmed
//! to the next die, as a log; reads do not know the cache; nothing is collected when idle.

mod cache;
mod command;
mod die;
mod flow;
mod spare;

use super::check::{self, Wrong};
use super::{Device, Ns};
use crate::spec::SpecError;
use plumb_load::job::{Bytes, Time};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ssd {
    /// What the controller takes for each command; many at once.
    pub overhead: Time,
    /// The controller takes one read in so much time, its limit of reads a second; 0: no limit.
    #[serde(default)]
    pub read_interval: Time,
    #[serde(default)]
    pub write_interval: Time,
    /// Bytes a second between host and controller.
    pub interface_rate: Bytes,
    /// Bytes go both ways at once (PCIe; not SATA).
    #[serde(default)]
    pub full_duplex: bool,
    /// Commands that it works on at once; more wait.
    pub queue_depth: u32,
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies at each channel; each does one thing at a time.
    pub dies: u32,
    /// Bytes a second over a channel; none: they take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_rate: Option<Bytes>,
    /// What a die reads or programs at a time (of all its planes).
    pub page_size: Bytes,
    /// What a die erases at a time.
    pub block_size: Bytes,
    /// A die reads a page.
    pub read: Time,
    /// A die programs a page.
    pub program: Time,
    /// A die erases a block.
    pub erase: Time,
    /// Dies' times vary evenly by so much of themselves, 0 to below 1.
    #[serde(default)]
    pub spread: f64,
    /// Bytes that are acknowledged before they are programmed; 0: none.
    pub write_cache: Bytes,
    /// The cache survives a power cut; flushes and forced unit access then cost nothing.
    #[serde(default)]
    pub power_loss_protection: bool,
    /// Flash beyond the device's length, as a part of it: 0.07 is 7 %.
    pub over_provisioning: f64,
    /// Pages programmed for each page that the host writes, once the spare area is used up.
    /// Of random writes: those that go on where another ended are not amplified.
    pub write_amplification: f64,
    /// Nothing was ever written to it: all of it is spare area at first. False: all of it
    /// holds data, and only the over-provisioning is spare.
    #[serde(default)]
    pub fresh: bool,
}

/// The device, `size` bytes long.
///
/// # Errors
/// Figures that contradict each other; the key is named.
pub fn build(spec: &Ssd, size: u64, seed: u64) -> Result<Box<dyn Device>, SpecError> {
    spec.check().map_err(|(key, why)| SpecError(format!("medium.{key}: {why}")))?;
    Ok(Box::new(flow::Model::new(spec, size, seed)))
}

impl Ssd {
    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &'static str, why: String| Err((key, why));
        check::counts(&[
            ("queue-depth", self.queue_depth.into()),
            ("channels", self.channels.into()),
            ("dies", self.dies.into()),
            ("page-size", self.page_size.0),
            ("block-size", self.block_size.0),
        ])?;
        check::rates(&[("interface-rate", self.interface_rate)])?;
        if let Some(rate) = self.channel_rate {
            check::rates(&[("channel-rate", rate)])?;
        }
        check::times(&[
            ("overhead", self.overhead),
            ("read-interval", self.read_interval),
            ("write-interval", self.write_interval),
            ("read", self.read),
            ("program", self.program),
            ("erase", self.erase),
        ])?;
        if u64::from(self.channels) * u64::from(self.dies) > 65_536 {
            return wrong("dies", "channels x dies is above 65,536".into());
        }
        if self.page_size.0 % 512 != 0 || self.page_size.0 > 1 << 30 {
            return wrong("page-size", format!("{} is no multiple of 512 up to 1G", self.page_size));
        }
        if self.block_size.0 % self.page_size.0 != 0 {
            return wrong("block-size", format!("{} is no multiple of page-size", self.block_size));
        }
        if !(0.0..1.0).contains(&self.spread) {
            return wrong("spread", "must be from 0 to below 1".into());
        }
        if self.write_cache.0 > 0 && self.write_cache < self.page_size {
            return wrong("write-cache", "is smaller than a page (page-size)".into());
        }
        if self.power_loss_protection && self.write_cache.0 == 0 {
            return wrong("power-loss-protection", "there is no write-cache to protect".into());
        }
        if !(0.0..=10.0).contains(&self.over_provisioning) {
            return wrong("over-provisioning", "must be from 0 to 10 (0.07 is 7 %)".into());
        }
        if !(1.0..=100.0).contains(&self.write_amplification) {
            return wrong("write-amplification", "must be from 1 to 100".into());
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.channels as usize * self.dies as usize
    }

    /// A channel's time for so many bytes.
    fn bus(&self, bytes: u64) -> Ns {
        self.channel_rate.map_or(0, |rate| super::agenda::transfer(bytes, rate.0))
    }
}

#[cfg(test)]
pub(crate) mod tests;
