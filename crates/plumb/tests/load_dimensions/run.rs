// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs `plumb load` under strace in a directory of its own, and tells what its
//! workers called, what it says itself, what is in its log and its files.

use crate::strace::{parse, Call};
use plumb_load::data::read_stamp;
use plumb_load::log::{LogReader, Row};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than anything here takes; then the whole process group is killed.
const LIMIT: Duration = Duration::from_secs(60);
/// What is always traced: who is whose child.
const FAMILY: &str = "clone,clone3,fork,vfork";

/// A load that has run.
pub struct Run {
    /// Where it ran, with its log and its files, which are kept.
    pub dir: PathBuf,
    pub json: Value,
    pub calls: Vec<Call>,
    /// Of each thread of the workers the process.
    threads: HashMap<u32, u32>,
    _own: Option<TempDir>,
}

/// A directory on a disk: that of the build, since /tmp may lie in memory.
pub fn dir() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// True where strace can trace; otherwise says that the test is skipped, and why.
pub fn traced(test: &str) -> bool {
    let traced = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    match traced {
        Ok(out) if out.status.success() => return true,
        Ok(out) => println!("SKIP {test}: strace: {}", String::from_utf8_lossy(&out.stderr).trim()),
        Err(e) => println!("SKIP {test}: strace: {e} (make deps)"),
    }
    false
}

/// Runs a command to its end; killed with all its children when that does not come.
pub fn end(command: &mut Command) -> (i32, Vec<u8>, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut out = child.stdout.take().expect("piped");
    let mut err = child.stderr.take().expect("piped");
    let (done, over) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.read_to_end(&mut bytes);
        let _ = done.send(());
        read.map(|_| bytes)
    });
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    if over.recv_timeout(LIMIT).is_err() {
        // SAFETY: the group of our own child, not waited for yet.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        let _ = child.wait();
        panic!("{command:?} did not end in {LIMIT:?}");
    }
    let status = child.wait().expect("our child");
    let bytes = reader.join().expect("the reader").expect("output");
    let said = complaints.join().expect("the reader").expect("output");
    (status.code().unwrap_or_else(|| panic!("{status}: {said}")), bytes, said)
}

impl Run {
    /// Runs a load in a new directory, with `calls` traced (names separated by commas).
    pub fn new(calls: &str, args: &[&str]) -> Run {
        let own = dir();
        let mut run = Run::within(own.path(), calls, args);
        run._own = Some(own);
        run
    }

    /// Runs a load in a directory that is there.
    pub fn within(dir: &Path, calls: &str, args: &[&str]) -> Run {
        let log = std::fs::read_dir(dir).expect("the directory").count();
        let (traced, log) = (dir.join(format!("{log}.strace")), format!("{log}.log"));
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-s", "8", "-e", &format!("trace={FAMILY},{calls}"), "-o"]).arg(&traced);
        command.arg(env!("CARGO_BIN_EXE_plumb")).arg("load").args(args);
        command
            .args(["--json", "--quiet", "--keep", "--log", &log])
            .current_dir(dir)
            .env_remove("PLUMB_TRACE");
        let (code, out, said) = end(&mut command);
        // 3: so short a run on a busy machine is no measurement, which is so.
        assert!([0, 3].contains(&code), "{args:?}: {code}: {said}");
        let json: Value = serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"));
        let calls = parse(&std::fs::read_to_string(&traced).expect("what strace wrote"));
        let threads = threads(&json, &calls);
        Run { dir: dir.to_owned(), json, calls, threads, _own: None }
    }

    pub fn jobs(&self) -> &Vec<Value> {
        self.json["cells"][0]["rounds"][0][0]["jobs"].as_array().expect("jobs")
    }

    pub fn job(&self) -> &Value {
        &self.jobs()[0]
    }

    /// How many operations of a kind ended; 0 when there is none of it.
    pub fn count(&self, kind: &str) -> u64 {
        self.kind(kind).map_or(0, |k| k["count"].as_u64().expect("a count"))
    }

