// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change that many blocks (hosts) went through, each with several values before and after it: what it did to all of
//! them, and which of them it did something else to.
//!
//! Values of a block vary by s from run to run, and blocks' own changes by tau around the common one (a mixed-effects model
//! in two stages). s is pooled; tau by Paule and Mandel (1982); the interval of the common change by Hartung and Knapp
//! (2001), with their factor at least 1. What one block did is compared with the median of all, so that the few that differ do not hide
//! themselves.

use crate::repetitions::{mean, median, Interval};
use crate::student::{quantile, two_sided, Welch};
use std::f64::consts::FRAC_PI_2;

/// Values that each side of a block must have for the block to be judged alone.
pub const FEWEST: usize = 3;
/// Largest q (Benjamini and Hochberg, among all that was asked) with which a block is said to have changed in another way: an
/// accusation by name, of which one in a thousand may be wrong.
pub const ACCUSED: f64 = 0.001;
/// Of fewer blocks it cannot be said which of them is another one.
pub const FEWEST_BLOCKS: usize = 8;
/// Standard deviations from the median from which on a value is drawn nearer.
const FAR: f64 = 3.0;
/// Sides with fewer values are judged by all of them, others by their middle.
const FEW: usize = 8;
/// A block's own values, drawn nearer from so many deviations on, are far enough apart where [`Welch`] finds this: of few, and of
/// more, of which two odd ones in ten would hide a change that doubles them. By chance at most 2 blocks in 10,000 are, with 5, 10
/// or 20 values a side, normal or with 3 odd ones in 100.
const OWN: [(f64, f64); 2] = [(FAR, 1e-4), (2.0, 1e-5)];
/// Deviations that must lie between the middles of its sides besides.
const GAP: f64 = 1.0;
/// Makes the median of distances a standard deviation, of normal values.
const MAD: f64 = 1.4826;

/// The values of one block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    pub before: Vec<f64>,
    pub after: Vec<f64>,
}

impl Block {
    /// Whether there is anything to compare.
    pub fn has_both(&self) -> bool {
        !self.before.is_empty() && !self.after.is_empty()
    }

    fn change(&self) -> f64 {
        median(&self.after) - median(&self.before)
    }

    /// Its change's variance, as a part of a value's: that of medians of normal values, to 15 % from three values on.
    fn part(&self) -> f64 {
        let of_median = |values: &[f64]| FRAC_PI_2 / (values.len() as f64 + FRAC_PI_2 - 1.0);
        of_median(&self.before) + of_median(&self.after)
    }
}

/// How one block changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Own {
    /// Median of its values after less the median before: it hardly moves when three of ten runs are odd.
    pub change: f64,
    /// Probability of a change so far from the median of all blocks' where it changed as they did, by the spread of all
    /// blocks' values; that of its own values alone where these do not bear it out. None where it has too few values, or there
    /// are too few blocks.
    pub p: Option<f64>,
}

/// What the change did.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The mean change of blocks.
    pub mean: f64,
    /// Where the mean change lies, of 95 in 100 such; none of one block whose values do not vary.
    pub interval: Option<Interval>,
    /// Probability of a mean change so large where there is none.
    pub p: Option<f64>,
    /// The median of the blocks' changes.
    pub median: f64,
    /// Standard deviation of blocks' own changes around the mean.
    pub between: f64,
    /// One for each block, in their order; none for those without values on one side.
    pub blocks: Vec<Option<Own>>,
}

impl Change {
    /// None where no block has values on both sides.
    pub fn of(blocks: &[Block]) -> Option<Self> {
        let both: Vec<Block> = blocks.iter().filter(|b| b.has_both()).cloned().collect();
        if both.is_empty() {
            return None;
        }
        let both = tamed(both, FAR);
        let (variance, freedom) = pooled(&both);
        let changes: Vec<f64> = both.iter().map(|b| b.change()).collect();
        let parts: Vec<f64> = both.iter().map(|b| b.part() * variance).collect();
        let middle = median(&changes);
        let between = paule_mandel(&changes, &parts);
        let (mean, error, of_mean) = common(&changes, &parts, between, freedom);
        let known = error > 0.0 && of_mean >= 1.0;
        let (scale, of_scale) = spread(&changes, &parts, middle);
        let freedom = freedom.min(of_scale);
        let own = |block: &Block, change: f64, part: f64| {
            let of_all = two_sided((change - middle) / (part.sqrt() * scale), freedom);
            let alone = alone(block, middle).filter(|_| both.len() >= FEWEST_BLOCKS);
            Own { change, p: alone.map(|own| own.map_or(of_all, |p| p.max(of_all))) }
        };
        let whole = blocks.iter().filter(|b| b.has_both());
        let mut own = whole.zip(changes.iter().zip(&parts)).map(|(b, (c, p))| own(b, *c, *p));
        Some(Self {
            mean,
            interval: known.then(|| {
                let half = quantile(of_mean) * error;
                Interval { low: mean - half, high: mean + half }
            }),
            p: known.then(|| two_sided(mean / error, of_mean)),
            median: middle,
            between: between.sqrt(),
            blocks: blocks.iter().map(|b| if b.has_both() { own.next() } else { None }).collect(),
        })
    }
}

