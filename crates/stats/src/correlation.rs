// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How two figures go together over the same points.

use crate::repetitions::Interval;
use crate::student::two_sided;
use serde::Serialize;

/// Fewest points of which anything is said.
pub const FEWEST: usize = 4;

/// Two figures over `n` points, both on the logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Correlation {
    pub n: usize,
    /// Pearson's coefficient of the logarithms, -1 to 1.
    pub r: f64,
    /// Its 95 % interval (Fisher's z).
    pub interval: Interval,
    /// Spearman's coefficient: of the ranks alone, equal ones having their mean.
    pub rank: f64,
    /// Probability of an `r` so far from 0 where the two have nothing in common (t with n - 2 degrees of freedom).
    pub p: f64,
}

impl Correlation {
    /// Of positive figures; none of fewer than [`FEWEST`] points, or where one of the two is the same everywhere.
    pub fn of(x: &[f64], y: &[f64]) -> Option<Self> {
        let n = x.len();
        if n < FEWEST || y.len() != n || x.iter().chain(y).any(|v| !v.is_finite() || *v <= 0.0) {
            return None;
        }
        let log = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<_>>();
        let r = pearson(&log(x), &log(y))?;
        let rank = pearson(&ranks(x), &ranks(y))?;
        let half = 1.959_964 / ((n - 3) as f64).sqrt();
        let z = r.clamp(-1.0 + 1e-15, 1.0 - 1e-15).atanh();
        let freedom = (n - 2) as f64;
        let t = r * (freedom / (1.0 - r * r).max(f64::MIN_POSITIVE)).sqrt();
        Some(Self {
            n,
            r,
            interval: Interval { low: (z - half).tanh(), high: (z + half).tanh() },
            rank,
            p: two_sided(t, freedom),
        })
    }
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| of(x - mx, y - my)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    // What rounding leaves of equal figures is no difference.
    let varies = |squares: f64, mean: f64| squares > n * (mean.abs() * 1e-12 + 1e-15).powi(2);
    (varies(xx, mx) && varies(yy, my)).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Ranks from 1; equal ones have their mean.
fn ranks(values: &[f64]) -> Vec<f64> {
    let of = |v: &f64| {
        let below = values.iter().filter(|w| *w < v).count();
        let same = values.iter().filter(|w| *w == v).count();
        below as f64 + (same + 1) as f64 / 2.0
    };
    values.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn known_answers() {
        // Pearson of the logarithms 0..4 and their squares: 8 / sqrt(2 * 34.8) by hand, over 5 points.
        let x: Vec<f64> = (0..5).map(|i| f64::from(i).exp()).collect();
        let y: Vec<f64> = (0..5).map(|i| f64::from(i * i).exp()).collect();
        let found = Correlation::of(&x, &y).expect("varies");
        assert!((found.r - 0.958_927).abs() < 1e-6, "{found:?}");
        assert!((found.rank - 1.0).abs() < 1e-12);
        // Fisher: atanh(0.958927) = 1.9321, 1.96 / sqrt(2) = 1.3859.
        assert!(
            (found.interval.low - 0.4977).abs() < 1e-3 && (found.interval.high - 0.9974).abs() < 1e-3,
            "{found:?}"
        );
        let ties = Correlation::of(&[1.0, 1.0, 2.0, 3.0], &[4.0, 4.0, 3.0, 1.0]).expect("varies");
        assert!((ties.rank + 1.0).abs() < 1e-12, "{ties:?}");
    }

    #[test]
    fn too_few_or_equal_points_say_nothing() {
        assert_eq!(Correlation::of(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(Correlation::of(&[1.0, 2.0, 3.0, 4.0], &[5.0; 4]), None);
        assert_eq!(Correlation::of(&[1.0, 2.0, 3.0, 0.0], &[1.0, 2.0, 3.0, 4.0]), None);
    }

    #[test]
    fn p_and_interval_are_right_as_often_as_they_say() {
        let mut random = SplitMix64::new(7);
        let (mut wrong, mut outside) = (0, 0);
        for _ in 0..2000 {
            let common: Vec<f64> = (0..12).map(|_| random.normal()).collect();
            let mut noise = |weight: f64| -> Vec<f64> {
                common.iter().map(|c| (c * weight + random.normal()).exp()).collect()
            };
            let (a, b) = (noise(0.0), noise(0.0));
            wrong += usize::from(Correlation::of(&a, &b).expect("varies").p < 0.05);
            // Both have the common part and as much of their own: r = 0.5.
            let (a, b) = (noise(1.0), noise(1.0));
            let interval = Correlation::of(&a, &b).expect("varies").interval;
            outside += usize::from(!(interval.low..=interval.high).contains(&0.5));
        }
        assert!((70..=130).contains(&wrong), "5 % of 2000 are 100: {wrong}");
        assert!((60..=140).contains(&outside), "{outside}");
    }
}
