// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts that are there, reached by a command such as ssh. Every word behind it is plain: ssh joins its words and has a
//! shell take them apart, other commands do not.

use super::{HostTask, READY};
use anyhow::{bail, Context, Result};
use plumb_machine::child::{wait_all, Child, Status, Waited};
use plumb_machine::signals;
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal, StoppedByUser};
use plumb_undo::timeout;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a recording takes to begin.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest that a host takes to end, restore what it changed and remove what was put there: writing back may take long.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest that copying to or from a host takes.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1800);
/// What is put there beside the program.
const FILES: [&str; 4] = ["run", "until", "clean", "cell.toml"];

/// A host and what was put there.
struct RemoteHost<'a> {
    task: &'a HostTask<'a>,
    /// The directory there.
    dir: String,
    /// Its script while it runs, and the write end of its standard input.
    running: Option<(Child, OwnedFd)>,
    /// The directory may be there.
    used: bool,
}

impl RemoteHost<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let reach = &self.task.spec.reach;
        let mut command = Command::new(&reach[0]);
        command.args(&reach[1..]).args(words);
        command
    }

    fn script(&self, name: &str) -> Command {
        self.command(&["sh", &format!("{}/{name}", self.dir)])
    }
}

/// Runs all tasks: the first one's measurement while the others are recorded. Returns doubts.
pub(super) fn run(
    tasks: &[HostTask<'_>],
    output: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Vec<String>> {
    // Unpredictable, so that no other user of the host can create it first.
    let mut random = [0; 8];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random)).context("/dev/urandom")?;
    let dir = format!("/tmp/plumb-cell-{:016x}", u64::from_ne_bytes(random));
    let host = |(i, task)| RemoteHost { task, dir: format!("{dir}-{i}"), running: None, used: false };
    let mut all: Vec<RemoteHost<'_>> = tasks.iter().enumerate().map(host).collect();
    let mut came = measure(&mut all, output, guarded);
    let mut doubts = Vec::new();
    for (i, host) in all.iter_mut().enumerate() {
        let ended = end(host, output, guarded);
        // The measured host's own end is told by its plan.
        doubts.extend(ended.filter(|_| i > 0));
    }
    let stopped = came.as_ref().is_err_and(|e| e.is::<StoppedByUser>());
    for (i, host) in all.iter().enumerate().filter(|(_, host)| host.used && !stopped) {
        match fetch(host, output, guarded) {
            Err(e) if i == 0 && came.is_ok() => came = Err(e),
            Err(e) if came.is_ok() => {
                doubts.push(format!("host {}: its recording is lost: {e:#}", host.task.name))
            }
            _ => {}
        }
    }
    for host in all.iter().filter(|host| host.used) {
        clean(host, output, guarded)?;
    }
    came.map(|()| doubts)
}

fn measure(all: &mut [RemoteHost<'_>], output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    for host in all.iter_mut() {
        put(host, output, guarded).with_context(|| format!("host {}", host.task.name))?;
    }
    for host in all.iter_mut().skip(1) {
        begin(host, output, guarded)?;
        ready(host, output)?;
    }
    begin(&mut all[0], output, guarded)?;
    let name = all[0].task.name;
    let Some((child, _)) = &mut all[0].running else { return Ok(()) };
    // Its own plan has the limit, for each of its steps; this is for a host that answers no more.
    let until = Instant::now() + guarded.limit * 4 + CLEANUP_TIMEOUT;
    let waited = wait_all(std::slice::from_mut(child), Some(until), true);
    match (waited, child.status()) {
        (Waited::Stopped, _) => Err(StoppedByUser.into()),
        (Waited::Late, _) => bail!("host {name}: no answer for four times the limit"),
        // What it measured, and what failed, is in its plan's state.
        (Waited::Ended, Some(Status::Exited(0..=3))) => Ok(()),
        (Waited::Ended, status) => {
            let status = status.map_or_else(|| "gone".into(), |s| s.to_string());
            bail!("host {name}: {status}{}", last_words(output, 0))
        }
    }
}

/// Runs a command that no signal cuts short: it puts something back.
fn finish(
    mut command: Command,
    output: &Path,
    limit: Duration,
    guarded: &mut GuardedJournal,
) -> Result<Option<Status>> {
    let said = append(output)?;
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    let mut child = [guarded.command(command, false)?];
    child[0].go();
    if wait_all(&mut child, Some(Instant::now() + limit), false) != Waited::Ended {
        timeout::end(&mut child, &[], &[], guarded.journal.devices());
    }
    guarded.guardian.ended(child[0].pid());
    Ok(child[0].status())
}

