// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block device whose times are a model's: started, found, ordered about, and ended without a trace.
//!
//! Three processes, so that each can be killed without the others waiting for ever:
//!
//! - who calls [`start`]: it may own the disk ([`ServeOptions::owner`]), which then ends with it;
//! - the [`server`]: the model, the data, and a FUSE file that answers when the model says so. The
//!   file's mount is attached nowhere, and goes with the server;
//! - the [`holder`]: has the loop device open that shows that file as a disk. It is taken down by the
//!   kernel when the holder and all users are gone (LO_FLAGS_AUTOCLEAR).
//!
//! A killed server: /dev/fuse is closed, the kernel fails what is under way, the holder lets go. A
//! killed holder: the server sees the end of their socket, and ends when the device is not used any
//! more, or fails everything after a while. Both at once: the kernel does all of it.

mod calibrate;
mod control;
mod dead_disks;
mod holder;
mod power;
mod process;
mod server;
mod users;

pub use super::fuse::Counts;
pub use dead_disks::{dead, Dead};
pub use power::{cut, power_on, powered};
pub use users::User;

use super::loop_device::{backing, within};
use super::registry::{alive, check_name, Entry, Registry};
use super::{Backing, Disk, ServeOptions};
use anyhow::{anyhow, bail, Context, Result};
use control::{Answer, Order};
use plumb_machine::process::{ended, pidfd};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

/// A server is ready or has failed by then; a calibration on a slow disk takes a few seconds.
const READY: Duration = Duration::from_secs(120);
/// A server that was told to has ended by then.
const ENDED: Duration = Duration::from_secs(20);

/// What a server is told.
#[derive(Debug, Serialize, Deserialize)]
struct Launch {
    options: ServeOptions,
    calibrate: bool,
}

/// What a server tells who started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Ready(Box<Disk>),
    Failed(String),
    Ended(String),
}

/// A disk that this process started.
pub struct Running {
    pub disk: Disk,
    end: Receiver<Option<String>>,
}

impl Running {
    /// Waits for its end; none while it lives, and then why it ended, if it could tell.
    pub fn ended(&self, limit: Duration) -> Option<Option<String>> {
        match self.end.recv_timeout(limit) {
            Ok(why) => Some(why),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(None),
        }
    }
}

/// Starts a disk; back when its device is ready and calibrated.
///
/// # Errors
/// No root, no FUSE, no loop device, the name is taken, no room; named, with what to do.
pub fn start(options: ServeOptions) -> Result<Disk> {
    launch(options, true).map(|running| running.disk)
}

