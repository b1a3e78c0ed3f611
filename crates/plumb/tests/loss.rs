// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loss: counted exactly, placed in time, and told by the exit code; and the
//! flight recorder, which forgets by design and freezes when it must.

mod common;
use common::{
    babeltrace_agrees, can, explain, no_program_left, output, plumb, signal, start, stderr, workload,
};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const CALLS: u64 = 6_000_000;

#[test]
fn a_flooded_buffer_is_reported_as_lost_exactly() {
    if !can("a_flooded_buffer_is_reported_as_lost_exactly", &["babeltrace2", "bpftool"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let mut command = plumb();
    command.args(["record", "--exit-code", "plumb", "--json", "--buffer", "64K"]);
    command.args(["-e", "syscall:getppid,-sys_exit", "-o"]);
    command.arg(&trace).arg("--").arg(workload()).args(["getppid", &CALLS.to_string()]);
    let recorder = start(&mut command, &trace);
    let pid = recorder.id();
    // The reader stands still while the load goes on.
    signal(&recorder, libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    signal(&recorder, libc::SIGCONT);
    let out = recorder.wait_with_output().expect("the recorder");
    assert_eq!(out.status.code(), Some(3), "not a valid measurement: {}", stderr(&out));
    let outcome: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let (events, lost) =
        (outcome["events"].as_u64().expect("events"), outcome["lost"].as_u64().expect("lost"));
    println!("{events} recorded, {lost} lost of {CALLS} calls");
    assert!(lost > 0 && stderr(&out).contains("were lost"), "{}", stderr(&out));
    assert_eq!(events + lost, CALLS, "every call is either in the trace or counted as lost");

    // The trace itself tells the same: packets, gaps with an interval, and babeltrace2.
    let quality = &explain(&trace)["quality"];
    assert_eq!((quality["events"].as_u64(), quality["lost"].as_u64()), (Some(events), Some(lost)));
    let gaps = quality["gaps"].as_array().expect("gaps");
    let in_gaps: u64 = gaps.iter().map(|g| g[3].as_u64().expect("lost")).sum();
    assert_eq!(in_gaps, lost);
    assert!(gaps.iter().all(|g| g[1].as_u64() < g[2].as_u64()), "every loss has an interval: {gaps:?}");
    let longest = gaps.iter().map(|g| g[2].as_u64().expect("end") - g[1].as_u64().expect("begin")).max();
    assert!(longest > Some(100_000_000), "the stop is seen as a gap: {longest:?}");
    let reader = output(Command::new("babeltrace2").arg(&trace));
    let lines = reader.stdout.iter().filter(|b| **b == b'\n').count() as u64;
    assert_eq!(lines, events + quality["state_events"].as_u64().expect("events"));
    let theirs: u64 = stderr(&reader)
        .lines()
        .filter_map(|l| l.split("Tracer discarded ").nth(1)?.split(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(theirs, lost, "what babeltrace2 calls discarded: {}", stderr(&reader));
    no_program_left(pid);
}

#[test]
fn the_flight_recorder_freezes_when_a_call_is_slow() {
    if !can("the_flight_recorder_freezes_when_a_call_is_slow", &["babeltrace2"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do {0} sleep 5; {0} spin 100; done; {0} sleep 300; sleep 60",
        workload()
    );
    let mut command = plumb();
    command
        .args(["record", "--json", "--keep", "500ms", "--when", "clock_nanosleep > 200ms", "-o"])
        .arg(&trace);
    let out = output(command.args(["--", "timeout", "10", "sh", "-c", &script]));
    assert!(out.status.success(), "{}", stderr(&out));
    // The load prints to standard output too.
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let outcome: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let reason = outcome["reason"].as_str().expect("reason");
    assert!(reason.contains("clock_nanosleep > 200ms") && reason.contains("fired"), "{reason}");
    babeltrace_agrees(&trace);
    // Only the last while was kept, though packets are kept whole.
    let result = explain(&trace);
    let trigger = &result["trigger"];
    assert_eq!(trigger["condition"], "clock_nanosleep > 200ms");
    let took = trigger["time"].as_u64().expect("ns");
    assert!((300_000_000..400_000_000).contains(&took), "{trigger}");
    let slept: u64 = trigger["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .filter(|p| p["category"] == "timer")
        .map(|p| p["time"].as_u64().expect("ns"))
        .sum();
    assert!(slept * 100 > took * 99, "{trigger}");
    let lead = &result["lines"][0];
    let words = lead["text"].as_str().expect("text");
    assert!(words.starts_with("clock_nanosleep(2) of plumb-workload"), "{words}");
    assert!(words.contains("asked for 'clock_nanosleep > 200ms': sleeping 100 %"), "{words}");
    assert_eq!((&lead["at"], &lead["tid"]), (&trigger["at"], &trigger["tid"]));
    let span = result["end"].as_u64().expect("end") - result["begin"].as_u64().expect("begin");
    assert!((300_000_000..3_000_000_000).contains(&span), "kept {span} ns, asked for 500 ms");
    let kept = result["events"].as_u64().expect("events");
    assert!(
        kept > 0 && kept < outcome["events"].as_u64().expect("events"),
        "kept {kept} of {}",
        outcome["events"]
    );
}
