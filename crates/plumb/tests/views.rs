// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Views of a trace agree with independent tools on the same trace or load
//! (awk over babeltrace2's text, perf sched, perf lock, schedstat) within 1 %,
//! and with loads whose answer is known.

mod common;
use common::{can, items as items_of, must, output, plumb, stderr, workload, Loop};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Within 1 %.
fn agree(what: &str, ours: f64, theirs: f64) {
    let error = (ours - theirs).abs();
    println!(
        "{what}: plumb {ours:.0}, the other {theirs:.0}, difference {:.3} %",
        error * 100.0 / theirs.max(1.0)
    );
    assert!(theirs > 0.0, "{what}: the other tool saw nothing");
    assert!(error <= theirs * 0.01, "{what}: plumb {ours}, the other {theirs}");
}

/// `plumb view NAME DIR --json ARGS`.
fn view(name: &str, dir: &Path, args: &[&str]) -> Value {
    let out = output(plumb().args(["view", name]).arg(dir).arg("--json").args(args));
    assert!(out.status.success(), "view {name} {args:?}: {}", stderr(&out));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// The rows of the only table.
fn rows(view: &Value) -> &Vec<Value> {
    let tables = view["tables"].as_array().expect("tables");
    assert_eq!(tables.len(), 1, "{tables:#?}");
    tables[0]["rows"].as_array().expect("rows")
}

/// The row of a kind and a key's value.
fn row<'a>(view: &'a Value, kind: &str, id: u64) -> &'a Value {
    let found: Vec<&Value> = rows(view).iter().filter(|r| r["kind"] == kind && r["id"] == id).collect();
    assert_eq!(found.len(), 1, "{kind} {id}: {view:#}");
    found[0]
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row:#}"))
}

/// Records a load with `plumb record`; returns what the load said.
fn record(dir: &Path, events: &str, command: &[&str]) -> String {
    must(plumb().args(["record", "-q", "-e", events, "-o"]).arg(dir).arg("--").args(command))
}

/// The numbers behind the word that begins a line of a load's answer.
fn told(text: &str, word: &str) -> Vec<Vec<u64>> {
    let lines = text.lines().filter_map(|l| l.strip_prefix(word));
    lines.map(|l| l.split_whitespace().map(|n| n.parse().expect("number")).collect()).collect()
}

/// What awk says of a trace's text.
fn awk(trace: &Path, variable: &str, program: &str) -> String {
    let text = trace.join("../text");
    let out = std::fs::File::create(&text).expect("text");
    let babeltrace = Command::new("babeltrace2").arg("--clock-cycles").arg(trace).stdout(out).status();
    assert!(babeltrace.expect("babeltrace2").success());
    must(
        Command::new("awk")
            .args(["-v", variable])
            .arg([include_str!("views/field.awk"), program].concat())
            .arg(text),
    )
}

/// The loop device with a scheduler, in which requests wait and merge and are
/// issued in another order than they came. The number serves others later, so
/// it gets its own one back.
struct Scheduler(String, String);

impl Scheduler {
    fn new(disk: &Loop) -> Self {
        let path = format!("/sys/block/{}/queue/scheduler", disk.name());
        let text = std::fs::read_to_string(&path).expect("schedulers");
        let own = text.split(['[', ']']).nth(1).expect("the scheduler in use").to_string();
        if text.contains("mq-deadline") {
            std::fs::write(&path, "mq-deadline").expect("scheduler");
        }
        Self(path, own)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, &self.1);
    }
}

