// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A served disk with its log, a load on it that plumb records, and both sides' figures.

use super::common::scratch::{text, Running};
use super::common::{self, must, plumb};
use super::registry::{device, DiskRegistry};
use plumb_sim::device::Operation;
use plumb_sim::serve::log::{self, Line};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Times are measured by one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that wants to be woken each millisecond and is later than this, ns, in one of a hundred
/// times, is on a machine that does too much else for times to be compared.
const DISTURBED: u64 = 500_000;

pub enum Missed {
    Wrong(String),
    /// It differs, and the disk itself says that its answers went out late.
    Late(String),
}

impl From<String> for Missed {
    fn from(why: String) -> Self {
        Missed::Wrong(why)
    }
}

/// Looks up to three times, for others use the machine too: what is wrong each time is wrong, unless
/// the machine was too busy each time.
pub fn thrice(what: &str, mut look: impl FnMut() -> Result<(), Missed>) {
    let (mut wrong, mut disturbed) = (Vec::new(), 0);
    for attempt in 1..=3 {
        quiet();
        let watch = Watch::new();
        let seen = look();
        let late = watch.end();
        let (why, busy) = match seen {
            Ok(()) => return,
            Err(Missed::Wrong(why)) => (why, late > DISTURBED),
            Err(Missed::Late(why)) => (why, true),
        };
        let why = format!("{why} [p99 of being woken too late: {late} ns]");
        println!("{what}, attempt {attempt}: {why}");
        wrong.push(why);
        disturbed += u32::from(busy);
    }
    if disturbed == 3 {
        println!("SKIP {what}: the machine is too busy to compare times:\n{}", wrong.join("\n"));
        return;
    }
    panic!("{what}, three times:\n{}", wrong.join("\n"));
}

/// Waits for a moment in which the machine does little else, and no longer than it is worth.
fn quiet() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let watch = Watch::new();
        std::thread::sleep(Duration::from_millis(500));
        if watch.end() <= DISTURBED {
            return;
        }
    }
}

/// Measures how late the machine wakes who asks for it.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Watch {
    fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let watch = move || {
            let mut late = Vec::new();
            while !theirs.load(Relaxed) {
                let (begun, wanted) = (Instant::now(), Duration::from_millis(1));
                std::thread::sleep(wanted);
                late.push((begun.elapsed() - wanted).as_nanos() as u64);
            }
            late
        };
        Watch { over, thread: std::thread::spawn(watch) }
    }

    /// The lateness that 99 % do not exceed, ns.
    fn end(self) -> u64 {
        self.over.store(true, Relaxed);
        let mut late = self.thread.join().expect("the watch");
        late.sort_unstable();
        quantile(&late, 99)
    }
}

/// The value that a share of `percent` is not above (nearest rank), of sorted ones.
pub fn quantile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// A disk and its log.
pub struct Served<'h> {
    disks: &'h DiskRegistry,
    name: &'static str,
    pub device: String,
    /// How much earlier than the model says answers go out, ns.
    pub path: u64,
    log: PathBuf,
}

impl<'h> Served<'h> {
    /// Serves a gigabyte of it; `more`: further options.
    pub fn new(disks: &'h DiskRegistry, model: &str, more: &[&str]) -> Self {
        let name = "truth";
        let log = disks.path().join("requests.csv");
        let _ = std::fs::remove_file(&log);
        let path = log.display().to_string();
        let fixed = [model, "--size", "1G", "--name", name, "--log", &path];
        let disk = disks.serve(&[&fixed[..], more].concat());
        let path = disk["timing"]["path_p50"].as_u64().unwrap_or(0);
        Served { disks, name, device: device(&disk), path, log }
    }

    /// `plumb load` on the device; its JSON.
    pub fn load(&self, args: &[&str]) -> Value {
        let mut command = plumb();
        command.arg("load").args(args).args(["--destroy", &self.device, "--json", "--quiet", &self.device]);
        command.current_dir(self.disks.path()).env_remove("PLUMB_TRACE");
        let (code, all) = super::common::scratch::result(&Running::of(command).end());
        // 3 says that on a busy machine it is no measurement.
        assert!([0, 3].contains(&code), "{args:?}: {code}: {all:#}");
        all
    }

