// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb sim` as its users call it: what explain makes of a simulated trace is what the simulator knows.

mod common;

use common::{must, output, plumb, stderr};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

fn dir() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Simulates into `trace`; the first step.
fn sim(args: &str, trace: &Path) -> Value {
    let words = args.split_whitespace();
    let text = must(plumb().arg("sim").args(words).args(["--json", "-o"]).arg(trace));
    json(&text)["steps"][0].clone()
}

fn explained(trace: &Path) -> Value {
    json(&must(plumb().args(["explain", "--json"]).arg(trace)))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn is_within_a_percent(what: &str, is: f64, should: f64) {
    assert!((is - should).abs() <= should * 0.01, "{what}: explain says {is}, the simulator {should}");
}

#[test]
fn explain_finds_the_devices_time_that_the_simulator_knows() {
    let dir = dir();
    for (n, args) in [
        "atlas10k4 --what read --order random --time 5s",
        "nvme --what mix --order random --depth 16 --scheduler mq-deadline --operations 5000",
        "gp3 --what read --order random --threads 4 --think 1ms --depth-of-device 1 --scheduler deadline --time 3s",
        "atlas10k4 --what write --depth 32 --depth-of-device 2 --nr-requests 8 --time 2s",
        "nvme --what write --order random --sync fdatasync --processes 2 --time 500ms",
        "atlas10k4 --what read --order random --rate 60 --arrivals poisson --depth 64 --scheduler fair --time 5s",
    ]
    .iter()
    .enumerate()
    {
        let trace = dir.path().join(n.to_string());
        let step = sim(args, &trace);
        let told = explained(&trace);
        assert_eq!(told["environment"]["origin"], "simulated");
        assert_eq!(told["impossible"], json("{}"), "{args}");
        let (device, row) = (&step["device"], &told["devices"][0]);
        is_within_a_percent("busy", number(&row["busy"]), number(&device["busy_ns"]));
        is_within_a_percent("D2C", number(&row["d2c"]), number(&device["d2c"]["mean_ns"]));
        let requests = |v: &Value| number(&v["reads"]) + number(&v["writes"]);
        assert_eq!(requests(row), requests(device), "{args}");
        assert_eq!(row["merges"], device["merges"], "{args}");
        assert_eq!(row["max_in_flight"], device["most_in_device"], "{args}");
        // Nothing of the tasks' time is without a name.
        let processes = told["processes"].as_array().expect("processes");
        let all: f64 = processes.iter().flat_map(|p| p["account"].as_object()).flat_map(|a| a.values()).map(number).sum();
        let vague: f64 = processes.iter().map(|p| p["account"]["unexplained"].as_f64().unwrap_or(0.0)).sum();
        assert!(all > 0.0 && vague <= all * 0.001, "{args}: {vague} of {all} unexplained");
    }
}

#[test]
fn a_task_that_waits_for_a_slow_disk_is_told_so() {
    let dir = dir();
    let trace = dir.path().join("t");
    let step = sim("atlas10k4 --what read --order random --time 3s", &trace);
    let told = explained(&trace);
    let account = &told["processes"][0]["account"];
    let d2c = &step["device"]["d2c"];
    let with_device = number(&d2c["mean_ns"]) * number(&d2c["count"]);
    is_within_a_percent("account", number(&account["block.device"]), with_device);
    let words = told["verdict"].to_string();
    let first = &told["findings"][0];
    assert!(
        first["id"].as_str().is_some_and(|id| id.starts_with("io.")) && words.contains("sim0"),
        "{words} {first}"
    );
    assert!(number(&first["share"]) > 0.99, "{first}");
}

#[test]
fn views_and_other_readers_read_it() {
    let dir = dir();
    let trace = dir.path().join("t");
    let step =
        sim("nvme --what read --depth 32 --depth-of-device 1 --max-request 64K --operations 2000", &trace);
    let merges = number(&step["device"]["merges"]);
    let btt = must(plumb().args(["view", "btt"]).arg(&trace));
    assert!(merges > 100.0 && btt.contains("Q2M") && btt.contains("sim0"), "{merges} merges\n{btt}");
    if common::output(std::process::Command::new("sh").args(["-c", "command -v babeltrace2"]))
        .status
        .success()
    {
        let events = must(std::process::Command::new("babeltrace2").arg(&trace)).lines().count() as u64;
        assert!(events > step["trace_events"].as_u64().expect("a count"), "{events}");
    } else {
        println!("skipped: babeltrace2 is not installed");
    }
    let said = stderr(&output(plumb().args(["sim", "nvme", "-o"]).arg(&trace)));
    assert!(said.contains("holds a trace"), "{said}");
}

#[test]
fn the_same_seed_is_the_same_trace() {
    let dir = dir();
    let bytes = |name: &str, seed: &str| {
        let trace = dir.path().join(name);
        sim(&format!("nvme --what mix --order random --depth 8 --operations 2000 --sim-seed {seed}"), &trace);
        ["cpu_0", "state", "metadata"].map(|f| std::fs::read(trace.join(f)).expect("a file"))
    };
    let (a, b, c) = (bytes("a", "1"), bytes("b", "1"), bytes("c", "2"));
    assert!(a == b && a[0] != c[0]);
}

#[test]
fn jobs_of_a_file_have_their_classes() {
    let dir = dir();
    let file = dir.path().join("two.toml");
    let text =
        "size = \"1G\"\ntime = \"2s\"\nwhat = \"read\"\norder = \"random\"\n[[step]]\nname = \"both\"\n\
                [[step.also]]\ndepth = 32\nthrough = \"io-uring\"\n";
    std::fs::write(&file, text).expect("writable");
    let rate = |idle: &[&str]| {
        let mut command = plumb();
        command.args([
            "sim",
            "atlas10k4",
            "--scheduler",
            "mq-deadline",
            "--json",
            "--depth-of-device",
            "1",
            "--job",
        ]);
        let told = json(&must(command.arg(&file).args(idle)));
        number(&told["steps"][0]["jobs"][0]["kinds"][0]["rate"])
    };
    let (beside, before) = (rate(&[]), rate(&["--idle=2"]));
    assert!(before > 1.5 * beside, "{before} reads a second beside the idle class, {beside} beside equals");
}

#[test]
fn what_cannot_be_is_refused_with_the_next_step() {
    for (args, words) in [
        ("nonesuch", "nonesuch"),
        ("nvme --what create", "--what create"),
        ("nvme --cache drop", "page cache"),
        ("nvme --scheduler deadline --scheduler-set expire=1", "read_expire, write_expire"),
        ("nvme --scheduler cfq", "mq-deadline"),
        ("nvme --disk-size 1000", "4096"),
        ("nvme --size 4G --disk-size 1G", "--disk-size"),
        ("nvme --idle=3", "at most 1 job"),
        ("instant --what read --time 1s", "--think or --rate"),
        ("nvme --rate 10 --think 1ms", "--think"),
    ] {
        let out = output(plumb().arg("sim").args(args.split_whitespace()));
        let said = stderr(&out);
        assert!(out.status.code() == Some(2) && said.contains(words), "{args}: {} {said}", out.status);
    }
}
