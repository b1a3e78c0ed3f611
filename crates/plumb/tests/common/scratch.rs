// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A directory of one test's own, with its images, loop devices and mounts, in
//! which `plumb load` is run. What the kernel has of it is asked of the kernel,
//! so that all of it goes at the end, whoever made it.

use super::{items, must, plumb};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes on a machine that others use too.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The directory. It lies on a disk, that of the build: /tmp may lie in memory.
pub struct Scratch {
    dir: TempDir,
}

/// Lines of a file of /proc.
fn lines(path: &str) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_string).collect()
}

impl Scratch {
    pub fn new() -> Self {
        Scratch { dir: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A sparse file of so many MiB.
    pub fn image(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path().join(name);
        std::fs::File::create(&path).expect("an image").set_len(mib << 20).expect("its length");
        path
    }

    /// Shows a file as a disk; returns /dev/loopN.
    pub fn attach(&self, image: &Path, options: &[&str]) -> String {
        assert!(image.starts_with(self.path()), "{} is not of this scratch", image.display());
        must(Command::new("losetup").args(["--find", "--show"]).args(options).arg(image)).trim().to_string()
    }

    /// An empty disk of so many MiB.
    pub fn disk(&self, name: &str, mib: u64) -> String {
        self.attach(&self.image(name, mib), &[])
    }

    /// Mounts at a new directory `name`.
    pub fn mount(&self, device: &str, name: &str, options: &[&str]) -> PathBuf {
        let point = self.path().join(name);
        std::fs::create_dir_all(&point).expect("a mount point");
        must(Command::new("mount").args(options).arg(device).arg(&point));
        point
    }

    /// A new ext4, all of whose blocks anyone may take, mounted at `name`.
    pub fn ext4(&self, device: &str, name: &str, options: &[&str]) -> PathBuf {
        make_ext4(device);
        self.mount(device, name, options)
    }

    /// The kernel's loop devices of this scratch's files.
    fn loops(&self) -> Vec<String> {
        let all = std::fs::read_dir("/sys/block").expect("sysfs").flatten();
        let ours = all.filter(|e| {
            let backing = std::fs::read_to_string(e.path().join("loop/backing_file"));
            backing.is_ok_and(|b| Path::new(&b).starts_with(self.path()))
        });
        ours.map(|e| format!("/dev/{}", e.file_name().to_string_lossy())).collect()
    }

    /// Mount points within, the innermost last.
    fn mounts(&self) -> Vec<String> {
        let all = lines("/proc/mounts").into_iter().filter_map(|l| Some(l.split(' ').nth(1)?.to_string()));
        all.filter(|point| Path::new(point).starts_with(self.path())).collect()
    }

    /// What is swapped to of it.
    fn swaps(&self) -> Vec<String> {
        let loops = self.loops();
        let all =
            lines("/proc/swaps").into_iter().filter_map(|l| Some(l.split_whitespace().next()?.to_string()));
        all.filter(|s| loops.contains(s) || Path::new(s).starts_with(self.path())).collect()
    }

    /// Everything that the kernel has of it, and every name in it.
    pub fn state(&self) -> Vec<String> {
        let mut all = [self.loops(), self.mounts(), self.swaps()].concat();
        let mut open = vec![self.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                all.push(entry.path().display().to_string());
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        all.sort();
        all
    }

    /// `plumb load` as a command, in this directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = plumb();
        command.arg("load").args(args).current_dir(self.path()).env_remove("PLUMB_TRACE");
        command
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args))
    }

    pub fn load(&self, args: &[&str]) -> Output {
        self.start(args).end()
    }

    /// The result as JSON, with the exit code.
    pub fn coded(&self, args: &[&str]) -> (i32, Value) {
        result(&self.load(&[args, &["--json", "--quiet"]].concat()))
    }

    /// The result of a run that measured. 3 says that a short run on a busy
    /// machine is no measurement, which is so.
    pub fn json(&self, args: &[&str]) -> Value {
        let (code, all) = self.coded(args);
        assert!([0, 3].contains(&code), "{args:?}: {code}: {all:#}");
        all
    }

