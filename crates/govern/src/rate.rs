// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much I/O a cgroup may do.

use plumb_trace::units;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A limit, of reads and of writes each. None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Bytes a second.
    pub bytes: Option<u64>,
    /// Requests a second.
    pub requests: Option<u64>,
}

impl Rate {
    /// What maintenance may do concurrently with foreground I/O where nothing is said. A rotational disk is away
    /// for a seek and a turn with every background request: one in 200 ms is what Takamura, Ugawa, Iwasaki
    /// ("Deadline I/O scheduler with low priority") take. Flash serves both at once, as long as background requests
    /// do not fill it.
    pub fn of_disk(rotational: bool) -> Rate {
        match rotational {
            true => Rate { bytes: Some(2_000_000), requests: Some(5) },
            false => Rate { bytes: Some(20_000_000), requests: Some(1000) },
        }
    }

    /// The narrower one of both, each for itself.
    pub fn least(self, other: Rate) -> Rate {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Rate { bytes: least(self.bytes, other.bytes), requests: least(self.requests, other.requests) }
    }

    /// Each number changed; one that would become 0 is 1, since the kernel takes 0 for no limit.
    pub fn map(self, change: impl Fn(u64) -> u64) -> Rate {
        Rate {
            bytes: self.bytes.map(|n| change(n).max(1)),
            requests: self.requests.map(|n| change(n).max(1)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.requests) {
            (None, None) => write!(f, "no limit"),
            (Some(b), None) => write!(f, "{}/s", megabytes(b)),
            (None, Some(r)) => write!(f, "{r} requests a second"),
            (Some(b), Some(r)) => write!(f, "{}/s and {r} requests a second", megabytes(b)),
        }
    }
}

/// Bytes in the unit of disks' data sheets, in which the defaults are told: `2 MB`, `2.1 MB`, `0.5 MB`.
pub fn megabytes(bytes: u64) -> String {
    let mb = bytes as f64 / 1e6;
    // Two digits that count, and of large ones no fraction.
    let digits = if bytes % 1_000_000 == 0 || mb >= 100.0 {
        0
    } else {
        (1.0 - mb.log10().floor()).clamp(1.0, 6.0) as usize
    };
    format!("{mb:.digits$} MB")
}

impl FromStr for Rate {
    type Err = String;

    /// `2M`, `2M/s`, `50iops`, `2M,50iops`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let bad = || {
            format!("'{text}' is no rate: say bytes a second (2M), requests a second (50iops) or both (2M,50iops)")
        };
        let mut rate = Rate::default();
        for part in text.split(',').map(str::trim) {
            let place = match part.strip_suffix("iops") {
                Some(number) => {
                    let number: u64 = number.trim().parse().map_err(|_| bad())?;
                    (&mut rate.requests, number)
                }
                None => {
                    let number = part.strip_suffix("/s").unwrap_or(part);
                    (&mut rate.bytes, units::parse_bytes(number).map_err(|_| bad())?)
                }
            };
            if place.1 == 0 || place.0.is_some() {
                return Err(bad());
            }
            *place.0 = Some(place.1);
        }
        Ok(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        let rate = |t: &str| t.parse::<Rate>();
        assert_eq!(rate("2M"), Ok(Rate { bytes: Some(2 << 20), requests: None }));
        assert_eq!(rate("2M/s,5iops"), Ok(Rate { bytes: Some(2 << 20), requests: Some(5) }));
        assert_eq!(rate("7iops"), Ok(Rate { bytes: None, requests: Some(7) }));
        for bad in ["", "0", "0iops", "fast", "1M,2M", "1iops,2iops", "-3", "5 iops a day"] {
            let said = rate(bad).expect_err(bad);
            assert!(said.contains("2M,50iops"), "{said}");
        }
    }

    #[test]
    fn a_rate_is_told_in_the_unit_of_the_table() {
        assert_eq!(Rate::of_disk(true).to_string(), "2 MB/s and 5 requests a second");
        assert_eq!(Rate::of_disk(false).to_string(), "20 MB/s and 1000 requests a second");
        let told: Vec<String> = [2 << 20, 50 << 20, 500_000, 1500, 1, 1 << 30].map(megabytes).into();
        assert_eq!(told, ["2.1 MB", "52.4 MB", "0.50 MB", "0.0015 MB", "0.000001 MB", "1074 MB"]);
    }

    #[test]
    fn the_narrower_of_two_is_taken_number_by_number() {
        let a = Rate { bytes: Some(10), requests: None };
        let b = Rate { bytes: Some(20), requests: Some(3) };
        assert_eq!(a.least(b), Rate { bytes: Some(10), requests: Some(3) });
        assert_eq!(a.least(Rate::default()), a);
        assert_eq!(a.map(|n| n / 100).bytes, Some(1), "0 would be no limit");
    }
}
