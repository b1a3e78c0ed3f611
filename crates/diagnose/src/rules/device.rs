// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that stall, or slow down during a run.

use super::disk::{describe, BLOCK, SYNC};
use crate::case::{Case, Seen};
use crate::Evidence;
use plumb_model::{PatternRow, ThirdRow};
use plumb_trace::units;

/// Share of the service time in requests of over ten times the median.
const STALLS: f64 = 0.35;
/// The same where the longest took so many times the median, and so long, ns: longer than a server of
/// a virtual disk waits for a CPU on a busy machine.
const LONG_STALLS: (f64, f64, u64) = (0.2, 50.0, 100_000_000);
/// Shorter than this no request stalls, ns.
const STALL: u64 = 5_000_000;
/// A device that takes so many times as long as at first has become slower.
const SLOWER: f64 = 3.0;
/// By less than this it has not, ns: what is between the program and the device varies by as much.
const SLOWER_LEAST: u64 = 100_000;
/// Sizes and depths that differ by more are not compared.
const ALIKE: f64 = 1.5;
/// Nor are uses whose shares of sequential requests differ by more.
const ALIKE_ORDER: f64 = 0.2;

/// Share of the device service time in requests that stalled; none where it is no reason.
fn stalled_share(p: &PatternRow) -> Option<f64> {
    let share = p.service_stalled as f64 / p.service.max(1) as f64;
    let (long, times, longest) = LONG_STALLS;
    let very = p.service_max >= longest && p.service_max as f64 >= p.service_median as f64 * times;
    let least = if very { long } else { STALLS };
    (share >= least && p.service_max >= STALL).then_some(share)
}

pub fn stall(case: &mut Case<'_>) -> Option<Seen> {
    let p = case.main_pattern()?;
    let share = stalled_share(&p)?;
    let evidence = [vec![describe(&p)], case.longest(BLOCK)].concat();
    let time = case.take(SYNC, case.left(SYNC) * share);
    (time > 0).then(|| Seen {
        time,
        headline: format!("stalls of device {}: up to {} per request", p.device, units::brief(p.service_max)),
        place: p.device.clone(),
        device: p.device.clone(),
        words: format!("{:.0} % of the service time in requests of over 10x the median", share * 100.0),
        evidence,
        ..Seen::default()
    })
}

/// Share of the device service time that would not have been, had it stayed as it was in the first
/// third; none where it has not become slower, or was asked for something else.
fn slowed(p: &PatternRow) -> Option<(&ThirdRow, &ThirdRow, f64)> {
    let [first, last] = p.thirds.as_ref()?;
    let each = |r: &ThirdRow, sum: u64| sum as f64 / r.requests.max(1) as f64;
    let alike = |a: f64, b: f64| a.max(b) <= a.min(b) * ALIKE;
    let order = each(first, first.sequential) - each(last, last.sequential);
    let same = alike(each(first, first.bytes), each(last, last.bytes))
        && alike(first.depth, last.depth)
        && order.abs() <= ALIKE_ORDER;
    let more = last.service_typical.saturating_sub(first.service_typical);
    let slower = last.service_typical as f64 >= first.service_typical as f64 * SLOWER && more >= SLOWER_LEAST;
    let before = each(first, first.service) * p.requests as f64;
    let share = 1.0 - before / p.service.max(1) as f64;
    (same && slower && share > 0.0).then_some((first, last, share))
}

pub fn slower(case: &mut Case<'_>) -> Option<Seen> {
    let p = case.main_pattern()?;
    let (first, last, share) = slowed(&p)?;
    let third = |label: &str, r: &ThirdRow| {
        let words = format!(
            "{} requests of {} mean, {:.1} in flight, service time {} (geometric mean)",
            units::count(r.requests),
            units::bytes(r.bytes / r.requests.max(1)),
            r.depth,
            units::brief(r.service_typical)
        );
        Evidence::new(label, words)
    };
    let evidence =
        [vec![third("first third", first), third("last third", last), describe(&p)], case.longest(BLOCK)]
            .concat();
    let headline = format!(
        "device {} slowed down {:.1}x during the run: {} per request at first, {} at the end",
        p.device,
        last.service_typical as f64 / first.service_typical.max(1) as f64,
        units::brief(first.service_typical),
        units::brief(last.service_typical)
    );
    let time = case.take(SYNC, case.left(SYNC) * share);
    (time > 0).then(|| Seen {
        time,
        headline,
        place: p.device.clone(),
        device: p.device.clone(),
        words: format!("{} of extra service time for the same requests", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn third(requests: u64, typical: u64) -> ThirdRow {
        ThirdRow {
            requests,
            bytes: requests * 4096,
            sequential: 0,
            depth: 1.0,
            service: requests * typical,
            service_typical: typical,
        }
    }

    /// A third of the time at 100 us, the rest at 1 ms.
    fn pattern() -> PatternRow {
        PatternRow {
            requests: 3000,
            service: 3_000_000_000,
            thirds: Some([third(2400, 100_000), third(300, 1_000_000)]),
            ..PatternRow::default()
        }
    }

    #[test]
    fn stalls_are_a_third_of_the_time_or_a_fifth_and_very_long() {
        let share = |stalled, max, median| {
            stalled_share(&PatternRow {
                service: 1_000_000_000,
                service_stalled: stalled,
                service_max: max,
                service_median: median,
                ..PatternRow::default()
            })
        };
        assert_eq!(share(400_000_000, 6_000_000, 200_000), Some(0.4));
        assert_eq!(share(250_000_000, 6_000_000, 200_000), None, "a fifth, of thirty times the median");
        assert_eq!(share(250_000_000, 200_000_000, 130_000), Some(0.25));
        assert_eq!(share(250_000_000, 75_000_000, 130_000), None, "a CPU was busy");
        assert_eq!(share(150_000_000, 200_000_000, 130_000), None, "below a fifth");
        assert_eq!(share(400_000_000, 4_000_000, 20_000), None, "4 ms are no stall");
    }

    #[test]
    fn a_device_that_becomes_slow_is_seen_with_what_that_cost() {
        let p = pattern();
        let (.., share) = slowed(&p).expect("slower");
        assert!((share - 0.9).abs() < 1e-9, "{share}");
    }

    #[test]
    fn what_is_not_slower_or_not_the_same_is_not() {
        let changed = |change: fn(&mut ThirdRow, &mut ThirdRow)| {
            let mut p = pattern();
            if let Some([first, last]) = &mut p.thirds {
                change(first, last);
            }
            slowed(&p).is_none()
        };
        assert!(!changed(|_, _| ()));
        assert!(changed(|_, last| last.service_typical = 290_000), "not three times");
        assert!(
            changed(|first, last| (first.service_typical, last.service_typical) = (10_000, 90_000)),
            "us"
        );
        assert!(changed(|_, last| last.bytes *= 2), "larger ones");
        assert!(changed(|_, last| last.depth = 8.0), "more at once");
        assert!(changed(|first, _| first.sequential = first.requests), "another order");
        assert!(changed(std::mem::swap), "faster");
        assert!(slowed(&PatternRow { thirds: None, ..pattern() }).is_none(), "too few");
    }
}
