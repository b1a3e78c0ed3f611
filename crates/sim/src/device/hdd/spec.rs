// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hard disk as a file says it, and what its figures must fulfil.

use super::geometry::TURN;
use crate::spec::SpecError;
use plumb_load::job::{Bytes, Time};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hdd {
    pub rpm: u32,
    /// Surfaces with a head; a cylinder has so many tracks.
    pub heads: u32,
    pub cylinders: u32,
    /// Sectors of 512 bytes on a track, from the outermost cylinder to the innermost.
    pub zones: Zones,
    /// How long the arm moves.
    pub seek: Seek,
    /// Until another head of the same cylinder reads reliably.
    pub head_switch: Time,
    /// Turn of a track's first sector against the track before it, as a time; none: head
    /// switch and write settle and a little, so that a transfer crosses over without losing a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<Time>,
    /// The same from a cylinder's last track to the next cylinder's first; none: from
    /// the track to track time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<Time>,
    /// What the controller does for each command, before anything else.
    pub overhead: Time,
    /// Bytes a second between host and buffer.
    pub interface_rate: Bytes,
    /// Commands that the disk holds and orders (NCQ, tagged queuing); 1: none.
    pub queue_depth: u32,
    /// A command that has waited so long goes first; none starves.
    #[serde(default = "Hdd::aging")]
    pub aging: Time,
    pub cache: Bytes,
    /// Parts of the buffer, each of which follows one reader.
    #[serde(default = "Hdd::segments")]
    pub segments: u32,
    /// Whether a write is acknowledged when it is in the buffer.
    pub write_cache: bool,
    /// How much of the buffer may wait to be written; none: half of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_room: Option<Bytes>,
}

/// How long the arm moves, settling included; reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Seek {
    pub track_to_track: Time,
    /// Over a third of the cylinders.
    pub average: Time,
    pub full_stroke: Time,
    /// So much more before a write: it must not hit the neighbour.
    pub write_settle: Time,
}

/// The zones: a count and its ends, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Zones {
    /// So many zones of equally many cylinders, falling evenly.
    Even(Even),
    /// Each told, from the outermost.
    Table(Vec<Zone>),
}

/// Zones of equally many cylinders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Even {
    /// Sectors of a track of the outermost zone.
    pub outer: u32,
    /// Sectors of a track of the innermost zone.
    pub inner: u32,
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Zone {
    pub cylinders: u32,
    /// Sectors of each of its tracks.
    pub sectors: u32,
}

// By hand, so that a typing error is named: an untagged enum only says that nothing fits.
impl<'de> Deserialize<'de> for Zones {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Zones;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("zones as {outer, inner, count}, or a list of {cylinders, sectors}")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Zones, A::Error> {
                Even::deserialize(MapAccessDeserializer::new(map)).map(Zones::Even)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Zones, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Zones::Table)
            }
        }
        d.deserialize_any(Either)
    }
}

impl Zones {
    /// Each zone, from the outermost; empty ones are left out.
    pub fn table(&self, cylinders: u32) -> Vec<Zone> {
        match self {
            Zones::Table(zones) => zones.clone(),
            Zones::Even(even) => {
                let (count, all) = (u64::from(even.count), u64::from(cylinders));
                let border = |i: u64| (all * i / count) as u32;
                let fall = u64::from(even.outer.saturating_sub(even.inner));
                (0..count)
                    .map(|i| Zone {
                        cylinders: border(i + 1) - border(i),
                        sectors: even.outer - (fall * i / (count - 1).max(1)) as u32,
                    })
                    .filter(|zone| zone.cylinders > 0)
                    .collect()
            }
        }
    }
}

/// Most sectors that a track may have: a place on it times a turn must fit a word.
const MOST_SECTORS: u32 = 100_000;

impl Hdd {
    fn aging() -> Time {
        Time(500_000_000)
    }

    fn segments() -> u32 {
        16
    }

    /// A turn, ns; below its exact length by less than one.
    pub fn turn(&self) -> u64 {
        TURN / u64::from(self.rpm)
    }

    /// [`Hdd::track_skew`], or its default, ns.
    pub fn track_skew_ns(&self) -> u64 {
        let needed = self.head_switch.0 + self.seek.write_settle.0;
        self.track_skew.map_or(needed + needed / 20, |skew| skew.0)
    }

