// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables with a known answer, for the tests.

use crate::table::{FactorNames, Row, Table, Unit};
use plumb_stats::random::SplitMix64;
use std::collections::BTreeMap;

/// Factors with so many levels each, and repetitions.
pub struct Design {
    factors: Vec<FactorNames>,
    repeat: u32,
    /// Of the noise and the order.
    pub seed: u64,
}

impl Design {
    /// Levels are called `a0`, `a1` after their factor.
    pub fn new(factors: &[(&str, usize)], repeat: u32) -> Self {
        let names = |(name, n): &(&str, usize)| FactorNames {
            name: name.to_string(),
            levels: (0..*n).map(|i| format!("{name}{i}")).collect(),
        };
        Self { factors: factors.iter().map(names).collect(), repeat, seed: 1 }
    }

    /// A table of `write.mean` (ns): `of` each cell's levels, times exp(`noise` * normal).
    pub fn table(&self, of: impl Fn(&[usize]) -> f64, noise: f64) -> Table {
        let mut random = SplitMix64::new(self.seed);
        let mut cells: Vec<Vec<usize>> = vec![Vec::new()];
        for factor in &self.factors {
            let grown = |cell: &Vec<usize>| {
                (0..factor.levels.len()).map(|l| [cell.as_slice(), &[l]].concat()).collect::<Vec<_>>()
            };
            cells = cells.iter().flat_map(grown).collect();
        }
        let mut rows = Vec::new();
        for repetition in 1..=self.repeat {
            let mut order: Vec<usize> = (0..cells.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
            }
            for cell in order {
                let levels = cells[cell].clone();
                let names: Vec<&str> =
                    levels.iter().zip(&self.factors).map(|(l, f)| f.levels[*l].as_str()).collect();
                let value = of(&levels) * (noise * random.normal()).exp();
                rows.push(Row {
                    cell,
                    label: if names.is_empty() { "all".into() } else { names.join(" ") },
                    levels,
                    repetition,
                    place: rows.len(),
                    figures: BTreeMap::from([("write.mean".to_string(), value)]),
                    ..Row::default()
                });
            }
        }
        Table {
            factors: self.factors.clone(),
            units: BTreeMap::from([("write.mean".to_string(), Unit::Ns)]),
            rows,
            missing: Vec::new(),
        }
    }
}

/// Changes the figure of one repetition of a cell.
pub fn change(table: &mut Table, label: &str, repetition: u32, of: impl Fn(f64) -> f64) {
    for row in table.rows.iter_mut().filter(|r| r.label == label && r.repetition == repetition) {
        for value in row.figures.values_mut() {
            *value = of(*value);
        }
    }
}
