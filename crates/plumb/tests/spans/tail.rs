// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server of which one request in a hundred is slow, for a cause that is known: the verdict tells it.

use crate::common::{self, can, explain, must, output, plumb, stderr};
use crate::spans;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Requests of a run: some seconds.
const REQUESTS: &str = "8000";

/// The server, compiled.
fn build(dir: &Path) -> PathBuf {
    let to = dir.join("tail");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spans/tail.c");
    must(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&to).arg(source));
    to
}

fn start(dir: &Path, cause: &str, port: &str) -> Child {
    let mut command = Command::new(build(dir));
    command.args([cause, REQUESTS]).arg(dir.join("file")).arg(port).stdout(Stdio::piped());
    command.spawn().expect("server")
}

/// Records the server, knowing nothing but its process, until it ends.
fn recorded(dir: &Path, server: Child) -> Value {
    let trace = dir.join("trace");
    let mut command = plumb();
    command.args(["record", "-q", "--pid", &server.id().to_string(), "-o"]).arg(&trace);
    let out = output(&mut command);
    assert!(out.status.success(), "{}", stderr(&out));
    let clients = server.wait_with_output().expect("server");
    assert!(clients.status.success());
    let explained = explain(&trace);
    println!("its clients, ns: {}{}", String::from_utf8_lossy(&clients.stdout), verdict(&explained));
    explained
}

fn verdict(explained: &Value) -> String {
    let lines = explained["verdict"].as_array().expect("verdict");
    lines.iter().map(|l| format!("    {}\n", l.as_str().unwrap_or_default())).collect()
}

/// What the slowest requests have more of than the others, of a category; and that the verdict has the words. It need not
/// be the first: the machine may be busy.
fn cause(explained: &Value, category: &str, words: &str) -> Value {
    let span = &spans(explained)[0];
    assert_eq!(span["name"], "request", "{span}");
    let told = verdict(explained);
    assert!(told.contains("of request 'tail'") && told.contains(words), "{words}: {told}");
    let causes = span["tail"]["causes"].as_array().expect("causes");
    let found = causes.iter().find(|c| c["category"].as_str().is_some_and(|c| c.starts_with(category)));
    found.unwrap_or_else(|| panic!("{category}: {causes:?}")).clone()
}

#[test]
fn a_lock_that_a_thread_keeps_is_told() {
    if !can("a_lock_that_a_thread_keeps_is_told", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let explained = recorded(dir.path(), start(dir.path(), "lock", "0"));
    cause(&explained, "lock.user", "user-space lock");
    // Behind a queue of others it is still that one which keeps it.
    let lock = &explained["locks"][0];
    let doing = lock["doing"].as_array().expect("doing");
    let asleep = doing.iter().find(|d| d["category"] == "timer").expect("asleep");
    let all: u64 = doing.iter().filter_map(|d| d["time"].as_u64()).sum();
    assert!(asleep["time"].as_u64().expect("time") * 10 > all * 8, "{lock}");
}

#[test]
fn a_thread_that_stops_all_others_is_told() {
    if !can("a_thread_that_stops_all_others_is_told", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let explained = recorded(dir.path(), start(dir.path(), "pause", "0"));
    cause(&explained, "other.running", "another thread, which was running");
}

#[test]
fn a_sync_is_told() {
    if !can("a_sync_is_told", &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let explained = recorded(dir.path(), start(dir.path(), "fsync", "0"));
    cause(&explained, "block.", "waiting for I/O");
}

/// A cgroup with a quota of CPU time, removed when dropped.
struct Quota(PathBuf);

impl Quota {
    fn new(us: u64) -> Option<Self> {
        let name = format!("plumb-test-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let (dir, file, text) = match root.join("cgroup.controllers").exists() {
            true => (root.join(name), "cpu.max", format!("{us} 100000")),
            false => (root.join("cpu").join(name), "cpu.cfs_quota_us", us.to_string()),
        };
        std::fs::create_dir(&dir).ok()?;
        let quota = Self(dir);
        std::fs::write(quota.0.join(file), text).ok()?;
        Some(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_is_told() {
    if !can("a_quota_is_told", &["cc"]) {
        return;
    }
    let Some(quota) = Quota::new(60_000) else {
        println!("SKIP a_quota_is_told: no cgroup with a CPU quota can be made");
        return;
    };
    let dir = tempfile::tempdir().expect("directory");
    let server = start(dir.path(), "quota", "0");
    std::fs::write(quota.0.join("cgroup.procs"), server.id().to_string()).expect("cgroup");
    let explained = recorded(dir.path(), server);
    cause(&explained, "runnable.held", "not allowed to run");
}

#[test]
fn a_neighbour_of_the_disk_is_told() {
    if !can("a_neighbour_of_the_disk_is_told", &["cc", "dd", "timeout"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let (file, other) = (dir.path().join("file"), dir.path().join("other"));
    let make = |to: &Path| {
        must(
            Command::new("dd")
                .args(["if=/dev/urandom", "bs=1M", "count=128", "conv=fsync"])
                .arg(format!("of={}", to.display())),
        )
    };
    make(&file);
    // A rest, then as much as the disk takes.
    let script = format!(
        "while :; do sleep 0.7; for i in 1 2 3 4 5 6; do \
         dd if=/dev/zero of={}.$i bs=8M count=8 oflag=direct conv=notrunc & done; wait; done",
        other.display()
    );
    let mut neighbour = Command::new("timeout");
    neighbour.args(["60", "sh", "-c", &script]).stderr(Stdio::null());
    let mut neighbour = neighbour.spawn().expect("neighbour");
    let explained = recorded(dir.path(), start(dir.path(), "read", "0"));
    common::signal(&neighbour, libc::SIGTERM);
    let _ = neighbour.wait();
    let cause = cause(&explained, "block.schedule", "which served dd");
    assert_eq!(cause["beside"], "dd", "{cause}");
}

/// Segments lost on their way to a port, until dropped.
struct Loss;

impl Loss {
    fn new(dir: &Path, port: &str) -> Option<Self> {
        let object = dir.join("drop.o");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spans/drop.c");
        let mut clang = Command::new(if can_run("clang-14") { "clang-14" } else { "clang" });
        clang.args(["-O2", "-g", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu"]);
        clang.args(["-I/usr/include/aarch64-linux-gnu", &format!("-DPORT={port}"), "-c", "-o"]);
        must(clang.arg(&object).arg(source));
        let tc = |words: &[&str]| output(Command::new("tc").args(words)).status.success();
        let loss = tc(&["qdisc", "add", "dev", "lo", "clsact"]).then_some(Self)?;
        let object = object.display().to_string();
        tc(&["filter", "add", "dev", "lo", "ingress", "bpf", "da", "obj", &object, "sec", "tc"])
            .then_some(loss)
    }
}

fn can_run(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}

impl Drop for Loss {
    fn drop(&mut self) {
        let _ = Command::new("tc").args(["qdisc", "del", "dev", "lo", "clsact"]).status();
    }
}

#[test]
fn a_segment_that_was_lost_is_told() {
    const PORT: &str = "47113";
    let test = "a_segment_that_was_lost_is_told";
    if !can(test, &["cc", "tc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let Some(_loss) = Loss::new(dir.path(), PORT) else {
        println!("SKIP {test}: tc cannot attach a BPF filter to lo");
        return;
    };
    let explained = recorded(dir.path(), start(dir.path(), "relay", PORT));
    let cause = cause(&explained, "network", "TCP retransmission");
    assert_eq!(cause["who"], "TCP retransmission");
    assert_eq!(explained["findings"][0]["id"], "net.retransmit");
}
