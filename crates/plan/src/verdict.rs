// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a repetition's files say of its worth.

use super::analysis::cells::NOT_VALID;
use super::file::Settings;
use super::measure::Measured;
use super::state::End;
use plumb_compare::set::repetition;
use plumb_machine::child::Status;
use plumb_report::terminal::similar_messages::together;
use plumb_trace::units::count;
use serde_json::Value;
use std::path::Path;

/// Checks of a load that find a neighbour, which the plan itself put there.
const OF_NEIGHBOUR: &[&str] = &["other-readers", "other-writers"];

/// Whether a cell has a neighbour on the disk that is measured, as its words say.
pub fn shares_disk(settings: &Settings) -> bool {
    let words = settings.neighbour.iter().flatten();
    words.into_iter().any(|word| word.contains("{device}") || word.contains("{dir}"))
}

/// Takes out of a load's result what its checks say of the cell's neighbour.
pub fn without_neighbour(all: &mut Value) {
    for cell in all["cells"].as_array_mut().into_iter().flatten() {
        for round in cell["rounds"].as_array_mut().into_iter().flatten() {
            for step in round.as_array_mut().into_iter().flatten() {
                if let Some(reasons) = step["verdict"]["reasons"].as_array_mut() {
                    reasons.retain(|r| !OF_NEIGHBOUR.iter().any(|check| r["check"] == *check));
                }
            }
        }
    }
}

/// Judges a load by its exit code and its result, or a command by its exit code; `shared`: the cell has a neighbour on its disk.
pub fn of_load(
    json: Option<&Path>,
    code: Option<Status>,
    which: &str,
    shared: bool,
    measured: &mut Measured,
    why: &dyn Fn() -> String,
) {
    let mut fail = |said: String| {
        if !matches!(measured.end, End::Failed(_)) {
            measured.end = End::Failed(format!("{which}{said}"));
        }
    };
    match (json, code) {
        (None, Some(Status::Exited(0))) => {}
        (Some(path), Some(Status::Exited(0 | 1 | 3))) => {
            let text = std::fs::read(path).unwrap_or_default();
            match serde_json::from_slice::<Value>(&text) {
                Ok(mut all) => {
                    if shared {
                        without_neighbour(&mut all);
                    }
                    for doubt in doubts(&all) {
                        let doubt = match doubt.strip_prefix(NOT_VALID) {
                            Some(rest) => format!("{NOT_VALID}{which}{rest}"),
                            None => format!("{which}{doubt}"),
                        };
                        if !measured.doubts.contains(&doubt) {
                            measured.doubts.push(doubt);
                        }
                    }
                }
                Err(_) => fail(format!("the load left no result{}", why())),
            }
        }
        (_, Some(status)) => fail(format!("{status}{}", why())),
        (_, None) => fail(format!("its exit code is not known{}", why())),
    }
}

/// What speaks against a load's result, each thing once; what several steps, threads or files say with
/// other numbers is one, with their range.
pub fn doubts(all: &Value) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut say = |doubt: String| {
        if !told.contains(&doubt) {
            told.push(doubt);
        }
    };
    if all["interrupted"] == true {
        say(format!("{NOT_VALID}the load was interrupted"));
    }
    let cells = all["cells"].as_array().into_iter().flatten();
    let steps = cells
        .flat_map(|c| c["rounds"].as_array().into_iter().flatten())
        .flat_map(|r| r.as_array().into_iter().flatten());
    for step in steps {
        for reason in step["verdict"]["reasons"].as_array().into_iter().flatten() {
            let sentence = reason["sentence"].as_str().unwrap_or_default();
            match reason["severity"].as_str() {
                Some("invalid") => say(format!("{NOT_VALID}{sentence}")),
                Some("suspect") => say(sentence.to_string()),
                _ => {}
            }
        }
        for job in step["jobs"].as_array().into_iter().flatten() {
            if job["steady"] == false {
                say("not steady: it did not become steady within its time".into());
            }
            for failure in job["failures"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                say(format!("failed: {failure}"));
            }
            let damaged = job["damaged"].as_u64().unwrap_or(0);
            if damaged > 0 {
                say(format!("data was damaged: {} blocks", count(damaged)));
            }
            let counted = &job["counted"];
            if counted["counters"] != counted["updates"] {
                say("updates were lost".into());
            }
        }
    }
    together(&told).into_iter().map(|(sentence, _)| sentence).collect()
}