#[test]
fn block_layers_agree_with_awk_over_the_traces_text() {
    if !can("block_layers_agree_with_awk_over_the_traces_text", &["losetup", "fio", "babeltrace2", "awk"]) {
        return;
    }
    let disk = Loop::new(64);
    let _scheduler = Scheduler::new(&disk);
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    // First eight at once and few merged, then what writeback and read-ahead merge and split.
    // Read-ahead goes beyond what dd takes: it ends before the recording does.
    let script = format!(
        "fio --name=j --ioengine=libaio --direct=1 --rw=randrw --bs=4k --iodepth=8 --size=32m --filename={0} --output={1};
         dd if=/dev/zero of={0} bs=64k count=500 conv=fsync status=none;
         echo 3 > /proc/sys/vm/drop_caches; dd if={0} of=/dev/null bs=64k count=500 status=none; sleep 0.5",
        disk.device,
        dir.path().join("fio.txt").display()
    );
    record(&trace, "sched,block", &["sh", "-c", &script]);
    let minor: u32 = disk.name().trim_start_matches("loop").parse().expect("loop number");
    let said = awk(&trace, &format!("dev={}", 7 << 20 | minor), include_str!("views/layers.awk"));
    let buffer = view("buffer", &trace, &["--by", "operation", "--device", disk.name()]);
    let btt = view("btt", &trace, &["--by", "operation", "--device", disk.name()]);
    let (mut seen, mut requests) = (0, 0.0);
    let &[open, requeued] = &told(&said, "open ")[0][..] else { panic!("open, requeued: {said}") };
    for line in said.lines().filter(|l| !l.starts_with("step") && !l.starts_with("open")) {
        let n: Vec<f64> = line.split(' ').map(|w| w.parse().expect("number")).collect();
        let op = n[0] as u64;
        let name = ["reads", "writes"][op as usize];
        let ours = row(&buffer, "arrival to completion", op);
        assert_eq!(number(ours, "count"), n[1], "{name}: {said}");
        // The same trace: not 1 %, but the nanosecond.
        let sums = (number(&ours["parts"], "in flight"), number(ours, "sum"));
        println!("{name}: D2C and Q2C {sums:?} ns of {} requests", n[1]);
        assert_eq!(sums, (n[2], n[3]), "D2C and Q2C of {name}: {said}");
        // Each bio completes with its request: never fewer, and the same mean where none merged.
        let (d2c, q2c) = (row(&btt, "D2C", op), row(&btt, "Q2C", op));
        assert!(number(d2c, "count") >= n[1] && number(q2c, "count") >= n[1], "{d2c:#} {q2c:#}");
        requests += n[1];
        seen += 1;
    }
    assert_eq!(seen, 2, "reads and writes: {said}");
    let dev = u64::from(7 << 20 | minor);
    let layers = view("btt", &trace, &["--by", "device", "--device", disk.name()]);
    let mut steps = 0;
    for line in said.lines().filter_map(|l| l.strip_prefix("step ")) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let theirs: Vec<f64> = words[..2].iter().map(|w| w.parse().expect("number")).collect();
        let ours = row(&layers, words[2], dev);
        println!("{}: {} times, {} in all", words[2], theirs[0], theirs[1]);
        assert_eq!((number(ours, "count"), number(ours, "sum")), (theirs[0], theirs[1]), "{ours:#}");
        steps += 1;
    }
    assert_eq!(steps, 4, "Q2Q, Q2G, Q2M, blocks: {said}");
    // A machine that is busy elsewhere may not be through with the read-ahead.
    assert_eq!(
        number(row(&layers, "blocks of a D", dev), "count"),
        requests + (open + requeued) as f64,
        "#D"
    );
    let only = ["--comm", "fio", "--device", disk.name()];
    let direct = view("btt", &trace, &[&only[..], &["--by", "device"]].concat());
    let (q, d) = (row(&direct, "waiting at Q", dev), row(&direct, "blocks of a D", dev));
    assert_eq!(number(q, "count"), 8192.0, "fio's I/Os: {q:#}");
    // Neighbours that are queued together by chance become one request.
    assert!((8000.0..=8192.0).contains(&number(d, "count")), "few merged: {d:#}");
    let queue = view("blkqueue", &trace, &[&only[..], &["--to", "60s"]].concat());
    let queue = row(&queue, "requests", dev);
    assert!((2.0..=8.0).contains(&number(queue, "max")), "at most fio's depth at once: {queue:#}");
}

