// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan run`: every repetition that is not made yet, each on a ground of its own, and the
//! system as it was after each.
//!
//! Data flows: plan -> cells and schedule (or those of a directory where it was begun) -> check
//! and lock -> for each repetition: ground, settings, prepare, remount, measure, all undone by
//! the journal, `plan.json` -> report. What can kill it can do so at any point: the guardian puts
//! things back, and the next run goes on where `plan.json` says.

use super::measure::{measure, prepare, Ground, Measured};
use super::own_devices::{OWN, PLAN};
use super::progress::{self, Progress};
use super::state::{Cell, End, Made, State};
use super::{cells, check, confine, hosts, library, needs, order, report, server, settings, store, testbed};
use crate::options;
use crate::program::Program;
use anyhow::{bail, Context, Result};
use plumb_analysis::NOT_VALID;
use plumb_compare::run_directory::write_json;
use plumb_machine::signals::{self, stopped};
use plumb_machine::{utc, Environment};
use plumb_undo::change::Held;
use plumb_undo::guarded_journal::{GuardedJournal, StoppedByUser};
use plumb_undo::guardian::Guardian;
use plumb_undo::journal::{self, Journal, JOURNAL};
use plumb_undo::lock::Locks;
use plumb_undo::undone::Undone;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Why a plan ends early, where something is still changed.
pub(super) const NOT_RESTORED: &str = "the system could not be put back as it was: ";

