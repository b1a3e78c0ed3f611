// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What repetitions can tell: medians, bootstrap intervals, a permutation test,
//! and what is left of a difference when many lines were tested. Pure; the seed
//! is fixed, so that the same runs give the same words.

use crate::random::SplitMix64;
use serde::Serialize;

pub const RESAMPLES: usize = 10_000;
/// Below this many repetitions on a side no error can be known.
pub const FEWEST: usize = 3;
/// Share of the intervals that hold the true value.
pub const CONFIDENCE: f64 = 0.95;
/// Share of differences that may be found where there is none.
pub const LEVEL: f64 = 1.0 - CONFIDENCE;

const SEED: u64 = 0x706c_756d_6221;
/// Up to this many values the permutation test counts every permutation.
const EXACT: usize = 40;
/// Standard errors between no difference and one that is found four times in
/// five: the normal quantiles of 0.975 and of 0.8.
const POWER: f64 = 1.960 + 0.842;

/// The median; of an even number, the mean of the two in the middle. NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return f64::NAN;
    }
    let (below, &mut middle, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return middle;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (lower + middle) / 2.0
}

/// The arithmetic mean; NaN of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of values that are all there are, not a sample of more; NaN of none.
pub fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    (values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// An interval of `CONFIDENCE`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Whether no difference lies outside of it.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The middle `CONFIDENCE` of what the resamples gave.
pub fn percentiles(values: &mut [f64]) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let out = (values.len() as f64 * LEVEL / 2.0) as usize;
    Interval { low: values[out], high: values[values.len() - 1 - out] }
}

fn resampled_median(values: &[f64], room: &mut Vec<f64>, random: &mut SplitMix64) -> f64 {
    room.clear();
    room.extend((0..values.len()).map(|_| values[random.below(values.len() as u64) as usize]));
    median_in_place(room)
}

/// Percentile bootstrap of the median; none below `FEWEST` values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < FEWEST {
        return None;
    }
    let (mut random, mut room) = (SplitMix64::new(SEED), Vec::with_capacity(values.len()));
    let mut medians: Vec<f64> =
        (0..RESAMPLES).map(|_| resampled_median(values, &mut room, &mut random)).collect();
    Some(percentiles(&mut medians))
}

/// What the repetitions of two sides tell of the difference of their medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Median of B less median of A.
    pub interval: Interval,
    /// The same as a part of A's median; none where a resample of A has the median 0.
    pub relative: Option<Interval>,
    /// Standard error of the difference: the resamples' standard deviation.
    pub error: f64,
    /// Probability of ranks as far apart as these when the two sides are the same.
    pub p: f64,
}

impl Difference {
    /// Resamples both sides; none when one has fewer than `FEWEST` values.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::resampled(a, b, RESAMPLES)
    }

    fn resampled(a: &[f64], b: &[f64], resamples: usize) -> Option<Self> {
        if a.len() < FEWEST || b.len() < FEWEST {
            return None;
        }
        let (mut random, mut room) = (SplitMix64::new(SEED), Vec::with_capacity(a.len().max(b.len())));
        let (mut differences, mut ratios) = (Vec::with_capacity(resamples), Vec::with_capacity(resamples));
        for _ in 0..resamples {
            let from = resampled_median(a, &mut room, &mut random);
            let to = resampled_median(b, &mut room, &mut random);
            differences.push(to - from);
            if from != 0.0 {
                ratios.push((to - from) / from.abs());
            }
        }
        let error = deviation(&differences);
        Some(Self {
            interval: percentiles(&mut differences),
            relative: (ratios.len() == resamples).then(|| percentiles(&mut ratios)),
            error,
            p: rank_sum(a, b),
        })
    }

    /// Whether the two sides differ: the interval excludes zero, and as few as
    /// `LEVEL` of the permutations have ranks as far apart.
    pub fn found(&self) -> bool {
        self.interval.excludes_zero() && self.p <= LEVEL
    }

    /// A difference of this size would be found four times in five.
    pub fn smallest_detectable(&self) -> f64 {
        POWER * self.error
    }
}

