// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One hypothesis against the runs: two levels (or one), a drift of the machine, noise with tails.
//!
//! A run's logarithm is `level + drift(run) + noise`. The drift is piecewise linear with a knot every [`KNOT`] runs, a
//! random walk from knot to knot. The noise is Student's t (Lange, Little & Taylor, "Robust Statistical Modeling Using
//! the t Distribution", JASA 84, 1989), fitted by their reweighted least squares. Levels and drift are integrated out
//! by Laplace's method around the fit, so that few runs do not look surer than they are.

use crate::student::ln_gamma;
use std::f64::consts::PI;

/// Runs between two knots of the drift.
pub const KNOT: usize = 8;
/// Rounds of reweighting at most.
const MOST_ROUNDS: usize = 30;
/// What moves the scale by less, as a part of it, is settled.
const SETTLED: f64 = 1e-4;

/// A run: which version, and the logarithm of what it measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    pub version: usize,
    pub value: f64,
}

/// What the noise is taken for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Degrees of freedom of its tails.
    pub freedom: f64,
    /// Standard deviation of the drift from knot to knot, as a part of the noise's scale.
    pub drift: f64,
    /// The scale is never below: a figure without any noise is no proof of a precision beyond all measure.
    pub floor: f64,
    /// Scale of the prior (Cauchy's) of the difference of the levels.
    pub prior: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Logarithm of the probability of the runs under the hypothesis, up to what all hypotheses have.
    pub evidence: f64,
    /// Second level less first; 0 of a hypothesis with one.
    pub difference: f64,
    /// Standard error of `difference`.
    pub error: f64,
    /// Scale of the noise.
    pub scale: f64,
    /// Drift of each run since the first.
    pub drift: Vec<f64>,
    /// What is left of each run, in scales.
    pub rest: Vec<f64>,
}

/// Where a run stands between two knots: the earlier one, and the part of the way to the next.
fn knot(run: usize) -> (usize, f64) {
    (run / KNOT, (run % KNOT) as f64 / KNOT as f64)
}

/// A symmetric system of equations; the lower half is used.
struct System {
    size: usize,
    matrix: Vec<f64>,
    right: Vec<f64>,
}

impl Fit {
    /// Standard deviation of the noise without its outliers: 1.4826 times the median of the absolute rests.
    pub fn noise(&self) -> f64 {
        1.4826 * median(self.rest.iter().map(|r| r.abs()).collect()) * self.scale
    }

    /// How far the drift went between its extremes.
    pub fn drifted(&self) -> f64 {
        let (low, high) = self.drift.iter().fold((0.0, 0.0), |(low, high), d| (d.min(low), d.max(high)));
        high - low
    }
}

impl System {
    fn new(size: usize) -> Self {
        System { size, matrix: vec![0.0; size * size], right: vec![0.0; size] }
    }

    fn add(&mut self, row: usize, column: usize, value: f64) {
        let (row, column) = if row >= column { (row, column) } else { (column, row) };
        self.matrix[row * self.size + column] += value;
    }

    /// Cholesky's factor in place of the matrix; the logarithm of its determinant squared.
    fn factor(&mut self) -> f64 {
        let n = self.size;
        let mut determinant = 0.0;
        for i in 0..n {
            for j in 0..=i {
                let (above, below) = self.matrix.split_at(i * n);
                let other = if j < i { &above[j * n..j * n + j] } else { &below[..j] };
                let sum: f64 = below[..j].iter().zip(other).map(|(a, b)| a * b).sum();
                let left = self.matrix[i * n + j] - sum;
                self.matrix[i * n + j] = match i == j {
                    true => left.max(f64::MIN_POSITIVE).sqrt(),
                    false => left / self.matrix[j * n + j],
                };
            }
            determinant += 2.0 * self.matrix[i * n + i].ln();
        }
        determinant
    }

    /// The solution, after [`System::factor`], of this right side.
    fn solve(&self, mut right: Vec<f64>) -> Vec<f64> {
        let n = self.size;
        for i in 0..n {
            let sum: f64 = (0..i).map(|j| self.matrix[i * n + j] * right[j]).sum();
            right[i] = (right[i] - sum) / self.matrix[i * n + i];
        }
        for i in (0..n).rev() {
            let sum: f64 = (i + 1..n).map(|j| self.matrix[j * n + i] * right[j]).sum();
            right[i] = (right[i] - sum) / self.matrix[i * n + i];
        }
        right
    }
}

/// The parameters that a run has a part of, with its parts: its level, and one or two knots.
fn parts(run: usize, level: usize, levels: usize) -> ([usize; 3], [f64; 3]) {
    let (before, way) = knot(run);
    // The drift is 0 at the first knot, which has no parameter.
    let first = (before > 0).then(|| levels + before - 1);
    let second = (way > 0.0).then_some(levels + before);
    (
        [level, first.unwrap_or(0), second.unwrap_or(0)],
        [1.0, first.map_or(0.0, |_| 1.0 - way), second.map_or(0.0, |_| way)],
    )
}

