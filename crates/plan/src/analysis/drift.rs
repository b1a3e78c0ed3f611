// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a figure moved with the time at which it was measured: the machine got
//! warm, a disk got full. Looked for within the cells, so that what the levels do is not in it.

use super::cells::{CellFigures, Scale};
use crate::table::Unit;
use plumb_stats::random::SplitMix64;
use plumb_stats::repetitions;
use serde::Serialize;

const SEED: u64 = 0x6472_6966_7421;
/// Permutations of the repetitions within their cells.
const PERMUTATIONS: usize = 2000;
/// Told when fewer permutations than this share are as far correlated,
const LEVEL: f64 = 0.01;
/// and when it makes so much from the first to the last repetition.
const WORTH_TELLING: f64 = 0.02;
/// Repetitions more than cells, at least.
const FEWEST: usize = 4;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Correlation of figure and place in the order, within the cells.
    pub correlation: f64,
    /// From the first place to the last: a ratio, or a difference.
    pub change: f64,
    pub scale: Scale,
    /// Probability of a correlation so far from 0 without a drift (permutation test).
    pub p: f64,
    /// Whether it is worth telling.
    pub found: bool,
}

impl Drift {
    /// Of a figure's cells; `None` where repetitions are too few to tell.
    pub fn of(cells: &[CellFigures], unit: Unit) -> Option<Drift> {
        let scale = Scale::of(unit, cells.iter().flat_map(|c| &c.values));
        let count: usize = cells.iter().map(|c| c.values.len()).sum();
        if count < cells.len() + FEWEST {
            return None;
        }
        let centred = |values: Vec<f64>| {
            let mean = repetitions::mean(&values);
            values.into_iter().map(|v| v - mean).collect::<Vec<f64>>()
        };
        let places: Vec<Vec<f64>> =
            cells.iter().map(|c| centred(c.places.iter().map(|p| *p as f64).collect())).collect();
        let mut values: Vec<Vec<f64>> =
            cells.iter().map(|c| centred(c.values.iter().map(|v| scale.to(*v)).collect())).collect();
        let product = |a: &[Vec<f64>], b: &[Vec<f64>]| -> f64 {
            a.iter().flatten().zip(b.iter().flatten()).map(|(x, y)| x * y).sum()
        };
        let (across, up) = (product(&places, &places), product(&values, &values));
        if across <= 0.0 || up <= 0.0 {
            return None;
        }
        let together = product(&places, &values);
        let mut random = SplitMix64::new(SEED);
        let mut as_far = 1;
        for _ in 0..PERMUTATIONS {
            for cell in &mut values {
                for i in (1..cell.len()).rev() {
                    cell.swap(i, random.below(i as u64 + 1) as usize);
                }
            }
            as_far += usize::from(product(&places, &values).abs() >= together.abs() * (1.0 - 1e-9));
        }
        let all = || cells.iter().flat_map(|c| &c.places);
        let length = all().max()?.abs_diff(*all().min()?) as f64;
        let slope = together / across * length;
        let p = as_far as f64 / (PERMUTATIONS + 1) as f64;
        let whole = match scale {
            Scale::Ratio => 1.0,
            Scale::Difference if unit == Unit::Share => 1.0,
            Scale::Difference => cells.iter().map(|c| c.mean.abs()).sum::<f64>() / cells.len() as f64,
        };
        Some(Drift {
            correlation: together / (across * up).sqrt(),
            change: scale.from(slope),
            scale,
            p,
            found: p <= LEVEL && slope.abs() > WORTH_TELLING * whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::super::synthetic::Design;
    use super::*;

    fn drift(by: f64, repeat: u32, seed: u64) -> Option<Drift> {
        let mut design = Design::new(&[("a", 2), ("b", 3)], repeat);
        design.seed = seed;
        let mut table = design.table(|l| 1e6 * (1 + 5 * l[0]) as f64, 0.02);
        let last = (table.rows.len() - 1) as f64;
        for row in &mut table.rows {
            let factor = by.powf(row.place as f64 / last);
            row.figures.values_mut().for_each(|v| *v *= factor);
        }
        Drift::of(&cells::of(&table, "write.mean").0, Unit::Ns)
    }

    #[test]
    fn a_planted_drift_is_found_with_its_size_and_sign() {
        for by in [1.3, 0.8] {
            let drift = drift(by, 5, 1).expect("thirty repetitions");
            assert!(drift.found, "{drift:?}");
            assert!((drift.change / by).ln().abs() < 0.06, "{drift:?}");
            assert_eq!(drift.correlation > 0.0, by > 1.0);
        }
    }

    #[test]
    fn none_is_found_where_none_is_nor_looked_for_in_single_repetitions() {
        let found = (0..100).filter(|seed| drift(1.0, 5, *seed).expect("thirty").found).count();
        assert!(found <= 4, "{found} of 100, where 1 in 100 is allowed by chance");
        assert_eq!(drift(2.0, 1, 1), None);
    }
}
