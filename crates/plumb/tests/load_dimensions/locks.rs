// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each kind of lock: no count is lost, and the kernel is entered as that lock does.

use crate::run::{dir, end, traced, Run};
use crate::strace::Call;
use clap::ValueEnum;
use plumb_load::job::Lock;
use std::collections::HashSet;
use std::process::Command;

/// Three processes that count under one lock.
fn contended(lock: Lock, operations: u64) -> Run {
    let (word, operations_word) = (lock.to_string(), operations.to_string());
    let args = ["--what", "lock-and-update", "--lock", &word, "--counters", "1", "--processes", "3"];
    let run = Run::new("futex,fcntl", &[&args[..], &["--operations", &operations_word]].concat());
    run.faultless();
    let counted = &run.job()["counted"];
    assert_eq!(
        (&counted["counters"], &counted["updates"]),
        (&(3 * operations).into(), &(3 * operations).into())
    );
    run
}

/// The workers' waits on words that the program itself does not touch: those are the start's.
fn waits(run: &Run) -> Vec<&Call> {
    let start: HashSet<&String> = run.program(&["futex"]).iter().map(|c| &c.args[0]).collect();
    let all = run.workers(&["futex"]).into_iter();
    all.filter(|c| c.args[1].contains("FUTEX_WAIT") && !start.contains(&c.args[0])).collect()
}

#[test]
fn every_lock() {
    if !traced("every_lock") {
        return;
    }
    for &lock in Lock::value_variants() {
        match lock {
            // Whoever meets a taken lock sleeps in the kernel; on one CPU that takes a while to happen.
            Lock::Mutex | Lock::Futex | Lock::Requeue | Lock::Rwlock => {
                let met = (0..6).any(|i| !waits(&contended(lock, 100_000 << (2 * i).min(6))).is_empty());
                assert!(met, "{lock}: nobody ever waited");
            }
            Lock::Spin | Lock::Atomic | Lock::PerCpu => {
                let run = contended(lock, 20_000);
                assert_eq!((waits(&run).len(), locks(&run).len()), (0, 0), "{lock}");
            }
            // It may see the lock free again before it sleeps.
            Lock::Adaptive => assert_eq!(locks(&contended(lock, 20_000)).len(), 0),
            Lock::Fcntl => {
                let run = contended(lock, 50);
                assert_eq!(waits(&run).len(), 0);
                let calls = locks(&run);
                let of = |kind: &str| calls.iter().filter(|c| c.has(kind)).count();
                assert_eq!((calls.len(), of("F_WRLCK"), of("F_UNLCK")), (300, 150, 150));
                assert!(
                    calls.iter().all(|c| c.result == Some(0) && c.path(0).contains("data.")),
                    "{calls:?}"
                );
            }
        }
    }
}

/// Record locks, which wait.
fn locks(run: &Run) -> Vec<&Call> {
    run.workers(&["fcntl"]).into_iter().filter(|c| c.has("F_OFD_SETLKW")).collect()
}

#[test]
fn counters_have_a_lock_each() {
    if !traced("counters_have_a_lock_each") {
        return;
    }
    let args = ["--what", "lock-and-update", "--lock", "fcntl", "--counters", "3", "--operations", "9"];
    let run = Run::new("fcntl", &args);
    let word = |c: &&Call| c.args[2].split("l_start=").nth(1).and_then(|w| w.chars().next());
    let taken: String = locks(&run).iter().filter(|c| c.has("F_WRLCK")).filter_map(word).collect();
    assert_eq!(taken, "012012012");
}

#[test]
fn a_batch_takes_one_lock_after_the_other() {
    if !traced("a_batch_takes_one_lock_after_the_other") {
        return;
    }
    let args = ["--what", "lock-and-update", "--lock", "fcntl", "--counters", "3", "--batch", "4"];
    let run = Run::new("fcntl", &[&args[..], &["--operations", "2"]].concat());
    let word = |c: &&Call| c.args[2].split("l_start=").nth(1).and_then(|w| w.chars().next());
    let taken: String = locks(&run).iter().filter(|c| c.has("F_WRLCK")).filter_map(word).collect();
    assert_eq!(taken, "01201201");
    let counted = &run.job()["counted"];
    assert_eq!((&counted["counters"], &counted["updates"], run.count("lock")), (&8.into(), &8.into(), 2));
}

/// The lines of `strace -f -ttt`: thread, seconds, the call.
fn times(text: &str) -> impl Iterator<Item = (u32, f64, &str)> {
    text.lines().filter_map(|line| {
        let (tid, rest) = line.split_once(' ')?;
        let (at, call) = rest.trim_start().split_once(' ')?;
        Some((tid.parse().ok()?, at.parse().ok()?, call))
    })
}

/// From the word that releases the threads to the time that they are released for, see the run's workers.
const LEAD_MS: f64 = 2.0;

#[test]
fn a_threads_time_counts_from_the_common_start() {
    if !traced("a_threads_time_counts_from_the_common_start") {
        return;
    }
    // About as long as a slice of the scheduler: most threads begin long after they were released.
    let threads = 40;
    let dir = dir();
    let trace = dir.path().join("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-ttt", "--seccomp-bpf", "-e", "trace=futex,exit", "-o"]).arg(&trace);
    command.arg(env!("CARGO_BIN_EXE_plumb"));
    command.args(["load", "--what", "lock-and-update", "--lock", "atomic", "--threads", "40"]);
    command.args(["--operations", "100000", "--json", "--quiet"]).current_dir(dir.path());
    let (_, out, said) = end(&mut command);
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {said}"));
    let job = &json["cells"][0]["rounds"][0][0]["jobs"][0];
    let told = job["thread_mean_ns"].as_f64().expect("a mean") / 1e6;
    let own = job["workers"].as_array().expect("workers").iter();
    let own = own.map(|w| w["elapsed_ns"].as_f64().expect("a time") / 1e6).sum::<f64>() / f64::from(threads);

    let text = std::fs::read_to_string(&trace).expect("what strace wrote");
    // strace 6.1 with --seccomp-bpf does not see each call: of some threads it tells the end alone.
    let mut exits: Vec<(u32, f64)> = Vec::new();
    for (tid, at, call) in times(&text) {
        let ends = call.starts_with("exit(") || call.starts_with("+++ exited");
        if ends && exits.iter().all(|e| e.0 != tid) {
            exits.push((tid, at));
        }
    }
    assert!(exits.len() > threads as usize, "{exits:?}");
    let workers = &exits[..threads as usize];
    let first = workers.iter().map(|e| e.1).fold(f64::MAX, f64::min);
    let of_workers = |tid: u32| workers.iter().any(|e| e.0 == tid);
    let woken = times(&text).filter(|(tid, at, call)| {
        !of_workers(*tid) && *at < first && call.contains("FUTEX_WAKE, 2147483647")
    });
    let woken = woken.map(|t| t.1).last().expect("the word that releases them");
    let seen = workers.iter().map(|e| (e.1 - woken) * 1e3 - LEAD_MS).sum::<f64>() / f64::from(threads);
    println!(
        "{told:.1} ms told, {seen:.1} ms seen by strace, {own:.1} ms from each thread's first operation"
    );
    assert!(told <= seen + 0.5 && told >= seen * 0.7, "{told} ms told, {seen} ms seen");
    assert!(own <= told, "{own} ms from the first operation, {told} ms from the start");
    if own > told * 0.7 {
        println!(
            "SKIP a_threads_time_counts_from_the_common_start: with enough CPUs all threads begin at once"
        );
    }
}