#[test]
fn known_writes_are_so_many_requests_seeks_and_slots() {
    if !can("known_writes_are_so_many_requests_seeks_and_slots", &["losetup"]) {
        return;
    }
    let disk = Loop::new(16);
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    record(&trace, "default", &[workload(), "direct-writes", "23", &disk.device]);
    let only = ["--comm", "plumb-workload", "--device", disk.name(), "--by", "operation"];
    let buffer = view("buffer", &trace, &only);
    assert_eq!(number(row(&buffer, "arrival to completion", 1), "count"), 23.0);
    let queue = view("blkqueue", &trace, &only);
    let queue = row(&queue, "requests", 1);
    assert_eq!((number(queue, "count"), number(queue, "max")), (23.0, 1.0), "one at a time: {queue:#}");
    let btt = view("btt", &trace, &only);
    for layer in ["Q2G", "D2C", "Q2C", "waiting at Q", "blocks of a D"] {
        assert_eq!(number(row(&btt, layer, 1), "count"), 23.0, "{layer}");
    }
    for seek in ["Q seek", "D seek"] {
        // 4 KiB every 64 KiB: 120 sectors from the end of one to the begin of the next.
        let seek = row(&btt, seek, 1);
        assert!(number(seek, "count") >= 22.0 && number(seek, "median") == 120.0, "{seek:#}");
    }
}

#[test]
fn waits_for_a_cpu_agree_with_perf() {
    if !can("waits_for_a_cpu_agree_with_perf", &["perf", "taskset", "awk"]) {
        return;
    }
    // perf throttles its tracepoints on a busy machine; then switches are missing.
    for _ in 0..5 {
        let dir = tempfile::tempdir().expect("directory");
        let (trace, data) = (dir.path().join("trace"), dir.path().join("perf.data"));
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-a", "-m", "4096", "-c", "1", "-o"]).arg(&data);
        perf.args(["-e", "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new", "--"]);
        perf.arg(env!("CARGO_BIN_EXE_plumb")).args(["record", "-q", "-e", "sched", "-o"]).arg(&trace);
        perf.args(["--", "taskset", "-c", "0", workload(), "hogs-and-sleepers", "2", "2000"]);
        let out = output(&mut perf);
        if stderr(&out).contains("event syntax error") || stderr(&out).contains("Permission") {
            println!("SKIP waits_for_a_cpu_agree_with_perf: perf cannot record here: {}", stderr(&out));
            return;
        }
        assert!(out.status.success(), "{}", stderr(&out));
        let text = dir.path().join("text");
        std::fs::write(&text, must(Command::new("perf").args(["script", "--ns", "-i"]).arg(&data)))
            .expect("text");
        let said = must(Command::new("awk").arg(include_str!("views/waits.awk")).arg(&text));
        let theirs: HashMap<u64, Vec<u64>> =
            told(&said, "").into_iter().map(|n| (n[0], n[1..].to_vec())).collect();
        let load = told(&String::from_utf8_lossy(&out.stdout), "schedstat ");
        assert_eq!(load.len(), 4, "two hogs and two sleepers");
        let wrong: u64 = load.iter().map(|process| theirs[&process[0]][2]).sum();
        if wrong > 4 {
            println!("perf misses {wrong} switches; once more");
            continue;
        }
        let ours = view("runqueue", &trace, &["--by", "thread"]);
        for process in load {
            let theirs = &theirs[&process[0]];
            let ours = row(&ours, "wait for a CPU", process[0]);
            agree(&format!("waits of {} for a CPU", process[0]), number(ours, "count"), theirs[0] as f64);
            agree(&format!("their time of {} [ns]", process[0]), number(ours, "sum"), theirs[1] as f64);
            assert!(number(ours, "sum") > 1e8, "they were to wait for each other: {ours:#}");
        }
        return;
    }
    println!("SKIP waits_for_a_cpu_agree_with_perf: perf misses switches, the machine is too busy");
}

