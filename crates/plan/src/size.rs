// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb size`: which of the environments of plans that ran is the smallest that meets targets of a database.
//!
//! Data flows: [`target`] (what is wanted) and [`measured`] (what loads took in each environment, and what it costs) -> [`estimate`] (a
//! database's figure where it was not measured, by microbenchmarks, with its error) -> the smallest that meets all -> [`show`].

mod estimate;
mod measured;
mod show;
pub mod target;

use super::analysis::environments::Prediction;
use super::analysis::words::{list, percent, ratio, several, Format};
use super::state::State;
use super::table::Table;
use super::{figures, store};
use crate::options;
use anyhow::{bail, Result};
use estimate::Estimate;
use measured::{Measured, Ran};
use plumb_machine::json::{self, formats, Output};
use plumb_report::plain::Plain;
use plumb_stats::repetitions::{median, Interval};
use plumb_trace::units;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use target::{Criterion, Target};

/// Environments that a doubt names.
const MOST_NAMES: usize = 4;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Sizing {
    /// The smallest environment that meets the targets, or that none does.
    pub answer: String,
    /// Whether one does.
    pub met: bool,
    pub known: PathBuf,
    pub new: Vec<PathBuf>,
    /// Probability of missing a target that is taken.
    pub risk: f64,
    pub targets: Vec<Told>,
    /// The smallest first: by price, at the same or no price the slowest.
    pub environments: Vec<Environment>,
    pub doubts: Vec<String>,
}

impl Output for Sizing {
    const FORMAT: &'static json::Format = &formats::SIZE;
}

/// A target, and what tells it.
#[derive(Debug, Serialize)]
pub struct Told {
    #[serde(flatten)]
    pub criterion: Criterion,
    /// Of one operation where a rate is wanted; none where nothing tells it.
    pub prediction: Option<Prediction>,
    /// The factor whose levels were left out one after the other; none: each environment.
    pub left_out_by: Option<String>,
    pub check: Option<Check>,
}

/// New environments in which the target was also measured.
#[derive(Debug, Serialize)]
pub struct Check {
    pub environments: usize,
    /// Median of the relative errors, without their signs.
    pub error: f64,
    /// So many lie within their intervals.
    pub within: usize,
}

#[derive(Debug, Serialize)]
pub struct Environment {
    pub name: String,
    /// None: unknown.
    pub price: Option<f64>,
    /// The run it is of, where that is not KNOWN.
    pub new: Option<PathBuf>,
    /// Of each target; none where it was neither measured nor can be told.
    pub values: Vec<Option<Value>>,
    /// All targets.
    pub meets: Meets,
}

/// A target's figure in an environment, in the target's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    pub source: Source,
    pub value: f64,
    /// Holds a new measurement with 95 %; none of a single one.
    pub interval: Option<Interval>,
    /// What was measured where it was predicted: the prediction does not know it.
    pub measured: Option<f64>,
    /// Probability of missing the target.
    pub risk: f64,
    pub meets: Meets,
    /// Its time as a part of the longest that meets the target.
    pub over: f64,
    /// Loads whose times lie outside of the known ones, and that time as a part of the nearest known one.
    pub beyond: Vec<(String, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// In so many repetitions.
    Measured(usize),
    Predicted,
}

/// Whether a target is met; the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meets {
    Yes,
    Unsure,
    /// Neither measured nor predicted.
    Unknown,
    No,
}

impl Meets {
    fn of(risk: f64, most: f64) -> Self {
        match risk {
            r if r <= most => Self::Yes,
            r if r >= 1.0 - most => Self::No,
            _ => Self::Unsure,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Unsure => "unsure",
            Self::Unknown => "-",
            Self::No => "no",
        }
    }
}

impl Environment {
    fn of(from: &Measured, new: Option<&Path>, values: Vec<Option<Value>>) -> Self {
        let meets = values.iter().map(|v| v.as_ref().map_or(Meets::Unknown, |v| v.meets)).max();
        let (name, meets) = (from.name.clone(), meets.unwrap_or(Meets::Unknown));
        Self { name, price: from.price, new: new.map(Into::into), values, meets }
    }

    /// How far it is from the targets: 1 just meets them.
    fn over(&self) -> f64 {
        self.values.iter().map(|v| v.as_ref().map_or(f64::INFINITY, |v| v.over)).fold(0.0, f64::max)
    }

