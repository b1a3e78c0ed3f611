// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks at the workers while they work: progress, each second's figures, the
//! steady state, the log.

use super::logfile::LogFile;
use super::{workers, Context, RunError};
use crate::board::Board;
use crate::job::{Job, Steady, Step};
use crate::result::Second;
use plumb_trace::load::OperationKind;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// How far a step is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub label: String,
    /// Since the common start, ns.
    pub elapsed_ns: u64,
    /// Time left, ns, as far as it can be told.
    pub left_ns: Option<u64>,
    /// Operations in the last second, of all jobs.
    pub rate: f64,
    /// Bytes in the last second.
    pub bandwidth: f64,
    pub operations: u64,
    pub errors: u64,
}

#[derive(Debug)]
pub(super) struct Watched {
    /// Each job's seconds.
    pub series: Vec<Vec<Second>>,
    /// Whether each job became steady.
    pub steady: Vec<Option<bool>>,
}

const SECOND: u64 = 1_000_000_000;
/// How often rings are emptied and ends looked for, ns.
const TICK: u64 = 50_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    operations: u64,
    bytes: u64,
    errors: u64,
}

/// A job's sums so far; operations are those of its own kind, as in its rate.
fn totals(board: &Board, seats: std::ops::Range<usize>, job: &Job) -> Totals {
    let mut all = Totals::default();
    for seat in seats.map(|i| board.seat(i)) {
        for (kind, sum) in OperationKind::all().zip(&seat.sums) {
            if job.is_own(kind) {
                all.operations += sum.count.load(Relaxed);
            }
            all.bytes += sum.bytes.load(Relaxed);
            all.errors += sum.errors.load(Relaxed);
        }
    }
    all
}

/// Seats of each job, in order.
pub(super) fn seats_of(step: &Step) -> Vec<std::ops::Range<usize>> {
    let mut first = 0;
    step.jobs
        .iter()
        .map(|job| {
            let range = first..first + job.workers() as usize;
            first = range.end;
            range
        })
        .collect()
}

/// Watches workers that began at `start` until `over`.
pub(super) fn watch(
    step: &Step,
    context: &Context<'_>,
    board: &Board,
    (start, pids): (u64, &[u32]),
    over: &AtomicBool,
    mut log: Option<LogFile>,
) -> Result<Watched, RunError> {
    let seats = seats_of(step);
    let mut watched = Watched {
        series: vec![Vec::new(); step.jobs.len()],
        steady: step.jobs.iter().map(|j| j.steady.map(|_| false)).collect(),
    };
    let mut before = vec![Totals::default(); step.jobs.len()];
    let mut last = start;
    let mut failed = None;
    loop {
        let ended = over.load(Acquire);
        // The waiting thread looks before it waits: a signal that comes between does not wake it.
        if context.stop.load(Acquire) {
            board.head().stop.store(1, Release);
        }
        if let Some(log) = &mut log {
            if let Err(e) = log.drain(board) {
                // Nobody empties the rings any more: workers must not wait for it.
                log.abandon(board);
                board.head().stop.store(1, Release);
                failed.get_or_insert(e);
            }
        }
        let now = context.clock.now();
        if now >= last + SECOND || ended && now > last {
            // The waiting thread waits for one worker at a time: the death of another would not wake it.
            if workers::one_died(pids) {
                board.head().stop.store(1, Release);
            }
            let mut rate = Totals::default();
            for (j, range) in seats.iter().enumerate() {
                let sum = totals(board, range.clone(), &step.jobs[j]);
                let longest = range.clone().map(|i| board.seat(i).longest.swap(0, Relaxed)).max();
                let second = Second {
                    at_ns: now - start,
                    length_ns: now - last,
                    operations: sum.operations - before[j].operations,
                    bytes: sum.bytes - before[j].bytes,
                    longest_ns: longest.unwrap_or(0),
                };
                rate.operations += second.operations;
                rate.bytes += second.bytes;
                before[j] = sum;
                watched.series[j].push(second);
                if let Some(test) = step.jobs[j].steady {
                    if !ended && is_steady(&watched.series[j], test, step.jobs[j].ramp.0) {
                        watched.steady[j] = Some(true);
                        board.head().stop.store(1, Release);
                    }
                }
            }
            let length = (now - last) as f64 / 1e9;
            last = now;
            if !ended {
                let all = before.iter().fold(Totals::default(), |a, t| Totals {
                    operations: a.operations + t.operations,
                    bytes: a.bytes + t.bytes,
                    errors: a.errors + t.errors,
                });
                (context.progress)(&Progress {
                    label: step.label.clone(),
                    elapsed_ns: now - start,
                    left_ns: left(&step.jobs, &before, now - start),
                    rate: rate.operations as f64 / length,
                    bandwidth: rate.bytes as f64 / length,
                    operations: all.operations,
                    errors: all.errors,
                });
            }
        }
        if ended {
            break;
        }
        std::thread::park_timeout(Duration::from_nanos(TICK));
    }
    match (failed, log) {
        (Some(e), _) => Err(e.into()),
        (None, Some(log)) => log.finish(board).map(|()| watched),
        (None, None) => Ok(watched),
    }
}

/// Whether the last window's seconds lie close enough to their mean.
fn is_steady(series: &[Second], test: Steady, ramp: u64) -> bool {
    let count = (test.window.0 / SECOND) as usize;
    let settled: Vec<f64> = series
        .iter()
        .filter(|s| s.begin_ns() > ramp)
        .map(|s| s.operations as f64 / s.length_ns as f64)
        .collect();
    let Some(window) = settled.len().checked_sub(count).map(|from| &settled[from..]) else { return false };
    let mean = window.iter().sum::<f64>() / window.len() as f64;
    mean > 0.0 && window.iter().all(|rate| (rate - mean).abs() <= mean * test.within / 100.0)
}

/// The time that the slowest job still takes.
fn left(jobs: &[Job], done: &[Totals], elapsed: u64) -> Option<u64> {
    jobs.iter()
        .zip(done)
        .map(|(job, done)| match (job.time, job.operations) {
            (Some(time), _) => Some(time.0.saturating_add(job.ramp.0).saturating_sub(elapsed)),
            (None, wanted) => {
                let pass = (job.span() / job.block.0.max(1)).saturating_mul(job.files);
                let all = wanted.unwrap_or(pass).saturating_mul(job.workers().into());
                let each = elapsed.checked_div(done.operations)?;
                Some(all.saturating_sub(done.operations).saturating_mul(each))
            }
        })
        .try_fold(0, |most, left| Some(most.max(left?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rates: &[u64]) -> Vec<Second> {
        rates
            .iter()
            .enumerate()
            .map(|(i, &operations)| Second {
                at_ns: (i as u64 + 1) * SECOND,
                length_ns: SECOND,
                operations,
                bytes: 0,
                longest_ns: 0,
            })
            .collect()
    }

    #[test]
    fn steady_is_when_every_second_of_the_window_is_near_the_mean() {
        let test: Steady = "5%:3s".parse().expect("a test");
        assert!(!is_steady(&series(&[100, 100, 100]), test, 0), "the first second is still the ramp's");
        assert!(is_steady(&series(&[10, 100, 101, 99]), test, 0));
        assert!(!is_steady(&series(&[10, 100, 110, 99]), test, 0));
        assert!(!is_steady(&series(&[100, 0, 0, 0]), test, 0), "nothing done is not steady");
    }
}
