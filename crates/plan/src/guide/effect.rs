// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a change did to the elapsed time, with its error.

use super::state::Verdict;
use plumb_stats::repetitions::{self, Difference};
use serde::{Deserialize, Serialize};

/// A smaller gain is not worth a change, as a part of the time before.
const LEAST: f64 = 0.02;

/// A smaller gain is confirmed: the state before is measured again, since the machine may have changed meanwhile.
const SURE: f64 = 0.1;

/// Elapsed time after a change against that before it, as parts of the median before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Below 0: faster.
    pub relative: f64,
    /// 95 % bootstrap interval.
    pub low: f64,
    pub high: f64,
    /// p of the rank-sum permutation test.
    pub p: f64,
    /// Above the noise: the interval excludes zero, and p is at most 5 %.
    pub found: bool,
}

impl Effect {
    /// None where too few repetitions allow no error.
    pub fn of(before: &[u64], after: &[u64]) -> Option<Effect> {
        let [a, b] = [before, after].map(|v| v.iter().map(|ns| *ns as f64).collect::<Vec<_>>());
        let difference = Difference::of(&a, &b)?;
        let relative = difference.relative?;
        let (from, to) = (repetitions::median(&a), repetitions::median(&b));
        Some(Effect {
            relative: (to - from) / from,
            low: relative.low,
            high: relative.high,
            p: difference.p,
            found: difference.found(),
        })
    }

    /// Whether a gain is so small that it is measured against the state before once more.
    pub fn is_small(&self) -> bool {
        self.relative > -SURE
    }

    pub fn verdict(&self) -> Verdict {
        match self.found {
            true if self.relative <= -LEAST => Verdict::Accepted,
            true if self.relative > 0.0 => Verdict::Worse,
            _ => Verdict::Noise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(before: &[u64], after: &[u64]) -> Verdict {
        Effect::of(before, after).expect("enough").verdict()
    }

    #[test]
    fn only_a_gain_above_the_noise_is_accepted() {
        let before = [1000, 1010, 990, 1005];
        assert_eq!(verdict(&before, &[700, 710, 705, 690]), Verdict::Accepted);
        assert_eq!(verdict(&before, &[1300, 1310, 1305, 1290]), Verdict::Worse);
        assert_eq!(verdict(&before, &[1002, 1011, 991, 1000]), Verdict::Noise);
        assert_eq!(verdict(&before, &[700, 1400, 705, 1390]), Verdict::Noise, "wide");
        assert_eq!(verdict(&before, &[985, 986, 987, 988]), Verdict::Noise, "below 2 %");
        assert_eq!(Effect::of(&before, &[1, 2]), None);
    }
}
