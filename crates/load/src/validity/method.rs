// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the way it was measured carry the figures?

use super::facts::Facts;
use super::Finding::{self, Against, Fine};
use super::Severity::{Invalid, Note, Suspect};
use super::{graded, percent};
use plumb_trace::units::{count, duration};

/// One operation in a hundred begun late is in the 99 % quantile.
const LATE_SUSPECT: f64 = 0.01;
/// One in ten: the rate was not the one that was asked for.
const LATE_INVALID: f64 = 0.10;
/// From the first operation that was never begun the highest quantiles are missing it.
const NEVER_BEGUN_INVALID: f64 = 0.01;
/// Between thirds of a steady run the rate differs by less.
const DRIFT_SUSPECT: f64 = 0.10;
/// Half as fast or as fast again: one mean stands for neither.
const DRIFT_INVALID: f64 = 0.50;
/// Shorter than a second is shorter than write-back, journal commits and clock steps are apart.
const SHORT_NS: u64 = 1_000_000_000;
/// Shorter than two scheduler ticks.
const TOO_SHORT_NS: u64 = 20_000_000;
/// Below it a mean has no known spread (the usual bound for the normal approximation).
const FEW_OPERATIONS: u64 = 30;
/// So many beyond a quantile, and it lies within some 30 % of its rank (1/sqrt(10)).
const BEYOND_QUANTILE: f64 = 10.0;
/// Share of failed operations that changes what is measured.
const ERRORS_INVALID: f64 = 0.01;
/// Share of the threads asked for that must have run.
const PARALLEL_SUSPECT: f64 = 0.10;
/// Missing half of them it was another test.
const PARALLEL_INVALID: f64 = 0.50;
/// Share of the workers' time that may go into waiting for the log.
const LOG_SUSPECT: f64 = 0.001;
/// A twentieth: the log is measured too.
const LOG_INVALID: f64 = 0.05;

pub(super) fn generator_lag(facts: &Facts) -> Option<Finding> {
    if !facts.open_loop {
        return Some(Fine);
    }
    let (share, p99) = (facts.generator_late_share?, facts.generator_lag_p99_ns?);
    Some(graded(share, LATE_SUSPECT, LATE_INVALID, || {
        format!(
            "the generator began {} of the operations late (99 % within {})",
            percent(share),
            duration(p99)
        )
    }))
}

pub(super) fn never_begun(facts: &Facts) -> Option<Finding> {
    if !facts.open_loop {
        return Some(Fine);
    }
    let (missed, done) = (facts.never_begun?, facts.operations?);
    if missed == 0 {
        return Some(Fine);
    }
    let share = missed as f64 / missed.saturating_add(done) as f64;
    Some(graded(share, 0.0, NEVER_BEGUN_INVALID, || {
        format!("{} operations ({}) were due and never begun", count(missed), percent(share))
    }))
}

pub(super) fn rate_drift(facts: &Facts) -> Option<Finding> {
    let (first, last) = (facts.rate_first_third?, facts.rate_last_third?);
    if first <= 0.0 && last <= 0.0 {
        return Some(Fine);
    }
    let change = (last - first) / first.max(last);
    Some(graded(change.abs(), DRIFT_SUSPECT, DRIFT_INVALID, || {
        format!("{first:.0} operations/s in the first third of the time, {last:.0} in the last")
    }))
}

pub(super) fn steady_state(facts: &Facts) -> Option<Finding> {
    if facts.steady_state_reached != Some(false) {
        return Some(Fine);
    }
    let within = facts.elapsed_ns.map_or(String::new(), |ns| format!(" within {}", duration(ns)));
    Some(Against(Invalid, format!("the steady state that was asked for was not reached{within}")))
}

pub(super) fn duration_of_run(facts: &Facts) -> Option<Finding> {
    let elapsed = facts.elapsed_ns?;
    let said = || format!("measured for {} only", duration(elapsed));
    let [short, too_short] = if facts.counts_queries { [Note, Suspect] } else { [Suspect, Invalid] };
    Some(match elapsed {
        0..TOO_SHORT_NS => Against(too_short, said()),
        TOO_SHORT_NS..SHORT_NS => Against(short, said()),
        _ => Fine,
    })
}

pub(super) fn operations(facts: &Facts) -> Option<Finding> {
    Some(match facts.operations? {
        0 => Against(Invalid, "0 operations were completed".into()),
        few @ 1..FEW_OPERATIONS => {
            let weight = if facts.counts_queries { Note } else { Suspect };
            Against(weight, format!("{few} operations only"))
        }
        _ => Fine,
    })
}

pub(super) fn quantile_samples(facts: &Facts) -> Option<Finding> {
    let Some(quantile) = facts.highest_quantile else { return Some(Fine) };
    let operations = facts.operations?;
    let beyond = operations as f64 * (1.0 - quantile).max(0.0);
    let said = format!(
        "of {} operations {beyond:.1} lie beyond the highest quantile that is reported ({})",
        count(operations),
        quantile
    );
    // A product of floats: a hair below ten is ten.
    Some(match beyond + 1e-6 {
        none if none < 1.0 => Against(Invalid, said),
        few if few < BEYOND_QUANTILE => Against(Suspect, said),
        _ => Fine,
    })
}

pub(super) fn errors(facts: &Facts) -> Option<Finding> {
    let (errors, done) = (facts.errors?, facts.operations?);
    if errors == 0 {
        return Some(Fine);
    }
    let share = errors as f64 / errors.saturating_add(done) as f64;
    Some(graded(share, 0.0, ERRORS_INVALID, || {
        format!("{} operations failed ({})", count(errors), percent(share))
    }))
}

pub(super) fn short_transfers(facts: &Facts) -> Option<Finding> {
    let short = facts.short_transfers?;
    if short == 0 {
        return Some(Fine);
    }
    Some(Against(Suspect, format!("{} transfers moved less than asked", count(short))))
}

pub(super) fn verification(facts: &Facts) -> Option<Finding> {
    Some(match facts.verify_failures {
        None | Some(0) => Fine,
        Some(bad) => Against(Invalid, format!("{} blocks did not hold what was written", count(bad))),
    })
}

pub(super) fn parallelism(facts: &Facts) -> Option<Finding> {
    let Some(asked) = facts.parallelism_asked.filter(|n| *n > 0.0) else { return Some(Fine) };
    let achieved = facts.parallelism_achieved?;
    let missing = 1.0 - achieved / asked;
    Some(graded(missing, PARALLEL_SUSPECT, PARALLEL_INVALID, || {
        format!("{achieved:.2} of {asked:.0} threads ran at once")
    }))
}

pub(super) fn log_waits(facts: &Facts) -> Option<Finding> {
    let Some(wait) = facts.log_wait_ns.filter(|ns| *ns > 0) else { return Some(Fine) };
    let time = facts.elapsed_ns? as f64 * facts.workers.unwrap_or(1).max(1) as f64;
    let share = wait as f64 / time.max(1.0);
    let said = || format!("workers waited {} for the log ({})", duration(wait), percent(share));
    Some(match graded(share, LOG_SUSPECT, LOG_INVALID, said) {
        Fine => Against(Note, said()),
        against => against,
    })
}
