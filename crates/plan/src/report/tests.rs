// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of a plan's directory with known figures.

use super::*;
use crate::analysis::synthetic::Design;
use crate::file::PlanFile;
use crate::state::{Cell, End, Made};
use serde_json::json;

/// A plan of two methods and three file systems on a model of a disk.
const PLAN: &str = r#"
name = "sample"
title = "How long a synchronous write takes"
purpose = "Which method and which file system write a log fastest?"
hypothesis = "fdatasync is faster than fsync, on every file system."
source = "A paper of 2004"
takes = "10m"
repeat = 5
figures = ["write.mean", "write.rate"]
[device.disk]
model = "atlas10k4"
[cell]
device = "disk"
[[factor]]
name = "method"
level = [{ name = "fsync" }, { name = "fdatasync" }]
[[factor]]
name = "fs"
level = [{ name = "ext2" }, { name = "ext4" }, { name = "xfs" }]
[[chart]]
name = "means"
title = "Mean time of a write"
kind = "bars"
figure = "write.mean"
over = "method"
by = "fs"
[[chart]]
name = "lines"
title = "Over the file systems"
kind = "lines"
figure = "write.mean"
over = "fs"
by = "method"
log = true
[[chart]]
name = "operations"
title = "Every write"
kind = "operations"
figure = "write"
by = "method"
"#;

/// A load's result with a mean of so many ns.
pub(super) fn load(mean: f64, reasons: serde_json::Value) -> String {
    let service = json!({ "count": 100, "mean_ns": mean, "p50": mean, "p99": mean * 2.0, "max": mean * 3.0 });
    let operation = json!({ "kind": "write", "count": 100, "errors": 0, "rate": 1e9 / mean, "bandwidth": 8192e9 / mean,
        "service": service, "response": null });
    let step = json!({ "label": "write", "verdict": { "word": "valid", "reasons": reasons },
        "jobs": [{ "operations": [operation], "series": [] }] });
    json!({ "interrupted": false, "error": null, "cells": [{ "label": "write", "rounds": [[step]] }] })
        .to_string()
}

/// A directory as the runner leaves it: of the last cell nothing, of another one a repetition
/// that failed, one that is not steady and one that stands apart.
pub(super) fn plan_directory(text: &str, noise: f64, factor: f64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let plan: PlanFile = toml::from_str(text).expect("a plan");
    let factors: Vec<(&str, usize)> =
        plan.factors.iter().map(|f| (f.name.as_str(), f.levels.len())).collect();
    let mean = |l: &[usize]| factor * 6e6 * [2.0, 1.0][l[0]] * l.get(1).map_or(1.0, |f| [1.0, 1.02, 1.3][*f]);
    let design = Design::new(&factors, plan.repeat);
    let table = design.table(mean, noise);
    let names = |levels: &[usize]| {
        let all = levels.iter().zip(&plan.factors).map(|(l, f)| f.levels[*l].name.clone());
        all.collect::<Vec<_>>().join(" ")
    };
    let count = table.rows.iter().map(|r| r.cell).max().map_or(0, |c| c + 1);
    let mut cells: Vec<Cell> = (0..count)
        .map(|number| {
            let levels = table.rows.iter().find(|r| r.cell == number).expect("a row").levels.clone();
            let path = format!("cells/{:03}", number + 1).into();
            Cell { label: names(&levels), levels, settings: plan.cell.clone(), skipped: None, dir: path }
        })
        .collect();
    let last = count - 1;
    cells[last].skipped = Some("mkfs.xfs is not here: apt install xfsprogs".into());
    let mut made = Vec::new();
    for row in table.rows.iter().filter(|r| r.cell != last) {
        let path = cells[row.cell].dir.join(row.repetition.to_string());
        let failed = row.cell == 0 && row.repetition == 2;
        let mut mean = row.figures["write.mean"];
        let mut reasons = json!([]);
        if row.cell == 1 && row.repetition == 3 {
            mean *= 1.7;
            reasons = json!([{ "check": "rate-drift", "severity": "suspect", "sentence": "it fell" }]);
        }
        std::fs::create_dir_all(dir.path().join(&path)).expect("a directory");
        std::fs::write(dir.path().join(&path).join("load.json"), load(mean, reasons)).expect("a file");
        made.push(Made {
            cell: row.cell,
            repetition: row.repetition,
            dir: path,
            begun: "2026-01-01T00:00:00Z".into(),
            took_ns: 3_000_000_000,
            elapsed_ns: 1_000_000_000 + row.place as u64 % 7,
            end: if failed { End::Failed("no space left".into()) } else { End::Measured },
            doubts: Vec::new(),
        });
    }
    let state = State {
        plumb: "0.1.0".into(),
        schedule: made.iter().map(|m| (m.cell, m.repetition)).collect(),
        cells,
        made,
        ..State::empty(plan)
    };
    std::fs::write(dir.path().join(store::STATE), serde_json::to_string(&state).expect("JSON"))
        .expect("a file");
    dir
}

