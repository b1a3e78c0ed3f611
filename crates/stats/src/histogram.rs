// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies as a histogram in the caller's memory, which processes may share.
//! Each power of two has 128 buckets, so that a quantile, the middle of its
//! bucket, is within 0.4 % of the truth; below 128 ns it is exact.

mod binomial;

use serde::Serialize;

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
/// Values from 2^41 ns (36 minutes) on are only counted.
const TOP_BIT: u32 = 41;
/// Buckets: 128 exact ones, then 128 for each power of two up to 2^41.
pub const BUCKETS: usize = SUB * (TOP_BIT - SUB_BITS + 1) as usize;
/// The share by which a quantile may be off.
pub const ERROR: f64 = 0.004;

/// The histogram. All-zero bytes are an empty one, so that fresh shared memory
/// needs no preparation. One writer; a reader beside it sees each word whole,
/// but the words of different instants.
#[repr(C)]
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    over: u64,
    count: u64,
    sum_low: u64,
    sum_high: u64,
    /// The complement of the minimum: a minimum kept as a maximum is right
    /// from zero on.
    min_complement: u64,
    max: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Histogram").field(&self.summary()).finish()
    }
}

#[inline(always)]
fn index(ns: u64) -> usize {
    // Values below 128 take the shift of 128..256, which is 0, without a branch.
    let shift = 63 - SUB_BITS - (ns | SUB as u64).leading_zeros();
    (ns >> shift) as usize + shift as usize * SUB
}

/// The lowest and the highest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let shift = (index / SUB).saturating_sub(1) as u32;
    let low = ((index - shift as usize * SUB) as u64) << shift;
    (low, low + (1 << shift) - 1)
}

impl Histogram {
    /// An empty one on the heap (it has 35 KiB, much for a stack).
    pub fn boxed() -> Box<Self> {
        Box::default()
    }

    const fn empty() -> Self {
        Self { buckets: [0; BUCKETS], over: 0, count: 0, sum_low: 0, sum_high: 0, min_complement: 0, max: 0 }
    }

    /// A copy of one that another process writes meanwhile: each word whole,
    /// the words of slightly different instants.
    ///
    /// # Safety
    /// `from` points at a histogram (or zeroed memory of its size and
    /// alignment) that stays mapped during the call.
    pub unsafe fn snapshot(from: *const Self) -> Box<Self> {
        let mut copy = Self::boxed();
        let to: *mut Self = &mut *copy;
        for word in 0..size_of::<Self>() / size_of::<u64>() {
            // SAFETY: a histogram is nothing but words of 64 bits; volatile,
            // since the other process may store to them at any time.
            unsafe { to.cast::<u64>().add(word).write(from.cast::<u64>().add(word).read_volatile()) };
        }
        copy
    }

    /// Counts one latency, in nanoseconds. From 2^41 ns on it is counted as
    /// over the range; minimum, maximum and mean still have its value.
    #[inline(always)]
    pub fn record(&mut self, ns: u64) {
        match self.buckets.get_mut(index(ns)) {
            Some(bucket) => *bucket += 1,
            None => self.over += 1,
        }
        self.count += 1;
        let (sum, carry) = self.sum_low.overflowing_add(ns);
        self.sum_low = sum;
        self.sum_high += u64::from(carry);
        self.min_complement = self.min_complement.max(!ns);
        self.max = self.max.max(ns);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.over += other.over;
        self.count += other.count;
        let sum = self.sum().saturating_add(other.sum());
        self.sum_low = sum as u64;
        self.sum_high = (sum >> 64) as u64;
        self.min_complement = self.min_complement.max(other.min_complement);
        self.max = self.max.max(other.max);
    }

    /// How many were counted, those over the range too.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many were 2^41 ns or longer.
    pub fn over(&self) -> u64 {
        self.over
    }

    /// All latencies together, in nanoseconds.
    pub fn sum(&self) -> u128 {
        u128::from(self.sum_high) << 64 | u128::from(self.sum_low)
    }

