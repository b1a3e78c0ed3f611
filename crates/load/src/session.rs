// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session: rounds x cells x steps. In each round the cells run in another order, so
//! that what drifts with time does not fall on one of them.
//!
//! Data flows: a [`Workload`] -> `place` (may the target be written, is there room, as `need` says; made and
//! removed) -> [`Session`] (rounds, until [`Until`] is reached) -> [`Outcome`] -> `document`, and of a
//! preset its [`PresetResult`]. What it does meanwhile an [`Observer`] hears.

mod document;
mod need;
mod place;
mod preset_result;
pub mod rounds;
mod rpm;
mod until;

pub use document::Document;
pub use preset_result::PresetResult;
pub use rpm::Rpm;
pub use until::Until;

use crate::clock::Clock;
use crate::files::Ground;
use crate::job::{Cell, Time};
use crate::preset::Preset;
use crate::result::{CellResult, StepResult};
use crate::run;
use crate::workload::Workload;
use anyhow::{bail, Result};
use place::Place;
use plumb_machine::Environment;
use plumb_stats::random::shuffled;
use plumb_trace::units;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds at most, when only --until or --budget says when to end.
const MOST_ROUNDS: u32 = 100;
/// Bytes that a round may write without a word.
const MUCH: u64 = 4 << 30;

/// How a workload is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// More directories, as a rule on other devices.
    pub also: Vec<PathBuf>,
    /// Rounds, where the user says how many.
    pub repeat: Option<u32>,
    /// What the rounds must have shown before they end.
    pub until: Option<Until>,
    /// No round begins that would not end in this time.
    pub budget: Option<Time>,
    /// Every operation goes into this log; of several steps into `FILE.1`, `FILE.2`, ...
    pub log: Option<PathBuf>,
    /// What the session makes stays.
    pub keep: bool,
    /// Files and devices whose contents may be lost.
    pub destroy: Vec<PathBuf>,
    /// One turn of the target's disk, ns, where it is known.
    pub turn_ns: Option<u64>,
}

/// Hears what a session does. It is not heard after the session's end.
pub trait Observer: Sync {
    /// Something to know before or beside the figures.
    fn say(&self, sentence: &str);
    /// A step begins: `what` tells which. Its files may take a while to be made.
    fn begins(&self, what: &str);
    /// How far the step `what` is.
    fn progress(&self, what: &str, progress: &run::Progress);
    /// The last step has ended.
    fn ends(&self);
}

/// What came of a session.
#[derive(Debug)]
pub struct Outcome {
    pub target: PathBuf,
    /// What it was made in.
    pub environment: Environment,
    /// The clock of all times.
    pub clock: Clock,
    /// Ticks of the clock's counter a nanosecond, where it is one.
    pub ticks_per_ns: Option<f64>,
    /// The figures; cells without a round are left out when it ended early.
    pub cells: Vec<CellResult>,
    /// In which order the cells ran in each round.
    pub orders: Vec<Vec<usize>>,
    pub logs: Vec<LogFile>,
    /// One turn of the target's disk, ns, where it is known.
    pub turn_ns: Option<u64>,
    pub interrupted: bool,
    /// Why there are as many rounds as there are.
    pub ended: String,
    /// What ended it before its time, or what of it cannot be removed.
    pub error: Option<String>,
    pub kept: Option<PathBuf>,
}

/// A log, and of what.
#[derive(Debug, Serialize)]
pub struct LogFile {
    pub path: PathBuf,
    pub cell: String,
    /// Round, from 1.
    pub round: usize,
    pub step: String,
}

/// A session that may begin.
pub struct Session<'a> {
    cells: &'a [Cell],
    preset: Option<&'a Preset>,
    rounds: u32,
    options: &'a Options,
    seed: u64,
    place: Place,
    stop: &'static AtomicBool,
    observer: &'a dyn Observer,
    /// Tells this run's stamps from those of others; one more for each step.
    run_id: u64,
    steps: usize,
    logs: Vec<LogFile>,
}

