// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a sector is: cylinder, head and angle; and when an angle is under the heads.
//!
//! An angle is counted in ticks, [`TURN`] a turn, so that a disk of `rpm` turns a minute
//! moves `rpm` ticks each nanosecond: the angle at any time is exact in whole numbers, and
//! does not drift. After each 60 s the disk is where it was.

use super::spec::Hdd;

/// Ticks of a whole turn; also the ns of a minute.
pub(super) const TURN: u64 = 60_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track {
    pub cylinder: u32,
    pub head: u32,
    /// Its first sector's number on the disk.
    pub first: u64,
    /// Its sectors.
    pub sectors: u64,
    /// Angle of its first sector's beginning, ticks.
    angle: u64,
}

impl Track {
    /// Angle of a sector's beginning from the track's own, ticks: 0 to [`TURN`].
    #[inline]
    pub fn border(&self, sector: u64) -> u64 {
        (sector * TURN).div_ceil(self.sectors)
    }

    /// Whole sectors in so many ticks from the track's beginning; up to some turns.
    #[inline]
    pub fn sectors_in(&self, ticks: u64) -> u64 {
        ticks * self.sectors / TURN
    }
}

/// Where a sector begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub cylinder: u32,
    pub head: u32,
    /// The angle, ticks.
    angle: u64,
}

#[derive(Debug, Clone, Copy)]
struct Band {
    first_sector: u64,
    first_cylinder: u32,
    sectors: u64,
    cylinder_sectors: u64,
}

/// The disk's layout: cylinder after cylinder from the outside, in each head after head.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    bands: Vec<Band>,
    /// Sectors of the whole disk.
    pub sectors: u64,
    track_skew: u64,
    /// Skew from one cylinder's first track to the next one's, ticks.
    cylinder_step: u64,
    rpm: u64,
    phase: u64,
}

impl Geometry {
    /// The layout of a checked disk, which stands at angle `phase` (ticks) at time 0.
    pub fn new(hdd: &Hdd, phase: u64) -> Self {
        let rpm = u64::from(hdd.rpm);
        let heads = u64::from(hdd.heads);
        let (mut sectors, mut cylinder, mut bands) = (0, 0, Vec::new());
        for zone in hdd.zones.table(hdd.cylinders) {
            let cylinder_sectors = heads * u64::from(zone.sectors);
            bands.push(Band {
                first_sector: sectors,
                first_cylinder: cylinder,
                sectors: u64::from(zone.sectors),
                cylinder_sectors,
            });
            sectors += cylinder_sectors * u64::from(zone.cylinders);
            cylinder += zone.cylinders;
        }
        let track_skew = hdd.track_skew_ns() * rpm % TURN;
        let cylinder_skew = hdd.cylinder_skew_ns() * rpm % TURN;
        let cylinder_step = ((heads - 1) * track_skew + cylinder_skew) % TURN;
        Self { bands, sectors, track_skew, cylinder_step, rpm, phase: phase % TURN }
    }

    /// The track of a sector, which must be on the disk.
    #[inline]
    pub fn track(&self, sector: u64) -> Track {
        let after = self.bands.partition_point(|band| band.first_sector <= sector);
        let band = &self.bands[after.saturating_sub(1)];
        let within = sector - band.first_sector;
        let cylinder = within / band.cylinder_sectors;
        let head = within % band.cylinder_sectors / band.sectors;
        let number = u64::from(band.first_cylinder) + cylinder;
        Track {
            cylinder: number as u32,
            head: head as u32,
            first: band.first_sector + cylinder * band.cylinder_sectors + head * band.sectors,
            sectors: band.sectors,
            angle: (number * self.cylinder_step + head * self.track_skew) % TURN,
        }
    }

    /// Ticks after `now` at which an angle of a track, ticks from its first sector, is under the heads.
    ///
    /// Times are whole ns: what ended at an angle ended up to 1 ns late. An angle that was
    /// passed by less than that is not missed; the result is then below 0.
    #[inline]
    pub fn until(&self, now: u64, track: &Track, border: u64) -> i64 {
        self.between(self.angle(now), (track.angle + border) % TURN)
    }

    /// [`Geometry::until`] the beginning of a place, from an angle that [`Geometry::angle`] told.
    #[inline]
    pub fn until_place(&self, here: u64, place: &Place) -> i64 {
        self.between(here, place.angle)
    }

    /// Which angle is under the heads, ticks.
    #[inline]
    pub fn angle(&self, now: u64) -> u64 {
        (now % TURN * self.rpm + self.phase) % TURN
    }

    #[inline]
    fn between(&self, here: u64, there: u64) -> i64 {
        let ahead = if there >= here { there - here } else { there + TURN - here };
        if TURN - ahead < self.rpm {
            ahead as i64 - TURN as i64
        } else {
            ahead as i64
        }
    }

    /// Where a sector begins.
    #[inline]
    pub fn place(&self, sector: u64) -> Place {
        let track = self.track(sector);
        let angle = (track.angle + track.border(sector - track.first)) % TURN;
        Place { cylinder: track.cylinder, head: track.head, angle }
    }

    /// ns that so many ticks take, rounded up; none below 0.
    #[inline]
    pub fn ns(&self, ticks: i64) -> u64 {
        (ticks.max(0) as u64).div_ceil(self.rpm)
    }

    /// Ticks of so many ns, which must be below an hour.
    #[inline]
    pub fn ticks(&self, ns: u64) -> u64 {
        ns * self.rpm
    }
}
