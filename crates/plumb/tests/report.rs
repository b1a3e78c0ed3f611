// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb report` on whatever may lie in a directory: a page of what is there, and in words what is not.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces")
}

fn plumb(words: &[&str], paths: &[&Path], here: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plumb"))
        .args(words)
        .args(paths)
        .current_dir(here)
        .output()
        .expect("plumb runs")
}

fn document(path: &Path) -> Value {
    let out = plumb(&["report", "--json"], &[path], Path::new("/"));
    let said = String::from_utf8_lossy(&out.stderr);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{}: {e}: {said}", path.display()))
}

fn refused(path: &Path) -> String {
    let out = plumb(&["report"], &[path], Path::new("/"));
    assert_eq!(out.status.code(), Some(2), "{}", path.display());
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Why a part is absent; None where it is not.
fn why(document: &Value, part: &str) -> Option<String> {
    let absent = document["absent"].as_array().expect("absent");
    absent.iter().find(|a| a["part"] == part).map(|a| a["why"].as_str().expect("why").to_string())
}

/// A run directory around a recorded trace.
fn run_dir(temp: &Path, trace: &str) -> PathBuf {
    let dir = temp.join(trace);
    std::fs::create_dir_all(dir.join("trace")).expect("writable");
    for file in std::fs::read_dir(traces().join(trace)).expect("the trace") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), dir.join("trace").join(file.file_name())).expect("writable");
    }
    std::fs::write(dir.join("run.json"), "{\"arguments\": [\"plumb\", \"run\"]}").expect("writable");
    dir
}

#[test]
fn a_run_directory_gets_its_page_and_document() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = run_dir(temp.path(), "write-fsync");
    let out = plumb(&["report"], &[&dir], temp.path());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains(&format!("report: {}", dir.join("report.html").display())), "{said}");
    let page = std::fs::read_to_string(dir.join("report.html")).expect("the page");
    let text = std::fs::read_to_string(dir.join("report.json")).expect("the document");
    let begin = "<script type=\"application/json\" id=\"plumb-report\">";
    let inside =
        page.split_once(begin).and_then(|(_, rest)| rest.split_once("</script>")).expect("a document").0;
    let (inside, beside): (Value, Value) =
        (serde_json::from_str(inside).expect("JSON"), serde_json::from_str(&text).expect("JSON"));
    assert_eq!(inside, beside);
    assert_eq!(beside["kind"], "run");
    assert_eq!(beside["run"]["arguments"], serde_json::json!(["plumb", "run"]));
    assert!(beside["made"].as_str().expect("a date").starts_with("2026-11-21T"), "{}", beside["made"]);
    assert_eq!(why(&beside, "arguments"), None);
    // To another place, and nothing else is written there.
    let other = temp.path().join("other.html");
    let out = plumb(&["report", "-o", "other.html"], &[&dir], temp.path());
    assert!(out.status.success() && other.exists(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!temp.path().join("report.json").exists());
}

#[test]
fn a_trace_alone_is_not_written_into() {
    let temp = tempfile::tempdir().expect("a directory");
    let trace = run_dir(temp.path(), "mutex").join("trace");
    let before = std::fs::read_dir(&trace).expect("the trace").count();
    let out = plumb(&["report"], &[&trace], temp.path());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(std::fs::read_dir(&trace).expect("the trace").count(), before);
    assert!(temp.path().join("report.html").exists());
    assert!(why(&document(&trace), "arguments").expect("told").contains("only a trace"));
}

#[test]
fn what_is_missing_is_told() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = run_dir(temp.path(), "write-fsync");
    let kept = plumb(&["explain", "--json"], &[&dir], temp.path()).stdout;

    std::fs::remove_file(dir.join("run.json")).expect("there");
    assert!(why(&document(&dir), "arguments").expect("told").starts_with("run.json is missing"));

    std::fs::write(dir.join("run.json"), "{\"argum").expect("writable");
    assert!(why(&document(&dir), "arguments").expect("told").contains("run.json is damaged"));

    std::fs::write(dir.join("load.json"), "{\"cells\": [").expect("writable");
    assert!(why(&document(&dir), "loads").expect("told").contains("load.json is damaged"));

    // A trace that was cut off: of the recorder's stream the end is missing.
    let state = dir.join("trace/state");
    let whole = std::fs::read(&state).expect("the stream");
    std::fs::write(&state, &whole[..whole.len() - 40]).expect("writable");
    let cut = document(&dir);
    assert!(why(&cut, "trace").expect("told").contains("cut off"), "{}", cut["absent"]);
    assert_eq!(cut["run"]["quality"]["cut_off"], true);
    assert!(cut["run"]["timeline"].is_object(), "what is there is shown");

    // No trace any more: what was found is there, what only the trace tells is not.
    std::fs::remove_dir_all(dir.join("trace")).expect("there");
    std::fs::write(dir.join("result.json"), &kept).expect("writable");
    let without = document(&dir);
    for part in ["trace", "timeline", "profile", "requests", "operations"] {
        assert!(why(&without, part).expect(part).starts_with("The trace cannot be read"), "{part}");
    }
    let result: Value = serde_json::from_slice(&kept).expect("JSON");
    assert_eq!(without["run"]["diagnosis"]["verdict"], result["verdict"]);
    assert_eq!(without["run"]["result"]["processes"], result["processes"]);
    assert!(!without["run"]["diagnosis"]["verdict"].as_array().expect("sentences").is_empty());

    std::fs::remove_file(dir.join("result.json")).expect("there");
    assert!(refused(&dir).contains("neither a run directory nor a trace"), "{}", refused(&dir));
}