#[test]
fn lock_contention_agrees_with_perf_lock() {
    if !can("lock_contention_agrees_with_perf_lock", &["perf"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let (trace, data) = (dir.path().join("trace"), dir.path().join("perf.data"));
    let mut perf = Command::new("perf");
    perf.args(["lock", "record", "-q", "-a", "-m", "4096", "-o"]).arg(&data).arg("--");
    perf.arg(env!("CARGO_BIN_EXE_plumb")).args(["record", "-q", "-o"]).arg(&trace);
    perf.args(["--", workload(), "same-file-writes", "4", "1000", "2000000"]).arg(dir.path().join("file"));
    let out = output(&mut perf);
    if stderr(&out).contains("not supported") || stderr(&out).contains("Permission") {
        println!("SKIP lock_contention_agrees_with_perf_lock: perf cannot record here: {}", stderr(&out));
        return;
    }
    assert!(out.status.success(), "{}", stderr(&out));
    let pid = told(&String::from_utf8_lossy(&out.stdout), "process ")[0][0];
    let filter = ["--pid", &pid.to_string()];
    let ours = view("spinlock", &trace, &[&filter[..], &["--by", "thread"]].concat());
    let report = output(Command::new("perf").args(["lock", "contention", "-t", "-i"]).arg(&data));
    // It writes its table to standard error.
    let report = format!("{}{}", String::from_utf8_lossy(&report.stdout), stderr(&report));
    let mut seen = 0;
    for ours in rows(&ours) {
        let tid = ours["id"].to_string();
        let theirs: Vec<&str> = report
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>())
            .find(|w| w.len() > 7 && w[7] == tid)
            .unwrap_or_else(|| panic!("thread {tid}: {ours:#} {report}"));
        assert_eq!(number(ours, "count"), theirs[0].parse::<f64>().expect("count"), "thread {tid}: {report}");
        let scale = match theirs[2] {
            "s" => 1e9,
            "ms" => 1e6,
            "us" => 1e3,
            unit => panic!("unit {unit}: {report}"),
        };
        if scale == 1e3 {
            continue;
        }
        let total = theirs[1].parse::<f64>().expect("total") * scale;
        agree(&format!("lock waits of thread {tid} [ns]"), number(ours, "sum"), total);
        seen += 1;
    }
    assert!(seen >= 3, "the writers were to wait for each other: {report}");
    let types = view("spinlock", &trace, &[&filter[..], &["--by", "type"]].concat());
    let greatest = &rows(&types)[0];
    assert_eq!(greatest["label"], "rwsem writer", "{types:#}");
    assert!(number(&greatest["parts"], "off the CPU") * 2.0 > number(greatest, "sum"), "{greatest:#}");
    let sites = view("spinlock", &trace, &[&filter[..], &["--by", "site"]].concat());
    assert!(rows(&sites)[0]["label"].as_str().expect("site").contains("write"), "{sites:#}");
}

/// Time that the hypervisor took from all CPUs since boot, ns.
fn stolen() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let all = text.lines().next().expect("the line of all CPUs");
    all.split_whitespace().nth(8).expect("steal").parse::<f64>().expect("ticks") * 1e7
}

