// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When operations begin: schedules of an open loop, pauses of a closed one,
//! and how many are under way at once.

use crate::run::{traced, Run};
use clap::ValueEnum;
use plumb_load::job::Arrivals;
use std::collections::HashSet;

/// When each operation was due, ns, in their order.
fn due(more: &[&str]) -> Vec<u64> {
    let run = Run::new("pwrite64", &[&["--size", "64K"], more].concat());
    run.faultless();
    assert_eq!(run.on_data(&["pwrite64"]).len() as u64, run.count("write"));
    let schedule = &run.job()["schedule"];
    assert_eq!((&schedule["due"], &schedule["never_begun"]), (&run.count("write").into(), &0.into()));
    let mut due: Vec<u64> = run.rows().iter().map(|r| r.intended_ns).collect();
    due.sort_unstable();
    due
}

fn gaps(due: &[u64]) -> Vec<u64> {
    due.windows(2).map(|w| w[1] - w[0]).collect()
}

#[test]
fn every_kind_of_arrival() {
    if !traced("every_kind_of_arrival") {
        return;
    }
    for &arrivals in Arrivals::value_variants() {
        let word = arrivals.to_string();
        let args = ["--rate", "500", "--operations", "200", "--arrivals", &word];
        let gaps = gaps(&due(&args));
        assert_eq!(gaps.len(), 199);
        match arrivals {
            Arrivals::Constant => assert_eq!(gaps, [2_000_000; 199], "whatever the operations take"),
            Arrivals::Poisson => {
                let n = gaps.len() as f64;
                let mean = gaps.iter().sum::<u64>() as f64 / n;
                // The deviation of one gap is its mean; five times that of 199.
                assert!((mean / 2e6 - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}");
                // Half of the gaps are below ln 2 of the mean.
                let below = gaps.iter().filter(|&&g| (g as f64) < 2e6 * 2f64.ln()).count() as f64;
                assert!((below - n / 2.0).abs() < 5.0 * (n / 4.0).sqrt(), "{below} of {n}");
                let other = due(&[&args[..], &["--seed", "9"]].concat());
                assert_ne!(self::gaps(&other), gaps, "another seed");
            }
        }
    }
}

#[test]
fn workers_share_a_rate_and_interleave() {
    if !traced("workers_share_a_rate_and_interleave") {
        return;
    }
    let due = due(&["--rate", "400", "--threads", "4", "--operations", "50"]);
    assert_eq!(due.len(), 200);
    assert_eq!(gaps(&due), [2_500_000; 199]);
}

#[test]
fn a_closed_loop_pauses_behind_each_operation() {
    if !traced("a_closed_loop_pauses_behind_each_operation") {
        return;
    }
    let run = Run::new("pwrite64,nanosleep,clock_nanosleep", &["--size", "64K", "--think", "3ms"]);
    run.faultless();
    let calls = run.workers(&["pwrite64", "nanosleep", "clock_nanosleep"]);
    // The start is waited for with sleeps too.
    let first = calls.iter().position(|c| c.name == "pwrite64").expect("a write");
    let told: Vec<_> =
        calls[first..].chunks(2).map(|two| (two[0].name.as_str(), two[1].has("tv_nsec"))).collect();
    assert_eq!(told, [("pwrite64", true); 16]);
    assert!(calls[first..]
        .iter()
        .skip(1)
        .step_by(2)
        .all(|c| c.args.iter().any(|a| a.contains("tv_nsec=3000000"))));
    let rows = run.rows();
    assert!(
        rows.windows(2).all(|w| w[1].begin_ns - w[0].end_ns >= 3_000_000),
        "the pause is in no operation"
    );
    assert!(run.job()["schedule"].is_null());
}

#[test]
fn processes_and_threads_are_as_many_as_asked_for() {
    if !traced("processes_and_threads_are_as_many_as_asked_for") {
        return;
    }
    let run = Run::new("pwrite64", &["--size", "64K", "--processes", "2", "--threads", "3"]);
    run.faultless();
    let calls = run.on_data(&["pwrite64"]);
    let threads: HashSet<u32> = calls.iter().map(|c| c.tid).collect();
    let processes: HashSet<u32> = threads.iter().map(|t| run.threads()[t]).collect();
    assert_eq!((threads.len(), processes.len(), calls.len()), (6, 2, 96));
    let forked = run.program(&["clone", "clone3", "fork", "vfork"]);
    let forked =
        forked.iter().filter(|c| !c.has("CLONE_THREAD") && c.result > Some(0)).filter_map(|c| c.result);
    let workers = forked.filter(|&pid| processes.contains(&(pid as u32))).count();
    assert_eq!(workers, 2, "processes of their own");
    let one = Run::new("pwrite64", &["--size", "64K"]);
    assert_eq!(one.threads().len(), 1, "a single worker is the process");
}

#[test]
fn a_queue_is_as_deep_as_asked_for() {
    if !traced("a_queue_is_as_deep_as_asked_for") {
        return;
    }
    for depth in [1, 3, 8] {
        let word = depth.to_string();
        let args = ["--through", "libaio", "--direct", "--size", "128K", "--depth", &word];
        let run = Run::new("io_submit,io_getevents", &args);
        run.faultless();
        let (mut under_way, mut most) = (0, 0);
        for call in run.workers(&["io_submit", "io_getevents"]) {
            let count = call.result.expect("it returned");
            under_way += if call.name == "io_submit" { count } else { -count };
            most = most.max(under_way);
        }
        assert_eq!((most, under_way), (depth, 0));
    }
}
