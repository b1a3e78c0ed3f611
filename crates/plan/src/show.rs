// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan show`: what a plan would do to this system, or how far a run is. Changes nothing.
//!
//! Data flows: plan or state -> [`Shown`] ([`effects`]: what is changed here) -> `text`, or JSON.

mod effects;
mod text;

use super::file::{Order, PlanFile};
use super::library::{self, Opened};
use super::own_devices::OWN;
use super::state::{Cell, End, State};
use super::{adapt, cells, needs, order};
use crate::adapt::Changes;
use crate::options;
use crate::program::Program;
use anyhow::{bail, Result};
use effects::Effects;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_undo::pending_changes::Standing;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    title: &'a str,
    purpose: &'a str,
    hypothesis: &'a str,
    source: Option<&'a str>,
    order: Order,
    blocks: &'a [String],
    seed: u32,
    repeat: u32,
    figures: &'a [String],
    charts: Vec<&'a str>,
    factors: Vec<Factor<'a>>,
    cells: &'a [Cell],
    /// Why cells are left out, and which.
    skipped: BTreeMap<&'a str, Vec<&'a str>>,
    time: Time,
    effects: Effects,
    needs: Vec<String>,
    run: Option<Run>,
    /// What the run left changed.
    standing: Option<Standing>,
}

impl Output for Shown<'_> {
    const FORMAT: &'static Format = &formats::PLAN;
}

#[derive(Debug, Serialize)]
struct Factor<'a> {
    name: &'a str,
    levels: Vec<&'a str>,
}

/// How long it takes, ns.
#[derive(Debug, Serialize)]
struct Time {
    /// All of it, as the plan says.
    takes_ns: u64,
    /// What is still to run; from the repetitions that were made, or the plan's figure.
    left_ns: u64,
    repetitions: usize,
    /// No repetition is begun that would end after so long.
    budget_ns: Option<u64>,
}

/// How far a run is.
#[derive(Debug, Serialize)]
struct Run {
    dir: String,
    made: usize,
    measured: usize,
    failed: usize,
    timed_out: usize,
    left: usize,
    ended_early: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// There is no such plan or run, or the plan does not hold together.
pub fn main(args: &options::Show, program: &dyn Program) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match library::open(&args.plan)? {
        Opened::Plan(plan) => {
            let plan = adapt::changed(&plan, &args.changes, program)?;
            let mut cells = cells::of(&plan, program)?;
            needs::mark(&mut cells, &plan, program);
            let repetitions = order::schedule(&plan, &cells).len();
            let mut shown = shown(&plan, &cells, repetitions, None);
            shown.effects.ask_guard();
            write(&shown, args.json, &mut out)?;
        }
        Opened::Begun { dir, state } => {
            if args.changes != Changes::default() {
                bail!("{}: is a run that was begun: its plan is not changed any more", dir.display());
            }
            let run = progress(&state, dir.display().to_string());
            let mut shown = shown(&state.plan, &state.cells, state.schedule.len(), Some(run));
            shown.time.left_ns = left(&state).unwrap_or(shown.time.left_ns);
            shown.standing = Standing::of(&dir, &OWN)?;
            write(&shown, args.json, &mut out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(shown: &Shown<'_>, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        return Ok(json::write(out, shown)?);
    }
    Ok(text::write(shown, out)?)
}

fn shown<'a>(plan: &'a PlanFile, cells: &'a [Cell], repetitions: usize, run: Option<Run>) -> Shown<'a> {
    let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = &cell.skipped {
            skipped.entry(why).or_default().push(&cell.label);
        }
    }
    let live: Vec<&Cell> = cells.iter().filter(|c| c.skipped.is_none()).collect();
    let takes_ns = share(plan, cells, repetitions);
    // What would be done were it all there is told too when nothing can run.
    let wanted: Vec<&Cell> = if live.is_empty() { cells.iter().collect() } else { live };
    let effects = Effects::of(plan, &wanted);
    Shown {
        name: &plan.name,
        title: &plan.title,
        purpose: &plan.purpose,
        hypothesis: &plan.hypothesis,
        source: plan.source.as_deref(),
        order: plan.order,
        blocks: &plan.blocks,
        seed: plan.seed,
        repeat: plan.repeat,
        figures: &plan.figures,
        charts: plan.charts.iter().map(|c| c.title.as_str()).collect(),
        factors: plan
            .factors
            .iter()
            .map(|f| Factor { name: &f.name, levels: f.levels.iter().map(|l| l.name.as_str()).collect() })
            .collect(),
        cells,
        skipped,
        time: Time { takes_ns, left_ns: takes_ns, repetitions, budget_ns: plan.budget.map(|b| b.0) },
        needs: effects.needs(),
        effects,
        run,
        standing: None,
    }
}

/// The plan's own figure is for all of its cells; without the skipped ones it is less.
fn share(plan: &PlanFile, cells: &[Cell], repetitions: usize) -> u64 {
    let all = cells.len() as u128 * u128::from(plan.repeat);
    (u128::from(plan.takes.0) * repetitions as u128 / all.max(1)) as u64
}

fn progress(state: &State, dir: String) -> Run {
    let count = |wanted: fn(&End) -> bool| state.made.iter().filter(|m| wanted(&m.end)).count();
    Run {
        dir,
        made: state.made.len(),
        measured: count(|end| *end == End::Measured),
        failed: count(|end| matches!(end, End::Failed(_))),
        timed_out: count(|end| *end == End::TimedOut),
        left: to_make(state).count(),
        ended_early: state.ended_early.clone(),
    }
}

/// What is scheduled and not made.
fn to_make(state: &State) -> impl Iterator<Item = &(usize, u32)> {
    state
        .schedule
        .iter()
        .filter(|(cell, n)| !state.made.iter().any(|m| m.cell == *cell && m.repetition == *n))
}

/// How long the rest takes, ns: of each cell what its repetitions took so far, of others the mean of all.
fn left(state: &State) -> Option<u64> {
    let mean = |took: &mut dyn Iterator<Item = u64>| {
        let (n, sum) = took.fold((0_u64, 0_u64), |(n, sum), ns| (n + 1, sum.saturating_add(ns)));
        sum.checked_div(n)
    };
    let all = mean(&mut state.made.iter().map(|m| m.took_ns))?;
    let of = |cell: usize| {
        mean(&mut state.made.iter().filter(|m| m.cell == cell).map(|m| m.took_ns)).unwrap_or(all)
    };
    Some(to_make(state).fold(0_u64, |sum, (cell, _)| sum.saturating_add(of(*cell))))
}

#[cfg(test)]
mod tests;