/// Fits the hypothesis that the level changes with version `change`, or never.
pub fn fit(runs: &[Observation], change: Option<usize>, noise: &Noise) -> Fit {
    let levels = if change.is_some() { 2 } else { 1 };
    let knots = runs.len().saturating_sub(1).div_ceil(KNOT);
    let size = levels + knots;
    let rows: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(i, run)| parts(i, usize::from(change.is_some_and(|c| run.version >= c)), levels))
        .collect();
    let (n, precision) = (runs.len() as f64, noise.drift.powi(-2));
    let mut rest = centred(runs, change);
    let mut scale = (1.4826 * median(rest.iter().map(|r| r.abs()).collect())).max(noise.floor);
    let (mut solution, mut determinant, mut system) = (Vec::new(), 0.0, System::new(size));
    for _ in 0..MOST_ROUNDS {
        system = System::new(size);
        for k in 0..knots {
            system.add(levels + k, levels + k, if k + 1 < knots { 2.0 } else { 1.0 } * precision);
            if k > 0 {
                system.add(levels + k, levels + k - 1, -precision);
            }
        }
        for ((run, rest), (places, parts)) in runs.iter().zip(&rest).zip(&rows) {
            let weight = weight(rest / scale, noise.freedom);
            for i in 0..3 {
                system.right[places[i]] += weight * parts[i] * run.value;
                for j in (0..=i).filter(|j| parts[i] * parts[*j] != 0.0) {
                    system.add(places[i], places[j], weight * parts[i] * parts[j]);
                }
            }
        }
        determinant = system.factor();
        solution = system.solve(system.right.clone());
        let mut squares = walk(&solution[levels..]) * precision;
        for ((run, rest), (places, parts)) in runs.iter().zip(&mut rest).zip(&rows) {
            let weight = weight(*rest / scale, noise.freedom);
            *rest = run.value - (0..3).map(|i| parts[i] * solution[places[i]]).sum::<f64>();
            squares += weight * *rest * *rest;
        }
        let new = (squares / (n - levels as f64).max(1.0)).sqrt().max(noise.floor);
        let moved = (new / scale - 1.0).abs();
        scale = new;
        if moved < SETTLED {
            break;
        }
    }
    let mut evidence = likelihood(&rest, scale, noise.freedom)
        - walk(&solution[levels..]) * precision / (2.0 * scale * scale)
        - knots as f64 * noise.drift.ln()
        // Scales of the runs, of the knots' prior and of what is integrated out: the knots' cancel.
        - (n - levels as f64) * scale.ln()
        - 0.5 * determinant
        + 0.5 * levels as f64 * (2.0 * PI).ln()
        - 0.5 * (n - levels as f64).max(1.0).ln();
    let (mut difference, mut error) = (0.0, 0.0);
    if levels == 2 {
        difference = solution[1] - solution[0];
        let mut unit = vec![0.0; size];
        (unit[0], unit[1]) = (-1.0, 1.0);
        let spread = system.solve(unit);
        // The expected curvature of a t is less than its weights say.
        let curvature = (noise.freedom + 3.0) / (noise.freedom + 1.0);
        error = scale * (curvature * (spread[1] - spread[0])).max(0.0).sqrt();
        evidence -= (PI * noise.prior * (1.0 + (difference / noise.prior).powi(2))).ln();
    }
    let drift =
        |(places, parts): &([usize; 3], [f64; 3])| (1..3).map(|i| parts[i] * solution[places[i]]).sum();
    let drift = rows.iter().map(drift).collect();
    rest.iter_mut().for_each(|r| *r /= scale);
    Fit { evidence, difference, error, scale, drift, rest }
}

/// Logarithm of the density of Student's t at all rests, without its scale.
fn likelihood(rest: &[f64], scale: f64, freedom: f64) -> f64 {
    let constant = ln_gamma((freedom + 1.0) / 2.0) - ln_gamma(freedom / 2.0) - 0.5 * (freedom * PI).ln();
    let density = |r: &f64| constant - 0.5 * (freedom + 1.0) * ((r / scale).powi(2) / freedom).ln_1p();
    rest.iter().map(density).sum()
}

/// What a run counts that lies so many scales from where it should.
fn weight(rest: f64, freedom: f64) -> f64 {
    (freedom + 1.0) / (freedom + rest * rest)
}

/// Squares of the steps of a walk that begins at 0.
fn walk(knots: &[f64]) -> f64 {
    std::iter::once(&0.0).chain(knots).zip(knots).map(|(a, b)| (b - a).powi(2)).sum()
}

/// The runs less the medians of their levels.
fn centred(runs: &[Observation], change: Option<usize>) -> Vec<f64> {
    let is_after = |r: &Observation| change.is_some_and(|c| r.version >= c);
    let level = |after: bool| median(runs.iter().filter(|r| is_after(r) == after).map(|r| r.value).collect());
    let levels = [level(false), level(true)];
    runs.iter().map(|r| r.value - levels[usize::from(is_after(r))]).collect()
}

fn median(values: Vec<f64>) -> f64 {
    crate::repetitions::median(&values)
}
