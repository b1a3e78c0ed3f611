// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One plan at a time on a device and in a directory.
//!
//! A lock is flock(2) on the node of the whole disk, as systemd's "Locking Block Device
//! Access" asks for (udev then looks at the device when the lock is gone), or on the directory.
//! The kernel drops it with the last process that holds it: the run, or the guardian that puts
//! back what a killed run changed.

use anyhow::{bail, Context, Result};
use plumb_machine::{Block, DeviceNumber, Root};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a guardian is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long anybody is: udev locks a device while it looks at it.
const LOOK: Duration = Duration::from_secs(1);

/// What is said of a process that has a device or a directory.
pub const OF_OTHERS: &str = "works on it (another plan, or a partitioning tool); wait until it has ended";

/// Locks that are held until this is dropped.
#[derive(Debug, Default)]
pub struct Locks {
    files: Vec<File>,
    disks: Vec<DeviceNumber>,
}

impl Locks {
    /// Locks a directory that a plan works in.
    ///
    /// # Errors
    /// Another process has it; named.
    pub fn directory(&mut self, dir: &Path) -> Result<()> {
        self.take(dir, &dir.display().to_string(), OF_OTHERS)
    }

    /// Locks a cgroup whose limits are to be changed.
    ///
    /// # Errors
    /// Another process does that already; named.
    pub fn group(&mut self, dir: &Path) -> Result<()> {
        self.take(dir, &format!("cgroup {}", dir.display()), "governs it already; end that one first")
    }

    /// Locks a run's own directory.
    ///
    /// # Errors
    /// Another process runs the plan; named.
    pub fn run(&mut self, dir: &Path) -> Result<()> {
        self.take(dir, &dir.display().to_string(), "is running this plan; wait, or Ctrl-C it")
    }

    /// Locks the settings of this machine: two that change and measure at once would measure each other.
    ///
    /// # Errors
    /// Another process has them; named.
    pub fn machine(&mut self) -> Result<()> {
        self.take(Path::new("/proc/sys"), "this machine", "guides a command already; wait until it has ended")
    }

    /// Locks the directory of a search.
    ///
    /// # Errors
    /// Another process searches there; named.
    pub fn search(&mut self, dir: &Path) -> Result<()> {
        self.take(dir, &dir.display().to_string(), "is searching there; wait, or Ctrl-C it")
    }

    /// Locks the whole disk that a device is, or is a part of.
    ///
    /// # Errors
    /// Another process has it; named. There is no such device.
    pub fn device(&mut self, number: DeviceNumber, name: &str) -> Result<()> {
        let root = Root::real();
        let disk = disk(number, &root).with_context(|| format!("{name}: sysfs has no such device"))?;
        // Two partitions of one disk have one lock.
        if self.disks.contains(&disk.number) {
            return Ok(());
        }
        self.disks.push(disk.number);
        self.take(&node(&disk), name, OF_OTHERS)
    }

    fn take(&mut self, path: &Path, name: &str, does: &str) -> Result<()> {
        let file = File::open(path).with_context(|| format!("lock {}", path.display()))?;
        let begun = Instant::now();
        loop {
            // SAFETY: the descriptor is open; the call touches no memory of ours.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                self.files.push(file);
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EWOULDBLOCK) => {}
                // A file system without locks: nobody else can have one either.
                Some(libc::ENOLCK | libc::EOPNOTSUPP) => return Ok(()),
                _ => return Err(error).with_context(|| format!("lock {}", path.display())),
            }
            let holder = holder(&file);
            let lives = holder.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists());
            if begun.elapsed() > if lives { LOOK } else { PATIENCE } {
                let who = holder.map_or("another process".into(), |pid| format!("process {pid}"));
                bail!("{name}: {who} {does}");
            }
            // The run that took it was killed, and its guardian puts back what it changed.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The whole disk that a device is, or is a part of.
fn disk(number: DeviceNumber, root: &Root) -> Option<Block> {
    let block = Block::of(number, root)?;
    Some(block.disk(root).unwrap_or(block))
}

fn node(disk: &Block) -> PathBuf {
    // sysfs writes the slash of a name as an exclamation mark.
    Path::new("/dev").join(disk.name.replace('!', "/"))
}

/// The process that has the lock on a device's disk; no lock is taken.
pub fn holder_of(number: DeviceNumber) -> Option<i32> {
    let disk = disk(number, &Root::real())?;
    holder(&File::open(node(&disk)).ok()?)
}

/// The process that has the lock on a directory; no lock is taken.
pub fn holder_of_directory(dir: &Path) -> Option<i32> {
    holder(&File::open(dir).ok()?)
}

/// The process that took the lock on a file, as far as the kernel shows it to us.
fn holder(file: &File) -> Option<i32> {
    let meta = file.metadata().ok()?;
    let (device, inode) = (DeviceNumber::from_dev_t(meta.dev()), meta.ino());
    let place = format!("{:02x}:{:02x}:{inode}", device.major, device.minor);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 708 00:06:1234 0 EOF`, see proc_locks(5).
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let here = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&place.as_str());
        words.get(4)?.parse().ok().filter(|pid| here && *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_with_the_process_that_has_it() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let mut first = Locks::default();
        first.directory(dir.path()).expect("free");
        let said = Locks::default().directory(dir.path()).expect_err("taken").to_string();
        assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
        let said = Locks::default().run(dir.path()).expect_err("taken").to_string();
        let who = format!("process {} is running this plan", std::process::id());
        assert!(said.contains(&who) && said.contains("Ctrl-C"), "{said}");
        drop(first);
        Locks::default().directory(dir.path()).expect("free again");
    }
}
