// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many runs a full scan takes, which measures every version equally often.

use crate::student::two_sided;

/// Repetitions beyond which nobody scans.
const MOST: u32 = 100_000;

/// Probability that a standard normal value is above x >= 0: a t of many degrees of freedom, to 1e-4 of itself.
fn above(x: f64) -> f64 {
    two_sided(x, 1e6) / 2.0
}

/// Probability that the most likely change point is another one than the true one, where each version was measured
/// `repetitions` times and levels that lie `distance` standard deviations apart are known.
///
/// Towards either side the likelihood is a random walk that must stay below its beginning for ever; by Spitzer's
/// identity (Trans. AMS 82, 1956) it does so with the probability exp(-sum of P(step k is above) / k).
pub fn error(distance: f64, repetitions: u32) -> f64 {
    let one = distance * f64::from(repetitions).sqrt() / 2.0;
    let sum: f64 = (1..500).map(|k| above(one * f64::from(k).sqrt()) / f64::from(k)).sum();
    1.0 - (-2.0 * sum).exp()
}

/// Repetitions of each version that bring the error to `most`; none where 100,000 do not.
pub fn repetitions(distance: f64, most: f64) -> Option<u32> {
    let enough = |r: u32| error(distance, r) <= most;
    let mut high = 1;
    while !enough(high) {
        high *= 2;
        if high > MOST {
            return None;
        }
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn the_error_of_a_scan_is_the_one_that_it_has() {
        assert!((above(1.959_96) - 0.025).abs() < 1e-5 && (above(0.0) - 0.5).abs() < 1e-9);
        let (versions, distance, mut random) = (64_usize, 5.0 / 3.0, SplitMix64::new(5));
        for repetitions in [2, 6] {
            let wrong = (0..4000).filter(|_| {
                let change = 20 + random.below(24) as usize;
                let noise = 1.0 / f64::from(repetitions).sqrt();
                let value = |v: usize, r: &mut SplitMix64| if v >= change { distance } else { 0.0 } + noise * r.normal();
                let values: Vec<f64> = (0..versions).map(|v| value(v, &mut random)).collect();
                // The likelihood of a change at c grows by this with each version that is below it.
                let mut walk = 0.0;
                let (mut best, mut most) = (0, 0.0);
                for (v, value) in values.iter().enumerate() {
                    walk += distance / 2.0 - value;
                    if walk > most {
                        (best, most) = (v + 1, walk);
                    }
                }
                best != change
            });
            let (got, want) = (wrong.count() as f64 / 4000.0, error(distance, repetitions));
            assert!((got - want).abs() < 0.02, "{repetitions}: {got} {want}");
        }
    }

    #[test]
    fn more_noise_takes_more_repetitions() {
        assert_eq!(repetitions(5.0 / 3.0, 0.05), Some(6));
        assert_eq!(repetitions(20.0, 0.05), Some(1));
        let fine = repetitions(1.0 / 3.0, 0.05).expect("some");
        assert!((120..180).contains(&fine), "{fine}");
        assert_eq!(repetitions(0.0, 0.05), None);
    }
}