/// As [`start`], for who wants to know of its end too; without `calibrate` its times are too long by
/// the way to the device.
///
/// # Errors
/// As [`start`].
pub fn launch(mut options: ServeOptions, calibrate: bool) -> Result<Running> {
    check(&options)?;
    // The server works in /, so that it keeps no file system from being unmounted.
    let whole = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
    if let Backing::File(path) = &mut options.backing {
        *path = whole(path)?;
    }
    // In the user's words, and before anything is started.
    if let Some(log) = options.log.as_deref().filter(|log| log.symlink_metadata().is_ok()) {
        bail!("--log {}: is there already; remove it or name another", log.display());
    }
    options.log = options.log.as_deref().map(whole).transpose()?;
    if let Some(address) = options.nbd.as_mut().filter(|a| a.contains('/')) {
        let path = address.strip_prefix("unix:").unwrap_or(address);
        *address = whole(Path::new(path))?.to_string_lossy().into_owned();
    }
    let mut command = holder::command("server");
    // One without an owner outlives the terminal, and who reads our standard error.
    let words = if options.owner.is_some() { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(words).current_dir("/");
    // SAFETY: setsid is a plain system call. Ctrl-C is for who started it.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    let mut server = command.spawn().context("the process that serves the disk cannot be started")?;
    let pid = server.id();
    let pipes = server.stdin.take().zip(server.stdout.take());
    let (mut input, output) = pipes.context("the process that serves the disk has no pipes")?;
    let (said, heard) = channel();
    let (over, end) = channel();
    let read = move || {
        let mut why = None;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Told::Ended(reason)) => why = Some(reason),
                Ok(told) => drop(said.send(Ok(told))),
                Err(e) => drop(said.send(Err(anyhow!("{line}: {e}")))),
            }
        }
        drop(said);
        let _ = server.wait();
        let _ = over.send(why);
    };
    std::thread::Builder::new().name("disk".into()).spawn(read).context("thread")?;
    let launch = serde_json::to_vec(&Launch { options, calibrate })?;
    // One that is gone already has no more to say than that.
    let _ = input.write_all(&launch);
    drop(input);
    match heard.recv_timeout(READY) {
        Ok(Ok(Told::Ready(disk))) => Ok(Running { disk: *disk, end }),
        Ok(Ok(Told::Failed(why))) => {
            // It is gone from the list of processes, too.
            let _ = end.recv_timeout(ENDED);
            Err(anyhow!(why))
        }
        Ok(Ok(Told::Ended(why))) => bail!("the process that serves the disk ended: {why}"),
        Ok(Err(e)) => Err(e.context("the process that serves the disk says something else")),
        Err(RecvTimeoutError::Disconnected) => {
            // Somebody killed it. While it dies its entry is that of a living one.
            let _ = end.recv_timeout(ENDED);
            drop(list());
            bail!("the process that serves the disk ended before it was ready; its own words are above")
        }
        Err(e) => {
            // SAFETY: a call with plain numbers. Its output is open, so that nobody has waited for it
            // and the number is its own.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
            bail!("the process that serves the disk, {pid}, is not ready after {} s: {e}", READY.as_secs())
        }
    }
}

/// What can be told before anything is started.
fn check(options: &ServeOptions) -> Result<()> {
    if let Some(name) = &options.name {
        check_name(name)?;
    }
    if options.no_device {
        return Ok(());
    }
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        bail!("a block device needs root (loop device, FUSE mount); without it: --no-device --nbd HOST:PORT");
    }
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if !Path::new(node).exists() {
            bail!("{node} does not exist: load the module (modprobe {module}), or serve NBD alone: --no-device --nbd HOST:PORT");
        }
    }
    Ok(())
}

/// The server's process, which [`start`] starts; whether it served.
///
/// # Errors
/// It was not started by that.
pub fn server_main() -> Result<bool> {
    server::main()
}

/// The holder's process, which the server starts.
///
/// # Errors
/// It was not started by that.
pub fn holder_main() -> Result<()> {
    holder::main()
}

/// The disks that are served by this user, by name. What killed ones left is cleared up.
pub fn list() -> Vec<Disk> {
    let entries = Registry::find().entries().unwrap_or_default();
    entries.into_iter().filter(|e| e.ready).map(|e| e.disk).collect()
}

/// The disk of that name.
pub fn find(name: &str) -> Option<Disk> {
    list().into_iter().find(|disk| disk.name == name)
}

/// Who uses a disk's device: it cannot end until they let go of it.
pub fn users(disk: &Disk) -> Vec<User> {
    let Some(device) = &disk.device else { return Vec::new() };
    let entries = Registry::find().entries().unwrap_or_default();
    let holder = entries.iter().find(|e| e.disk.pid == disk.pid).and_then(|e| e.holder);
    let own = [Some(disk.pid), holder];
    users::of(device, &own.into_iter().flatten().collect::<Vec<_>>())
}

/// As [`users`], without those that are gone in a moment: who looks what a new device is (udev, blkid).
fn users_now(disk: &Disk) -> Vec<User> {
    let mut users = users(disk);
    let passing =
        |users: &[User]| !users.is_empty() && users.iter().all(|u| matches!(u, User::Process { .. }));
    if passing(&users) {
        within(Duration::from_secs(1), || {
            users = self::users(disk);
            !passing(&users)
        });
    }
    users
}

fn entry(name: &str) -> Result<(Registry, Entry)> {
    let registry = Registry::find();
    let entries = registry.entries()?;
    if let Some(entry) = entries.iter().find(|e| e.disk.name == name) {
        return Ok((registry, entry.clone()));
    }
    let names: Vec<_> = entries.iter().map(|e| e.disk.name.as_str()).collect();
    let there =
        if names.is_empty() { "none is served".into() } else { format!("there are {}", names.join(", ")) };
    bail!("{name}: no disk of that name is served; {there} (plumb disk list)")
}

