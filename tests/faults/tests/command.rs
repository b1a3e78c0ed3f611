// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as a user calls it, with what needs no root.

use std::process::{Command, Output};

fn faults(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plumb-faults")).args(args).output().expect("plumb-faults")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn list_shows_faults_clean_runs_and_what_is_not_made() {
    let out = faults(&["list"]);
    assert!(out.status.success());
    let list = text(&out.stdout);
    for word in ["shared-journal", "journal.shared", "idle-service", "cpu.stolen"] {
        assert!(list.contains(word), "no {word} in {list}");
    }
}

#[test]
fn a_load_without_its_fault_is_quicker() {
    let seconds = |how: &str| -> f64 {
        let out = faults(&["load", "sleeps", how]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).trim().trim_end_matches(" s").parse().expect("seconds")
    };
    let (with, without) = (seconds("strong"), seconds("without"));
    // It sleeps 100 times 5.5 ms.
    assert!(with >= 0.55, "{with} s");
    assert!(without < with, "{without} s without, {with} s with");
}

#[test]
fn an_unknown_name_says_where_the_names_are() {
    for args in [&["load", "nonsense"][..], &["suite", "--only", "nonsense"]] {
        let out = faults(args);
        assert_eq!(out.status.code(), Some(2));
        let said = text(&out.stderr);
        assert!(said.contains("nonsense") && said.contains("plumb-faults list"), "{said}");
    }
}

#[test]
fn the_suite_judges_a_plumb_by_what_it_prints() {
    let dir = tempfile::tempdir().expect("directory");
    // A plumb that runs its target and always finds a sleep.
    let plumb = dir.path().join("plumb");
    let script = r#"#!/bin/sh
if [ "$1" = --version ]; then echo plumb 0; exit; fi
while [ "$1" != -- ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
shift
"$@" > /dev/null
mkdir -p "$out"
echo "{\"recording\":{\"exit_code\":${FAKE_EXIT:-$?}}}" > "$out/run.json"
echo '{"findings":[{"id":"wait.sleep","share":0.7,"speedup":{"estimate":3.0,"low":2.0,"high":4.0}}],"lost_events":0,
"processes":[{"thread_time":100,"account":{"timer":70,"running":29,"unexplained":1}}]}'
"#;
    std::fs::write(&plumb, script).expect("script");
    let done = Command::new("chmod").arg("+x").arg(&plumb).status().expect("chmod");
    assert!(done.success());
    let out = dir.path().join("out");
    let suite = |only: &str, out: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb-faults"));
        command.args(["suite", "--strong-only", "--no-speedups", "--only", only, "--plumb"]);
        command.arg(&plumb).arg("--out").arg(out).output().expect("suite")
    };

    let right = suite("sleeps", &out);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
    let summary = std::fs::read_to_string(out.join("summary.md")).expect("summary.md");
    assert!(
        summary.contains("| sleeps | strong | wait.sleep | wait.sleep | yes | 0.70 | 3.00 (2.00-4.00) |"),
        "{summary}"
    );
    let json = std::fs::read_to_string(out.join("summary.json")).expect("summary.json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["figures"]["recall_strong"], 1.0);
    assert_eq!(json["figures"]["unexplained"][0], 0.01);
    assert!(out.join("raw/sleeps-strong.json").exists());

    let again = suite("sleeps", &out);
    assert_eq!(again.status.code(), Some(2), "results must not be overwritten");

    let wrong = suite("cpu-spin,gzip,sort", &dir.path().join("wrong"));
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    let said = text(&wrong.stdout);
    assert!(said.contains("recall strong        0.0 %") && said.contains("false alarms         2"), "{said}");

    let failed = Command::new(env!("CARGO_BIN_EXE_plumb-faults"))
        .args(["suite", "--strong-only", "--no-speedups", "--only", "sleeps", "--plumb"])
        .arg(&plumb)
        .arg("--out")
        .arg(dir.path().join("failed"))
        .env("FAKE_EXIT", "9")
        .output()
        .expect("suite");
    assert_eq!(failed.status.code(), Some(1), "a target that failed is no evidence");
    assert!(text(&failed.stderr).contains("exit code 9"), "{}", text(&failed.stderr));
}
