// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What changed from one level of a factor to another, and which parts of the account did.
//!
//! A pair is two cells that differ in one factor alone: its first level, and each other one. The figure's difference
//! is tested pair by pair (Welch's t, on the logarithm for times and rates), all pairs of a factor together (Benjamini and
//! Hochberg). The parts, of recorded cells, are times of the processes that did the figure's operations, for each operation, so that
//! runs of different lengths can be compared. Of a command's time, and of a load's that asks a server, they are those of the critical path, which add up to it.

use super::cells::{CellFigures, Scale};
use crate::table::{FactorNames, Row, Table, Unit};
use plumb_model::CATEGORIES;
use plumb_stats::repetitions::{self, Interval};
use plumb_stats::student::Welch;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Parts below this share of the sum of all differences are not told.
const WORTH_TELLING: f64 = 0.05;
/// Parts that are told at most.
const MOST_PARTS: usize = 4;
/// Quantiles are read from buckets of this width at most, as a part of the value ([`plumb_stats::histogram`]).
const BUCKET: f64 = 0.01;
/// Time of which nothing is known.
const UNKNOWN: [&str; 2] = ["paused", "lost"];

/// A part of the account at both levels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartChange {
    /// System call, empty for time outside of calls; on a path who ran or was waited for.
    pub call: String,
    /// Category of the account.
    pub category: String,
    /// Mean at the first level and the other, ns an operation; of a plan without operations, ns.
    pub means: [f64; 2],
    pub difference: f64,
    /// 95 % interval of the difference; none of single repetitions.
    pub interval: Option<Interval>,
}

/// Two cells that differ in one factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub factor: String,
    /// Its first level, and the other.
    pub levels: [String; 2],
    /// Levels of the other factors.
    pub with: Vec<String>,
    /// Medians of the figure.
    pub medians: [f64; 2],
    /// Ratio, or difference, of the means; see `scale` of the effects.
    pub effect: f64,
    /// 95 % interval of the effect; none of single repetitions.
    pub interval: Option<Interval>,
    /// Probability of one so large where there is none.
    pub p: Option<f64>,
    /// The same, of all pairs of the factor (Benjamini and Hochberg).
    pub q: Option<f64>,
    /// q is at most 5 %.
    pub found: bool,
    /// Both were recorded.
    pub recorded: bool,
    /// Parts of the account that differ, the largest first; empty where it was not found or not recorded.
    pub parts: Vec<PartChange>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Factor by factor in the plan's order: those that were found, the largest first; then the others.
    pub pairs: Vec<Change>,
    /// Kind of the operations that parts are times of; none: times of the whole.
    pub operation: Option<String>,
    /// Parts are those of the critical path.
    pub of_path: bool,
}

