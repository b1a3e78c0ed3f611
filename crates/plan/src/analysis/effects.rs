// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each level does, and what two factors do together beyond that.
//!
//! Times and rates are compared on the logarithm, so that an effect is a ratio; shares and
//! counts plainly. Intervals: repetitions are drawn again within their cells (bootstrap), their
//! distances from the cell's mean lengthened by sqrt(n / (n - 1)), since those of few
//! repetitions are too short, and the interval by Student's t over the normal quantile, with
//! Satterthwaite's degrees of freedom (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, ch. 2 and 3).

use super::cells::{CellFigures, Scale};
use super::variation::{self, Part};
use crate::table::{Table, Unit};
use plumb_stats::fit::{fit, Fit, Term};
use plumb_stats::random::SplitMix64;
use plumb_stats::repetitions::{self, Interval};
use plumb_stats::student;
use serde::Serialize;

const SEED: u64 = 0x6566_6665_6374;
/// Resamples, and fewer of designs so large that it would take minutes.
const RESAMPLES: usize = 2000;
const FEWEST_RESAMPLES: usize = 400;
/// Additions that all resamples may cost.
const WORK: usize = 400_000_000;
/// The normal quantile that the resamples' ends stand for.
const NORMAL: f64 = 1.959_964;
/// Two factors together are told when they make more than this beyond each alone.
const WORTH_TELLING: f64 = 0.05;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    pub factor: String,
    pub level: String,
    /// Figure at this level: ratio to the mean over the factor's levels, or difference from it.
    pub effect: f64,
    /// 95 % interval; none without repetitions.
    pub interval: Option<Interval>,
    /// Cells that it rests on.
    pub cells: usize,
}

/// What two levels do together beyond what each does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interaction {
    pub factors: [String; 2],
    pub levels: [String; 2],
    /// Ratio to, or difference from, what the two levels' own effects make.
    pub effect: f64,
    /// 95 % interval.
    pub interval: Interval,
    /// Probability of one so large where there is none (Student's t).
    pub p: f64,
    /// The same, of all that were tested together (Benjamini and Hochberg).
    pub q: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effects {
    pub scale: Scale,
    pub levels: Vec<Effect>,
    /// Of two levels, those that are found, largest first.
    pub interactions: Vec<Interaction>,
    /// So many pairs of levels were tested together; 0 without repetitions.
    pub tested: usize,
    /// Shares of the variation; they add up to 1. Empty where nothing varies.
    pub variation: Vec<Part>,
    /// What must be known to read these figures.
    pub notes: Vec<String>,
}

/// Cells on the scale, ready to be drawn again.
struct Ground {
    means: Vec<f64>,
    /// Distances from the mean, lengthened.
    rests: Vec<Vec<f64>>,
    /// Those of all cells: for cells with one repetition.
    all_rests: Vec<f64>,
    freedom: usize,
}

impl Ground {
    fn of(cells: &[CellFigures], scale: Scale) -> Ground {
        let (mut means, mut rests) = (Vec::new(), Vec::new());
        for cell in cells {
            let values: Vec<f64> = cell.values.iter().map(|v| scale.to(*v)).collect();
            let (mean, n) = (repetitions::mean(&values), values.len() as f64);
            means.push(mean);
            let longer = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 0.0 };
            rests.push(values.iter().map(|v| (v - mean) * longer).collect::<Vec<f64>>());
        }
        let all_rests = rests.iter().filter(|r| r.len() > 1).flatten().copied().collect();
        let freedom = rests.iter().map(|r| r.len().saturating_sub(1)).sum();
        Ground { means, rests, all_rests, freedom }
    }

    fn drawn(&self, random: &mut SplitMix64) -> Vec<f64> {
        let mean = |(mean, own): (&f64, &Vec<f64>)| {
            let from = if own.len() > 1 { own } else { &self.all_rests };
            let sum: f64 = own.iter().map(|_| from[random.below(from.len() as u64) as usize]).sum();
            mean + sum / own.len() as f64
        };
        self.means.iter().zip(&self.rests).map(mean).collect()
    }
}

