// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb profile --json` tells of a recording.

use super::common::scratch::Running;
use super::common::{output, plumb, stderr};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Samples a second on each CPU: enough for errors below a point in three seconds, and no divisor of
/// the kernel's own ticks, with which it would stay in step.
pub const RATE: &str = "997";

/// `plumb run` with these options of a command, and its end.
pub fn run(dir: &Path, options: &[&str], command: &[&OsStr]) -> Output {
    let mut plumb = plumb();
    plumb.args(["run", "-q", "-o"]).arg(dir).args(options).arg("--").args(command);
    plumb.env_remove("PLUMB_TRACE");
    let _ = std::fs::remove_dir_all(dir);
    Running::of(plumb).end()
}

/// The same with samples at the fast rate; it must succeed.
pub fn sampled(dir: &Path, command: &[&OsStr]) {
    let out = run(dir, &["--sample", RATE], command);
    assert!(out.status.success(), "{command:?}: {}\n{}", out.status, stderr(&out));
}

/// A flat table of functions.
#[derive(Debug)]
pub struct Flat {
    document: Value,
}

/// One function; shares are of the time that is shown, 0 to 1.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub module: String,
    /// In it and not in what it called.
    pub own: f64,
    /// In it and in what it called.
    pub total: f64,
}

/// `plumb profile DIR OPTIONS --json`.
pub fn profile(dir: &Path, options: &[&str]) -> Value {
    let out = output(plumb().arg("profile").arg(dir).args(options).arg("--json"));
    assert!(out.status.success(), "profile {options:?}: {}\n{}", out.status, stderr(&out));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("profile {options:?}: {e}"))
}

/// The flat table of what `options` select.
pub fn flat(dir: &Path, options: &[&str]) -> Flat {
    Flat { document: profile(dir, options) }
}

impl Flat {
    pub fn rows(&self) -> Vec<Row> {
        let rows = self.document["rows"].as_array().unwrap_or_else(|| panic!("rows: {:#}", self.document));
        let share =
            |row: &Value, field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row:#}"));
        rows.iter()
            .map(|row| Row {
                name: row["name"].as_str().expect("a name").to_owned(),
                module: row["module"].as_str().unwrap_or_default().to_owned(),
                own: share(row, "self_share"),
                total: share(row, "total_share"),
            })
            .collect()
    }

    /// Inclusive share of the functions that `is` knows by name, none of which calls another of them.
    pub fn total(&self, is: impl Fn(&str) -> bool) -> f64 {
        self.rows().iter().filter(|r| is(&r.name)).map(|r| r.total).sum()
    }

    /// Time shown, ns.
    pub fn time(&self) -> f64 {
        self.head("time_ns").as_f64().expect("ns")
    }

    pub fn samples(&self) -> f64 {
        self.head("samples").as_f64().expect("samples")
    }

    /// What the reader must know, as one text.
    pub fn notes(&self) -> String {
        let notes = self.head("notes").as_array().expect("notes");
        notes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }

    fn head(&self, field: &str) -> &Value {
        &self.document[field]
    }

    /// The largest rows, for a message.
    pub fn shown(&self) -> String {
        let mut rows = self.rows();
        rows.sort_by(|a, b| b.total.total_cmp(&a.total));
        let line =
            |r: &Row| format!("{:6.2} {:6.2}  {}  {}", 100.0 * r.own, 100.0 * r.total, r.name, r.module);
        let lines: Vec<String> = rows.iter().take(25).map(line).collect();
        format!("  self  total\n{}\n{}", lines.join("\n"), self.notes())
    }
}

/// Whether no symbol told a row's name.
pub fn unnamed(row: &Row) -> bool {
    row.name == "(no symbol)" || row.name.contains("+0x")
}

/// Whether a function's name is `word`, in any language: `word`, `word(int)`, `module::word`,
/// `main.word`, `py::word:/path`, `long Class.word(long)`.
pub fn called(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let letter = |c: char| c.is_alphanumeric() || c == '_';
        !name[..at].ends_with(letter) && !name[at + word.len()..].starts_with(letter)
    })
}

/// What `total` in words differs from, when by more than `points` of a hundred.
pub fn differs(what: &str, seen: f64, known: f64, points: f64) -> Option<String> {
    // Of nothing seen there is no share: not a number is far, too.
    let near = (seen - known).abs() * 100.0 <= points;
    (!near).then(|| format!("{what}: {:.2} %, known are {:.2} % (+-{points})", seen * 100.0, known * 100.0))
}

/// Looks up to three times: chance may miss once. A busy machine is no excuse, for what is known here
/// is known of the program's own times.
pub fn thrice(what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let mut wrong = Vec::new();
    for attempt in 1..=3 {
        match look() {
            Ok(()) => return,
            Err(why) => wrong.push(format!("attempt {attempt}: {why}")),
        }
    }
    panic!("{what}, three times:\n{}", wrong.join("\n"));
}

/// One standard error of a share, points, that `n` samples tell by chance alone.
pub fn error(share: f64, n: f64) -> f64 {
    100.0 * (share * (1.0 - share) / n.max(1.0)).sqrt()
}

pub fn words<'a>(program: &'a Path, more: &'a [&'a str]) -> Vec<&'a OsStr> {
    std::iter::once(program.as_os_str()).chain(more.iter().map(OsStr::new)).collect()
}

/// A program in the background, ended when dropped.
pub struct Behind(std::process::Child);

impl Behind {
    pub fn new(command: &mut Command) -> Self {
        Behind(
            command.stdin(std::process::Stdio::null()).spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")),
        )
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