pub(super) fn sample() -> tempfile::TempDir {
    plan_directory(PLAN, 0.01, 1.0)
}

#[test]
fn the_text_is_as_it_was() {
    let dir = sample();
    write(dir.path()).expect("a report");
    let text = std::fs::read_to_string(dir.path().join("report.txt")).expect("a file");
    let text = text.replace(&dir.path().display().to_string(), "DIR");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/plan-report.txt");
    if std::env::var_os("PLUMB_GOLDEN").is_some() {
        std::fs::write(&golden, &text).expect("tests/golden is writable");
    }
    let then = std::fs::read_to_string(&golden).expect("tests/golden/plan-report.txt");
    assert_eq!(text, then, "'PLUMB_GOLDEN=1 cargo test -p plumb --lib plan' if that is meant");
    let long: Vec<&str> = text.lines().filter(|l| l.chars().count() > 100).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn the_document_has_its_version_and_all_parts() {
    let dir = sample();
    write(dir.path()).expect("a report");
    let text = std::fs::read_to_string(dir.path().join("report.json")).expect("a file");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&document["format"], &document["version"]), (&json!("plumb.plan-report"), &json!(2)));
    assert_eq!(document["figures"][0]["figure"], "write.mean");
    assert_eq!(document["figures"][1]["figure"], "write.rate");
    assert_eq!(document["answer"], document["figures"][0]["answer"]);
    assert_eq!(document["figures"][0]["cells"].as_array().expect("cells").len(), 5);
    assert_eq!(document["doubts"][0]["sentence"], "not steady: it fell");
    assert_eq!(document["table"]["missing"][0], json!(["fsync ext2 (repetition 2)", "no space left"]));
    assert!(document["others"]["elapsed"] == "ns", "{}", document["others"]);
    let charts: Vec<&str> =
        document["charts"].as_array().expect("charts").iter().filter_map(|c| c.as_str()).collect();
    assert_eq!(charts, ["charts/lines.svg", "charts/means.svg"]);
    let note = document["chart_notes"][0].as_str().expect("a note");
    assert!(note.contains("operations") && note.contains("no log of operations"), "{note}");
}

#[test]
fn the_lines_have_every_repetition_and_every_cell() {
    let dir = sample();
    write(dir.path()).expect("a report");
    let text = std::fs::read_to_string(dir.path().join("report.csv")).expect("a file");
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    assert!(
        lines[0].starts_with(&["row", "cell", "label", "factor.method", "factor.fs", "repetition"]),
        "{:?}",
        lines[0]
    );
    assert!(lines.iter().all(|l| l.len() == lines[0].len()), "no comma in this plan's names");
    let count = |of: &str| lines.iter().filter(|l| l[0] == of && l[7] == "write.mean").count();
    assert_eq!((count("repetition"), count("cell")), (24, 5));
    let cell = lines
        .iter()
        .find(|l| l[0] == "cell" && l[2] == "fdatasync ext2" && l[7] == "write.mean")
        .expect("a cell");
    let [low, value, high] = [10, 9, 11].map(|i| cell[i].parse::<f64>().expect("a number"));
    assert!(low <= value && value <= high && cell[8] == "ns" && cell[12] == "5", "{cell:?}");
    let doubted: Vec<_> = lines[1..].iter().filter(|l| l[l.len() - 1] == "1").collect();
    assert!(
        !doubted.is_empty() && doubted.iter().all(|l| l[l.len() - 2] == "yes"),
        "not steady is no reason to be not valid"
    );
}

#[test]
fn another_figure_may_be_asked_for_and_an_unknown_one_is_named_with_those_there_are() {
    let dir = sample();
    let report = Report::of(dir.path(), &["write.p99".into()]).expect("a report");
    assert_eq!(report.figures[0].figure, "write.p99");
    let none = Report::of(dir.path(), &["write.p98".into()]).expect_err("no such figure").to_string();
    assert!(none.contains("write.p98") && none.contains("write.p99"), "{none}");
    assert!(Report::of(Path::new("/nonexistent"), &[]).is_err());
}

#[test]
fn a_plan_that_measured_nothing_still_has_a_report() {
    let dir = sample();
    let mut state = store::state(dir.path()).expect("a state");
    state.made.clear();
    state.ended_early = Some("Ctrl-C".into());
    std::fs::write(dir.path().join(store::STATE), serde_json::to_string(&state).expect("JSON"))
        .expect("a file");
    write(dir.path()).expect("a report");
    let text = std::fs::read_to_string(dir.path().join("report.txt")).expect("a file");
    assert!(
        text.contains("Nothing was measured: fsync ext2: not made: the plan ended early (Ctrl-C)."),
        "{text}"
    );
    assert!(text.contains("0 of 25 repetitions have figures. Ended early: Ctrl-C."), "{text}");
}

