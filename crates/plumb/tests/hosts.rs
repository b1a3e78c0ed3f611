// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of several hosts as one: network namespaces are the hosts, so that the truth is known.

mod common;
use common::{can, must, output, plumb, signal, start, stderr, workload};
use plumb_trace::ctf::{PacketHead, HEAD_BYTES};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Namespaces in a row, each joined to the next: 10.213.N.1 and 10.213.N.2 are the ends of wire N.
struct Hosts {
    names: Vec<String>,
    dir: tempfile::TempDir,
}

fn ip(words: &[&str]) {
    must(Command::new("ip").args(words));
}

impl Hosts {
    fn new(n: usize) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let set = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |i: usize| format!("plumb{}-{set}-{i}", std::process::id());
        let hosts = Self { names: (0..n).map(name).collect(), dir: tempfile::tempdir().expect("directory") };
        hosts.names.iter().for_each(|name| ip(&["netns", "add", name]));
        for (i, pair) in hosts.names.windows(2).enumerate() {
            let (a, b) = (format!("a{i}"), format!("b{i}"));
            ip(&[
                "link", "add", &a, "netns", &pair[0], "type", "veth", "peer", "name", &b, "netns", &pair[1],
            ]);
            for (name, end, device) in [(&pair[0], 1, &a), (&pair[1], 2, &b)] {
                ip(&["-n", name, "addr", "add", &format!("10.213.{i}.{end}/24"), "dev", device]);
                ip(&["-n", name, "link", "set", device, "up"]);
            }
        }
        hosts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A load on one of them.
    fn on(&self, host: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host]]).arg(workload()).args(words);
        command
    }

    /// The same, recorded as that host alone would.
    fn recorded(&self, host: usize, name: &str, words: &[&str]) -> Command {
        let mut command = plumb();
        command.args(["record", "-q", "--only-target", "-e", "sched,irq,syscall,tcp", "-o"]);
        command.arg(self.path("set").join(name)).args(["--", "ip", "netns", "exec", &self.names[host]]);
        command.arg(workload()).args(words);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = output(Command::new("ip").args(["netns", "del", name]));
        }
    }
}

/// Makes a trace one of a host whose clock is ahead, and faster by parts in a thousand million: of its events, and of
/// its begin and end.
fn shift(trace: &Path, result: &Value, ahead: u64, ppb: u64) {
    let clock = |t: u64| t + ahead + (u128::from(t) * u128::from(ppb) / 1_000_000_000) as u64;
    let mut state = std::fs::read(trace.join("state")).expect("stream");
    for moment in ["begin", "end"].map(|m| number(&result[m])) {
        let at = state.windows(8).rposition(|w| w == moment.to_le_bytes()).expect("it is told");
        state[at..at + 8].copy_from_slice(&clock(moment).to_le_bytes());
    }
    std::fs::write(trace.join("state"), state).expect("stream");
    for file in std::fs::read_dir(trace).expect("trace").flatten() {
        if !file.file_name().to_string_lossy().starts_with("cpu_") {
            continue;
        }
        let mut bytes = std::fs::read(file.path()).expect("stream");
        let mut at = 0;
        while at < bytes.len() {
            let head = PacketHead::decode(&bytes[at..]).expect("packet");
            let moved = PacketHead { begin: clock(head.begin), end: clock(head.end), ..head };
            bytes[at..at + HEAD_BYTES].copy_from_slice(&moved.encode());
            for slot in bytes[at + HEAD_BYTES..at + head.content as usize].chunks_mut(32) {
                // The second half of a record has no time.
                if slot[8..10] == [0xff, 0xff] {
                    continue;
                }
                let ts = u64::from_le_bytes(slot[..8].try_into().expect("eight bytes"));
                slot[..8].copy_from_slice(&clock(ts).to_le_bytes());
            }
            at += head.size as usize;
        }
        std::fs::write(file.path(), bytes).expect("stream");
    }
}

fn explain_set(dir: &Path) -> Value {
    let out = output(plumb().arg("explain").arg(dir).arg("--json"));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&out)))
}

