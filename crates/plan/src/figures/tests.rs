// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of directories as the runner leaves them, whole and broken.

use super::*;
use crate::file::{Factor, Level, PlanFile, Settings};
use serde_json::json;
use std::path::PathBuf;

fn plan() -> PlanFile {
    let text = "name = 'n'\ntitle = 't'\npurpose = 'p'\nhypothesis = 'h'\ntakes = '1m'\nrepeat = 2\n";
    let mut plan: PlanFile = toml::from_str(text).expect("a plan");
    let level = |name: &str| Level { name: name.into(), price: None, settings: Settings::default() };
    plan.factors = vec![Factor { name: "method".into(), levels: vec![level("fsync"), level("none")] }];
    plan
}

fn cell(number: usize, label: &str, settings: Settings) -> Cell {
    let dir = PathBuf::from(format!("cells/{number:03}-{label}"));
    Cell { label: label.into(), levels: vec![number], settings, skipped: None, dir }
}

fn made(cell: usize, repetition: u32, end: End) -> Made {
    Made {
        cell,
        repetition,
        dir: PathBuf::from(format!("cells/{cell}/{repetition}")),
        begun: "2026-01-01T00:00:00Z".into(),
        took_ns: 2_000,
        elapsed_ns: 1_000,
        end,
        doubts: Vec::new(),
    }
}

fn plan_state(settings: Settings, made: Vec<Made>) -> State {
    State {
        cells: vec![cell(0, "fsync", settings.clone()), cell(1, "none", settings)],
        made,
        ..State::empty(plan())
    }
}

fn operation(kind: &str, rate: f64, mean: f64, count: u64) -> Value {
    let summary = json!({ "count": count, "mean_ns": mean, "p50": mean, "p99": mean * 3.0, "p99_9": null, "max": mean * 9.0 });
    json!({ "kind": kind, "count": count, "errors": 1, "rate": rate, "bandwidth": rate * 4096.0, "service": summary, "response": null })
}

fn step(label: &str, operations: Vec<Value>) -> Value {
    json!({ "label": label, "verdict": { "word": "valid", "reasons": [] }, "jobs": [{ "operations": operations, "series": [] }] })
}

fn load(rounds: Vec<Vec<Value>>) -> Value {
    json!({ "interrupted": false, "error": null, "cells": [{ "label": "write", "rounds": rounds }] })
}

fn figures_of(copies: &[Value]) -> Found {
    let mut found = Found::default();
    load::figures(copies, &mut found).expect("figures");
    found
}

fn value(found: &Found, name: &str) -> f64 {
    found.figures.get(name).unwrap_or_else(|| panic!("{name}: {:?}", found.figures)).1
}

fn write(dir: &Path, made: &Made, name: &str, text: &str) {
    let dir = dir.join(&made.dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join(name), text).expect("a file");
}

#[test]
fn what_asks_a_database_is_told_by_loads_as_commands_are() {
    let mut plan = plan();
    let level = |text: &str| toml::from_str::<Level>(text).expect(text);
    plan.factors[0].levels = vec![
        level("name = 'a'\nload = { what = 'write' }"),
        level("name = 'b'\ncommand = ['pgbench']"),
        level(
            "name = 'c'\nserver = { kind = 'postgresql' }\nload = { what = 'request', sql = ['select 1'] }",
        ),
    ];
    let names = &table(Path::new("/nowhere"), &State::empty(plan)).factors[0];
    assert_eq!((names.other_work, names.commands.as_slice()), (true, &[1, 2][..]));
}

