// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured in the environments of a plan that ran.

use crate::analysis::cells::NOT_VALID;
use crate::analysis::environments::Others;
use crate::compare::differs;
use crate::file::Settings;
use crate::merge::merged;
use crate::state::State;
use crate::table::{FactorNames, Table};
use anyhow::{bail, Context, Result};
use plumb_stats::repetitions::median;
use std::collections::BTreeMap;
use std::path::Path;

/// A plan that ran, with its factor of loads.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    pub dir: &'a Path,
    pub state: &'a State,
    pub table: &'a Table,
    /// Number of the factor.
    factor: usize,
}

/// Of each repetition, by load and figure.
type Figures = BTreeMap<(String, String), Vec<f64>>;

/// One environment, and what its loads took.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub name: String,
    /// Level of each other factor, by number.
    pub levels: Vec<usize>,
    /// None: unknown.
    pub price: Option<f64>,
    figures: Figures,
}

impl Measured {
    /// Every repetition's figure; none where it was not measured.
    pub fn values(&self, load: &str, figure: &str) -> &[f64] {
        self.figures.get(&(load.into(), figure.into())).map_or(&[], Vec::as_slice)
    }

    pub fn median(&self, load: &str, figure: &str) -> Option<f64> {
        Some(median(self.values(load, figure))).filter(|m| m.is_finite() && *m > 0.0)
    }
}

impl<'a> Ran<'a> {
    /// The run with a load.
    ///
    /// # Errors
    /// None of its factors has such a level.
    pub fn with(load: &str, dir: &'a Path, state: &'a State, table: &'a Table) -> Result<Self> {
        let factor = table.factors.iter().position(|f| f.levels.iter().any(|l| l == load));
        let factor = factor.with_context(|| {
            let loads = table.factors.iter().filter(|f| f.other_work).flat_map(|f| &f.levels).cloned();
            format!("{}: {}", dir.display(), super::target::unknown(load, &loads.collect::<Vec<_>>()))
        })?;
        Ok(Self { dir, state, table, factor })
    }

    /// Another run with the same factor of loads.
    ///
    /// # Errors
    /// It has no such factor, or measured a load in another way.
    pub fn other(&self, dir: &'a Path, state: &'a State, table: &'a Table) -> Result<Self> {
        let name = &self.loads().name;
        let factor = table.factors.iter().position(|f| f.name == *name).with_context(|| {
            let there: Vec<&str> = table.factors.iter().map(|f| f.name.as_str()).collect();
            format!(
                "{}: has no factor '{name}' of loads, as KNOWN has; there are: {}",
                dir.display(),
                there.join(", ")
            )
        })?;
        let other = Self { dir, state, table, factor };
        for load in &self.loads().levels {
            let (Some(known), Some(new)) = (self.settings(load), other.settings(load)) else { continue };
            if let Some(first) = differs::between(&known, &new).first() {
                bail!(
                    "cannot compare {} with {}: '{load}' was measured with {} = {}, in KNOWN with {}\n\
                     hint: only the environment may differ; measure both with the same settings of the load",
                    dir.display(),
                    self.dir.display(),
                    first.what,
                    first.b,
                    first.a
                );
            }
        }
        Ok(other)
    }

    pub fn loads(&self) -> &'a FactorNames {
        &self.table.factors[self.factor]
    }

    pub fn others(&self) -> Others<'a> {
        Others::of(self.table, self.factor)
    }

    /// Of a load all that is not the environment it ran in.
    fn settings(&self, load: &str) -> Option<Settings> {
        let levels = &self.state.plan.factor(&self.loads().name)?.levels;
        let level = levels.iter().find(|l| l.name == load)?;
        let all = merged([&self.state.plan.cell, &level.settings]);
        Some(Settings {
            host: None,
            record_hosts: None,
            device: None,
            file_system: None,
            memory: None,
            cpus: None,
            queue: BTreeMap::new(),
            sysctl: BTreeMap::new(),
            write: BTreeMap::new(),
            ..all
        })
    }

    /// Those in which anything was measured, in the plan's order.
    pub fn environments(&self) -> Vec<Measured> {
        let others = self.others();
        let mut all: BTreeMap<Vec<usize>, Figures> = BTreeMap::new();
        for row in &self.table.rows {
            let (levels, load) = others.split(&row.levels);
            let figures = all.entry(levels).or_default();
            for (name, value) in &row.figures {
                let key = (self.loads().levels[load].clone(), name.clone());
                figures.entry(key).or_default().push(*value);
            }
        }
        let of = |(levels, figures): (Vec<usize>, _)| Measured {
            name: others.name(&levels),
            price: self.price(&levels),
            levels,
            figures,
        };
        all.into_iter().map(of).collect()
    }

    /// The sum over the levels; none where one of a factor with prices has none.
    fn price(&self, levels: &[usize]) -> Option<f64> {
        let factors = self.state.plan.factors.iter().enumerate().filter(|(i, _)| *i != self.factor);
        let mut all = factors
            .zip(levels)
            .filter(|((_, factor), _)| factor.levels.iter().any(|l| l.price.is_some()))
            .map(|((_, factor), level)| factor.levels.get(*level).and_then(|l| l.price))
            .peekable();
        all.peek()?;
        all.sum()
    }

    /// Repetitions that call themselves not valid, of these loads; and all of them.
    pub fn not_valid(&self, loads: &[String]) -> (usize, usize) {
        let of = |levels: &[usize]| loads.contains(&self.loads().levels[levels[self.factor]]);
        let rows: Vec<_> = self.table.rows.iter().filter(|row| of(&row.levels)).collect();
        let bad = rows.iter().filter(|row| row.doubts.iter().any(|d| d.starts_with(NOT_VALID)));
        (bad.count(), rows.len())
    }

    /// Every figure that was measured of a load.
    pub fn figures(&self, load: &str) -> Vec<&'a str> {
        let of = |levels: &[usize]| self.loads().levels[levels[self.factor]] == load;
        let rows = self.table.rows.iter().filter(|row| of(&row.levels));
        let mut all: Vec<&str> = rows.flat_map(|row| row.figures.keys().map(String::as_str)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
