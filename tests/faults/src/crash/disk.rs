// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checker's side of a disk that forgets: from the serving process up to the mounted file
//! system, and down again. One a process, because it takes the process into a namespace of its own.

use super::{command, namespace, within};
use crate::sys;
use anyhow::{bail, Context, Result};
use plumb_sim::serve::fuse;
use plumb_sim::serve::loop_device::{Changed, LoopDevice};
use plumb_sim::serve::media::Toll;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::Duration;
use tempfile::TempDir;

/// Longest time of one step that does not depend on the user's commands.
const STEP: Duration = Duration::from_secs(30);

/// What lies on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fs {
    /// Nothing: the device itself.
    None,
    /// No journal, and no promise.
    Ext2,
    /// With its journal, data ordered.
    Ext4,
    /// With its log.
    Xfs,
}

impl Fs {
    /// As mount(8) and mkfs know it.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ext2 => "ext2",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Size of the disk that it needs, bytes: mkfs.xfs refuses below 300 MiB.
    pub fn size(self) -> u64 {
        if self == Self::Xfs {
            512 << 20
        } else {
            256 << 20
        }
    }

    /// What is missing to have it here, if anything.
    pub fn lacks(self) -> Option<String> {
        if self == Self::None {
            return None;
        }
        let (word, mkfs) = (self.word(), format!("mkfs.{}", self.word()));
        if !command::installed(&mkfs) {
            return Some(format!("needs {mkfs} (make deps)"));
        }
        let known = || {
            let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            list.lines().any(|l| l.split_whitespace().last() == Some(word))
        };
        // A module that is not loaded yet, maybe; it says nothing more than the list does then.
        let _ = known() || command::bounded(command::words("modprobe -q").arg(word), STEP).is_ok();
        (!known()).then(|| format!("this kernel has no {word}"))
    }

    /// Makes it now, and not in the background after the mount.
    fn make(self, device: &Path) -> Option<Command> {
        let words = match self {
            Self::None => return None,
            Self::Ext2 => "mkfs.ext2 -q -F -E lazy_itable_init=0,nodiscard",
            Self::Ext4 => "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            Self::Xfs => "mkfs.xfs -q -f -K",
        };
        let mut command = command::words(words);
        command.arg(device);
        Some(command)
    }
}

/// The disk; all of it is taken down when this is dropped.
pub struct Disk {
    server: Child,
    control: BufReader<UnixStream>,
    device: Option<LoopDevice>,
    mounted: bool,
    served: bool,
    watchdog: Option<Sender<()>>,
    home: TempDir,
}

