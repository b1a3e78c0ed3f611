// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{diagnose, Trust};
use plumb_model::{BlameRow, PathResult, PatternRow, RunResult};

const MS: u64 = 1_000_000;

/// Random reads of one process, one at a time.
fn reads(pid: u32, requests: u64, each: u64) -> PatternRow {
    PatternRow {
        pid,
        comm: format!("read-{pid}"),
        target: true,
        device: "sda".into(),
        requests,
        bytes: requests * 4096,
        depth: 1.0,
        service: requests * each,
        service_median: each,
        service_p99: each,
        service_max: each,
        ..PatternRow::default()
    }
}

fn result(patterns: Vec<PatternRow>, parts: &[(&str, u64)]) -> RunResult {
    let part = |(category, time): &(&str, u64)| BlameRow {
        category: category.parse().expect("a category"),
        who: "sda".into(),
        time: *time,
    };
    let parts: Vec<BlameRow> = parts.iter().map(part).collect();
    let time = parts.iter().map(|p| p.time).sum();
    let path = PathResult { of: "threads".into(), time, parts, ..PathResult::default() };
    RunResult { end: time, path, patterns, ..RunResult::default() }
}

fn found(result: &RunResult) -> Vec<(String, u64)> {
    diagnose(result, &Trust::default()).findings.into_iter().map(|f| (f.id, f.time)).collect()
}

#[test]
fn random_reads_take_no_time_that_another_process_of_the_target_was_held_in_the_scheduler() {
    let parts = [("block.schedule", 5_000 * MS), ("block.device", 4_000 * MS)];
    // The one that was held back comes all at once at last.
    let late = PatternRow { depth: 16.0, ..reads(2, 32, MS) };
    let two = result(vec![reads(1, 3_968, MS), late], &parts);
    assert_eq!(found(&two), [("io.scheduler".into(), 5_000 * MS), ("io.random".into(), 4_000 * MS)]);
    let shares: Vec<f64> = diagnose(&two, &Trust::default()).findings.iter().map(|f| f.share).collect();
    assert_eq!(shares, [5.0 / 9.0, 4.0 / 9.0], "of one path");
}

#[test]
fn what_hardly_waits_in_the_scheduler_is_random_reads_alone() {
    let parts = [("block.schedule", 400 * MS), ("block.device", 4_000 * MS)];
    let two = result(vec![reads(1, 2_000, MS), reads(2, 2_000, MS)], &parts);
    assert_eq!(found(&two), [("io.random".into(), 4_400 * MS)]);
}