    /// What is refused, in these words; nothing was made or undone.
    pub fn refused(&self, args: &[&str], words: &[&str]) {
        let before = self.state();
        refuses(&self.load(args), words);
        assert_eq!(self.state(), before, "{args:?}");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let quietly = |tool: &str, args: &[&str]| {
            let _ = Command::new(tool).args(args).stderr(Stdio::null()).status();
        };
        let left = || [self.swaps(), self.mounts(), self.loops()].concat();
        // A disk may lie in a file system on another one; and the kernel takes a
        // disk down when its last user is gone, a moment later.
        for _ in 0..100 {
            self.swaps().iter().for_each(|s| quietly("swapoff", &[s]));
            for point in self.mounts().iter().rev() {
                // A file system that a failed test left frozen cannot be unmounted.
                quietly("fsfreeze", &["-u", point]);
                quietly("umount", &[point]);
            }
            self.loops().iter().for_each(|l| quietly("losetup", &["-d", l]));
            if left().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(std::thread::panicking(), "left behind: {:?}", left());
    }
}

pub fn make_ext4(device: &str) {
    let options = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    must(Command::new("mkfs.ext4").args(options).arg(device));
}

/// A command under way, in a process group of its own.
pub struct Running(Option<Child>);

impl Running {
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Running(Some(command.spawn().expect("start")))
    }

    pub fn pid(&self) -> i32 {
        self.0.as_ref().map_or(0, |c| c.id() as i32)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    pub fn workers(&self) -> Vec<i32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let list = std::fs::read_to_string(path).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Waits for the end; what does not end is killed, and fails the test.
    pub fn end(mut self) -> Output {
        let child = self.0.take().expect("it runs");
        let group = child.id() as i32;
        let (done, over) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let output = child.wait_with_output();
            let _ = done.send(());
            output
        });
        if over.recv_timeout(LIMIT).is_err() {
            // SAFETY: the process group of our own child, not waited for yet.
            unsafe { libc::kill(-group, libc::SIGKILL) };
            panic!("process {group} did not end in {LIMIT:?}");
        }
        reader.join().expect("the reader").expect("output")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // SAFETY: the process group of our own child, not waited for yet.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            let _ = child.wait();
        }
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LIMIT, "{what}: not in {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code and JSON document of a run.
pub fn result(out: &Output) -> (i32, Value) {
    let (said, shown) = (text(&out.stderr), text(&out.stdout));
    let code = out.status.code().unwrap_or_else(|| panic!("{}: {said}", out.status));
    (code, serde_json::from_str(&shown).unwrap_or_else(|e| panic!("exit code {code}, {e}: {shown}\n{said}")))
}

/// An error, in these words.
pub fn refuses(out: &Output, words: &[&str]) {
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{}: {said}", out.status);
    for word in words {
        assert!(said.contains(word), "lacks '{word}': {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// The only job of the only step of the first round.
pub fn job(all: &Value) -> &Value {
    let steps = all["cells"][0]["rounds"][0].as_array().expect("steps");
    assert_eq!((steps.len(), steps[0]["jobs"].as_array().map(Vec::len)), (1, Some(1)), "{all:#}");
    &steps[0]["jobs"][0]
}

/// A job's figures of a kind of operation.
pub fn kind<'a>(job: &'a Value, word: &str) -> &'a Value {
    let kinds = job["operations"].as_array().expect("operations");
    kinds.iter().find(|k| k["kind"] == word).unwrap_or_else(|| panic!("no {word}: {kinds:#?}"))
}

pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value:#}"))
}

/// What a check said against the first step, as `severity`.
pub fn reason<'a>(all: &'a Value, check: &str) -> Option<&'a str> {
    let reasons = all["cells"][0]["rounds"][0][0]["verdict"]["reasons"].as_array().expect("reasons");
    reasons.iter().find(|r| r["check"] == check).and_then(|r| r["severity"].as_str())
}

/// The rows of a log, as JSON.
pub fn rows(scratch: &Scratch, log: &str) -> Vec<Value> {
    let out = scratch.load(&["log", log, "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    items(&text(&out.stdout), "plumb.load-log")
}
