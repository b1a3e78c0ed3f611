// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model and the rules find in small recorded traces must not change
//! unnoticed. `cargo xtask golden` writes the results anew.

use serde_json::Value;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// Traces whose report documents are kept: what the page is tried with.
const DOCUMENTS: [&str; 5] = ["cold-read", "mutex", "pipe", "tiers", "write-fsync"];

fn plumb(words: &[&str], trace: &Path) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_plumb")).args(words).arg(trace).output().expect("plumb runs");
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{}: {e}: {}", trace.display(), String::from_utf8_lossy(&out.stderr)))
}

/// The result without what only tells where it was recorded.
fn found(trace: &Path) -> Value {
    let mut value = plumb(&["explain", "--json"], trace);
    value.as_object_mut().expect("an object").remove("environment");
    value
}

/// First place where two values differ.
fn difference(path: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            keys.into_iter().find_map(|k| {
                difference(
                    &format!("{path}.{k}"),
                    x.get(k).unwrap_or(&Value::Null),
                    y.get(k).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            x.iter().zip(y).enumerate().find_map(|(i, (a, b))| difference(&format!("{path}[{i}]"), a, b))
        }
        _ => (a != b).then(|| format!("{path}: was {a}, is {b}")),
    }
}

#[test]
fn the_recorded_traces_give_what_they_gave() {
    let refill = std::env::var_os("PLUMB_GOLDEN").is_some();
    let mut traces: Vec<PathBuf> = std::fs::read_dir(tests().join("traces"))
        .expect("tests/traces")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("metadata").exists())
        .collect();
    traces.sort();
    assert!(traces.len() >= 15, "a trace for every state machine: {traces:?}");
    let mut wrong = Vec::new();
    for trace in &traces {
        let name = trace.file_name().expect("named").to_string_lossy().into_owned();
        let golden = tests().join("golden").join(format!("{name}.json"));
        let now = found(trace);
        for p in now["processes"].as_array().expect("processes") {
            let sum: u64 =
                p["account"].as_object().expect("an account").values().filter_map(Value::as_u64).sum();
            assert_eq!(Some(sum), p["thread_time"].as_u64(), "{name}: the account of {} adds up", p["pid"]);
        }
        let path = &now["path"];
        let parts: u64 =
            path["parts"].as_array().expect("parts").iter().filter_map(|p| p["time"].as_u64()).sum();
        assert_eq!(Some(parts), path["time"].as_u64(), "{name}: the critical path adds up");
        if path["of"] == "command" {
            let root = &now["processes"][0]["threads"];
            let lives = root.as_array().expect("threads").iter().map(|t| &t["elapsed"]);
            assert!(
                lives.into_iter().any(|e| e == &path["time"]),
                "{name}: it is as long as its thread's life"
            );
        }
        if refill {
            let text = serde_json::to_string_pretty(&now).expect("JSON") + "\n";
            std::fs::write(&golden, text).expect("tests/golden is writable");
            continue;
        }
        let text = std::fs::read_to_string(&golden)
            .unwrap_or_else(|e| panic!("{}: {e}; 'cargo xtask golden' writes it", golden.display()));
        let then: Value = serde_json::from_str(&text).expect("JSON");
        wrong.extend(difference(&name, &then, &now));
    }
    assert!(wrong.is_empty(), "{}\n'cargo xtask golden' if that is meant", wrong.join("\n"));
}

/// Traces whose text is kept: one process with many causes, and two.
const AS_TEXT: &[&str] = &["write-fsync", "pipe"];

/// Standard output of a command on a terminal of so many columns.
fn on_terminal(command: &mut Command, columns: u16) -> String {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: both numbers and the size live through the call; no name and no settings are asked for.
    let made =
        unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: both were opened just now, and nobody else knows them.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut child = command.stdout(Stdio::from(slave)).stdin(Stdio::null()).spawn().expect("plumb runs");
    // The command holds the terminal open; without it reading ends with the child.
    command.stdout(Stdio::null());
    let mut bytes = Vec::new();
    // At its end a terminal says EIO.
    let _ = std::fs::File::from(master).read_to_end(&mut bytes);
    assert!(child.wait().expect("it ends").success());
    String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
}

fn explain(trace: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("explain").arg(tests().join("traces").join(trace)).env("TERM", "dumb");
    command
}

#[test]
fn the_text_is_what_it_was_on_a_terminal_and_in_a_pipe() {
    let refill = std::env::var_os("PLUMB_GOLDEN").is_some();
    for trace in AS_TEXT {
        let pipe = explain(trace).output().expect("plumb runs").stdout;
        let forms = [
            ("pipe", String::from_utf8(pipe).expect("text")),
            ("80-columns", on_terminal(&mut explain(trace), 80)),
        ];
        assert_eq!(forms[1].1, on_terminal(&mut explain(trace), 40), "80 columns are the least");
        for (form, now) in forms {
            let golden = tests().join("golden").join(format!("explain-{trace}-{form}.txt"));
            if refill {
                std::fs::write(&golden, now).expect("tests/golden is writable");
                continue;
            }
            let then = std::fs::read_to_string(&golden)
                .unwrap_or_else(|e| panic!("{}: {e}; 'cargo xtask golden' writes it", golden.display()));
            assert!(now == then, "{}: 'cargo xtask golden' if that is meant; now:\n{now}", golden.display());
        }
    }
}

#[test]
fn a_terminal_of_eighty_columns_has_room_for_every_line() {
    for entry in std::fs::read_dir(tests().join("traces")).expect("tests/traces").flatten() {
        if !entry.path().join("metadata").exists() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = on_terminal(explain(&name).arg("--threads"), 80);
        for line in text.lines() {
            let one_word = line.split_whitespace().count() <= 2;
            assert!(line.chars().count() <= 80 || one_word, "{name}: {line}");
        }
        // A wider one gets more of the tables, and the same sentences.
        let wide = on_terminal(&mut explain(&name), 200);
        assert_eq!(wide.lines().next(), text.lines().next());
        assert!(!wide.contains("without queue"), "{name}: {wide}");
    }
}

#[test]
fn report_documents_are_as_they_were() {
    let mut wrong = Vec::new();
    for name in DOCUMENTS {
        let golden = tests().join("golden/report").join(format!("{name}.json"));
        let now = plumb(&["report", "--json"], &tests().join("traces").join(name));
        for part in ["profile", "timeline", "diagnosis", "quality"] {
            assert!(now["run"][part].is_object(), "{name}: {part}: {}", now["absent"]);
        }
        if std::env::var_os("PLUMB_GOLDEN").is_some() {
            let text = serde_json::to_string_pretty(&now).expect("JSON") + "\n";
            std::fs::write(&golden, text).expect("tests/golden is writable");
            continue;
        }
        let text = std::fs::read_to_string(&golden)
            .unwrap_or_else(|e| panic!("{}: {e}; 'cargo xtask golden' writes it", golden.display()));
        let then: Value = serde_json::from_str(&text).expect("JSON");
        wrong.extend(difference(name, &then, &now));
    }
    assert!(wrong.is_empty(), "{}\n'cargo xtask golden' if that is meant", wrong.join("\n"));
}
