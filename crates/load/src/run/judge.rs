// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts the facts of a run before the checks of its validity.

use super::Context;
use crate::engine::UDP;
use crate::files::Ground;
use crate::job::{Cache, Job, SyncMethod, Through, Timed, What};
use crate::result::{JobResult, Second, StepResult};
use crate::validity::{Facts, Verdict};
use crate::witness::{attribution, Totals};
use plumb_machine::Environment;
use std::path::Path;

/// Attributes the operations' time and judges the result.
pub(super) fn judge(result: &mut StepResult, context: &Context<'_>) {
    let totals = Totals {
        // Latencies are those of operations that succeeded.
        operations: sum(result, |job| job.main_operations().map(|k| k.count - k.errors).sum()),
        latency_ns: sum(result, latency),
        outside_ns: sum(result, outside),
    };
    let parts = attribution(&result.evidence, totals);
    let place = &context.ground.places()[0];
    let mut facts = facts(result, context, place).with_evidence(&result.evidence, &parts);
    if result.jobs.iter().any(|j| j.job.through.queues()) {
        // What threads of the kernel read for it is not its own.
        facts.own_read_bytes = None;
    }
    result.verdict = match context.environment {
        Some(before) => {
            let after = Environment::capture(Path::new(place));
            Verdict::of(&facts.with_environment(before, &after))
        }
        None => Verdict::of(&facts),
    };
    result.attribution = Some(parts);
}

fn sum(result: &StepResult, of: impl Fn(&JobResult) -> u64) -> u64 {
    result.jobs.iter().map(of).sum()
}

/// Latencies' sum, ns; a synchronisation that is inside a write's time counts once.
fn latency(job: &JobResult) -> u64 {
    let inside = job.job.time_sync == Timed::In && job.job.depth == 1 && job.job.what != What::FsyncOnly;
    let counted = job.operations.iter().filter(|k| !(inside && k.kind == "sync"));
    counted.map(|k| u64::try_from(k.histogram.sum()).unwrap_or(u64::MAX)).sum()
}

/// Time of a job's threads between their operations, where they do not sleep there and wait for nothing (they fill blocks), ns;
/// 0 where that is not known.
fn outside(job: &JobResult) -> u64 {
    let asked = &job.job;
    let one_at_a_time = asked.depth == 1 && !asked.through.queues() && !asked.what.without_files();
    // For room in a log a thread sleeps; an operation that failed has no latency.
    let sleeps = asked.rate.is_some() || asked.think.0 > 0 || job.log_wait_ns > 0;
    let failed = job.operations.iter().any(|k| k.errors > 0);
    if !one_at_a_time || sleeps || failed {
        return 0;
    }
    let wall: u64 = job.workers.iter().map(|w| w.elapsed_ns).sum();
    wall.saturating_sub(latency(job))
}

/// Whether a job's figures claim to be those of the device.
fn claims_device(job: &Job, ground: &Ground) -> bool {
    let moves = job.what.reads() || job.what.writes();
    moves
        && job.through != Through::Null
        && (job.direct
            || matches!(ground, Ground::Device(..))
            || matches!(job.cache, Cache::Drop | Cache::Fadvise | Cache::Remount)
            || job.what.writes() && job.sync != SyncMethod::None)
}

