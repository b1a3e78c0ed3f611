// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory: faults, reclaim, swap.

use super::disk::BLOCK;
use crate::case::{Case, Seen};
use crate::Evidence;
use plumb_model::Category;
use plumb_trace::units;

/// Pages a second of elapsed time that count as swapping.
const SWAPPING: f64 = 500.0;
/// Share of what was read that had been in memory before.
const REFAULTS: f64 = 0.3;

fn counts(case: &Case<'_>, names: &[(&str, &str)]) -> Vec<Evidence> {
    names
        .iter()
        .filter(|(name, _)| case.counter(name) > 0)
        .map(|(name, words)| Evidence {
            words: format!("{} {words}", units::count(case.counter(name))),
            ..Evidence::default()
        })
        .collect()
}

pub fn swap(case: &mut Case<'_>) -> Option<Seen> {
    let pages = case.counter("vmstat.pswpin") + case.counter("vmstat.pswpout");
    if (pages as f64) < SWAPPING * case.elapsed() as f64 / 1e9 {
        return None;
    }
    let running = case.left(&[Category::Running]);
    let share = case.sampled("page faults") + case.sampled("memory reclaim");
    let mut time = case.take(&[Category::Running], running * share);
    time += case.take_all(&[Category::Memory]);
    time += case.take_all(BLOCK);
    let evidence = counts(
        case,
        &[
            ("vmstat.pswpin", "pages came back from swap"),
            ("vmstat.pswpout", "pages went to swap"),
            ("vmstat.pgmajfault", "faults that had to read"),
            ("cgroup.memory_failcnt", "times at the memory limit of its cgroup"),
        ],
    );
    (time > 0).then(|| Seen {
        time,
        words: format!("{} pages were swapped in and out meanwhile", units::count(pages)),
        evidence,
        doubt: vec!["the kernel counts swapping of the whole machine".into()],
    })
}

pub fn reclaim(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let mut time = case.take_all(&[Category::Memory]);
    time += case.take(&[Category::Running], running * case.sampled("memory reclaim"));
    let limit = case.counter("cgroup.memory_failcnt");
    let back = case.counter("vmstat.workingset_refault_file");
    let reads =
        case.result.patterns.iter().filter(|p| p.target && !p.write).map(|p| p.bytes / 4096).sum::<u64>();
    if limit > 0 && back as f64 > reads.max(1) as f64 * REFAULTS {
        time += case.take_all(BLOCK);
    }
    let evidence = counts(
        case,
        &[
            ("cgroup.memory_failcnt", "times at the memory limit of its cgroup"),
            ("vmstat.workingset_refault_file", "pages were read again soon after they were dropped"),
            ("vmstat.pgscan_direct", "pages looked at by threads that wanted memory"),
        ],
    );
    (time > 0).then(|| Seen {
        time,
        words: format!("{} went to getting memory free", units::duration(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn faults(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let time = case.take(&[Category::Running], running * case.sampled("page faults"));
    let functions = case.result.samples.functions.iter().filter(|f| f.at == "page faults").take(3);
    let mut evidence: Vec<Evidence> = functions
        .map(|f| Evidence {
            words: format!("{} samples in {}", f.samples, f.function),
            ..Evidence::default()
        })
        .collect();
    evidence.extend(counts(case, &[("vmstat.pgfault", "page faults of the whole machine meanwhile")]));
    (time > 0).then(|| Seen {
        time,
        words: format!("ran {} in page faults", units::duration(time)),
        evidence,
        ..Seen::default()
    })
}