/// Runs a plan, or goes on with it.
///
/// # Errors
/// The plan or a device stands against it, before anything is changed; or nothing could be measured.
pub fn main(args: &options::Run, program: &dyn Program) -> Result<ExitCode> {
    signals::catch_and_wake()?;
    let progress = Progress::new(args.quiet);
    let plan = library::asked(args, program)?;
    let given = args.plan.join(store::STATE).exists().then(|| args.plan.clone());
    let dir = args.output.clone().or(given);
    let dir = dir.unwrap_or_else(|| PathBuf::from(format!("plumb-plan-{}-{}", plan.name, args.stamp)));
    let is_new = !dir.exists();
    std::fs::create_dir_all(&dir).with_context(|| format!("the plan's directory {}", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
    let mut locks = Locks::default();
    locks.run(&dir)?;
    // Followed once: a link that leads elsewhere in a later repetition names nothing more. HOST:PATH is another host's.
    let node = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let destroy: Vec<PathBuf> = args.destroy.iter().map(node).collect();
    let ready = ready(args, plan, &dir, &destroy, &progress, &mut locks, program);
    if ready.is_err() && is_new {
        // Nothing was begun: leave nothing. Only an empty directory goes.
        let _ = std::fs::remove_dir(&dir);
    }
    let mut state = ready?;
    let mut journal = Journal::open(&dir, &OWN)?;
    journal.begin()?;
    let limit = Duration::from_nanos(state.plan.limit.0);
    let guardian = Guardian::start(&dir, PLAN)?;
    let mut guarded =
        GuardedJournal { journal, guardian, dir: dir.clone(), destroy: destroy.clone(), limit, within: None };
    store::reserve(&dir);
    let ran = repetitions(&mut state, &mut guarded, &progress);
    store::release(&dir);
    let written = store::write(&dir, &state);
    // An error leaves what stands open to the guardian, which is waited for.
    ran?;
    guarded.guardian.goodbye();
    written?;
    end(&state, &dir, args.json, &progress, program)
}

/// The plan's state, when everything that can be asked before it runs has been.
fn ready(
    args: &options::Run,
    plan: super::file::PlanFile,
    dir: &Path,
    destroy: &[PathBuf],
    progress: &Progress,
    locks: &mut Locks,
    program: &dyn Program,
) -> Result<State> {
    let whole = journal::restore(dir, Held::NotSince, &OWN, &mut |line| {
        progress.must(&format!("left by an earlier run: {line}"));
    })?;
    if !whole {
        bail!(
            "what an earlier run changed could not all be put back, see above; mend it, then call this again"
        );
    }
    let (mut state, is_new) = match store::read(dir)? {
        Some(state) => (resumed(state, plan, dir)?, false),
        None => (fresh(plan, dir, program)?, true),
    };
    again(args, &mut state, dir)?;
    if !is_new && state.made.len() < state.schedule.len() {
        same_machine(&state, dir)?;
    }
    check::all(&state, dir, destroy, locks)?;
    if is_new {
        store::begin(dir, &state)?;
    } else {
        progress.say(&format!("resuming: {} of {} done", state.made.len(), state.schedule.len()));
    }
    let skipped = state.cells.iter().filter(|c| c.skipped.is_some()).count();
    if skipped > 0 {
        progress.say(&format!("{skipped} of {} cells are left out:", state.cells.len()));
        for cell in &state.cells {
            if let Some(why) = &cell.skipped {
                progress.say(&format!("    {}: {why}", cell.label));
            }
        }
    }
    Ok(state)
}

/// A plan that was begun here, if it is this one. Budget and limit may be others than then.
fn resumed(mut state: State, plan: super::file::PlanFile, dir: &Path) -> Result<State> {
    state.plan.budget = plan.budget;
    state.plan.limit = plan.limit;
    if state.plan != plan {
        bail!(
            "{}: holds another plan ('{}'), or the same one with other options; choose another directory with -o, \
             or go on with that one: plumb plan run {0}",
            dir.display(),
            state.plan.name
        );
    }
    state.ended_early = None;
    Ok(state)
}

/// Refuses to add repetitions of another machine.
fn same_machine(state: &State, dir: &Path) -> Result<()> {
    let now = Environment::capture(dir);
    if let Some(other) = state.environment.as_ref().and_then(|then| Environment::other_machine(then, &now)) {
        bail!(
            "cannot go on with {}: it was begun on a machine that cannot be compared with this one: {other}\n\
             hint: begin anew in another directory with -o; 'plumb plan report {0}' says what was measured",
            dir.display()
        );
    }
    Ok(())
}

fn fresh(plan: super::file::PlanFile, dir: &Path, program: &dyn Program) -> Result<State> {
    let foreign = |entry: std::io::Result<std::fs::DirEntry>| match entry {
        Ok(entry) => {
            ![JOURNAL, store::PLAN, "plan.json.new", "reserve"].iter().any(|n| entry.file_name() == *n)
        }
        Err(_) => true,
    };
    if std::fs::read_dir(dir).with_context(|| dir.display().to_string())?.any(foreign) {
        bail!("{}: is not empty and holds no plan; choose another directory with -o", dir.display());
    }
    let mut cells = cells::of(&plan, program)?;
    needs::mark(&mut cells, &plan, program);
    needs::room(dir, &plan, &cells)?;
    let schedule = order::schedule(&plan, &cells);
    if schedule.is_empty() {
        let why = cells.iter().find_map(|c| c.skipped.as_deref()).unwrap_or("it has no cells");
        bail!("plan {}: nothing of it can be measured here: {why}", plan.name);
    }
    Ok(State {
        plumb: env!("CARGO_PKG_VERSION").into(),
        arguments: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        plan,
        cells,
        schedule,
        made: Vec::new(),
        environment: Some(Environment::capture(dir)),
        ended_early: None,
    })
}

/// Forgets what was made of the cells that are to be made again.
fn again(args: &options::Run, state: &mut State, dir: &Path) -> Result<()> {
    for word in &args.again {
        let number = cells::find(&state.cells, word).context("--again")?;
        let (gone, kept) = std::mem::take(&mut state.made).into_iter().partition(|m| m.cell == number);
        state.made = kept;
        // The state first: what is not in it is made again, with or without its directory.
        store::write(dir, state)?;
        let gone: Vec<Made> = gone;
        for made in gone {
            remove(&dir.join(&made.dir))?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| dir.display().to_string())
        }
        _ => Ok(()),
    }
}

/// All that are not made yet. Says in the state why it ended before that, if it did.
fn repetitions(state: &mut State, guarded: &mut GuardedJournal, progress: &Progress) -> Result<()> {
    let begun = Instant::now();
    for (cell, repetition) in progress::rest(state) {
        if stopped() {
            state.ended_early = Some("stopped by the user".into());
            break;
        }
        if let Some(why) = no_time(state, cell, begun.elapsed()).or_else(|| store::lacks_room(&guarded.dir)) {
            state.ended_early = Some(why);
            break;
        }
        if guarded.guardian.renew()? {
            progress.must("the plan's guardian was killed; another one watches from now on");
        }
        progress.begins(state, cell, repetition);
        let Some((made, left)) = one(state, cell, repetition, guarded)? else {
            let label = &state.cells[cell].label;
            state.ended_early = Some(format!("stopped by the user in {label}, repetition {repetition}"));
            break;
        };
        state.made.push(made.clone());
        store::write(&guarded.dir, state)?;
        progress.ended(state, &made);
        if let Some(left) = left {
            state.ended_early = Some(format!("{NOT_RESTORED}{left}"));
            break;
        }
    }
    Ok(())
}

/// Why another repetition does not fit into the budget, if it does not.
fn no_time(state: &State, cell: usize, passed: Duration) -> Option<String> {
    let budget = state.plan.budget?;
    let next = progress::next(state, cell)?;
    let passed = passed.as_nanos() as u64;
    (passed.saturating_add(next) > budget.0).then(|| {
        format!(
            "the budget of {budget} is used up: {} have passed, and the next repetition ({}) takes about {}",
            progress::words(passed),
            state.cells[cell].label,
            progress::words(next)
        )
    })
}

/// Makes one repetition; none when the user stopped it. Beside it, what could not be put back.
fn one(
    state: &State,
    number: usize,
    repetition: u32,
    guarded: &mut GuardedJournal,
) -> Result<Option<(Made, Option<String>)>> {
    let cell = &state.cells[number];
    let relative = cell.dir.join(repetition.to_string());
    let dir = guarded.dir.join(&relative);
    // What a killed run left of it.
    remove(&dir)?;
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let (began, begun) = (utc(), Instant::now());
    let mark = guarded.journal.mark();
    let mut places = Vec::new();
    let came = attempt(state, cell, &dir, guarded, &mut places);
    let mut left =
        came.as_ref().err().and_then(|e| e.downcast_ref::<hosts::NotRestored>()).map(ToString::to_string);
    let mut measured = match came {
        Ok(measured) => Some(measured),
        // What fails after a signal may have failed for it.
        Err(error) if error.is::<StoppedByUser>() || stopped() => None,
        Err(error) => {
            let end = End::Failed(format!("{error:#}"));
            Some(Measured { elapsed_ns: 0, end, doubts: Vec::new() })
        }
    };
    let mut told = Vec::new();
    for undone in guarded.journal.undo_since(mark) {
        match undone {
            Undone::Nothing | Undone::Did(_) => {}
            Undone::Forced(what) | Undone::LeftAlone(what) => told.push(what),
            Undone::Failed(what) => {
                left.get_or_insert(what.clone());
                told.push(what);
            }
        }
    }
    if let Err(error) = testbed::leave(&places) {
        told.push(format!("{error:#}"));
    }
    let Some(measured) = &mut measured else {
        remove(&dir)?;
        // The cell's directory goes with its only repetition.
        let _ = std::fs::remove_dir(guarded.dir.join(&cell.dir));
        return match left {
            Some(left) => {
                bail!("stopped by the user, and the system could not be put back as it was: {left}")
            }
            None => Ok(None),
        };
    };
    measured.doubts.extend(told);
    let mut made = Made {
        cell: number,
        repetition,
        dir: relative,
        begun: began,
        took_ns: begun.elapsed().as_nanos() as u64,
        elapsed_ns: measured.elapsed_ns,
        end: measured.end.clone(),
        doubts: std::mem::take(&mut measured.doubts),
    };
    if let Err(error) = write_json(&dir.join("cell.json"), &made) {
        made.end = End::Failed(format!("{error:#}"));
    }
    Ok(Some((made, left)))
}

fn attempt(
    state: &State,
    cell: &Cell,
    dir: &Path,
    guarded: &mut GuardedJournal,
    places: &mut Vec<testbed::Place>,
) -> Result<Measured> {
    let wanted = &cell.settings;
    if let Some(host) = &wanted.host {
        return hosts::measure(&state.plan, cell, host, dir, guarded);
    }
    let output = dir.join("output.txt");
    *places = testbed::make(&state.plan, wanted, guarded, &output)?;
    settings::apply(wanted, &testbed::queues(places), &mut guarded.journal)?;
    let confined = confine::begin(wanted, guarded)?;
    let came = served(state, wanted, places, dir, guarded);
    match (confined.end(guarded), came) {
        (Some(why), Ok(mut measured)) => {
            measured.end = End::Failed(why);
            Ok(measured)
        }
        (Some(why), Err(error)) if !stopped() => Err(error.context(why)),
        (_, came) => came,
    }
}

/// Prepares and measures, with the cell's server where it has one.
fn served(
    state: &State,
    wanted: &super::file::Settings,
    places: &[testbed::Place],
    dir: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Measured> {
    let mut server =
        wanted.server.as_ref().map(|spec| server::start(spec, places, dir, guarded)).transpose()?;
    let came = on_ground(&state.plan, wanted, places, server.as_mut(), dir, guarded);
    let Some(mut server) = server else { return came };
    let ended = server.ended().or_else(|| server.crashed());
    // Before it is stopped, which it complains of too.
    let complaint = if ended.is_none() { server.complaint() } else { None };
    let told = server.stop(guarded);
    let mut measured = match (came, ended) {
        (Err(error), why) if !stopped() => {
            let why = why.or(complaint);
            return Err(why.into_iter().fold(error, anyhow::Error::context));
        }
        (Ok(measured), Some(why)) => Measured { end: End::Failed(why), ..measured },
        (came, _) => came?,
    };
    if let (End::Failed(why), Some(said)) = (&mut measured.end, complaint) {
        why.push_str(&format!("; {said}"));
    }
    measured.doubts.extend(told);
    Ok(measured)
}

/// Prepares and measures, between the start and the end of a server.
fn on_ground(
    plan: &super::file::PlanFile,
    wanted: &super::file::Settings,
    places: &[testbed::Place],
    mut server: Option<&mut server::Running>,
    dir: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Measured> {
    prepare(wanted, Ground { places, server: server.as_deref(), dir }, guarded)?;
    if let Some(server) = &server {
        server.settle(guarded)?;
    }
    if wanted.remount == Some(true) {
        let told = server.as_mut().map(|server| server.stop(guarded)).unwrap_or_default();
        if let Some(why) = told.first() {
            bail!("the server did not stop before the remount: {why}");
        }
        testbed::remount(places, guarded, &dir.join("output.txt"))?;
        if let Some(server) = &mut server {
            server.again(guarded)?;
        }
    }
    if stopped() {
        return Err(StoppedByUser.into());
    }
    measure(plan, wanted, Ground { places, server: server.as_deref(), dir }, guarded)
}

/// The report, how to go on, and the exit code.
fn end(
    state: &State,
    dir: &Path,
    as_json: bool,
    progress: &Progress,
    program: &dyn Program,
) -> Result<ExitCode> {
    let measured = state.made.iter().filter(|m| m.end == End::Measured).count();
    if measured > 0 {
        report::print(&report::write(dir)?, as_json)?;
        // Named apart: a plan's report.json is its own.
        let page = program.write_page(dir)?;
        progress.say(&format!("report: {}", page.display()));
    }
    if let Some(why) = &state.ended_early {
        let (made, all) = (state.made.len(), state.schedule.len());
        progress.must(&format!("{made} of {all} repetitions were made: {why}"));
        progress.must(&format!("to go on: plumb plan run {}", dir.display()));
        return Ok(ExitCode::from(NOT_VALID));
    }
    if measured == 0 {
        let first = state.made.first().map_or(String::new(), |m| match &m.end {
            End::Failed(why) => why.clone(),
            _ => "it took longer than the limit".into(),
        });
        bail!("nothing could be measured; the first repetition: {first} (all lie in {})", dir.display());
    }
    let doubted = |m: &&Made| {
        m.end != End::Measured || m.doubts.iter().any(|d| d.starts_with(super::analysis::cells::NOT_VALID))
    };
    let doubted = state.made.iter().filter(doubted).count();
    if doubted > 0 {
        progress.say(&format!("{doubted} of {} repetitions failed or are not valid", state.made.len()));
        return Ok(ExitCode::from(NOT_VALID));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_load::job::Time;

    fn state(budget: Option<u64>, took: &[u64]) -> State {
        let text = "name = \"t\"\ntitle = \"t\"\npurpose = \"t\"\nhypothesis = \"t\"\ntakes = \"1s\"\n";
        let mut plan: super::super::file::PlanFile = toml::from_str(text).expect("a plan");
        plan.budget = budget.map(Time);
        let made = |(i, took_ns): (usize, &u64)| Made {
            cell: 0,
            repetition: i as u32 + 1,
            dir: "x".into(),
            begun: String::new(),
            took_ns: *took_ns,
            elapsed_ns: 0,
            end: End::Measured,
            doubts: Vec::new(),
        };
        let cell = Cell {
            label: "a".into(),
            levels: Vec::new(),
            settings: Default::default(),
            skipped: None,
            dir: "cells/001-a".into(),
        };
        State {
            cells: vec![cell],
            schedule: (1..=9).map(|r| (0, r)).collect(),
            made: took.iter().enumerate().map(made).collect(),
            ..State::empty(plan)
        }
    }

    #[test]
    fn no_repetition_is_begun_that_would_not_end_within_the_budget() {
        let second = |n: u64| n * 1_000_000_000;
        let ask =
            |budget, took: &[u64], passed| no_time(&state(budget, took), 0, Duration::from_secs(passed));
        assert_eq!(ask(None, &[second(5)], 1000), None);
        assert_eq!(ask(Some(second(20)), &[], 19), None, "1 s, as the plan says");
        assert!(ask(Some(second(20)), &[], 20).is_some(), "before the first one the plan's figure counts");
        assert_eq!(ask(Some(second(20)), &[second(5), second(9)], 11), None);
        let said = ask(Some(second(20)), &[second(5), second(9)], 12).expect("9 s more");
        assert!(said.contains("20s") && said.contains("9.0 s"), "{said}");
    }

    #[test]
    fn another_plan_in_the_directory_is_refused_and_another_budget_is_not() {
        let old = state(Some(5), &[1]);
        let mut plan = old.plan.clone();
        plan.budget = None;
        let going_on = resumed(old.clone(), plan.clone(), Path::new("x")).expect("the same plan");
        assert_eq!((going_on.plan.budget, going_on.made.len()), (None, 1));
        plan.repeat = 7;
        let said = resumed(old, plan, Path::new("x")).expect_err("another").to_string();
        assert!(said.contains("another plan"), "{said}");
    }
}
