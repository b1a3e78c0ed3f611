// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How probable each version is as the one that changed the metric.

use super::fit::{fit, Fit, Noise, Observation};

/// Tails that the noise may have: heavy ones, and nearly those of the normal distribution.
const FREEDOMS: [f64; 2] = [3.0, 30.0];
/// How much the machine may drift within [`super::fit::KNOT`] runs, as a part of the noise: hardly, and clearly.
const DRIFTS: [f64; 2] = [0.03, 0.5];
/// Probability before the first run that no version changed the metric.
const NONE: f64 = 0.5;

/// After the runs so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    /// That no version changed the metric.
    pub none: f64,
    /// That version i + 1 did.
    pub changed: Vec<f64>,
    /// The fit of the most probable of all hypotheses with a change.
    pub best: Fit,
}

/// Of the versions 0 to `last`, both of which were measured. `least` is the smallest difference of interest
/// (of logarithms).
///
/// # Panics
/// There are no runs of two versions.
pub fn posterior(runs: &[Observation], last: usize, least: f64) -> Posterior {
    let mut measured: Vec<usize> = runs.iter().map(|r| r.version).collect();
    measured.sort_unstable();
    measured.dedup();
    // Only on which side of the change a measured version is makes a difference: versions between two measured ones are as probable as each other.
    let gaps: Vec<(usize, usize)> = measured.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let prior = |versions: usize| ((1.0 - NONE) * versions as f64 / last.max(1) as f64).ln();
    let (mut sums, mut none, mut best) =
        (vec![f64::NEG_INFINITY; gaps.len()], f64::NEG_INFINITY, None::<(f64, Fit)>);
    for freedom in FREEDOMS {
        for drift in DRIFTS {
            let noise = Noise { freedom, drift, floor: least / 20.0, prior: 2.0 * least };
            none = add(none, NONE.ln() + fit(runs, None, &noise).evidence);
            for (sum, (before, change)) in sums.iter_mut().zip(&gaps) {
                let fit = fit(runs, Some(*change), &noise);
                let probable = prior(change - before) + fit.evidence;
                *sum = add(*sum, probable);
                if best.as_ref().is_none_or(|(most, _)| probable > *most) {
                    best = Some((probable, fit));
                }
            }
        }
    }
    let all = sums.iter().fold(none, |all, sum| add(all, *sum));
    let mut changed = vec![0.0; last];
    for (sum, (before, change)) in sums.iter().zip(&gaps) {
        changed[*before..*change].fill((sum - all).exp() / (change - before) as f64);
    }
    let best = best.map(|(_, fit)| fit).expect("two versions are a gap");
    Posterior { none: (none - all).exp(), changed, best }
}

/// ln(exp(a) + exp(b)).
fn add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    match high == f64::NEG_INFINITY {
        true => high,
        false => high + (low - high).exp().ln_1p(),
    }
}