/// A value's standard deviation around its side's median, which odd ones hardly widen; none of sides that are all too short.
fn deviation(blocks: &[Block]) -> f64 {
    let mut far = Vec::new();
    for side in blocks.iter().flat_map(|b| [&b.before, &b.after]).filter(|s| s.len() >= FEWEST) {
        // Around a median that was taken of them values lie closer than around the true one.
        let (middle, wider) = (median(side), (side.len() as f64 / (side.len() as f64 - 1.0)).sqrt());
        far.extend(side.iter().map(|v| (v - middle).abs() * wider));
    }
    MAD * median(&far)
}

/// Values that lie more than `far` standard deviations from their side's median are drawn nearer (Winsor's way): beyond three are
/// a quarter of a percent of normal values, and of latencies that now and then are three times as long enough to hide what changed.
fn tamed(mut blocks: Vec<Block>, far: f64) -> Vec<Block> {
    let most = far * deviation(&blocks);
    if most > 0.0 {
        for side in blocks.iter_mut().flat_map(|b| [&mut b.before, &mut b.after]) {
            let middle = median(side);
            side.iter_mut().for_each(|v| *v = v.clamp(middle - most, middle + most));
        }
    }
    blocks
}

/// A value's variance around its block's and side's mean, and its degrees of freedom.
fn pooled(blocks: &[Block]) -> (f64, f64) {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for side in blocks.iter().flat_map(|b| [&b.before, &b.after]) {
        let middle = mean(side);
        squares += side.iter().map(|v| (v - middle).powi(2)).sum::<f64>();
        freedom += side.len() as f64 - 1.0;
    }
    (if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom)
}

fn weighted(changes: &[f64], weights: &[f64]) -> f64 {
    changes.iter().zip(weights).map(|(c, w)| c * w).sum::<f64>() / weights.iter().sum::<f64>()
}

