// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every event can be recorded together; filters and thinning do what they say.

mod common;
use common::{babeltrace_agrees, can, explain, must, plumb, process, workload, Loop};

#[test]
fn all_events_together_are_read_by_babeltrace() {
    if !can("all_events_together_are_read_by_babeltrace", &["losetup", "mkfs.ext4", "babeltrace2"]) {
        return;
    }
    let mut disk = Loop::new(64);
    let file = disk.ext4().join("file");
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    must(
        plumb()
            .args(["run", "-q", "-e", "all", "--stacks", "100us", "-o"])
            .arg(&run)
            .arg("--")
            .arg(workload())
            .args(["write-fsync", "5"])
            .arg(&file),
    );
    babeltrace_agrees(&run);
    let result = explain(&run);
    let impossible: u64 =
        result["impossible"].as_object().expect("counts").values().map(|v| v.as_u64().expect("count")).sum();
    let events = result["events"].as_u64().expect("events");
    assert!(impossible * 1000 < events, "{impossible} of {events}: {}", result["impossible"]);
}

#[test]
fn only_target_leaves_the_others_out_and_keeps_its_requests() {
    if !can("only_target_leaves_the_others_out_and_keeps_its_requests", &["losetup"]) {
        return;
    }
    let disk = Loop::new(16);
    let dir = tempfile::tempdir().expect("directory");
    let (all, ours) = (dir.path().join("all"), dir.path().join("ours"));
    for (run, option) in [(&all, "--stacks=0ms"), (&ours, "--only-target")] {
        must(plumb().args(["run", "-q", option, "-o"]).arg(run).arg("--").arg(workload()).args([
            "direct-writes",
            "200",
            &disk.device,
        ]));
    }
    let (all, ours) = (explain(&all), explain(&ours));
    assert_eq!(process(&ours, "plumb-workload")["writes"], 200);
    assert!(ours["events"].as_u64() < all["events"].as_u64(), "{} {}", ours["events"], all["events"]);
    // Below the loop device other threads work: the backing disk's requests are theirs.
    let others = ours["devices"].as_array().expect("devices").iter().filter(|d| d["name"] != disk.name());
    assert_eq!(others.map(|d| d["writes"].as_u64().unwrap_or(0)).sum::<u64>(), 0);
}

#[test]
fn one_device_can_be_recorded_alone() {
    if !can("one_device_can_be_recorded_alone", &["losetup"]) {
        return;
    }
    let (disk, other) = (Loop::new(16), Loop::new(16));
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let script =
        format!("{0} direct-writes 30 {1}; {0} direct-writes 40 {2}", workload(), disk.device, other.device);
    must(
        plumb()
            .args(["run", "-q", "--device", &disk.device, "-o"])
            .arg(&run)
            .args(["--", "sh", "-c", &script]),
    );
    let result = explain(&run);
    let devices = result["devices"].as_array().expect("devices");
    let names: Vec<_> =
        devices.iter().map(|d| (d["name"].as_str().expect("name"), d["writes"].as_u64())).collect();
    assert_eq!(names, [(disk.name(), Some(30))]);
}

#[test]
fn a_running_process_is_joined_in_the_middle_and_its_waits_have_stacks() {
    if !can("a_running_process_is_joined_in_the_middle_and_its_waits_have_stacks", &["babeltrace2"]) {
        return;
    }
    let script = "while :; do sleep 0.02; done";
    let mut load = std::process::Command::new("sh").args(["-c", script]).spawn().expect("load");
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let out = common::output(
        plumb().args(["run", "-q", "--for", "1s", "-o"]).arg(&run).arg("--pid").arg(load.id().to_string()),
    );
    load.kill().expect("kill");
    load.wait().expect("wait");
    assert!(out.status.success(), "{} {}", out.status, common::stderr(&out));
    let result = explain(&run);
    let shell = result["processes"]
        .as_array()
        .expect("rows")
        .iter()
        .find(|p| p["pid"] == load.id())
        .expect("the shell");
    let elapsed = shell["elapsed"].as_u64().expect("ns");
    assert!((900_000_000..1_500_000_000).contains(&elapsed), "{elapsed}");
    let child = shell["account"]["child"].as_u64().unwrap_or(0);
    assert!(child * 10 > elapsed * 8, "the shell waits for its children: {shell:#}");
    let sleeps =
        result["processes"].as_array().expect("rows").iter().filter(|p| p["comm"] == "sleep").count();
    assert!(sleeps > 10, "its descendants belong to it: {sleeps}");
    // Kernel stacks by name, user stacks by the modules that they name.
    let text = must(std::process::Command::new("babeltrace2").arg(run.join("trace")));
    let told = |event: &'static str| text.lines().filter(move |l| l.contains(event));
    assert!(told(" state_stack:").any(|l| l.contains("do_wait") || l.contains("nanosleep")), "kernel stacks");
    assert!(told(" state_module:").any(|l| l.contains("libc.so")), "modules");
    assert!(told(" state_user_stack:").count() > 0, "user stacks");
    assert!(told(" state_cpu_sample:").count() > 0, "samples");
    babeltrace_agrees(&run);
}

