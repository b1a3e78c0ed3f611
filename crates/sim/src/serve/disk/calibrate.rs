// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the way to the device costs on this machine, and how exact its times are with that taken off.

use super::super::realtime::Realtime;
use super::super::Timing;
use super::holder::{Holder, Reads, READS_LIMIT};
use anyhow::Result;
use std::time::Duration;

const READS: u32 = 200;
/// Reads before the first that counts: caches, CPU clocks, the kernel's own first looks at a new disk.
const WARM_UP: u32 = 40;
/// No new read after so long.
const LONGEST: Duration = Duration::from_millis(1500);
/// Fewer say nothing of a 99th percentile.
const FEWEST: usize = 20;

/// The value that a share of `percent` is not above (nearest rank).
fn quantile<T: Copy + Ord>(values: &[T], percent: usize) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Sums it up; none when what was seen and what the model said do not belong together.
fn timing(path_p50: u64, seen: &[u64], model: &[u64]) -> Option<Timing> {
    if seen.len() != model.len() || seen.len() < FEWEST {
        return None;
    }
    let errors: Vec<i64> = seen.iter().zip(model).map(|(&s, &m)| s as i64 - m as i64).collect();
    Some(Timing {
        requests: errors.len() as u64,
        path_p50,
        model_p50: quantile(model, 50)?,
        error_p50: quantile(&errors, 50)?,
        error_p99: quantile(&errors, 99)?,
    })
}

/// What a wait adds to the way, ns: a CPU that slept, or worked for others, has to be had back, which
/// it has not to be when the answer comes at once. Only requests that waited tell of it, and at most
/// twice the way itself is believed: what other programs do meanwhile is not the way.
fn waiting(path: u64, seen: &[u64], model: &[u64]) -> Option<u64> {
    let waited = seen.iter().zip(model).filter(|(_, &m)| m > 2 * path);
    let errors: Vec<i64> = waited.map(|(&s, &m)| s as i64 - m as i64).collect();
    let error = quantile(&errors, 50).filter(|_| seen.len() == model.len() && errors.len() >= FEWEST)?;
    Some(u64::try_from(error).unwrap_or(0).min(2 * path))
}

/// How exact the times are, or why that is not known.
pub type Measured = Result<Timing, String>;

/// Reads with the model; what was seen and what the model said, ns.
fn with_model(
    realtime: &Realtime,
    holder: &mut Holder,
    limit: Duration,
    seed: u64,
) -> Result<(Reads, Vec<u64>)> {
    drop(realtime.last_service());
    let seen = holder.read(READS, limit, seed)?;
    Ok((seen, realtime.last_service().iter().map(|served| served.service).collect()))
}

/// Why there are too few reads.
fn few(reads: &Reads) -> String {
    match &reads.failed {
        Some(why) => format!("reads failed: {why}"),
        None => format!("only {} reads ended within {:.1} s", reads.times.len(), LONGEST.as_secs_f64()),
    }
}

/// Measures the way and has the model's answers go out so much earlier; then what is left. The
/// timing is not known where others read the new device meanwhile, or its requests fail. The model is used by
/// it and wants to be replaced by a fresh one.
///
/// # Errors
/// The holder is gone.
pub fn calibrate(realtime: &Realtime, holder: &mut Holder) -> Result<Measured> {
    realtime.without_model(true);
    let way = holder.read(WARM_UP, LONGEST, 1).and_then(|_| holder.read(READS, LONGEST, 2));
    realtime.without_model(false);
    let way = way?;
    let Some(mut path) = quantile(&way.times, 50) else { return Ok(Err(few(&way))) };
    realtime.set_path(path);
    let (seen, model) = with_model(realtime, holder, LONGEST / 3, 3)?;
    path += waiting(path, &seen.times, &model).unwrap_or(0);
    realtime.set_path(path);
    let mut why = String::new();
    // udev looks at a new device too; once it has, it leaves it alone.
    for seed in 4..7 {
        let (seen, model) = with_model(realtime, holder, LONGEST, seed)?;
        if let Some(timing) = timing(path, &seen.times, &model) {
            return Ok(Ok(timing));
        }
        let too_few = seen.times.len() < FEWEST;
        why = if too_few { few(&seen) } else { "others read the device".into() };
        // Not again where one read takes seconds.
        if too_few || seen.times.iter().sum::<u64>() > READS_LIMIT.as_nanos() as u64 / 4 {
            break;
        }
    }
    Ok(Err(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!((quantile(&values, 50), quantile(&values, 99)), (Some(100), Some(198)));
        assert_eq!(quantile(&[7], 99), Some(7));
        assert_eq!(quantile::<u64>(&[], 50), None);
    }

    #[test]
    fn the_error_is_what_was_seen_less_the_model_with_its_sign() {
        let model: Vec<u64> = (0..100).map(|n| 1_000_000 + n).collect();
        let seen: Vec<u64> = model.iter().map(|m| m - 2_000).collect();
        let timing = timing(38_000, &seen, &model).expect("it belongs together");
        assert_eq!(
            timing,
            Timing {
                requests: 100,
                path_p50: 38_000,
                model_p50: 1_000_049,
                error_p50: -2_000,
                error_p99: -2_000
            }
        );
    }

    #[test]
    fn what_waiting_adds_is_taken_from_those_that_waited_and_bounded() {
        let model = [100_000; 50];
        let seen = |more: u64| model.map(|m| m + more);
        assert_eq!(waiting(20_000, &seen(12_000), &model), Some(12_000));
        assert_eq!(waiting(20_000, &seen(90_000), &model), Some(40_000), "no more than twice the way itself");
        assert_eq!(waiting(20_000, &[90_000; 50], &model), Some(0), "too early is no reason to wait less");
        // A model without time: the answer came at once, and the error is the way.
        assert_eq!(waiting(20_000, &[20_000; 50], &[0; 50]), None);
        assert_eq!(waiting(20_000, &seen(12_000)[1..], &model), None);
    }

    #[test]
    fn too_few_reads_have_a_reason() {
        let failed = Reads { times: vec![1; 3], failed: Some("EIO".into()) };
        assert_eq!(few(&failed), "reads failed: EIO");
        assert_eq!(few(&Reads { failed: None, ..failed }), "only 3 reads ended within 1.5 s");
    }

    #[test]
    fn what_does_not_belong_together_gives_nothing() {
        assert_eq!(timing(1, &[1; 100], &[1; 101]), None);
        assert_eq!(timing(1, &[1; 5], &[1; 5]), None);
    }
}