    fn size(&self) -> (f64, f64) {
        let time = self.values.first().and_then(Option::as_ref).map_or(0.0, |v| v.over);
        (self.price.unwrap_or(f64::INFINITY), -time)
    }

    /// `gp3 ext4 (price 12)`.
    fn title(&self) -> String {
        let price = self.price.map(|p| format!(" (price {})", price(p))).unwrap_or_default();
        format!("{}{price}", self.name)
    }
}

/// As the plan has it: `12`, `0.08`.
fn price(price: f64) -> String {
    ((price * 1e6).round() / 1e6).to_string()
}

/// One run's directory and what is in it.
type Run<'a> = (&'a Path, &'a State, &'a Table);

impl Sizing {
    /// Of the directories of plans that ran.
    ///
    /// # Errors
    /// One holds none; a target that cannot be read or has no such load or figure; a run with other settings of a load; nothing that
    /// tells the environments in which the targets were not measured.
    pub fn of(args: &options::Size) -> Result<Self> {
        let targets = args.targets.iter().map(|t| t.parse()).collect::<Result<Vec<Target>>>()?;
        let load = |dir: &PathBuf| {
            let state = store::state(dir)?;
            let table = figures::table(dir, &state);
            Ok((dir.clone(), state, table))
        };
        let known = load(&args.known)?;
        let new = args.new.iter().map(load).collect::<Result<Vec<_>>>()?;
        let new: Vec<Run<'_>> = new.iter().map(|(dir, state, table)| (dir.as_path(), state, table)).collect();
        Self::from((&known.0, &known.1, &known.2), &new, &targets, args.risk)
    }

    fn from((dir, state, table): Run<'_>, new: &[Run<'_>], targets: &[Target], risk: f64) -> Result<Self> {
        let Some(first) = targets.first() else { bail!("no target: give --target 'LOAD: 500/s'") };
        let known = Ran::with(&first.load, dir, state, table)?;
        let runs = new.iter().map(|(dir, state, table)| known.other(dir, state, table));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let mut criteria = Vec::new();
        for target in targets {
            let loads = &known.loads().levels;
            if !loads.contains(&target.load) {
                bail!("{}: {}", dir.display(), target::unknown(&target.load, loads));
            }
            let figures = known.figures(&target.load);
            if figures.is_empty() {
                bail!("{}: '{}' was not measured", dir.display(), target.load);
            }
            for want in &target.wants {
                criteria.push(Criterion::of(target, want, &figures)?);
            }
        }
        let there = known.environments();
        let elsewhere: Vec<Vec<Measured>> = runs.iter().map(Ran::environments).collect();
        let estimate = |c: &Criterion| Estimate::of(c, known, &there, &elsewhere);
        let estimates: Vec<Option<Estimate>> = criteria.iter().map(estimate).collect();
        let each = || criteria.iter().zip(&estimates);
        let predicted = |e: &Measured, (c, estimate): (&Criterion, &Option<Estimate>)| {
            estimate.as_ref().and_then(|estimate| estimate.value(c, e, risk))
        };
        let here = |e: &Measured| {
            let of = |told: (&Criterion, &Option<Estimate>)| {
                estimate::measured(told.0, e, risk).or_else(|| predicted(e, told))
            };
            Environment::of(e, None, each().map(of).collect())
        };
        let mut environments: Vec<Environment> = there.iter().map(here).collect();
        for (run, all) in runs.iter().zip(&elsewhere) {
            let of = |e| Environment::of(e, Some(run.dir), each().map(|told| predicted(e, told)).collect());
            environments.extend(all.iter().map(of));
        }
        for (i, (criterion, _)) in each().enumerate().filter(|(_, (_, estimate))| estimate.is_none()) {
            if let Some(without) = environments.iter().find(|e| e.values[i].is_none()) {
                bail!(
                    "cannot predict '{}' in {}: that takes {} environments in which it and the microbenchmarks that {} has were measured; {} has it in {}\n\
                     hint: measure it in more environments, measure the microbenchmarks there too, or leave out --in",
                    criterion.words,
                    without.name,
                    estimate::FEWEST,
                    without.name,
                    dir.display(),
                    there.iter().filter(|e| e.median(&criterion.load, &criterion.figure).is_some()).count()
                );
            }
        }
        distinct(&mut environments);
        environments.sort_by(|a, b| {
            let ((price_a, time_a), (price_b, time_b)) = (a.size(), b.size());
            price_a.total_cmp(&price_b).then(time_a.total_cmp(&time_b))
        });
        let loads = |estimate: &Option<Estimate>| estimate.as_ref().map_or(Vec::new(), Estimate::loads);
        let used: Vec<String> = each().flat_map(|(c, e)| [vec![c.load.clone()], loads(e)].concat()).collect();
        let doubts = doubts(&[&[known], &runs[..]].concat(), &used, &estimates, &environments);
        let told = criteria.iter().cloned().zip(estimates).enumerate();
        let told = told.map(|(i, (criterion, estimate))| Told {
            criterion,
            left_out_by: known.others().alike_by().map(|f| f.name.clone()),
            prediction: estimate.map(|e| e.fit.prediction),
            check: check(&environments, i),
        });
        let (met, answer) = answer(&environments, &criteria, risk);
        Ok(Self {
            answer,
            met,
            known: dir.into(),
            new: new.iter().map(|(dir, ..)| dir.to_path_buf()).collect(),
            risk,
            targets: told.collect(),
            environments,
            doubts,
        })
    }
}