/// Two-sided p of the rank-sum test (Wilcoxon, Mann and Whitney) by
/// permutation: every one up to `EXACT` values, else `RESAMPLES` drawn ones.
pub fn rank_sum(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    // Twice the rank, so that the mean rank of equal values is a whole number.
    let mut ranks = vec![0usize; all.len()];
    let mut i = 0;
    while i < all.len() {
        let same = all[i..].iter().take_while(|v| v.0 == all[i].0).count();
        ranks[i..i + same].fill(2 * i + same + 1);
        i += same;
    }
    let observed: usize = ranks.iter().zip(&all).filter(|(_, v)| v.1).map(|(r, _)| r).sum();
    let expected = a.len() * (all.len() + 1);
    let far = observed.abs_diff(expected);
    if all.len() <= EXACT {
        let (far_away, every) = count_subsets(&ranks, a.len(), |sum| sum.abs_diff(expected) >= far);
        return far_away / every;
    }
    let mut random = SplitMix64::new(SEED);
    let mut as_far = 1.0;
    for _ in 0..RESAMPLES {
        // The first a.len() places of a shuffle are a draw without replacement.
        for i in 0..a.len() {
            let j = i + random.below((ranks.len() - i) as u64) as usize;
            ranks.swap(i, j);
        }
        let sum: usize = ranks[..a.len()].iter().sum();
        as_far += f64::from(u8::from(sum.abs_diff(expected) >= far));
    }
    as_far / (RESAMPLES + 1) as f64
}

/// Subsets of `size` ranks, by their sum: those that `counts`, and all.
fn count_subsets(ranks: &[usize], size: usize, counts: impl Fn(usize) -> bool) -> (f64, f64) {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0f64; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for taken in (0..size).rev() {
            let (from, to) = ways.split_at_mut(taken + 1);
            for (sum, n) in from[taken].iter().enumerate().filter(|(_, n)| **n > 0.0) {
                to[0][sum + rank] += n;
            }
        }
    }
    let far = ways[size].iter().enumerate().filter(|(sum, _)| counts(*sum)).map(|(_, n)| n).sum();
    (far, ways[size].iter().sum())
}

/// Benjamini and Hochberg's q of each p: marking every line with q <= 5 %
/// keeps the expected share of false marks among the marked at 5 %.
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_unstable_by(|i, j| p[*j].total_cmp(&p[*i]));
    let mut q = vec![1.0; p.len()];
    let mut least = 1.0f64;
    for (above, i) in order.iter().enumerate() {
        least = least.min(p[*i] * p.len() as f64 / (p.len() - above) as f64);
        q[*i] = least;
    }
    q
}