    /// `plumb run` on such a load; what it recorded, with the log. Ends the disk.
    pub fn record(self, args: &[&str]) -> Recorded {
        let dir = self.disks.path().join("run");
        let _ = std::fs::remove_dir_all(&dir);
        let mut command = plumb();
        command.args(["run", "-o"]).arg(&dir).arg("--").arg(env!("CARGO_BIN_EXE_plumb")).arg("load");
        command.args(args).args(["--destroy", &self.device, "--quiet", &self.device]);
        command.current_dir(self.disks.path()).env_remove("PLUMB_TRACE");
        let out = Running::of(command).end();
        let said = text(&out.stderr);
        assert!(out.status.code().is_some_and(|c| [0, 3].contains(&c)), "{args:?}: {}: {said}", out.status);
        let json = std::fs::read_to_string(dir.join("result.json")).expect("result.json");
        let result = serde_json::from_str(&json).expect("JSON");
        let name = self.device.trim_start_matches("/dev/").to_owned();
        let view =
            must(plumb().args(["view", "btt", "--by", "operation", "--json", "--device", &name]).arg(&dir));
        let btt: Value = serde_json::from_str(&view).expect("JSON");
        let items = must(plumb().args(["view", "btt", "--log", "--json", "--device", &name]).arg(&dir));
        let begin = btt["begin"].as_i64().expect("begin");
        let d2c = common::items(&items, "plumb.view-log").into_iter();
        let at = |item: &Value, field: &str| (item[field].as_i64().expect("ns") + begin) as u64;
        let request = |i: Value| {
            let operation = i["operation"].as_str().expect("an operation").to_owned();
            Request { operation, issued: at(&i, "begin"), completed: at(&i, "end") }
        };
        let d2c = d2c.filter(|i| i["kind"] == "D2C").map(request).collect();
        let (from, to) = (btt["from"].as_u64().expect("from"), btt["to"].as_u64().expect("to"));
        let lines = self.end().into_iter().filter(|l| (from..=to).contains(&l.arrival)).collect();
        Recorded { device: name, result, btt, d2c, lines }
    }

    /// Ends the disk; all of its log.
    pub fn end(self) -> Vec<Line> {
        self.disks.must(&["stop", self.name]);
        let mut lines = log::read(&self.log).expect("the log");
        let all = lines.by_ref().map(|l| l.expect("a line")).collect();
        assert_eq!(lines.lost(), 0, "lines of the log");
        all
    }
}

/// A request as plumb recorded it; CLOCK_MONOTONIC ns.
pub struct Request {
    pub operation: String,
    pub issued: u64,
    pub completed: u64,
}

/// What plumb recorded, and what the disk says of the same time.
pub struct Recorded {
    pub device: String,
    pub result: Value,
    btt: Value,
    pub d2c: Vec<Request>,
    /// Requests that came while it recorded.
    pub lines: Vec<Line>,
}

impl Recorded {
    /// The finding of that name.
    pub fn finding(&self, id: &str) -> Option<&Value> {
        self.result["findings"].as_array().expect("findings").iter().find(|f| f["id"] == id)
    }

    /// Requests, p50 and p99 from issue to completion, ns, as `plumb view btt` tells them.
    pub fn told(&self, operation: &str) -> Option<[u64; 3]> {
        let rows = self.btt["tables"][0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|r| r["kind"] == "D2C" && r["label"] == operation)?;
        Some(["count", "median", "p99"].map(|k| row[k].as_u64().expect("a number")))
    }

    /// The model's times of an operation, ns, sorted.
    pub fn model(&self, operation: Operation) -> Vec<u64> {
        let all = self.lines.iter().filter(|l| l.operation == operation && l.model > 0);
        let mut all: Vec<u64> = all.map(|l| l.model).collect();
        all.sort_unstable();
        all
    }

    /// How long the disk took for an operation, from arrival to answer, by its own log, ns, sorted.
    pub fn taken(&self, operation: Operation) -> Vec<u64> {
        let all = self.lines.iter().filter(|l| l.operation == operation && l.model > 0);
        let mut all: Vec<u64> = all.map(|l| l.sent.saturating_sub(l.arrival)).collect();
        all.sort_unstable();
        all
    }

    /// How much later than the model asked for the disk's answers went out, ns, sorted; `path`: as
    /// much earlier they should.
    pub fn late(&self, path: u64) -> Vec<u64> {
        let all = self.lines.iter().filter(|l| l.model > path);
        let mut all: Vec<u64> = all.map(|l| l.sent.saturating_sub(l.arrival + l.model - path)).collect();
        all.sort_unstable();
        all
    }

    /// Each recorded request with the only line of the log that came while it was under way.
    pub fn pairs(&self) -> Vec<(u64, Line)> {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|l| l.arrival);
        let of = |r: &Request| {
            let first = lines.partition_point(|l| l.arrival < r.issued);
            let last = lines.partition_point(|l| l.arrival <= r.completed);
            (last == first + 1).then(|| (r.completed - r.issued, lines[first]))
        };
        self.d2c.iter().filter_map(of).collect()
    }
}

/// A new file system of that kind.
pub fn mkfs(kind: &str, device: &str) {
    must(Command::new("timeout").args(["-k", "5", "60", &format!("mkfs.{kind}"), "-q", "-F", device]));
}