    /// The shortest, in nanoseconds, exact; none of an empty one.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(!self.min_complement)
    }

    /// The longest, in nanoseconds, exact; none of an empty one.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean in nanoseconds, exact; 0 of an empty one.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum() as f64 / self.count as f64
    }

    /// The standard deviation in nanoseconds, from the buckets' middles; 0 of
    /// fewer than two.
    pub fn stddev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 =
            self.iter().map(|(low, high, n)| (self.middle(low, high) - mean).powi(2) * n as f64).sum();
        (squares / (self.count - 1) as f64).sqrt()
    }

    /// The middle of a bucket, but not outside of what was seen.
    fn middle(&self, low: u64, high: u64) -> f64 {
        let (low, high) = (low.max(!self.min_complement), high.min(self.max));
        low as f64 + (high.saturating_sub(low)) as f64 / 2.0
    }

    /// The filled buckets from the shortest: lowest value, highest value (both
    /// within), count. The last one is what was over the range.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let over = (self.over > 0).then_some((1 << TOP_BIT, self.max, self.over));
        let filled = self.buckets.iter().enumerate().filter(|(_, &n)| n > 0);
        filled
            .map(|(i, &n)| {
                let (low, high) = bounds(i);
                (low, high, n)
            })
            .chain(over)
    }

    /// The bucket of the k-th shortest, k from 1.
    fn bucket_of_rank(&self, k: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        self.iter().find_map(|(low, high, n)| {
            before += n;
            (before >= k).then_some((low, high))
        })
    }

    /// The latency that the share `q` (0..=1) of all does not exceed, by the
    /// nearest rank, in nanoseconds, within 0.4 %; 0 of an empty one. q = 0
    /// and q = 1 are the exact minimum and maximum.
    pub fn quantile(&self, q: f64) -> u64 {
        if q <= 0.0 {
            return self.min().unwrap_or(0);
        }
        if q >= 1.0 {
            return self.max().unwrap_or(0);
        }
        // Shares such as 0.999 are a little above their decimal: without the
        // slack 0.999 * 1000 would be rank 1000 instead of 999.
        let k = (q * self.count as f64 - 1e-9).ceil().max(1.0) as u64;
        self.bucket_of_rank(k.min(self.count)).map_or(0, |(low, high)| self.middle(low, high).round() as u64)
    }

    /// A 95 % confidence interval of the quantile `q`, whatever the latencies'
    /// distribution: the order statistics between which a binomial count puts
    /// it (David & Nagaraja, "Order Statistics", 7.1), widened to their
    /// buckets' bounds. It takes the latencies as independent. Where too few
    /// were counted it ends at the minimum or maximum and covers less than
    /// 95 %. (0, 0) of an empty one.
    pub fn quantile_interval(&self, q: f64) -> (u64, u64) {
        if self.count == 0 {
            return (0, 0);
        }
        let q = q.clamp(0.0, 1.0);
        let lower = binomial::quantile(self.count, q, 0.025);
        let upper = binomial::quantile(self.count, q, 0.975) + 1;
        let (min, max) = (!self.min_complement, self.max);
        let low = self.bucket_of_rank(lower.max(1)).map_or(min, |(low, _)| low.max(min));
        let high = self.bucket_of_rank(upper.min(self.count)).map_or(max, |(_, high)| high.min(max));
        (low, high)
    }

    /// The figures that a report shows.
    pub fn summary(&self) -> Summary {
        let enough = |q: f64| {
            let beyond = self.count as f64 * (1.0 - q);
            (beyond > 1.0 - 1e-6).then(|| self.quantile(q))
        };
        Summary {
            count: self.count,
            mean_ns: self.mean(),
            stddev_ns: self.stddev(),
            min: self.min(),
            p50: enough(0.5),
            p90: enough(0.9),
            p95: enough(0.95),
            p99: enough(0.99),
            p99_9: enough(0.999),
            p99_99: enough(0.9999),
            max: self.max(),
            over: self.over,
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::empty()
    }
}

