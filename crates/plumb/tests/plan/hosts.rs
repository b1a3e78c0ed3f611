// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells on other hosts. The hosts are this machine, reached by `env`, which runs what stands behind it.

use crate::common::can;
use crate::common::scratch::{text, until, Scratch};
use crate::{alone, code, made, plan, plan_run, read, start, state};
use serde_json::Value;
use std::path::Path;

/// Directories that plans put on this machine as their host: another plan may have its own.
fn there() -> Vec<String> {
    let names = std::fs::read_dir("/tmp").expect("/tmp").flatten();
    let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("plumb-cell-")).collect()
}

#[test]
fn a_cell_on_another_host_is_as_one_here_and_others_are_recorded() {
    let test = "a_cell_on_another_host_is_as_one_here_and_others_are_recorded";
    if !can(test, &["mkfs.ext4", "tar", "env"]) {
        return;
    }
    let _alone = alone();
    let before = there();
    let scratch = Scratch::new();
    let plan = plan(
        &scratch,
        "far",
        r#"
        [host.one]
        reach = ["env"]
        [host.two]
        reach = ["env", "-u", "TERM"]
        [device.disk]
        model = "instant"
        size = "64M"
        [cell]
        host = "one"
        record-hosts = "two"
        device = "disk"
        file-system = { kind = "ext4" }
        load = { size = "1M", block = "4K" }
        record = ["-e", "default,tcp"]
        "#,
    );
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    let dir = scratch.path().join("out");
    assert!([0, 3].contains(&code(&out)), "{said}");
    let ends = made(&dir);
    assert!(ends.len() == 1 && ends[0].2 == "measured", "{ends:?}\n{said}");
    let repetition = dir.join(state(&dir)["made"][0]["dir"].as_str().expect("a directory"));
    let load: Value = serde_json::from_str(&read(repetition.join("load.json"))).expect("load.json");
    assert!(load["cells"].is_array() && repetition.join("result.json").exists());
    for name in ["one", "two"] {
        assert!(repetition.join("hosts").join(name).join("metadata").exists(), "{name}");
    }
    let hosts: Value = serde_json::from_str(&read(repetition.join("hosts.json"))).expect("hosts.json");
    assert!(hosts["recordings"]["one"].is_object() && hosts["recordings"]["two"].is_object(), "{hosts}");
    assert!(!read(repetition.join("hosts.txt")).is_empty() && !repetition.join("work").exists());
    assert_eq!(there(), before);
}

#[test]
fn a_stop_ends_the_cell_there_too() {
    let test = "a_stop_ends_the_cell_there_too";
    if !can(test, &["tar", "setsid"]) {
        return;
    }
    let _alone = alone();
    let before = there();
    let scratch = Scratch::new();
    let mark = scratch.path().join("begun");
    // As slow as a connection that has to be opened, and in a session of its own, as another host's processes are.
    let plan = plan(
        &scratch,
        "stopped",
        &format!(
            "[host.one]\nreach = [\"setsid\", \"-w\", \"sh\", \"-c\", \"sleep 0.3; exec \\\"$@\\\"\", \"x\"]\n[cell]\nhost = \"one\"\n\
             command = [\"sh\", \"-c\", \"echo $$ >{}; exec sleep 60\"]\n",
            mark.display()
        ),
    );
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let _ = std::fs::remove_file(&mark);
        let dir = scratch.path().join(format!("out{signal}"));
        let running =
            start(&scratch, &["run", &plan.display().to_string(), "-o", &dir.display().to_string()]);
        let begun = || std::fs::read_to_string(&mark).is_ok_and(|pid| pid.ends_with('\n'));
        until("the cell begins", begun);
        let pid = read(&mark);
        running.signal(signal);
        let out = running.end();
        if signal == libc::SIGINT {
            assert_eq!(code(&out), 3, "{}", text(&out.stderr));
            assert_eq!(there(), before);
        }
        until("the command ends", || !Path::new("/proc").join(&pid).exists());
    }
    // Killed, it leaves that to the host itself.
    until("the host has cleaned up", || there() == before);
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    if !can("a_host_that_cannot_be_reached_is_named", &["tar", "false"]) {
        return;
    }
    let scratch = Scratch::new();
    let plan = plan(
        &scratch,
        "deaf",
        "[host.one]\nreach = [\"false\"]\n[cell]\nhost = \"one\"\ncommand = [\"true\"]\n",
    );
    let out = plan_run(&scratch, &["run", &plan.display().to_string(), "-o", "out"]);
    let said = text(&out.stderr);
    assert!(code(&out) == 2 && said.contains("host one: false: exit code 1"), "{said}");
}
