// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums the workers' seats up to a result.

use super::watch::{seats_of, Watched};
use super::Context;
use crate::board::{Board, Seat, KINDS};
use crate::engine;
use crate::job::{Job, Step, What};
use crate::result::{Counted, CpuResult, JobResult, KindResult, ScheduleResult, StepResult, WorkerResult};
use crate::validity::{Facts, Verdict};
use crate::witness::{Evidence, OwnTimes};
use plumb_stats::histogram::Histogram;
use plumb_trace::load::OperationKind;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The result of a step whose workers have ended.
pub(super) fn up(
    step: &Step,
    context: &Context<'_>,
    board: &Board,
    start: u64,
    watched: Watched,
    evidence: Evidence,
    interrupted: bool,
) -> StepResult {
    let seats = seats_of(step);
    let mut series = watched.series.into_iter();
    let jobs: Vec<JobResult> = step
        .jobs
        .iter()
        .enumerate()
        .map(|(j, job)| JobResult {
            series: series.next().unwrap_or_default(),
            steady: watched.steady[j],
            ..job_result(job, j, context, board, &seats[j], start)
        })
        .collect();
    let end = (0..board.seats()).map(|i| board.seat(i).end.load(Relaxed)).max().unwrap_or(start);
    let elapsed_ns = end.saturating_sub(start);
    let mut result = StepResult {
        label: step.label.clone(),
        elapsed_ns,
        interrupted,
        jobs,
        evidence,
        attribution: None,
        verdict: Verdict::of(&Facts::default()),
    };
    super::judge::judge(&mut result, context);
    result
}

fn job_result(
    job: &Job,
    index: usize,
    context: &Context<'_>,
    board: &Board,
    seats: &Range<usize>,
    start: u64,
) -> JobResult {
    let all = || seats.clone().map(|i| board.seat(i));
    let begin = all().map(|s| s.begin.load(Relaxed)).filter(|&b| b > 0).min().unwrap_or(0);
    let end = all().map(|s| s.end.load(Relaxed)).max().unwrap_or(0);
    let elapsed_ns = end.saturating_sub(begin);
    let operations: Vec<KindResult> =
        OperationKind::all().filter_map(|kind| kind_result(kind, job, &all, elapsed_ns)).collect();
    let done: u64 = operations.iter().filter(|k| k.kind != "sync").map(|k| k.count).sum();
    let workers: Vec<_> = all().enumerate().map(|(w, seat)| worker_result(w as u32, seat, start)).collect();
    let counted = (job.what == What::LockAndUpdate).then(|| Counted {
        // SAFETY: the memory is the job's, as long as the board; its workers have ended.
        counters: unsafe { engine::counters(board.shared(index), job) }.iter().sum(),
        updates: operations.iter().map(|k| (k.count - k.errors) * u64::from(job.batch)).sum(),
    });
    let thread_mean_ns = (job.what == What::LockAndUpdate).then(|| mean_end(&workers)).flatten();
    JobResult {
        job: job.clone(),
        elapsed_ns,
        cpu: cpu(&all, done, elapsed_ns),
        schedule: job.rate.map(|rate| {
            let mut lag = Histogram::boxed();
            all().for_each(|s| lag.merge(&s.generator.lag));
            ScheduleResult {
                rate: rate.0,
                due: all().map(|s| s.generator.due.load(Relaxed)).sum(),
                never_begun: all().map(|s| s.generator.never_begun.load(Relaxed)).sum(),
                late: all().map(|s| s.generator.late.load(Relaxed)).sum(),
                lag: lag.summary(),
            }
        }),
        failures: all().enumerate().filter_map(|(w, s)| failure(w as u32, s, job, context)).collect(),
        answer_rows: (job.sql.len() == 1)
            .then(|| all().map(|s| s.rows.load(Relaxed)).max().unwrap_or_default()),
        damaged: all().map(|s| s.damaged.load(Relaxed)).sum(),
        log_waits: all().map(|s| s.log_waits.load(Relaxed)).sum(),
        log_wait_ns: all().map(|s| s.log_wait_ns.load(Relaxed)).sum(),
        log_lost: all().map(|s| s.log_lost.load(Relaxed)).sum(),
        events_lost: all().map(|s| s.events_lost.load(Relaxed)).sum(),
        operations,
        workers,
        counted,
        thread_mean_ns,
        series: Vec::new(),
        steady: None,
    }
}

