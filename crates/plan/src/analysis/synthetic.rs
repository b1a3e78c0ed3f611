// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables with a known answer, for the tests.

use crate::table::{FactorNames, Row, Table, Unit, Work};
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
            other_work: false,
            commands: Vec::new(),
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

/// Two kernels and two methods; with kernel 1 a write by method 1 takes 30 % more, in fsync at the device.
pub fn measured(noise: f64, seed: u64, more: f64) -> Table {
    let mut design = Design::new(&[("kernel", 2), ("method", 2)], 4);
    design.seed = seed;
    let slow = |levels: &[usize]| if levels == [1, 1] { more } else { 0.0 };
    let mut table = design.table(|levels| 1000.0 * (1.0 + slow(levels)), noise);
    for row in &mut table.rows {
        // Repetitions differ in length.
        let count = 100 * u64::from(row.repetition);
        let each = |ns: f64| ns * count as f64;
        let noise = row.figures["write.mean"] / (1000.0 * (1.0 + slow(&row.levels)));
        let device = 600.0 * noise + 1000.0 * slow(&row.levels);
        let account = |parts: &[(&str, f64)]| {
            parts.iter().map(|(category, ns)| (category.to_string(), each(*ns))).collect()
        };
        let parts = [
            ("", account(&[("running", 100.0 * noise), ("overhead", 500.0 * row.repetition as f64)])),
            ("fsync", account(&[("running", 300.0 * noise), ("block.device", device)])),
        ];
        let parts = parts.map(|(call, account)| (call.to_string(), account)).into();
        row.work = vec![
            Work { operations: [("write".to_string(), count)].into(), parts },
            // The process that starts the load waits.
            Work { parts: [("wait4".into(), account(&[("child", 1e6)]))].into(), ..Work::default() },
        ];
    }
    table
}

/// Changes the figure of one repetition of a cell.
pub fn change(table: &mut Table, label: &str, repetition: u32, of: impl Fn(f64) -> f64) {
    for row in table.rows.iter_mut().filter(|r| r.label == label && r.repetition == repetition) {
        for value in row.figures.values_mut() {
            *value = of(*value);
        }
    }
}
