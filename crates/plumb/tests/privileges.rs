// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which capabilities the recorder has in each phase, and that its command has all of them.

mod common;
use common::{can, must, plumb};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn line(status: &str, name: &str) -> Option<String> {
    status.lines().find_map(|l| l.strip_prefix(name)).map(|l| l.trim().to_owned())
}

fn own(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    u64::from_str_radix(&line(&status, name).expect("a line"), 16).expect("a set")
}

/// CHOWN, DAC_OVERRIDE, FOWNER.
const RESULTS: u64 = 0b1011;
/// Those and DAC_READ_SEARCH, KILL, SETGID, SETUID, SYS_PTRACE, SYS_NICE, SYSLOG, PERFMON, BPF, CHECKPOINT_RESTORE.
const ATTACHED: u64 =
    RESULTS | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 19 | 1 << 23 | 1 << 34 | 1 << 38 | 1 << 39 | 1 << 40;

#[test]
fn each_phase_has_what_it_needs() {
    if !can("each_phase_has_what_it_needs", &[]) {
        return;
    }
    if own("CapBnd:") & 1 << 40 == 0 {
        println!("SKIP each_phase_has_what_it_needs: this kernel or container has no CAP_CHECKPOINT_RESTORE");
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let mut command = plumb();
    command.args(["run", "-q", "--for", "2s", "-a", "-o"]).arg(dir.path().join("run"));
    let mut child = command.stdout(Stdio::null()).spawn().expect("plumb");
    let path = format!("/proc/{}/status", child.id());
    let mut phases: Vec<[u64; 3]> = Vec::new();
    // The last that was seen of each other thread: who reads the trace as it grows.
    let mut readers = std::collections::BTreeMap::new();
    let begun = Instant::now();
    while child.try_wait().expect("its state").is_none() && begun.elapsed() < Duration::from_secs(120) {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let set = |name| line(&status, name).and_then(|l| u64::from_str_radix(&l, 16).ok());
        if let [Some(effective), Some(permitted), Some(bounding)] = ["CapEff:", "CapPrm:", "CapBnd:"].map(set)
        {
            let now = [effective, permitted, bounding];
            // Between two phases the bounding set is smaller already; one that has ended has none.
            let between = effective == own("CapPrm:") && bounding != own("CapBnd:");
            if effective != 0 && !between && phases.last() != Some(&now) {
                phases.push(now);
            }
        }
        for task in std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let sets = ["CapEff:", "CapPrm:"].map(|name| line(&status, name).unwrap_or_default().to_string());
            if task.file_name().to_str() != Some(&child.id().to_string()) && !sets[0].is_empty() {
                readers.insert(task.file_name(), sets);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(child.wait().expect("waited").success());
    // DAC_READ_SEARCH and SYS_NICE.
    let reads = ["0000000000800004", "0000000000800004"].map(String::from);
    assert!(!readers.is_empty() && readers.values().all(|sets| *sets == reads), "{readers:?}");
    // Programs that it starts from the attachment on: RESULTS and DAC_READ_SEARCH.
    let has = |set: u64, bounding: u64| [set, set, bounding];
    let expected = [
        has(own("CapPrm:"), own("CapBnd:")),
        has(ATTACHED, RESULTS | 1 << 2),
        has(RESULTS, RESULTS | 1 << 2),
    ];
    let hex = |phases: &[[u64; 3]]| phases.iter().map(|p| p.map(|s| format!("{s:x}"))).collect::<Vec<_>>();
    assert_eq!(hex(&phases), hex(&expected), "effective, permitted and bounding, phase by phase");
}

#[test]
fn the_command_has_all_that_plumb_was_given() {
    if !can("the_command_has_all_that_plumb_was_given", &["grep"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let words = ["grep", "-E", "^(Cap|Uid|Gid|NoNewPrivs|Seccomp:)", "/proc/self/status"];
    let alone = must(Command::new(words[0]).args(&words[1..]));
    let run = |name: &str, options: &[&str]| {
        let mut command = plumb();
        command.args(["run", "-q", "-o"]).arg(dir.path().join(name)).args(options).arg("--").args(words);
        must(command.stderr(Stdio::null()))
    };
    assert_eq!(run("run", &[]), alone);
    // Of each repetition.
    assert_eq!(run("set", &["--repeat", "2"]), [alone.as_str(); 2].concat());
}
