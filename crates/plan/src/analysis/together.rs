// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the times of different loads go together over the environments in which each was measured: which of them tells what
//! another one will take.
//!
//! Of a factor whose levels are loads of different kinds, the combinations of the other factors are the environments. Each
//! pair of loads has a coefficient, and each load's time is made of at most two others' ([`plumb_stats::additive`]).
//! Whether that holds in an environment that was not measured is asked of each one in turn, by leaving it out, with all that have
//! the same level of the factor with most levels: another file system on the same disk is nearly the same.
//!
//! Of a command or a database's load that has steps (the queries of one), each step's time is told by the loads as well. Where its
//! time goes says why.

use super::cells::CellFigures;
use super::environments::{Known, Others, Prediction};
use super::time::{self, Shares};
use crate::table::Table;
use plumb_stats::correlation::{Correlation, FEWEST};
use plumb_stats::repetitions::{false_discovery, median, LEVEL};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of more steps than these nothing is told: they are no queries of a set.
const MOST_STEPS: usize = 64;

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
    // What is asked is what loads tell of commands; a command tells something only where there is nothing else.
    let commands = &table.factors[number].commands;
    let is_load = |column: &usize| !commands.contains(&kept[*column]);
    let all: Vec<usize> = (0..kept.len()).collect();
    let tell: Vec<usize> = match all.iter().any(is_load) {
        true => all.iter().copied().filter(is_load).collect(),
        false => all.clone(),
    };
    let mut columns: Vec<Column> = kept.iter().map(|load| Column::of(table, &others, loads, *load)).collect();
    let times = |load: usize| -> Vec<f64> { by.values().map(|t| t[&load]).collect() };
    columns.iter_mut().zip(&kept).for_each(|(column, load)| column.times = times(*load));
    let told = kept.iter().enumerate().filter(|(_, load)| commands.contains(load));
    columns.extend(told.flat_map(|(of, load)| steps(table, &others, (&loads[*load], *load, of), &by)));
    let mut pairs = Vec::new();
    for (i, a) in columns.iter().enumerate().take(kept.len()) {
        for (j, b) in columns.iter().enumerate().skip(i + 1) {
            // Of a step its own load says nothing that is not known.
            if j >= kept.len() && (!tell.contains(&i) || b.of == Some(i)) {
                continue;
            }
            let Some(correlation) = Correlation::of(&a.times, &b.times) else { continue };
            pairs.push(Pair { loads: [a.name.clone(), b.name.clone()], correlation, q: 1.0, found: false });
        }
    }
    let q = false_discovery(&pairs.iter().map(|p| p.correlation.p).collect::<Vec<_>>());
    for (pair, q) in pairs.iter_mut().zip(q) {
        (pair.q, pair.found) = (q, q <= LEVEL);
    }
    pairs.sort_by(|x, y| y.correlation.r.abs().total_cmp(&x.correlation.r.abs()));
    let known = Known {
        loads: columns.iter().map(|column| (column.name.clone(), column.times.clone())).collect(),
        environments: by.keys().map(|environment| others.name(environment)).collect(),
        groups: others.groups(by.keys()),
    };
    let predict = |(number, column): (usize, Column)| {
        let tell: Vec<usize> = tell.iter().copied().filter(|load| column.of != Some(*load)).collect();
        Some(Prediction { time: column.time, ..known.fit(number, &tell)?.prediction })
    };
    let predictions = columns.into_iter().enumerate().filter_map(predict).collect();
    Some(Together {
        factor: table.factors[number].name.clone(),
        without: without.iter().map(|l| loads[*l].clone()).collect(),
        left_out_by: others.alike_by().map(|factor| factor.name.clone()),
        environments: known.environments,
        pairs,
        predictions,
    })
}

/// A load, or a step of one.
#[derive(Debug)]
struct Column {
    name: String,
    /// Of a step the number of its load's column.
    of: Option<usize>,
    /// In each environment, ns.
    times: Vec<f64>,
    /// Where it goes.
    time: Vec<(String, f64)>,
}