fn only(list: &Value) -> &Value {
    let all = list.as_array().expect("a list");
    assert_eq!(all.len(), 1, "{list:#}");
    &all[0]
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_request_is_followed_to_a_host_with_another_clock() {
    if !can("a_request_is_followed_to_a_host_with_another_clock", &["ip"]) {
        return;
    }
    let hosts = Hosts::new(2);
    let set = hosts.path("set");
    must(plumb().arg("collect").arg(&set).args(["--invite", "db", "-o"]).arg(hosts.path("invitation")));
    let words = ["answer-tcp", "10.213.0.2:7000", "300", "sleep", "2"];
    let mut server = start(&mut hosts.recorded(1, "db", &words), &set.join("db"));
    must(&mut hosts.recorded(0, "web", &["ask-tcp", "10.213.0.2:7000", "300"]));
    assert!(server.wait().expect("server").success());
    let ahead = 1_200_000_000;
    let same = explain_set(&set);
    shift(&set.join("db"), &same["recordings"]["db"], ahead as u64, 37_000);
    let shifted = explain_set(&set);
    for (explained, ahead, ppm) in [(&same, 0_i32, 0.0), (&shifted, ahead, 37.0)] {
        let hosts = &explained["hosts"];
        let clock = only(&hosts["clocks"]);
        assert_eq!((&clock["from"], &clock["to"]), (&"db".into(), &"web".into()));
        // 300 of each kind, and the begin and end of the connection, of which the first are nobody's yet.
        assert!((598..=606).contains(&number(&clock["segments"])), "{clock}");
        let width = number(&clock["width"]) as i64;
        assert!(width > 0 && width < 1_000_000, "{clock}");
        for moment in clock["moments"].as_array().expect("moments") {
            // What db's clock shows then web's shows later by what it is ahead.
            let at = number(&moment["at"]) as f64;
            let truth = (at - f64::from(ahead)) / (1.0 + ppm / 1e6) - at;
            let told = moment["ahead"].as_i64().expect("ns") as f64;
            assert!((told - truth).abs() <= number(&moment["width"]) as f64 + 1.0, "{clock}: really {truth}");
        }
        let drift = clock["drift_ppm"].as_f64().expect("ppm");
        let drift_width = clock["drift_width_ppm"].as_f64().expect("ppm");
        assert!((drift + ppm).abs() <= drift_width, "{clock}");
        let row = only(&hosts["requests"]);
        assert!(
            (295..=300).contains(&number(&row["requests"])) && number(&row["incomplete"]) <= 1,
            "{row:#}"
        );
        assert_eq!((&row["client"], &row["server"]), (&"web".into(), &"db".into()));
        assert_eq!(row["address"], "10.213.0.2:7000");
        let parts = row["parts"].as_array().expect("parts");
        let all: u64 = parts.iter().map(|p| number(&p["time"])).sum();
        let known = if number(&row["incomplete"]) == 0 { all } else { all + number(&row["max"]) };
        assert!(
            all <= number(&row["time"]) && number(&row["time"]) <= known,
            "the parts are the whole: {row:#}"
        );
        // The server sleeps 2 ms over each.
        let work = number(&parts[3]["time"]);
        assert!(work >= 590_000_000 && work * 10 > all * 8, "{row:#}");
    }
    // Its page has the same rows, and a lane of each host: parts on the way are between them.
    let page = output(plumb().args(["report", "--json"]).arg(&set));
    let page: Value = serde_json::from_slice(&page.stdout).expect("JSON");
    assert_eq!((&page["kind"], &page["title"]), (&"hosts".into(), &"db, web".into()));
    let row = only(&page["hosts"]["requests"]);
    assert_eq!(row["slow"], shifted["hosts"]["requests"][0]["slow"]);
    assert_eq!(row["width"], shifted["hosts"]["requests"][0]["width"]);
    let places: Vec<&Value> = row["parts"].as_array().expect("parts").iter().map(|p| &p["host"]).collect();
    let (web, db) = (&Value::from("web"), &Value::from("db"));
    assert_eq!(places, [web, &Value::Null, db, db, db, &Value::Null, web]);
    // The server's own account of it, where its states have the time of its events.
    let parts = &same["hosts"]["requests"][0]["parts"];
    let sleeping = &parts[3]["causes"][0];
    assert_eq!(sleeping["category"], "timer", "{parts:#}");
    assert!(number(&sleeping["time"]) * 2 > number(&parts[3]["time"]), "{parts:#}");
    // Without the server's recording the client tells where it waited.
    std::fs::rename(set.join("db"), hosts.path("db")).expect("moved");
    let alone = explain_set(&set);
    let row = only(&alone["hosts"]["requests"]);
    let [sending, waiting, reading] =
        ["sending", "waiting", "reading"].map(|part| number(&row["peer"][part]));
    assert_eq!(sending + waiting + reading, number(&row["time"]), "{row:#}");
    assert!(
        waiting >= 590_000_000 && row["server"].is_null() && row["parts"] == Value::Array(Vec::new()),
        "{row:#}"
    );
}

#[test]
fn requests_through_three_tiers_of_one_machine_are_one_chain() {
    if !can("requests_through_three_tiers_of_one_machine_are_one_chain", &["ip"]) {
        return;
    }
    let hosts = Hosts::new(3);
    let trace = hosts.path("trace");
    let mut record = plumb();
    record.args(["record", "-q", "-a", "-e", "sched,irq,syscall,tcp", "-o"]).arg(&trace);
    let mut record = start(&mut record, &trace);
    let spawn = |host, words: &[&str]| hosts.on(host, words).spawn().expect("start");
    let mut database = spawn(2, &["answer-tcp", "10.213.1.2:7001", "200", "spin", "3"]);
    let mut web = spawn(1, &["relay-tcp", "10.213.0.2:7000", "200", "10.213.1.2:7001"]);
    must(&mut hosts.on(0, &["ask-tcp", "10.213.0.2:7000", "200"]));
    assert!(web.wait().expect("web").success() && database.wait().expect("database").success());
    signal(&record, libc::SIGINT);
    record.wait().expect("recorder");
    let explained = common::explain(&trace);
    let rows = explained["hosts"]["requests"].as_array().expect("rows");
    let of = |port: &str| {
        let mut found = rows.iter().filter(|r| r["address"].as_str().is_some_and(|a| a.ends_with(port)));
        found.next().unwrap_or_else(|| panic!("no requests to {port}: {rows:#?}"))
    };
    let (outer, inner) = (of(":7000"), of(":7001"));
    // The first may begin before all programs are attached.
    let counts = [number(&outer["requests"]), number(&inner["requests"])];
    assert!(counts.iter().all(|n| (150..=200).contains(n)), "{counts:?}");
    assert_eq!((number(&outer["width"]), number(&inner["width"])), (0, 0), "one machine has one clock");
    // The web server waits for the database, and that computes.
    let cause = &outer["parts"][3]["causes"][0];
    assert_eq!((&cause["category"], &cause["who"]), (&Value::Null, &"10.213.1.2:7001".into()), "{outer:#}");
    assert!(number(&cause["time"]) * 10 > number(&outer["time"]) * 8, "{outer:#}");
    let cause = &inner["parts"][3]["causes"][0];
    assert_eq!(cause["category"], "running", "{inner:#}");
    assert!(number(&cause["time"]) * 2 > number(&inner["parts"][3]["time"]), "{inner:#}");
}

/// The rows of commands of a protocol in a trace of both ends on one machine, by kind.
fn commands(trace: &Path, protocol: &str) -> Vec<(String, u64, u64, u64)> {
    let explained = common::explain(trace);
    let rows = explained["hosts"]["commands"].as_array().expect("rows");
    let of = |row: &Value| {
        assert_eq!((&row["incomplete"], &row["again"]), (&0.into(), &0.into()), "{row:#}");
        let parts: u64 = row["parts"].as_array().expect("parts").iter().map(|p| number(&p["time"])).sum();
        assert_eq!(parts, number(&row["time"]), "the parts are the whole: {row:#}");
        let kind = row["kind"].as_str().expect("kind").to_string();
        (kind, number(&row["commands"]), number(&row["bytes"]), parts)
    };
    // Another test may talk at the same time.
    let mut all: Vec<_> = rows.iter().filter(|row| row["protocol"] == protocol).map(of).collect();
    all.sort();
    all
}

#[test]
fn commands_of_storage_protocols_are_found_wherever_their_headers_lie() {
    if !can("commands_of_storage_protocols_are_found_wherever_their_headers_lie", &["ip", "python3"]) {
        return;
    }
    let talk = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts/talk.py");
    for (words, protocol) in
        [("iscsi", "iSCSI"), ("iscsi-digests", "iSCSI"), ("nvme", "NVMe/TCP"), ("nfs", "NFS")]
    {
        let hosts = Hosts::new(2);
        let trace = hosts.path("trace");
        let on = |host: usize, role: &str| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &hosts.names[host], "python3"]).arg(&talk).args([
                role,
                words,
                "10.213.0.2",
            ]);
            command
        };
        let mut record = plumb();
        record.args(["record", "-q", "-a", "-e", "sched,irq,syscall,block,tcp", "-o"]).arg(&trace);
        let mut record = start(&mut record, &trace);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut server = on(1, "serve").spawn().expect("start");
        must(&mut on(0, "call"));
        assert!(server.wait().expect("server").success());
        signal(&record, libc::SIGINT);
        record.wait().expect("recorder");
        // NFS has no length in its headers.
        let (read, written) = if words == "nfs" { (0, 0) } else { (10 * 4096, 1024 * 100) };
        let told = commands(&trace, protocol);
        let told: Vec<_> = told.iter().map(|(kind, n, bytes, _)| (kind.as_str(), *n, *bytes)).collect();
        assert_eq!(told, [("read", 10, read), ("write", 10, written)], "{words}");
    }
}

