// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the arm and the platters do for a run of sectors: move, wait for the sector, transfer;
//! at the end of a track again.

use super::geometry::{Geometry, Place, TURN};
use super::seek::Curve;
use super::spec::Hdd;
use crate::device::Ns;
use crate::spec::SpecError;

/// Over which track the heads are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arm {
    cylinder: u32,
    head: u32,
}

/// A way over the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Travel {
    pub end: Ns,
    /// The sector behind the last one that was transferred.
    pub reached: u64,
    /// Where the heads are then.
    pub arm: Arm,
    /// The arm moved or heads were switched, ns.
    pub seek: Ns,
    /// Waited for a sector, ns.
    pub rotation: Ns,
    /// Sectors passed below the head, ns.
    pub medium: Ns,
    /// Where its last track began.
    pub last: Leg,
}

/// A point from which a way can be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub at: Ns,
    pub arm: Arm,
    /// The next sector.
    pub sector: u64,
}

impl Travel {
    /// What is left of this way behind an earlier moment of it.
    pub fn after(&self, earlier: &Travel) -> Travel {
        Travel {
            seek: self.seek - earlier.seek,
            rotation: self.rotation - earlier.rotation,
            medium: self.medium - earlier.medium,
            ..*self
        }
    }

    /// ns from its beginning.
    pub fn total(&self) -> Ns {
        self.seek + self.rotation + self.medium
    }
}

/// A run of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Its first sector.
    pub first: u64,
    /// The sector behind its last.
    pub end: u64,
    /// Written, not read.
    pub write: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Mechanics {
    /// Where the sectors are.
    pub geometry: Geometry,
    curve: Curve,
    head_switch: Ns,
    write_settle: Ns,
}

impl Mechanics {
    /// Those of a checked disk, which stands at angle `phase` at time 0.
    ///
    /// # Errors
    /// Seek times that no curve fits.
    pub fn new(hdd: &Hdd, phase: u64) -> Result<Self, SpecError> {
        Ok(Self {
            geometry: Geometry::new(hdd, phase),
            curve: Curve::new(hdd)?,
            head_switch: hdd.head_switch.0,
            write_settle: hdd.seek.write_settle.0,
        })
    }

    #[inline]
    fn seek(&self, from: Arm, cylinder: u32, head: u32, write: bool) -> Ns {
        let switch = if from.head == head { 0 } else { self.head_switch };
        let moved = switch.max(self.curve.time(from.cylinder.abs_diff(cylinder)));
        if moved > 0 && write {
            moved + self.write_settle
        } else {
            moved
        }
    }

    /// Ticks until the first byte of a place could be transferred; `here` is the angle now.
    #[inline]
    pub fn positioning(&self, from: Arm, here: u64, place: &Place, write: bool) -> u64 {
        let seek = self.geometry.ticks(self.seek(from, place.cylinder, place.head, write));
        let wait = self.geometry.until_place((here + seek) % TURN, place);
        seek + wait.max(0) as u64
    }

    /// The sector behind the last one of a sector's track.
    pub fn track_end(&self, sector: u64) -> u64 {
        let track = self.geometry.track(sector);
        track.first + track.sectors
    }

    /// Transfers `run`, or as much of it as is done at `until`.
    pub fn travel(&self, from: Arm, start: Ns, run: Run, until: Ns) -> Travel {
        let geometry = &self.geometry;
        let last = Leg { at: start, arm: from, sector: run.first };
        let mut done =
            Travel { end: start, reached: run.first, arm: from, seek: 0, rotation: 0, medium: 0, last };
        while done.reached < run.end && done.end < until {
            done.last = Leg { at: done.end, arm: done.arm, sector: done.reached };
            let track = geometry.track(done.reached);
            let seek = self.seek(done.arm, track.cylinder, track.head, run.write);
            done.arm = Arm { cylinder: track.cylinder, head: track.head };
            let there = done.end + seek;
            if there >= until {
                done.seek += until - done.end;
                done.end = until;
                break;
            }
            done.seek += seek;
            let border = track.border(done.reached - track.first);
            // From the arrival, in ticks: rounding to ns twice would add up over the tracks.
            let wait = geometry.until(there, &track, border);
            let begin = there + geometry.ns(wait);
            if begin >= until {
                done.rotation += until - there;
                done.end = until;
                break;
            }
            done.rotation += begin - there;
            let stop = run.end.min(track.first + track.sectors);
            let width = track.border(stop - track.first) - border;
            let end = there + geometry.ns(wait + width as i64);
            if end > until {
                done.medium += until - begin;
                done.end = until;
                let turned = geometry.ticks(until - there) as i64 - wait;
                done.reached = track.first + track.sectors_in(border + turned.max(0) as u64);
                break;
            }
            done.medium += end - begin;
            done.end = end;
            done.reached = stop;
        }
        done
    }
}
