// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a step: makes its files ready, starts a process for each worker,
//! watches them, and sums up what they did.
//!
//! Workers are processes even where a job asks for threads (its processes then
//! have several): a SIGBUS, a crash or the CPU time of watching stays apart
//! from the operations. The calling thread sleeps in waitpid(2) until they
//! end, so that a recording of it shows whom it waited for.

mod judge;
mod logfile;
mod sum;
mod watch;
mod workers;

pub use watch::Progress;

use crate::board::Board;
use crate::clock::Clock;
use crate::engine::{self, EngineError};
use crate::files::{self, FileError, Ground};
use crate::job::Step;
use crate::log::LogError;
use crate::result::StepResult;
use crate::witness::{OwnTimes, Witness};
use plumb_machine::{Environment, Root};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Why a step gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its files could not be made ready.
    #[error(transparent)]
    Files(#[from] FileError),
    /// An engine could not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The log could not be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A system call of the run itself failed.
    #[error("{what}: {error}")]
    System { what: &'static str, error: std::io::Error },
    #[error("{0}")]
    Died(String),
}

/// What a run needs besides its jobs.
pub struct Context<'a> {
    pub ground: &'a Ground,
    /// The clock of all times.
    pub clock: Clock,
    /// Set from outside to end early (Ctrl-C).
    pub stop: &'a AtomicBool,
    pub log: Option<&'a Path>,
    /// Called about once a second with how far it is.
    pub progress: &'a (dyn Fn(&Progress) + Sync),
    /// Tells this run's stamps from those of others.
    pub run_id: u64,
    /// The environment before the run; what changed in it meanwhile is told by the verdict.
    pub environment: Option<&'a Environment>,
}

/// Runs the jobs of a step at the same time.
///
/// # Errors
/// Files, engine or log could not be made ready, or a worker died; operations
/// that fail are figures of the result.
pub fn step(step: &Step, context: &Context<'_>) -> Result<StepResult, RunError> {
    for job in &step.jobs {
        files::prepare(job, context.ground, context.stop)?;
    }
    for job in &step.jobs {
        files::set_cache(job, context.ground)?;
    }
    let seats: usize = step.jobs.iter().map(|j| j.workers() as usize).sum();
    let shared = step.jobs.iter().map(engine::shared_len).max().unwrap_or(0);
    let board = Board::new(seats, step.jobs.len(), shared, context.log.is_some())
        .map_err(|error| RunError::System { what: "memory shared with the workers", error })?;
    let log = context.log.map(|path| logfile::LogFile::create(path, step, context)).transpose()?;
    let crew = workers::Crew::start(step, context, &board).inspect_err(|_| {
        // A log of nothing; it would stand in the way of the next try.
        context.log.map(std::fs::remove_file);
    })?;
    let pids = crew.pids();
    let witness = Witness::begin(&pids, &devices_under(context.ground));
    let start = crew.go(&board, &context.clock);
    let over = AtomicBool::new(false);
    let watched = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch::watch(step, context, &board, (start, &pids), &over, log));
        let ended = crew.wait(context.stop, &board);
        over.store(true, Release);
        watcher.thread().unpark();
        let watched = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ended.map(|()| watched)
    })?;
    let mut evidence = witness.end();
    let times: Vec<OwnTimes> = (0..board.seats())
        .map(|i| &board.seat(i).times)
        .map(|[begun, settled, ended]| {
            // Times are divided among the operations that count; bytes are compared with the device's of the whole.
            let counted = ended.since(settled);
            OwnTimes {
                on_cpu_ns: counted.on_cpu_ns,
                run_queue_ns: counted.run_queue_ns,
                slices: counted.slices,
                ..ended.since(begun)
            }
        })
        .collect();
    evidence.add_own_times(&times);
    let interrupted = context.stop.load(Acquire);
    Ok(sum::up(step, context, &board, start, watched, evidence, interrupted))
}

/// The devices that the load's files lie on, by number.
fn devices_under(ground: &Ground) -> Vec<libc::dev_t> {
    let root = Root::real();
    let blocks = ground.places().iter().flat_map(|path| plumb_machine::devices_under(path, &root));
    let mut numbers: Vec<_> = blocks.map(|b| b.number.dev_t()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
