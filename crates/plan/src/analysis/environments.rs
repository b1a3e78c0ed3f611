// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Environments: of a factor whose levels are loads of different kinds, the combinations of the other factors. What a load takes in
//! one is told by other loads there ([`plumb_stats::additive`]).

use super::cells::CellFigures;
use super::words::{ratio, value};
use crate::table::{FactorNames, Table, Unit};
use plumb_stats::additive::{left_out, Sum};
use plumb_stats::correlation::FEWEST;
use plumb_stats::repetitions::median;
use plumb_trace::units;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a load's time is made of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    pub load: String,
    /// Other loads, the one with the largest part first, and how many times each one's time is in this one's.
    pub parts: Vec<(String, f64)>,
    /// Time that is in it everywhere, ns.
    pub constant: f64,
    /// Median of the relative errors, without their signs, of environments that were left out.
    pub error: f64,
    /// The largest, with its sign, and where.
    pub worst: (f64, String),
    /// Where its time goes, as shares of it, the largest first; empty: neither recorded nor told by the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time: Vec<(String, f64)>,
}

impl Prediction {
    /// `250 x fsync + 1.2 s`.
    pub fn sum(&self) -> String {
        // Of a load of many operations one operation of another is a small part.
        let times = |times: f64| if times < 0.0995 { units::digits(times) } else { ratio(times) };
        let parts = self.parts.iter().map(|(load, part)| format!("{} x {load}", times(*part)));
        let constant = (self.constant > 0.0).then(|| value(self.constant, Unit::Ns));
        parts.chain(constant).collect::<Vec<_>>().join(" + ")
    }
}

/// The factors other than one of loads.
#[derive(Debug)]
pub struct Others<'a> {
    /// Number of the factor of loads.
    loads: usize,
    factors: Vec<&'a FactorNames>,
}

impl<'a> Others<'a> {
    /// `loads` is the number of the factor of loads.
    pub fn of(table: &'a Table, loads: usize) -> Self {
        let factors = table.factors.iter().enumerate().filter(|(i, _)| *i != loads).map(|(_, f)| f).collect();
        Self { loads, factors }
    }

    /// A cell's levels of the other factors, and its load.
    pub fn split(&self, levels: &[usize]) -> (Vec<usize>, usize) {
        let mut environment = levels.to_vec();
        let load = environment.remove(self.loads);
        (environment, load)
    }

    /// The medians of cells: of each environment those of its loads.
    pub fn medians(&self, cells: &[CellFigures]) -> BTreeMap<Vec<usize>, BTreeMap<usize, f64>> {
        let mut by: BTreeMap<Vec<usize>, BTreeMap<usize, f64>> = BTreeMap::new();
        for cell in cells {
            let (environment, load) = self.split(&cell.levels);
            by.entry(environment).or_default().insert(load, cell.median);
        }
        by
    }

    /// `gp3 ext4`.
    pub fn name(&self, environment: &[usize]) -> String {
        let names = environment.iter().zip(&self.factors).map(|(l, f)| f.levels[*l].as_str());
        names.collect::<Vec<_>>().join(" ")
    }

    /// The factor with most levels: those that share one of them are nearly the same environment. None where each is by itself; with few
    /// levels most of what is known would be left out with one of them.
    pub fn alike_by(&self) -> Option<&'a FactorNames> {
        Some(self.factors[self.largest()?])
    }

    fn largest(&self) -> Option<usize> {
        let largest = (0..self.factors.len()).max_by_key(|i| self.factors[*i].levels.len());
        largest.filter(|i| self.factors.len() > 1 && self.factors[*i].levels.len() > FEWEST)
    }

    /// The same number for environments that are nearly the same.
    pub fn groups<'b>(&self, environments: impl Iterator<Item = &'b Vec<usize>>) -> Vec<usize> {
        let largest = self.largest();
        environments.enumerate().map(|(number, levels)| largest.map_or(number, |i| levels[i])).collect()
    }
}

/// Times that were measured in the same environments.
#[derive(Debug)]
pub struct Known {
    /// Of each load its name, and its time in each environment, ns.
    pub loads: Vec<(String, Vec<f64>)>,
    pub environments: Vec<String>,
    /// Environments of the same group are nearly the same.
    pub groups: Vec<usize>,
}

/// A load's time by others.
#[derive(Debug)]
pub struct Fit {
    pub prediction: Prediction,
    /// Its parts are numbers of [`Known::loads`].
    pub sum: Sum,
    /// Relative error of each environment that was left out with those of its group.
    pub errors: Vec<f64>,
}

impl Known {
    /// Of a load, by others that tell.
    pub fn fit(&self, load: usize, tell: &[usize]) -> Option<Fit> {
        let others: Vec<usize> = tell.iter().copied().filter(|o| *o != load).collect();
        let all: Vec<usize> = (0..self.environments.len()).collect();
        let point = |e: &usize| others.iter().map(|o| self.loads[*o].1[*e]).collect();
        let points: Vec<Vec<f64>> = all.iter().map(point).collect();
        let (name, own) = &self.loads[load];
        let mut sum = Sum::best(&points, own, &all)?;
        let errors = left_out(&points, own, &self.groups);
        if errors.len() < own.len() {
            return None;
        }
        sum.parts.iter_mut().for_each(|(other, _)| *other = others[*other]);
        // The largest first, by what it is of the median environment.
        let part = |(other, times): &(usize, f64)| times * median(&self.loads[*other].1);
        sum.parts.sort_by(|a, b| part(b).total_cmp(&part(a)));
        let worst = errors.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let prediction = Prediction {
            load: name.clone(),
            parts: sum.parts.iter().map(|(other, times)| (self.loads[*other].0.clone(), *times)).collect(),
            constant: sum.constant,
            error: median(&errors.iter().map(|e| e.abs()).collect::<Vec<_>>()),
            worst: (*worst.1, self.environments[worst.0].clone()),
            time: Vec::new(),
        };
        Some(Fit { prediction, sum, errors })
    }
}
