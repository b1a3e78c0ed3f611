// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb query` on recorded traces: what it finds, what it says of what is absent, its exit codes.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name)
}

/// Exit code, standard output, standard error.
fn plumb(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_plumb")).args(args).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

fn query(sql: &str, runs: &[&Path]) -> (i32, String, String) {
    let mut args = vec!["query", "--json", sql];
    let runs: Vec<String> = runs.iter().map(|r| r.display().to_string()).collect();
    args.extend(runs.iter().map(String::as_str));
    plumb(&args)
}

/// The rows of a document.
fn rows(out: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(out).expect("JSON");
    document["rows"].as_array().expect("rows").clone()
}

#[test]
fn the_account_is_that_of_explain() {
    let dirs = [recorded("appenders"), recorded("mutex")];
    let sql = "select run, category, sum(time_ns) time from account group by 1, 2";
    let (code, out, err) = query(sql, &[&dirs[0], &dirs[1]]);
    assert_eq!((code, err.as_str()), (0, ""));
    let rows = rows(&out);
    let mut met = 0;
    for dir in &dirs {
        let (_, out, _) = plumb(&["explain", "--json", &dir.display().to_string()]);
        let explained: Value = serde_json::from_str(&out).expect("JSON");
        for row in rows.iter().filter(|r| r["run"] == dir.display().to_string()) {
            let category = row["category"].as_str().expect("a text");
            let processes = explained["processes"].as_array().expect("processes");
            let sum: u64 = processes.iter().filter_map(|p| p["account"][category].as_u64()).sum();
            assert_eq!(row["time"], sum, "{category}");
            met += 1;
        }
    }
    assert!(met == rows.len() && met > 10, "{met} of {}", rows.len());
}

#[test]
fn findings_are_those_of_explain() {
    let dir = recorded("appenders");
    let (_, out, _) = query("select finding, words from findings order by share desc", &[&dir]);
    let rows = rows(&out);
    let (_, out, _) = plumb(&["explain", "--json", &dir.display().to_string()]);
    let explained: Value = serde_json::from_str(&out).expect("JSON");
    let findings = explained["findings"].as_array().expect("findings");
    assert!(!findings.is_empty() && findings.len() == rows.len());
    for (row, finding) in rows.iter().zip(findings) {
        assert_eq!((&row["finding"], &row["words"]), (&finding["id"], &finding["words"]));
    }
}

#[test]
fn what_is_absent_is_told() {
    let (code, out, err) = query("select count(*) n from operations, loads", &[&recorded("mutex")]);
    assert_eq!(
        (code, out.as_str()),
        (0, "{\"format\":\"plumb.query\",\"version\":1,\"rows\":[\n{\"n\":0}\n]}\n")
    );
    assert!(err.contains("operations has no rows: no workload told"), "{err}");
    assert!(err.contains("loads has no rows: the run has no load.json"), "{err}");
}

#[test]
fn a_torn_trace_is_not_valid_and_its_rows_are_there() {
    let dir = tempfile::tempdir().expect("a directory");
    for entry in std::fs::read_dir(recorded("appenders")).expect("a trace") {
        let entry = entry.expect("a file");
        let bytes = std::fs::read(entry.path()).expect("a file");
        let cut = if entry.file_name() == "cpu_0" { bytes.len() / 2 } else { bytes.len() };
        std::fs::write(dir.path().join(entry.file_name()), &bytes[..cut]).expect("room");
    }
    let (code, out, err) = query("select count(*) n from intervals", &[dir.path()]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("cpu_0"), "{err}");
    let rows = rows(&out);
    assert!(rows[0]["n"].as_u64() > Some(0));
}

#[test]
fn mistakes_are_told_before_a_trace_is_read() {
    let missing = Path::new("/nonexistent/run");
    let (code, _, err) = query("delete from account", &[missing]);
    assert_eq!(code, 2);
    assert!(err.contains("a query reads only, and this one would delete from account"), "{err}");
    let (code, _, err) = query("select tiem_ns from account", &[missing]);
    assert!(code == 2 && err.contains("there is time_ns") && err.contains("       ^"), "{err}");
    let (code, _, err) = query("select 1", &[missing]);
    assert!(code == 2 && err.contains("/nonexistent/run: no such directory"), "{err}");
    let run = recorded("mutex");
    let again = run.join("../mutex");
    let (code, _, err) = query("select 1", &[&run, &again]);
    assert!(code == 2 && err.contains("are the same run"), "{err}");
}

#[test]
fn tables_and_columns_are_listed() {
    let (code, out, _) = plumb(&["query", "--tables"]);
    assert!(code == 0 && out.contains("requests: Block requests"), "{out}");
    let (code, out, _) = plumb(&["query", "--schema", "waits"]);
    assert!(
        code == 0 && out.contains("CREATE TABLE waits (") && out.contains("-- Thread that woke it"),
        "{out}"
    );
    let (code, _, err) = plumb(&["query", "--schema", "wait"]);
    assert!(code == 2 && err.contains("there is waits"), "{err}");
}
