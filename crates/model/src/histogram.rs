// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A distribution in bounded memory: exact count, sum, least and greatest;
//! quantiles within 1 %; and exact counts in decades cut 1-2-5.

/// Buckets of one octave: a bucket is at most 1/64 wide, its middle errs by at most 0.8 %.
const PER_OCTAVE: usize = 64;

/// The values of one group.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    pub count: u64,
    pub sum: u128,
    /// Least, 0 without any.
    pub min: u64,
    /// Greatest, 0 without any.
    pub max: u64,
    /// How many of them are 0.
    pub zeros: u64,
    /// Octaves that hold a value, ascending: exponent and buckets.
    octaves: Vec<(u8, Box<[u64; PER_OCTAVE]>)>,
    /// Counts by 1-2-5 step, 0 not among them.
    steps: Vec<u64>,
}

/// Octave and bucket of a value; below `PER_OCTAVE` every value has its own.
fn place(value: u64) -> (u8, usize) {
    let bits = value.checked_ilog2().unwrap_or(0);
    if bits < 6 {
        return (0, value as usize);
    }
    ((bits - 5) as u8, ((value >> (bits - 6)) as usize) - PER_OCTAVE)
}

/// The middle of a bucket.
fn middle(octave: u8, bucket: usize) -> u64 {
    if octave == 0 {
        return bucket as u64;
    }
    let shift = u32::from(octave) - 1;
    (((PER_OCTAVE + bucket) as u64) << shift) + ((1u64 << shift) >> 1)
}

/// Number of the 1-2-5 step of a value that is not 0.
fn step(value: u64) -> usize {
    let decade = value.ilog10();
    let third = match value / 10u64.pow(decade) {
        1 => 0,
        2..=4 => 1,
        _ => 2,
    };
    decade as usize * 3 + third
}

/// Where a 1-2-5 step begins.
fn step_begin(step: usize) -> u64 {
    [1, 2, 5][step % 3] * 10u64.pow((step / 3) as u32)
}

impl Histogram {
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        let (octave, bucket) = place(value);
        let at = match self.octaves.binary_search_by_key(&octave, |(o, _)| *o) {
            Ok(at) => at,
            Err(at) => {
                self.octaves.insert(at, (octave, Box::new([0; PER_OCTAVE])));
                at
            }
        };
        self.octaves[at].1[bucket] += 1;
        if value == 0 {
            self.zeros += 1;
            return;
        }
        let step = step(value);
        if step >= self.steps.len() {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += 1;
    }

    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.zeros += other.zeros;
        for (octave, buckets) in &other.octaves {
            match self.octaves.binary_search_by_key(octave, |(o, _)| *o) {
                Ok(at) => self.octaves[at].1.iter_mut().zip(buckets.iter()).for_each(|(a, b)| *a += b),
                Err(at) => self.octaves.insert(at, (*octave, buckets.clone())),
            }
        }
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), 0);
        }
        self.steps.iter_mut().zip(&other.steps).for_each(|(a, b)| *a += b);
    }

    /// Sum of the values above a limit, within 1 %.
    pub fn sum_above(&self, limit: u64) -> u128 {
        let buckets =
            self.octaves.iter().flat_map(|(o, b)| b.iter().enumerate().map(|(i, n)| (middle(*o, i), *n)));
        let sum: u128 = buckets.filter(|(v, _)| *v > limit).map(|(v, n)| u128::from(v) * u128::from(n)).sum();
        sum.min(self.sum)
    }

    /// Mean, 0 without any.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The value that the share `q` (0 to 1) of all values does not exceed, within 1 %; 0 without any.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (octave, buckets) in &self.octaves {
            for (bucket, n) in buckets.iter().enumerate() {
                seen += n;
                if *n > 0 && seen >= rank {
                    return middle(*octave, bucket).clamp(self.min, self.max);
                }
            }
        }
        self.max
    }

    /// Exact counts from `begin` up to, not including, `end`, from the first
    /// step that holds a value to the last: (begin, end, count). Steps are 0,
    /// then 1, 2 and 5 times the powers of ten.
    pub fn distribution(&self) -> Vec<(u64, u64, u64)> {
        let mut out = Vec::new();
        if self.zeros > 0 {
            out.push((0, 1, self.zeros));
        }
        let first = self.steps.iter().position(|n| *n > 0).unwrap_or(self.steps.len());
        let first = if self.zeros > 0 { 0 } else { first };
        for (i, n) in self.steps.iter().enumerate().skip(first) {
            // The last step of 64 bits has no successor.
            let end = if i + 1 < 58 { step_begin(i + 1) } else { u64::MAX };
            out.push((step_begin(i), end, *n));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_err_by_less_than_one_percent_and_the_rest_is_exact() {
        let mut h = Histogram::default();
        let mut values: Vec<u64> = (0..50_000u64).map(|i| (i * 7919 % 50_021) * (i % 97 + 1)).collect();
        values.iter().for_each(|v| h.add(*v));
        values.sort_unstable();
        assert_eq!((h.count, h.min, h.max), (50_000, values[0], values[49_999]));
        assert_eq!(h.sum, values.iter().map(|v| u128::from(*v)).sum::<u128>());
        let (mut odd, mut even) = (Histogram::default(), Histogram::default());
        values.iter().for_each(|v| if v % 2 == 1 { odd.add(*v) } else { even.add(*v) });
        even.merge(&odd);
        assert_eq!((even.count, even.sum, even.min, even.max), (h.count, h.sum, h.min, h.max));
        assert_eq!((even.quantile(0.9), even.distribution()), (h.quantile(0.9), h.distribution()));
        for q in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((50_000.0 * q) as usize).max(1) - 1] as f64;
            let ours = h.quantile(q) as f64;
            assert!((ours - exact).abs() <= exact * 0.01, "{q}: {ours} {exact}");
        }
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_its_step() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) + 1, (1u64 << shift).wrapping_sub(1).max(1)] {
                let (octave, bucket) = place(value);
                let error = middle(octave, bucket).abs_diff(value);
                assert!(error as f64 <= value as f64 * 0.01, "{value}");
                let mut h = Histogram::default();
                h.add(value);
                let (begin, end, n) = h.distribution()[0];
                assert!(
                    begin <= value && (value < end || end == u64::MAX) && n == 1,
                    "{value} {begin} {end}"
                );
            }
        }
        let mut h = Histogram::default();
        [0, 1, 4, 5, 99].iter().for_each(|v| h.add(*v));
        let counts: Vec<u64> = h.distribution().iter().map(|d| d.2).collect();
        assert_eq!(counts, [1, 1, 1, 1, 0, 0, 1]);
    }
}
