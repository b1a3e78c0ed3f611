// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that a seed repeats: the generators, Zipf's law, and the
//! permutation that spreads hot ranks over a file. None of it is for secrets.

use std::fmt;

const N: usize = 624;
const M: usize = 397;

/// Uniform in 0..n without bias (Lemire, "Fast Random Integer Generation in
/// an Interval", ACM TOMACS 29, 2019): a multiplication, and a division only
/// in the rare case that the first draw falls into the uneven rest.
fn below(n: u64, mut next: impl FnMut() -> u64) -> u64 {
    if n == 0 {
        return 0;
    }
    let mut wide = u128::from(next()) * u128::from(n);
    if (wide as u64) < n {
        let rest = n.wrapping_neg() % n;
        while (wide as u64) < rest {
            wide = u128::from(next()) * u128::from(n);
        }
    }
    (wide >> 64) as u64
}

/// The upper 53 bits as a fraction: every double of the form k / 2^53.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// The 32-bit Mersenne Twister (Matsumoto & Nishimura, ACM TOMACS 8, 1998):
/// the order of offsets that other tools' seeds are compared with.
#[derive(Clone)]
pub struct Mt19937 {
    state: [u32; N],
    at: usize,
}

impl fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mt19937").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Mt19937 {
    /// The generator in the state that `seed` leads to (the 2002 initialiser).
    pub fn new(seed: u32) -> Self {
        let mut state = [0; N];
        state[0] = seed;
        for i in 1..N {
            let last = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { state, at: N }
    }

    fn twist(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.at >= N {
            self.twist();
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Two words as one, the first in the upper half.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    /// Uniform in 0..n without bias; 0 for n = 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        below(n, || self.next_u64())
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// A small fast generator (Steele, Lea & Flood, "Fast Splittable Pseudorandom
/// Number Generators", OOPSLA 2014): contents of blocks, seeds of others.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Any seed will do, 0 too.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform in 0..n without bias; 0 for n = 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        below(n, || self.next_u64())
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Standard normal, about: the sum of twelve uniform numbers less six.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// SplitMix64's finaliser: each input bit reaches all output bits.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Zipf's law over ranks 0..n: rank k has weight (k + 1)^-theta. Sampled by
/// rejection-inversion (Hörmann & Derflinger, ACM TOMACS 6, 1996): no table,
/// so that n may be the blocks of a large disk, and about one draw a sample.
#[derive(Debug, Clone)]
pub struct Zipf {
    n: u64,
    theta: f64,
    area_first: f64,
    area_all: f64,
    squeeze: f64,
}

impl Zipf {
    /// The law for `n` ranks (at least 1 is taken) and exponent `theta`, held
    /// within 0 (uniform) and 5 (nearly always rank 0).
    pub fn new(n: u64, theta: f64) -> Self {
        let n = n.max(1);
        let theta = if theta.is_finite() { theta.clamp(0.0, 5.0) } else { 0.0 };
        let mut law = Self { n, theta, area_first: 0.0, area_all: 0.0, squeeze: 0.0 };
        law.area_first = law.area(1.5) - 1.0;
        law.area_all = law.area(n as f64 + 0.5);
        law.squeeze = 2.0 - law.inverse(law.area(2.5) - law.height(2.0));
        law
    }

    /// A rank in 0..n; 0 is the hottest.
    pub fn sample(&self, random: &mut Mt19937) -> u64 {
        loop {
            let u = self.area_all + random.unit() * (self.area_first - self.area_all);
            let x = self.inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.n);
            let kf = k as f64;
            if kf - x <= self.squeeze || u >= self.area(kf + 0.5) - self.height(kf) {
                return k - 1;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of `height` from 1 to x. The quotient is written so that
    /// theta = 1, where it would be 0 / 0, needs no case of its own.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        let quotient = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) };
        quotient * log
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding can carry t just below -1, where the logarithm ends.
        let t = (area * (1.0 - self.theta)).max(-1.0);
        let quotient = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t * (0.5 - t / 3.0) };
        (quotient * area).exp()
    }
}

/// A permutation of 0..n by a Feistel network; what falls outside of 0..n is
/// sent through again (cycle walking: Black & Rogaway, CT-RSA 2002), fewer than
/// two turns on average. Hot ranks are thus scattered over the file, the same
/// way for the same seed, without a table.
#[derive(Debug, Clone)]
pub struct Scatter {
    n: u64,
    low_bits: u32,
    high_mask: u64,
    keys: [u64; 6],
}

impl Scatter {
    /// The permutation of 0..n (at least 1 is taken) that `seed` names.
    pub fn new(n: u64, seed: u64) -> Self {
        let n = n.max(1);
        let bits = 64 - (n - 1).leading_zeros();
        let low_bits = bits / 2;
        let mut random = SplitMix64::new(seed);
        let high_mask = (1 << (bits - low_bits)) - 1;
        Self { n, low_bits, high_mask, keys: std::array::from_fn(|_| random.next_u64()) }
    }

    /// Where `rank` goes; a rank outside of 0..n is taken modulo n.
    pub fn place(&self, rank: u64) -> u64 {
        let mut at = rank % self.n;
        loop {
            at = self.turn(at);
            if at < self.n {
                return at;
            }
        }
    }

    fn turn(&self, at: u64) -> u64 {
        let low_mask = (1_u64 << self.low_bits) - 1;
        let mut low = at & low_mask;
        let mut high = at >> self.low_bits;
        for pair in self.keys.chunks_exact(2) {
            high ^= mix(low ^ pair[0]) & self.high_mask;
            low ^= mix(high ^ pair[1]) & low_mask;
        }
        high << self.low_bits | low
    }
}

/// 0..n shuffled, another way in each round.
pub fn shuffled(n: usize, seed: u64, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    shuffle(&mut order, &mut generator(seed, round));
    order
}

/// The generator of a round.
pub fn generator(seed: u64, round: usize) -> SplitMix64 {
    SplitMix64::new(seed ^ ((round as u64) << 32))
}

/// Puts items into another order, each as likely (Fisher and Yates).
pub fn shuffle(items: &mut [usize], random: &mut SplitMix64) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mersenne_twister_gives_the_authors_numbers() {
        let mut random = Mt19937::new(5489);
        assert_eq!(random.next_u32(), 3_499_211_612);
        let tenthousandth = (1..10_000).map(|_| random.next_u32()).last();
        assert_eq!(tenthousandth, Some(4_123_659_995));
        let mut wide = Mt19937::new(5489);
        assert_eq!(wide.next_u64() >> 32, 3_499_211_612);
    }

    #[test]
    fn splitmix_gives_the_published_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_is_even_over_its_range_and_stays_in_it() {
        let mut random = Mt19937::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..70_000 {
            seen[random.below(7) as usize] += 1;
        }
        // Six degrees of freedom: chi squared beyond 22.5 happens once in 1,000.
        let chi: f64 = seen.iter().map(|&s| (f64::from(s) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 22.5, "{seen:?}");
        // Three quarters of the range: without rejection one third would get
        // half of all draws.
        let n = 3_u64 << 62;
        let low = (0..30_000).filter(|_| random.below(n) < n / 3).count();
        assert!((9_500..10_500).contains(&low), "{low}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }

    #[test]
    fn zipf_follows_the_exact_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0, 5.0] {
            let n = 50;
            let law = Zipf::new(n, theta);
            let mut random = Mt19937::new(42);
            let draws = 2_000_000;
            let mut seen = vec![0_u64; n as usize];
            for _ in 0..draws {
                seen[law.sample(&mut random) as usize] += 1;
            }
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
            let all: f64 = weights.iter().sum();
            let mut chi = 0.0;
            let mut degrees = -1.0;
            for (&s, w) in seen.iter().zip(&weights) {
                let expected = w / all * draws as f64;
                // Chi squared wants some in each class; the rarest ranks of
                // a steep law have none.
                if expected > 10.0 {
                    chi += (s as f64 - expected).powi(2) / expected;
                    degrees += 1.0;
                }
            }
            let limit = degrees + 4.0 * f64::sqrt(2.0 * degrees);
            assert!(degrees >= 6.0 && chi < limit, "theta {theta}: chi squared {chi:.1}, limit {limit:.1}");
        }
    }

    #[test]
    fn zipf_takes_large_and_small_ranges() {
        let mut random = Mt19937::new(7);
        for theta in [0.0, 0.99, 1.0, 5.0, f64::NAN] {
            let one = Zipf::new(1, theta);
            let many = Zipf::new(1 << 44, theta);
            for _ in 0..1000 {
                assert_eq!(one.sample(&mut random), 0);
                assert!(many.sample(&mut random) < 1 << 44);
            }
        }
    }

    #[test]
    fn scatter_is_a_bijection_that_spreads_neighbours() {
        for n in [1_u64, 2, 3, 5, 64, 65, 1000, 4097] {
            let scatter = Scatter::new(n, 99);
            let mut hit = vec![false; n as usize];
            for rank in 0..n {
                let place = scatter.place(rank) as usize;
                assert!(!hit[place], "n {n}: {place} twice");
                hit[place] = true;
            }
        }
        let (scatter, other) = (Scatter::new(1 << 20, 1), Scatter::new(1 << 20, 2));
        let first: u64 = (0..100).map(|r| scatter.place(r)).sum::<u64>() / 100;
        assert!((300_000..750_000).contains(&first), "mean place {first}");
        assert!((0..100).any(|r| scatter.place(r) != other.place(r)));
    }

    #[test]
    fn rounds_have_all_cells_in_other_orders() {
        let orders: Vec<_> = (0..20).map(|round| shuffled(6, 7, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        }
        let first: std::collections::HashSet<usize> = orders.iter().map(|o| o[0]).collect();
        assert!(first.len() > 3, "{orders:?}");
        assert_eq!(shuffled(6, 7, 3), orders[3], "the seed decides");
    }
}