/// Degrees of freedom of each term's effects (Satterthwaite): an effect that rests on few
/// cells has few, however many the plan has.
fn freedoms(ground: &Ground, terms: &[Term]) -> Vec<Vec<f64>> {
    let pooled =
        ground.rests.iter().flatten().map(|r| r * r).sum::<f64>() / ground.all_rests.len().max(1) as f64;
    let mut sums: Vec<Vec<(f64, f64)>> = terms.iter().map(|t| vec![(0.0, 0.0); t.cells.len()]).collect();
    let mut one = vec![0.0; ground.means.len()];
    for (c, own) in ground.rests.iter().enumerate() {
        // How much of each effect is this cell's mean: an effect is a weighted sum of the means.
        one[c] = 1.0;
        let weights = fit(&one, terms).effects;
        one[c] = 0.0;
        let n = own.len() as f64;
        let (variance, freedom) = match own.len() {
            1 => (pooled, ground.freedom as f64),
            _ => (own.iter().map(|r| r * r).sum::<f64>() / n, n - 1.0),
        };
        for (sum, weight) in sums.iter_mut().flatten().zip(weights.iter().flatten()) {
            let part = weight * weight * variance / n;
            *sum = (sum.0 + part, sum.1 + part * part / freedom);
        }
    }
    let all = ground.freedom as f64;
    let freedom = |(part, square): &(f64, f64)| {
        if *square > 0.0 {
            (part * part / square).clamp(1.0, all)
        } else {
            all
        }
    };
    sums.iter().map(|term| term.iter().map(freedom).collect()).collect()
}

/// An effect's interval and its p, on the scale.
fn judged(estimate: f64, draws: &mut [f64], freedom: f64) -> (Interval, f64) {
    let ends = repetitions::percentiles(draws);
    let longer = student::quantile(freedom) / NORMAL;
    let end = |at: f64| estimate + (at - estimate) * longer;
    let interval = Interval { low: end(ends.low), high: end(ends.high) };
    let error = repetitions::deviation(draws);
    (interval, student::two_sided(estimate / error, freedom))
}

impl Effects {
    pub fn of(table: &Table, cells: &[CellFigures], unit: Unit) -> Effects {
        let scale = Scale::of(unit, cells.iter().flat_map(|c| &c.values));
        let ground = Ground::of(cells, scale);
        let levels: Vec<Vec<usize>> = cells.iter().map(|c| c.levels.clone()).collect();
        let terms = terms(table, &levels, ground.freedom > 0);
        let found = fit(&ground.means, &terms);
        let draws = draws(&ground, &terms);
        let freedoms = if draws.is_empty() { Vec::new() } else { freedoms(&ground, &terms) };
        let mut all = Effects {
            scale,
            levels: Vec::new(),
            interactions: Vec::new(),
            tested: 0,
            variation: variation::of(table, &ground.means, cells, &terms, scale),
            notes: notes(table, cells, unit, scale, ground.freedom),
        };
        let mut pairs = Vec::new();
        for (t, term) in terms.iter().enumerate() {
            for (g, names) in term.levels.iter().enumerate() {
                let estimate = found.effects[t][g];
                let mut drawn: Vec<f64> = draws.iter().map(|fit| fit.effects[t][g]).collect();
                let judged = (!drawn.is_empty()).then(|| judged(estimate, &mut drawn, freedoms[t][g]));
                let back = |i: Interval| Interval { low: scale.from(i.low), high: scale.from(i.high) };
                let factor = |i: usize| table.factors[term.factors[i]].name.clone();
                let level = |i: usize| table.factors[term.factors[i]].levels[names[i]].clone();
                match (term.factors.len(), judged) {
                    (1, judged) => all.levels.push(Effect {
                        factor: factor(0),
                        level: level(0),
                        effect: scale.from(estimate),
                        interval: judged.map(|j| back(j.0)),
                        cells: term.cells[g],
                    }),
                    (_, Some((interval, p))) => pairs.push((
                        estimate,
                        interval,
                        Interaction {
                            factors: [factor(0), factor(1)],
                            levels: [level(0), level(1)],
                            effect: scale.from(estimate),
                            interval: back(interval),
                            p,
                            q: 1.0,
                        },
                    )),
                    _ => {}
                }
            }
        }
        all.tested = pairs.len();
        let p: Vec<f64> = pairs.iter().map(|(_, _, pair)| pair.p).collect();
        let least = least(scale, unit, &ground.means);
        let mut told: Vec<(f64, Interaction)> = Vec::new();
        for ((estimate, interval, pair), q) in pairs.into_iter().zip(repetitions::false_discovery(&p)) {
            if interval.excludes_zero() && q <= repetitions::LEVEL && estimate.abs() > least {
                told.push((estimate.abs(), Interaction { q, ..pair }));
            }
        }
        told.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.interactions = told.into_iter().map(|(_, pair)| pair).collect();
        all
    }
}

