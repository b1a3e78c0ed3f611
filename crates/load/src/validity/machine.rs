// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Did the machine let the load work?

use super::facts::Facts;
use super::Finding::{self, Against, Fine};
use super::Severity::{Note, Suspect};
use super::{graded, percent};
use plumb_trace::units::{count, duration};

/// A tenth of the latency is more than the usual spread between runs.
const RUN_QUEUE_SUSPECT: f64 = 0.10;
/// Half of it: the latency is the scheduler's before it is the device's.
const RUN_QUEUE_INVALID: f64 = 0.50;
/// Throttling comes in whole periods of 100 ms; 1 % is one of them in ten seconds.
const THROTTLED_SUSPECT: f64 = 0.01;
/// A fifth of the time standing still.
const THROTTLED_INVALID: f64 = 0.20;
/// 1 MiB: what an idle machine moves now and then.
const SWAPPED_FEW: u64 = 256;
/// Pages swapped per operation at which each second operation may have waited for one.
const SWAPPED_INVALID: f64 = 0.5;
/// Below it steal hides in the clock ticks by which it is counted.
const STEAL_SUSPECT: f64 = 0.02;
/// A fifth of the CPU time gone.
const STEAL_INVALID: f64 = 0.20;
/// Sources that take a microsecond or more to read, or tell whole ticks only.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];
/// NTP slews by at most 500 ppm; a clock that is further off is not one that is being set.
const DRIFT_SUSPECT_PPM: f64 = 500.0;
/// One percent: durations are wrong in the third digit.
const DRIFT_INVALID_PPM: f64 = 10_000.0;
/// Two readings for an operation may take this share of it.
const CLOCK_COST_SUSPECT: f64 = 0.05;
/// The clock is half of what was measured.
const CLOCK_COST_INVALID: f64 = 0.50;
/// So many changes are named; the result has them all.
const CHANGES_NAMED: usize = 3;

pub(super) fn cpu_contention(facts: &Facts) -> Option<Finding> {
    let share = facts.run_queue_share?;
    let said = || format!("{} of the latency is the load's own wait for a CPU", percent(share));
    Some(match graded(share, RUN_QUEUE_SUSPECT, RUN_QUEUE_INVALID, said) {
        Against(_, said) if facts.crowded => Against(Note, said),
        finding => finding,
    })
}

pub(super) fn throttled(facts: &Facts) -> Option<Finding> {
    let (lost, elapsed) = (facts.throttled_ns?, facts.elapsed_ns?);
    // The kernel sums over CPUs; a worker stands still on one.
    let share = lost as f64 / (elapsed.max(1) as f64 * facts.workers.unwrap_or(1).max(1) as f64);
    Some(graded(share, THROTTLED_SUSPECT, THROTTLED_INVALID, || {
        format!("the CPU quota held the control group up for {} ({})", duration(lost), percent(share))
    }))
}

pub(super) fn swapped(facts: &Facts) -> Option<Finding> {
    let pages = facts.swapped_pages?;
    if pages < SWAPPED_FEW {
        return Some(Fine);
    }
    let each = facts.operations.map_or(0.0, |n| pages as f64 / n.max(1) as f64);
    // From here on it is suspect, however many operations there were.
    Some(graded(each.max(f64::MIN_POSITIVE), f64::MIN_POSITIVE, SWAPPED_INVALID, || {
        format!("{} pages were swapped in or out", count(pages))
    }))
}

pub(super) fn damon_pageout(facts: &Facts) -> Option<Finding> {
    let schemes = facts.damon_pageout.as_ref()?;
    if schemes.is_empty() {
        return Some(Fine);
    }
    let severity = if facts.cache_is_the_target { Suspect } else { Note };
    let said = format!("{} DAMON schemes page memory out ({})", schemes.len(), schemes.join(", "));
    Some(Against(severity, said))
}

pub(super) fn steal(facts: &Facts) -> Option<Finding> {
    let share = facts.steal_share?;
    Some(graded(share, STEAL_SUSPECT, STEAL_INVALID, || {
        format!("the hypervisor gave {} of the busy CPU time to others", percent(share))
    }))
}

pub(super) fn clock_source(facts: &Facts) -> Option<Finding> {
    let source = facts.clock_source.as_deref()?;
    if !SLOW_CLOCKS.contains(&source) {
        return Some(Fine);
    }
    let cost = facts.clock_cost_ns.map_or(String::new(), |ns| format!(", {} a reading", duration(ns)));
    Some(Against(Suspect, format!("the kernel takes the time from {source}{cost}")))
}

pub(super) fn clock_drift(facts: &Facts) -> Option<Finding> {
    let ppm = facts.clock_drift_ppm?;
    Some(graded(ppm.abs(), DRIFT_SUSPECT_PPM, DRIFT_INVALID_PPM, || {
        format!("the clock in use runs {ppm:+.0} ppm against CLOCK_MONOTONIC")
    }))
}

pub(super) fn clock_cost(facts: &Facts) -> Option<Finding> {
    let (cost, median) = (facts.clock_cost_ns?, facts.median_latency_ns?);
    let share = 2.0 * cost as f64 / median.max(1) as f64;
    Some(graded(share, CLOCK_COST_SUSPECT, CLOCK_COST_INVALID, || {
        let (two, median) = (duration(cost.saturating_mul(2)), duration(median));
        format!("two readings of the clock take {two} of a median latency of {median} ({})", percent(share))
    }))
}

pub(super) fn environment_changed(facts: &Facts) -> Option<Finding> {
    let changes = facts.environment_changes.as_ref()?;
    if changes.is_empty() {
        return Some(Fine);
    }
    let named: Vec<String> =
        changes.iter().take(CHANGES_NAMED).map(|c| format!("{} from {} to {}", c.what, c.a, c.b)).collect();
    Some(Against(Suspect, format!("{} facts changed during the run: {}", changes.len(), named.join("; "))))
}
