// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the times of different loads go together over the environments in which each was measured: which of them tells what
//! another one will take.
//!
//! Of a factor whose levels are loads of different kinds, the combinations of the other factors are the environments. Each
//! pair of loads has a coefficient, and each load's time is made of at most two others' ([`plumb_stats::additive`]).
//! Whether that holds in an environment that was not measured is asked of each one in turn, by leaving it out.

use super::cells::CellFigures;
use crate::table::Table;
use plumb_stats::additive::{left_out, Sum};
use plumb_stats::correlation::{Correlation, FEWEST};
use plumb_stats::repetitions::{false_discovery, median, LEVEL};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    pub loads: [String; 2],
    #[serde(flatten)]
    pub correlation: Correlation,
    /// Share of such finds that is chance, of all pairs (Benjamini and Hochberg).
    pub q: f64,
    /// q is at most 5 %.
    pub found: bool,
}

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
}

/// The loads of a factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Together {
    pub factor: String,
    /// Environments in which all of them were measured.
    pub environments: Vec<String>,
    /// The strongest first.
    pub pairs: Vec<Pair>,
    /// In the factor's order.
    pub predictions: Vec<Prediction>,
}

/// Of each factor of loads with enough environments.
pub fn of(table: &Table, cells: &[CellFigures], figure: &str) -> Vec<Together> {
    let factors = table.factors.iter().enumerate();
    let loads = factors.filter(|(_, factor)| figure == "elapsed" && factor.other_work);
    loads.filter_map(|(number, factor)| one(table, cells, number, &factor.levels)).collect()
}

fn one(table: &Table, cells: &[CellFigures], number: usize, loads: &[String]) -> Option<Together> {
    let mut by: BTreeMap<Vec<usize>, BTreeMap<usize, f64>> = BTreeMap::new();
    for cell in cells {
        let mut environment = cell.levels.clone();
        let load = environment.remove(number);
        by.entry(environment).or_default().insert(load, cell.median);
    }
    by.retain(|_, times| times.len() == loads.len());
    if by.len() < FEWEST {
        return None;
    }
    let others: Vec<&Vec<String>> =
        table.factors.iter().enumerate().filter(|(i, _)| *i != number).map(|(_, f)| &f.levels).collect();
    let name = |levels: &Vec<usize>| -> String {
        levels.iter().zip(&others).map(|(l, names)| names[*l].as_str()).collect::<Vec<_>>().join(" ")
    };
    let environments: Vec<String> = by.keys().map(name).collect();
    let times = |load: usize| -> Vec<f64> { by.values().map(|t| t[&load]).collect() };
    let mut pairs = Vec::new();
    for a in 0..loads.len() {
        for b in a + 1..loads.len() {
            let Some(correlation) = Correlation::of(&times(a), &times(b)) else { continue };
            let loads = [loads[a].clone(), loads[b].clone()];
            pairs.push(Pair { loads, correlation, q: 1.0, found: false });
        }
    }
    let q = false_discovery(&pairs.iter().map(|p| p.correlation.p).collect::<Vec<_>>());
    for (pair, q) in pairs.iter_mut().zip(q) {
        (pair.q, pair.found) = (q, q <= LEVEL);
    }
    pairs.sort_by(|x, y| y.correlation.r.abs().total_cmp(&x.correlation.r.abs()));
    // What is asked is what loads tell of commands; a command tells something only where there is nothing else.
    let commands = &table.factors[number].commands;
    let tell: Vec<usize> = match commands.len() == loads.len() {
        true => (0..loads.len()).collect(),
        false => (0..loads.len()).filter(|l| !commands.contains(l)).collect(),
    };
    let predictions =
        (0..loads.len()).filter_map(|load| prediction(load, &tell, loads, &times, &environments)).collect();
    Some(Together { factor: table.factors[number].name.clone(), environments, pairs, predictions })
}

