// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Student's t, for intervals and tests of few repetitions.

/// ln of the gamma function (Lanczos' approximation, g = 5, six terms; 2e-10).
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let rise = x + 5.5;
    let series =
        TERMS.iter().enumerate().fold(1.000_000_000_190_015, |s, (i, c)| s + c / (x + 1.0 + i as f64));
    (x + 0.5) * rise.ln() - rise + (2.506_628_274_631_000_5 * series / x).ln()
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let safe = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / safe(1.0 + term * d);
            c = safe(1.0 + term / c);
            step = c * d;
            value *= step;
        }
        if (step - 1.0).abs() < 1e-12 {
            break;
        }
    }
    value
}

/// Probability of a t at least so far from 0 on either side.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The t beyond which, on both sides together, 5 % lie.
pub fn quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (1.0, 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, freedom) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Difference of two means with its error, the variances not assumed equal (Welch 1947, with Satterthwaite's
/// degrees of freedom).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean of b less mean of a.
    pub difference: f64,
    /// Half the width of its 95 % interval.
    pub half: f64,
    /// Probability of a difference at least so large where there is none.
    pub p: f64,
}

impl Welch {
    /// Of two values or more on each side, each read with a resolution (0: exactly), which adds its uniform error.
    /// `None` of fewer, and where nothing varies: then no error is known.
    pub fn of(a: &[f64], b: &[f64], resolution: f64) -> Option<Welch> {
        let side = |values: &[f64]| {
            let (mean, n) = (crate::repetitions::mean(values), values.len() as f64);
            let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
            (mean, (squares / (n - 1.0) + resolution * resolution / 12.0) / n, n - 1.0)
        };
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let ((mean_a, part_a, free_a), (mean_b, part_b, free_b)) = (side(a), side(b));
        let (difference, variance) = (mean_b - mean_a, part_a + part_b);
        if variance.is_nan() || variance <= 0.0 {
            return None;
        }
        let freedom = (variance * variance / (part_a * part_a / free_a + part_b * part_b / free_b)).max(1.0);
        let error = variance.sqrt();
        let p = two_sided(difference / error, freedom);
        Some(Welch { difference, half: quantile(freedom) * error, p })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p by Student's density with 3.575 degrees of freedom, summed up numerically elsewhere.
    #[test]
    fn unequal_variances() {
        let w = Welch::of(&[19.8, 20.4, 19.6, 17.8], &[28.2, 26.6, 20.1, 23.3], 0.0).expect("an error");
        assert!((w.difference - 5.15).abs() < 1e-9, "{w:?}");
        assert!((w.p - 0.059_205).abs() < 1e-5 && w.half > w.difference, "{w:?}");
        assert_eq!(Welch::of(&[1.0], &[2.0, 3.0], 0.0), None);
        // What never varies has no error; what was read coarsely has that of the reading.
        assert_eq!(Welch::of(&[1.0, 1.0], &[2.0, 2.0], 0.0), None);
        let coarse = |b: f64| Welch::of(&[1.0, 1.0, 1.0], &[b, b, b], 1.0).map_or(0.0, |w| w.p);
        assert!(coarse(1.5) > 0.05 && coarse(4.0) < 0.001, "{} {}", coarse(1.5), coarse(4.0));
    }

    #[test]
    fn as_in_the_tables() {
        for (freedom, t) in
            [(1.0, 12.7062), (2.0, 4.3027), (4.0, 2.7764), (10.0, 2.2281), (30.0, 2.0423), (1e6, 1.95996)]
        {
            assert!((quantile(freedom) - t).abs() < 2e-4, "{freedom}: {}", quantile(freedom));
        }
        assert!((two_sided(2.0, 10.0) - 0.073_388).abs() < 1e-5, "{}", two_sided(2.0, 10.0));
        assert_eq!(two_sided(0.0, 5.0), 1.0);
        assert_eq!((two_sided(f64::INFINITY, 5.0), two_sided(f64::NAN, 5.0)), (0.0, 1.0));
    }
}
