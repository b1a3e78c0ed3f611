// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure's repetitions, cell by cell: middle, interval, spread, and repetitions that
//! stand apart from the others.

use crate::table::{Table, Unit};
use plumb_stats::repetitions::{self, Interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// Words by which a row's doubt says that the load was not steady.
pub const NOT_STEADY: &str = "not steady";

/// Words with which a row's doubt begins when the load found its own figures not valid.
pub const NOT_VALID: &str = "not valid: ";

/// A modified z-score above it is an outlier's (Iglewicz and Hoaglin, "How to Detect and
/// Handle Outliers", 1993).
const MOST_Z: f64 = 3.5;
/// The median absolute deviation of a normal distribution in standard deviations.
const NORMAL_MAD: f64 = 0.6745;
/// Fewer repetitions have no median deviation worth the name.
const FEWEST_FOR_Z: usize = 5;
/// Closer to the median than this nothing is an outlier, however close the others are.
const NEAR: f64 = 0.05;
/// Of three or four repetitions the only one that is so far off is one.
const FAR: f64 = 0.25;

/// How figures of a unit are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// By their ratio: times and rates.
    Ratio,
    /// By their difference: shares, counts, and what has zeros.
    Difference,
}

impl Scale {
    /// The one that suits figures of a unit.
    pub fn of<'a>(unit: Unit, mut values: impl Iterator<Item = &'a f64>) -> Scale {
        match unit {
            Unit::Ns | Unit::PerSecond | Unit::BytesPerSecond if values.all(|v| *v > 0.0) => Scale::Ratio,
            _ => Scale::Difference,
        }
    }

    /// On it differences are what is compared.
    pub fn to(self, value: f64) -> f64 {
        match self {
            Scale::Ratio => value.ln(),
            Scale::Difference => value,
        }
    }

    /// A difference on it, as a ratio where it is one of ratios.
    pub fn from(self, difference: f64) -> f64 {
        match self {
            Scale::Ratio => difference.exp(),
            Scale::Difference => difference,
        }
    }
}

/// A repetition that stands apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlier {
    /// Which one, from 1.
    pub repetition: u32,
    pub value: f64,
    /// How it stands apart, in words.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellFigures {
    pub cell: usize,
    pub label: String,
    /// Level of each factor, by number.
    pub levels: Vec<usize>,
    /// Numbers of the repetitions, in the order in which they ran.
    pub repetitions: Vec<u32>,
    pub values: Vec<f64>,
    /// Their places in the order of all.
    pub places: Vec<usize>,
    pub median: f64,
    pub mean: f64,
    /// 95 % interval of the median, of three repetitions or more.
    pub interval: Option<Interval>,
    /// Largest less smallest as a part of the median.
    pub spread: Option<f64>,
    pub outliers: Vec<Outlier>,
    /// Repetitions that were not steady.
    pub unsteady: usize,
}

/// The cells that have the figure, by number; and how many repetitions have none or one that
/// is no number.
pub fn of(table: &Table, figure: &str) -> (Vec<CellFigures>, usize) {
    let mut cells: BTreeMap<usize, CellFigures> = BTreeMap::new();
    let mut left_out = 0;
    let mut rows: Vec<_> = table.rows.iter().collect();
    rows.sort_by_key(|r| r.place);
    for row in rows {
        let Some(value) = row.figures.get(figure).copied().filter(|v| v.is_finite()) else {
            left_out += 1;
            continue;
        };
        let cell = cells.entry(row.cell).or_insert_with(|| CellFigures {
            cell: row.cell,
            label: row.label.clone(),
            levels: row.levels.clone(),
            repetitions: Vec::new(),
            values: Vec::new(),
            places: Vec::new(),
            median: f64::NAN,
            mean: f64::NAN,
            interval: None,
            spread: None,
            outliers: Vec::new(),
            unsteady: 0,
        });
        cell.repetitions.push(row.repetition);
        cell.values.push(value);
        cell.places.push(row.place);
        cell.unsteady += usize::from(row.doubts.iter().any(|d| d.contains(NOT_STEADY)));
    }
    let share = table.units.get(figure) == Some(&Unit::Share);
    let mut cells: Vec<CellFigures> = cells.into_values().collect();
    for cell in &mut cells {
        cell.median = repetitions::median(&cell.values);
        cell.mean = repetitions::mean(&cell.values);
        cell.interval = repetitions::median_interval(&cell.values);
        let (low, high) = ends(&cell.values);
        cell.spread = (cell.median != 0.0).then(|| (high - low) / cell.median.abs());
        cell.outliers = outliers(cell, share);
    }
    (cells, left_out)
}