/// The variance of blocks' changes, beyond that of their values, with which the weighted squares are as many as expected.
fn paule_mandel(changes: &[f64], parts: &[f64]) -> f64 {
    let free = changes.len() as f64 - 1.0;
    let squares = |between: f64| {
        let weights: Vec<f64> = parts.iter().map(|p| 1.0 / (p + between).max(1e-30)).collect();
        let middle = weighted(changes, &weights);
        changes.iter().zip(&weights).map(|(c, w)| w * (c - middle).powi(2)).sum::<f64>()
    };
    if free < 1.0 || squares(0.0) <= free {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1e-12f64);
    while squares(high) > free && high < 1e30 {
        high *= 4.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if squares(middle) > free {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Mean change, its standard error, and that one's degrees of freedom.
fn common(changes: &[f64], parts: &[f64], between: f64, freedom: f64) -> (f64, f64, f64) {
    if let ([change], [part]) = (changes, parts) {
        return (*change, part.sqrt(), freedom);
    }
    let weights: Vec<f64> = parts.iter().map(|p| 1.0 / (p + between).max(1e-30)).collect();
    let (mean, free) = (weighted(changes, &weights), changes.len() as f64 - 1.0);
    let squares: f64 = changes.iter().zip(&weights).map(|(c, w)| w * (c - mean).powi(2)).sum();
    (mean, ((squares / free).max(1.0) / weights.iter().sum::<f64>()).sqrt(), free)
}

/// How much wider blocks' changes lie around their median than their values alone would make them, at least 1; and its degrees of
/// freedom, where it is more than 1: those of a median distance are about 0.37 of a standard deviation's.
fn spread(changes: &[f64], parts: &[f64], middle: f64) -> (f64, f64) {
    let far: Vec<f64> = changes.iter().zip(parts).map(|(c, p)| ((c - middle) / p.sqrt()).abs()).collect();
    let scale = MAD * median(&far);
    // Values that never vary: no block can be distinguished by them.
    if !scale.is_finite() {
        return (f64::INFINITY, 1.0);
    }
    if scale <= 1.0 {
        return (1.0, f64::INFINITY);
    }
    (scale, (0.37 * (changes.len() as f64 - 1.0)).max(0.1))
}

/// Probability of the block's change by its own values alone, unless these are far enough apart: a noisy block is not another
/// one. None where they are too few, or do not vary.
fn alone(block: &Block, middle: f64) -> Option<Option<f64>> {
    let fewest = block.before.len().min(block.after.len());
    if fewest < FEWEST {
        return None;
    }
    let own = std::slice::from_ref(block);
    let (far, level) = OWN[usize::from(fewest >= FEW)];
    let (deviation, tamed) = (deviation(own), tamed(own.to_vec(), far));
    let moved = |values: &[f64]| values.iter().map(|v| v - middle).collect::<Vec<_>>();
    let welch = Welch::of(&tamed[0].before, &moved(&tamed[0].after), 0.0)?;
    // Where three values of five are odd, or six of ten, the median is one of them, and the others are drawn to it: the sides
    // differ, and their values overlap.
    if !apart(&block.before, &moved(&block.after), GAP * deviation) {
        return Some(Some(1.0));
    }
    Some(Some(welch.p).filter(|p| *p > level))
}

/// Whether the middles of two sides have more than `gap` between them: of few values all, else all but three tenths at either end.
fn apart(a: &[f64], b: &[f64], gap: f64) -> bool {
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let out = if sorted.len() < FEW { 0 } else { sorted.len() * 3 / 10 };
        (sorted[out], sorted[sorted.len() - 1 - out])
    };
    let (a, b) = (middle(a), middle(b));
    a.0 > b.1 + gap || b.0 > a.1 + gap
}

/// Probability of `both` or more things of two kinds at once among `all`, of which `one` are of the first and `other` of the second, where
/// the kinds have nothing to do with each other (Fisher's exact test, one side).
pub fn together(all: u64, one: u64, other: u64, both: u64) -> f64 {
    let ln_choose = |n: u64, k: u64| {
        use crate::student::ln_gamma;
        ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0)
    };
    let least = both.max((one + other).saturating_sub(all));
    (least..=one.min(other))
        .map(|k| (ln_choose(one, k) + ln_choose(all - one, other - k) - ln_choose(all, other)).exp())
        .sum::<f64>()
        .min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use crate::repetitions::false_discovery;

    /// Hosts with runs of which some are odd: a few percent take three times as long.
    fn fleet(hosts: usize, runs: usize, seed: u64, change: impl Fn(usize) -> f64) -> Vec<Block> {
        let mut random = SplitMix64::new(seed);
        let mut value = |middle: f64| {
            let odd = if random.unit() < 0.03 { 3f64.ln() } else { 0.0 };
            middle + 0.1 * random.normal() + odd
        };
        (0..hosts)
            .map(|h| Block {
                before: (0..runs).map(|_| value(h as f64 / 50.0)).collect(),
                after: (0..runs).map(|_| value(h as f64 / 50.0 + change(h))).collect(),
            })
            .collect()
    }

    /// Blocks that are told apart, among as many questions as `tested`.
    fn accused(change: &Change, tested: usize) -> Vec<usize> {
        let mut p: Vec<f64> = change.blocks.iter().map(|b| b.and_then(|b| b.p).unwrap_or(1.0)).collect();
        let blocks = p.len();
        p.resize(tested.max(blocks), 1.0);
        let q = false_discovery(&p);
        (0..blocks).filter(|i| q[*i] <= ACCUSED).collect()
    }

    #[test]
    fn the_seven_that_changed_are_found_and_nobody_else() {
        let (slow, mut missed) = ([3, 32, 61, 90, 119, 148, 177], 0);
        for seed in 0..200 {
            let blocks = fleet(200, 10, seed, |h| if slow.contains(&h) { 2f64.ln() } else { 0.0 });
            let accused = accused(&Change::of(&blocks).expect("a change"), 2000);
            assert!(accused.iter().all(|h| slow.contains(h)), "seed {seed}: {accused:?}");
            assert!(seed >= 20 || accused == slow, "seed {seed}: {accused:?}");
            missed += slow.len() - accused.len();
        }
        // Of 1,400; four of a host's ten runs may be odd.
        assert!(missed <= 2, "{missed}");
        for seed in 0..20 {
            let none = Change::of(&fleet(200, 10, seed + 100, |_| 0.0)).expect("no change");
            assert_eq!(accused(&none, 2000), [0; 0], "seed {seed}");
            assert!(none.mean.abs() < 0.02 && none.p.is_some_and(|p| p > 0.001), "{none:?}");
        }
    }

    #[test]
    fn the_interval_holds_the_change_as_often_as_it_says() {
        // Each host changes by an amount of its own around 10 %.
        let mut held = 0;
        for seed in 0..400 {
            let mut random = SplitMix64::new(seed ^ 0xb10c);
            let own: Vec<f64> = (0..12).map(|_| 0.1 + 0.05 * random.normal()).collect();
            let blocks = fleet(12, 4, seed, |h| own[h]);
            let interval = Change::of(&blocks).and_then(|c| c.interval).expect("an interval");
            held += u32::from(interval.low <= 0.1 && 0.1 <= interval.high);
        }
        // 380 of 400, within three standard deviations; the factor of at least 1 makes it wider.
        assert!((367..=397).contains(&held), "{held} of 400");
    }

    #[test]
    fn a_fleet_that_moves_as_a_whole_accuses_nobody() {
        let blocks = fleet(50, 8, 7, |_| 0.4);
        let change = Change::of(&blocks).expect("a change");
        assert!((change.mean - 0.4).abs() < 0.05 && change.p.is_some_and(|p| p < 1e-9), "{change:?}");
        assert_eq!(accused(&change, 50), [0; 0]);
    }

    #[test]
    fn hosts_that_are_noisier_or_few_are_not_accused() {
        let (mut noisy, mut few) = (0, 0);
        for seed in 0..200 {
            let mut blocks = fleet(100, 10, seed, |_| 0.0);
            let mut random = SplitMix64::new(seed ^ 0x0001_015e);
            for side in [0, 1] {
                let values = (0..10).map(|_| random.normal());
                let block = &mut blocks[7];
                if side == 0 {
                    block.before = values.collect()
                } else {
                    block.after = values.collect()
                }
            }
            // Three of five runs of a host are odd now and then.
            let halves = fleet(200, 5, seed, |_| 0.0);
            noisy += accused(&Change::of(&halves).expect("no change"), 2000).len();
            noisy += accused(&Change::of(&blocks).expect("no change"), 1000).len();
            // Few hosts, each with a change of its own.
            let hosts = 3 + seed as usize % 12;
            let own: Vec<f64> = (0..hosts).map(|_| 0.3 * random.normal()).collect();
            few += accused(&Change::of(&fleet(hosts, 10, seed, |h| own[h])).expect("a change"), 10 * hosts)
                .len();
        }
        assert!(noisy <= 2 && few <= 2, "{noisy} noisy, {few} of few");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let block = |before: &[f64], after: &[f64]| Block { before: before.into(), after: after.into() };
        assert_eq!(Change::of(&[block(&[1.0], &[])]), None);
        let one = Change::of(&[block(&[1.0], &[2.0])]).expect("a change");
        assert_eq!((one.mean, one.interval, one.p), (1.0, None, None), "one block, no error");
        let same = [block(&[1.0; 3], &[2.0; 3]), block(&[1.0; 3], &[2.0; 3]), block(&[], &[1.0])];
        let same = Change::of(&same).expect("a change");
        assert!(same.blocks[2].is_none() && same.blocks[0].is_some_and(|b| b.p.is_none()), "{same:?}");
        // One odd run does not make a host different.
        let mut blocks = fleet(100, 5, 3, |_| 0.0);
        blocks[4].after[0] += 3.0;
        assert_eq!(accused(&Change::of(&blocks).expect("no change"), 100), [0; 0]);
    }

    #[test]
    fn what_things_have_in_common_is_counted_as_in_the_books() {
        // Fisher's tea: all four of four right among eight.
        assert!((together(8, 4, 4, 4) - 1.0 / 70.0).abs() < 1e-9);
        assert!((together(8, 4, 4, 0) - 1.0).abs() < 1e-9);
    }
}
