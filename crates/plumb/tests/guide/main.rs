// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide` on seeded cases: each has one setting that is wrong, which the guide must find by measuring, change,
//! and put back. Cases with a remedy (`remedy`), without one (`none`), and what goes wrong on the way (`end`). Disks are
//! served ones of the test's own.

#[path = "../common/mod.rs"]
mod common;
mod end;
mod none;
mod remedy;

use common::scratch::Scratch;
use common::{can, must, output, plumb, stderr};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One at a time: a guide refuses to begin where another one changes the machine.
static ALONE: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// None, and said so, where this machine cannot do it.
pub(crate) fn ready(test: &str, tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    can(test, tools).then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).trim().to_string()
}

/// A disk of a model, served for one test.
pub(crate) struct Disk {
    name: String,
    pub device: String,
}

impl Disk {
    /// None, and said so, where no disk can be served.
    pub fn serve(test: &str, model: &str) -> Option<Disk> {
        let name = format!("guide-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let words =
            ["disk", "serve", model, "--size", "512M", "--no-calibrate", "--detach", "--json", "--name"];
        let out = output(plumb().args(words).arg(&name));
        if !out.status.success() {
            println!("SKIP {test}: {}", stderr(&out));
            return None;
        }
        let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let device = all["device"].as_str().expect("a device").to_string();
        Some(Disk { name, device })
    }

    pub fn queue(&self, attribute: &str) -> PathBuf {
        Path::new("/sys/block").join(self.device.trim_start_matches("/dev/")).join("queue").join(attribute)
    }

    pub fn set(&self, attribute: &str, value: &str) {
        std::fs::write(self.queue(attribute), value).expect(attribute);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The kernel gives a loop device's queue as it is to whoever gets the number next.
        // A queue without a scheduler may say 128 where its driver's depth is another: only a change sets it.
        for (attribute, made) in
            [("scheduler", "none"), ("nr_requests", "127"), ("nr_requests", "128"), ("read_ahead_kb", "128")]
        {
            let _ = std::fs::write(self.queue(attribute), made);
        }
        let _ = plumb().args(["disk", "stop", "--force", &self.name]).output();
    }
}

/// A process that is killed at the end of the test, with its children.
pub(crate) struct Neighbour(pub Child);

impl Neighbour {
    pub fn start(command: &mut Command) -> Neighbour {
        command.process_group(0);
        Neighbour(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("started"),
        )
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // SAFETY: the group of our own child, which is not waited for yet.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// What a guide may change of the machine: queues of the disk, kernel parameters, mounts below the scratch, loop devices
/// and cgroups of the test's own.
pub(crate) fn found(scratch: &Scratch, disk: Option<&Disk>, group: Option<&Path>) -> Vec<String> {
    let mut all = Vec::new();
    let mut take = |dir: &Path| {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if let Ok(text) = std::fs::read_to_string(entry.path()) {
                all.push(format!("{}: {}", entry.path().display(), text.trim()));
            }
        }
    };
    if let Some(disk) = disk {
        take(&disk.queue(""));
        take(&disk.queue("iosched"));
    }
    for name in
        ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio", "swappiness"]
    {
        all.push(format!("{name}: {}", read(format!("/proc/sys/vm/{name}"))));
    }
    all.push(std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default());
    for name in [
        "cpu.cfs_quota_us",
        "cpu.max",
        "memory.limit_in_bytes",
        "memory.high",
        "io.max",
        "blkio.throttle.read_bps_device",
    ] {
        let text = group.and_then(|g| std::fs::read_to_string(g.join(name)).ok());
        all.extend(text.map(|t| format!("{name}: {t}")));
    }
    let ours = scratch.path().display().to_string();
    all.extend(read("/proc/mounts").lines().filter(|l| l.contains(&ours)).map(str::to_string));
    all.extend(std::fs::read_dir("/sys/block").expect("sysfs").flatten().filter_map(|e| {
        let backing = std::fs::read_to_string(e.path().join("loop/backing_file")).ok()?;
        backing.contains(&ours).then(|| format!("{}: {backing}", e.path().display()))
    }));
    all.sort();
    all
}

/// `plumb guide` with these words before the command, in the scratch's directory.
pub(crate) fn guide(scratch: &Scratch, words: &[&str], command: &[&str]) -> Command {
    let mut guide = plumb();
    guide.arg("guide").args(words).current_dir(scratch.path());
    if !command.is_empty() {
        guide.arg("--").args(command);
    }
    guide
}

pub(crate) fn state(scratch: &Scratch, dir: &str) -> Value {
    serde_json::from_str(&read(scratch.path().join(dir).join("guide.json"))).expect("guide.json")
}

/// `KEY: VERDICT` of each change that was tried.
pub(crate) fn tried(state: &Value) -> Vec<String> {
    let steps = state["steps"].as_array().expect("steps").iter().skip(1);
    steps
        .map(|s| {
            let verdict = s["verdict"].as_str().map_or_else(|| s["verdict"].to_string(), str::to_string);
            format!("{}: {verdict}", s["change"]["key"].as_str().expect("a key"))
        })
        .collect()
}

/// It ended with this exit code; otherwise all that it said.
pub(crate) fn ended(out: &Output, code: i32) {
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(code), "{said}\n{}", stderr(out));
}

/// Reached its goal by an accepted change of one of these tunables, and left everything as it was found.
pub(crate) fn reaches(case: &Case, by: &[&str]) {
    let before = found(case.scratch, case.disk, case.group);
    let words: Vec<&str> = ["-o", "g", "--steps", "6"].iter().chain(case.words).copied().collect();
    let mut command = guide(case.scratch, &words, &[]);
    (case.start)(&mut command);
    command.arg("--").args(case.command);
    let out = output(&mut command);
    ended(&out, 0);
    let state = state(case.scratch, "g");
    println!(
        "{:?} {}",
        tried(&state),
        String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default()
    );
    assert_eq!(state["end"], "goal-reached");
    assert!(by.iter().any(|key| tried(&state).contains(&format!("{key}: accepted"))), "{:?}", tried(&state));
    assert_eq!(found(case.scratch, case.disk, case.group), before);
    let report = read(case.scratch.path().join("g/report.md"));
    assert!(report.contains("Goal reached") && report.contains("## 7 Changes"), "{report}");
    let told = must(plumb().args(["guide", "undo", "g"]).current_dir(case.scratch.path()));
    assert_eq!(told, "nothing was left changed\n");
}

/// A seeded case.
pub(crate) struct Case<'a> {
    pub scratch: &'a Scratch,
    pub disk: Option<&'a Disk>,
    pub group: Option<&'a Path>,
    pub words: &'a [&'a str],
    /// What else `plumb guide` is started with.
    pub start: fn(&mut Command),
    pub command: &'a [&'a str],
}