pub fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)))
}

/// How far a value is off: as a part of the median; of shares in shares.
fn outliers(cell: &CellFigures, share: bool) -> Vec<Outlier> {
    let (n, median) = (cell.values.len(), cell.median);
    let whole = if share { 1.0 } else { median.abs() };
    if n < repetitions::FEWEST || whole == 0.0 {
        return Vec::new();
    }
    let off: Vec<f64> = cell.values.iter().map(|v| (v - median).abs() / whole).collect();
    let deviation = repetitions::median(&off);
    let far = off.iter().filter(|o| **o > FAR).count();
    let outlier = |i: usize| -> Option<Outlier> {
        let z = NORMAL_MAD * off[i] / deviation;
        let found = if n >= FEWEST_FOR_Z { z > MOST_Z && off[i] > NEAR } else { far == 1 && off[i] > FAR };
        let others = match cell.values[i] > median {
            true => "above the median",
            false => "below the median",
        };
        let why = || match share {
            true => format!("{:.1} points {others} of {n}", off[i] * 100.0),
            false => format!("{:.0} % {others} of {n}", off[i] * 100.0),
        };
        found.then(|| Outlier { repetition: cell.repetitions[i], value: cell.values[i], why: why() })
    };
    (0..n).filter_map(outlier).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{change, Design};
    use super::*;

    #[test]
    fn a_planted_outlier_is_named_and_no_other() {
        for repeat in [3, 4, 5, 10] {
            let mut table =
                Design::new(&[("a", 2), ("b", 3)], repeat).table(|l| 1e6 * (1 + l[1]) as f64, 0.01);
            change(&mut table, "a1 b2", 2, |v| v * 1.5);
            let (cells, left_out) = of(&table, "write.mean");
            assert_eq!((cells.len(), left_out), (6, 0));
            for cell in &cells {
                let found: Vec<u32> = cell.outliers.iter().map(|o| o.repetition).collect();
                let want: &[u32] = if cell.label == "a1 b2" { &[2] } else { &[] };
                assert_eq!(found, want, "{} of {repeat}: {:?}", cell.label, cell.values);
            }
            let why = &cells[5].outliers[0].why;
            assert!(why.contains("% above the median"), "{why}");
        }
    }

    #[test]
    fn close_repetitions_and_two_alike_have_no_outlier() {
        let mut table = Design::new(&[], 6).table(|_| 1e6, 0.0);
        change(&mut table, "all", 1, |v| v * 1.04);
        assert!(of(&table, "write.mean").0[0].outliers.is_empty(), "4 % off the others, which are equal");
        let mut table = Design::new(&[], 2).table(|_| 1e6, 0.0);
        change(&mut table, "all", 1, |v| v * 9.0);
        let cell = &of(&table, "write.mean").0[0];
        assert!(cell.outliers.is_empty(), "of two nobody knows which");
        assert_eq!((cell.interval, cell.median, cell.mean), (None, 5e6, 5e6));
        assert!((cell.spread.expect("a median") - 1.6).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_zeros_have_no_ratio() {
        let mut table = Design::new(&[("a", 2)], 3).table(|_| 1e6, 0.0);
        change(&mut table, "a0", 1, |_| f64::NAN);
        change(&mut table, "a1", 1, |_| 0.0);
        table.rows[3].doubts.push("not steady: it fell".into());
        let (cells, left_out) = of(&table, "write.mean");
        assert_eq!((left_out, cells[0].values.len(), cells[1].values.len()), (1, 2, 3));
        assert_eq!(cells.iter().map(|c| c.unsteady).sum::<usize>(), 1);
        let all = || cells.iter().flat_map(|c| &c.values);
        assert_eq!(Scale::of(Unit::Ns, all()), Scale::Difference);
        assert_eq!(Scale::of(Unit::Ns, all().filter(|v| **v > 0.0)), Scale::Ratio);
        assert_eq!(Scale::of(Unit::Share, [0.5].iter()), Scale::Difference);
        assert_eq!(Scale::Ratio.from(Scale::Ratio.to(2.0)), 2.0);
    }
}
