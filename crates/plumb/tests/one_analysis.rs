// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command reads a trace by the same pass: verdict and findings are the same in each of their
//! outputs, word for word.

mod common;

use serde_json::{json, Value};
use std::path::{Path, PathBuf};

fn traces() -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces"));
    let mut traces: Vec<PathBuf> = all
        .expect("tests/traces")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("metadata").exists())
        .collect();
    traces.sort();
    assert!(traces.len() >= 15, "{traces:?}");
    traces
}

/// Standard output of a command that succeeds.
fn plumb(words: &[&str], paths: &[&Path]) -> String {
    let out = common::plumb().args(words).args(paths).output().expect("plumb runs");
    assert!(out.status.success(), "{words:?} {paths:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The diagnosis alone.
fn diagnosis(of: &Value) -> Value {
    json!({
        "verdict": of["verdict"], "lines": of["lines"], "confidence": of["confidence"], "kind": of["kind"],
        "findings": of["findings"],
    })
}

/// What a table has of them: doubts in one text, and evidence apart.
fn as_tables(explained: &Value) -> Value {
    let kind = Some(&explained["kind"]).filter(|k| **k != "");
    // The kind stands on the first line.
    let verdict = list(&explained["verdict"]).iter().enumerate();
    let verdict = verdict.map(|(i, s)| json!({"kind": kind.filter(|_| i == 0), "sentence": s}));
    let doubt = |f: &Value| {
        let doubt: Vec<&str> = list(&f["doubt"]).iter().filter_map(Value::as_str).collect();
        Some(doubt.join(" ")).filter(|d| !d.is_empty())
    };
    let findings = list(&explained["findings"]);
    let rows = findings.iter().map(|f| {
        json!({
            "finding": f["id"], "title": f["title"], "share": f["share"], "time_ns": f["time"], "speedup": f["speedup"]["estimate"],
            "words": f["words"], "doubt": doubt(f), "next": f["next"],
        })
    });
    let evidence = findings.iter().flat_map(|f| {
        list(&f["evidence"]).iter().map(|e| {
            json!({
                "finding": f["id"], "words": e["words"], "at_ns": e["at"], "time_ns": e["time"], "tid": e["tid"],
            })
        })
    });
    json!({
        "verdict": verdict.collect::<Vec<_>>(), "findings": rows.collect::<Vec<_>>(),
        "evidence": evidence.collect::<Vec<_>>(),
    })
}

fn tables(trace: &Path) -> Value {
    let query = |sql| parsed(&plumb(&["query", "--json", sql], &[trace]))["rows"].take();
    json!({
        "verdict": query("select kind, sentence from verdict order by place"),
        "findings": query("select finding, title, share, time_ns, speedup, words, doubt, next from findings"),
        "evidence": query("select finding, words, at_ns, time_ns, tid from evidence"),
    })
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn number(&self) -> u64 {
        match self {
            Self::Number(n) => *n,
            _ => panic!("no number"),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => panic!("no bytes"),
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Number(n) => json!(n),
            // Through text, as JSON of the others comes: reading it may err in the last digit.
            Self::Double(x) => parsed(&json!(x).to_string()),
            Self::Bytes(text) => json!(std::str::from_utf8(text).expect("UTF-8")),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                out.push((key >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (own, rest) = bytes.split_at(length);
        bytes = rest;
        out.push(match (key & 7, own.try_into()) {
            (1, Ok(eight)) => (key >> 3, Field::Double(f64::from_le_bytes(eight))),
            _ => (key >> 3, Field::Bytes(own)),
        });
    }
    out
}

/// What a Perfetto trace has of the diagnosis: verdict and findings are slices with annotations.
fn in_perfetto(file: &Path) -> Value {
    // Field numbers of perfetto's protos/perfetto/trace: TracePacket, InternedData, TrackEvent, DebugAnnotation.
    const INTERNED: u64 = 12;
    const ANNOTATION_NAMES: u64 = 3;
    const TRACK_EVENT: u64 = 11;
    const ANNOTATIONS: u64 = 4;
    let bytes = std::fs::read(file).expect("a file");
    let mut names = std::collections::HashMap::new();
    let (mut verdict, mut findings) = (Value::Null, Vec::new());
    for (_, packet) in fields(&bytes) {
        let packet = fields(packet.bytes());
        for (_, interned) in packet.iter().filter(|(n, _)| *n == INTERNED) {
            for (_, name) in fields(interned.bytes()).iter().filter(|(n, _)| *n == ANNOTATION_NAMES) {
                let name = fields(name.bytes());
                names.insert(name[0].1.number(), name[1].1.value().as_str().expect("a name").to_string());
            }
        }
        for (_, event) in packet.iter().filter(|(n, _)| *n == TRACK_EVENT) {
            let mut all: Vec<(String, Value)> = Vec::new();
            for (_, annotation) in fields(event.bytes()).iter().filter(|(n, _)| *n == ANNOTATIONS) {
                let parts = fields(annotation.bytes());
                all.push((names[&parts[0].1.number()].clone(), parts[1].1.value()));
            }
            let every = |name: &str| -> Vec<Value> {
                all.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect()
            };
            let one = |name: &str| every(name).into_iter().next();
            if let Some(id) = one("rule") {
                findings.push(json!({
                    "id": id, "share": one("share"), "time": one("time_ns"), "speedup": one("speedup"),
                    "words": one("seen"), "next": one("next"), "doubt": every("doubt"),
                    "evidence": every("evidence"),
                }));
            } else if !every("sentence").is_empty() {
                verdict = json!({"kind": one("kind"), "sentences": every("sentence")});
            }
        }
    }
    json!({"verdict": verdict, "findings": findings})
}

/// The same of an explanation.
fn as_perfetto(explained: &Value) -> Value {
    let findings = list(&explained["findings"]).iter().map(|f| {
        let evidence = list(&f["evidence"]).iter().map(|e| {
            let words = e["words"].as_str().expect("a fact");
            e["label"].as_str().map_or_else(|| words.to_string(), |label| format!("{label}: {words}"))
        });
        let evidence: Vec<String> = evidence.collect();
        json!({
            "id": f["id"], "share": f["share"], "time": f["time"], "speedup": f["speedup"]["estimate"], "words": f["words"],
            "next": f["next"], "doubt": f["doubt"], "evidence": evidence,
        })
    });
    let verdict = json!({"kind": explained["kind"], "sentences": explained["verdict"]});
    json!({"verdict": verdict, "findings": findings.collect::<Vec<_>>()})
}

/// Shares of findings by their rule, in per cent, as a comparison has them.
fn shares(explained: &Value) -> Vec<(String, f64)> {
    let mut out: Vec<(String, f64)> = Vec::new();
    for finding in list(&explained["findings"]) {
        let key = format!("finding.{}", finding["id"].as_str().expect("an id"));
        let share = 100.0 * finding["share"].as_f64().expect("a share");
        match out.iter_mut().find(|(k, _)| *k == key) {
            Some((_, sum)) => *sum += share,
            None => out.push((key, share)),
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out.iter_mut().for_each(|(_, share)| *share = rounded(*share));
    out
}

/// Without the last digits, in which a figure that went through text may err.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

fn compared(trace: &Path) -> [Vec<(String, f64)>; 2] {
    let compared = parsed(&plumb(&["compare", "--json"], &[trace, trace]));
    ["a", "b"].map(|side| {
        let lines = list(&compared["lines"]).iter();
        let findings = lines.filter_map(|l| {
            let key = l["key"].as_str().filter(|k| k.starts_with("finding."))?;
            Some((key.to_string(), rounded(l[side].as_f64().expect("a figure"))))
        });
        let mut findings: Vec<_> = findings.collect();
        findings.sort_by(|a, b| a.0.cmp(&b.0));
        findings
    })
}

/// Asserts that every output of a trace has the findings of `plumb explain`, and returns that; `dir` is for files.
fn same_everywhere(trace: &Path, name: &str, dir: &Path) -> Value {
    let text = plumb(&["explain", "--json"], &[trace]);
    let explained = parsed(&text);
    let report = parsed(&plumb(&["report", "--json"], &[trace]));
    assert_eq!(report["run"]["diagnosis"], diagnosis(&explained), "{name}: report");

    // What a run directory keeps is read where the trace is gone.
    let run = dir.join(name);
    std::fs::create_dir(&run).expect("made");
    std::fs::write(run.join("result.json"), &text).expect("written");
    let kept = parsed(&plumb(&["report", "--json"], &[&run]));
    assert_eq!(kept["run"]["diagnosis"], diagnosis(&explained), "{name}: result.json");
    assert_eq!(kept["run"]["result"], report["run"]["result"], "{name}: result.json");

    assert_eq!(tables(trace), as_tables(&explained), "{name}: tables");

    let file = dir.join(format!("{name}.pftrace"));
    plumb(&["export", "--perfetto", &file.display().to_string()], &[trace]);
    assert_eq!(in_perfetto(&file), as_perfetto(&explained), "{name}: Perfetto");

    let shares = shares(&explained);
    assert_eq!(compared(trace), [shares.clone(), shares], "{name}: comparison");

    // A profile shows no findings: it is what they name functions from. One without a stack is refused.
    if report["run"]["profile"]["stacks"]["node"].as_array().is_some_and(|stacks| stacks.len() > 1) {
        let mut profile = parsed(&plumb(&["profile", "--export", "json"], &[trace]));
        // Within the report it is a part, no document.
        let profile_keys = profile.as_object_mut().expect("a document");
        assert_eq!(profile_keys.remove("format"), Some("plumb.profile-export".into()));
        profile_keys.remove("version");
        assert_eq!(profile, report["run"]["profile"], "{name}: profile");
    }
    explained
}

#[test]
fn findings_are_the_same_in_every_output() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut found = 0;
    for trace in traces() {
        let name = trace.file_name().expect("named").to_string_lossy();
        found += list(&same_everywhere(&trace, &name, dir.path())["findings"]).len();
    }
    assert!(found > 20, "{found}");
}

/// The recorded traces have few stacks of user code: a run of now names its functions.
#[test]
fn findings_name_functions_in_every_output() {
    if !common::can("findings_name_functions_in_every_output", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (kind, words, function) in [
        ("mutex", &["4", "40", "4"][..], "hold_the_mutex"),
        // Its time is in the kernel's clock, called by it.
        ("spin", &["300"], "spin"),
    ] {
        let run = dir.path().join(format!("run-{kind}"));
        let mut command = common::plumb();
        command.args(["run", "--sample", "999", "--stacks", "100us", "-o"]).arg(&run);
        let out = command.args(["--", common::workload(), kind]).args(words).output().expect("plumb runs");
        assert!(out.status.success(), "{kind}: {}", String::from_utf8_lossy(&out.stderr));
        let explained = same_everywhere(&run.join("trace"), kind, dir.path());
        assert!(explained["findings"].to_string().contains(function), "{kind}: {}", explained["findings"]);

        let kept = parsed(&std::fs::read_to_string(run.join("result.json")).expect("kept"));
        assert_eq!(kept, explained, "{kind}: result.json of the run");
        let report = parsed(&std::fs::read_to_string(run.join("report.json")).expect("kept"));
        assert_eq!(report["run"]["diagnosis"], diagnosis(&explained), "{kind}: report.json of the run");
    }
}