    /// [`Hdd::cylinder_skew`], or its default, ns.
    pub fn cylinder_skew_ns(&self) -> u64 {
        let needed = self.seek.track_to_track.0.max(self.head_switch.0) + self.seek.write_settle.0;
        self.cylinder_skew.map_or(needed + needed / 20, |skew| skew.0)
    }

    /// Bytes that may wait to be written; 0 without a write cache.
    pub fn write_room_bytes(&self) -> u64 {
        match (self.write_cache, self.write_room) {
            (false, _) => 0,
            (true, Some(room)) => room.0,
            (true, None) => self.cache.0 / 2,
        }
    }

    /// # Errors
    /// The first figure that makes no sense, or that contradicts another; with its key.
    pub fn check(&self) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError(text));
        if !(60..=1_000_000).contains(&self.rpm) {
            return fail(format!("rpm = {}: must be 60 to 1000000", self.rpm));
        }
        if !(1..=64).contains(&self.heads) {
            return fail(format!("heads = {}: give 1 to 64", self.heads));
        }
        if !(3..=10_000_000).contains(&self.cylinders) {
            return fail(format!("cylinders = {}: give 3 to 10000000", self.cylinders));
        }
        self.check_zones()?;
        let seek = &self.seek;
        if seek.track_to_track > seek.average || seek.average > seek.full_stroke {
            return fail(format!(
                "seek.track-to-track {}, seek.average {}, seek.full-stroke {}: give them rising",
                seek.track_to_track, seek.average, seek.full_stroke
            ));
        }
        let longest = [
            ("seek.full-stroke", seek.full_stroke.0),
            ("seek.write-settle", seek.write_settle.0),
            ("head-switch", self.head_switch.0),
            ("overhead", self.overhead.0),
        ];
        for (key, ns) in longest {
            if ns > 10_000_000_000 {
                return fail(format!("{key} = {}: give at most 10s", Time(ns)));
            }
        }
        for (key, skew) in [("track-skew", self.track_skew), ("cylinder-skew", self.cylinder_skew)] {
            if let Some(skew) = skew.filter(|skew| skew.0 >= self.turn()) {
                return fail(format!("{key} = {skew}: give less than a turn, {} ns", self.turn()));
            }
        }
        if self.interface_rate.0 < 1_000 || self.interface_rate.0 > 1_000_000_000_000 {
            return fail(format!(
                "interface-rate = {}: give 1000 to 10^12 bytes a second",
                self.interface_rate.0
            ));
        }
        if !(1..=65_536).contains(&self.queue_depth) {
            return fail(format!("queue-depth = {}: give 1 (no queuing) to 65536", self.queue_depth));
        }
        if !(1..=1024).contains(&self.segments) {
            return fail(format!("segments = {}: give 1 to 1024", self.segments));
        }
        if self.write_cache && !(512..=self.cache.0).contains(&self.write_room_bytes()) {
            return fail(format!(
                "write-room = {}: give at least 512 and at most cache = {}, or write-cache = false",
                Bytes(self.write_room_bytes()),
                self.cache
            ));
        }
        Ok(())
    }

    fn check_zones(&self) -> Result<(), SpecError> {
        let fail = |text: String| Err(SpecError(text));
        let fits = |sectors: u32| (1..=MOST_SECTORS).contains(&sectors);
        match &self.zones {
            Zones::Even(even) => {
                if !fits(even.inner) || !fits(even.outer) || even.inner > even.outer {
                    return fail(format!(
                        "zones.outer = {}, zones.inner = {}: give 1 to {MOST_SECTORS} sectors a track, not more inside than outside",
                        even.outer, even.inner
                    ));
                }
                if even.count == 0 || even.count > self.cylinders {
                    return fail(format!(
                        "zones.count = {}: give 1 to cylinders = {}",
                        even.count, self.cylinders
                    ));
                }
            }
            Zones::Table(zones) => {
                if let Some(bad) = zones.iter().find(|zone| !fits(zone.sectors) || zone.cylinders == 0) {
                    return fail(format!(
                        "zones: {{cylinders = {}, sectors = {}}}: give at least 1 cylinder and 1 to {MOST_SECTORS} sectors",
                        bad.cylinders, bad.sectors
                    ));
                }
                let sum: u64 = zones.iter().map(|zone| u64::from(zone.cylinders)).sum();
                if sum != u64::from(self.cylinders) {
                    return fail(format!("zones: they have {sum} cylinders; cylinders = {}", self.cylinders));
                }
            }
        }
        Ok(())
    }
}
