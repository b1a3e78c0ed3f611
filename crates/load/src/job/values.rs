// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values with a unit: read from a command line and from a job file in the
//! same words, and written in the words that are read. `json(String)` tells `cargo xtask gen` so.

use plumb_trace::units;
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Serialises through `Display`, reads text or a plain number through `FromStr`.
macro_rules! in_words {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged, expecting = "must be a number, or text like \"4K\" or \"10ms\"")]
                enum Given {
                    Whole(u64),
                    Real(f64),
                    Text(String),
                }
                let text = match Given::deserialize(d)? {
                    Given::Whole(n) => n.to_string(),
                    Given::Real(n) => n.to_string(),
                    Given::Text(text) => text,
                };
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// A length in bytes: `4096`, `64K`, `16M`, `1G`, `2T` (binary multiples).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(any(), json(String))]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        units::parse_bytes(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if n != 0 && n % (1 << shift) == 0 {
                return write!(f, "{}{unit}", n >> shift);
            }
        }
        write!(f, "{n}")
    }
}
in_words!(Bytes);

/// A length of time, ns: `10s`, `250ms`, `50us`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(any(), json(String))]
pub struct Time(pub u64);

impl FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "0" {
            return Ok(Time(0));
        }
        units::parse_duration(text).map(Time)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (scale, unit) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")] {
            if n != 0 && n % scale == 0 {
                return write!(f, "{}{unit}", n / scale);
            }
        }
        write!(f, "{n}ns")
    }
}
in_words!(Time);

/// Operations a second: `100`, `2.5k`, `1M`, `100/s`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(any(), json(String))]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a rate; examples: 100, 2.5k, 100/s");
        let t = text.trim().trim_end_matches("/s");
        let (number, scale) = match t.chars().last() {
            Some('k' | 'K') => (&t[..t.len() - 1], 1e3),
            Some('m' | 'M') => (&t[..t.len() - 1], 1e6),
            _ => (t, 1.0),
        };
        let rate = number.parse::<f64>().map_err(|_| bad())? * scale;
        if rate.is_finite() && rate > 0.0 {
            Ok(Rate(rate))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}
in_words!(Rate);

/// When a load is steady: over the last `window` seconds no second's rate is
/// further than `within` percent from their mean: `5%:10s`.
///
/// Source: SNIA Solid State Storage Performance Test Specification's steady
/// state (excursion from the mean inside a window), with seconds for rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(any(), json(String))]
pub struct Steady {
    /// Largest distance of a second's rate from the window's mean, percent.
    pub within: f64,
    /// The window, ns.
    pub window: Time,
}

impl FromStr for Steady {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a test for a steady state; example: 5%:10s");
        let (within, window) = text.split_once(':').ok_or_else(bad)?;
        let within: f64 = within.trim().trim_end_matches('%').parse().map_err(|_| bad())?;
        let window: Time = window.trim().parse().map_err(|_| bad())?;
        if !(within > 0.0 && within < 100.0) || window.0 < 2_000_000_000 {
            return Err(format!("'{text}': steady needs a percentage above 0 and a window of at least 2s"));
        }
        Ok(Steady { within, window })
    }
}

impl fmt::Display for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%:{}", self.within, self.window)
    }
}
in_words!(Steady);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_words_that_are_read() {
        for text in ["4K", "1", "3M", "2G", "5T", "1537", "1025G"] {
            assert_eq!(text.parse::<Bytes>().map(|b| b.to_string()), Ok(text.to_string()));
        }
        for text in ["10s", "250ms", "1us", "7ns"] {
            assert_eq!(text.parse::<Time>().map(|b| b.to_string()), Ok(text.to_string()));
        }
        assert_eq!("2.5k".parse::<Rate>(), Ok(Rate(2500.0)));
        assert_eq!("100/s".parse::<Rate>().map(|r| r.to_string()), Ok("100/s".into()));
        assert_eq!("5%:10s".parse::<Steady>().map(|r| r.to_string()), Ok("5%:10s".into()));
    }

    #[test]
    fn bad_values_are_named() {
        assert!("0".parse::<Rate>().is_err_and(|e| e.contains("'0'")));
        assert!("5%".parse::<Steady>().is_err_and(|e| e.contains("5%:10s")));
        assert!("5%:1s".parse::<Steady>().is_err_and(|e| e.contains("2s")));
        assert!("ten".parse::<Bytes>().is_err_and(|e| e.contains("'ten'")));
    }
}
