// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan run`: every repetition once, whatever happens to it, and the system as it was.
//! What it makes (`run`), what ends it from outside (`end`), what fails in it (`fail`), what it
//! does not begin (`refuse`), cells on other hosts (`hosts`), with a database (`server`), with less memory or fewer CPUs (`confine`); which environment is enough (`size`). Devices are loop devices over files of the test's own.

#[path = "../common/mod.rs"]
mod common;
mod confine;
mod end;
mod fail;
mod hosts;
mod refuse;
mod run;
mod server;
mod size;

use common::plumb;
use common::scratch::{number, text, Running, Scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

pub const TOOLS: [&str; 5] = ["losetup", "mkfs.ext4", "mount", "umount", "fsfreeze"];

/// A parameter of the kernel that does nothing on a machine without swap.
pub const PARAMETER: &str = "/proc/sys/vm/page-cluster";

/// One test at a time: they look at a kernel parameter, and losetup opens the device that it
/// would like to have.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).trim().to_string()
}

/// Writes a plan; `rest` is what stands below its head.
pub fn plan(scratch: &Scratch, name: &str, rest: &str) -> PathBuf {
    let path = scratch.path().join(format!("{name}.toml"));
    let head = format!(
        "name = \"{name}\"\ntitle = \"a test\"\npurpose = \"does it work?\"\nhypothesis = \"it does\"\n\
         takes = \"10s\"\norder = \"given\"\n"
    );
    std::fs::write(&path, head + rest).expect("a plan");
    path
}

/// A cell on an ext4 of a device of this machine, with everything that a plan can change.
pub fn busy(device: &str, script: &str, repeat: u32) -> String {
    let now: u32 = read(PARAMETER).parse().expect("a number");
    let scheduler = read(queue(device).join("scheduler"));
    let other = scheduler.split(' ').find(|w| !w.starts_with('[')).unwrap_or("none");
    format!(
        r#"
        repeat = {repeat}
        [device.disk]
        path = "{device}"
        [device.served]
        model = "instant"
        size = "64M"
        [cell]
        device = ["disk", "served"]
        file-system = {{ kind = "ext4" }}
        prepare = ["sh", "-c", "echo prepared > {{dir}}/file"]
        remount = true
        queue = {{ scheduler = "{other}", read_ahead_kb = 64, nr_requests = 32 }}
        sysctl = {{ "vm.page-cluster" = {} }}
        command = ["sh", "-c", "{script}"]
        [[factor]]
        name = "how"
        level = [{{ name = "one" }}, {{ name = "two", file-system = {{ kind = "ext2" }} }}]
        "#,
        now + 1
    )
}

pub(crate) fn queue(device: &str) -> PathBuf {
    Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join("queue")
}

/// What a plan may change of a device and of the machine.
pub fn settings(device: &str) -> Vec<String> {
    let mut all: Vec<String> = ["scheduler", "read_ahead_kb", "nr_requests", "wbt_lat_usec"]
        .iter()
        .map(|name| {
            format!("{name} {}", std::fs::read_to_string(queue(device).join(name)).unwrap_or_default())
        })
        .collect();
    all.push(read(PARAMETER));
    all
}

pub(crate) fn start(scratch: &Scratch, words: &[&str]) -> Running {
    let mut command = plumb();
    command.arg("plan").args(words).current_dir(scratch.path());
    Running::of(command)
}

pub(crate) fn plan_run(scratch: &Scratch, words: &[&str]) -> Output {
    start(scratch, words).end()
}

pub(crate) fn code(out: &Output) -> i32 {
    out.status.code().unwrap_or_else(|| panic!("{}: {}", out.status, text(&out.stderr)))
}

pub(crate) fn state(dir: &Path) -> Value {
    serde_json::from_str(&read(dir.join("plan.json"))).expect("plan.json")
}

/// The cells and repetitions that were made, with the end of each.
pub fn made(dir: &Path) -> Vec<(u64, u64, Value)> {
    let state = state(dir);
    let all = state["made"].as_array().expect("made").iter();
    let mut made: Vec<_> =
        all.map(|m| (number(m, "cell"), number(m, "repetition"), m["end"].clone())).collect();
    made.sort_by_key(|(cell, repetition, _)| (*cell, *repetition));
    made
}

/// Nothing of a plan is left on the system: no mount, no served disk, no process, no open change.
pub fn nothing_left(scratch: &Scratch, dir: &Path) {
    let mounts = read("/proc/mounts");
    assert!(!mounts.contains(&dir.display().to_string()), "{mounts}");
    let mut open = Vec::new();
    for line in read(dir.join("changes.jsonl")).lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        match (line["number"].as_u64(), line["done"].as_u64()) {
            (Some(number), _) if line["change"] != "began" && line["change"] != "formatted" => {
                open.push((number, line.clone()));
            }
            (_, Some(done)) => open.retain(|(number, _)| *number != done),
            _ => {}
        }
        if let Some(name) = line["name"].as_str().filter(|_| line["change"] == "disk") {
            assert!(!Path::new("/run/plumb/disks").join(format!("{name}.json")).exists(), "{name} is served");
            for disk in std::fs::read_dir("/sys/block").expect("sysfs").flatten() {
                let backing = std::fs::read_to_string(disk.path().join("loop/backing_file"));
                assert!(!backing.unwrap_or_default().contains(name), "{name} has a node");
            }
        }
    }
    assert!(open.is_empty(), "{open:#?}");
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    for process in processes.filter(|p| p.file_name().to_string_lossy().parse::<u32>().is_ok()) {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        assert!(!words.contains(&scratch.path().display().to_string()), "still runs: {words}");
    }
    assert!(!dir.join("mount").exists());
}

/// Kills what a test left of a plan's own processes, when it fails.
pub struct Restore<'a>(pub &'a Path);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.join("changes.jsonl").exists() {
            let _ = plumb().args(["plan", "restore"]).arg(self.0).status();
        }
    }
}
