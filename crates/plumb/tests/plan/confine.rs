// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells with less memory or fewer CPUs than the machine has.

use crate::common::can;
use crate::common::scratch::{text, until, Scratch};
use crate::{alone, code, made, plan, plan_run, read, start, state};

/// Whether memory can be limited here; a skip says what is missing.
fn can_limit(test: &str) -> bool {
    let there = std::path::Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
        || std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|all| all.contains("memory"));
    if !there {
        println!("SKIP {test}: needs a cgroup controller for memory");
    }
    there
}

/// Cgroups of plans, also of those that run beside this one.
fn groups() -> Vec<String> {
    let found = std::process::Command::new("find").args(["/sys/fs/cgroup", "-name", "plumb-plan-*"]).output();
    let mut all: Vec<String> = text(&found.expect("find").stdout).lines().map(String::from).collect();
    all.sort();
    all
}

#[test]
fn a_cell_has_its_cpus_and_its_memory_and_no_more() {
    let name = "a_cell_has_its_cpus_and_its_memory_and_no_more";
    if !can(name, &["taskset", "nproc"]) || !can_limit(name) {
        return;
    }
    let _alone = alone();
    let (scratch, before) = (Scratch::new(), groups());
    let rest = r#"
        [cell]
        command = ["nproc"]
        [[factor]]
        name = "what"
        [[factor.level]]
        name = "all"
        [[factor.level]]
        name = "one CPU"
        cpus = 1
        [[factor.level]]
        name = "one CPU, recorded"
        cpus = 1
        record = []
        [[factor.level]]
        name = "memory"
        memory = "16M"
        command = ["sh", "-c", "head -c 60M /dev/zero | tail -c 60M >/dev/null; true"]
        [[factor.level]]
        name = "memory, recorded"
        memory = "16M"
        record = []
        command = ["sh", "-c", "head -c 60M /dev/zero | tail -c 60M >/dev/null; true"]
        [[factor.level]]
        name = "enough memory"
        memory = "128M"
        command = ["sh", "-c", "head -c 60M /dev/zero | tail -c 60M >/dev/null; true"]
        [[factor.level]]
        name = "too many CPUs"
        cpus = 4096
        "#;
    let path = plan(&scratch, "confined", rest).display().to_string();
    let out = plan_run(&scratch, &["run", &path, "-o", "out"]);
    assert_eq!(code(&out), 3, "{}", text(&out.stderr));
    let dir = scratch.path().join("out");
    let state = state(&dir);
    let of = |made: &serde_json::Value| dir.join(made["dir"].as_str().expect("a directory"));
    let said: Vec<String> =
        state["made"].as_array().expect("made").iter().map(|m| read(of(m).join("output.txt"))).collect();
    let all = std::process::Command::new("nproc").output().expect("nproc");
    assert_eq!(said[..3], [text(&all.stdout).trim(), "1", "1"]);
    let ends: Vec<String> = made(&dir).iter().map(|(_, _, end)| end.to_string()).collect();
    for end in &ends[3..5] {
        assert!(end.contains("memory of 16.0 MiB is too little: the kernel killed "), "{ends:?}");
    }
    assert!(ends[5].contains("measured") && ends.len() == 6, "{ends:?}");
    let skipped = state["cells"][6]["skipped"].as_str().expect("a reason");
    assert!(skipped.contains("cpus = 4096"), "{skipped}");
    assert_eq!(groups(), before, "a group is left");
}

#[test]
fn a_killed_plan_leaves_no_group() {
    let name = "a_killed_plan_leaves_no_group";
    if !can(name, &["sleep"]) || !can_limit(name) {
        return;
    }
    let _alone = alone();
    let (scratch, before) = (Scratch::new(), groups());
    let rest = r#"
        [cell]
        memory = "64M"
        command = ["sh", "-c", "touch {out}/../../../begun; sleep 100"]
        "#;
    let path = plan(&scratch, "killed", rest).display().to_string();
    let going = start(&scratch, &["run", &path, "-o", "out"]);
    until("the command runs", || scratch.path().join("out/begun").exists());
    assert_eq!(groups().len(), before.len() + 1, "{:?}", groups());
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(going.pid(), libc::SIGKILL) };
    going.end();
    until("its guardian removes the group", || groups() == before);
}