#[test]
fn a_loads_figures_have_their_names_and_units() {
    let found = figures_of(&[load(vec![vec![step("write", vec![operation("write", 100.0, 1e6, 10)])]])]);
    assert_eq!(value(&found, "write.rate"), 100.0);
    assert_eq!(value(&found, "write.bandwidth"), 409_600.0);
    assert_eq!(value(&found, "write.mean"), 1e6);
    assert_eq!(value(&found, "write.p99"), 3e6);
    assert_eq!(value(&found, "write.errors"), 1.0);
    assert!(!found.figures.contains_key("write.p99.9"), "too few operations for it");
    assert_eq!(found.figures["write.mean"].0, Unit::Ns);
    assert_eq!(found.figures["write.rate"].0, Unit::PerSecond);
    assert_eq!(found.figures["write.bandwidth"].0, Unit::BytesPerSecond);
    assert_eq!(found.figures["write.count"].0, Unit::Count);
    assert!(found.doubts.is_empty(), "{:?}", found.doubts);
}

#[test]
fn copies_and_jobs_are_summed_and_rounds_have_a_median() {
    let one = |rate, mean, n| load(vec![vec![step("write", vec![operation("write", rate, mean, n)])]]);
    let found = figures_of(&[one(100.0, 1e6, 10), one(50.0, 4e6, 5)]);
    assert_eq!(value(&found, "write.rate"), 150.0);
    assert_eq!(value(&found, "write.mean"), 2e6, "of all fifteen");
    assert_eq!(value(&found, "write.max"), 36e6);
    let round = |rate| vec![step("write", vec![operation("write", rate, 1e6, 1)])];
    assert_eq!(value(&figures_of(&[load(vec![round(1.0), round(9.0), round(5.0)])]), "write.rate"), 5.0);
}

#[test]
fn cpu_time_is_that_of_an_operations_workers() {
    let job = |kind, user: u64, count| {
        let cpu = json!({ "user_ns": user, "system_ns": 10 * user });
        json!({ "operations": [operation(kind, 1.0, 1e6, count)], "series": [], "cpu": cpu })
    };
    let mut both = step("web", vec![]);
    both["jobs"] = json!([job("serve", 6000, 20), job("serve", 4000, 30), job("request", 100, 50)]);
    let found = figures_of(&[load(vec![vec![both]])]);
    assert_eq!((value(&found, "serve.user"), value(&found, "serve.system")), (200.0, 2000.0));
    assert_eq!((value(&found, "request.user"), value(&found, "serve.cpu")), (2.0, 2200.0));
    assert_eq!(found.figures["serve.user"].0, Unit::Ns);
}

#[test]
fn the_mean_of_all_threads_is_a_figure() {
    let of = |means: &[f64]| {
        let mut one = step("count", vec![operation("lock", 1.0, 1e3, 10)]);
        let job = |mean: &f64| json!({ "operations": [operation("lock", 1.0, 1e3, 10)], "workers": [{}, {}], "thread_mean_ns": mean });
        one["jobs"] = means.iter().map(job).collect();
        load(vec![vec![one]])
    };
    let found = figures_of(&[of(&[4e6]), of(&[1e6, 1e6])]);
    assert_eq!((value(&found, "thread.mean"), found.figures["thread.mean"].0), (2e6, Unit::Ns));
    assert!(!found.figures.contains_key("thread.cpu"));
    let old = figures_of(&[load(vec![vec![step("write", vec![operation("write", 1.0, 1.0, 1)])]])]);
    assert!(!old.figures.contains_key("thread.mean"), "no figure of a load that has none");
}

#[test]
fn several_steps_have_their_labels_before_the_figure() {
    let steps = vec![
        step("seek", vec![operation("read", 1.0, 1.0, 1)]),
        step("put", vec![operation("write", 2.0, 1.0, 1)]),
    ];
    let found = figures_of(&[load(vec![steps])]);
    assert_eq!((value(&found, "seek:read.rate"), value(&found, "put:write.rate")), (1.0, 2.0));
    let cell = |label: &str, rate| json!({ "label": label, "rounds": [[step("run", vec![operation("read", rate, 1.0, 1)])]] });
    let found = figures_of(&[json!({ "cells": [cell("a", 1.0), cell("b", 2.0)] })]);
    assert_eq!((value(&found, "a, run:read.rate"), value(&found, "b, run:read.rate")), (1.0, 2.0));
}