/// Ends a disk; back when nothing of it is left. With `force`, everything that is under way and to
/// come fails, what of it is mounted here is unmounted lazily and not swapped to any more.
///
/// # Errors
/// There is none of that name; it is in use, by whom is told; its server does not end.
pub fn stop(name: &str, force: bool) -> Result<()> {
    let (registry, entry) = entry(name)?;
    let disk = &entry.disk;
    let users = if force { users(disk) } else { users_now(disk) };
    if !users.is_empty() && !force {
        let who: Vec<_> = users.iter().map(ToString::to_string).collect();
        let device = disk.device.as_deref().unwrap_or(Path::new(""));
        bail!(
            "{name}: {} is in use: {}; release it first, or fail its I/O: plumb disk stop {name} --force",
            device.display(),
            who.join(", ")
        );
    }
    let pidfd = pidfd(disk.pid as i32);
    let told = control::ask(&registry.socket(name), Order::Stop { force });
    if force {
        users.iter().for_each(|user| let_go(user, disk));
    }
    match (told, pidfd) {
        // It ended meanwhile.
        (_, Err(_)) => {}
        (Ok(_), Ok(pidfd)) if ended(&pidfd, Some(ENDED)) => {}
        (Err(e), Ok(_)) if !force => {
            return Err(e.context(format!(
                "{name}: its server, process {}, does not listen; plumb disk stop {name} --force kills it",
                disk.pid
            )))
        }
        (_, Ok(pidfd)) => {
            if !force {
                bail!(
                    "{name}: its server, process {}, does not end; plumb disk stop {name} --force kills it",
                    disk.pid
                );
            }
            if alive(disk) {
                // SAFETY: a call with plain numbers; it is that process still.
                unsafe { libc::kill(disk.pid as libc::pid_t, libc::SIGKILL) };
            }
            if !ended(&pidfd, Some(ENDED)) {
                bail!("{name}: its server, process {}, does not end by a kill", disk.pid);
            }
        }
    }
    registry.remove(&entry);
    let ours = format!("plumb-disk-{name}");
    if let Some(device) = &disk.device {
        let gone = || backing(device).is_none_or(|b| !b.trim_end_matches('/').ends_with(&ours));
        if !within(Duration::from_secs(5), gone) {
            let who: Vec<_> = users::of(device, &[]).iter().map(ToString::to_string).collect();
            let who = if who.is_empty() { "by the kernel".into() } else { who.join(", ") };
            bail!(
                "{name}: ended, its I/O fails; {} goes when it is not used any more: {who}",
                device.display()
            );
        }
    }
    Ok(())
}

/// Takes a user off a device whose I/O fails.
fn let_go(user: &User, disk: &Disk) {
    let c = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
    let device = disk.device.as_deref().unwrap_or(Path::new(""));
    let (what, done) = match user {
        User::Mount { point, seen_by: None } => {
            let path = c(point);
            // SAFETY: the string ends in NUL.
            (point.display(), unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })
        }
        User::Swap => {
            let path = c(device);
            // SAFETY: the string ends in NUL.
            (device.display(), unsafe { libc::swapoff(path.as_ptr()) })
        }
        _ => return,
    };
    if done != 0 {
        eprintln!("plumb: {what}: {}", std::io::Error::last_os_error());
    }
}

fn order(name: &str, order: Order) -> Result<Answer> {
    let (registry, entry) = entry(name)?;
    control::ask(&registry.socket(name), order)
        .with_context(|| format!("{name} (process {})", entry.disk.pid))
}

/// What has been asked of a disk's device since it was started, its calibration included.
///
/// # Errors
/// There is none of that name, or it has no block device.
pub fn stats(name: &str) -> Result<Counts> {
    match order(name, Order::Stats)? {
        Answer::Stats(counts) => Ok(counts),
        other => bail!("{name}: its server says {other:?}"),
    }
}