/// Environments of two runs may have the same levels.
fn distinct(environments: &mut [Environment]) {
    let names: Vec<String> = environments.iter().map(|e| e.name.clone()).collect();
    for environment in environments {
        let same = names.iter().filter(|n| **n == environment.name).count();
        if let (Some(dir), 2..) = (&environment.new, same) {
            environment.name += &format!(" ({})", dir.display());
        }
    }
}

/// Whether a target is met, and the sentences that say where.
fn answer(environments: &[Environment], criteria: &[Criterion], risk: f64) -> (bool, String) {
    let it = match criteria.len() {
        1 => "it",
        2 => "both",
        _ => "all",
    };
    let values = |e: &Environment| -> String {
        let each = criteria.iter().zip(&e.values);
        let each = each.filter_map(|(c, v)| Some(sentence(c, v.as_ref()?)));
        each.collect::<Vec<_>>().join("; ")
    };
    let Some(at) = environments.iter().position(|e| e.meets == Meets::Yes) else {
        let with = environments.iter().filter(|e| e.over().is_finite());
        let nearest = with.min_by(|a, b| a.over().total_cmp(&b.over()));
        let nearest =
            nearest.map_or(String::new(), |e| format!(" The nearest is {}: {}.", e.title(), values(e)));
        let none = format!(
            "None of {} meets {it} with a risk of at most {}.{nearest}",
            several(environments.len(), "environment"),
            percent(risk)
        );
        return (false, none);
    };
    let mut said =
        format!("Smallest that meets {it}: {}: {}.", environments[at].title(), values(&environments[at]));
    let smaller = environments[..at].iter().rev().find(|e| e.values.iter().any(Option::is_some));
    if let Some(smaller) = smaller {
        let each = criteria.iter().zip(&smaller.values);
        let has =
            each.filter_map(|(c, v)| Some(c.shown(v.as_ref()?.value))).collect::<Vec<_>>().join(" and ");
        said += &format!(" The next smaller one, {}, has {has}", smaller.title());
        said += match smaller.meets {
            Meets::Unsure => ", which may do: measure the database there.",
            _ => ".",
        };
    }
    (true, said)
}

/// `612/s predicted (560 to 668), risk 0.4 %`.
fn sentence(criterion: &Criterion, value: &Value) -> String {
    let how = match value.source {
        Source::Measured(1) => "measured once",
        Source::Measured(_) => "measured",
        Source::Predicted => "predicted",
    };
    let format = Format::of(criterion.unit, value.value);
    let interval = value
        .interval
        .map_or(String::new(), |i| format!(" ({} to {})", format.number(i.low), format.number(i.high)));
    let risk = value.interval.map_or(String::new(), |_| format!(", risk {}", shown_risk(value.risk)));
    format!("{} {how}{interval}{risk}", criterion.shown(value.value))
}

/// Certainty is said of a single measurement alone.
fn shown_risk(risk: f64) -> String {
    match risk {
        0.0 | 1.0 => format!("{:.0} %", risk * 100.0),
        r if r < 0.0005 => "<0.1 %".into(),
        r if r > 0.995 => ">99 %".into(),
        r => percent(r),
    }
}