#[test]
fn parts_that_were_not_recorded_are_told() {
    // It recorded no block request.
    let sleep = document(&traces().join("sleep"));
    assert!(why(&sleep, "requests").is_some(), "{}", sleep["absent"]);
    assert!(why(&sleep, "operations").expect("told").contains("plumb load"));
    assert!(sleep["run"].get("requests").is_none());
}

#[test]
fn two_runs_are_a_comparison() {
    let temp = tempfile::tempdir().expect("a directory");
    let (a, b) = (run_dir(temp.path(), "cold-read"), run_dir(temp.path(), "write-fsync"));
    let out = plumb(&["report", "--json"], &[&a, &b], temp.path());
    let d: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(d["kind"], "comparison");
    assert_eq!(d["profiles"].as_array().expect("profiles").len(), 2);
    let json = plumb(&["compare", "--json"], &[&a, &b], temp.path()).stdout;
    assert_eq!(d["comparison"], serde_json::from_slice::<Value>(&json).expect("JSON"));
    let out = plumb(&["compare", "--report", "c.html"], &[&a, &b], temp.path());
    assert!(out.status.success() && temp.path().join("c.html").exists());
}

#[test]
fn a_document_is_read_again_and_a_newer_one_refused() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("report.json");
    let mut value = document(&traces().join("pipe"));
    std::fs::write(&file, value.to_string()).expect("writable");
    assert_eq!(document(&file), value);
    // Before version 3 `format` was its number.
    let mut older = value.clone();
    older["format"] = 2.into();
    older.as_object_mut().expect("an object").remove("version");
    std::fs::write(&file, older.to_string()).expect("writable");
    assert_eq!(document(&file), value);
    value["version"] = 99.into();
    value["plumb"] = "9.9".into();
    std::fs::write(&file, value.to_string()).expect("writable");
    let said = refused(&file);
    assert!(said.contains("version 99, written by plumb 9.9") && said.contains("plumb report DIR"), "{said}");
    let text = value.to_string();
    std::fs::write(&file, &text[..text.len() / 2]).expect("writable");
    assert!(refused(&file).contains("cut off"), "{}", refused(&file));
    std::fs::write(&file, "{}").expect("writable");
    assert!(refused(&file).contains("no JSON that a report can be made of"), "{}", refused(&file));
    assert!(refused(&temp.path().join("gone")).contains("give a run directory"));
}

#[test]
fn a_workloads_result_is_a_page() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("load.json");
    std::fs::write(
        &file,
        r#"{"arguments": ["plumb", "load", "."], "cells": [], "clock": {}, "environment": {"utc": "2026-01-31T12:00:00Z"}}"#,
    )
    .expect("writable");
    let d = document(&file);
    assert_eq!(
        (&d["kind"], &d["title"], &d["made"]),
        (&"load".into(), &"plumb load .".into(), &"2026-01-31T12:00:00Z".into())
    );
    assert_eq!(d["loads"].as_array().expect("loads").len(), 1);
    let out = plumb(&["report"], &[temp.path()], temp.path());
    assert!(out.status.success() && temp.path().join("report.html").exists());
    assert!(!temp.path().join("report.json").exists(), "the document of a load is not kept");
}

/// Recorded traces in one directory, each by the name of its host.
fn set_of(temp: &Path, hosts: &[(&str, &str)]) -> PathBuf {
    let set = temp.join("set");
    for (host, trace) in hosts {
        std::fs::create_dir_all(set.join(host)).expect("writable");
        for file in std::fs::read_dir(traces().join(trace)).expect("the trace").flatten() {
            std::fs::copy(file.path(), set.join(host).join(file.file_name())).expect("writable");
        }
    }
    set
}

/// The lists in a value have no more than the other's.
fn bounded(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Array(all), Value::Array(some)) => {
            some.len() <= all.len() && all.iter().zip(some).all(|(a, b)| bounded(a, b))
        }
        (Value::Object(all), Value::Object(some)) => {
            all.len() == some.len() && all.iter().zip(some).all(|((k, a), (l, b))| k == l && bounded(a, b))
        }
        (a, b) => a == b,
    }
}

