// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is made, and where it lies.

use crate::common::can;
use crate::common::schema::is_valid;
use crate::common::scratch::{number, refuses, text, Scratch};
use crate::{alone, code, made, nothing_left, plan, plan_run, read, state, Restore, PARAMETER, TOOLS};
use serde_json::Value;
use std::path::Path;

#[test]
fn a_plan_runs_to_its_end_on_disks_of_its_own() {
    if !can("a_plan_runs_to_its_end_on_disks_of_its_own", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let before = read(PARAMETER);
    let plan = plan(
        &scratch,
        "whole",
        r#"
        repeat = 2
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        sysctl = { "vm.page-cluster" = 5 }
        load = { size = "1M", block = "4K" }
        [[factor]]
        name = "ground"
        level = [{ name = "ext4", file-system = { kind = "ext4", mount = "noatime" } }, { name = "bare" }]
        [[factor]]
        name = "sync"
        level = [{ name = "never" }, { name = "fsync", load = { sync = "fsync" } }]
        [[chart]]
        name = "all"
        title = "every operation"
        kind = "operations"
        figure = "write"
        "#,
    );
    let plan = plan.display().to_string();
    let out = plan_run(&scratch, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert!([0, 3].contains(&code(&out)), "{said}");
    let made = made(&dir);
    assert_eq!(made.len(), 8, "{made:?}");
    assert!(made.iter().all(|(_, _, end)| end == "measured"), "{made:?}\n{said}");
    for n in 1..=8 {
        assert!(said.contains(&format!("[{n}/8]")), "{said}");
    }
    for m in state(&dir)["made"].as_array().expect("made") {
        let repetition = dir.join(m["dir"].as_str().expect("a directory"));
        let load: Value = serde_json::from_str(&read(repetition.join("load.json"))).expect("load.json");
        assert!(load["environment"]["kernel"].is_object());
        assert!(repetition.join("log").exists() && number(m, "elapsed_ns") > 0);
        let cell: Value = serde_json::from_str(&read(repetition.join("cell.json"))).expect("cell.json");
        assert_eq!(cell, *m);
        let ext4 = load["environment"]["file_system"]["kind"] == "ext4";
        assert_eq!(ext4, number(m, "cell") < 2, "{load:#}");
    }
    assert_eq!(read(PARAMETER), before);
    nothing_left(&scratch, &dir);
    assert_eq!(text(&out.stdout).trim(), read(dir.join("report.txt")));
    // Once more: there is nothing to do, and it is the same answer, here as JSON.
    let again = plan_run(&scratch, &["run", "out", "--json"]);
    assert_eq!(code(&again), code(&out), "{}", text(&again.stderr));
    let report: Value = serde_json::from_slice(&again.stdout).expect("nothing but the document");
    is_valid("plan run", &text(&again.stdout));
    assert_eq!(report["repetitions"], serde_json::json!([8, 8]));
    assert_eq!(text(&again.stdout).trim(), read(dir.join("report.json")));
    assert!(text(&again.stderr).contains("resuming: 8 of 8 done"));
    // Another plan does not go there.
    std::fs::write(&plan, read(&plan).replace("repeat = 2", "repeat = 3")).expect("another");
    refuses(&plan_run(&scratch, &["run", &plan, "-o", "out"]), &["holds another plan", "-o"]);
}

#[test]
fn copies_and_recordings_have_their_files_and_devices() {
    if !can("copies_and_recordings_have_their_files_and_devices", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &scratch,
        "copies",
        r#"
        [device.a]
        model = "instant"
        size = "64M"
        [device.b]
        model = "instant"
        size = "64M"
        [cell]
        device = ["a", "b"]
        file-system = { kind = "ext4" }
        copies = 2
        [[factor]]
        name = "what"
        level = [
            { name = "load", load = { size = "1M" } },
            { name = "command", command = ["sh", "-c", "echo {dir} {dir2} it\\'s"] },
        ]
        [[factor]]
        name = "recorded"
        level = [{ name = "no" }, { name = "yes", record = ["--sample", "0"] }]
        "#,
    );
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert!([0, 3].contains(&code(&out)), "{said}");
    assert!(made(&dir).iter().all(|(_, _, end)| end == "measured"), "{said}\n{:?}", made(&dir));
    for cell in ["001-load-no", "002-load-yes"] {
        let at = dir.join("cells").join(cell).join("1");
        let targets = ["load.json", "load.2.json"].map(|name| {
            let load: Value = serde_json::from_str(&read(at.join(name))).expect("a result");
            load["target"].as_str().map(str::to_string)
        });
        assert_ne!(targets[0], targets[1], "each on a device of its own");
    }
    for cell in ["003-command-no", "004-command-yes"] {
        let mut said: Vec<String> =
            read(dir.join("cells").join(cell).join("1/output.txt")).lines().map(str::to_string).collect();
        said.sort();
        let (a, b) = (dir.join("mount/a"), dir.join("mount/b"));
        let line = |a: &Path, b: &Path| format!("{} {} it's", a.display(), b.display());
        assert_eq!(said, [line(&a, &b), line(&b, &a)], "{cell}");
    }
    for cell in ["002-load-yes", "004-command-yes"] {
        let at = dir.join("cells").join(cell).join("1");
        assert!(at.join("run.json").exists() && at.join("result.json").exists() && at.join("trace").exists());
    }
    nothing_left(&scratch, &dir);
}

#[test]
fn a_budget_ends_before_it_is_over() {
    if !can("a_budget_ends_before_it_is_over", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    let rest = format!(
        "repeat = 50\nbudget = \"2s\"\n[device.d]\ndirectory = \"{}\"\n[cell]\ndevice = \"d\"\n\
         command = [\"sleep\", \"0.6\"]\n",
        scratch.path().display()
    );
    let plan = plan(&scratch, "budget", &rest).display().to_string();
    let out = plan_run(&scratch, &["run", &plan, "-o", "out"]);
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let why = state(&dir)["ended_early"].to_string();
    assert!(why.contains("the budget of 2s") && (1..=3).contains(&made(&dir).len()), "{why}");
}

#[test]
fn a_neighbour_runs_with_the_measurement_and_no_longer() {
    let scratch = Scratch::new();
    let plan = plan(
        &scratch,
        "beside",
        &format!(
            r#"
            [device.here]
            directory = "{}"
            [cell]
            device = "here"
            command = ["sh", "-c", "sleep 0.5; kill -0 $(cat '{{out}}/pid')"]
            [[factor]]
            name = "it"
            [[factor.level]]
            name = "stays"
            neighbour = ["sh", "-c", "echo $$ > '{{out}}/pid'; while sleep 0.1; do :; done"]
            [[factor.level]]
            name = "ends"
            neighbour = ["sh", "-c", "echo $PPID > '{{out}}/pid'; exit 7"]
            "#,
            scratch.path().display()
        ),
    );
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    // The second one is not valid.
    assert_eq!(code(&out), 3, "{said}");
    let dir = scratch.path().join("out");
    for m in state(&dir)["made"].as_array().expect("made") {
        assert_eq!(m["end"], "measured", "its neighbour was there: {m}");
        let doubts = m["doubts"].to_string();
        let early = doubts.contains("the neighbour ended before the measurement did (exit code 7)");
        assert_eq!(early, number(m, "cell") == 1, "{doubts}");
        if number(m, "cell") == 0 {
            let pid = read(dir.join(m["dir"].as_str().expect("a directory")).join("pid"));
            assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid} was left behind");
        }
    }
}