#[test]
fn the_response_counts_where_there_is_one() {
    let mut paced = operation("write", 1.0, 1e6, 10);
    paced["response"] = json!({ "count": 10, "mean_ns": 5e6, "p50": 5e6, "max": 8e6 });
    let found = figures_of(&[load(vec![vec![step("write", vec![paced])]])]);
    assert_eq!((value(&found, "write.mean"), value(&found, "write.max")), (5e6, 8e6));
}

#[test]
fn doubts_come_from_verdict_and_losses_and_notes_are_none() {
    let mut one = step("write", vec![operation("write", 1.0, 1.0, 1)]);
    one["verdict"]["reasons"] = json!([
        { "check": "throttled", "severity": "invalid", "sentence": "held back" },
        { "check": "file-fits-memory", "severity": "note", "sentence": "it fits" },
        { "check": "rate-drift", "severity": "suspect", "sentence": "it fell" },
    ]);
    one["jobs"][0]["log_lost"] = json!(3);
    let found = figures_of(&[load(vec![vec![one]])]);
    assert_eq!(
        found.doubts,
        ["not valid: held back", "not steady: it fell", "3 operations are missing in the log"]
    );
}

#[test]
fn a_loads_elapsed_time_is_that_of_its_steps() {
    let timed = |ns: u64| {
        let mut one = step("write", vec![operation("write", 1.0, 1.0, 1)]);
        one["elapsed_ns"] = json!(ns);
        one
    };
    let round = |ns: u64| vec![timed(ns), timed(2 * ns)];
    let (quick, slow) = (load(vec![round(10), round(20), round(30)]), load(vec![round(100)]));
    assert_eq!(
        value(&figures_of(std::slice::from_ref(&quick)), "elapsed"),
        60.0,
        "the median of three rounds"
    );
    assert_eq!(value(&figures_of(&[quick, slow]), "elapsed"), 300.0, "the longest of two copies");
}

#[test]
fn a_recordings_shares_verdict_and_losses() {
    let result = json!({
        "verdict": ["CPU idle: device.", "More."], "kind": "CPU idle: device",
        "quality": { "lost": 1200, "missed": 0, "damage": [], "cut_off": false },
        "processes": [
            { "thread_time": 60, "account": { "running": 10, "block.device": 50 } },
            { "thread_time": 40, "account": { "running": 40 } },
        ],
    });
    let mut found = Found::default();
    recorded::figures(&result, &mut found).expect("figures");
    assert_eq!((value(&found, "time.running"), value(&found, "time.block.device")), (0.5, 0.5));
    assert_eq!(found.figures["time.running"].0, Unit::Share);
    assert_eq!(
        (found.kind.as_deref(), found.verdict.as_deref()),
        (Some("CPU idle: device"), Some("CPU idle: device."))
    );
    assert_eq!(found.doubts, ["1,200 events were lost by the recording"]);
    assert!(recorded::figures(&json!({}), &mut found).is_err());
}

