// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A registry of one test's own, the disks in it, and what of them is left, as the kernel knows it.

use super::common::scratch::{Running, LIMIT};
use super::common::{can, must, output, plumb, stderr};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Looks until it is so, or `limit` is over; whether it was.
pub fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !done() {
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// As root, with these tools, FUSE and loop devices; otherwise says why the test is skipped.
pub fn able(test: &str, tools: &[&str]) -> bool {
    for node in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(node).exists() {
            println!("SKIP {test}: no {node}");
            return false;
        }
    }
    can(test, tools)
}

/// The registry, below a directory whose name is in the environment of every process of its disks.
pub struct DiskRegistry {
    dir: TempDir,
    _turn: Turn,
}

/// A disk that takes the loop device of a killed one before that was settled finds, and leaves, the other one's values in its queue:
/// each test has a registry of its own, and they know nothing of each other. Who kills is alone.
static TURNS: RwLock<()> = RwLock::new(());

/// Held until the directory is gone.
enum Turn {
    Shared(#[allow(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

impl DiskRegistry {
    /// Beside others. One at a time in a test.
    pub fn new() -> Self {
        Self::of(Turn::Shared(TURNS.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// While no other one is there.
    pub fn alone() -> Self {
        Self::of(Turn::Alone(TURNS.write().unwrap_or_else(PoisonError::into_inner)))
    }

    fn of(turn: Turn) -> Self {
        DiskRegistry { dir: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"), _turn: turn }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn registry(&self) -> PathBuf {
        self.path().join("registry")
    }

    /// `plumb disk` with this registry.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = plumb();
        command.arg("disk").args(args).current_dir(self.path()).env("PLUMB_RUNTIME_DIR", self.registry());
        command
    }

    pub fn disk(&self, args: &[&str]) -> Output {
        Running::of(self.command(args)).end()
    }

    /// What succeeds; its standard output.
    pub fn must(&self, args: &[&str]) -> String {
        let out = self.disk(args);
        assert!(out.status.success(), "disk {args:?}: {}\n{}", out.status, stderr(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What fails with 2, in these words.
    pub fn refused(&self, args: &[&str], words: &[&str]) {
        let out = self.disk(args);
        let said = stderr(&out);
        assert_eq!(out.status.code(), Some(2), "disk {args:?}: {said}");
        assert!(words.iter().all(|w| said.contains(w)), "disk {args:?}: {words:?} are not in: {said}");
    }

    /// A detached disk, as `serve --json` tells of it.
    pub fn serve(&self, args: &[&str]) -> Value {
        let said = self.must(&[&["serve"], args, &["--detach", "--json"]].concat());
        serde_json::from_str(&said).expect("JSON")
    }

    /// One in the foreground that is ready.
    pub fn foreground(&self, args: &[&str], name: &str) -> (Running, Value) {
        let running = Running::of(self.command(&[&["serve", "--name", name], args].concat()));
        let mut disk = Value::Null;
        let ready = within(LIMIT, || {
            disk = self.list().into_iter().find(|d| d["name"] == name).unwrap_or_default();
            !disk.is_null()
        });
        assert!(ready, "{name} is not ready");
        (running, disk)
    }

    pub fn list(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.must(&["list", "--json"])).expect("JSON");
        listed["disks"].as_array().expect("a list").clone()
    }

    /// The processes of its disks, whoever their parent is; D for those that wait for a disk.
    pub fn processes(&self) -> Vec<(u32, String, String)> {
        let mark = self.registry().display().to_string();
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let ours = pids.filter_map(|pid| {
            let read = |file| std::fs::read(format!("/proc/{pid}/{file}")).ok();
            let text = |file| Some(String::from_utf8_lossy(&read(file)?).replace('\0', " "));
            if !text("environ")?.contains(&mark) {
                return None;
            }
            let state = text("stat")?.rsplit_once(") ")?.1[..1].to_owned();
            Some((pid, state, text("cmdline")?))
        });
        ours.filter(|(_, state, _)| state != "Z").collect()
    }

    /// The process that serves the only disk, and the one that holds it.
    pub fn pair(&self) -> (u32, u32) {
        let all = self.processes();
        let one = |word: &str| {
            let found: Vec<_> = all.iter().filter(|p| p.2.contains(word)).map(|p| p.0).collect();
            assert_eq!(found.len(), 1, "{word}: {all:?}");
            found[0]
        };
        (one("disk server"), one("disk holder"))
    }

    /// Everything that there is of it: processes, devices with these names, mounts, registry.
    pub fn left(&self, names: &[&str]) -> Vec<String> {
        let mut left: Vec<String> = self.processes().iter().map(|p| format!("{p:?}")).collect();
        for name in names {
            left.extend(devices(name).iter().map(|d| format!("{d} shows {name}")));
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let here = self.path().display().to_string();
        left.extend(mounts.lines().filter(|l| l.contains(&here)).map(str::to_owned));
        for entry in std::fs::read_dir(self.registry().join("disks")).into_iter().flatten().flatten() {
            left.push(entry.path().display().to_string());
        }
        left
    }

    /// Nothing is left, soon.
    pub fn empty(&self, names: &[&str], limit: Duration) {
        let empty = within(limit, || self.left(names).is_empty());
        assert!(empty, "left after {limit:?}: {:#?}", self.left(names));
    }

    /// Makes an ext4 and mounts it.
    pub fn ext4(&self, device: &str) -> PathBuf {
        super::common::scratch::make_ext4(device);
        self.mount(device)
    }

    pub fn mount(&self, device: &str) -> PathBuf {
        let point = self.path().join("mnt");
        std::fs::create_dir_all(&point).expect("mount point");
        bounded("mount", &[device, &point.display().to_string()]);
        point
    }

    pub fn umount(&self) {
        bounded("umount", &[&self.path().join("mnt").display().to_string()]);
    }
}

/// A tool that must succeed, within a time.
pub fn bounded(tool: &str, args: &[&str]) -> String {
    must(Command::new("timeout").args(["-k", "5", "60", tool]).args(args))
}

/// As that, and may fail.
pub fn tried(tool: &str, args: &[&str]) -> Output {
    output(Command::new("timeout").args(["-k", "5", "60", tool]).args(args))
}

/// Loop devices that show a disk of that name.
pub fn devices(name: &str) -> Vec<String> {
    let all = std::fs::read_dir("/sys/block").expect("sysfs").flatten();
    let ours = all.filter(|e| {
        let backing = std::fs::read_to_string(e.path().join("loop/backing_file"));
        backing.is_ok_and(|b| b.trim_end() == format!("/plumb-disk-{name}"))
    });
    ours.map(|e| format!("/dev/{}", e.file_name().to_string_lossy())).collect()
}

/// A file of a device's queue.
pub fn queue(device: &str, file: &str) -> String {
    let path = format!("/sys/block/{}/queue/{file}", device.trim_start_matches("/dev/"));
    std::fs::read_to_string(&path).expect("queue").trim().to_owned()
}

pub fn kill(pid: u32, signal: i32) {
    // SAFETY: a call with plain numbers, for a process of this test's disks.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "{pid}");
}

/// `device` of what serve said.
pub fn device(disk: &Value) -> String {
    disk["device"].as_str().expect("a device").to_owned()
}

impl Drop for DiskRegistry {
    fn drop(&mut self) {
        let quietly = |command: &mut Command| {
            let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        let point = self.path().join("mnt");
        for (pid, ..) in self.processes() {
            // SAFETY: as in kill(); it may be gone.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        if std::fs::read_to_string("/proc/self/mountinfo")
            .is_ok_and(|m| m.contains(&*point.to_string_lossy()))
        {
            quietly(Command::new("timeout").args(["20", "umount", "-l"]).arg(&point));
        }
        // Changes back what killed ones had changed.
        quietly(&mut self.command(&["list"]));
        let gone = within(Duration::from_secs(20), || self.processes().is_empty());
        assert!(gone || std::thread::panicking(), "left behind: {:?}", self.processes());
    }
}