fn facts(result: &StepResult, context: &Context<'_>, _place: &Path) -> Facts {
    let jobs = &result.jobs;
    let all = |of: fn(&Job) -> bool| jobs.iter().all(|j| of(&j.job));
    let any = |of: fn(&Job) -> bool| jobs.iter().any(|j| of(&j.job));
    let bytes = |words: [&'static str; 3]| {
        let real = jobs.iter().filter(|j| j.job.through != Through::Null);
        real.flat_map(move |j| j.operations.iter().filter(move |k| words.contains(&k.kind)).map(|k| k.bytes))
            .sum()
    };
    let operations: u64 = sum(result, |j| j.main_operations().map(|k| k.count - k.errors).sum());
    let workers = sum(result, |j| u64::from(j.job.workers()));
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let clients = || jobs.iter().filter(|j| j.job.what == What::Request);
    // An address that is a path is a Unix socket's; how a database's library connects is not known.
    let by_tcp =
        |j: &&JobResult| j.job.sql.is_empty() && !j.job.to.starts_with('/') && !j.job.to.starts_with(UDP);
    // Of several texts one is faster than another, whenever it comes.
    let varied = any(|j| j.sql.len() > 1);
    let schedule = || jobs.iter().filter_map(|j| j.schedule.as_ref());
    let begun: u64 = schedule().map(|s| s.due - s.never_begun).sum();
    let syncs = sum(result, |j| {
        let calls = j.kind("sync").map_or(0, |k| k.count - k.errors);
        let flagged = j
            .job
            .sync
            .is_flag()
            .then(|| j.main_operations().filter(|k| k.kind != "read").map(|k| k.count - k.errors).sum());
        calls + flagged.unwrap_or(0)
    });
    let locks = any(|j| j.what == What::LockAndUpdate);
    let settled = jobs
        .iter()
        .map(|j| -> Vec<&Second> { j.series.iter().filter(|s| s.begin_ns() >= j.job.ramp.0).collect() });
    let series = settled.max_by_key(Vec::len).unwrap_or_default();
    Facts {
        cache_is_the_target: !jobs.iter().any(|j| claims_device(&j.job, context.ground)),
        bypasses_cache: all(|j| j.direct),
        sync_promises: any(|j| {
            j.sync.promises() && (j.what.writes() || matches!(j.what, What::FsyncOnly | What::Create))
        }),
        creates_files: any(|j| j.what == What::Create),
        read_bytes: Some(bytes(["read", "reread", "copy"])),
        written_bytes: Some(bytes(["write", "rewrite", "copy"])),
        syncs: Some(syncs),
        operations: Some(operations),
        files_created: Some(sum(result, |j| j.kind("create").map_or(0, |k| k.count - k.errors))),
        workers: Some(workers),
        elapsed_ns: Some(jobs.iter().map(|j| j.elapsed_ns).max().unwrap_or(0)),
        file_bytes: Some(sum(result, |j| {
            let sets =
                if j.job.sharing == crate::job::Sharing::Shared { 1 } else { u64::from(j.job.workers()) };
            j.job.size.0.saturating_mul(j.job.files).saturating_mul(sets)
        })),
        median_latency_ns: jobs
            .iter()
            // An answer's time is what its calls took, with no wait in it.
            .filter(|j| j.job.what != What::Serve)
            .flat_map(JobResult::main_operations)
            .map(|k| k.histogram.quantile(0.5))
            .min(),
        compressible: Some(jobs.iter().map(|j| f64::from(j.job.compressible) / 100.0).fold(0.0, f64::max)),
        clock_drift_ppm: Some(context.clock.drift_ppm_since()),
        clock_cost_ns: Some(context.clock.cost_ns().round() as u64),
        open_loop: any(|j| j.rate.is_some()),
        generator_lag_p99_ns: schedule().filter_map(|s| s.lag.p99).max(),
        generator_late_share: (begun > 0)
            .then(|| schedule().map(|s| s.late).sum::<u64>() as f64 / begun as f64),
        never_begun: schedule().map(|s| s.never_begun).reduce(|a, b| a + b),
        rate_first_third: third(&series, 0).filter(|_| !varied),
        rate_last_third: third(&series, 2).filter(|_| !varied),
        steady_state_reached: jobs.iter().filter_map(|j| j.steady).reduce(|a, b| a && b),
        errors: Some(sum(result, |j| j.operations.iter().map(|k| k.errors).sum())),
        short_transfers: Some(sum(result, |j| j.operations.iter().map(|k| k.short).sum())),
        crowded: all(|j| j.what == What::LockAndUpdate) && workers > cpus,
        parallelism_asked: (locks && all(|j| !j.lock.sleeps())).then_some(workers.min(cpus) as f64),
        parallelism_achieved: Some(jobs.iter().map(|j| j.cpu.parallelism).sum()),
        verify_failures: any(|j| j.stamp && j.what.reads()).then(|| sum(result, |j| j.damaged)),
        asks_a_server: any(|j| j.what == What::Request),
        asks_a_database: any(|j| !j.sql.is_empty()),
        counts_queries: all(|j| !j.sql.is_empty() && j.operations.is_some()),
        client_cpu_share: clients()
            .map(|j| j.cpu.parallelism / f64::from(j.job.workers().max(1)))
            .reduce(f64::max),
        asks_by_tcp: clients().any(|j| by_tcp(&j)),
        client_ports: Some(
            clients().filter(by_tcp).map(|j| u64::from(j.job.workers()) * u64::from(j.job.connections)).sum(),
        ),
        log_wait_ns: context.log.map(|_| sum(result, |j| j.log_wait_ns)),
        ..Facts::default()
    }
}

/// Operations a second in one third of the seconds; the last one is often cut short.
fn third(series: &[&Second], which: usize) -> Option<f64> {
    let whole = &series[..series.len().saturating_sub(1)];
    let size = whole.len() / 3;
    let part = if which == 0 { whole.get(..size)? } else { whole.get(whole.len() - size..)? };
    let ns: u64 = part.iter().map(|s| s.length_ns).sum();
    (ns > 0).then(|| part.iter().map(|s| s.operations).sum::<u64>() as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Rate, Time};
    use crate::preset::testing;

    #[test]
    fn between_operations_is_what_no_latency_has_where_nobody_sleeps() {
        let of = |change: &dyn Fn(&mut JobResult)| {
            let written = ("write", &[100, 200][..]);
            let mut result = testing::step("", &Job::default(), 1000, &[written, ("sync", &[300][..])]);
            change(&mut result.jobs[0]);
            outside(&result.jobs[0])
        };
        assert_eq!(of(&|job| job.job.time_sync = Timed::Out), 1000 - 300 - 300);
        assert_eq!(of(&|_| ()), 1000 - 300, "the sync is within the write's time");
        assert_eq!(of(&|job| job.job.rate = Some(Rate(10.0))), 0);
        assert_eq!(of(&|job| job.job.think = Time(5)), 0);
        assert_eq!(of(&|job| job.job.depth = 2), 0);
        assert_eq!(of(&|job| job.job.what = What::Request), 0);
        assert_eq!(of(&|job| job.log_wait_ns = 1), 0);
        assert_eq!(of(&|job| job.operations[0].errors = 1), 0);
    }

    #[test]
    fn thirds_are_of_what_counts() {
        let second = |n: u64, operations| Second {
            at_ns: n * 1_000_000_000,
            length_ns: 1_000_000_000,
            operations,
            bytes: 0,
            longest_ns: 0,
        };
        let rates = [0, 0, 0, 90, 100, 100, 100, 100, 100, 130, 5];
        let series: Vec<Second> = (1..).zip(rates).map(|(n, operations)| second(n, operations)).collect();
        let thirds = |ramp: u64| {
            let settled: Vec<&Second> = series.iter().filter(|s| s.begin_ns() >= ramp).collect();
            (third(&settled, 0), third(&settled, 2))
        };
        assert_eq!(thirds(0), (Some(0.0), Some(110.0)));
        assert_eq!(thirds(3_500_000_000), (Some(100.0), Some(115.0)));
    }
}