#[test]
fn what_is_broken_is_missing_with_its_reason_and_the_rest_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = load(vec![vec![step("write", vec![operation("write", 1.0, 1e6, 1)])]]).to_string();
    let all = vec![
        made(0, 1, End::Measured),
        made(0, 2, End::Measured),
        made(0, 3, End::Measured),
        made(0, 4, End::Failed("mkfs failed".into())),
        made(0, 5, End::TimedOut),
        made(0, 6, End::Measured),
        made(0, 1, End::Measured),
    ];
    write(dir.path(), &all[0], "load.json", &whole);
    write(dir.path(), &all[1], "load.json", &whole[..whole.len() / 2]);
    write(dir.path(), &all[5], "load.json", r#"{"cells": []}"#);
    let mut state = plan_state(Settings::default(), all);
    state.cells[1].skipped = Some("no xfs here".into());
    let table = table(dir.path(), &state);
    assert_eq!(table.rows.len(), 1, "{:?}", table.rows);
    assert_eq!((table.rows[0].place, table.rows[0].repetition), (6, 1), "made again: the later one");
    assert_eq!(table.rows[0].figures["elapsed"], 1000.0);
    let why =
        |label: &str| &table.missing.iter().find(|(l, _)| l == label).unwrap_or_else(|| panic!("{label}")).1;
    assert!(why("fsync (repetition 2)").starts_with("load.json cannot be read: EOF"), "{:?}", table.missing);
    assert!(why("fsync (repetition 3)").starts_with("load.json: No such file"), "{:?}", table.missing);
    assert_eq!(why("fsync (repetition 4)"), "mkfs failed");
    assert!(why("fsync (repetition 5)").contains("stuck.txt"));
    assert!(why("fsync (repetition 6)").contains("measured nothing"));
    assert_eq!(why("none"), "no xfs here");
    assert_eq!(table.factors[0].levels, ["fsync", "none"]);
}

#[test]
fn a_command_needs_no_result_and_a_recorded_one_needs_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let command = Settings { command: Some(vec!["true".into()]), ..Settings::default() };
    let mut state = plan_state(command, vec![made(0, 1, End::Measured), made(1, 1, End::Measured)]);
    state.cells[1].settings.record = Some(Vec::new());
    let got = table(dir.path(), &state);
    assert_eq!(got.rows.len(), 1);
    assert_eq!(got.missing[0].0, "none (repetition 1)");
    assert!(got.missing[0].1.starts_with("result.json"), "{:?}", got.missing);
    state.made.pop();
    assert_eq!(table(dir.path(), &state).missing, [("none".to_string(), "not made yet".to_string())]);
    state.ended_early = Some("Ctrl-C".into());
    assert!(table(dir.path(), &state).missing[0].1.contains("ended early (Ctrl-C)"));
}

#[test]
fn spans_are_those_of_the_load_s_steps() {
    let attribution = json!({
        "operations": 2, "latency_ns": 100, "on_cpu_ns": 60, "steal_ns": 0, "run_queue_ns": 0, "device_read_ns": 40,
        "device_write_ns": 0, "device_flush_ns": 0, "other_wait_ns": 0, "scaled": false, "scheduling_known": true
    });
    let step = |label: &str| json!({ "label": label, "attribution": attribution });
    let copy =
        json!({ "cells": [{ "rounds": [[step("Q2"), step("Q1")], [step("Q2"), { "label": "Q1" }]] }] });
    let steps = times::of_steps(&[copy]);
    assert_eq!(steps.iter().map(|s| (s.name.as_str(), s.count)).collect::<Vec<_>>(), [("Q2", 4), ("Q1", 2)]);
    assert_eq!(steps[0].parts, [("on a CPU".to_string(), 120.0), ("device reads".to_string(), 80.0)].into());
    let span = |name: &str, key: &str, count: u64, ns: u64| json!({ "name": name, "key": key, "count": count, "account": { "running": ns } });
    let result = json!({ "spans": [
        span("query", "Q1: select ?", 1, 7), span("query", "Q1: select ?, ?", 1, 3), span("execute", "Q1: select ?", 1, 6),
        span("query", "Q10: select ?", 1, 99), span("query", "begin", 1, 1), span("turn", "", 5, 8),
        span("query", "Q2: cut off", 0, 0)
    ] });
    let spans = times::of_spans(&result, &steps);
    // Two texts of one step are one; the statement within it is not counted twice.
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!((spans[0].name.as_str(), spans[0].count, spans[0].whole()), ("Q1", 2, 10.0));
    let all = times::of_spans(&result, &[]);
    let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Q10: select ?", "Q1: select ?", "turn", "Q1: select ?, ?", "begin"]);
}
