// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask soak --hours N`: recordings, loads, served disks, limits and plans again and again, beside a flight
//! recorder and a served disk that live all the time. After each round everything that could leak is counted.

use crate::leaks;
use crate::test::{minutes, Session};
use anyhow::{bail, ensure, Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of a process that is no growth: so much, and this share of it.
const SLACK_KIB: u64 = 1024;
const SLACK: f64 = 0.08;
/// Rounds that a verdict needs: three thirds of two.
const LEAST: usize = 6;

/// Rounds from which on memory is judged: before, caches fill.
const FILLED: usize = 30;

/// What is counted, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Grows when the lowest of the last third is above the lowest of the first.
    Count,
    /// KiB; grows when the median of the last third is above that of the second by more than the slack.
    Memory,
}

struct Counter {
    name: &'static str,
    kind: Kind,
    values: Vec<u64>,
}

impl Counter {
    fn third(&self, n: usize) -> &[u64] {
        let size = self.values.len() / 3;
        if n == 2 {
            &self.values[2 * size..]
        } else {
            &self.values[n * size..(n + 1) * size]
        }
    }

    /// What is compared: before, and at the end.
    fn ends(&self) -> (u64, u64) {
        let lowest = |n| self.third(n).iter().copied().min().unwrap_or(0);
        let median = |n| {
            let mut all = self.third(n).to_vec();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(0)
        };
        match self.kind {
            Kind::Count => (lowest(0), lowest(2)),
            Kind::Memory => (median(1), median(2)),
        }
    }

    fn grows(&self) -> bool {
        let (before, after) = self.ends();
        match self.kind {
            Kind::Count => after > before,
            Kind::Memory => {
                let much = after > before + SLACK_KIB && after as f64 > before as f64 * (1.0 + SLACK);
                much && self.values.len() >= FILLED
            }
        }
    }
}

/// A process that lives all the time; it is ended with this.
struct Long(Child);

