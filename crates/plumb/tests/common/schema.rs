// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What plumb prints as JSON, judged by its schemas with an independent validator: python3's jsonschema.

use super::{output, plumb, stderr};
use plumb_machine::json::{formats, Format};
use serde_json::{json, Deserializer, Value};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const VALIDATOR: &str = r#"
import json, sys
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

def unique(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("an object has a key twice")
    return dict(pairs)

for case in json.load(sys.stdin):
    schema = json.loads(case["schema"])
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for text in case["texts"]:
        try:
            document = json.loads(text, object_pairs_hook=unique)
        except ValueError as error:
            print(f"{case['name']}: {error}")
            continue
        for error in list(validator.iter_errors(document))[:3]:
            cause = best_match([error])
            print(f"{case['name']}: {cause.json_path}: {cause.message[:300]}")
"#;

/// Formats that only root's commands print.
pub const RECORDED: &[&str] = &[
    "plumb.collect",
    "plumb.disk",
    "plumb.disk-cut",
    "plumb.disk-power",
    "plumb.environment",
    "plumb.plan-compare",
    "plumb.plan-report",
    "plumb.profile-annotate",
    "plumb.record",
    "plumb.restore",
    "plumb.run",
    "plumb.run-set",
    "plumb.set",
];

/// What was printed, and for which words.
pub struct Printed {
    pub dir: TempDir,
    pub texts: Vec<(String, String)>,
}

impl Printed {
    pub fn new() -> Self {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Printed { dir, texts: Vec::new() }
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn command(&self) -> Command {
        let mut command = plumb();
        command.current_dir(self.dir.path()).env("PLUMB_RUNTIME_DIR", self.dir.path().join("runtime"));
        command
    }

    /// Standard output of a command with `--json`; nothing where it cannot do it.
    pub fn tried(&mut self, words: &[&str]) -> Option<String> {
        let out = output(self.command().args(words));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if text.is_empty() {
            return None;
        }
        // Thousands of items alike tell no more.
        let some = text.lines().take(300).map(|l| l.to_string() + "\n").collect();
        let kept = if words.contains(&"--log") && words[0] == "view" { some } else { text.clone() };
        self.texts.push((words.join(" "), kept));
        Some(text)
    }

    pub fn must(&mut self, words: &[&str]) -> String {
        let text = self.tried(words);
        text.unwrap_or_else(|| panic!("{words:?}: {}", stderr(&output(self.command().args(words)))))
    }

    /// The same, of a line without spaces in its words.
    pub fn line(&mut self, line: &str) -> String {
        self.must(&line.split(' ').collect::<Vec<_>>())
    }

    /// A file that a command wrote.
    pub fn file(&mut self, name: &str) {
        let text = std::fs::read_to_string(self.dir.path().join(name)).expect(name);
        self.texts.push((name.into(), text));
    }
}

/// True with the validator there; otherwise says that the test is skipped, and why.
pub fn able(test: &str) -> bool {
    let there = Command::new("python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        println!("SKIP {test}: python3's jsonschema is not installed (make deps)");
        return false;
    }
    true
}

/// The format that a text says, which must stand in front.
fn format_of(text: &str) -> Result<&'static Format, String> {
    let first = Deserializer::from_str(text).into_iter::<Value>().next();
    let head = first.and_then(Result::ok).ok_or("is no JSON")?;
    let named = formats::ALL.iter().find(|format| head["format"] == format.name);
    let format = named.ok_or_else(|| format!("has no format that is known: {}", head["format"]))?;
    let begin: String = text.chars().filter(|c| !c.is_whitespace()).take(100).collect();
    let wanted = format!("{{\"format\":\"{}\",\"version\":{}", format.name, format.version);
    match begin.starts_with(&wanted) {
        true => Ok(format),
        false => Err(format!("begins with {begin}, not with {wanted}")),
    }
}

/// What is wrong with texts that plumb printed, each with the words that it was printed for, and the formats that were seen.
pub fn complaints(printed: &[(String, String)]) -> (Vec<String>, BTreeSet<&'static str>) {
    let (mut wrong, mut seen, mut cases) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (name, text) in printed {
        match format_of(text) {
            Ok(format) => {
                seen.insert(format.name);
                let texts = if format.lines { text.lines().collect() } else { vec![text.as_str()] };
                cases.push(json!({ "name": name, "schema": format.schema, "texts": texts }));
            }
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    let mut python = Command::new("python3")
        .args(["-c", VALIDATOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let input = Value::from(cases).to_string();
    python.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let out = python.wait_with_output().expect("python3");
    assert!(out.status.success(), "the validator failed: {}", out.status);
    wrong.extend(String::from_utf8_lossy(&out.stdout).lines().map(String::from));
    (wrong, seen)
}

/// Asserts that what was printed is as its schema says, where the validator is there.
pub fn is_valid(name: &str, text: &str) {
    if able(name) {
        let (wrong, _) = complaints(&[(name.into(), text.into())]);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