#[test]
fn recordings_of_several_hosts_are_one_page() {
    let temp = tempfile::tempdir().expect("a directory");
    let set = set_of(temp.path(), &[("web", "tiers"), ("db", "mutex")]);
    let explained = plumb(&["explain", "--json"], &[&set], temp.path()).stdout;
    let explained: Value = serde_json::from_slice(&explained).expect("JSON");
    let d = document(&set);
    assert_eq!((&d["kind"], &d["title"]), (&"hosts".into(), &"db, web".into()));
    assert!(d["made"].as_str().expect("a date").starts_with("2026-11-2"), "{}", d["made"]);
    assert!(d.get("run").is_none() && why(&d, "hosts").is_none(), "{}", d["absent"]);
    for (row, name) in d["recordings"].as_array().expect("recordings").iter().zip(["db", "web"]) {
        let own = &explained["recordings"][name];
        assert_eq!((&row["name"], &row["verdict"]), (&name.into(), &own["verdict"][0]));
        assert_eq!(row["events"], own["quality"]["events"]);
        assert_eq!(row["error"], "");
    }
    let requests = d["hosts"]["requests"].as_array().expect("requests");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    for row in requests {
        assert_eq!((&row["client"], &row["slow"][0]["parts"][3].is_u64()), (&"web".into(), &true));
    }
    assert!(bounded(&explained["hosts"], &d["hosts"]), "{:#}", d["hosts"]);

    // Its page is here, and nothing is written into the set.
    let out = plumb(&["report"], &[&set], temp.path());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = std::fs::read_to_string(temp.path().join("report.html")).expect("the page");
    assert!(page.contains("\"kind\":\"hosts\""));
    for (dir, files) in
        [(&set, 2), (&set.join("db"), std::fs::read_dir(traces().join("mutex")).expect("there").count())]
    {
        assert_eq!(std::fs::read_dir(dir).expect("there").count(), files, "{}", dir.display());
    }
    // It is read again as it was written.
    let file = temp.path().join("hosts.json");
    std::fs::write(&file, d.to_string()).expect("writable");
    assert_eq!(document(&file), d);

    // One that cannot be read is named, and the others are there.
    std::fs::write(set.join("db/metadata"), "no trace").expect("writable");
    let out = plumb(&["report", "--json"], &[&set], temp.path());
    assert_eq!(out.status.code(), Some(2));
    let d: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_ne!(d["recordings"][0]["error"], "");
    assert_ne!(d["recordings"][1]["verdict"], "");
    assert_eq!(d["hosts"]["requests"].as_array().map(Vec::len), Some(2));
}

#[test]
fn services_of_one_machine_are_followed_on_the_page_of_their_trace() {
    let trace = traces().join("tiers");
    let d = document(&trace);
    let explained = plumb(&["explain", "--json"], &[&trace], Path::new("/")).stdout;
    let explained: Value = serde_json::from_slice(&explained).expect("JSON");
    assert_eq!(d["kind"], "run");
    assert_eq!(d["hosts"]["requests"].as_array().map(Vec::len), Some(2));
    assert!(bounded(&explained["hosts"], &d["hosts"]), "{:#}", d["hosts"]);
    // Without segments there is neither the part nor a word about it.
    let d = document(&traces().join("mutex"));
    assert!(d.get("hosts").is_none() && why(&d, "hosts").is_none());
    // A set without segments says what to record.
    let temp = tempfile::tempdir().expect("a directory");
    let d = document(&set_of(temp.path(), &[("a", "mutex"), ("b", "pipe")]));
    assert!(why(&d, "hosts").expect("told").contains("--events default,tcp"), "{}", d["absent"]);
}

#[test]
fn the_slowest_requests_of_a_set_are_a_view() {
    let temp = tempfile::tempdir().expect("a directory");
    let set = set_of(temp.path(), &[("web", "tiers"), ("db", "mutex")]);
    let text = |words: &[&str], dir: &Path| {
        String::from_utf8(plumb(words, &[dir], temp.path()).stdout).expect("text")
    };
    let view = text(&["view", "chain"], &set);
    assert_eq!(view, text(&["explain", "--chain"], &set));
    assert!(view.contains("from reading the request to the answer"), "{view}");
    // Of one trace the requests alone; what explain --chain tells of it is the evidence of its verdict.
    let alone = text(&["view", "chain"], &traces().join("tiers"));
    assert!(
        alone.contains("from reading the request to the answer") && !alone.contains("Verdict"),
        "{alone}"
    );
    for (words, dir, said) in [
        (&["view", "chain"][..], traces().join("mutex"), "record with -e default,tcp"),
        (&["view", "chain", "--json"], set, "plumb explain --json"),
    ] {
        let out = plumb(words, &[&dir], temp.path());
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && told.contains(said), "{told}");
    }
}
