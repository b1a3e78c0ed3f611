// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb whatif` as its users call it: the I/O scheduler in front of the other disk, and runs that a timer ends.

mod common;

use common::{can, must, output, plumb, stderr};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn dir() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn what_if(trace: &Path, args: &[&str]) -> Value {
    let text = output(plumb().arg("whatif").arg(trace).args(args).arg("--json"));
    serde_json::from_slice(&text.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&text)))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn simulated(dir: &Path, name: &str, args: &str) -> PathBuf {
    let trace = dir.join(name);
    must(plumb().arg("sim").args(args.split_whitespace()).arg("-o").arg(&trace));
    trace
}

#[test]
fn the_recorded_scheduler_is_kept() {
    let dir = dir();
    // 32 requests in the queue, and one in the device: who orders them decides how long seeks are.
    let load =
        "atlas10k4 --size 8G --what read --order random --depth 32 --depth-of-device 1 --operations 400";
    let trace = simulated(dir.path(), "deadline", &format!("{load} --scheduler mq-deadline"));
    let other = ["--disk", "cheetah15k", "--depth-of-device", "1"];
    let by = |more: &[&str]| what_if(&trace, &[&other, more].concat());
    let kept = by(&[]);
    assert_eq!(kept["recorded"]["scheduler"], "mq-deadline");
    assert_eq!(kept["asked"]["scheduler"], "mq-deadline");
    let [same, none] = ["mq-deadline", "none"].map(|name| by(&["--scheduler", name]));
    assert_eq!(kept["asked"]["elapsed_ns"], same["asked"]["elapsed_ns"]);
    assert_eq!(none["asked"]["scheduler"], "none");
    assert!(number(&kept["asked"]["elapsed_ns"]) < number(&none["asked"]["elapsed_ns"]), "{kept} {none}");
    let text = must(plumb().arg("whatif").arg(&trace).args(other));
    let line = text.lines().find(|l| l.starts_with("what if ")).expect("a line");
    assert!(line.ends_with("disk cheetah15k, scheduler mq-deadline)"), "{line}");
}

#[test]
fn a_scheduler_needs_a_simulated_disk() {
    let dir = dir();
    let trace = simulated(dir.path(), "t", "nvme --size 1G --what read --order random --operations 50");
    for (args, words) in [
        (&["--scheduler", "bfq"][..], "no disk is simulated"),
        (&["--cpus", "2", "--scheduler", "bfq"], "hint: add --disk MODEL"),
        (&["--disk", "gp3", "--scheduler", "cfq"], "hint: choose none, noop"),
    ] {
        let out = output(plumb().arg("whatif").arg(&trace).args(args));
        let said = stderr(&out);
        let begins = said.starts_with("plumb: cannot use --scheduler ");
        assert!(out.status.code() == Some(2) && begins && said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn operations_have_a_rate() {
    if !can("operations_have_a_rate", &[]) {
        return;
    }
    let dir = dir();
    let run = dir.path().join("run");
    let load = ["load", "--what", "write", "--operations", "300", "--size", "4M", "--quiet"];
    let program = env!("CARGO_BIN_EXE_plumb");
    // Exit code 3: so short a load is not valid by itself.
    output(plumb().args(["run", "-o"]).arg(&run).args(["--", program]).args(load).arg(dir.path()));
    let told = what_if(&run, &["--cpu-speed", "2"]);
    let throughput = &told["throughput"];
    assert_eq!(throughput["of"], "operation", "{told}");
    let count = number(&throughput["count"]);
    assert!(count >= 300.0, "{told}");
    for of in ["recorded", "asked"] {
        let rate = count * 1e9 / number(&told[of]["elapsed_ns"]);
        assert!((number(&throughput[of]) / rate - 1.0).abs() < 1e-6, "{of}: {throughput}");
    }
    let text = output(plumb().arg("whatif").arg(&run).args(["--cpu-speed", "2"])).stdout;
    assert!(String::from_utf8_lossy(&text).contains("\nthroughput  "), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn a_run_that_a_timer_ends_does_more_work_on_a_faster_machine() {
    if !can("a_run_that_a_timer_ends_does_more_work_on_a_faster_machine", &["timeout", "sha256sum"]) {
        return;
    }
    let dir = dir();
    let run = dir.path().join("run");
    // Each time something else to do for a CPU; none of it waits for a timer.
    let loops = "while :; do head -c 2M /dev/zero | sha256sum >/dev/null; done";
    output(plumb().args(["run", "-o"]).arg(&run).args(["--", "timeout", "1", "sh", "-c", loops]));
    let told = what_if(&run, &["--cpu-speed", "4"]);
    assert_eq!(told["by_timer"], true, "{told}");
    assert!(number(&told["speedup"]) > 1.3, "{told}");
    let note = "The run ends by a timer: on a faster machine it would do more work, not end earlier.";
    assert!(told["notes"].as_array().expect("a list").iter().any(|n| n == note), "{told}");
    let out = output(plumb().arg("whatif").arg(&run).args(["--cpu-speed", "4"]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("x the throughput.") && text.contains("for the same work instead of"), "{text}");

    let run = dir.path().join("pauses");
    let pauses = "for i in 1 2 3 4 5; do head -c 100K /dev/zero | sha256sum >/dev/null; sleep 0.4; done";
    must(plumb().args(["run", "-o"]).arg(&run).args(["--", "sh", "-c", pauses]));
    let told = what_if(&run, &["--cpu-speed", "4"]);
    assert_eq!(told["by_timer"], false, "{told}");
    assert!(number(&told["slept"]) > 0.5, "{told}");
    let text = output(plumb().arg("whatif").arg(&run).args(["--cpu-speed", "4"])).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("of the command's time is sleeping on timers, which"), "{text}");
}