#[test]
fn charts_of_an_earlier_report_go() {
    let dir = sample();
    let charts = dir.path().join(CHARTS);
    std::fs::create_dir(&charts).expect("a directory");
    std::fs::write(charts.join("old.svg"), "old").expect("a file");
    std::fs::write(charts.join("notes.txt"), "mine").expect("a file");
    write(dir.path()).expect("a report");
    assert!(!charts.join("old.svg").exists() && charts.join("notes.txt").exists());
    assert!(charts.join("means.svg").exists());
}

#[test]
fn the_page_has_the_charts_and_what_was_not_drawn() {
    let dir = sample();
    write(dir.path()).expect("a report");
    let document = document(dir.path()).expect("a document");
    let drawn: Vec<_> = document.charts.iter().map(|c| (c.file.as_str(), c.title.as_str())).collect();
    assert_eq!(
        drawn,
        [("charts/lines.svg", "Over the file systems"), ("charts/means.svg", "Mean time of a write")]
    );
    let chart = &document.charts[1];
    assert!(
        chart.description.contains("fdatasync") && chart.description.contains(" ms"),
        "{}",
        chart.description
    );
    let note = &document.plan.as_ref().expect("a plan")["chart_notes"][0];
    assert!(note.as_str().is_some_and(|n| n.starts_with("operations")), "{note}");
    let mut page = Vec::new();
    plumb_report::page::write(&document, &mut page).expect("a page");
    let page = String::from_utf8(page).expect("text");
    let file = std::fs::read_to_string(dir.path().join("charts/means.svg")).expect("a file");
    let quoted = serde_json::to_string(&file).expect("JSON").replace('<', "\\u003c");
    assert_eq!(page.matches(&quoted).count(), 1, "the whole file, once");
    let back = plumb_report::upgrade::parse(&serde_json::to_vec(&headed(&document)).expect("JSON"));
    assert_eq!(back.expect("a document"), document);
}

#[test]
fn sentences_that_differ_in_numbers_are_one_and_invalid_ones_come_first() {
    let mut table = Design::new(&[("a", 2)], 2).table(|_| 1e6, 0.0);
    for (i, row) in table.rows.iter_mut().enumerate() {
        row.doubts.push(format!("suspect: measured for {}.5 ms only", i + 7));
    }
    table.rows[1].doubts.push("not valid: held back".into());
    let got = doubts(&table, &[]);
    assert_eq!(got.iter().map(|d| d.of.len()).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(got[0].sentence, "not valid: held back");
    assert_eq!(got[1].sentence, "suspect: measured for 7.5 to 10.5 ms only");
}

#[test]
fn recorded_combinations_beside_others_are_a_doubt() {
    let dir = sample();
    let mut state = store::state(dir.path()).expect("a state");
    let mut text = |recorded: &[usize]| {
        for (i, cell) in state.cells.iter_mut().enumerate() {
            cell.settings.record = recorded.contains(&i).then(Vec::new);
        }
        let table = Design::new(&[("a", 6)], 1).table(|_| 1e6, 0.0);
        doubts(&table, &state.cells)
    };
    let some = text(&[0, 3]);
    assert_eq!(some.len(), 1);
    assert!(some[0].sentence.contains("recorded, which costs time"), "{some:?}");
    let mut of = some[0].of.clone();
    of.sort();
    assert_eq!(of, ["a0 (repetition 1)", "a3 (repetition 1)"]);
    assert!(text(&[]).is_empty() && text(&[0, 1, 2, 3, 4, 5]).is_empty());
}

#[test]
fn a_report_that_is_asked_for_says_what_is_still_changed() {
    let dir = sample();
    let value = dir.path().join("value");
    std::fs::write(&value, "1").expect("a file");
    let line =
        json!({ "number": 1, "change": "write", "path": value, "old": "60", "new": "1", "instead": null });
    std::fs::write(dir.path().join("changes.jsonl"), format!("{line}\n")).expect("a file");
    let report = Report::of(dir.path(), &[]).expect("a report");
    let mut out = Vec::new();
    text::write(&report, &mut out).expect("memory");
    let flat = String::from_utf8(out).expect("text").split_whitespace().collect::<Vec<_>>().join(" ");
    let changed = format!("{} is 1, was 60", value.display());
    assert!(
        flat.contains(&changed) && flat.contains("Pending changes on this system; 'plumb plan restore"),
        "{flat}"
    );
}
