// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings that go to a collector: whole whatever is killed, and nothing is written where they are made.

mod common;
use common::{
    babeltrace_agrees, can, explain, must, no_program_left, output, plumb, signal, start, stderr, workload,
};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A set with an invitation for web1.
struct Set {
    dir: tempfile::TempDir,
}

impl Set {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let set = Self { dir };
        must(
            plumb()
                .arg("collect")
                .arg(set.path("set"))
                .args(["--invite", "web1", "-o"])
                .arg(set.path("invitation")),
        );
        set
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A collector that listens, and its address.
    fn collect(&self, listen: &str) -> (Child, String) {
        let mut command = plumb();
        command.arg("collect").arg(self.path("set")).args(["--listen", listen]).stderr(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).spawn().expect("start");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        lines.read_line(&mut said).expect("it says where it listens");
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let port =
            said.split_once(", port ").and_then(|(_, rest)| rest.split_once(' ')).map(|(port, _)| port);
        let address = port.map_or(listen.to_string(), |port| format!("127.0.0.1:{port}"));
        (child, address)
    }

    /// A command that records another one, in an empty directory.
    fn record(&self, to: &str, words: &[&str]) -> Command {
        let here = self.path("here");
        std::fs::create_dir_all(&here).expect("directory");
        let mut command = plumb();
        command.current_dir(here).args(["record", "-q", "--json", "--to", to, "--invitation"]);
        command.arg(self.path("invitation")).arg("--").arg(workload()).args(words);
        command
    }

    fn nothing_is_here(&self) {
        assert_eq!(std::fs::read_dir(self.path("here")).expect("directory").count(), 0);
    }
}

fn end(mut child: Child) {
    signal(&child, libc::SIGINT);
    assert!(child.wait().expect("the collector").success());
}

/// A trace has what its recorder says that it recorded.
fn agrees(dir: &Path, outcome: &Value) {
    let quality = &explain(dir)["quality"];
    assert_eq!(quality["events"], outcome["events"], "{quality}");
    assert_eq!((&quality["lost"], &outcome["lost"]), (&Value::from(0), &Value::from(0)), "{quality}");
    assert!(outcome["error"].is_null() && outcome["events"].as_u64() > Some(1000), "{outcome}");
    babeltrace_agrees(dir);
}

#[test]
fn a_recording_is_sent_whole_and_nothing_is_written_here() {
    if !can("a_recording_is_sent_whole_and_nothing_is_written_here", &["babeltrace2"]) {
        return;
    }
    let set = Set::new();
    let (collector, address) = set.collect("127.0.0.1:0");
    let outcome = must(&mut set.record(&address, &["datagrams", "20000"]));
    let outcome: Value = serde_json::from_str(&outcome).expect("JSON");
    set.nothing_is_here();
    agrees(&set.path("set/web1"), &outcome);
    assert_eq!(outcome["dir"], format!("web1 at {address}"));
    end(collector);
}

#[test]
fn a_collector_that_is_killed_and_started_again_has_the_whole_recording() {
    if !can("a_collector_that_is_killed_and_started_again_has_the_whole_recording", &["babeltrace2"]) {
        return;
    }
    let set = Set::new();
    let listen = format!("unix:{}", set.path("s").display());
    let (mut collector, address) = set.collect(&listen);
    let recorder = start(&mut set.record(&address, &["spin", "3000"]), &set.path("set/web1"));
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        signal(&collector, libc::SIGKILL);
        let _ = collector.wait();
        std::thread::sleep(Duration::from_millis(200));
        collector = set.collect(&listen).0;
    }
    let out = recorder.wait_with_output().expect("the recorder");
    assert!(out.status.success(), "{}", stderr(&out));
    agrees(&set.path("set/web1"), &serde_json::from_slice(&out.stdout).expect("JSON"));
    set.nothing_is_here();
    end(collector);
}

#[test]
fn a_sender_that_is_killed_leaves_a_readable_trace_at_the_collector() {
    if !can("a_sender_that_is_killed_leaves_a_readable_trace_at_the_collector", &["bpftool", "babeltrace2"]) {
        return;
    }
    let set = Set::new();
    let (collector, address) = set.collect(&format!("unix:{}", set.path("s").display()));
    let mut recorder = start(&mut set.record(&address, &["spin", "5000"]), &set.path("set/web1"));
    std::thread::sleep(Duration::from_millis(2500));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", recorder.id())).expect("threads").flatten();
    let status =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
    let sender = tasks.map(status).find(|s| s.starts_with("Name:\tsender\n")).expect("a thread that sends");
    assert!(sender.contains("CapPrm:\t0000000000000000\n"), "{sender}");
    signal(&recorder, libc::SIGKILL);
    let _ = recorder.wait();
    no_program_left(recorder.id());
    let text = output(plumb().arg("explain").arg(set.path("set/web1"))).stdout;
    assert!(String::from_utf8_lossy(&text).contains("cut off"));
    assert!(explain(&set.path("set/web1"))["quality"]["events"].as_u64() > Some(100));
    babeltrace_agrees(&set.path("set/web1"));
    // The next one is a recording of its own.
    must(&mut set.record(&address, &["spin", "100"]));
    assert!(set.path("set/web1~2/metadata").exists());
    end(collector);
}

#[test]
fn without_a_collector_or_an_invitation_nothing_is_recorded() {
    if !can("without_a_collector_or_an_invitation_nothing_is_recorded", &[]) {
        return;
    }
    let set = Set::new();
    let out = output(&mut set.record(&format!("unix:{}", set.path("nobody").display()), &["spin", "100"]));
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("does 'plumb collect' listen there?"), "{}", stderr(&out));
    let no = set.path("none");
    let out =
        output(plumb().args(["record", "--to", "localhost:1", "--invitation"]).arg(&no).args(["--", "true"]));
    assert!(out.status.code() == Some(2) && stderr(&out).contains("none"), "{}", stderr(&out));
    let out = output(plumb().args(["record", "--to", "localhost:1", "--", "true"]));
    assert!(stderr(&out).contains("--invitation"), "{}", stderr(&out));
    let out = output(plumb().arg("collect").arg(set.path("other")).args(["--listen", "127.0.0.1:0"]));
    assert!(stderr(&out).contains("--invite NAME' makes one"), "{}", stderr(&out));
    set.nothing_is_here();
}
