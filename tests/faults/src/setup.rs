// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands around a load: devices, file systems, cgroups, neighbours. Everything is made in
//! this process, outside of the target, and taken down in reverse order when the [`Stage`] is
//! dropped, on an error and a panic too.

pub mod cgroup;
pub mod device;
pub mod forgetful;
pub mod slow;

use crate::load::{Dose, Place};
use crate::sys;
use crate::sys::ipc::{Queue, Semaphore};
use anyhow::{bail, Context, Result};
use std::ffi::{CString, OsStr};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a set-up is. `true`: with the fault.
pub type Setup = fn(&mut Stage, Dose, bool) -> Result<()>;

/// Something that is taken back.
trait Undo {
    fn undo(&mut self) -> Result<()>;
}

/// All that was set up.
pub struct Stage {
    /// Where the load will run.
    pub place: Place,
    guards: Vec<Box<dyn Undo>>,
    slow: Option<slow::SlowFile>,
    home: TempDir,
}

impl Stage {
    /// An empty stage with a directory of its own.
    pub fn new(rate: u64) -> Result<Self> {
        let home =
            tempfile::Builder::new().prefix("plumb-faults-").tempdir().context("temporary directory")?;
        let place = Place { dir: home.path().to_owned(), rate, ..Place::default() };
        Ok(Self { place, guards: Vec::new(), slow: None, home })
    }

    /// Writes a file of /proc or /sys and restores it at the end.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn set(&mut self, path: impl Into<PathBuf>, value: &str) -> Result<()> {
        let path = path.into();
        let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // A list of choices marks the present one by brackets, as in "none [bfq]".
        let old =
            old.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(old.trim(), |(v, _)| v);
        let restore = Restore { path: path.clone(), old: old.to_owned() };
        std::fs::write(&path, value).with_context(|| format!("{}: writing '{value}'", path.display()))?;
        self.guards.push(Box::new(restore));
        Ok(())
    }

    /// The CPUs for the victim and for whoever must be elsewhere.
    ///
    /// # Errors
    /// There is only one CPU.
    pub fn two_cpus(&self) -> Result<(usize, usize)> {
        match sys::cpus()[..] {
            [first, .., last] => Ok((last, first)),
            _ => bail!("one CPU: this fault needs two; give this machine or this cgroup another"),
        }
    }

    /// Finds out what one of `units` takes here that `all` does together.
    ///
    /// # Errors
    /// That of `all`.
    pub fn calibrate(&mut self, units: u64, all: impl FnMut() -> Result<()>) -> Result<()> {
        self.place.unit_ns = (sys::shortest(all)?.as_nanos() as u64 / units).max(1);
        Ok(())
    }

    /// Writes the file `data` of so many MiB, which nobody has in the cache afterwards.
    pub fn cold_data(&self, mib: usize) -> Result<()> {
        self.data(mib)?;
        sys::evict(&self.place.dir.join("data"))
    }

    /// Writes the file `data`; it stays in the cache.
    pub fn data(&self, mib: usize) -> Result<()> {
        let path = self.place.dir.join("data");
        let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
        let mut x = 1_u64;
        for _ in 0..mib {
            let block: Vec<u8> = (0..1 << 17)
                .flat_map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    x.to_ne_bytes()
                })
                .collect();
            file.write_all(&block).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Starts a neighbour of the target: `plumb-faults neighbour WORDS...`; back when it is ready.
    ///
    /// # Errors
    /// It cannot be started, or ended before it was ready.
    pub fn neighbour(&mut self, words: &[&str]) -> Result<()> {
        let me = std::env::current_exe().context("own path")?;
        let mut command = Command::new(me);
        command.arg("neighbour").args(words).arg("--dir").arg(&self.place.dir);
        command.arg("--rate").arg(self.place.rate.to_string());
        if let Some(device) = &self.place.device {
            command.arg("--device").arg(device);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("neighbour")?;
        let out = child.stdout.take();
        self.guards.push(Box::new(Neighbour(child)));
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            bail!("neighbour {}: ended before it was ready", words.join(" "));
        }
        Ok(())
    }

    /// A System V semaphore of value 1, its number in the file `semaphore`.
    pub fn semaphore(&mut self) -> Result<()> {
        let semaphore = Semaphore::make(&self.place.dir.join("semaphore"))?;
        self.guards.push(Box::new(semaphore));
        Ok(())
    }

    /// A System V message queue, its number in the file `queue`.
    pub fn queue(&mut self) -> Result<()> {
        let queue = Queue::make(&self.place.dir.join("queue"))?;
        self.guards.push(Box::new(queue));
        Ok(())
    }

    /// A named pipe in the stage's directory.
    pub fn fifo(&self, name: &str) -> Result<()> {
        let path = CString::new(self.place.dir.join(name).as_os_str().as_encoded_bytes())?;
        // SAFETY: the string ends in NUL.
        if unsafe { libc::mkfifo(path.as_ptr(), 0o600) } != 0 {
            bail!("mkfifo {name}: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(slow) = &self.slow {
            slow.set(slow::Timing::default());
        }
        while let Some(mut guard) = self.guards.pop() {
            if let Err(e) = guard.undo() {
                eprintln!("not taken down: {e:#}");
            }
        }
        self.slow = None;
    }
}

