// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes data last: each method's calls and flags at their place among the
//! writes, and whether its time is a write's.

use crate::run::{traced, Run};
use clap::ValueEnum;
use plumb_load::job::{SyncMethod, Timed};
use plumb_load::log::DURABLE;

const CALLS: &str = "openat,close,pwrite64,pwritev2,fsync,fdatasync,sync,sync_file_range,msync,mmap,syncfs";
const SYNCS: [&str; 6] = ["fsync", "fdatasync", "sync", "sync_file_range", "msync", "syncfs"];
/// Flags of an open file or a write.
const FLAGS: [&str; 4] = ["O_SYNC", "O_DSYNC", "RWF_DSYNC", "RWF_SYNC"];

/// 16 writes with one method.
fn run(method: SyncMethod, more: &[&str]) -> Run {
    let word = method.to_string();
    let through = match method {
        SyncMethod::Msync => "mmap",
        SyncMethod::RwfDsync => "pwritev2",
        _ => "pwrite",
    };
    let run = Run::new(CALLS, &[&["--sync", &word, "--size", "64K", "--through", through], more].concat());
    run.faultless();
    assert_eq!(run.count("write"), 16);
    run
}

/// Flags that the files were opened or written with.
fn flags(run: &Run) -> Vec<&'static str> {
    let calls = run.opened().into_iter().chain(run.on_data(&["pwritev2"]));
    let mut found: Vec<_> = calls.flat_map(|c| FLAGS.into_iter().filter(|f| c.has(f))).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// How many writes there were before each sync: since the one before.
fn distances(run: &Run, sync: &str) -> Vec<u64> {
    let mut writes = 0;
    let mut distances = Vec::new();
    for call in run.workers(&[&["pwrite64", "pwritev2"][..], &SYNCS].concat()) {
        match call.name.as_str() {
            "pwrite64" | "pwritev2" => writes += 1,
            name => {
                assert_eq!((name, call.result), (sync, Some(0)), "{call:?}");
                distances.push(std::mem::take(&mut writes));
            }
        }
    }
    assert_eq!(run.rows().iter().filter(|r| r.kind.word() == "sync").count() as u64, run.count("sync"));
    distances
}

/// Whether the log promises of every write, or of every sync, that data outlives a loss of power.
fn promises(run: &Run, kind: &str) -> bool {
    let rows = run.rows();
    let mut flags = rows.iter().filter(|r| r.kind.word() == kind).map(|r| r.flags & DURABLE != 0);
    let first = flags.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(flags.all(|f| f == first), "{kind}: some");
    first
}