/// Smallest effect of two factors together that is told, on the scale.
fn least(scale: Scale, unit: Unit, means: &[f64]) -> f64 {
    match (scale, unit) {
        (Scale::Ratio, _) => (1.0 + WORTH_TELLING).ln(),
        (_, Unit::Share) => WORTH_TELLING,
        _ => WORTH_TELLING * means.iter().map(|m| m.abs()).sum::<f64>() / means.len().max(1) as f64,
    }
}

/// Factors that vary, and their pairs. Two factors in single repetitions have no pair: it
/// could not be told from chance.
fn terms(table: &Table, cells: &[Vec<usize>], repeated: bool) -> Vec<Term> {
    let single: Vec<Term> =
        (0..table.factors.len()).map(|f| Term::new(&[f], cells)).filter(|t| t.levels.len() > 1).collect();
    let factors: Vec<usize> = single.iter().map(|t| t.factors[0]).collect();
    let mut terms = single;
    if repeated || factors.len() > 2 {
        for (i, a) in factors.iter().enumerate() {
            terms.extend(factors[i + 1..].iter().map(|b| Term::new(&[*a, *b], cells)));
        }
    }
    terms
}

fn draws(ground: &Ground, terms: &[Term]) -> Vec<Fit> {
    if ground.freedom == 0 {
        return Vec::new();
    }
    // Two rounds where nothing is missing.
    let one = ground.means.len() * (terms.len() + 1) * 4;
    let resamples = (WORK / one.max(1)).clamp(FEWEST_RESAMPLES, RESAMPLES);
    let mut random = SplitMix64::new(SEED);
    (0..resamples).map(|_| fit(&ground.drawn(&mut random), terms)).collect()
}

fn notes(table: &Table, cells: &[CellFigures], unit: Unit, scale: Scale, freedom: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if freedom == 0 && !cells.is_empty() {
        notes.push(
            "One repetition of each combination: chance is not known, so there are no intervals and no effects of two \
             factors together (repeat = 3 or more)."
                .into(),
        );
    }
    if scale == Scale::Difference && unit.more_is_better().is_some() {
        notes.push("There are zeros among the figures: effects are differences, not ratios.".into());
    }
    let all: usize = table.factors.iter().map(|f| f.levels.len()).product();
    if !cells.is_empty() && cells.len() < all {
        notes.push(format!(
            "{} of {all} combinations have this figure: effects are least squares over those, and shares of the \
             variation are taken largest first.",
            cells.len()
        ));
    }
    let repetitions = |c: &CellFigures| c.values.len();
    if cells.iter().map(repetitions).min() != cells.iter().map(repetitions).max() {
        notes.push(
            "Combinations have different numbers of repetitions; each counts as much as the others.".into(),
        );
    }
    notes.extend(confounded(table, cells));
    notes
}

/// Pairs of factors whose effects cannot be distinguished: a group of levels of the one never
/// meets the other levels of the other one.
fn confounded(table: &Table, cells: &[CellFigures]) -> Vec<String> {
    let mut notes = Vec::new();
    for a in 0..table.factors.len() {
        for b in a + 1..table.factors.len() {
            // Levels of a, then those of b, joined where a cell has both.
            let first = table.factors[a].levels.len();
            let mut root: Vec<usize> = (0..first + table.factors[b].levels.len()).collect();
            for cell in cells {
                let (x, y) = (root[cell.levels[a]], root[first + cell.levels[b]]);
                root.iter_mut().filter(|r| **r == y).for_each(|r| *r = x);
            }
            let there = cells.iter().map(|c| root[c.levels[a]]);
            let mut groups: Vec<usize> = there.collect();
            groups.sort_unstable();
            groups.dedup();
            if groups.len() > 1 {
                let (a, b) = (&table.factors[a].name, &table.factors[b].name);
                notes.push(format!(
                    "Effects of {a} and {b} cannot be distinguished: too few of their combinations are there."
                ));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests;
