// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that holds the loop device, and the server's side of it.
//!
//! A process apart, because who serves a disk must not use it: killed, it would flush what is dirty
//! into a server that is dead already, and wait for ever. The two talk over a socket, a line of JSON
//! each way; whichever ends first, the other one sees the end of the socket. The holder's end lets
//! the kernel take the device down as soon as nobody uses it; the server's end fails what is under way.

use super::super::loop_device::{Changed, LoopDevice};
use super::process;
use anyhow::{bail, Context, Result};
use plumb_stats::random::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An answer takes no longer, that of a slow disk's reads included.
pub const READS_LIMIT: Duration = Duration::from_secs(30);

/// What the server asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    /// Attach this file to a loop device, and say what of its queue is to be changed.
    Attach {
        file: PathBuf,
        queue: Vec<(String, String)>,
    },
    Settle,
    /// Read 4 KiB at random places, one after the other, for at most so many ms.
    Read {
        count: u32,
        limit_ms: u64,
        seed: u64,
    },
    /// Let go of the device, and end.
    LetGo,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Attached { device: PathBuf, changes: Vec<Changed> },
    Settled,
    Times(Reads),
    Failed(String),
}

/// Reads that were asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reads {
    /// How long each one took, ns.
    pub times: Vec<u64>,
    /// How the one after them failed.
    pub failed: Option<String>,
}

pub struct Holder {
    child: Child,
    socket: BufReader<UnixStream>,
}

impl Holder {
    /// Starts it.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start() -> Result<Self> {
        let (here, there) = UnixStream::pair().context("socket")?;
        here.set_read_timeout(Some(READS_LIMIT)).context("socket")?;
        let child = command("holder")
            .stdin(Stdio::from(OwnedFd::from(there)))
            .stdout(Stdio::null())
            .spawn()
            .context("the process that holds the device cannot be started")?;
        Ok(Self { child, socket: BufReader::new(here) })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn say(&mut self, order: &Order) -> Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.socket.get_mut().write_all(&line).context("the process that holds the device has ended")
    }

    fn ask(&mut self, order: &Order) -> Result<Answer> {
        self.say(order)?;
        let mut line = String::new();
        self.socket.read_line(&mut line).context("the process that holds the device does not answer")?;
        if line.is_empty() {
            bail!("the process that holds the device has ended");
        }
        match serde_json::from_str(&line)? {
            Answer::Failed(why) => bail!("{why}"),
            answer => Ok(answer),
        }
    }

    /// Attaches a file. The device, and what of its queue [`Holder::settle`] will change.
    ///
    /// # Errors
    /// No free loop device, no root.
    pub fn attach(&mut self, file: &Path, queue: &[(&str, &str)]) -> Result<(PathBuf, Vec<Changed>)> {
        let queue = queue.iter().map(|(file, value)| ((*file).into(), (*value).into())).collect();
        match self.ask(&Order::Attach { file: file.to_owned(), queue })? {
            Answer::Attached { device, changes } => Ok((device, changes)),
            other => bail!("the process that holds the device says {other:?}"),
        }
    }

    /// Makes the changes that were told; a kernel that refuses one keeps what it has.
    ///
    /// # Errors
    /// The holder is gone.
    pub fn settle(&mut self) -> Result<()> {
        self.ask(&Order::Settle).map(drop)
    }

    /// Reads from the device past the cache, 4 KiB at random places; the time of each, ns. Fewer than
    /// asked for where they fail or take too long.
    ///
    /// # Errors
    /// The holder is gone.
    pub fn read(&mut self, count: u32, limit: Duration, seed: u64) -> Result<Reads> {
        match self.ask(&Order::Read { count, limit_ms: limit.as_millis() as u64, seed })? {
            Answer::Times(reads) => Ok(reads),
            other => bail!("the process that holds the device says {other:?}"),
        }
    }

    /// Calls `gone` when it has ended, for whatever reason. What is left here tells it to let go.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn watch(self, gone: impl FnOnce() + Send + 'static) -> Result<Leash> {
        let Self { mut child, mut socket } = self;
        let leash = Leash(socket.get_ref().try_clone().context("socket")?);
        socket.get_ref().set_read_timeout(None).context("socket")?;
        let watch = move || {
            let _ = socket.read_line(&mut String::new());
            gone();
            let _ = child.wait();
        };
        std::thread::Builder::new().name("holder".into()).spawn(watch).context("thread")?;
        Ok(leash)
    }
}

/// What is left of a watched holder.
pub struct Leash(UnixStream);

impl Leash {
    /// It lets go of the device, and ends when what is dirty is written.
    pub fn let_go(&mut self) {
        let line = serde_json::to_string(&Order::LetGo).unwrap_or_default() + "\n";
        // Gone already is as good.
        let _ = self.0.write_all(line.as_bytes());
    }
}

/// A buffer as O_DIRECT wants it.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn read(device: &Path, count: u32, limit: Duration, seed: u64) -> Result<Reads> {
    let named = || device.display().to_string();
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(device).with_context(named)?;
    let sectors = std::fs::read_to_string(
        Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("size"),
    );
    let pages = sectors.with_context(named)?.trim().parse::<u64>()? / 8;
    let mut page = Box::new(Page([0; 4096]));
    let mut random = SplitMix64::new(seed);
    let begin = Instant::now();
    let mut times = Vec::with_capacity(count as usize);
    let mut failed = None;
    while times.len() < count as usize && begin.elapsed() < limit {
        let offset = random.below(pages) * 4096;
        let start = Instant::now();
        if let Err(e) = file.read_exact_at(&mut page.0, offset) {
            // A model that fails: what there is until then must do.
            failed = Some(if e.raw_os_error() == Some(libc::EIO) { "EIO".into() } else { e.to_string() });
            break;
        }
        times.push(start.elapsed().as_nanos() as u64);
    }
    Ok(Reads { times, failed })
}

/// The holder's own process: `plumb disk holder`, its socket as standard input.
///
/// # Errors
/// Standard input is no socket.
pub fn main() -> Result<()> {
    process::name();
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let mut answers = UnixStream::from(socket.try_clone().context("standard input")?);
    let mut device: Option<LoopDevice> = None;
    let mut changes: Vec<Changed> = Vec::new();
    for line in BufReader::new(UnixStream::from(socket)).lines() {
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str(&line)? {
            Order::Attach { file, queue } => LoopDevice::attach(&file).map(|attached| {
                let plan = |(file, new): &(String, String)| Changed::plan(attached.path(), file, new);
                changes = queue.iter().filter_map(plan).collect();
                let path = attached.path().to_owned();
                device = Some(attached);
                Answer::Attached { device: path, changes: changes.clone() }
            }),
            Order::Settle => {
                // A kernel that refuses: as without.
                changes.retain(|change| change.make().is_ok());
                Ok(Answer::Settled)
            }
            Order::Read { count, limit_ms, seed } => match &device {
                Some(device) => {
                    read(device.path(), count, Duration::from_millis(limit_ms), seed).map(Answer::Times)
                }
                None => Err(anyhow::anyhow!("no device is attached")),
            },
            Order::LetGo => break,
        };
        let answer = answer.unwrap_or_else(|e| Answer::Failed(format!("{e:#}")));
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        if answers.write_all(&line).is_err() {
            break;
        }
    }
    changes.iter().for_each(Changed::restore);
    // What was written to the device and not to the disk goes there now; the server lives, or the
    // kernel says that it is dead.
    drop(device);
    Ok(())
}

/// A command line of this program's own.
pub(super) fn command(words: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("plumb").args(["disk", words]);
    command
}
