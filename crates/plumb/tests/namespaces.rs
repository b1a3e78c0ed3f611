// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorder and target in namespaces of their own, as in containers: the same answers as outside.

mod common;
use common::{can, explain, must, output, plumb, process, stderr, sum, workload};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs plumb with `args` in new namespaces.
fn unshare(namespaces: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--fork").args(namespaces).arg(env!("CARGO_BIN_EXE_plumb")).args(args);
    command
}

fn of_the_mutex(dir: &Path) -> Value {
    let result = explain(dir);
    let found = &result["findings"][0];
    assert_eq!(found["id"], "lock.user", "{found:#}");
    assert!(found.to_string().contains("hold_the_mutex"), "functions have names: {found:#}");
    assert_eq!(result["quality"]["lost"], 0);
    let p = process(&result, "plumb-workload");
    assert_eq!(sum(&p["account"]), p["thread_time"].as_u64().expect("ns"), "the account adds up");
    result
}

#[test]
fn a_recorder_in_a_pid_namespace_tells_of_its_own_ids() {
    if !can("a_recorder_in_a_pid_namespace_tells_of_its_own_ids", &["unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let path = run.to_str().expect("text");
    let pid = ["--pid", "--mount-proc"];
    must(
        unshare(&pid, &["run", "-q", "-o", path, "--", workload(), "mutex", "4", "25", "3"])
            .stdout(Stdio::null()),
    );
    let p = of_the_mutex(&run);
    let id = process(&p, "plumb-workload")["pid"].as_u64().expect("a number");
    assert!(id < 20, "{id}: the first ids of a new namespace");

    // One deeper, and a target that is deeper than the recorder.
    let run = dir.path().join("deeper");
    let path = run.to_str().expect("text");
    let inner = format!("{} mutex 4 25 3", workload());
    let command =
        ["run", "-q", "-o", path, "--", "unshare", "--fork", "--pid", "--mount-proc", "sh", "-c", &inner];
    let recorder = unshare(&pid, &command);
    must(
        Command::new("unshare")
            .args(["--fork", "--pid", "--mount-proc", "unshare"])
            .args(recorder.get_args()),
    );
    of_the_mutex(&run);
}

#[test]
fn who_is_outside_of_the_pid_namespace_is_nobody_inside() {
    if !can("who_is_outside_of_the_pid_namespace_is_nobody_inside", &["unshare", "taskset"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    // Its name is told when it is first seen.
    let hog = dir.path().join("the-hog");
    std::fs::copy("/bin/sh", &hog).expect("copied");
    let words = ["-c", "while :; do :; done"];
    let mut hog = Command::new("taskset").args(["-c", "0"]).arg(&hog).args(words).spawn().expect("taskset");
    let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let command =
        ["run", "-q", "-o", run.to_str().expect("text"), "--", "taskset", "-c", "0", "sh", "-c", count];
    let out = output(&mut unshare(&["--pid", "--mount-proc"], &command));
    hog.kill().expect("killed");
    hog.wait().expect("ended");
    assert!(out.status.success(), "{}", stderr(&out));
    let result = explain(&run);
    let p = process(&result, "sh");
    let part = |name: &str| p["account"][name].as_u64().unwrap_or(0);
    assert!(part("preempted") + part("runnable") > part("running") / 4, "the other had the CPU too: {p:#}");
    let blame = result["processes"][0]["blame"].as_array().expect("blame").iter();
    let outside = blame.filter(|b| b["who"] == "the-hog").map(|b| b["time"].as_u64().expect("ns"));
    assert!(outside.sum::<u64>() > part("running") / 4, "{:#}", result["processes"][0]["blame"]);
}

#[test]
fn the_clock_of_a_time_namespace_is_translated() {
    if !can("the_clock_of_a_time_namespace_is_translated", &["unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let path = run.to_str().expect("text");
    let time = ["--time", "--monotonic", "1000000"];
    must(
        unshare(&time, &["run", "-q", "-o", path, "--", workload(), "mutex", "4", "25", "3"])
            .stdout(Stdio::null()),
    );
    of_the_mutex(&run);
}

#[test]
fn a_program_is_read_where_its_process_sees_it() {
    if !can("a_program_is_read_where_its_process_sees_it", &["unshare", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let (run, hidden) = (dir.path().join("run"), dir.path().join("hidden"));
    std::fs::create_dir(&hidden).expect("directory");
    let (hidden, work) = (hidden.display(), workload());
    let script =
        format!("mount -t tmpfs none {hidden} && cp {work} {hidden}/w && exec {hidden}/w mutex 4 25 3");
    must(plumb().args(["run", "-q", "-o"]).arg(&run).args(["--", "unshare", "--mount", "sh", "-c", &script]));
    let result = explain(&run);
    assert!(result["findings"][0].to_string().contains("hold_the_mutex"), "{:#}", result["findings"][0]);
}

#[test]
fn a_proc_of_another_namespace_is_refused() {
    if !can("a_proc_of_another_namespace_is_refused", &["unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let out = output(&mut unshare(&["--pid"], &["run", "-o", run.to_str().expect("text"), "--", "true"]));
    assert!(stderr(&out).contains("/proc is of another"), "{}", stderr(&out));
    assert!(!out.status.success() && !run.exists());
}
