// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording that may cost only so much pauses, says so, and still adds up.

mod common;
use common::{babeltrace_agrees, can, explain, must, plumb, process, sum, workload};

#[test]
fn a_recording_that_costs_too_much_pauses_and_adds_up() {
    if !can("a_recording_that_costs_too_much_pauses_and_adds_up", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let mut command = plumb();
    command.args(["run", "-q", "--no-report", "--budget", "2%", "-o"]).arg(&run).arg("--");
    must(command.arg(workload()).args(["datagrams", "1000000"]));
    let result = explain(&run);
    let (begin, end) = (result["begin"].as_u64().expect("ns"), result["end"].as_u64().expect("ns"));
    let paused = result["paused"].as_u64().expect("ns");
    println!("paused for {paused} of {} ns", end - begin);
    assert!(paused * 2 > end - begin, "two calls in some microseconds cost more than 4 %");
    assert!(paused < end - begin, "something was recorded");
    let verdict = result["verdict"].to_string();
    assert!(verdict.contains("to keep within --budget"), "{verdict}");
    let p = process(&result, "plumb-workload");
    assert_eq!(sum(&p["account"]), p["thread_time"].as_u64().expect("ns"), "{:#}", p["account"]);
    let of_process = p["account"]["paused"].as_u64().expect("it lived in pauses");
    assert!(of_process <= paused && of_process * 10 > paused * 9, "{of_process} of {paused}");
    assert_eq!(result["lost_events"], 0);
    babeltrace_agrees(&run);
}
