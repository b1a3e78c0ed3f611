// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a target's figure is in an environment: measured there, or told by what microbenchmarks took there.

use super::measured::{Measured, Ran};
use super::target::Criterion;
use super::{Meets, Source, Value};
use crate::analysis::environments::{Fit, Known};
use plumb_stats::prediction::Errors;
use plumb_stats::repetitions::{median, Interval};

/// Fewest environments that tell of another one.
pub const FEWEST: usize = 5;
/// So far outside of the known times, as a part of the nearest, nothing is said of it.
const NEAR: f64 = 0.1;

/// What tells a figure.
#[derive(Debug)]
pub struct Estimate {
    pub fit: Fit,
    errors: Errors,
    /// Environments that were left out, since one of the loads is missing there.
    pub incomplete: usize,
    columns: Vec<Column>,
}

/// A microbenchmark's figure.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    load: String,
    figure: String,
    /// The shortest and the longest of the known times.
    range: [f64; 2],
}

impl Column {
    fn name(&self) -> String {
        if self.figure == "elapsed" {
            self.load.clone()
        } else {
            format!("{} {}", self.load, self.figure)
        }
    }

    fn time(&self, environment: &Measured) -> Option<f64> {
        environment.median(&self.load, &self.figure)
    }
}

impl Estimate {
    /// None of fewer than [`FEWEST`] environments with the figure and microbenchmarks; `new` are other runs' environments.
    pub fn of(
        criterion: &Criterion,
        known: Ran<'_>,
        there: &[Measured],
        new: &[Vec<Measured>],
    ) -> Option<Self> {
        let own = |e: &Measured| Some(criterion.time(e.median(&criterion.load, &criterion.figure)?));
        let with: Vec<&Measured> = there.iter().filter(|e| own(e).is_some()).collect();
        let mut columns = columns(criterion, known);
        // One that is missing in many would leave few.
        columns.retain(|column| {
            let measured = with.iter().filter(|e| column.time(e).is_some()).count();
            let in_new = |run: &Vec<Measured>| run.iter().any(|e| column.time(e).is_some());
            measured >= FEWEST.max(with.len().div_ceil(2)) && new.iter().all(in_new)
        });
        let whole = |e: &&Measured| columns.iter().all(|c| c.time(e).is_some());
        let points: Vec<&Measured> = with.iter().copied().filter(whole).collect();
        if columns.is_empty() || points.len() < FEWEST {
            return None;
        }
        for column in &mut columns {
            let times = points.iter().filter_map(|e| column.time(e));
            column.range = times.fold([f64::INFINITY, 0.0], |[low, high], t| [low.min(t), high.max(t)]);
        }
        let times = |column: &Column| points.iter().filter_map(|e| column.time(e)).collect();
        let mut loads: Vec<(String, Vec<f64>)> = columns.iter().map(|c| (c.name(), times(c))).collect();
        loads.push((criterion.load.clone(), points.iter().filter_map(|e| own(e)).collect()));
        let known = Known {
            loads,
            environments: points.iter().map(|e| e.name.clone()).collect(),
            groups: known.others().groups(points.iter().map(|e| &e.levels)),
        };
        let tell: Vec<usize> = (0..columns.len()).collect();
        let fit = known.fit(columns.len(), &tell)?;
        let mut groups = known.groups;
        groups.sort_unstable();
        groups.dedup();
        let errors: Vec<f64> = fit.errors.iter().map(|e| (1.0 + e).ln()).collect();
        let errors = Errors::of(&errors, groups.len())?;
        Some(Self { fit, errors, incomplete: with.len() - points.len(), columns })
    }

    /// Loads whose times tell it.
    pub fn loads(&self) -> Vec<String> {
        self.fit.sum.parts.iter().map(|(column, _)| self.columns[*column].load.clone()).collect()
    }

    /// None where one of the loads that tell it was not measured.
    pub fn value(&self, criterion: &Criterion, environment: &Measured, risk: f64) -> Option<Value> {
        let row: Vec<f64> = self.columns.iter().map(|c| c.time(environment).unwrap_or(f64::NAN)).collect();
        let predicted = Some(self.fit.sum.of(&row)).filter(|p| p.is_finite() && *p > 0.0)?;
        let measured = environment.median(&criterion.load, &criterion.figure);
        let source = Source::Predicted;
        let middle = self.errors.middle(predicted);
        let mut value = value(criterion, source, middle, Some((self.errors, predicted)), risk);
        value.measured = measured.map(|figure| criterion.value(criterion.time(figure)));
        value.beyond = self.beyond(&row);
        Some(value)
    }

    /// How far the times that tell it lie outside of the known ones: above 1 as part of the longest, below as part of the shortest.
    fn beyond(&self, row: &[f64]) -> Vec<(String, f64)> {
        let of = |(column, _): &(usize, f64)| {
            let ([low, high], time) = (self.columns[*column].range, row[*column]);
            let by = if time > high { time / high } else { (time / low).min(1.0) };
            ((by - 1.0).abs() > NEAR).then(|| (self.columns[*column].name(), by))
        };
        self.fit.sum.parts.iter().filter_map(of).collect()
    }
}

/// The microbenchmarks of a run, or where it has commands alone all of these: elapsed times, and for a quantile the same one of their operations.
fn columns(criterion: &Criterion, known: Ran<'_>) -> Vec<Column> {
    let loads = known.loads();
    let is_load = |number: &usize| !loads.commands.contains(number);
    let any = (0..loads.levels.len()).any(|number| is_load(&number));
    let tell =
        (0..loads.levels.len()).filter(|number| !any || is_load(number)).map(|number| &loads.levels[number]);
    let column =
        |load: &str, figure: &str| Column { load: load.into(), figure: figure.into(), range: [0.0; 2] };
    let mut all = Vec::new();
    for load in tell.filter(|load| **load != criterion.load) {
        all.push(column(load, "elapsed"));
        let Some(quantile) = criterion.quantile() else { continue };
        let figures = known.figures(load);
        let same = figures.iter().filter(|f| f.ends_with(&format!(".{quantile}")));
        all.extend(same.map(|figure| column(load, figure)));
    }
    all
}

/// As it was measured in an environment; none where it was not.
pub fn measured(criterion: &Criterion, environment: &Measured, risk: f64) -> Option<Value> {
    let figures = environment.values(&criterion.load, &criterion.figure);
    let times: Vec<f64> =
        figures.iter().map(|f| criterion.time(*f)).filter(|t| t.is_finite() && *t > 0.0).collect();
    if times.is_empty() {
        return None;
    }
    let middle = median(&times);
    let errors: Vec<f64> = times.iter().map(|t| (middle / t).ln()).collect();
    let errors = Errors::of(&errors, times.len()).map(|errors| (errors, middle));
    Some(value(criterion, Source::Measured(times.len()), middle, errors, risk))
}

fn value(
    criterion: &Criterion,
    source: Source,
    time: f64,
    errors: Option<(Errors, f64)>,
    most: f64,
) -> Value {
    let interval = errors.map(|(errors, predicted)| {
        let Interval { low, high } = errors.interval(predicted);
        let (a, b) = (criterion.value(low), criterion.value(high));
        Interval { low: a.min(b), high: a.max(b) }
    });
    let misses = if time > criterion.longest() { 1.0 } else { 0.0 };
    let risk = errors.map_or(misses, |(errors, predicted)| errors.above(predicted, criterion.longest()));
    Value {
        source,
        value: criterion.value(time),
        interval,
        measured: None,
        risk,
        meets: Meets::of(risk, most),
        over: time / criterion.longest(),
        beyond: Vec::new(),
    }
}
