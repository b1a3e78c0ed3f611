// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that live for a few periods of the sampling clock share their samples.
//!
//! A thread's time divided by its own samples is right only where they are many: of one that
//! runs for 1.6 periods, what it does last is met only when what it does first is met too, and
//! gets half of the thread's time then. Over many such threads each sample stands for the same
//! time; so the time of all of a name is spread over all of their samples evenly, and what a
//! thread's own samples stand for above its time is lent to those that have too few.

use super::collect::{Collector, Place};
use super::split::{spread, Samples, Split, ALONE};
use std::collections::{BTreeMap, HashMap};

/// Threads of which the clock takes fewer samples are short.
const FEW: u128 = 16;

/// Groups of more than [`ALONE`] short threads of one name, with samples, by their place in what
/// was collected.
pub(super) fn pools(c: &Collector, splits: &[Split]) -> Vec<Vec<usize>> {
    let number = |split: &Split| split.running.iter().map(|(_, n)| u128::from(*n)).sum::<u128>();
    let time: u128 = c.threads.iter().map(|t| u128::from(t.on_cpu[0])).sum();
    let samples: u128 = splits.iter().map(number).sum();
    let mut names: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, t) in c.threads.iter().enumerate() {
        let short = u128::from(t.on_cpu[0]) * samples < FEW * time;
        // Several that the collector put together are no thread.
        if short && t.tid != 0 && t.on_cpu[0] > 0 {
            names.entry(t.name).or_default().push(i);
        }
    }
    let met = |members: &Vec<usize>| members.iter().any(|i| !splits[*i].running.is_empty());
    let mut pools: Vec<_> = names.into_values().filter(|m| m.len() > ALONE && met(m)).collect();
    pools.sort_unstable();
    pools
}

/// What a pool's threads have of their samples and of each other's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// By thread, the time of its own samples, ns.
    pub own: Vec<u64>,
    /// Row of a thread, where another's sample was, and the time that it has of it, ns.
    pub lent: Vec<(u32, Place, u64)>,
}

/// Each thread keeps its `time`; each sample stands for the same time, to the nanosecond.
/// `rows`: where a thread is shown; several may share one.
pub(super) fn exchange(time: &[u64], samples: &[&Samples], rows: &[u32]) -> Exchange {
    let numbers: Vec<u64> = samples.iter().map(|s| s.iter().map(|(_, n)| n).sum()).collect();
    let fair = spread(time.iter().sum(), &numbers);
    let mut over: BTreeMap<Place, u64> = BTreeMap::new();
    let mut lacking: BTreeMap<u32, u64> = BTreeMap::new();
    for (((time, fair), samples), row) in time.iter().zip(&fair).zip(samples).zip(rows) {
        let weights: Vec<u64> = samples.iter().map(|(_, n)| *n).collect();
        for ((place, _), part) in samples.iter().zip(spread(fair.saturating_sub(*time), &weights)) {
            *over.entry(*place).or_default() += part;
        }
        *lacking.entry(*row).or_default() += time.saturating_sub(*fair);
    }
    let mut lent = Vec::new();
    let mut over = over.into_iter().filter(|(_, left)| *left > 0);
    let mut at = over.next();
    for (row, mut lacks) in lacking {
        while let Some((place, left)) = at.filter(|_| lacks > 0) {
            let part = left.min(lacks);
            lent.push((row, place, part));
            lacks -= part;
            at = if left > part { Some((place, left - part)) } else { over.next() };
        }
    }
    Exchange { own: time.iter().zip(&fair).map(|(time, fair)| *time.min(fair)).collect(), lent }
}

#[cfg(test)]
mod tests {
    use super::{exchange, Place};
    use std::collections::BTreeMap;

    const FIRST: Place = Place { cpu: 0, kernel: 0, user: 1 };
    const LAST: Place = Place { cpu: 0, kernel: 0, user: 2 };

    /// Threads that run for 1.6 periods, the last 0.3 of them in one place, met by a clock at
    /// every phase: each place gets its time, which division by own samples would not give.
    #[test]
    fn what_is_done_last_has_its_time() {
        let (period, runs, work) = (1000, 1600, 300);
        let mut samples = Vec::new();
        for phase in 0..period {
            let places = (phase..runs).step_by(1000).map(|at| if at < runs - work { FIRST } else { LAST });
            samples.push(places.map(|place| (place, 1)).collect::<Vec<_>>());
        }
        let time = vec![runs as u64; samples.len()];
        let rows: Vec<u32> = (0..samples.len() as u32).collect();
        let refs: Vec<_> = samples.iter().collect();
        let got = exchange(&time, &refs, &rows);
        let mut places: BTreeMap<Place, u64> = BTreeMap::new();
        let mut threads = got.own.clone();
        for (own, samples) in got.own.iter().zip(&samples) {
            let n = samples.len() as u64;
            samples.iter().for_each(|(place, _)| *places.entry(*place).or_default() += own / n);
        }
        for (row, place, time) in &got.lent {
            *places.entry(*place).or_default() += time;
            threads[*row as usize] += time;
        }
        assert_eq!(threads, time, "every thread keeps its time");
        let work = places[&LAST] as f64 / (runs * 1000) as f64;
        assert!((work - 0.1875).abs() < 0.001, "{work}");
    }

    #[test]
    fn who_has_no_sample_has_others() {
        let (some, none) = (vec![(FIRST, 2)], Vec::new());
        let got = exchange(&[10, 4], &[&some, &none], &[7, 9]);
        assert_eq!(got.own, [10, 0]);
        assert_eq!(got.lent, [(9, FIRST, 4)]);
    }
}