fn kind_result<'b, I: Iterator<Item = &'b Seat>>(
    kind: OperationKind,
    job: &Job,
    seats: &impl Fn() -> I,
    elapsed_ns: u64,
) -> Option<KindResult> {
    let k = usize::from(kind.number());
    debug_assert!(k < KINDS);
    let count: u64 = seats().map(|s| s.sums[k].count.load(Relaxed)).sum();
    if count == 0 {
        return None;
    }
    let errors: u64 = seats().map(|s| s.sums[k].errors.load(Relaxed)).sum();
    let bytes: u64 = seats().map(|s| s.sums[k].bytes.load(Relaxed)).sum();
    let mut service = Histogram::boxed();
    seats().for_each(|s| service.merge(&s.service[k]));
    let response = job.rate.map(|_| {
        let mut sum = Histogram::boxed();
        seats().for_each(|s| sum.merge(&s.response[k]));
        sum
    });
    let a_second = |n: u64| if elapsed_ns == 0 { 0.0 } else { n as f64 * 1e9 / elapsed_ns as f64 };
    Some(KindResult {
        kind: kind.word(),
        count,
        errors,
        short: seats().map(|s| s.sums[k].short.load(Relaxed)).sum(),
        bytes,
        rate: a_second(count - errors),
        bandwidth: a_second(bytes),
        service: service.summary(),
        response: response.as_ref().map(|r| r.summary()),
        histogram: service,
        response_histogram: response,
    })
}

/// Mean time from the common start to a worker's own end; workers without an operation have none.
fn mean_end(workers: &[WorkerResult]) -> Option<f64> {
    let ends: Vec<f64> = workers.iter().filter(|w| w.operations > 0).map(|w| w.ended_ns as f64).collect();
    (!ends.is_empty()).then(|| ends.iter().sum::<f64>() / ends.len() as f64)
}

fn worker_result(worker: u32, seat: &Seat, start: u64) -> WorkerResult {
    let used = seat.times[2].since(&seat.times[1]);
    let begin = seat.begin.load(Relaxed);
    WorkerResult {
        worker,
        pid: seat.pid.load(Relaxed),
        operations: seat.sums.iter().map(|s| s.count.load(Relaxed)).sum(),
        bytes: seat.sums.iter().map(|s| s.bytes.load(Relaxed)).sum(),
        elapsed_ns: seat.end.load(Relaxed).saturating_sub(begin),
        ended_ns: seat.end.load(Relaxed).saturating_sub(start),
        user_ns: used.user_ns,
        system_ns: used.system_ns,
    }
}

fn cpu<'b, I: Iterator<Item = &'b Seat>>(seats: &impl Fn() -> I, done: u64, elapsed_ns: u64) -> CpuResult {
    let mut cpu = CpuResult::default();
    // User and system are split by the kernel's tick; time on a CPU is exact.
    let mut on_cpu = 0;
    for used in seats().map(|s| s.times[2].since(&s.times[1])) {
        cpu.user_ns += used.user_ns;
        cpu.system_ns += used.system_ns;
        on_cpu += if used.known & OwnTimes::SCHEDULING != 0 {
            used.on_cpu_ns
        } else {
            used.user_ns + used.system_ns
        };
        cpu.run_queue_ns += used.run_queue_ns;
        cpu.voluntary_switches += used.voluntary_switches;
        cpu.involuntary_switches += used.involuntary_switches;
    }
    if done > 0 {
        cpu.user_ns_per_operation = cpu.user_ns as f64 / done as f64;
        cpu.system_ns_per_operation = cpu.system_ns as f64 / done as f64;
    }
    if elapsed_ns > 0 {
        cpu.parallelism = on_cpu as f64 / elapsed_ns as f64;
    }
    cpu
}

/// A worker's first failure, in words.
fn failure(worker: u32, seat: &Seat, job: &Job, context: &Context<'_>) -> Option<String> {
    let errno = seat.failure.errno.load(Relaxed);
    if errno == 0 {
        return None;
    }
    let kind =
        OperationKind::from_number(seat.failure.kind.load(Relaxed) as u8).unwrap_or(OperationKind::Other);
    let file = seat.failure.file.load(Relaxed) as usize;
    let offset = seat.failure.offset.load(Relaxed);
    let files = context.ground.files(job, worker);
    let place = match files.paths.get(file) {
        Some(path) => format!("{} at {offset}", path.display()),
        None => format!("number {offset}"),
    };
    let errors: u64 = seat.sums.iter().map(|s| s.errors.load(Relaxed)).sum();
    let said = seat.said();
    let error = said.unwrap_or_else(|| std::io::Error::from_raw_os_error(errno as i32).to_string());
    Some(format!("worker {worker}: {errors} failed, the first: {kind} {place}: {error}"))
}