/// Reads 25 messages 20 ms after they came, and 25 that came just before; says the ports.
const READS: &str = "
import socket, time
listens = socket.create_server(('127.0.0.1', 0))
sends = socket.create_connection(listens.getsockname())
reads, _ = listens.accept()
for delay in [0.02, 0] * 25:
    sends.sendall(b'message')
    time.sleep(delay)
    reads.recv(100)
print(reads.getsockname()[1], reads.getpeername()[1])
";

#[test]
fn data_that_waited_in_its_socket_is_told_with_its_time() {
    if !can("data_that_waited_in_its_socket_is_told_with_its_time", &["python3", "babeltrace2"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let mut record = plumb();
    record.args(["record", "-q", "-e", "tcp_read_waited", "-o"]).arg(&trace);
    let ports = must(record.args(["--", "python3", "-c", READS]));
    let (port, peer) = ports.trim().split_once(' ').expect("two ports");
    let of = format!("port = {port}, peer_port = {peer}");
    let text = must(std::process::Command::new("babeltrace2").arg(&trace));
    let told: Vec<&str> =
        text.lines().filter(|l| l.contains(" tcp_read_waited:") && l.contains(&of)).collect();
    let waited = |line: &&str| -> Option<u64> {
        line.split_once(" waited = ")?.1.split([',', ' ']).next()?.parse().ok()
    };
    // Some of the others may have waited for a CPU.
    let long = told.iter().filter_map(waited).filter(|ns| (20_000_000..500_000_000).contains(ns)).count();
    assert!((25..=27).contains(&long) && told.len() <= 50, "{long} of {}: {text}", told.len());
}

#[test]
fn descendants_belong_to_the_target_whatever_is_recorded() {
    if !can("descendants_belong_to_the_target_whatever_is_recorded", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let script = format!("{0} getppid 1000; {0} getppid 500", workload());
    must(
        plumb()
            .args(["record", "-q", "-e", "syscall:getppid,-sys_exit", "-o"])
            .arg(&trace)
            .args(["--", "sh", "-c", &script]),
    );
    let events = explain(&trace)["quality"]["events"].as_u64().expect("events");
    // A shell asks for its parent once itself.
    assert!((1500..=1501).contains(&events), "{events}: the calls of both children, and nothing else");
}

#[test]
fn thinning_keeps_its_ratio_and_says_so() {
    if !can("thinning_keeps_its_ratio_and_says_so", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let n = 200_000u64;
    must(
        plumb()
            .args(["record", "-q", "-e", "syscall:getppid", "--thin", "syscall=16", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(workload())
            .args(["getppid", &n.to_string()]),
    );
    let result = explain(&trace);
    let calls = result["processes"][0]["syscalls"]
        .as_array()
        .expect("calls")
        .iter()
        .find(|c| c["name"] == "getppid")
        .expect("getppid")["calls"]
        .as_u64()
        .expect("count");
    assert!(calls.abs_diff(n / 16) < n / 16 / 20, "{calls} of {n}, one of 16");
    assert_eq!(result["quality"]["thinned"]["syscall"], "16");
    let doubt = result["verdict"].as_array().expect("verdict").last().expect("trust").as_str().expect("text");
    assert!(doubt.contains("1 of 16"), "{doubt}");
}