impl Long {
    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        // SAFETY: a signal to our own child, which nobody has waited for.
        unsafe { libc::kill(self.pid(), libc::SIGINT) };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(15) {
            if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Soak {
    plumb: PathBuf,
    dir: PathBuf,
    /// A loop device over a file in the directory.
    device: String,
}

/// Runs for so many hours.
///
/// # Errors
/// It is not root, a command fails, or a counter grows.
pub fn run(root: &Path, hours: &str, words: &[&str]) -> Result<()> {
    let hours: f64 = hours.parse().with_context(|| format!("--hours {hours}"))?;
    if let Some(why) = crate::killpoints::lacks() {
        bail!("soak: {why}");
    }
    let session = Session::new(root, minutes(60 * 24 * 365), Duration::from_secs(10));
    let plumb = match words {
        ["--program", file] => Path::new(file).canonicalize().with_context(|| (*file).to_owned())?,
        _ => crate::killpoints::built(&session)?,
    };
    let base = session.target_dir().canonicalize().context("the directory of what is built")?;
    let soak = Soak::begin(plumb, &base)?;
    soak.rounds(Duration::from_secs_f64(hours * 3600.0))
}

impl Soak {
    fn begin(plumb: PathBuf, base: &Path) -> Result<Soak> {
        let dir = base.join(format!("soak{}", std::process::id()));
        for name in ["run", "tmp", "work"] {
            std::fs::create_dir_all(dir.join(name)).with_context(|| dir.display().to_string())?;
        }
        let image = dir.join("image");
        File::create(&image).and_then(|f| f.set_len(64 << 20)).context("an image")?;
        let out =
            Command::new("losetup").args(["--find", "--show"]).arg(&image).output().context("losetup")?;
        ensure!(out.status.success(), "losetup: {}", String::from_utf8_lossy(&out.stderr).trim());
        Ok(Soak { plumb, dir, device: String::from_utf8_lossy(&out.stdout).trim().to_string() })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.plumb);
        command.args(words).current_dir(&self.dir).stdin(Stdio::null());
        command.env("PLUMB_RUNTIME_DIR", self.dir.join("run")).env("TMPDIR", self.dir.join("tmp"));
        command
    }

    /// Runs a command that must do what it is for. 3 says that a load on a busy machine is no measurement.
    fn does(&self, words: &[&str]) -> Result<()> {
        let out = self.command(words).output().context("plumb")?;
        let code = out.status.code();
        if !matches!(code, Some(0 | 3)) {
            bail!(
                "plumb {}: {}\n{}",
                words.join(" "),
                out.status,
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        Ok(())
    }

    fn long(&self, mut command: Command, name: &str) -> Result<Long> {
        let said = File::create(self.dir.join(name))?;
        let child =
            command.stdout(said.try_clone()?).stderr(said).spawn().with_context(|| name.to_owned())?;
        Ok(Long(child))
    }

    fn rounds(&self, time: Duration) -> Result<()> {
        // A service that forks, for the recorder to follow.
        let mut service = Command::new("sh");
        service
            .args(["-c", "while :; do dd if=/dev/zero of=served bs=64k count=8 conv=fsync; sleep 0.1; done"]);
        service.current_dir(self.dir.join("work"));
        let service = self.long(service, "service")?;
        let target = service.pid().to_string();
        let words = ["record", "--keep", "5s", "--when", "fsync > 1000s", "--pid", &target, "-o", "flight"];
        let mut recorder = self.long(self.command(&words), "recorder")?;
        self.does(&[
            "disk",
            "serve",
            "instant",
            "--size",
            "64M",
            "--no-calibrate",
            "--detach",
            "--name",
            "long",
        ])?;
        let mark = self.dir.join("run").display().to_string();
        let find = |word: &str| {
            let all = leaks::processes(&mark);
            all.iter().find(|(_, words)| words.contains(word)).map(|(pid, _)| *pid).context(word.to_owned())
        };
        let (server, holder) = (find("disk server")?, find("disk holder")?);
        let disk = std::fs::read_to_string(self.dir.join("run/disks/long.json"))?;
        let disk: serde_json::Value = serde_json::from_str(&disk)?;
        let disk = disk["disk"]["device"].as_str().context("the disk has no device")?.to_owned();
        self.plan()?;

        let count = |name, kind| Counter { name, kind, values: Vec::new() };
        let mut counters = [
            count("recorder: descriptors", Kind::Count),
            count("recorder: memory, KiB", Kind::Memory),
            count("disk server: descriptors", Kind::Count),
            count("disk server: memory, KiB", Kind::Memory),
            count("disk holder: descriptors", Kind::Count),
            count("disk holder: memory, KiB", Kind::Memory),
            count("processes", Kind::Count),
            count("BPF programs of the machine", Kind::Count),
            count("BPF maps of the machine", Kind::Count),
            count("BPF links of the machine", Kind::Count),
            count("loop and dm devices", Kind::Count),
            count("mounts", Kind::Count),
            count("cgroups", Kind::Count),
            count("files in /tmp, /run, /dev/shm", Kind::Count),
        ];
        let begun = Instant::now();
        let mut round = 0;
        while begun.elapsed() < time || round < LEAST {
            round += 1;
            self.round(&disk).with_context(|| format!("round {round}"))?;
            ensure!(recorder.0.try_wait()?.is_none(), "the recorder ended: {}", self.said("recorder"));
            // The kernel takes a disk down a moment after its last user.
            std::thread::sleep(Duration::from_millis(500));
            let now = self.count(recorder.pid(), server, holder);
            counters.iter_mut().zip(now).for_each(|(counter, value)| counter.values.push(value));
            let line: Vec<String> = now.iter().map(u64::to_string).collect();
            println!("round {round:>4} {:>6.0} s  {}", begun.elapsed().as_secs_f64(), line.join(" "));
        }
        drop(recorder);
        drop(service);
        self.does(&["disk", "stop", "long"])?;
        std::thread::sleep(Duration::from_secs(1));
        let left = leaks::processes(&mark);
        ensure!(left.is_empty(), "processes are left: {left:?}");
        println!("\n| counter | first | lowest | highest | last | compared | verdict |\n|---|---:|---:|---:|---:|---:|---|");
        for c in &counters {
            let (before, after) = c.ends();
            let end = |n: Option<&u64>| n.copied().unwrap_or(0);
            println!(
                "| {} | {} | {} | {} | {} | {before}, {after} | {} |",
                c.name,
                end(c.values.first()),
                end(c.values.iter().min()),
                end(c.values.iter().max()),
                end(c.values.last()),
                match (c.kind, c.values.len() >= FILLED) {
                    _ if c.grows() => "GROWS",
                    (Kind::Memory, false) => "too few rounds",
                    _ => "ok",
                }
            );
        }
        println!("{round} rounds in {:.0} s", begun.elapsed().as_secs_f64());
        let grown: Vec<&str> = counters.iter().filter(|c| c.grows()).map(|c| c.name).collect();
        ensure!(grown.is_empty(), "soak: grows: {}", grown.join(", "));
        Ok(())
    }

    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap_or_default().trim().to_string()
    }

    fn plan(&self) -> Result<()> {
        let text = r#"name = "soak"
title = "One cell on a served disk"
purpose = "Does a plan leak?"
hypothesis = "It does not."
takes = "5s"
order = "given"
repeat = 1
[device.served]
model = "instant"
size = "64M"
[cell]
device = "served"
file-system = { kind = "ext4" }
command = ["sh", "-c", "echo x > {dir}/new"]
"#;
        std::fs::write(self.dir.join("soak.toml"), text).context("soak.toml")
    }

    /// Everything once.
    fn round(&self, disk: &str) -> Result<()> {
        for name in ["once", "planned"] {
            let _ = std::fs::remove_dir_all(self.dir.join(name));
        }
        self.does(&["run", "-q", "-o", "once", "--", "sh", "-c", "for i in 1 2 3 4 5; do dd if=/dev/zero of=work/run bs=64k count=16 conv=fsync 2>/dev/null; sleep 0.1; done"])?;
        self.does(&["load", "--size", "1M", "--time", "300ms", "work"])?;
        self.does(&["load", "--time", "300ms", "--destroy", disk, disk])?;
        self.does(&[
            "disk",
            "serve",
            "instant",
            "--size",
            "32M",
            "--no-calibrate",
            "--detach",
            "--name",
            "short",
        ])?;
        self.does(&["disk", "stop", "short"])?;
        self.does(&["govern", "--protect", &self.device, "--limit", "1M", "--quiet", "--", "sleep", "0.3"])?;
        self.does(&["plan", "run", "soak.toml", "-o", "planned"])
    }

    fn count(&self, recorder: i32, server: i32, holder: i32) -> [u64; 14] {
        let mark = self.dir.display().to_string();
        let ours = |line: &String| line.contains(&mark) || line.contains("plumb");
        let here = |all: Vec<String>| all.iter().filter(|line| ours(line)).count() as u64;
        let cgroups = leaks::cgroups().into_iter().map(|p| p.display().to_string()).collect();
        let tmp =
            leaks::files(&self.dir.join("tmp"), &[]).len() + leaks::files(&self.dir.join("run"), &[]).len();
        let top = ["/tmp", "/run/plumb", "/dev/shm"]
            .map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
        let top =
            top.into_iter().flatten().filter(|e| e.file_name().to_string_lossy().contains("plumb")).count();
        [
            leaks::descriptors(recorder),
            leaks::memory(recorder),
            leaks::descriptors(server),
            leaks::memory(server),
            leaks::descriptors(holder),
            leaks::memory(holder),
            leaks::processes(&mark).len() as u64,
            leaks::bpf_count("prog"),
            leaks::bpf_count("map"),
            leaks::bpf_count("link"),
            here(leaks::devices()),
            here(leaks::mounts()),
            here(cgroups),
            (tmp + top) as u64,
        ]
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        let quietly = |command: &mut Command| {
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        quietly(&mut self.command(&["disk", "stop", "--all", "--force"]));
        quietly(Command::new("losetup").args(["-d", &self.device]));
        if !leaks::mounts().iter().any(|m| m.contains(&*self.dir.to_string_lossy())) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many rounds as memory needs, each value so often.
    fn grows(kind: Kind, values: &[u64]) -> bool {
        let values: Vec<u64> = values.iter().flat_map(|v| std::iter::repeat_n(*v, FILLED / LEAST)).collect();
        Counter { name: "", kind, values }.grows()
    }

    #[test]
    fn a_leak_of_one_in_each_round_grows_and_a_neighbour_does_not() {
        assert!(grows(Kind::Count, &[4, 5, 6, 7, 8, 9]));
        assert!(!grows(Kind::Count, &[4, 9, 4, 4, 12, 4]));
        assert!(grows(Kind::Count, &[4, 4, 4, 4, 5, 5]));
        assert!(grows(Kind::Memory, &[9000, 12_000, 15_000, 18_000, 21_000, 24_000]));
        assert!(
            !grows(Kind::Memory, &[3000, 9000, 12_000, 12_100, 12_000, 12_300]),
            "it fills its caches first"
        );
    }
}