impl<'a> Session<'a> {
    /// Asks everything that can be asked before anything is made.
    ///
    /// # Errors
    /// Jobs that contradict themselves, a target that may not be used, a log that is there already.
    pub fn prepare(
        workload: &'a mut Workload,
        target: &Path,
        options: &'a Options,
        stop: &'static AtomicBool,
        observer: &'a dyn Observer,
    ) -> Result<Session<'a>> {
        workload.check()?;
        let place = Place::find(target, &options.also, workload, &options.destroy, options.keep)?;
        // Once more: a file or device that counts whole may be too small for the job.
        workload.check()?;
        for left in place.leftovers() {
            observer.say(&format!(
                "plumb: {} was left by a run of {} that was killed or told to --keep it ({} files, {}); \
                 'plumb load clean {} --yes' removes it",
                left.dir.display(),
                left.made.as_deref().unwrap_or("an unknown time"),
                units::count(left.files),
                units::bytes(left.size),
                place.named().display()
            ));
        }
        if let Some(read) = place.passed_as_empty() {
            observer.say(&format!("plumb: {}: {read}", place.named().display()));
        }
        let written = place.written(workload);
        if written > MUCH {
            observer.say(&format!("plumb: each round writes at least {}", units::bytes(written)));
        }
        let stamped = options.log.is_some() && workload.jobs().any(|job| job.stamp);
        if stamped && !options.keep && matches!(place, Place::Directories { .. }) {
            observer.say("plumb: without --keep the stamped files are removed at the end; verify needs them");
        }
        let most =
            if options.until.is_some() || options.budget.is_some() { MOST_ROUNDS } else { workload.rounds };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let session = Session {
            seed: workload.jobs().next().map_or(0, |j| u64::from(j.seed)),
            cells: &workload.cells,
            preset: workload.preset.as_ref(),
            rounds: options.repeat.unwrap_or(most),
            options,
            place,
            stop,
            observer,
            run_id: now.as_nanos() as u64,
            steps: 0,
            logs: Vec::new(),
        };
        if let (Some(until), true) =
            (&options.until, session.rounds < plumb_stats::repetitions::FEWEST as u32)
        {
            bail!(
                "--until {}:{}% needs at least {} rounds to tell an interval, and --repeat is {}",
                until.figure.word(),
                until.within,
                plumb_stats::repetitions::FEWEST,
                session.rounds
            );
        }
        session.no_log_is_there()?;
        Ok(session)
    }

    /// What will be run.
    pub fn cells(&self) -> &[Cell] {
        self.cells
    }

    /// The preset that it is of.
    pub fn preset(&self) -> Option<&Preset> {
        self.preset
    }

    /// Runs it. What was measured before a signal or an error is in the outcome;
    /// there is none when a signal came before anything was.
    ///
    /// # Errors
    /// Nothing was measured, and that was no signal's doing.
    pub fn run(mut self) -> Result<Option<Outcome>> {
        let environment = Environment::capture(self.place.named());
        let clock = Clock::calibrate();
        let (raw, ns) = (clock.raw(), clock.now());
        let mut cells: Vec<CellResult> =
            self.cells.iter().map(|c| CellResult { label: c.label.clone(), rounds: Vec::new() }).collect();
        let mut orders = Vec::new();
        let begun = Instant::now();
        let mut error = None;
        let mut longest = Duration::ZERO;
        let mut interrupted = false;
        let ended = loop {
            let round = orders.len();
            if self.stopped() {
                interrupted = true;
                break format!("stopped by a signal in round {round}");
            }
            if error.is_some() {
                break format!("an error in round {round}");
            }
            if round >= self.rounds as usize {
                break match self.options.until {
                    Some(until) => {
                        format!(
                            "{round} rounds, and {} is not within {} %",
                            until.figure.word(),
                            until.within
                        )
                    }
                    None => "all rounds were made".into(),
                };
            }
            if let Some(until) = self.options.until.filter(|u| u.reached(&cells)) {
                break format!("{} is within {} %", until.figure.word(), until.within);
            }
            let budget = self.options.budget.map(|b| Duration::from_nanos(b.0));
            if budget.is_some_and(|b| round > 0 && begun.elapsed() + longest > b) {
                break "another round does not fit into the budget".into();
            }
            let order = shuffled(cells.len(), self.seed, round);
            let since = Instant::now();
            error = self.round(round, &order, &mut cells, &clock, &environment).err();
            longest = longest.max(since.elapsed());
            orders.push(order);
        };
        self.observer.ends();
        let (raw, ns) = (clock.raw().saturating_sub(raw), clock.now().saturating_sub(ns));
        let target = self.place.named().to_owned();
        // A call that the signal cut short may have failed for it.
        let error = error.filter(|_| !interrupted);
        // What cannot be removed is no reason to lose what was measured.
        let (kept, error) = match self.place.leave() {
            Ok(kept) => (kept, error),
            Err(stays) => (None, Some(error.unwrap_or(stays))),
        };
        cells.retain(|c| !c.rounds.is_empty());
        if cells.is_empty() {
            return error.map_or(Ok(None), Err);
        }
        Ok(Some(Outcome {
            target,
            environment,
            ticks_per_ns: (clock.source() == "tsc" && ns > 0).then(|| raw as f64 / ns as f64),
            clock,
            cells,
            orders,
            logs: self.logs,
            turn_ns: self.options.turn_ns,
            interrupted,
            ended,
            error: error.map(|e| format!("{e:#}")),
            kept,
        }))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn round(
        &mut self,
        round: usize,
        order: &[usize],
        cells: &mut [CellResult],
        clock: &Clock,
        environment: &Environment,
    ) -> Result<()> {
        for &c in order {
            let cell = &self.cells[c];
            let ground = self.place.make(c + 1)?;
            let mut steps = Vec::with_capacity(cell.steps.len());
            let made = self.steps_of(cell, round, &ground, clock, environment, &mut steps);
            if !steps.is_empty() {
                cells[c].rounds.push(steps);
            }
            made?;
            if self.cells.len() > 1 {
                self.place.clear(&ground)?;
            }
            if self.stopped() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn steps_of(
        &mut self,
        cell: &Cell,
        round: usize,
        ground: &Ground,
        clock: &Clock,
        environment: &Environment,
        steps: &mut Vec<StepResult>,
    ) -> Result<()> {
        for step in &cell.steps {
            let mut what = cell.label.clone();
            if cell.steps.len() > 1 {
                what += &format!(", {}", step.label);
            }
            if self.rounds > 1 {
                what += &format!(", round {}", round + 1);
            }
            self.steps += 1;
            let log = self.log_path(self.steps);
            self.observer.begins(&what);
            let context = run::Context {
                ground,
                clock: *clock,
                environment: Some(environment),
                stop: self.stop,
                log: log.as_deref(),
                progress: &|p| self.observer.progress(&what, p),
                run_id: self.run_id + self.steps as u64,
            };
            steps.push(run::step(step, &context)?);
            if let Some(path) = log {
                self.logs.push(LogFile {
                    path,
                    cell: cell.label.clone(),
                    round: round + 1,
                    step: step.label.clone(),
                });
            }
            if self.stopped() {
                break;
            }
        }
        Ok(())
    }

    fn all_steps(&self) -> usize {
        self.cells.iter().map(|c| c.steps.len()).sum::<usize>() * self.rounds as usize
    }

    /// The log of the step that is the `number`th to run, from 1.
    fn log_path(&self, number: usize) -> Option<PathBuf> {
        let path = self.options.log.as_ref()?;
        Some(match self.all_steps() {
            1 => path.clone(),
            _ => {
                let mut name = path.clone().into_os_string();
                name.push(format!(".{number}"));
                name.into()
            }
        })
    }

    /// A log is never written over; better to know before the load runs.
    fn no_log_is_there(&self) -> Result<()> {
        for number in 1..=self.all_steps() {
            let Some(path) = self.log_path(number) else { break };
            if path.exists() {
                bail!("log {}: is there already, and is not written over; name another", path.display());
            }
        }
        Ok(())
    }
}