struct Restore {
    path: PathBuf,
    old: String,
}

impl Undo for Restore {
    fn undo(&mut self) -> Result<()> {
        if self.path.ends_with("queue/nr_requests") {
            // A queue that has lost its scheduler says the depth that the driver began with, whatever it is, and
            // the kernel skips a write of what it says already.
            let _ = std::fs::write(&self.path, "4");
        }
        std::fs::write(&self.path, &self.old).with_context(|| format!("{}: restoring", self.path.display()))
    }
}

impl Undo for Semaphore {
    fn undo(&mut self) -> Result<()> {
        self.remove()
    }
}

impl Undo for Queue {
    fn undo(&mut self) -> Result<()> {
        self.remove()
    }
}

struct Neighbour(Child);

impl Undo for Neighbour {
    fn undo(&mut self) -> Result<()> {
        // Not there any more is as good.
        let _ = self.0.kill();
        self.0.wait().context("neighbour: wait").map(drop)
    }
}

/// Runs a system's tool to its end and gives what it printed.
///
/// # Errors
/// It is missing, or failed: with its own words.
pub fn tool(name: &str, args: &[&OsStr]) -> Result<String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(name)
        .args(args)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name}: cannot be started; is it installed?"))?;
    if !output.status.success() {
        bail!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tries for two seconds: devices and mounts are let go of a little after their last user.
fn patiently(what: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match what() {
            Err(_) if start.elapsed() < Duration::from_secs(2) => {
                std::thread::sleep(Duration::from_millis(5))
            }
            done => return done,
        }
    }
}

fn unmount(path: &Path) -> Result<()> {
    let target = CString::new(path.as_os_str().as_encoded_bytes())?;
    patiently(|| {
        // SAFETY: the string ends in NUL.
        if unsafe { libc::umount2(target.as_ptr(), 0) } != 0 {
            bail!("{}: umount: {}", path.display(), std::io::Error::last_os_error());
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_restored_on_a_panic_the_last_first() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("knob");
        std::fs::write(&path, "none [kyber] bfq\n").expect("knob");
        let panicked = std::panic::catch_unwind(|| {
            let mut stage = Stage::new(1).expect("stage");
            stage.set(&path, "bfq").expect("set");
            stage.set(&path, "none").expect("set again");
            assert_eq!(std::fs::read_to_string(&path).expect("knob"), "none");
            panic!("in the middle of it");
        });
        assert!(panicked.is_err());
        // The choice in brackets is what a scheduler's file is set to.
        assert_eq!(std::fs::read_to_string(&path).expect("knob"), "kyber");
    }

    #[test]
    fn a_tool_that_fails_says_why() {
        let error = tool("ls", &["/nonexistent".as_ref()]).expect_err("no such directory");
        assert!(format!("{error:#}").contains("/nonexistent"), "{error:#}");
        let error = tool("plumb-faults-no-such-tool", &[]).expect_err("no such tool");
        assert!(format!("{error:#}").contains("installed"), "{error:#}");
    }

    /// Root only: the kernel's side of the protocol is what is tested.
    #[test]
    fn a_slow_file_is_as_slow_as_it_is_told() {
        use slow::{SlowFile, Timing};
        use std::os::unix::fs::{FileExt, OpenOptionsExt};
        // SAFETY: a call without arguments.
        if unsafe { libc::geteuid() } != 0 || !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: needs root and /dev/fuse");
            return;
        }
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("disk");
        let slow = SlowFile::mount(&path, 1 << 20).expect("mount");
        let options =
            std::fs::File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
        let file = options.expect("open");
        let mut block = sys::Aligned::new(4096);
        block.bytes().fill(42);
        file.write_all_at(block.bytes(), 8192).expect("write");
        slow.set(Timing { each_us: 30_000, ..Timing::default() });
        block.bytes().fill(0);
        let start = Instant::now();
        file.read_exact_at(block.bytes(), 8192).expect("read");
        assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
        assert!(block.bytes().iter().all(|&b| b == 42), "what was written is read");
        drop(file);
        drop(slow);
        assert_eq!(std::fs::metadata(&path).expect("the file below").len(), 0, "it is unmounted");
    }
}
