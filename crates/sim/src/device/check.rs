// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What no figure may be, whatever the model: so long or so slow that time runs over.

use super::Ns;
use plumb_load::job::{Bytes, Time};

/// The longest that one thing takes: a day.
pub(super) const LONGEST: Ns = 86_400_000_000_000;
/// The lowest rate, bytes a second.
const SLOWEST: u64 = 1000;

/// A key and what is wrong with its figure.
pub(super) type Wrong = (&'static str, String);

/// That these take a day at most.
pub(super) fn times(all: &[(&'static str, Time)]) -> Result<(), Wrong> {
    match all.iter().find(|(_, time)| time.0 > LONGEST) {
        Some((key, time)) => Err((key, format!("{time} is more than a day"))),
        None => Ok(()),
    }
}

/// That these rates are 1,000 bytes a second at least.
pub(super) fn rates(all: &[(&'static str, Bytes)]) -> Result<(), Wrong> {
    match all.iter().find(|(_, rate)| rate.0 < SLOWEST) {
        Some((key, rate)) => Err((key, format!("{rate} bytes a second is below {SLOWEST}"))),
        None => Ok(()),
    }
}

/// That these are not 0.
pub(super) fn counts(all: &[(&'static str, u64)]) -> Result<(), Wrong> {
    match all.iter().find(|(_, count)| *count == 0) {
        Some((key, _)) => Err((key, "must be above 0".into())),
        None => Ok(()),
    }
}
