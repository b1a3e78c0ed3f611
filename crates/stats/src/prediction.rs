// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a predicted time will be when it is measured, by the errors of earlier predictions.

use crate::repetitions::{mean, Interval};
use crate::student::{quantile, two_sided};

/// The distribution of the errors of predictions: Student's t on the logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Mean of the logarithms of predicted over measured.
    offset: f64,
    /// Standard deviation of a new one's.
    scale: f64,
    freedom: f64,
}

impl Errors {
    /// Of errors that are logarithms of predicted over measured. `groups` of them are independent: errors of environments that are nearly
    /// the same are nearly the same too. None below two groups.
    pub fn of(errors: &[f64], groups: usize) -> Option<Self> {
        if groups < 2 || errors.len() < groups || errors.iter().any(|e| !e.is_finite()) {
            return None;
        }
        let (offset, n) = (mean(errors), groups as f64);
        let squares = errors.iter().map(|e| (e - offset).powi(2)).sum::<f64>() / errors.len() as f64;
        let variance = squares * n / (n - 1.0);
        Some(Self { offset, scale: (variance * (1.0 + 1.0 / n)).sqrt(), freedom: n - 1.0 })
    }

    /// The median of what is measured where this is predicted.
    pub fn middle(&self, predicted: f64) -> f64 {
        predicted * (-self.offset).exp()
    }

    /// Holds what is measured with 95 %.
    pub fn interval(&self, predicted: f64) -> Interval {
        let (middle, factor) = (self.middle(predicted), (quantile(self.freedom) * self.scale).exp());
        Interval { low: middle / factor, high: middle * factor }
    }

    /// The probability that more than `limit` is measured.
    pub fn above(&self, predicted: f64, limit: f64) -> f64 {
        let far = (limit / self.middle(predicted)).ln();
        if self.scale == 0.0 {
            return if far < 0.0 { 1.0 } else { 0.0 };
        }
        let tail = two_sided(far / self.scale, self.freedom) / 2.0;
        if far < 0.0 {
            1.0 - tail
        } else {
            tail
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::additive::{left_out, Sum};
    use crate::random::SplitMix64;

    #[test]
    fn known_answers() {
        // t with 4 degrees of freedom: 2.776 beyond which 2.5 % lie.
        let errors = Errors::of(&[-0.2, -0.1, 0.0, 0.1, 0.2], 5).expect("five");
        let scale = (0.025_f64 * 1.2).sqrt();
        let interval = errors.interval(100.0);
        assert!((interval.high - 100.0 * (2.7764 * scale).exp()).abs() < 0.1, "{interval:?}");
        assert!((errors.above(100.0, interval.high) - 0.025).abs() < 1e-5);
        assert!((errors.above(100.0, interval.low) - 0.975).abs() < 1e-5);
        assert!((errors.above(100.0, 100.0) - 0.5).abs() < 1e-9);
        // What was always predicted 10 % too high is less.
        let high = Errors::of(&[1.1_f64.ln(); 6], 6).expect("six");
        assert!((high.middle(110.0) - 100.0).abs() < 1e-9);
        assert_eq!((high.above(110.0, 101.0), high.above(110.0, 99.0)), (0.0, 1.0));
        assert_eq!(Errors::of(&[0.1, 0.1], 1), None);
        assert_eq!(Errors::of(&[0.1, f64::NAN, 0.2], 3), None);
    }

    /// Shares of 4,000 risks that are below 5 %, 50 % and 95 % of exceeding what is then measured: those are what they say.
    fn shares(errors: impl Fn(&mut SplitMix64) -> (Vec<f64>, usize)) -> [f64; 3] {
        let mut random = SplitMix64::new(11);
        let mut below = [0.0; 3];
        for _ in 0..4000 {
            let (known, groups) = errors(&mut random);
            let measured = (-0.1 - 0.2 * random.normal()).exp();
            let risk = Errors::of(&known, groups).expect("enough").above(1.0, measured);
            [0.05, 0.5, 0.95].iter().zip(&mut below).for_each(|(at, n)| *n += f64::from(risk < *at));
        }
        below.map(|n| n / 4000.0)
    }

    #[test]
    fn the_risk_is_right_as_often_as_it_says() {
        let normal = |random: &mut SplitMix64| 0.1 + 0.2 * random.normal();
        let near = |shares: [f64; 3], by: f64| {
            let off = shares.iter().zip([0.05, 0.5, 0.95]).map(|(is, should)| (is - should).abs());
            assert!(off.fold(0.0, f64::max) < by, "{shares:?}");
        };
        near(shares(|random| ((0..8).map(|_| normal(random)).collect(), 8)), 0.02);
        // Each error twice, as of two file systems on a disk: as groups right, as independent ones too sure.
        let twice = |random: &mut SplitMix64| -> Vec<f64> {
            (0..5).map(|_| normal(random)).flat_map(|e| [e, e]).collect()
        };
        near(shares(|random| (twice(random), 5)), 0.02);
        let sure = shares(|random| (twice(random), 10));
        assert!(sure[0] > 0.07 && sure[2] < 0.93, "{sure:?}");
    }

    #[test]
    fn the_risk_of_a_sum_that_was_fitted_is_right_too() {
        let mut random = SplitMix64::new(3);
        let mut below = [0.0; 3];
        for _ in 0..600 {
            let others: Vec<Vec<f64>> =
                (0..17).map(|_| (0..4).map(|_| random.normal().exp()).collect()).collect();
            let mut time = |o: &Vec<f64>| (250.0 * o[1] + 30.0 * o[3] + 5.0) * (0.15 * random.normal()).exp();
            let times: Vec<f64> = others.iter().map(&mut time).collect();
            let all: Vec<usize> = (0..16).collect();
            let errors = left_out(&others[..16], &times[..16], &all);
            let errors: Vec<f64> = errors.iter().map(|e| (1.0 + e).ln()).collect();
            let predicted = Sum::best(&others, &times, &all).expect("a sum").of(&others[16]);
            let risk = Errors::of(&errors, 16).expect("enough").above(predicted, times[16]);
            [0.05, 0.5, 0.95].iter().zip(&mut below).for_each(|(at, n)| *n += f64::from(risk < *at) / 600.0);
        }
        assert!(below[0] < 0.09 && (below[1] - 0.5).abs() < 0.07 && below[2] > 0.91, "{below:?}");
    }
}
