// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cases without a remedy, and what is not allowed.

use super::common::output;
use super::common::schema::is_valid;
use super::common::scratch::Scratch;
use super::common::workload;
use super::{ended, found, guide, read, ready, state, tried, Disk};

fn nothing_helps(command: &[&str]) {
    let scratch = Scratch::new();
    let before = found(&scratch, None, None);
    let out = output(&mut guide(&scratch, &["-o", "g", "--goal", "elapsed -10%", "--may", "all"], command));
    ended(&out, 1);
    let state = state(&scratch, "g");
    assert_eq!(state["end"], "nothing-left");
    assert_eq!(state["untried"].as_array().map(Vec::len), Some(0), "{:#}", state["untried"]);
    assert!(tried(&state).iter().all(|t| !t.ends_with("accepted")), "{:?}", tried(&state));
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{:?} {}", tried(&state), said.lines().next().unwrap_or_default());
    assert!(said.starts_with("Goal not reached"), "{said}");
    assert_eq!(found(&scratch, None, None), before);
}

#[test]
fn pure_computing_has_no_tunable() {
    let Some(_alone) = ready("pure_computing_has_no_tunable", &[]) else { return };
    nothing_helps(&[workload(), "compute", "300000000"]);
}

#[test]
fn a_sleep_has_no_tunable() {
    let Some(_alone) = ready("a_sleep_has_no_tunable", &["sleep"]) else { return };
    nothing_helps(&["sleep", "0.3"]);
}

#[test]
fn nothing_is_changed_that_was_not_named() {
    const TEST: &str = "nothing_is_changed_that_was_not_named";
    let Some(_alone) = ready(TEST, &["dd", "blockdev"]) else { return };
    let Some(disk) = Disk::serve(TEST, "gp3") else { return };
    disk.set("read_ahead_kb", "4");
    let scratch = Scratch::new();
    let before = found(&scratch, Some(&disk), None);
    let (reads, cold) = (format!("if={}", disk.device), format!("blockdev --flushbufs {}", disk.device));
    let command = ["dd", reads.as_str(), "of=/dev/null", "bs=4k", "count=512"];
    for (more, as_json) in [(&[][..], false), (&["--may", "dirty-bytes", "--json"], true)] {
        let words = [&["-o", "g", "--goal", "elapsed -50%", "--prepare", &cold], more].concat();
        let out = output(&mut guide(&scratch, &words, &command));
        ended(&out, 1);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        match as_json {
            true => is_valid(TEST, &said),
            false => assert!(said.contains("allow it with --may read-ahead"), "{said}"),
        }
        let state = state(&scratch, "g");
        assert!(tried(&state).is_empty(), "{:?}", tried(&state));
        // The journal has the measured processes, and no change of a setting.
        assert!(!read(scratch.path().join("g/changes.jsonl")).contains("\"write\""));
        assert_eq!(found(&scratch, Some(&disk), None), before);
        std::fs::remove_dir_all(scratch.path().join("g")).expect("removed");
    }
}
