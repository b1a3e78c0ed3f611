// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ended from outside: a result as far as it came, no worker, and nothing left.

use crate::common::scratch::{job, kind, number, result, text, until, Running, Scratch};
use crate::common::{can, must};
use std::path::Path;
use std::process::Command;

/// Waits until the workers write: their log has its first rows.
fn until_it_works(scratch: &Scratch, running: &Running, workers: usize) -> Vec<i32> {
    let log = scratch.path().join("log");
    until("the log grows", || log.metadata().is_ok_and(|m| m.len() > 1 << 12));
    let pids = running.workers();
    assert_eq!(pids.len(), workers, "worker processes");
    pids
}

fn lives(pid: i32) -> bool {
    // A process that ended and was not waited for is gone all the same.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

const ENDLESS: &[&str] = &[
    "--size",
    "4M",
    "--order",
    "random",
    "--processes",
    "3",
    "--time",
    "600s",
    "--log",
    "log",
    "--json",
    "--quiet",
];

#[test]
fn each_signal_that_asks_for_the_end_gets_a_result() {
    for (signal, target) in [(libc::SIGINT, "."), (libc::SIGTERM, "."), (libc::SIGHUP, "file")] {
        let scratch = Scratch::new();
        let running = scratch.start(&[ENDLESS, &["--sharing", "shared", target]].concat());
        let workers = until_it_works(&scratch, &running, 3);
        running.signal(signal);
        let (code, all) = result(&running.end());
        assert_eq!((code, &all["interrupted"]), (3, &true.into()), "signal {signal}");
        assert!(number(kind(job(&all), "write"), "count") > 0);
        assert!(workers.iter().all(|pid| !lives(*pid)), "signal {signal}: a worker lives on");
        std::fs::remove_file(scratch.path().join("log")).expect("the log");
        assert_eq!(
            std::fs::read_dir(scratch.path()).expect("the scratch").count(),
            0,
            "signal {signal}: left something"
        );
    }
}

#[test]
fn asked_to_end_while_its_disk_does_not_answer() {
    if !can("asked_to_end_while_its_disk_does_not_answer", &["losetup", "mkfs.ext4", "fsfreeze"]) {
        return;
    }
    let scratch = Scratch::new();
    let point = scratch.ext4(&scratch.disk("image", 64), "mount", &[]);
    let running = scratch.start(&[ENDLESS, &["mount"]].concat());
    until_it_works(&scratch, &running, 3);
    must(Command::new("fsfreeze").arg("-f").arg(&point));
    running.signal(libc::SIGINT);
    std::thread::sleep(std::time::Duration::from_secs(1));
    must(Command::new("fsfreeze").arg("-u").arg(&point));
    let (code, all) = result(&running.end());
    assert_eq!((code, &all["interrupted"]), (3, &true.into()));
    assert_eq!(std::fs::read_dir(&point).expect("the mount").count(), 1, "lost+found alone");
}

#[test]
fn a_killed_run_takes_its_workers_with_it_and_frees_the_device() {
    if !can("a_killed_run_takes_its_workers_with_it_and_frees_the_device", &["losetup"]) {
        return;
    }
    let scratch = Scratch::new();
    let device = scratch.disk("image", 16);
    let running = scratch.start(&[ENDLESS, &["--sharing", "shared", &device]].concat());
    let workers = until_it_works(&scratch, &running, 3);
    // While it lives the device is its own.
    scratch.refused(&["--destroy", &device, "--size", "1M", &device], &[&device, "does not overrule this"]);
    running.signal(libc::SIGKILL);
    let out = running.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&out.status), Some(libc::SIGKILL));
    until("the workers are gone", || workers.iter().all(|pid| !lives(*pid)));
    // What its log says until then can be read.
    let rows = scratch.load(&["log", "log", "--json"]);
    // The first line has the format alone.
    let lines = text(&rows.stdout).lines().count();
    assert!(rows.status.success() && lines > 1, "{}", text(&rows.stderr));
    let again = scratch.json(&["--destroy", &device, "--size", "1M", &device]);
    assert_eq!(number(kind(job(&again), "write"), "count"), 256);
}

#[test]
fn a_worker_that_is_killed_ends_the_run_and_is_named() {
    // Whichever of them it is: the run notices, and does not go on with a part of its load missing.
    for which in [0, 2] {
        let scratch = Scratch::new();
        let running = scratch.start(ENDLESS);
        let workers = until_it_works(&scratch, &running, 3);
        // SAFETY: a child of our own child, which does not wait for it before its end.
        assert_eq!(unsafe { libc::kill(workers[which], libc::SIGKILL) }, 0);
        let out = running.end();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        for word in ["worker process", &workers[which].to_string(), "SIGKILL"] {
            assert!(said.contains(word), "lacks {word}: {said}");
        }
        assert!(workers.iter().all(|pid| !lives(*pid)), "a worker lives on");
        std::fs::remove_file(scratch.path().join("log")).expect("the log");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("the scratch").count(), 0, "left something");
    }
}

#[test]
fn what_killed_runs_left_is_told_from_what_others_have() {
    let scratch = Scratch::new();
    let kill = |args: &[&str]| {
        let running = scratch.start(&[ENDLESS, args].concat());
        until_it_works(&scratch, &running, 3);
        running.signal(libc::SIGKILL);
        running.end();
        std::fs::remove_file(scratch.path().join("log")).expect("the log");
    };
    kill(&["--files", "2", "--dirs", "2"]);
    let left: Vec<_> =
        std::fs::read_dir(scratch.path()).expect("the scratch").flatten().map(|e| e.path()).collect();
    // Others' directories of such names, and a file that somebody put into the claim's own.
    let foreign = scratch.path().join("plumb-load.1");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(foreign.join("precious"), "x").expect("a file");
    std::os::unix::fs::symlink(&foreign, left[0].join("link")).expect("a link");
    until("it is seen as left", || {
        let named = text(&scratch.load(&["clean", "."]).stdout);
        assert!(!named.contains("plumb-load.1 "), "{named}");
        named.contains(left[0].to_str().and_then(|p| Path::new(p).file_name()?.to_str()).expect("a name"))
    });
    assert!(left[0].exists(), "without --yes nothing is removed");
    assert!(scratch.load(&["clean", "--yes", "."]).status.success());
    assert!(!left[0].exists() && foreign.join("precious").exists());
}
