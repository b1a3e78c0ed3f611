// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans against programs that know what their requests took, and against PostgreSQL's own views.

#[path = "../common/mod.rs"]
mod common;
mod mariadb;
mod postgres;
mod tail;

use common::{can, explain, must, no_program_left, output, plumb, stderr};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const KINDS: [(&str, &str, f64); 5] = [
    // Kind of request, its cause, and at least what share of its time that has on an idle machine.
    ("cpu", "running", 0.9),
    ("lock", "lock.user", 0.8),
    ("sync", "", 0.0),
    ("peer", "pipe", 0.7),
    ("queue", "thread", 0.6),
];

/// The server of known requests, compiled.
fn server(dir: &Path) -> PathBuf {
    let to = dir.join("server");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spans/server.c");
    must(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&to).arg(source));
    to
}

fn spans(result: &Value) -> &Vec<Value> {
    result["spans"].as_array().expect("spans")
}

fn of<'a>(result: &'a Value, key: &str) -> &'a Value {
    let found = spans(result).iter().find(|s| s["key"] == key);
    found.unwrap_or_else(|| {
        panic!("no span {key}: {:?}", spans(result).iter().map(|s| &s["key"]).collect::<Vec<_>>())
    })
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field}: {row}"))
}

/// The time that a row's causes have in a category.
fn part(row: &Value, category: &str) -> f64 {
    let time = row["account"][category].as_u64().unwrap_or(0);
    time as f64 / number(row, "total").max(1) as f64
}