fn check(environments: &[Environment], target: usize) -> Option<Check> {
    let both = environments.iter().filter_map(|e| e.values[target].as_ref());
    let both: Vec<(&Value, f64)> = both.filter_map(|v| Some((v, v.measured?))).collect();
    let within =
        |(v, measured): &&(&Value, f64)| v.interval.is_some_and(|i| (i.low..=i.high).contains(measured));
    let errors: Vec<f64> = both.iter().map(|(v, measured)| (v.value / measured - 1.0).abs()).collect();
    (!both.is_empty()).then(|| Check {
        environments: both.len(),
        error: median(&errors),
        within: both.iter().filter(within).count(),
    })
}

/// What reduces confidence in the answer.
fn doubts(
    runs: &[Ran<'_>],
    used: &[String],
    estimates: &[Option<Estimate>],
    environments: &[Environment],
) -> Vec<String> {
    let mut all = Vec::new();
    let mut beyond: Vec<(&String, Vec<(&String, f64)>)> = Vec::new();
    for environment in environments {
        for (load, by) in environment.values.iter().flatten().flat_map(|v| &v.beyond) {
            match beyond.iter_mut().find(|(name, _)| *name == load) {
                Some((_, places)) => places.push((&environment.name, *by)),
                None => beyond.push((load, vec![(&environment.name, *by)])),
            }
        }
    }
    for (load, mut places) in beyond {
        places.sort_by(|a, b| b.1.ln().abs().total_cmp(&a.1.ln().abs()));
        places.dedup_by_key(|(name, _)| *name);
        let far = places.iter().map(|(name, by)| match *by > 1.0 {
            true => format!("{name} ({} x the longest)", ratio(*by)),
            false => format!("{name} ({} x the shortest)", ratio(*by)),
        });
        let far = list(&far.collect::<Vec<_>>(), MOST_NAMES);
        all.push(format!(
            "Outside of the times of {load} in KNOWN, where the intervals are too narrow: {far}."
        ));
    }
    for run in runs {
        let (bad, of) = run.not_valid(used);
        if bad > 0 {
            let of = several(of, "repetition");
            all.push(format!(
                "{}: {} of {of} that were used call themselves not valid.",
                run.dir.display(),
                units::count(bad as u64)
            ));
        }
        let environments = run.state.environment.as_ref().zip(runs[0].state.environment.as_ref());
        if let Some(other) =
            environments.and_then(|(new, known)| plumb_machine::Environment::other_machine(known, new))
        {
            all.push(format!("{}: measured on another machine than KNOWN: {other}.", run.dir.display()));
        }
        if run.state.plumb != runs[0].state.plumb {
            let (one, other) = (&run.state.plumb, &runs[0].state.plumb);
            all.push(format!("{}: measured by plumb {one}, KNOWN by {other}.", run.dir.display()));
        }
    }
    for estimate in estimates.iter().flatten().filter(|e| e.incomplete > 0) {
        let (left, load) = (several(estimate.incomplete, "environment"), &estimate.fit.prediction.load);
        all.push(format!(
            "{left} of KNOWN did not help to predict {load}: a microbenchmark was not measured there."
        ));
    }
    let unknown: Vec<String> = environments
        .iter()
        .filter(|e| e.values.iter().any(Option::is_none))
        .map(|e| e.name.clone())
        .collect();
    if !unknown.is_empty() {
        let why = "a target was neither measured nor are there the loads that tell it";
        all.push(format!("{}: {why}.", list(&unknown, MOST_NAMES)));
    }
    let priced = environments.iter().filter(|e| e.price.is_some()).count();
    if priced > 0 && priced < environments.len() {
        let without = several(environments.len() - priced, "environment");
        all.push(format!("{without} without a price: taken as larger than those with one."));
    }
    all
}

/// Runs the command.
///
/// # Errors
/// As [`Sizing::of`]; standard output cannot be written.
pub fn main(args: &options::Size) -> Result<ExitCode> {
    let sizing = Sizing::of(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &sizing)?;
    } else {
        show::write(&sizing, &mut Plain(&mut out))?;
    }
    Ok(if sizing.met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests;