/// All pairs.
pub fn of(table: &Table, cells: &[CellFigures], figure: &str, unit: Unit) -> Changes {
    let scale = Scale::of(unit, cells.iter().flat_map(|c| &c.values));
    let recorded: BTreeMap<usize, Vec<&Row>> = cells
        .iter()
        .map(|c| (c.cell, table.rows.iter().filter(|r| r.cell == c.cell && !r.work.is_empty()).collect()))
        .filter(|(_, rows): &(usize, Vec<&Row>)| !rows.is_empty())
        .collect();
    let kind = kind(figure);
    let counted = |row: &&Row| row.work.iter().any(|w| kind.is_some_and(|k| w.operations.contains_key(k)));
    let operation = kind.filter(|_| recorded.values().flatten().all(counted));
    // Who asks waits for who answers: the path leads there, the asker's own calls do not.
    let operations = |row: &Row| row.work.iter().flat_map(|w| w.operations.keys()).any(|k| k != "request");
    let of_path = figure == "elapsed"
        && recorded.values().flatten().all(|row| !row.path.is_empty() && !operations(row));
    let is_quantile =
        kind.is_some() && figure.rsplit_once(".p").is_some_and(|(_, q)| q.parse::<f64>().is_ok());
    let resolution = if is_quantile && scale == Scale::Ratio { BUCKET } else { 0.0 };
    let mut pairs = Vec::new();
    let alike = |factor: &FactorNames| figure != "elapsed" || !factor.other_work;
    for (number, factor) in table.factors.iter().enumerate().filter(|(_, factor)| alike(factor)) {
        for b in cells.iter().filter(|c| c.levels.get(number).is_some_and(|l| *l > 0)) {
            let like = |a: &&CellFigures| {
                a.levels.iter().zip(&b.levels).enumerate().all(|(i, (x, y))| match i == number {
                    true => *x == 0,
                    false => x == y,
                })
            };
            let Some(a) = cells.iter().find(like) else { continue };
            let rows = recorded.get(&a.cell).zip(recorded.get(&b.cell));
            let names = |c: &CellFigures, which: usize| {
                table.factors[which].levels.get(c.levels[which]).cloned().unwrap_or_default()
            };
            let values = |c: &CellFigures| c.values.iter().map(|v| scale.to(*v)).collect::<Vec<_>>();
            let test = Welch::of(&values(a), &values(b), resolution);
            let plain = repetitions::mean(&values(b)) - repetitions::mean(&values(a));
            let end = |sign: f64| test.map(|t| scale.from(t.difference + sign * t.half));
            pairs.push(Change {
                factor: factor.name.clone(),
                levels: [names(a, number), names(b, number)],
                with: (0..table.factors.len()).filter(|i| *i != number).map(|i| names(b, i)).collect(),
                medians: [a.median, b.median],
                effect: scale.from(plain),
                interval: end(-1.0).zip(end(1.0)).map(|(low, high)| Interval { low, high }),
                p: test.map(|t| t.p),
                q: None,
                found: false,
                recorded: rows.is_some(),
                parts: rows.map_or_else(Vec::new, |(a, b)| match of_path {
                    true => parts(path(a), path(b), figure),
                    false => parts(times(a, operation), times(b, operation), figure),
                }),
            });
        }
    }
    Changes { pairs: judged(pairs, scale), operation: operation.map(String::from), of_path }
}

/// The kind of operation of a figure like `write.p99`. Of a step (`seek:write.p99`) none: processes do several steps, and the
/// account is of all of them.
fn kind(figure: &str) -> Option<&str> {
    let (kind, _) = figure.split_once('.')?;
    (kind != "time" && kind != "span" && !figure.contains(':')).then_some(kind)
}

fn judged(mut pairs: Vec<Change>, scale: Scale) -> Vec<Change> {
    let size = |c: &Change| match scale {
        Scale::Ratio => c.effect.ln().abs(),
        Scale::Difference => c.effect.abs(),
    };
    for of_factor in pairs.chunk_by_mut(|a, b| a.factor == b.factor) {
        let p: Vec<f64> = of_factor.iter().filter_map(|c| c.p).collect();
        let mut q = repetitions::false_discovery(&p).into_iter();
        for pair in of_factor.iter_mut() {
            pair.q = pair.p.and_then(|_| q.next());
            pair.found = pair.q.is_some_and(|q| q <= repetitions::LEVEL);
            // Of what may be chance there is nothing to explain. Without an error nothing is known.
            if pair.q.is_some() && !pair.found {
                pair.parts.clear();
            }
        }
        of_factor.sort_by(|x, y| y.found.cmp(&x.found).then(size(y).total_cmp(&size(x))));
    }
    pairs
}

/// Time of each part of a repetition, ns.
type Times = BTreeMap<(String, String), f64>;

/// The critical path's time in each repetition. Who takes a CPU away differs from one to the next.
fn path(rows: &[&Row]) -> Vec<Times> {
    let of = |row: &&Row| {
        let mut out = Times::new();
        for (who, account) in &row.path {
            for (category, ns) in account {
                let who = if ["runnable", "preempted"].contains(&category.as_str()) { "" } else { who };
                *out.entry((who.into(), category.clone())).or_default() += ns;
            }
        }
        out
    };
    rows.iter().map(of).collect()
}