/// A histogram in a few figures, in nanoseconds. A quantile is none where not
/// even one sample is expected beyond it (p99.9 needs 1,000).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub count: u64,
    /// Mean, exact; 0 without samples.
    pub mean_ns: f64,
    /// Standard deviation, from the buckets.
    pub stddev_ns: f64,
    /// Shortest, exact.
    pub min: Option<u64>,
    pub p50: Option<u64>,
    /// 90 % are not longer.
    pub p90: Option<u64>,
    /// 95 % are not longer.
    pub p95: Option<u64>,
    /// 99 % are not longer.
    pub p99: Option<u64>,
    /// 99.9 % are not longer.
    pub p99_9: Option<u64>,
    /// 99.99 % are not longer.
    pub p99_99: Option<u64>,
    /// Longest, exact.
    pub max: Option<u64>,
    /// Samples of 2^41 ns or longer, for which a quantile is only a bound.
    pub over: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Latencies as they come: many orders of magnitude, most of them short.
    fn sample(random: &mut SplitMix64) -> u64 {
        let bits = random.below(40) as u32 + 1;
        random.next_u64() >> (64 - bits)
    }

    fn filled(values: &[u64]) -> Box<Histogram> {
        let mut h = Histogram::boxed();
        values.iter().for_each(|&v| h.record(v));
        h
    }

    #[test]
    fn buckets_tile_the_range() {
        let mut next = 0;
        for i in 0..BUCKETS {
            let (low, high) = bounds(i);
            assert_eq!(low, next, "bucket {i}");
            assert_eq!((index(low), index(high)), (i, i));
            next = high + 1;
        }
        assert_eq!(next, 1 << TOP_BIT);
        assert!(index(1 << TOP_BIT) >= BUCKETS && index(u64::MAX) >= BUCKETS);
    }

    #[test]
    fn quantiles_are_within_the_stated_error_of_sorted_values() {
        let mut random = SplitMix64::new(3);
        for size in [1_usize, 2, 10, 999, 20_000] {
            let mut values: Vec<u64> = (0..size).map(|_| sample(&mut random)).collect();
            let h = filled(&values);
            values.sort_unstable();
            for q in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let k = ((q * size as f64 - 1e-9).ceil() as usize).clamp(1, size);
                let (exact, got) = (values[k - 1] as f64, h.quantile(q) as f64);
                assert!((got - exact).abs() <= exact * ERROR + 0.5, "{size} q {q}: {got} for {exact}");
            }
            let mean = values.iter().map(|&v| v as f64).sum::<f64>() / size as f64;
            assert!((h.mean() - mean).abs() <= mean * 1e-9);
            assert_eq!((h.min(), h.max()), (values.first().copied(), values.last().copied()));
            let var = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>();
            let exact = (var / (size as f64 - 1.0).max(1.0)).sqrt();
            assert!((h.stddev() - exact).abs() <= exact * 0.01 + 1.0, "{} {exact}", h.stddev());
        }
    }

    #[test]
    fn zero_bytes_are_an_empty_histogram() {
        // SAFETY: all fields are integers.
        let zeroed: Histogram = unsafe { std::mem::zeroed() };
        assert!(zeroed == *Histogram::boxed());
        assert_eq!((zeroed.min(), zeroed.max(), zeroed.quantile(0.5)), (None, None, 0));
        assert_eq!(zeroed.quantile_interval(0.5), (0, 0));
        let json = serde_json::to_string(&zeroed.summary()).expect("a summary is JSON");
        assert!(json.contains("\"min\":null"), "{json}");
    }

    #[test]
    fn merging_is_recording_together() {
        let mut random = SplitMix64::new(4);
        let values: Vec<u64> =
            (0..5000).map(|_| sample(&mut random)).chain([0, u64::MAX, u64::MAX]).collect();
        let (left, right) = values.split_at(1234);
        let mut merged = filled(left);
        merged.merge(&filled(right));
        assert!(merged == filled(&values));
        // SAFETY: merged lives.
        assert!(unsafe { Histogram::snapshot(&*merged) } == merged);
        merged.merge(&Histogram::boxed());
        assert!(merged == filled(&values));
    }

    #[test]
    fn what_is_over_the_range_is_counted_and_bounds_the_quantile() {
        let h = filled(&[5, 1 << 41, u64::MAX, u64::MAX]);
        assert_eq!((h.count(), h.over(), h.max()), (4, 3, Some(u64::MAX)));
        assert_eq!(h.sum(), 5 + (1 << 41) + 2 * u128::from(u64::MAX));
        assert!(h.quantile(0.9) >= 1 << 41);
        assert_eq!(h.iter().map(|(_, _, n)| n).sum::<u64>(), 4);
    }

    #[test]
    fn a_summary_keeps_silent_where_samples_are_too_few() {
        let of = |n: u64| filled(&(1..=n).collect::<Vec<_>>()).summary();
        assert_eq!((of(1).p50, of(2).p50), (None, Some(1)));
        assert_eq!((of(999).p99_9, of(1000).p99_9), (None, Some(of(1000).p99_9.unwrap_or(0))));
        assert_eq!(of(99).p99, None);
        assert!(of(100).p99.is_some());
        let same = filled(&[1_000_003; 50]);
        assert_eq!((same.stddev(), same.quantile(0.5)), (0.0, 1_000_003));
    }

    #[test]
    fn order_statistics_are_those_of_the_tables() {
        // Median of 10: the 2nd and the 9th; the interval covers 97.9 %.
        assert_eq!(filled(&(1..=10).collect::<Vec<_>>()).quantile_interval(0.5), (2, 9));
        // Median of 100: the 40th and the 61st.
        assert_eq!(filled(&(1..=100).collect::<Vec<_>>()).quantile_interval(0.5), (40, 61));
        // Of five no interval reaches 95 %: it ends at the sample's ends.
        assert_eq!(filled(&[1, 2, 3, 4, 5]).quantile_interval(0.99), (4, 5));
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut random = SplitMix64::new(5);
        for (q, n) in [(0.5, 200), (0.9, 300), (0.99, 2000), (0.05, 400)] {
            let trials = 400;
            let held = (0..trials)
                .filter(|_| {
                    let mut h = Histogram::boxed();
                    (0..n).for_each(|_| h.record(random.below(1_000_000_000)));
                    let (low, high) = h.quantile_interval(q);
                    (low as f64..=high as f64).contains(&(q * 1e9))
                })
                .count();
            assert!(held * 100 >= trials * 93, "q {q}: {held} of {trials}");
        }
    }
}
