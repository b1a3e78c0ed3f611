// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that cannot keep the checker waiting: tools with a time limit, and the user's own.

use super::disk::Disk;
use super::within;
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A command and its first arguments, found where administrators' tools are too.
pub fn words(words: &str) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    command.args(words).env("PATH", path);
    command
}

/// Whether a tool is installed.
pub fn installed(tool: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    path.split(':').any(|dir| std::path::Path::new(dir).join(tool).exists())
}

/// Kills a child's group and waits a little for the child.
fn give_up(child: &mut Child) -> bool {
    crate::sys::kill_group(child.id(), libc::SIGKILL);
    within(Duration::from_secs(5), || child.try_wait().is_ok_and(|s| s.is_some()))
}

/// Runs a tool to its end.
///
/// # Errors
/// It is missing, failed (with its own words) or took longer than `limit`.
pub fn bounded(command: &mut Command, limit: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A file and no pipe: nobody has to read it meanwhile.
    let mut said = tempfile::tempfile().context("temporary file")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?)
        .process_group(0)
        .spawn()
        .with_context(|| format!("{name}: cannot be started; is it installed?"))?;
    let mut status = None;
    if !within(limit, || child.try_wait().is_ok_and(|s| (status = s, s.is_some()).1)) {
        let ended = give_up(&mut child);
        bail!("{name}: took longer than {limit:?}{}", if ended { "" } else { " and does not end by a kill" });
    }
    if status.is_some_and(|s| s.success()) {
        return Ok(());
    }
    let mut text = String::new();
    said.rewind()?;
    said.read_to_string(&mut text)?;
    bail!("{name}: {}: {}", status.map(|s| s.to_string()).unwrap_or_default(), text.trim())
}

/// When the power is cut, unless the command ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    AtEnd,
    /// So long after its start.
    After(Duration),
    /// So long after it printed the line `READY`.
    AfterReady(Duration),
}

/// A command of the user's at work on the disk.
pub struct Running {
    child: Child,
    /// Gets one word when `READY` is printed; hangs up at the end of the output.
    ready: Receiver<()>,
}

/// Starts a shell command: $DEV is the device, $DIR the mounted directory, $SAFE a directory that no
/// power cut touches. What it prints is passed on.
///
/// # Errors
/// There is no shell.
pub fn start(disk: &Disk, mounted: bool, command: &str) -> Result<Running> {
    let mut shell = words("sh -c");
    shell.arg(command).env("DEV", disk.device()?.path()).env("SAFE", disk.safe());
    if mounted {
        shell.env("DIR", disk.dir());
    } else {
        shell.env_remove("DIR");
    }
    // SAFETY: prctl is a plain system call.
    unsafe {
        shell.pre_exec(|| {
            crate::sys::die_with_parent();
            Ok(())
        })
    };
    let mut child = shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("sh: cannot be started")?;
    let out = child.stdout.take().context("sh: no pipe")?;
    let (send, ready) = channel();
    std::thread::spawn(move || pass_on(out, &send));
    Ok(Running { child, ready })
}

fn pass_on(out: ChildStdout, ready: &Sender<()>) {
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    while out.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if line.trim_ascii() == b"READY" {
            let _ = ready.send(());
        }
        let mut here = std::io::stdout().lock();
        if here.write_all(&line).and_then(|()| here.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

impl Running {
    /// Waits for the moment of the cut, `limit` at most. How the command ended, if it did.
    ///
    /// # Errors
    /// It failed, ended without `READY` when that was waited for, or takes too long.
    pub fn until(&mut self, cut: Cut, limit: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        let mut moment = match cut {
            Cut::After(time) => Some(start + time),
            _ => None,
        };
        loop {
            // Looked at before the child: its last line comes before its end.
            if let (Cut::AfterReady(time), None) = (cut, moment) {
                match self.ready.recv_timeout(Duration::from_millis(5)) {
                    Ok(()) => moment = Some(Instant::now() + time),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(5)),
                }
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
            if moment.is_some_and(|m| Instant::now() >= m) {
                return Ok(None);
            }
            if let Some(status) = self.child.try_wait().context("sh")? {
                // It may have printed the line just now.
                let said = moment.is_some() || self.ready.recv_timeout(Duration::from_millis(200)).is_ok();
                if !status.success() {
                    bail!("the command failed before the power cut: {status}");
                }
                if matches!(cut, Cut::AfterReady(_)) && !said {
                    bail!("the command ended and had not printed the line READY");
                }
                return Ok(Some(status));
            }
            if start.elapsed() >= limit {
                bail!("the command is not done after {limit:?}; --deadline allows more time");
            }
        }
    }

    /// Waits for its end, and that everything it printed is passed on.
    ///
    /// # Errors
    /// It takes too long.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let mut status = None;
        if !within(limit, || self.child.try_wait().is_ok_and(|s| (status = s, s.is_some()).1)) {
            bail!("the command is not done after {limit:?}; --deadline allows more time");
        }
        // Not longer than that: something that it left running may hold the pipe.
        let limit = Instant::now() + Duration::from_secs(2);
        while self.ready.recv_timeout(limit.saturating_duration_since(Instant::now())).is_ok() {}
        status.context("the command's exit status")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            give_up(&mut self.child);
        }
    }
}