/// The processes' time in each repetition, ns an operation.
fn times(rows: &[&Row], operation: Option<&str>) -> Vec<Times> {
    let of = |row: &&Row| {
        let mut out = Times::new();
        let mut count = 0;
        // A load's first process waits for its workers.
        let loaded = row.work.iter().any(|w| !w.operations.is_empty());
        for work in row.work.iter().filter(|w| !(loaded && w.operations.is_empty())) {
            let Some(n) = operation.map_or(Some(0), |kind| work.operations.get(kind).copied()) else {
                continue;
            };
            count += n;
            for (call, account) in &work.parts {
                for (category, ns) in account {
                    *out.entry((call.clone(), category.clone())).or_default() += ns;
                }
            }
        }
        out.values_mut().for_each(|ns| *ns /= count.max(1) as f64);
        out
    };
    rows.iter().map(of).collect()
}

fn parts(a: Vec<Times>, b: Vec<Times>, figure: &str) -> Vec<PartChange> {
    let counts = |(call, category): &&(String, String)| {
        let on_cpu = CATEGORIES.iter().any(|(of, name, _)| of.on_cpu() && name == category);
        match kind(figure).and(figure.rsplit_once('.')).map(|(_, what)| what) {
            Some("cpu") => on_cpu,
            Some("system") => on_cpu && !call.is_empty(),
            Some("user") => on_cpu && call.is_empty(),
            _ => !UNKNOWN.contains(&category.as_str()),
        }
    };
    let keys: BTreeSet<&(String, String)> =
        a.iter().chain(&b).flat_map(BTreeMap::keys).filter(counts).collect();
    let mut all: Vec<PartChange> = Vec::new();
    for key in keys {
        let values = |side: &[Times]| -> Vec<f64> {
            side.iter().map(|times| times.get(key).copied().unwrap_or(0.0)).collect()
        };
        let (in_a, in_b) = (values(&a), values(&b));
        let test = Welch::of(&in_a, &in_b, 0.0);
        let means = [repetitions::mean(&in_a), repetitions::mean(&in_b)];
        all.push(PartChange {
            call: key.0.clone(),
            category: key.1.clone(),
            means,
            difference: means[1] - means[0],
            interval: test.map(|t| Interval { low: t.difference - t.half, high: t.difference + t.half }),
        });
    }
    let whole: f64 = all.iter().map(|p| p.difference.abs()).sum();
    let sure = |p: &PartChange| p.interval.is_none_or(|i| i.excludes_zero());
    all.retain(|p| sure(p) && p.difference.abs() > whole * WORTH_TELLING);
    all.sort_by(|x, y| y.difference.abs().total_cmp(&x.difference.abs()));
    all.truncate(MOST_PARTS);
    all
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::super::synthetic::{measured, Design};
    use super::*;

    fn changes(table: &Table) -> Changes {
        of(table, &cells::of(table, "write.mean").0, "write.mean", Unit::Ns)
    }

    #[test]
    fn what_changed_is_named_with_its_part() {
        let found = changes(&measured(0.002, 1, 0.3));
        assert_eq!((found.pairs.len(), found.operation.as_deref()), (4, Some("write")));
        let sure: Vec<&Change> = found.pairs.iter().filter(|c| c.found).collect();
        // The kernel with method 1, and the method on kernel 1: both end in the same cell.
        assert_eq!(sure.len(), 2, "{found:?}");
        for change in sure {
            assert!((change.effect - 1.3).abs() < 0.02, "{change:?}");
            let [part] = &change.parts[..] else { panic!("{change:?}") };
            assert_eq!((part.call.as_str(), part.category.as_str()), ("fsync", "block.device"));
            assert!((part.difference - 300.0).abs() < 20.0, "{part:?}");
        }
        assert!(found.pairs.iter().all(|c| c.found || c.parts.is_empty()));
    }

    #[test]
    fn a_factor_without_effect_is_not_judged_by_another_ones() {
        let mut design = Design::new(&[("load", 12), ("copy", 2)], 3);
        let mut wrong = 0;
        for seed in 1..=60 {
            design.seed = seed;
            let table = design.table(|levels| 1000.0 * (1.0 + levels[0] as f64), 0.01);
            let all = changes(&table).pairs;
            assert!(all.iter().filter(|c| c.factor == "load").all(|c| c.found));
            wrong += usize::from(all.iter().any(|c| c.factor == "copy" && c.found));
        }
        assert!(wrong <= 4, "5 % of 60 plans are 3: {wrong}");
    }

    #[test]
    fn where_nothing_differs_little_is_found() {
        let any = (1..=200)
            .filter(|seed| changes(&measured(0.01, *seed, 0.0)).pairs.iter().any(|c| c.found))
            .count();
        assert!(
            (4..=36).contains(&any),
            "of 200 plans without a difference {any} have one; 5 % for each of two factors"
        );
    }

    #[test]
    fn a_commands_time_has_the_parts_of_its_path() {
        let mut table = measured(0.002, 1, 0.3);
        for row in &mut table.rows {
            let ns = row.figures["write.mean"];
            row.figures.insert("elapsed".into(), ns);
            let part = |category: &str, ns: f64| BTreeMap::from([(category.to_string(), ns)]);
            row.path.insert("loop0".into(), part("block.device", ns - 400.0));
            row.path.insert(format!("somebody {}", row.place), part("runnable", 400.0));
        }
        table.units.insert("elapsed".into(), Unit::Ns);
        let elapsed = |table: &Table| of(table, &cells::of(table, "elapsed").0, "elapsed", Unit::Ns);
        assert!(!elapsed(&table).of_path, "a load's own calls");
        for work in table.rows.iter_mut().flat_map(|r| &mut r.work) {
            work.operations = BTreeMap::from([("request".into(), 1)]);
        }
        let found = elapsed(&table);
        assert!(found.of_path);
        let [part] = &found.pairs[0].parts[..] else { panic!("{found:?}") };
        assert_eq!((part.call.as_str(), part.category.as_str()), ("loop0", "block.device"));
        assert!((part.difference - 300.0).abs() < 20.0, "{part:?}");
    }

    #[test]
    fn single_repetitions_have_parts_without_error() {
        let mut table = measured(0.0, 1, 0.3);
        table.rows.retain(|r| r.repetition == 1);
        let found = changes(&table);
        assert!(found.pairs.iter().all(|c| !c.found && c.q.is_none()));
        assert_eq!(found.pairs[0].parts[0].interval, None);
        table.rows.iter_mut().for_each(|r| r.work.clear());
        let found = changes(&table);
        assert_eq!(found.pairs.len(), 4);
        assert!(found.pairs.iter().all(|c| c.parts.is_empty() && !c.recorded));
    }

    #[test]
    fn loads_of_other_kinds_are_not_compared_by_their_time() {
        let mut table = measured(0.002, 1, 0.3);
        table.factors[0].other_work = true;
        assert_eq!(changes(&table).pairs.len(), 4, "a write is a write");
        for row in &mut table.rows {
            row.figures.insert("elapsed".into(), row.figures["write.mean"]);
        }
        table.units.insert("elapsed".into(), Unit::Ns);
        let found = of(&table, &cells::of(&table, "elapsed").0, "elapsed", Unit::Ns);
        assert_eq!(found.pairs.len(), 2, "{found:?}");
        assert!(found.pairs.iter().all(|c| c.factor == table.factors[1].name));
    }

    #[test]
    fn a_figure_of_the_kernel_has_parts_of_the_kernel() {
        let table = measured(0.0, 1, 0.3);
        let rows: Vec<&Row> = table.rows.iter().collect();
        let of = |figure| {
            let (a, b): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.repetition == 1);
            // Halved at b: each part differs.
            let mut less: Vec<Row> = b.into_iter().cloned().collect();
            for account in less.iter_mut().flat_map(|r| &mut r.work).flat_map(|w| w.parts.values_mut()) {
                account.values_mut().for_each(|ns| *ns /= 2.0);
            }
            let b: Vec<&Row> = less.iter().collect();
            parts(times(&a, Some("write")), times(&b, Some("write")), figure)
                .iter()
                .map(|p| format!("{}:{}", p.call, p.category))
                .collect()
        };
        let (system, user): (Vec<String>, Vec<String>) = (of("write.system"), of("write.user"));
        assert_eq!((system, user), (vec!["fsync:running".to_string()], vec![":running".to_string()]));
        assert_eq!(of("time.lock.user").len(), 4, "a share is no figure of CPU time");
        assert_eq!((kind("read.rate"), kind("seek:read.rate")), (Some("read"), None));
        assert_eq!((kind("time.running"), kind("elapsed")), (None, None));
    }
}
