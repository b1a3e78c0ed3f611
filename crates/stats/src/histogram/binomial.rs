// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binomial law's quantiles: which order statistics hold a quantile.

/// The smallest k with P(B <= k) >= `share`, B binomial of n and p: exactly
/// while the rarer side has few, else by the normal law, which then is right
/// to a rank or two of many.
pub(super) fn quantile(n: u64, p: f64, share: f64) -> u64 {
    let nf = n as f64;
    // The probability of none at all must not underflow: 2^-800 is the least.
    const FEW: f64 = 400.0;
    if nf * p > FEW && nf * (1.0 - p) > FEW {
        let z = if share < 0.5 { -1.96 } else { 1.96 };
        let k = nf * p + z * (nf * p * (1.0 - p)).sqrt();
        return (if z < 0.0 { k.floor() } else { k.ceil() }).clamp(0.0, nf) as u64;
    }
    if p > 0.5 {
        // P(B <= k) >= s, seen from the other side: P(n - B >= n - k) >= s,
        // that is P(n - B <= n - k - 1) <= 1 - s.
        let other = first_above(n, 1.0 - p, 1.0 - share);
        return n - other;
    }
    first_reaching(n, p, share)
}

fn first_reaching(n: u64, p: f64, share: f64) -> u64 {
    walk(n, p, |below| below >= share)
}

/// The smallest j with P(B <= j) > `share`.
fn first_above(n: u64, p: f64, share: f64) -> u64 {
    walk(n, p, |below| below > share)
}

fn walk(n: u64, p: f64, reached: impl Fn(f64) -> bool) -> u64 {
    let mut term = (n as f64 * (-p).ln_1p()).exp();
    let mut below = term;
    let mut k = 0;
    while !reached(below) && k < n {
        term *= (n - k) as f64 / (k + 1) as f64 * (p / (1.0 - p));
        below += term;
        k += 1;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // B(10, 1/2): P(B <= 1) = 0.011, P(B <= 2) = 0.055, P(B <= 8) = 0.989.
        assert_eq!((quantile(10, 0.5, 0.025), quantile(10, 0.5, 0.975)), (2, 8));
        // B(1000, 0.999) is 1,000 less about Poisson of mean 1.
        assert_eq!((quantile(1000, 0.999, 0.025), quantile(1000, 0.999, 0.975)), (997, 1000));
        assert_eq!((quantile(1000, 0.001, 0.025), quantile(1000, 0.001, 0.975)), (0, 3));
        assert_eq!((quantile(5, 0.0, 0.975), quantile(5, 1.0, 0.025)), (0, 5));
    }

    #[test]
    fn the_normal_law_takes_over_without_a_step() {
        // Both ways of 800 at p = 1/2 and just above.
        let (exact, normal) = (quantile(800, 0.5, 0.025), quantile(802, 0.5, 0.025));
        assert!(exact.abs_diff(372) <= 1 && normal.abs_diff(373) <= 1, "{exact} {normal}");
    }
}