/// Whether the most extreme ranks of so many values reach `LEVEL` at all: 4 and 4 do, 3 and 3 do not.
pub fn can_find(a: usize, b: usize) -> bool {
    let side = |from: usize, n: usize| (from..from + n).map(|v| v as f64).collect::<Vec<_>>();
    rank_sum(&side(0, a), &side(a, b)) <= LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(n: usize, middle: f64, random: &mut SplitMix64) -> Vec<f64> {
        (0..n).map(|_| middle + random.normal()).collect()
    }

    #[test]
    fn medians_and_means() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(deviation(&[1.0, 3.0, 1.0, 3.0]), 1.0);
    }

    #[test]
    fn permutations_of_ranks_as_in_the_tables() {
        // Complete separation: 2 of C(6, 3), C(8, 4) and C(10, 5) permutations.
        assert_eq!(rank_sum(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 2.0 / 20.0);
        assert_eq!(rank_sum(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), 2.0 / 70.0);
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(rank_sum(&low, &high), 2.0 / 252.0);
        assert_eq!(rank_sum(&high, &low), 2.0 / 252.0);
        // Two of the sums 3, 4, 5, 5, 6, 7 of two out of 1..4 are as far from 5 as 3.
        assert_eq!(rank_sum(&[1.0, 2.0], &[3.0, 4.0]), 2.0 / 6.0);
        assert_eq!(rank_sum(&[5.0; 6], &[5.0; 6]), 1.0, "equal values tell nothing");
        assert!(can_find(4, 4) && can_find(3, 5) && !can_find(3, 4) && !can_find(3, 3));
    }

    #[test]
    fn drawn_permutations_agree_with_counted_ones() {
        let mut random = SplitMix64::new(3);
        let (a, b) = (set(20, 0.0, &mut random), set(20, 0.7, &mut random));
        let counted = rank_sum(&a, &b);
        // One value in the middle more on each side moves the ranks by little, and draws are used.
        let more = |s: &[f64]| [s, &[median(&[a.clone(), b.clone()].concat())]].concat();
        let drawn = rank_sum(&more(&a), &more(&b));
        assert!((counted - drawn).abs() < 0.02, "{counted} {drawn}");
    }

    #[test]
    fn false_discovery_as_benjamini_and_hochberg_did_it() {
        let q = false_discovery(&[0.01, 0.04, 0.03, 0.005]);
        let want = [0.02, 0.04, 0.04, 0.02];
        assert!(q.iter().zip(want).all(|(q, w)| (q - w).abs() < 1e-12), "{q:?}");
        assert!(false_discovery(&[]).is_empty());
    }

    #[test]
    fn too_few_values_have_no_error() {
        assert_eq!(median_interval(&[1.0, 2.0]), None);
        assert_eq!(Difference::of(&[1.0, 2.0], &[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn the_same_values_give_the_same_interval_and_a_flipped_sign_the_flipped_one() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0], [11.0, 12.0, 13.0, 14.0, 15.0]);
        let d = Difference::of(&a, &b).expect("five each");
        assert_eq!(Some(d), Difference::of(&a, &b));
        assert!(d.interval.low > 0.0 && d.interval.low < 10.0 && d.interval.high > 10.0, "{d:?}");
        assert!(d.found());
        let back = Difference::of(&b, &a).expect("five each");
        assert!(back.interval.high < 0.0 && back.found(), "{back:?}");
        let relative = d.relative.expect("A is not 0");
        assert!(relative.low > 1.0 && relative.high < 15.0, "{relative:?}");
        assert_eq!(Difference::of(&[0.0; 5], &b).expect("five each").relative, None);
    }

    /// Of 2,000 pairs of sets of `n`, B's middle `shift` standard deviations above A's:
    /// shares of those whose interval holds the shift, and that are found to differ.
    fn simulate(n: usize, shift: f64) -> (f64, f64) {
        let (mut random, mut holds, mut found) = (SplitMix64::new(n as u64), 0, 0);
        for _ in 0..2000 {
            let (a, b) = (set(n, 100.0, &mut random), set(n, 100.0 + shift, &mut random));
            let d = Difference::resampled(&a, &b, 1000).expect("enough");
            holds += u32::from(d.interval.low <= shift && shift <= d.interval.high);
            found += u32::from(d.found());
        }
        (f64::from(holds) / 2000.0, f64::from(found) / 2000.0)
    }

    #[test]
    fn the_interval_holds_the_true_difference_and_nothing_is_found_where_nothing_is() {
        for n in [4, 5, 10, 20] {
            let (holds, found) = simulate(n, 0.0);
            assert!((0.90..=0.985).contains(&holds), "{n} each: {holds} of the intervals hold it");
            assert!(found <= 0.05, "{n} each: {found} false finds");
        }
        let (holds, _) = simulate(5, 2.0);
        assert!((0.90..=0.985).contains(&holds), "shifted: {holds}");
    }

    #[test]
    fn three_repetitions_have_an_interval_and_find_nothing() {
        let (holds, found) = simulate(3, 4.0);
        assert!((0.85..=0.98).contains(&holds), "{holds}");
        assert_eq!(found, 0.0);
    }

    #[test]
    fn a_shift_is_found() {
        for (n, sigmas, often) in [(5, 4.0, 0.95), (10, 2.5, 0.95), (20, 1.0, 0.5)] {
            let (_, found) = simulate(n, sigmas);
            assert!(found >= often, "{n} each, {sigmas} sigma: found in {found}");
        }
    }

    #[test]
    fn the_smallest_detectable_difference_is_found_four_times_in_five() {
        let (mut random, n) = (SplitMix64::new(9), 10);
        let errors: Vec<f64> = (0..500)
            .filter_map(|_| Difference::resampled(&set(n, 9.0, &mut random), &set(n, 9.0, &mut random), 500))
            .map(|d| d.smallest_detectable())
            .collect();
        let (_, found) = simulate(n, median(&errors));
        assert!((0.7..=0.92).contains(&found), "{} sigma: found in {found}", median(&errors));
    }

    #[test]
    fn the_median_of_ten_lies_in_its_interval() {
        let mut random = SplitMix64::new(4);
        let holds = (0..500).filter(|_| {
            let i = median_interval(&set(10, 100.0, &mut random)).expect("ten");
            i.low <= 100.0 && 100.0 <= i.high
        });
        let holds = holds.count();
        assert!((450..=490).contains(&holds), "{holds} of 500");
    }
}
