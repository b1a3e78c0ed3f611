// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the times of different loads go together over the environments in which each was measured: which of them tells what
//! another one will take.
//!
//! Of a factor whose levels are loads of different kinds, the combinations of the other factors are the environments. Each
//! pair of loads has a coefficient, and each load's time is made of at most two others' ([`plumb_stats::additive`]).
//! Whether that holds in an environment that was not measured is asked of each one in turn, by leaving it out, with all that have
//! the same level of the factor with most levels: another file system on the same disk is nearly the same.

use super::cells::CellFigures;
use super::environments::{Known, Others, Prediction};
use crate::table::Table;
use plumb_stats::correlation::{Correlation, FEWEST};
use plumb_stats::repetitions::{false_discovery, LEVEL};
use serde::Serialize;

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

/// The loads of a factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Together {
    pub factor: String,
    /// Environments in which all of them were measured.
    pub environments: Vec<String>,
    /// Loads that were measured in too few of them.
    pub without: Vec<String>,
    /// The factor whose levels were left out one after the other; none: each environment.
    pub left_out_by: Option<String>,
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
    let others = Others::of(table, number);
    let mut by = others.medians(cells);
    let measured = |load: &usize| by.values().filter(|times| times.contains_key(load)).count();
    let (kept, without): (Vec<usize>, Vec<usize>) = (0..loads.len()).partition(|l| measured(l) >= FEWEST);
    by.retain(|_, times| kept.iter().all(|load| times.contains_key(load)));
    if by.len() < FEWEST || kept.len() < 2 {
        return None;
    }
    let times = |load: usize| -> Vec<f64> { by.values().map(|t| t[&load]).collect() };
    let mut pairs = Vec::new();
    for (i, &a) in kept.iter().enumerate() {
        for &b in &kept[i + 1..] {
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
    let is_load = |column: &usize| !commands.contains(&kept[*column]);
    let all: Vec<usize> = (0..kept.len()).collect();
    let tell: Vec<usize> = match all.iter().any(is_load) {
        true => all.iter().copied().filter(is_load).collect(),
        false => all.clone(),
    };
    let known = Known {
        loads: kept.iter().map(|l| (loads[*l].clone(), times(*l))).collect(),
        environments: by.keys().map(|environment| others.name(environment)).collect(),
        groups: others.groups(by.keys()),
    };
    let predictions = all.iter().filter_map(|load| Some(known.fit(*load, &tell)?.prediction)).collect();
    Some(Together {
        factor: table.factors[number].name.clone(),
        without: without.iter().map(|l| loads[*l].clone()).collect(),
        left_out_by: others.alike_by().map(|factor| factor.name.clone()),
        environments: known.environments,
        pairs,
        predictions,
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
    fn a_load_that_cannot_run_leaves_the_others() {
        let mut all = table(9, 0.001);
        all.rows.retain(|row| row.levels[1] != 0);
        let [found] = &of(&all, &cells::of(&all, "elapsed").0, "elapsed")[..] else { panic!("one factor") };
        assert_eq!((found.without.as_slice(), found.pairs.len()), (&["load0".to_string()][..], 1));
        all.rows.retain(|row| row.levels[1] != 1);
        assert!(of(&all, &cells::of(&all, "elapsed").0, "elapsed").is_empty(), "one load alone");
    }

    #[test]
    fn few_environments_say_nothing() {
        assert_eq!(together(3, 0.0), []);
    }
}
