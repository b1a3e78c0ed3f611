// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb size` over directories as runs leave them.

use super::*;
use crate::common::schema::is_valid;
use serde_json::json;

const LOADS: [&str; 3] = ["fsync", "read", "db"];

/// Seconds of a run of 300 fsyncs, of 600 reads, and of 200 transactions, which take 2 fsyncs and a read each.
fn seconds(disk: usize, load: usize) -> f64 {
    let (fsync, read) = (0.001 * (1 + disk * 7 % 11) as f64, 0.001 * (1 + disk * 5 % 11) as f64);
    [300.0 * fsync, 600.0 * read, 200.0 * (2.0 * fsync + read)][load]
}

/// A run on these disks, of which each costs its number; without the database unless it is asked for.
fn ran(scratch: &Scratch, name: &str, disks: std::ops::Range<usize>, database: bool, size: &str) -> String {
    let dir = scratch.path().join(name);
    let level = |name: String, rest: Value| {
        let mut level = rest;
        level["name"] = name.into();
        level
    };
    let settings = |load: usize| match load {
        2 => json!({ "command": ["pgbench"] }),
        _ => json!({ "load": { "what": "write", "size": size } }),
    };
    let loads = if database { 3 } else { 2 };
    let (mut cells, mut made) = (Vec::new(), Vec::new());
    for (number, disk) in disks.clone().enumerate() {
        for (load, kind) in LOADS.iter().enumerate().take(loads) {
            let label = format!("disk{disk} {kind}");
            for repetition in 1..=2 {
                let own = format!("cells/{}/{repetition}", label.replace(' ', "-"));
                let ns = (seconds(disk, load) * 1e9 * (1.0 + 0.002 * f64::from(repetition))) as u64;
                made.push(json!({ "cell": cells.len(), "repetition": repetition, "dir": own, "begun": "", "took_ns": ns,
                    "elapsed_ns": ns, "end": "measured", "doubts": [] }));
                let operation = json!({ "kind": "write", "count": 300, "errors": 0, "rate": 1.0, "bandwidth": 1.0, "service": {} });
                let step =
                    json!({ "label": "write", "elapsed_ns": ns, "jobs": [{ "operations": [operation] }] });
                let result = json!({ "cells": [{ "label": "write", "rounds": [[step]] }] });
                std::fs::create_dir_all(dir.join(&own)).expect("a directory");
                std::fs::write(dir.join(&own).join("load.json"), result.to_string()).expect("load.json");
            }
            cells.push(
                json!({ "label": label, "levels": [number, load], "settings": settings(load), "skipped": null,
                "dir": "cells" }),
            );
        }
    }
    let of = |load: usize| level(LOADS[load].into(), settings(load));
    let plan = json!({ "name": name, "title": "t", "purpose": "p", "hypothesis": "h", "takes": "1s", "factor": [
        { "name": "disk", "level": disks.map(|d| level(format!("disk{d}"), json!({ "price": d }))).collect::<Vec<_>>() },
        { "name": "work", "level": (0..loads).map(of).collect::<Vec<_>>() },
    ] });
    let state = json!({ "plumb": "1", "arguments": [], "plan": plan, "cells": cells, "schedule": [], "made": made,
        "environment": null, "ended_early": null });
    std::fs::write(dir.join("plan.json"), state.to_string()).expect("plan.json");
    dir.display().to_string()
}

fn size(words: &[&str]) -> (i32, String) {
    let out = plumb().arg("size").args(words).output().expect("plumb");
    (code(&out), text(&out.stdout) + &text(&out.stderr))
}

#[test]
fn the_smallest_environment_is_told_and_the_exit_code_says_whether_one_is() {
    let scratch = Scratch::new();
    let known = ran(&scratch, "known", 0..11, true, "8M");
    let new = ran(&scratch, "new", 11..14, false, "8M");
    // Disks 0 and 11 do 333 transactions a second, disk 5 100: 2 x 3 + 4 ms.
    let (status, said) = size(&[&known, "--in", &new, "--target", "db: 90/s of 200"]);
    assert!(
        status == 0 && said.starts_with("Smallest that meets it: disk0 (price 0): 332/s measured"),
        "{said}"
    );
    let (status, said) = size(&[&known, "--in", &new, "--target", "db: 90/s of 200", "--json"]);
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    is_valid("size", &said);
    assert_eq!((status, &document["format"], &document["met"]), (0, &json!("plumb.size"), &json!(true)));
    let all = document["environments"].as_array().expect("environments");
    let predicted = all.iter().find(|e| e["name"] == "disk13").expect("of NEW");
    let rate = predicted["values"][0]["value"].as_f64().expect("a rate");
    assert!(
        (rate * seconds(13, 2) / 200.0 - 1.0).abs() < 0.01 && predicted["values"][0]["source"] == "predicted",
        "{predicted}"
    );
    let (status, said) = size(&[&known, "--target", "db: 5000/s of 200"]);
    assert!(status == 1 && said.starts_with("None of 11 environments meets it"), "{said}");
}

#[test]
fn what_cannot_be_answered_is_an_error() {
    let scratch = Scratch::new();
    let known = ran(&scratch, "known", 0..11, true, "8M");
    let new = ran(&scratch, "new", 11..14, false, "16M");
    let with = |words: &[&str]| size(&[&[known.as_str()], words].concat());
    for (words, named) in [
        (&["--target", "db: 90/s"][..], "'db' is a command"),
        (&["--target", "bd: 90/s"], "did you mean 'db'?"),
        (&["--target", "db: quick"], "'quick'"),
        (&["--target", "db: elapsed 1s", "--risk", "60%"], "below 50 %"),
        (&["--target", "db: elapsed 1s", "--in", &new], "load.size = 16M, in KNOWN with 8M"),
        (&["--target", "db: elapsed 1s", "--in", "/nowhere"], "/nowhere: holds no run of a plan"),
        (&[], "--target"),
    ] {
        let (status, said) = with(words);
        assert!(status == 2 && said.contains(named), "{words:?}: {said}");
    }
}