fn prediction(
    load: usize,
    tell: &[usize],
    loads: &[String],
    times: &dyn Fn(usize) -> Vec<f64>,
    environments: &[String],
) -> Option<Prediction> {
    let others: Vec<usize> = tell.iter().copied().filter(|o| *o != load).collect();
    let columns: Vec<Vec<f64>> = others.iter().map(|o| times(*o)).collect();
    let points: Vec<Vec<f64>> =
        (0..environments.len()).map(|e| columns.iter().map(|c| c[e]).collect()).collect();
    let own = times(load);
    let sum = Sum::best(&points, &own, None)?;
    let errors = left_out(&points, &own);
    if errors.len() < own.len() {
        return None;
    }
    // The largest first, by what it is of the median environment.
    let mut parts = sum.parts;
    parts.sort_by(|a, b| (b.1 * median(&columns[b.0])).total_cmp(&(a.1 * median(&columns[a.0]))));
    let worst = errors.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(Prediction {
        load: loads[load].clone(),
        parts: parts.iter().map(|(i, times)| (loads[others[*i]].clone(), *times)).collect(),
        constant: sum.constant,
        error: median(&errors.iter().map(|e| e.abs()).collect::<Vec<_>>()),
        worst: (*worst.1, environments[worst.0].clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::super::synthetic::Design;
    use super::*;
    use crate::table::Unit;

    /// Loads a and b of their own in each of so many environments, and c, which is 3 times b and 100.
    fn together(environments: usize, noise: f64) -> Vec<Together> {
        let table = table(environments, noise);
        assert!(of(&table, &cells::of(&table, "write.mean").0, "write.mean").is_empty());
        of(&table, &cells::of(&table, "elapsed").0, "elapsed")
    }

    fn table(environments: usize, noise: f64) -> Table {
        let own = |e: usize, by: usize| 50.0 * (1.0 + ((e * by) % 11) as f64);
        let design = Design::new(&[("disk", environments), ("load", 3)], 3);
        let mut table = design.table(
            |levels| match levels[1] {
                0 => own(levels[0], 7),
                1 => own(levels[0], 5),
                _ => 3.0 * own(levels[0], 5) + 100.0,
            },
            noise,
        );
        table.factors[1].other_work = true;
        for row in &mut table.rows {
            row.figures.insert("elapsed".into(), row.figures["write.mean"]);
        }
        table.units.insert("elapsed".into(), Unit::Ns);
        table
    }

    #[test]
    fn what_goes_with_what_is_told_and_what_it_is_made_of() {
        let [found] = &together(9, 0.001)[..] else { panic!("one factor of loads") };
        assert_eq!((found.factor.as_str(), found.environments.len()), ("load", 9));
        assert_eq!(found.pairs[0].loads, ["load1", "load2"]);
        assert!(found.pairs[0].found && !found.pairs[2].found, "{found:#?}");
        let last = found.predictions.last().expect("some");
        assert_eq!((last.load.as_str(), last.parts[0].0.as_str()), ("load2", "load1"));
        assert!((last.parts[0].1 - 3.0).abs() < 0.05 && (last.constant - 100.0).abs() < 10.0, "{last:?}");
        assert!(last.error < 0.01, "{found:#?}");
        assert!(found.predictions.iter().all(|p| p.load != "load0" || p.error > 0.1), "{found:#?}");
    }

    #[test]
    fn commands_are_told_by_loads_alone() {
        let mut all = table(9, 0.001);
        all.factors[1].commands = vec![1, 2];
        let [found] = &of(&all, &cells::of(&all, "elapsed").0, "elapsed")[..] else { panic!("one factor") };
        let told = found.predictions.iter().flat_map(|p| &p.parts);
        assert!(told.clone().count() > 0 && told.clone().all(|(load, _)| load == "load0"), "{found:#?}");
    }

    #[test]
    fn few_environments_say_nothing() {
        assert_eq!(together(3, 0.0), []);
    }
}
