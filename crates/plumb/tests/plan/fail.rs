// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What fails, hangs or finds no scratch, and the others go on.

use crate::common::can;
use crate::common::scratch::{refuses, text, Scratch};
use crate::{alone, code, made, nothing_left, plan, plan_run, read, Restore, TOOLS};
use serde_json::Value;

#[test]
fn what_hangs_is_ended_and_told() {
    if !can("what_hangs_is_ended_and_told", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &scratch,
        "hang",
        r#"
        limit = "1s"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        [[factor]]
        name = "how"
        level = [
            { name = "asleep", command = ["sleep", "1000"] },
            { name = "deaf", command = ["sh", "-c", "trap '' TERM; sleep 1000 & sleep 1001"] },
            { name = "frozen", command = ["sh", "-c", "fsfreeze -f {dir}; echo x > {dir}/file"] },
            { name = "well", command = ["true"] },
        ]
        "#,
    );
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    let ends: Vec<Value> = made(&dir).into_iter().map(|(_, _, end)| end).collect();
    assert_eq!(ends, ["timed-out", "timed-out", "timed-out", "measured"], "{said}");
    for (cell, words) in
        [("001-asleep", "sleep: S"), ("002-deaf", "sleep: S"), ("003-frozen", ": D (disk sleep)")]
    {
        let stuck = read(dir.join("cells").join(cell).join("1/stuck.txt"));
        assert!(stuck.contains(words) && stuck.contains("system call: "), "{cell}: {stuck}");
    }
    assert!(said.contains("was frozen, and was thawed"), "{said}");
    nothing_left(&scratch, &dir);
}

#[test]
fn failures_are_told_and_the_others_go_on() {
    if !can("failures_are_told_and_the_others_go_on", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    let _restore = Restore(&dir);
    let rest = r#"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        command = ["sh", "-c", "echo last words >&2; exit 7"]
        [[factor]]
        name = "how"
        level = [
            { name = "fails" },
            { name = "mkfs", file-system = { kind = "ext4", mkfs = ["-O", "no-such-feature"] } },
            { name = "mount", file-system = { kind = "ext4", mount = "no-such-option" } },
            { name = "setting", sysctl = { "vm.no-such" = 1 } },
            { name = "prepare", prepare = ["sh", "-c", "echo not ready; exit 1"] },
            { name = "missing", command = ["/no/such/program"] },
            { name = "well", command = ["true"] },
        ]
        "#;
    let plan = plan(&scratch, "fail", rest).display().to_string();
    let out = plan_run(&scratch, &["run", &plan, "-o", "out"]);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    let words = [
        "exit code 7: last words",
        "mkfs.ext4: exit code 1",
        "mount: exit code",
        "prepare: sh: exit code 1: not ready",
    ];
    // What this machine lacks is known before.
    for word in ["vm.no-such", "/no/such/program"] {
        assert!(said.contains(word), "lacks {word}: {said}");
    }
    for (made, words) in made(&dir).iter().zip(words) {
        assert!(made.2["failed"].as_str().is_some_and(|f| f.contains(words)), "lacks {words}: {made:?}");
    }
    assert_eq!(made(&dir)[4].2, "measured");
    nothing_left(&scratch, &dir);
    // One of them again; the others stay as they are.
    let out = plan_run(&scratch, &["run", "out", "--again", "fails"]);
    assert!(text(&out.stderr).contains("resuming: 4 of 5 done"), "{}", text(&out.stderr));
    refuses(&plan_run(&scratch, &["run", "out", "--again", "nobody"]), &["there is no cell", "1 to 7"]);
    // When none of them can be measured, that is an error.
    let rest = rest.replace("{ name = \"well\", command = [\"true\"] },", "");
    let plan = crate::plan(&scratch, "none", &rest).display().to_string();
    refuses(&plan_run(&scratch, &["run", &plan, "-o", "none"]), &["nothing could be measured", "last words"]);
}

#[test]
fn a_full_disk_ends_the_plan_and_loses_nothing_that_was_made() {
    if !can("a_full_disk_ends_the_plan_and_loses_nothing_that_was_made", &TOOLS) {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let small = scratch.ext4(&scratch.disk("small.image", 48), "small", &[]);
    let dir = small.join("out");
    let _restore = Restore(&dir);
    let plan = plan(
        &scratch,
        "full",
        r#"
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        device = "disk"
        file-system = { kind = "ext4" }
        command = ["sh", "-c", "cat /dev/zero > {out}/much"]
        [[factor]]
        name = "which"
        level = [{ name = "first" }, { name = "second" }]
        "#,
    );
    let words = ["run", &plan.display().to_string(), "-o", &dir.display().to_string()];
    let out = plan_run(&scratch, &words);
    let said = text(&out.stderr);
    assert_eq!(code(&out), 3, "{said}");
    assert!(said.contains("no room:") && said.contains("to go on"), "{said}");
    assert_eq!(made(&dir).len(), 1, "{said}");
    nothing_left(&scratch, &dir);
    std::fs::remove_file(dir.join("cells/001-first/1/much")).expect("the file that fills it");
    assert!(text(&plan_run(&scratch, &words).stderr).contains("resuming: 1 of 2 done"));
}
