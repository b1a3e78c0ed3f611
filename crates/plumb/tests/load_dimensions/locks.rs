// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each kind of lock: no count is lost, and the kernel is entered as that lock does.

use crate::run::{traced, Run};
use crate::strace::Call;
use clap::ValueEnum;
use plumb_load::job::Lock;
use std::collections::HashSet;

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
            Lock::Mutex | Lock::Futex | Lock::Rwlock => {
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