/// Judges a recording by its run directory, which knows the elapsed time of what was recorded.
pub fn of_run(dir: &Path, measured: &mut Measured, why: &dyn Fn() -> String) {
    match repetition(dir, String::new(), &[], false) {
        Ok(run) => {
            measured.elapsed_ns = run.elapsed;
            if run.lost > 0 {
                measured
                    .doubts
                    .push(format!("{NOT_VALID}{} events of the recording were lost", count(run.lost)));
            }
            if let Some(error) = run.error {
                measured.doubts.push(format!("{NOT_VALID}the recording ended early: {error}"));
            }
        }
        Err(_) => measured.end = End::Failed(format!("could not be recorded{}", why())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fresh() -> Measured {
        Measured { elapsed_ns: 1, end: End::Measured, doubts: Vec::new() }
    }

    fn result(severity: &str) -> Value {
        let reason = json!({"check": "x", "severity": severity, "sentence": "it was so", "next_step": "y"});
        let step = json!({"jobs": [{"steady": null, "failures": [], "damaged": 0, "counted": null}],
                          "verdict": {"reasons": [reason.clone(), reason]}});
        json!({"interrupted": false, "cells": [{"rounds": [[step.clone()], [step]]}]})
    }

    #[test]
    fn a_neighbours_requests_are_no_doubt() {
        let reason =
            |check: &str| serde_json::json!({ "check": check, "severity": "invalid", "sentence": check });
        let reasons: Vec<_> = ["other-readers", "swapped", "other-writers"].map(reason).into();
        let step = serde_json::json!({ "verdict": { "reasons": reasons } });
        let mut all = serde_json::json!({ "cells": [{ "rounds": [[step]] }] });
        assert_eq!(doubts(&all).len(), 3);
        without_neighbour(&mut all);
        assert_eq!(doubts(&all), [format!("{NOT_VALID}swapped")]);
    }

    #[test]
    fn reasons_become_doubts_by_their_weight() {
        assert_eq!(doubts(&result("note")), [""; 0]);
        assert_eq!(doubts(&result("suspect")), ["it was so"]);
        assert_eq!(doubts(&result("invalid")), ["not valid: it was so"]);
        let mut unsteady = result("note");
        unsteady["cells"][0]["rounds"][1][0]["jobs"][0]["steady"] = json!(false);
        assert!(doubts(&unsteady)[0].starts_with("not steady"));
    }

    #[test]
    fn exit_code_3_is_measured_with_doubts_and_2_has_failed() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("load.json");
        std::fs::write(&path, result("invalid").to_string()).expect("written");
        let why = || ": its last words".to_string();
        let mut measured = fresh();
        of_load(Some(&path), Some(Status::Exited(3)), "", false, &mut measured, &why);
        assert_eq!(
            (measured.end, &measured.doubts[..]),
            (End::Measured, &["not valid: it was so".to_string()][..])
        );
        let mut measured = fresh();
        of_load(Some(&path), Some(Status::Exited(3)), "copy 2: ", false, &mut measured, &why);
        assert_eq!(measured.doubts, ["not valid: copy 2: it was so"]);
        for (json, code, said) in [
            (Some(&path), Status::Exited(2), "exit code 2: its last words"),
            (Some(&path), Status::Killed(9), "killed by signal 9: its last words"),
            (None, Status::Exited(1), "exit code 1: its last words"),
        ] {
            let mut measured = fresh();
            of_load(json.map(|p| p.as_path()), Some(code), "", false, &mut measured, &why);
            assert_eq!(measured.end, End::Failed(said.into()));
        }
        std::fs::write(&path, "{").expect("written");
        let mut measured = fresh();
        of_load(Some(&path), Some(Status::Exited(0)), "", false, &mut measured, &why);
        assert_eq!(measured.end, End::Failed("the load left no result: its last words".into()));
    }
}