/// Copies this program and the task's files there. Owned by whoever unpacks them, and nobody else may write them.
fn put(host: &mut RemoteHost<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let dir = &host.task.dir;
    let plumb = dir.join("plumb");
    std::fs::copy("/proc/self/exe", &plumb).context("a copy of this program")?;
    let archive = dir.with_extension("tar");
    let mut pack = Command::new("tar");
    pack.args(["--owner=0", "--group=0", "--numeric-owner", "--mode=go=", "-cf"]).arg(&archive);
    pack.arg("-C").arg(dir).arg("plumb").args(FILES.iter().filter(|file| dir.join(file).exists()));
    guarded.tool(pack, output)?;
    std::fs::remove_file(&plumb)?;
    guarded.tool(host.command(&["mkdir", "-m", "700", &host.dir]), output)?;
    host.used = true;
    let file = File::open(&archive).with_context(|| archive.display().to_string())?;
    let unpack = host.command(&["tar", "-xof", "-", "-C", &host.dir]);
    transfer(guarded, |guarded| guarded.tool_with(unpack, output, file.into(), None))?;
    Ok(std::fs::remove_file(&archive)?)
}

/// A tool that may take longer than the plan's limit, which is for measurements.
fn transfer(
    guarded: &mut GuardedJournal,
    tool: impl FnOnce(&mut GuardedJournal) -> Result<()>,
) -> Result<()> {
    let limit = guarded.limit;
    guarded.limit = limit.max(TRANSFER_TIMEOUT);
    let came = tool(guarded);
    guarded.limit = limit;
    came
}

fn begin(host: &mut RemoteHost<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let (read, write) = signals::pipe(0)?;
    let told = File::create_new(host.task.dir.join("told")).context("told")?;
    let mut command = host.script("run");
    command.stdin(read).stdout(told).stderr(append(output)?);
    let mut child = guarded.command(command, true)?;
    child.go();
    host.running = Some((child, write));
    Ok(())
}

/// Waits until its recording has begun.
fn ready(host: &mut RemoteHost<'_>, output: &Path) -> Result<()> {
    let limit = Instant::now() + RECORDER_TIMEOUT;
    let (name, told) = (host.task.name, host.task.dir.join("told"));
    let Some((child, _)) = &mut host.running else { return Ok(()) };
    loop {
        if std::fs::read_to_string(&told).is_ok_and(|told| told.lines().any(|line| line == READY)) {
            return Ok(());
        }
        let next = Instant::now() + Duration::from_millis(20);
        match wait_all(std::slice::from_mut(child), Some(next), true) {
            Waited::Stopped => return Err(StoppedByUser.into()),
            Waited::Ended => bail!("host {name}: its recording did not begin{}", last_words(output, 0)),
            Waited::Late if next >= limit => {
                bail!("host {name}: its recording did not begin within {} s", RECORDER_TIMEOUT.as_secs())
            }
            Waited::Late => {}
        }
    }
}

/// Ends its script; a doubt where that did not end well.
fn end(host: &mut RemoteHost<'_>, output: &Path, guarded: &mut GuardedJournal) -> Option<String> {
    let (child, stdin) = host.running.take()?;
    // Without this line it would take the connection for lost.
    let _ = File::from(stdin).write_all(b"end\n");
    let mut child = [child];
    if wait_all(&mut child, Some(Instant::now() + CLEANUP_TIMEOUT), false) != Waited::Ended {
        timeout::end(&mut child, &[], &[], guarded.journal.devices());
    }
    guarded.guardian.ended(child[0].pid());
    match child[0].status() {
        Some(Status::Exited(0)) => None,
        Some(status) => {
            Some(format!("host {}: its recording: {status}{}", host.task.name, last_words(output, 0)))
        }
        None => Some(format!("host {}: its recording did not end", host.task.name)),
    }
}

/// Copies back what it left.
fn fetch(host: &RemoteHost<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let named = || format!("host {}", host.task.name);
    let archive = host.task.dir.with_extension("tar");
    let file = File::create_new(&archive).with_context(|| archive.display().to_string())?;
    let pack = host.command(&["tar", "-cf", "-", "-C", &format!("{}/out", host.dir), "."]);
    let told = Some(Stdio::from(file));
    transfer(guarded, |guarded| guarded.tool_with(pack, output, Stdio::null(), told)).with_context(named)?;
    let out = host.task.out();
    std::fs::DirBuilder::new().mode(0o700).create(&out).with_context(|| out.display().to_string())?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(&out).args(["--no-same-owner", "--no-same-permissions"]);
    guarded.tool(unpack, output).with_context(named)?;
    super::keep_files(&out).with_context(named)?;
    Ok(std::fs::remove_file(&archive)?)
}

/// Restores what is still changed there and removes the directory.
fn clean(host: &RemoteHost<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    match finish(host.script("clean"), output, CLEANUP_TIMEOUT, guarded)? {
        Some(Status::Exited(0)) => Ok(()),
        _ => Err(super::NotRestored(format!(
            "host {}: what was changed there may not be restored, and {} was not removed; there: {1}/plumb plan restore {1}/out/plan",
            host.task.name, host.dir
        ))
        .into()),
    }
}