#[test]
fn each_kind_of_request_has_its_time_and_its_cause() {
    if !can("each_kind_of_request_has_its_time_and_its_cause", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let (server, trace) = (server(dir.path()), dir.path().join("trace"));
    let out = output(
        plumb()
            .args(["record", "-q", "--span-text", "--span", "request=handle(arg1:sql)", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(&server)
            .arg(dir.path().join("file"))
            .arg("10000"),
    );
    assert!(out.status.success(), "{}", stderr(&out));
    let explained = explain(&trace);
    let result = &explained;
    assert_eq!(spans(result).len(), KINDS.len(), "{:?}", spans(result));
    let told = String::from_utf8_lossy(&out.stdout);
    for (line, (kind, cause, share)) in told.lines().zip(KINDS) {
        let words: Vec<&str> = line.split(' ').collect();
        let (count, truth): (u64, f64) = (words[1].parse().expect("count"), words[2].parse().expect("ns"));
        let row = of(result, &format!("do {kind} where id = ?"));
        let total = number(row, "total");
        assert_eq!((words[0], number(row, "count"), number(row, "unfinished")), (kind, count, 0));
        // The server's own clock readings lie outside of the function.
        let off = (total as f64 - truth).abs() / truth;
        assert!(off < 0.02, "{kind}: {total} ns, the server measured {truth}");
        assert_eq!(common::sum(&row["account"]), total, "{kind}: its parts add up");
        // What a CPU takes that others have is no doing of the request.
        let others = [
            "runnable",
            "preempted",
            "runnable.own",
            "runnable.idle",
            "runnable.held",
            "interrupted",
            "overhead",
        ];
        let own = 1.0 - others.iter().map(|c| part(row, c)).sum::<f64>();
        assert!(cause.is_empty() || part(row, cause) > share * own, "{kind}: {}", row["account"]);
    }
    let io: f64 = [
        "block.device",
        "block.flush",
        "block.schedule",
        "block.queue",
        "block.plug",
        "block.wakeup",
        "journal",
    ]
    .iter()
    .chain(&["other.running", "other.runnable", "other.waiting"])
    .map(|c| part(of(result, "do sync where id = ?"), c))
    .sum();
    assert!(io > part(of(result, "do peer where id = ?"), "block.device"), "sync waits for the disk");
    common::babeltrace_agrees(&trace);
}

#[test]
fn a_text_is_hidden_unless_it_is_asked_for() {
    if !can("a_text_is_hidden_unless_it_is_asked_for", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let (server, trace) = (server(dir.path()), dir.path().join("trace"));
    let record = |trace: &Path, span: &str| {
        let mut command = plumb();
        command.args(["record", "-q", "--span", span, "-o"]).arg(trace).arg("--").arg(&server);
        output(command.arg(dir.path().join("file")).arg("50"))
    };
    let out = record(&trace, "request=handle(arg1:sql)");
    assert!(out.status.success(), "{}", stderr(&out));
    let explained = explain(&trace);
    let keys: Vec<&str> = spans(&explained).iter().filter_map(|s| s["key"].as_str()).collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert!(keys.iter().all(|k| k.starts_with("DO #") && k.len() == 12), "{keys:?}");
    for file in std::fs::read_dir(&trace).expect("trace") {
        let bytes = std::fs::read(file.expect("file").path()).expect("bytes");
        assert!(!bytes.windows(12).any(|w| w == b" where id = "), "a text is in the trace");
    }
    // A number instead.
    let (trace, words) = (dir.path().join("numbers"), "request=handle(arg0)");
    let out = record(&trace, words);
    assert!(out.status.success(), "{}", stderr(&out));
    let explained = explain(&trace);
    for kind in 0..5 {
        assert_eq!(number(of(&explained, &kind.to_string()), "count"), 10);
    }
}

#[test]
fn what_cannot_be_probed_is_said_before_anything_runs() {
    if !can("what_cannot_be_probed_is_said_before_anything_runs", &["cc", "strip"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let server = server(dir.path());
    let stripped = dir.path().join("stripped");
    must(Command::new("strip").arg("-o").arg(&stripped).arg(&server));
    let ran = dir.path().join("file");
    let try_it = |program: &Path, span: &str| {
        let mut command = plumb();
        command.args(["record", "-q", "--span", span, "-o"]).arg(dir.path().join("trace"));
        let out = output(command.arg("--").arg(program).arg(&ran).arg("50"));
        assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
        assert!(!ran.exists() && !dir.path().join("trace").exists(), "it ran");
        stderr(&out)
    };
    let words = try_it(&server, "request=handl");
    assert!(words.contains("no function 'handl'") && words.contains("it has handle"), "{words}");
    let words = try_it(&stripped, "request=handle");
    assert!(words.contains("no function 'handle'") || words.contains("stripped"), "{words}");
    let words = try_it(&server, "request=/nowhere/program:handle");
    assert!(words.contains("/nowhere/program") && words.contains("No such file"), "{words}");
    let words = try_it(&server, "request=/etc/passwd:handle");
    assert!(words.contains("not an ELF program"), "{words}");
    let words = try_it(&server, "request=handle(arg9)");
    assert!(words.contains("arg5"), "{words}");
}

#[test]
fn a_killed_recorder_leaves_no_probe() {
    if !can("a_killed_recorder_leaves_no_probe", &["cc", "bpftool"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let server = server(dir.path());
    let mut command = plumb();
    command.args(["record", "-q", "--span", "request=handle", "-o"]).arg(dir.path().join("trace"));
    let mut child =
        command.arg("--").arg(&server).arg(dir.path().join("file")).arg("100000").spawn().expect("plumb");
    let pid = child.id();
    std::thread::sleep(std::time::Duration::from_secs(1));
    child.kill().expect("killed");
    child.wait().expect("reaped");
    no_program_left(pid);
    must(Command::new("pkill").args(["-f", &server.display().to_string()]));
}

#[test]
fn usdt_probes_begin_and_end_spans() {
    if !can("usdt_probes_begin_and_end_spans", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let program = dir.path().join("jobs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spans/usdt.c");
    must(Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source));
    let record = |trace: &Path, span: &str| {
        let mut command = plumb();
        command
            .args(["record", "-q", "--span-text", "--span", span, "-o"])
            .arg(trace)
            .arg("--")
            .arg(&program);
        output(&mut command)
    };
    let recorded = |name: &str, span: &str| {
        let trace = dir.path().join(name);
        let out = record(&trace, span);
        assert!(out.status.success(), "{span}: {}", stderr(&out));
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        let told: Vec<u64> = told.split_whitespace().map(|w| w.parse().expect("a number")).collect();
        // Its semaphore is set while it is recorded.
        assert_eq!(told[0], 300, "{span}");
        (explain(&trace), told[1])
    };
    let (result, took) = recorded("texts", "job=%begin(arg0:sql)..%mine.end");
    let rows = ["select ?", "update t set a = ?"].map(|key| of(&result, key));
    assert_eq!(rows.map(|row| (number(row, "count"), number(row, "unfinished"))), [(150, 0), (150, 0)]);
    let total: u64 = rows.iter().map(|row| number(row, "total")).sum();
    let off = (total as f64 - took as f64).abs() / took as f64;
    assert!(off < 0.05, "{total} ns, the program measured {took}");
    assert!(rows.iter().all(|row| part(row, "timer") > 0.5), "{rows:?}");
    // A number in memory that has a sign, a constant, and the low byte of a register.
    for (argument, keys) in [(1, 3), (2, 1), (3, 256)] {
        let (result, _) =
            recorded(&format!("numbers-{argument}"), &format!("job=%begin(arg{argument})..%end"));
        let counts: u64 = spans(&result).iter().map(|row| number(row, "count")).sum();
        assert_eq!((spans(&result).len(), counts), (keys, 300), "arg{argument}: {:?}", spans(&result));
    }
    for (span, words) in [
        ("job=%begi..%end", "it has begin"),
        ("job=%begin(arg4)..%end", "no argument 4"),
        ("job=%yours.begin..%end", "no USDT probe"),
    ] {
        let out = record(&dir.path().join("none"), span);
        assert!(!out.status.success() && stderr(&out).contains(words), "{span}: {}", stderr(&out));
    }
    // A return probe would end a Go program.
    must(Command::new("cc").args(["-O2", "-DGO", "-o"]).arg(&program).arg(&source));
    let out = record(&dir.path().join("none"), "main=main");
    assert!(!out.status.success() && stderr(&out).contains("a Go program"), "{}", stderr(&out));
}
