// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything random in a model, from one seed.

use super::check::LONGEST;
use super::Ns;
use plumb_stats::random::SplitMix64;

/// A stream of random figures.
#[derive(Debug, Clone)]
pub(super) struct Chance(SplitMix64);

/// The standard normal distribution's 99th percentile.
const Z99: f64 = 2.326_347_874;

impl Chance {
    /// The stream of that number from `seed`: a medium, a network and each fault have
    /// streams of their own, so that one more fault does not change the others.
    pub fn new(seed: u64, stream: u64) -> Self {
        // Seeds that differ by the generator's step would give one stream, shifted.
        let mixed = SplitMix64::new(seed).next_u64() ^ SplitMix64::new(!stream).next_u64();
        Chance(SplitMix64::new(SplitMix64::new(mixed).next_u64()))
    }

    /// True once in 1 / `rate` times.
    pub fn once(&mut self, rate: f64) -> bool {
        self.0.unit() < rate
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// Evenly within `ns` less and more `part` of it.
    pub fn spread(&mut self, ns: Ns, part: f64) -> Ns {
        if part == 0.0 {
            return ns;
        }
        (ns as f64 * (1.0 + part * (2.0 * self.0.unit() - 1.0))).round() as Ns
    }

    /// Exponentially distributed, up to a day.
    pub fn exponential(&mut self, mean: Ns) -> Ns {
        // 1 - u is never 0, so the logarithm is finite.
        ((-(1.0 - self.0.unit()).ln() * mean as f64).round() as Ns).min(LONGEST)
    }

    /// Lognormal with that median and 99th percentile, up to a day.
    pub fn lognormal(&mut self, median: Ns, p99: Ns) -> Ns {
        if p99 <= median {
            return median;
        }
        let sigma = (p99 as f64 / median as f64).ln() / Z99;
        ((median as f64 * (sigma * self.normal()).exp()).round() as Ns).min(LONGEST)
    }

    /// Standard normal (Box & Muller, Annals of Mathematical Statistics 29, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut draw: impl FnMut(&mut Chance) -> Ns) -> Vec<Ns> {
        let mut chance = Chance::new(7, 1);
        let mut all: Vec<Ns> = (0..100_000).map(|_| draw(&mut chance)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn distributions_have_their_figures() {
        let all = sorted(|c| c.lognormal(1_000_000, 5_000_000));
        assert!((980_000..1_020_000).contains(&all[50_000]), "median {}", all[50_000]);
        assert!((4_700_000..5_300_000).contains(&all[99_000]), "p99 {}", all[99_000]);
        let all = sorted(|c| c.exponential(1_000_000));
        let mean = all.iter().sum::<u64>() / 100_000;
        assert!((985_000..1_015_000).contains(&mean), "mean {mean}");
        let all = sorted(|c| c.spread(1000, 0.1));
        assert_eq!((all[0], all[99_999], all[50_000].abs_diff(1000) < 3), (900, 1100, true));
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let draw = |seed, stream| Chance::new(seed, stream).below(u64::MAX);
        assert_eq!(draw(1, 2), draw(1, 2));
        let all = [draw(1, 1), draw(1, 2), draw(2, 1), draw(2, 2), draw(0, 0)];
        assert!((0..5).all(|i| (0..i).all(|j| all[i] != all[j])), "{all:?}");
    }
}
