// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knobs of lp-deadline: names, units and limits are those of the policy's own table.

use super::policy::{defaults, rows, Row};
use crate::spec::SpecError;

/// A value for each row of the policy's table, in ns or as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LpKnobs {
    values: Vec<u64>,
    rotational: bool,
}

impl LpKnobs {
    /// The policy's defaults for a disk that turns, or one that does not.
    pub fn new(rotational: bool) -> Self {
        Self { values: defaults(rotational), rotational }
    }

    /// The values, in the order of the table.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The kind of disk whose defaults they began as.
    pub fn rotational(&self) -> bool {
        self.rotational
    }

    /// A knob's value, in ns or as a number.
    pub fn get(&self, name: &str) -> Option<u64> {
        rows().iter().position(|r| r.name == name).map(|row| self.values[row])
    }

    /// Every knob as sysfs shows it.
    pub fn shown(&self) -> Vec<String> {
        rows()
            .iter()
            .zip(&self.values)
            .map(|(row, value)| format!("{}={}", row.name, value / row.unit))
            .collect()
    }

    /// Sets a knob in the unit of sysfs.
    ///
    /// # Errors
    /// No such knob (all are told), or a value that it cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let rows = rows();
        let Some(at) = rows.iter().position(|r| r.name == name) else {
            let all = rows.iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
            return Err(SpecError(format!("lp-deadline has no knob '{name}'; it has {all}")));
        };
        let row = &rows[at];
        let wide = value.parse::<u64>().ok().and_then(|n| n.checked_mul(row.unit));
        let Some(wide) = wide.filter(|n| (row.least..=row.most).contains(n)) else {
            let (least, most) = (row.least / row.unit, row.most / row.unit);
            return Err(SpecError(format!("{name}={value}: {name} is {} from {least} to {most}", unit(row))));
        };
        self.values[at] = wide;
        Ok(())
    }
}

/// What a knob counts, in words.
pub fn unit(row: &Row) -> &'static str {
    match (row.time, row.unit) {
        (true, 1_000_000) => "a time in ms",
        (true, 1_000) => "a time in us",
        (true, _) => "a time in ns",
        _ => "a whole number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_set_in_the_unit_of_sysfs_and_within_their_limits() {
        let mut knobs = LpKnobs::new(true);
        assert_eq!(knobs.get("idle_dispatch_interval"), Some(1_500_000_000));
        assert_eq!(LpKnobs::new(false).get("idle_dispatch_interval"), Some(400_000));
        for (name, value, ns) in [
            ("idle_dispatch_interval", "3000", 3_000_000),
            ("read_expire", "20", 20_000_000),
            ("low_depth", "7", 7),
        ] {
            knobs.set(name, value).expect(name);
            assert_eq!(knobs.get(name), Some(ns), "{name}");
            assert!(knobs.shown().contains(&format!("{name}={value}")), "{:?}", knobs.shown());
        }
        for (name, value, word) in [
            ("idle_interval", "1", "idle_dispatch_interval, batch_mode_delay"),
            ("low_slots", "0", "a whole number from 1 to 100"),
            ("batch_mode_delay", "5s", "a time in us from 0 to 3600000000"),
            ("write_expire", "18446744073709551615", "a time in ms"),
        ] {
            let said = knobs.set(name, value).expect_err(name).0;
            assert!(said.contains(word), "{said}");
        }
        assert_eq!(knobs.get("low_slots"), Some(50));
    }
}