impl Column {
    /// A load without its times.
    fn of(table: &Table, others: &Others<'_>, loads: &[String], load: usize) -> Self {
        let mut shares = Shares::default();
        let rows = table.rows.iter().filter(|row| others.split(&row.levels).1 == load);
        rows.for_each(|row| shares.add(time::of(row).iter()));
        Self { name: loads[load].clone(), of: None, times: Vec::new(), time: shares.means() }
    }
}

/// Of each repetition, by environment, ns.
type Times = BTreeMap<Vec<usize>, Vec<f64>>;

/// The steps of a load that were measured in all environments: none where it has one alone.
fn steps(
    table: &Table,
    others: &Others<'_>,
    (name, load, of): (&str, usize, usize),
    environments: &BTreeMap<Vec<usize>, BTreeMap<usize, f64>>,
) -> Vec<Column> {
    let mut by: BTreeMap<&str, (Times, Shares)> = BTreeMap::new();
    for row in &table.rows {
        let (environment, own) = others.split(&row.levels);
        if own != load || !environments.contains_key(&environment) {
            continue;
        }
        for step in time::of(row).iter().filter(|step| step.count > 0 && step.whole() > 0.0) {
            let (times, shares) = by.entry(&step.name).or_default();
            times.entry(environment.clone()).or_default().push(step.whole() / step.count as f64);
            shares.add(std::iter::once(step));
        }
    }
    if !(2..=MOST_STEPS).contains(&by.len()) {
        return Vec::new();
    }
    let column = |(step, (times, shares)): (&str, (Times, Shares))| {
        let times: Vec<f64> = times.values().map(|all| median(all)).collect();
        Column { name: format!("{name}: {step}"), of: Some(of), times, time: shares.means() }
    };
    let whole = |column: &Column| column.times.len() == environments.len();
    by.into_iter().map(column).filter(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::super::synthetic::Design;
    use super::*;
    use crate::table::{TimeOf, Unit};

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
    fn steps_of_a_command_are_told_by_loads_and_where_its_time_goes() {
        let mut all = table(9, 0.0);
        all.factors[1].commands = vec![2];
        let parts = |device: f64| {
            BTreeMap::from([("running".to_string(), 1e3), ("block.device".to_string(), device)])
        };
        let step = |name: &str, device| TimeOf { name: name.into(), count: 2, parts: parts(device) };
        let reads: BTreeMap<usize, f64> = all
            .rows
            .iter()
            .filter(|row| row.levels[1] == 0)
            .map(|row| (row.levels[0], row.figures["elapsed"]))
            .collect();
        for row in all.rows.iter_mut().filter(|row| row.levels[1] == 2) {
            row.spans = vec![step("Q1", 1e3 * reads[&row.levels[0]]), step("Q2", 3e3)];
        }
        let [found] = &of(&all, &cells::of(&all, "elapsed").0, "elapsed")[..] else { panic!("one factor") };
        let q1 = found.predictions.iter().find(|p| p.load == "load2: Q1").expect("a query");
        assert_eq!(q1.parts[0].0, "load0", "{q1:?}");
        assert!(q1.time[0].0 == "block device: service" && q1.time[0].1 > 0.9, "{q1:?}");
        let of_steps = |p: &&Pair| p.loads.iter().any(|l| l.contains(": "));
        let told: Vec<&Pair> = found.pairs.iter().filter(of_steps).collect();
        assert!(!told.is_empty(), "{found:#?}");
        assert!(told.iter().all(|p| p.loads[0] == "load0" || p.loads[0] == "load1"), "{told:?}");
        let whole = found.predictions.iter().find(|p| p.load == "load2").expect("the command");
        assert_eq!(whole.time.len(), 2, "{whole:?}");
        // Where there are commands alone, its own does not tell it either.
        all.factors[1].commands = vec![0, 1, 2];
        let [found] = &of(&all, &cells::of(&all, "elapsed").0, "elapsed")[..] else { panic!("one factor") };
        let own = |p: &&Pair| p.loads.contains(&"load2".into()) && p.loads.contains(&"load2: Q1".into());
        assert_eq!(found.pairs.iter().filter(own).count(), 0, "{found:#?}");
        let q1 = found.predictions.iter().find(|p| p.load == "load2: Q1").expect("a query");
        assert!(q1.parts.iter().all(|(load, _)| load != "load2"), "{q1:?}");
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
