// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rotation speed of the target's disk, as `--rpm` gives it.

use std::str::FromStr;

/// Disks of computers turned 3,600 to 15,000 times a minute; a model may be slower or faster.
const RANGE: std::ops::RangeInclusive<f64> = 60.0..=60_000.0;

/// Revolutions per minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rpm(f64);

impl Rpm {
    pub fn turn_ns(self) -> u64 {
        (60e9 / self.0).round() as u64
    }
}

impl FromStr for Rpm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(rpm) if RANGE.contains(&rpm) => Ok(Rpm(rpm)),
            _ => Err(format!(
                "must be revolutions per minute from {} to {}, as in 7200 or 10000",
                RANGE.start(),
                RANGE.end()
            )),
        }
    }
}

#[test]
fn a_speed_is_a_turn_and_nonsense_is_none() {
    let turn = |text: &str| text.parse().map(Rpm::turn_ns);
    assert_eq!((turn("10000"), turn("7200")), (Ok(6_000_000), Ok(8_333_333)));
    for bad in ["0", "1e9", "-7200", "nan", "inf", "", "7200rpm"] {
        let said = turn(bad).expect_err(bad);
        assert!(said.contains("60 to 60000"), "{said}");
    }
}
