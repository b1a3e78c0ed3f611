// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory: faults, reclaim, swap.

use super::disk::BLOCK;
use crate::case::{Case, Seen};
use crate::Evidence;
use plumb_model::{At, Category};
use plumb_trace::units;

/// Pages a second of elapsed time that count as swapping.
const SWAPPING: f64 = 500.0;
/// Share of what was read that had been in memory before.
const REFAULTS: f64 = 0.3;

/// Counters of the kernel that are not zero: name, label, words behind the number.
fn counts(case: &Case<'_>, names: &[(&str, &str, &str)]) -> Vec<Evidence> {
    let counted = names.iter().filter(|(name, ..)| case.counter(name) > 0);
    let row = |(name, label, words): &(&str, &str, &str)| {
        Evidence::new(label, format!("{} {words}", units::count(case.counter(name))))
    };
    counted.map(row).collect()
}

pub fn swap(case: &mut Case<'_>) -> Option<Seen> {
    let pages = case.counter("vmstat.pswpin") + case.counter("vmstat.pswpout");
    // The kernel counts in pauses of the recording too.
    let length = case.result.end.saturating_sub(case.result.begin).max(1);
    if (pages as f64) < SWAPPING * length as f64 / 1e9 {
        return None;
    }
    let running = case.left(&[Category::Running]);
    let share = case.sampled(At::Fault) + case.sampled(At::Reclaim);
    let mut time = case.take(&[Category::Running], running * share);
    time += case.take_all(&[Category::Memory]);
    time += case.take_all(BLOCK);
    let evidence = counts(
        case,
        &[
            ("vmstat.pswpin", "swapped in", "pages (pswpin)"),
            ("vmstat.pswpout", "swapped out", "pages (pswpout)"),
            ("vmstat.pgmajfault", "major faults", "(pgmajfault)"),
            ("cgroup.memory_failcnt", "memory limit", "times hit (cgroup)"),
        ],
    );
    (time > 0).then(|| Seen {
        time,
        words: format!("{} pages swapped in and out during the run", units::count(pages)),
        evidence,
        doubt: vec!["swap counters are system-wide, not per process".into()],
        ..Seen::default()
    })
}

pub fn reclaim(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let mut time = case.take_all(&[Category::Memory]);
    time += case.take(&[Category::Running], running * case.sampled(At::Reclaim));
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
            ("cgroup.memory_failcnt", "memory limit", "times hit (cgroup)"),
            ("vmstat.workingset_refault_file", "refaults", "pages read again soon after eviction"),
            ("vmstat.pgscan_direct", "direct reclaim", "pages scanned (pgscan_direct)"),
        ],
    );
    (time > 0).then(|| Seen {
        time,
        words: format!("{} in memory reclaim and the reads that it caused", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn faults(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let time = case.take(&[Category::Running], running * case.sampled(At::Fault));
    let functions = case.result.samples.functions.iter().filter(|f| f.at == At::Fault.name()).take(3);
    let mut evidence: Vec<Evidence> = functions
        .map(|f| Evidence::new("kernel", format!("{} samples in {}", f.samples, f.function)))
        .collect();
    evidence.extend(counts(case, &[("vmstat.pgfault", "page faults", "on the whole machine (pgfault)")]));
    (time > 0).then(|| Seen {
        time,
        words: format!("{} on CPU in page faults", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}
