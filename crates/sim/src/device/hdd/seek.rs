// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the arm moves over a distance.
//!
//! `settle + a*sqrt(d)` over short ways, where it speeds up half of the way and brakes the
//! other half, and `b + c*d` over long ones, where it coasts at its highest speed (Ruemmler &
//! Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994). Both come from the
//! three times of a data sheet.

use super::spec::Hdd;
use crate::spec::SpecError;

/// The curve; ns, cylinders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curve {
    /// From this distance on the line holds.
    border: f64,
    settle: f64,
    root: f64,
    base: f64,
    slope: f64,
}

impl Curve {
    /// The curve through the three points of a checked disk.
    ///
    /// The line goes through average and full stroke; the root through track to track, and
    /// touches the line. Where they would touch beyond the average, the root goes
    /// through the average instead, and the line begins there.
    ///
    /// # Errors
    /// The average lies below the straight line between the others: no arm slows down on long ways.
    pub fn new(hdd: &Hdd) -> Result<Self, SpecError> {
        let seek = &hdd.seek;
        let (one, third, all) = (1.0, f64::from(hdd.cylinders - 1) / 3.0, f64::from(hdd.cylinders - 1));
        let (short, average, full) =
            (seek.track_to_track.0 as f64, seek.average.0 as f64, seek.full_stroke.0 as f64);
        if all < 9.0 {
            // A toy: no room for two curves.
            let slope = (full - short) / (all - one);
            return Ok(Self { border: 0.0, settle: short, root: 0.0, base: short - slope, slope });
        }
        let slope = (full - average) / (all - third);
        let base = average - slope * third;
        if base + slope < short - 1.0 {
            return Err(SpecError(format!(
                "seek.average = {} lies below the line from seek.track-to-track = {} to seek.full-stroke = {}: \
                 give a longer average or a shorter full stroke",
                seek.average, seek.track_to_track, seek.full_stroke
            )));
        }
        // settle + 2*slope*sqrt(x)*sqrt(d) touches the line at x.
        let touch = 1.0 + (1.0 + (base - short) / slope).max(0.0).sqrt();
        let border = touch * touch;
        if slope > 0.0 && border <= third {
            let root = 2.0 * slope * touch;
            return Ok(Self { border, settle: short - root, root, base, slope });
        }
        let root = (average - short) / (third.sqrt() - 1.0);
        Ok(Self { border: third, settle: short - root, root, base, slope })
    }

    /// ns over so many cylinders, settled for reading; 0 over none.
    #[inline]
    pub fn time(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let d = f64::from(distance);
        let ns =
            if d < self.border { self.settle + self.root * d.sqrt() } else { self.base + self.slope * d };
        // Rounded, not cut: the points of the data sheet are met.
        (ns + 0.5) as u64
    }
}
