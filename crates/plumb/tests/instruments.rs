// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Independent instruments: /proc, /sys and fio agree with plumb within 1 %.

mod common;
use common::{babeltrace_agrees, can, explain, must, output, plumb, process, stat_of, sum, workload, Loop};

/// Within 1 %, and within 2 ms where both are small.
fn agree(what: &str, ours: f64, theirs: f64, floor: f64) {
    let error = (ours - theirs).abs();
    println!(
        "{what}: plumb {ours:.0}, the other {theirs:.0}, difference {:.3} %",
        error * 100.0 / theirs.max(1.0)
    );
    assert!(error <= theirs * 0.01 || error <= floor, "{what}: plumb {ours}, the other {theirs}");
}

/// Time that the hypervisor stole meanwhile, ns: the kernel leaves it out of
/// what a thread used, and a tool's own clock does not know of it.
fn stolen(result: &serde_json::Value) -> f64 {
    let counters = result["counters"].as_object().expect("counters");
    let steal: u64 =
        counters.iter().filter(|(k, _)| k.ends_with(".steal")).map(|(_, v)| v.as_u64().expect("ns")).sum();
    if steal > 0 {
        println!("the hypervisor stole {steal} ns meanwhile");
    }
    steal as f64
}

#[test]
fn cpu_time_and_wait_agree_with_schedstat() {
    if !can("cpu_time_and_wait_agree_with_schedstat", &["taskset"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    // Three hogs on one CPU: each runs a third of the time and waits for the rest.
    let mut command = plumb();
    command.args(["run", "-q", "--json", "-o"]).arg(&run).args(["--", "taskset", "-c", "0"]);
    // With --json the command's own output goes to standard error.
    let out = output(command.arg(workload()).args(["hogs", "3", "3000"]));
    let text = common::stderr(&out);
    assert!(out.status.success(), "{text}");
    let result = explain(&run);
    let floor = 2e6 + stolen(&result);
    let mut seen = 0;
    for line in text.lines().filter(|l| l.starts_with("schedstat ")) {
        let n: Vec<u64> = line.split(' ').skip(1).map(|w| w.parse().expect("number")).collect();
        let row = result["processes"]
            .as_array()
            .expect("rows")
            .iter()
            .find(|p| p["pid"] == n[0])
            .expect("the process");
        let ns = |key: &str| row[key].as_u64().expect("ns") as f64;
        agree("CPU used [ns]", ns("cpu_used"), n[1] as f64, floor);
        agree("CPU wait [ns]", ns("cpu_wait"), n[2] as f64, floor);
        assert!(n[2] > 1_000_000_000, "the hogs were to wait for each other");
        let error = sum(&row["account"]).abs_diff(row["elapsed"].as_u64().expect("ns"));
        assert!(error * 1000 <= row["elapsed"].as_u64().expect("ns"), "the account adds up to elapsed");
        seen += 1;
    }
    assert_eq!(seen, 3, "{text}");
    babeltrace_agrees(&run);
}

#[test]
fn accesses_and_bytes_agree_with_sys_block_stat() {
    if !can("accesses_and_bytes_agree_with_sys_block_stat", &["losetup", "dd"]) {
        return;
    }
    let mut disk = Loop::new(200);
    let file = disk.ext4().join("file");
    let dir = tempfile::tempdir().expect("directory");
    let (run, counters) = (dir.path().join("run"), dir.path().join("stat"));
    // The counters are read inside the recording, and when read-ahead has ended: else each side
    // sees requests that the other does not.
    let script = format!(
        "cat /sys/block/{name}/stat > {stat}; dd if=/dev/zero of={0} bs=1M count=100 conv=fsync status=none;
         echo 3 > /proc/sys/vm/drop_caches; dd if={0} of=/dev/null bs=64k status=none;
         sleep 0.3; cat /sys/block/{name}/stat >> {stat}",
        file.display(),
        name = disk.name(),
        stat = counters.display()
    );
    must(plumb().args(["run", "-q", "-o"]).arg(&run).args(["--", "sh", "-c", &script]));
    let told = std::fs::read_to_string(&counters).expect("the counters");
    let [before, after] = [0, 1].map(|i| stat_of(told.lines().nth(i).expect("a line")));
    let result = explain(&run);
    let devices = result["devices"].as_array().expect("devices");
    let device = devices.iter().find(|d| d["name"] == disk.name()).expect("the loop device");
    let kernel: Vec<f64> = before.iter().zip(after).map(|(b, a)| (a - b) as f64).collect();
    for (i, (key, scale)) in
        [("reads", 1.0), ("read_bytes", 512.0), ("writes", 1.0), ("write_bytes", 512.0)].iter().enumerate()
    {
        let theirs = kernel[i] * scale;
        assert!(theirs > 0.0);
        agree(key, device[*key].as_u64().expect("count") as f64, theirs, 0.0);
    }
    babeltrace_agrees(&run);
}

#[test]
fn latency_agrees_with_fio() {
    if !can("latency_agrees_with_fio", &["losetup", "fio"]) {
        return;
    }
    let disk = Loop::new(256);
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    // 1 MiB, so that fio's own clock readings around the call are far below 1 %.
    let mut command = plumb();
    command.args(["run", "-q", "--json", "-o"]).arg(&run).args([
        "--",
        "fio",
        "--name=j",
        "--ioengine=psync",
        "--rw=randread",
    ]);
    command.args(["--bs=1m", "--direct=1", "--size=256m", "--loops=8", "--thread", "--output-format=json"]);
    command
        .arg(format!("--filename={}", disk.device))
        .arg(format!("--output={}", dir.path().join("fio.json").display()));
    let out = output(&mut command);
    assert!(out.status.success(), "{}", common::stderr(&out));
    let fio: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("fio.json")).expect("fio's report"))
            .expect("JSON");
    let clat = &fio["jobs"][0]["read"]["clat_ns"];
    let total = clat["mean"].as_f64().expect("mean") * clat["N"].as_f64().expect("N");
    let result = explain(&run);
    let p = process(&result, "fio");
    let calls = p["syscalls"].as_array().expect("calls");
    let reads = calls.iter().find(|c| c["name"] == "pread64").expect("pread64");
    // The dynamic loader reads program headers with the same call, a few times.
    let extra = reads["calls"].as_f64().expect("calls") - clat["N"].as_f64().expect("N");
    assert!((0.0..=8.0).contains(&extra), "reads: {reads:#} {clat:#}");
    let floor = stolen(&result);
    agree("time in reads [ns], from the account", sum(&reads["account"]) as f64, total, floor);
    // The request times are the greater part of it, and the account says what the rest is.
    let account = &reads["account"];
    let blocks: u64 = account
        .as_object()
        .expect("parts")
        .iter()
        .filter(|(k, _)| k.starts_with("block."))
        .map(|(_, v)| v.as_u64().unwrap_or(0))
        .sum();
    let rest: u64 = account
        .as_object()
        .expect("parts")
        .iter()
        .filter(|(k, _)| {
            let cpu = ["running", "interrupted", "lock.spin", "lost", "overhead"].contains(&k.as_str());
            cpu || ["runnable", "preempted", "other."].iter().any(|p| k.starts_with(p))
        })
        .map(|(_, v)| v.as_u64().unwrap_or(0))
        .sum();
    assert!(account["unexplained"].as_u64().unwrap_or(0) as f64 <= total * 0.02, "{account:#}");
    agree("request times and CPU [ns]", (blocks + rest) as f64, total, floor);
}