impl Disk {
    /// Starts the serving process and mounts its file; `deadline` from now, all of it is given up.
    /// To be called once, before any thread is started.
    ///
    /// # Errors
    /// No root, no /dev/fuse.
    pub fn start(size: u64, deadline: Duration) -> Result<Self> {
        let home =
            tempfile::Builder::new().prefix("plumb-crash-").tempdir().context("temporary directory")?;
        for name in ["mnt", "safe"] {
            std::fs::create_dir(home.path().join(name))?;
        }
        let (control, theirs) = UnixStream::pair().context("socket")?;
        control.set_read_timeout(Some(STEP))?;
        let device = fuse::open()?;
        // Before this process leaves its namespace: the server must not hold the new one.
        let server = Command::new(std::env::current_exe().context("own path")?)
            .args(["crash", "serve", "--size", &size.to_string(), "--home"])
            .arg(home.path())
            .args(["--patience", &(deadline + STEP).as_secs().to_string()])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(device.try_clone()?))
            // Ctrl-C ends the checker; the server has to outlive it.
            .process_group(0)
            .spawn()
            .context("the process that serves the disk")?;
        let mut disk = Self {
            server,
            control: BufReader::new(control),
            device: None,
            mounted: false,
            served: false,
            watchdog: None,
            home,
        };
        namespace::leave()?;
        fuse::mount(&device, &disk.file())?;
        disk.served = true;
        // The server's must be the only one: its end then ends the connection.
        drop(device);
        disk.watch(deadline);
        disk.ask("serve")?;
        Ok(disk)
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("disk")
    }

    /// Where the file system is mounted.
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("mnt")
    }

    /// A directory on another disk, which no power cut touches.
    pub fn safe(&self) -> PathBuf {
        self.home.path().join("safe")
    }

    /// The block device.
    ///
    /// # Errors
    /// Not attached.
    pub fn device(&self) -> Result<&LoopDevice> {
        self.device.as_ref().context("the disk is not attached to a loop device")
    }

    /// Ends it all by force when it takes too long: no request waits for ever, and so nobody does.
    fn watch(&mut self, deadline: Duration) {
        let (cancel, cancelled) = channel();
        let (file, server) = (self.file(), self.server.id());
        self.watchdog = Some(cancel);
        std::thread::spawn(move || {
            if cancelled.recv_timeout(deadline) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let me = std::process::id();
            eprintln!(
                "plumb-faults: not done after {deadline:?}: the disk is given up; still there: processes {:?} \
                 (--deadline allows more time)",
                namespace::inhabitants(&file)
            );
            if let Err(e) = namespace::abort_connection(&file) {
                eprintln!("plumb-faults: {e:#}");
            }
            sys::kill(server, libc::SIGKILL);
            namespace::evacuate(&file, me);
            if cancelled.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                eprintln!("plumb-faults: {}: not taken down within {STEP:?} either", file.display());
                std::process::exit(2);
            }
        });
    }

    /// Says a word to the server and gives its answer.
    fn ask(&mut self, word: &str) -> Result<Vec<u64>> {
        let mut answer = String::new();
        self.control
            .get_mut()
            .write_all(format!("{word}\n").as_bytes())
            .and_then(|()| self.control.read_line(&mut answer))
            .with_context(|| format!("the process that serves the disk does not answer '{word}'"))?;
        let Some(numbers) = answer.strip_prefix("ok") else {
            let why = if answer.is_empty() { "it has ended" } else { answer.trim() };
            bail!("the process that serves the disk, asked '{word}': {why}");
        };
        numbers.split_whitespace().map(|n| n.parse().with_context(|| answer.clone())).collect()
    }

    /// Flushes that the disk has seen.
    ///
    /// # Errors
    /// The server is gone.
    pub fn flushes(&mut self) -> Result<u64> {
        self.ask("flushes")?.first().copied().context("the server gave no number of flushes")
    }

    /// Attaches the loop device, with the write cache that flushes empty.
    ///
    /// # Errors
    /// No free one; its queue cannot be set.
    pub fn attach(&mut self) -> Result<()> {
        let device = LoopDevice::attach(&self.file())?;
        // Who had this number before may have left it without flushes: then nothing would be durable.
        if let Some(change) = Changed::plan(device.path(), "write_cache", "write back") {
            change.make().with_context(|| change.path.display().to_string())?;
        }
        self.device = Some(device);
        Ok(())
    }

    /// Makes a file system.
    ///
    /// # Errors
    /// Its mkfs is missing or failed.
    pub fn make(&self, fs: Fs) -> Result<()> {
        match fs.make(self.device()?.path()) {
            Some(mut make) => command::bounded(&mut make, STEP),
            None => Ok(()),
        }
    }

    /// Mounts it, after a power cut with a replay of its journal.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn mount(&mut self, fs: Fs, options: &str) -> Result<()> {
        if fs == Fs::None {
            return Ok(());
        }
        let mut mount = command::words("mount -t");
        mount.arg(fs.word());
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        mount.arg(self.device()?.path()).arg(self.dir());
        // The mount may be there though its command was given up.
        self.mounted = true;
        command::bounded(&mut mount, STEP)
    }

    /// Cuts the power: see [`crate::setup::forgetful::Forgetful::cut`]. Programs that run on the disk
    /// are killed.
    ///
    /// # Errors
    /// The server is gone; a program does not end.
    pub fn cut(&mut self, percent: u64, seed: u64) -> Result<Toll> {
        let [lost, kept, flushes] = self.ask(&format!("cut {percent} {seed}"))?[..] else {
            bail!("the server did not tell what the power cut took");
        };
        let file = self.file();
        if !within(STEP, || namespace::evacuate(&file, std::process::id()).is_empty()) {
            bail!("processes {:?} do not end after the power cut", namespace::inhabitants(&file));
        }
        // Of writes that nobody was told of there is none: see Forgetful::cut.
        Ok(Toll { lost, kept, torn: 0, flushes })
    }

    /// Unmounts the file system and detaches the device; nobody may have a file of it open.
    ///
    /// # Errors
    /// Somebody holds them.
    pub fn detach(&mut self) -> Result<()> {
        if std::mem::take(&mut self.mounted) {
            unmount(&self.dir())?;
        }
        let file = self.file();
        self.device.take().map_or(Ok(()), |device| device.detach(&file))
    }

    /// Power is back, on a disk that was detached: the device and what lies on it can be had again.
    ///
    /// # Errors
    /// The server is gone, the journal cannot be replayed.
    pub fn power_on(&mut self, fs: Fs, options: &str) -> Result<()> {
        self.ask("on")?;
        self.attach()?;
        self.mount(fs, options).context("the file system after the power cut")
    }

    /// Takes all of it down.
    ///
    /// # Errors
    /// What is still there.
    pub fn take_down(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.watchdog.is_none() && !self.served {
            return self.end_server();
        }
        namespace::evacuate(&self.file(), std::process::id());
        let mut done = self.detach();
        if std::mem::take(&mut self.served) {
            done = done.and(unmount(&self.file()));
        }
        let done = done.and(self.end_server());
        self.watchdog = None;
        done
    }

    fn end_server(&mut self) -> Result<()> {
        let _ = self.ask("end");
        let server = &mut self.server;
        if within(STEP, || server.try_wait().is_ok_and(|s| s.is_some())) {
            return Ok(());
        }
        sys::kill(server.id(), libc::SIGKILL);
        if within(STEP, || server.try_wait().is_ok_and(|s| s.is_some())) {
            return Ok(());
        }
        bail!("process {} that serves the disk does not end", server.id())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.watchdog.is_some() || self.served || matches!(self.server.try_wait(), Ok(None)) {
            if let Err(e) = self.end() {
                eprintln!("plumb-faults: not taken down: {e:#}");
            }
        }
    }
}

/// Unmounts; what is still busy after five seconds is left to its last user.
fn unmount(path: &Path) -> Result<()> {
    let target = CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut error = std::io::Error::from_raw_os_error(0);
    let done = within(Duration::from_secs(5), || {
        // SAFETY: the string ends in NUL.
        let done = unsafe { libc::umount2(target.as_ptr(), 0) } == 0;
        error = std::io::Error::last_os_error();
        // Not mounted at all: its mount failed.
        done || error.raw_os_error() == Some(libc::EINVAL)
    });
    // SAFETY: as above.
    if done || unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } == 0 {
        return Ok(());
    }
    bail!("{}: umount: {error}", path.display())
}