#[test]
fn runs_and_sleeps_agree_with_schedstat_and_the_load() {
    if !can("runs_and_sleeps_agree_with_schedstat_and_the_load", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let script = format!("{0} spin 700; {0} sleep 700", workload());
    let before = stolen();
    let text = record(&trace, "default", &["sh", "-c", &script]);
    let stolen = stolen() - before;
    let spun = &told(&text, "schedstat ")[0];
    let runs = view("cpu", &trace, &["--by", "process"]);
    let ours = row(&runs, "run", spun[0]);
    // The kernel's count leaves out what the hypervisor took; a trace cannot see that.
    let (run, kernel) = (number(ours, "sum"), spun[1] as f64);
    println!("CPU time [ns]: plumb {run}, schedstat {kernel}, stolen meanwhile {stolen}");
    assert!((kernel * 0.99..=kernel * 1.01 + stolen).contains(&run), "{run} {kernel} {stolen}");
    let parts = &ours["parts"];
    assert_eq!(number(parts, "in interrupts") + number(parts, "outside"), number(ours, "sum"));
    assert!(number(parts, "in interrupts") > 0.0, "700 ms without a timer's interrupt: {ours:#}");
    let sleeps = view("waitqueue", &trace, &["--comm", "plumb-workload", "--by", "call"]);
    let nap = rows(&sleeps).iter().find(|r| r["label"] == "clock_nanosleep").expect("the sleep");
    agree("sleep [ns]", number(nap, "sum"), 700e6);
    // Off the CPU is sleeping and runnable, in three views, for threads that lived within the trace.
    let sum = |name: &str| {
        let view = view(name, &trace, &["--by", "process", "--pid", &spun[0].to_string()]);
        rows(&view).iter().map(|r| number(r, "sum")).sum::<f64>()
    };
    let (off, asleep, ready) = (sum("waittime"), sum("waitqueue"), sum("runqueue"));
    assert!(ready > 0.0 && off == asleep + ready, "{off} {asleep} {ready}");
}

#[test]
fn packets_are_counted_on_their_way_out_and_in() {
    if !can("packets_are_counted_on_their_way_out_and_in", &["babeltrace2", "awk"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    let text = record(&trace, "default,net", &[workload(), "datagrams", "200"]);
    let pid = told(&text, "process ")[0][0].to_string();
    let out = view("netsend", &trace, &["--pid", &pid, "--device", "if1"]);
    let sent = row(&out, "queue to driver", 1);
    assert_eq!(number(sent, "count"), 200.0, "{sent:#}");
    let said = awk(&trace, &format!("pid={pid}"), include_str!("views/packets.awk"));
    assert_eq!(said.trim(), format!("200 {}", number(sent, "sum")), "count and sum");
    let way = view("netroute", &trace, &[]);
    let received = row(&way, "softirq to receive", 1);
    assert!(number(received, "count") >= 200.0, "{received:#}");
}

#[test]
fn logs_windows_and_distributions_tell_the_same_items() {
    if !can("logs_windows_and_distributions_tell_the_same_items", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    record(&trace, "sched", &["sh", "-c", &format!("{} hogs 3 300", workload())]);
    let whole = view("runqueue", &trace, &["--by", "process"]);
    let items = number(&whole, "items");
    assert!(items > 10.0);
    let parts: f64 = [["--from", "0ms", "--to", "150ms"], ["--from", "150000001ns", "--to", "60m"]]
        .iter()
        .map(|window| {
            number(&view("runqueue", &trace, &[&window[..], &["--by", "process"]].concat()), "items")
        })
        .sum();
    assert_eq!(parts, items, "two windows are the whole");
    let mut counted = 0.0;
    for row in rows(&whole) {
        let steps = row["distribution"].as_array().expect("steps");
        let sum: u64 = steps.iter().map(|s| s[2].as_u64().expect("count")).sum();
        assert_eq!(sum as f64, number(row, "count"), "{row:#}");
        counted += number(row, "count");
    }
    assert_eq!(counted, items);
    let log = must(plumb().args(["view", "runqueue", "--log", "--json"]).arg(&trace));
    let lines = items_of(&log, "plumb.view-log");
    assert_eq!(lines.len() as f64, items);
    let ends: Vec<i64> = lines.iter().map(|l| l["end"].as_i64().expect("ns")).collect();
    assert!(ends.windows(2).all(|w| w[0] <= w[1]), "in the order of time");
    let sum: u64 = lines.iter().map(|l| l["value"].as_u64().expect("ns")).sum();
    let table: f64 = rows(&whole).iter().map(|r| number(r, "sum")).sum();
    assert_eq!(sum as f64, table);
    let text = must(plumb().args(["view", "runqueue", "--log"]).arg(&trace));
    assert_eq!(text.lines().count() as f64, items);
    let bars = must(plumb().args(["view", "runqueue", "--dist"]).arg(&trace));
    assert!(bars.contains("####") && bars.contains(" us "), "{bars}");
}

#[test]
fn what_cannot_be_viewed_is_refused_with_the_next_step() {
    if !can("what_cannot_be_viewed_is_refused_with_the_next_step", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let trace = dir.path().join("trace");
    record(&trace, "default", &["true"]);
    let refused = |args: &[&str]| {
        let out = output(plumb().arg("view").arg(args[0]).arg(&trace).args(&args[1..]));
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", stderr(&out));
        stderr(&out)
    };
    let text = refused(&["netsend"]);
    assert!(text.contains("lacks net_dev_queue") && text.contains("-e default,net"), "{text}");
    let text = refused(&["runqueue", "--by", "device"]);
    assert!(text.contains("by 'device'") && text.contains("process, thread"), "{text}");
    assert!(refused(&["buffer", "--device", "nosuch"]).contains("disks: "));
    assert!(refused(&["runqueue", "--device", "loop0"]).contains("leave out --device"));
    assert!(refused(&["runqueue", "--comm", "nobody-at-all"]).contains("threads: "));
    assert!(refused(&["runqueue", "--from", "2s", "--to", "1s"]).contains("is not before"));
    assert!(refused(&["runqueue", "--from", "60m"]).contains("behind the trace's end"));
    let missing = output(plumb().args(["view", "buffer", "/nonexistent"]));
    assert!(stderr(&missing).contains("/nonexistent"), "{}", stderr(&missing));
}