#[test]
fn every_method_of_synchronisation() {
    if !traced("every_method_of_synchronisation") {
        return;
    }
    for &method in SyncMethod::value_variants() {
        match method {
            SyncMethod::None => {
                let run = run(method, &[]);
                assert_eq!((run.workers(&SYNCS).len(), flags(&run)), (0, vec![]));
                assert!(!promises(&run, "write"));
            }
            SyncMethod::Fsync | SyncMethod::Fdatasync => {
                let name = method.to_string();
                let one = run(method, &[]);
                assert_eq!(distances(&one, &name), [1; 16]);
                assert!(one.workers(&SYNCS).iter().all(|c| c.path(0).ends_with("data.0.0")));
                let run = run(method, &["--every", "5"]);
                assert_eq!((distances(&run, &name), run.count("sync")), (vec![5; 3], 3));
                assert!(promises(&run, "sync") && !promises(&run, "write"));
                assert_eq!(flags(&run), [""; 0]);
            }
            SyncMethod::SyncSync => {
                let run = run(method, &["--every", "8"]);
                assert_eq!((distances(&run, "sync"), run.count("sync")), (vec![8, 0, 8, 0], 2));
            }
            SyncMethod::SyncFileRange => {
                let all = "SYNC_FILE_RANGE_WAIT_BEFORE|SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER";
                let one = run(method, &[]);
                assert_eq!(distances(&one, "sync_file_range"), [1; 16]);
                for (i, call) in one.workers(&SYNCS).into_iter().enumerate() {
                    assert_eq!((call.number(1), call.number(2)), (i as i64 * 4096, 4096), "{call:?}");
                    assert_eq!(call.args[3], all);
                }
                assert!(!promises(&one, "sync"), "it flushes no device cache");
                let run = run(method, &["--every", "4"]);
                assert_eq!(distances(&run, "sync_file_range"), [4; 4]);
                for call in run.workers(&SYNCS) {
                    assert_eq!((call.number(1), call.number(2)), (0, 0), "all of the four writes: {call:?}");
                }
            }
            SyncMethod::OSync | SyncMethod::ODsync | SyncMethod::RwfDsync => {
                let run = run(method, &[]);
                let flag = match method {
                    SyncMethod::OSync => "O_SYNC",
                    SyncMethod::ODsync => "O_DSYNC",
                    _ => "RWF_DSYNC",
                };
                assert_eq!((flags(&run), run.workers(&SYNCS).len()), (vec![flag], 0));
                assert!(promises(&run, "write"));
                let calls = run.on_data(&["pwrite64", "pwritev2"]);
                assert_eq!(calls.len(), 16);
                assert!(
                    method != SyncMethod::RwfDsync || calls.iter().all(|c| c.args[4] == flag),
                    "{calls:?}"
                );
            }
            SyncMethod::Msync => {
                for (more, syncs, length) in
                    [(&["--every", "1"][..], 16, 4096), (&["--every", "4"], 4, 65_536)]
                {
                    let run = run(method, more);
                    let map = run.on_data(&["mmap"])[0].result.expect("a place");
                    let calls = run.workers(&SYNCS);
                    assert_eq!(calls.len(), syncs);
                    for (i, call) in calls.iter().enumerate() {
                        let at = if syncs == 16 { i as i64 * 4096 } else { 0 };
                        assert_eq!((call.name.as_str(), call.number(0) - map), ("msync", at), "{call:?}");
                        // After several writes: all of them, as the log promises.
                        assert_eq!((call.number(1), call.args[2].as_str()), (length, "MS_SYNC"), "{call:?}");
                    }
                    assert!(promises(&run, "sync"));
                }
            }
        }
    }
}

#[test]
fn a_sync_is_inside_or_outside_of_its_writes_time() {
    if !traced("a_sync_is_inside_or_outside_of_its_writes_time") {
        return;
    }
    for &timed in Timed::value_variants() {
        let word = timed.to_string();
        let run = run(SyncMethod::Fsync, &["--time-sync", &word]);
        let spent = |kind: &str| -> f64 {
            let rows = run.rows();
            rows.iter().filter(|r| r.kind.word() == kind).map(|r| (r.end_ns - r.begin_ns) as f64).sum()
        };
        let figure = |kind: &str| {
            let service = &run.kind(kind).expect("figures")["service"];
            16.0 * service["mean_ns"].as_f64().expect("a mean")
        };
        let (writes, syncs) = (spent("write"), spent("sync"));
        let expected = match timed {
            Timed::In => writes + syncs,
            Timed::Out => writes,
        };
        assert!((figure("write") / expected - 1.0).abs() < 0.02, "{timed}: {} {expected}", figure("write"));
        assert!((figure("sync") / syncs - 1.0).abs() < 0.02, "a row of its own in any case");
    }
}

#[test]
fn closing_is_inside_or_outside_of_the_elapsed_time() {
    if !traced("closing_is_inside_or_outside_of_the_elapsed_time") {
        return;
    }
    for &timed in Timed::value_variants() {
        let word = timed.to_string();
        let run = run(SyncMethod::None, &["--time-close", &word, "--files", "1"]);
        assert_eq!(run.on_data(&["close"]).len(), 1, "closed in any case");
        match timed {
            Timed::In => assert_eq!(run.count("close"), 1),
            Timed::Out => assert!(run.kind("close").is_none()),
        }
    }
}
