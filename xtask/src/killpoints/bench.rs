// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place for one run: its directory, its loop device, and what is left of it afterwards.

use super::tracer::Seen;
use crate::leaks;
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A directory whose name is in the environment of every process that works in it.
pub struct Bench {
    pub dir: PathBuf,
    pub plumb: PathBuf,
    /// A loop device over a file in it.
    pub device: Option<String>,
    before: BTreeSet<PathBuf>,
    /// What settings held before the command that is undone by this one.
    expected: BTreeMap<PathBuf, String>,
}

/// Something that a run left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    pub what: String,
    /// The word by which a command names it.
    pub word: String,
}

impl Left {
    fn new(what: String, word: impl Into<String>) -> Left {
        Left { what, word: word.into() }
    }

    fn path(what: &str, path: &Path) -> Left {
        let word = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Left::new(format!("{what} {}", path.display()), word)
    }

    pub fn is_process(&self) -> bool {
        self.what.starts_with("process ")
    }
}

/// The word in brackets where there is one: a tree that stands for sysfs holds what was written last.
fn chosen(text: &str) -> &str {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text.trim(), |(word, _)| word)
}

impl Bench {
    /// Makes it, below a directory that lies on a disk.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(base: &Path, plumb: &Path) -> Result<Bench> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("kp{}-{number}", std::process::id()));
        for name in ["tmp", "run", "work"] {
            std::fs::create_dir_all(dir.join(name)).with_context(|| dir.display().to_string())?;
        }
        Ok(Bench {
            dir,
            plumb: plumb.into(),
            device: None,
            before: BTreeSet::new(),
            expected: BTreeMap::new(),
        })
    }

    /// Shows a sparse file as a disk.
    ///
    /// # Errors
    /// losetup's.
    pub fn disk(&mut self, mib: u64) -> Result<String> {
        let image = self.dir.join("image");
        std::fs::File::create(&image).and_then(|f| f.set_len(mib << 20)).context("an image")?;
        let out =
            Command::new("losetup").args(["--find", "--show"]).arg(&image).output().context("losetup")?;
        if !out.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        let device = String::from_utf8_lossy(&out.stdout).trim().to_string();
        self.device = Some(device.clone());
        Ok(device)
    }

    /// Begins: what is there now does not count as left. A journal may be there, and is to go.
    pub fn begin(&mut self) {
        self.before = leaks::files(&self.dir, &self.output());
        self.before.retain(|path| !path.starts_with(self.dir.join("machine/run/plumb/iosched/sda")));
    }

    /// These settings are to be as they are now.
    pub fn expect<const N: usize>(&mut self, paths: [PathBuf; N]) {
        let value = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        self.expected.extend(paths.into_iter().map(|path| (path.clone(), value(&path))));
    }

    fn output(&self) -> [PathBuf; 1] {
        [self.dir.join("out")]
    }

    /// plumb in this place.
    pub fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&self.plumb);
        command.args(words).current_dir(&self.dir);
        command.env("PLUMB_RUNTIME_DIR", self.dir.join("run")).env("TMPDIR", self.dir.join("tmp"));
        command.stdin(Stdio::null());
        command
    }

    /// Whether a line of the kernel's speaks of this place or of a disk that was served in it.
    fn is_ours(&self, line: &str, seen: &Seen) -> bool {
        let disks =
            [format!("plumb-disk-{}", self.disk_name()), format!("plumb-disk-plan-{}-", seen.command)];
        line.contains(&*self.dir.to_string_lossy()) || disks.iter().any(|d| line.contains(d))
    }

    /// The name of its served disk.
    pub fn disk_name(&self) -> String {
        self.dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// What is left of a run.
    pub fn left(&self, seen: &Seen) -> Vec<Left> {
        let mark = self.dir.join("run").display().to_string();
        let mut left = Vec::new();
        for (pid, words) in leaks::processes(&mark) {
            left.push(Left::new(format!("process {pid}: {words}"), ""));
        }
        for mount in leaks::mounts() {
            let point = mount.split(' ').next().unwrap_or_default();
            if self.is_ours(&mount, seen) || seen.mounts.iter().any(|m| m == Path::new(point)) {
                left.push(Left::new(format!("mount {mount}"), point));
            }
        }
        for device in leaks::devices() {
            let own = self.device.as_ref().is_some_and(|d| device.starts_with(&format!("{} ", &d[5..])));
            if self.is_ours(&device, seen) && !own {
                left.push(Left::new(format!("device {device}"), self.disk_name()));
            }
        }
        let mut settings = seen.settings.clone();
        settings.extend(self.expected.clone());
        for (path, before) in &settings {
            // Who is in a group is told by its processes.
            let members = path.ends_with("cgroup.procs") || path.ends_with("tasks");
            let now =
                std::fs::read_to_string(path).ok().filter(|now| chosen(now) != chosen(before) && !members);
            if let Some(now) = now {
                let what = format!("setting {}: '{}', was '{}'", path.display(), now.trim(), before.trim());
                left.push(Left { what, word: Left::path("", path).word });
            }
        }
        for (kind, id) in &seen.bpf {
            if leaks::bpf_exists(kind, *id) {
                left.push(Left::new(format!("bpf {kind} {id}"), id.to_string()));
            }
        }
        // What the calls told, and what the directory shows.
        let out = &self.output()[0];
        let exists = |path: &&PathBuf| !path.starts_with(&self.dir) && path.symlink_metadata().is_ok();
        let mut paths: BTreeSet<PathBuf> = seen.made.iter().filter(exists).cloned().collect();
        let mount = out.join("mount");
        paths.extend(mount.exists().then_some(mount));
        paths.extend(leaks::files(&self.dir, &self.output()).difference(&self.before).cloned());
        // Directories that all runs share stay.
        let run = self.dir.join("run");
        let shared = ["disks", "govern"].map(|name| run.join(name));
        paths.retain(|path| !shared.contains(path));
        let top = paths.iter().filter(|p| !p.ancestors().skip(1).any(|a| paths.contains(a)));
        left.extend(top.map(|p| Left::path("file", p)));
        left
    }

    /// What is left when the processes have had time to end, and the kernel to take down what nobody uses.
    pub fn settled(&self, seen: &Seen, patience: Duration) -> Vec<Left> {
        let begun = Instant::now();
        let mut quiet: Option<Instant> = None;
        loop {
            let left = self.left(seen);
            if left.is_empty() {
                return left;
            }
            // The kernel takes down mounts, devices and BPF objects a moment after their last user.
            let takes_down =
                |l: &Left| ["mount ", "device ", "bpf "].iter().any(|kind| l.what.starts_with(kind));
            let wait = if left.iter().any(takes_down) { 2000 } else { 100 };
            if left.iter().any(Left::is_process) {
                quiet = None;
            } else if quiet.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(wait) {
                return left;
            }
            if begun.elapsed() > patience {
                return left;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Removes by force what a failed run left.
    pub fn clear(&self, seen: &Seen) {
        let mark = self.dir.join("run").display().to_string();
        for (pid, _) in leaks::processes(&mark) {
            // SAFETY: a signal to a process that works in this place alone.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        let quietly = |tool: &str, args: &[&str]| {
            let _ = Command::new(tool).args(args).stderr(Stdio::null()).status();
        };
        for _ in 0..20 {
            let left: Vec<Left> = self.left(seen).into_iter().filter(|l| !l.is_process()).collect();
            for one in &left {
                let words: Vec<&str> = one.what.split(' ').collect();
                match words[..] {
                    ["mount", point, ..] => quietly("umount", &["-l", point]),
                    ["device", name, ..] => quietly("losetup", &["-d", &format!("/dev/{name}")]),
                    ["file", path] if path.starts_with("/sys/fs/cgroup/") => {
                        drop(std::fs::remove_dir(path));
                    }
                    _ => {}
                }
            }
            if !left.iter().any(|l| l.what.starts_with("mount ") || l.what.starts_with("device ")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for (path, before) in &seen.settings {
            if std::fs::read_to_string(path).is_ok_and(|now| now != *before) && path.ends_with("page-cluster")
            {
                let _ = std::fs::write(path, before);
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["-d", device]).stderr(Stdio::null()).status();
        }
        // Never into a file system that is still mounted in it.
        if !leaks::mounts().iter().any(|m| m.contains(&*self.dir.to_string_lossy())) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