#[test]
fn requests_of_a_served_disk_are_commands() {
    if !can("requests_of_a_served_disk_are_commands", &["ip", "qemu-io"]) {
        return;
    }
    let hosts = Hosts::new(2);
    let trace = hosts.path("trace");
    let on = |host: usize, program: &std::ffi::OsStr| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &hosts.names[host]]).arg(program);
        command
    };
    let mut disk = on(1, plumb().get_program());
    disk.args([
        "disk",
        "serve",
        "instant",
        "--no-device",
        "--no-calibrate",
        "--size",
        "64M",
        "--nbd",
        "10.213.0.2:10809",
    ]);
    let mut disk = disk.stdout(std::process::Stdio::null()).spawn().expect("start");
    let mut record = plumb();
    record.args(["record", "-q", "-a", "-e", "sched,irq,syscall,block,tcp", "-o"]).arg(&trace);
    let mut record = start(&mut record, &trace);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut client = on(0, "qemu-io".as_ref());
    client.args([
        "-f",
        "raw",
        "nbd://10.213.0.2:10809",
        "-c",
        "write 0 64k",
        "-c",
        "aio_read 0 4k",
        "-c",
        "aio_read 64k 4k",
    ]);
    client.args(["-c", "aio_write 4k 4k", "-c", "aio_flush", "-c", "read 1M 1M", "-c", "flush"]);
    must(&mut client);
    signal(&record, libc::SIGINT);
    record.wait().expect("recorder");
    signal(&disk, libc::SIGINT);
    disk.wait().expect("disk");
    let told = commands(&trace, "NBD");
    let told: Vec<_> = told.iter().map(|(kind, n, bytes, _)| (kind.as_str(), *n, *bytes)).collect();
    // It sends a flush of its own when it closes the disk.
    assert_eq!(told[1..], [("read", 3, (1 << 20) + 8192), ("write", 2, 65536 + 4096)]);
    assert_eq!((told[0].0, told[0].2), ("flush", 0));
    assert!((1..=3).contains(&told[0].1), "{told:?}");
}
