// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much faster without a cause: an estimate with a range.
//!
//! Amdahl's law on the path says `1 / (1 - share)`. It holds where a cause's
//! time goes and nothing comes in its place, and nothing else goes with it.
//! Injected faults show where it does not: one large request in place of many
//! small ones saves their system calls too, and behind a queue that is gone
//! the next one forms. So the estimate is a power of Amdahl's factor, by what
//! replaces the time, and the range is a power and a factor for the noise.
//! The powers are fitted to the measured speed-ups of the fault suite
//! (docs/findings.md); nine of ten measured values are inside the range.

use serde::{Deserialize, Serialize};

/// What comes in the place of a cause's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Nothing: a delay, a limit, a sleep ends.
    Nothing,
    /// Fewer and larger operations; what the many cost elsewhere goes too.
    Batches,
    /// A shorter queue, or the next one: devices, locks and CPUs that are shared.
    Queues,
}

/// Factors by which the same work ends sooner, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    /// The middle of what is expected.
    pub estimate: f64,
    /// Nine of ten measured values lie between this and `high`.
    pub low: f64,
    pub high: f64,
}

impl Default for Speedup {
    fn default() -> Self {
        Self { estimate: 1.0, low: 1.0, high: 1.0 }
    }
}

/// Power of Amdahl's factor for the middle; power and factor for each end of the range.
struct Fit {
    middle: f64,
    low: (f64, f64),
    high: (f64, f64),
}

impl Replaced {
    fn fit(self) -> Fit {
        match self {
            Self::Nothing => Fit { middle: 1.0, low: (0.85, 0.85), high: (1.15, 1.18) },
            Self::Batches => Fit { middle: 1.5, low: (0.8, 0.92), high: (2.3, 1.15) },
            Self::Queues => Fit { middle: 0.9, low: (0.55, 0.85), high: (1.2, 1.18) },
        }
    }

    /// The speed-up without a cause that has `share` of the path's time, 0 to 1.
    pub fn speedup(self, share: f64) -> Speedup {
        let amdahl = 1.0 / (1.0 - share).max(0.001);
        let fit = self.fit();
        let at = |(power, factor): (f64, f64)| (amdahl.powf(power) * factor).max(1.0);
        Speedup { estimate: at((fit.middle, 1.0)), low: at(fit.low), high: at(fit.high) }
    }
}

impl Speedup {
    /// The range, as tables have it: `2.9-5.1x`.
    pub fn range(&self) -> String {
        let (low, high) = (factor(self.low), factor(self.high));
        if self.low >= 100.0 {
            return ">100x".into();
        }
        format!("{low}-{}{high}x", if self.high >= 100.0 { ">" } else { "" })
    }

    /// The range in words: `2.9x to 5.1x estimated speed-up`.
    pub fn words(&self) -> String {
        let of = |f: f64| format!("{}{}x", if f >= 100.0 { "over " } else { "" }, factor(f));
        match self.low >= 100.0 {
            true => format!("{} estimated speed-up", of(self.low)),
            false => format!("{} to {} estimated speed-up", of(self.low), of(self.high)),
        }
    }
}

/// A factor with two or three digits: `5.0`; `100` where it is more.
fn factor(f: f64) -> String {
    match f.min(100.0) {
        f if f >= 9.95 => format!("{f:.0}"),
        f if f >= 1.995 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_replaces_nothing_is_amdahls() {
        let s = Replaced::Nothing.speedup(0.75);
        assert!((s.estimate - 4.0).abs() < 1e-9);
        assert!(s.low < 4.0 && 4.0 < s.high);
        assert_eq!(Replaced::Nothing.speedup(0.0).low, 1.0, "nothing gets slower");
    }

    #[test]
    fn batches_save_more_and_queues_less() {
        let of = |r: Replaced| r.speedup(0.6).estimate;
        assert!(
            of(Replaced::Batches) > of(Replaced::Nothing) && of(Replaced::Nothing) > of(Replaced::Queues)
        );
    }

    #[test]
    fn ranges_have_a_digit_or_two() {
        let s = |low, high| Speedup { estimate: low, low, high };
        assert_eq!(s(1.076, 1.994).range(), "1.08-1.99x");
        assert_eq!(s(1.996, 12.4).words(), "2.0x to 12x estimated speed-up");
        assert_eq!(s(43.2, 250.0).words(), "43x to over 100x estimated speed-up");
        assert_eq!(s(43.2, 250.0).range(), "43->100x");
        assert_eq!(s(130.0, 250.0).words(), "over 100x estimated speed-up");
    }
}