    /// The figures of a kind.
    pub fn kind(&self, kind: &str) -> Option<&Value> {
        self.job()["operations"].as_array().expect("kinds").iter().find(|k| k["kind"] == kind)
    }

    /// No operation failed, was short or read what nobody wrote.
    pub fn faultless(&self) -> &Self {
        for job in self.jobs() {
            assert_eq!(job["damaged"], 0, "{:?}", job["job"]);
            for kind in job["operations"].as_array().expect("kinds") {
                assert_eq!(
                    (&kind["errors"], &kind["short"]),
                    (&0.into(), &0.into()),
                    "{kind} {}",
                    job["failures"]
                );
            }
        }
        self
    }

    pub fn rows(&self) -> Vec<Row> {
        let path = self.json["logs"][0]["path"].as_str().expect("a log");
        let mut reader = LogReader::open(&self.dir.join(path)).expect("a log");
        let rows = reader.by_ref().collect::<Result<Vec<_>, _>>().expect("rows");
        assert!(reader.complete());
        rows
    }

    /// The places of the rows, in their order.
    pub fn offsets(&self) -> Vec<u64> {
        self.rows().iter().map(|r| r.offset).collect()
    }

    /// The workers' calls of these names.
    pub fn workers(&self, names: &[&str]) -> Vec<&Call> {
        let ours = |c: &&Call| self.threads.contains_key(&c.tid) && names.contains(&c.name.as_str());
        self.calls.iter().filter(ours).collect()
    }

    /// The workers' calls of these names on files with data.
    pub fn on_data(&self, names: &[&str]) -> Vec<&Call> {
        self.workers(names)
            .into_iter()
            .filter(|c| c.args.iter().enumerate().any(|(i, _)| is_data(c.path(i))))
            .collect()
    }

    /// The calls of these names by the program itself, before and after its workers.
    pub fn program(&self, names: &[&str]) -> Vec<&Call> {
        let theirs = |c: &&Call| !self.threads.contains_key(&c.tid) && names.contains(&c.name.as_str());
        self.calls.iter().filter(theirs).collect()
    }

    /// The calls with which the workers opened files with data.
    pub fn opened(&self) -> Vec<&Call> {
        self.workers(&["openat"]).into_iter().filter(|c| is_data(c.args[1].trim_matches('"'))).collect()
    }

    /// Process of each thread of the workers.
    pub fn threads(&self) -> &HashMap<u32, u32> {
        &self.threads
    }

    /// A file that the load made and kept.
    pub fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(self.json["kept"].as_str().expect("kept")).join("1").join(name)
    }

    /// The generations of the stamps in a file, one a block of 4 KiB.
    pub fn generations(&self, name: &str) -> Vec<u64> {
        let bytes = std::fs::read(self.file(name)).expect("the file");
        bytes
            .chunks(4096)
            .enumerate()
            .map(|(i, block)| {
                let stamp = read_stamp(block).unwrap_or_else(|e| panic!("block {i} of {name}: {e:?}"));
                assert_eq!(stamp.offset, i as u64 * 4096);
                stamp.generation
            })
            .collect()
    }
}

fn is_data(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("data."))
}

/// The threads of the worker processes that the result names.
fn threads(json: &Value, calls: &[Call]) -> HashMap<u32, u32> {
    let jobs = json["cells"][0]["rounds"][0][0]["jobs"].as_array().expect("jobs");
    let workers = jobs.iter().flat_map(|j| j["workers"].as_array().expect("workers"));
    let pids: HashSet<u32> = workers.map(|w| w["pid"].as_u64().expect("a process") as u32).collect();
    let mut threads: HashMap<u32, u32> = pids.iter().map(|&p| (p, p)).collect();
    for call in calls.iter().filter(|c| c.name.starts_with("clone")) {
        if let (Some(&pid), Some(child @ 1..)) = (threads.get(&call.tid), call.result) {
            threads.insert(child as u32, pid);
        }
    }
    threads
}
