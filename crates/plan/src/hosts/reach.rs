// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts that are there, reached by a command such as ssh. Every word behind it is plain, since ssh puts words together
//! and has them taken apart by a shell, and other commands do not.

use super::{Errand, BESIDE};
use anyhow::{bail, Context, Result};
use plumb_machine::child::{wait_all, Child, Status, Waited};
use plumb_machine::signals;
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal, StoppedByUser};
use plumb_undo::timeout;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A host with what was put there.
struct There<'a> {
    errand: &'a Errand<'a>,
    /// The directory there.
    dir: String,
    /// Its script, once it runs, and what ends it when it is closed.
    running: Option<(Child, OwnedFd)>,
}

impl There<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let reach = &self.errand.spec.reach;
        let mut command = Command::new(&reach[0]);
        command.args(&reach[1..]).args(words);
        command
    }
}

/// Runs the errands: the others are ready before the first one begins, and end after it.
pub(super) fn run(errands: &[Errand<'_>], output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    // Nobody there can be before it.
    let mut random = [0; 8];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random)).context("/dev/urandom")?;
    let dir = format!("/tmp/plumb-cell-{:016x}", u64::from_ne_bytes(random));
    let there = |(i, errand)| There { errand, dir: format!("{dir}-{i}"), running: None };
    let mut all: Vec<There<'_>> = errands.iter().enumerate().map(there).collect();
    let came = go(&mut all, output, guarded);
    for host in &mut all {
        if let Some((child, end)) = host.running.take() {
            drop(end);
            let mut child = [child];
            if wait_all(&mut child, Some(Instant::now() + Duration::from_secs(BESIDE)), false) != Waited::Ended {
                timeout::end(&mut child, &[], &[], guarded.journal.devices());
            }
            guarded.guardian.ended(child[0].pid());
        }
    }
    let fetched = came.and_then(|()| all.iter().try_for_each(|host| fetch(host, output, guarded)));
    for host in &all {
        // As well as it can be: a host that is gone takes it along.
        let _ = guarded.tool(host.command(&["rm", "-rf", &host.dir]), output);
    }
    fetched
}

fn go(all: &mut [There<'_>], output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    for host in all.iter() {
        put(host, output, guarded).with_context(|| format!("host {}", host.errand.name))?;
    }
    for host in all.iter_mut().skip(1) {
        begin(host, output, guarded)?;
        ready(host)?;
    }
    begin(&mut all[0], output, guarded)?;
    let Some((child, _)) = &mut all[0].running else { return Ok(()) };
    let waited = wait_all(std::slice::from_mut(child), Some(Instant::now() + guarded.limit * 2), true);
    let status = child.status();
    match waited {
        Waited::Stopped => Err(StoppedByUser.into()),
        // Its own plan has the limit; this is for a host that answers no more.
        Waited::Late => bail!("host {}: no answer for twice the limit", all[0].errand.name),
        Waited::Ended => match status {
            // What it could measure and what not stands in its plan's state.
            Some(Status::Exited(0..=3)) => Ok(()),
            status => {
                let status = status.map_or_else(|| "gone".into(), |s| s.to_string());
                bail!("host {}: {status}{}", all[0].errand.name, last_words(output, 0))
            }
        },
    }
}

/// Puts this program and the errand there.
fn put(host: &There<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let plumb = host.errand.dir.join("plumb");
    std::fs::copy("/proc/self/exe", &plumb).context("a copy of this program")?;
    let archive = host.errand.dir.with_extension("tar");
    let mut pack = Command::new("tar");
    pack.arg("-cf").arg(&archive).arg("-C").arg(&host.errand.dir).arg(".");
    guarded.tool(pack, output)?;
    std::fs::remove_file(&plumb)?;
    guarded.tool(host.command(&["mkdir", "-m", "700", &host.dir]), output)?;
    let file = File::open(&archive).with_context(|| archive.display().to_string())?;
    guarded.tool_with(host.command(&["tar", "-xf", "-", "-C", &host.dir]), output, file.into(), None)?;
    Ok(std::fs::remove_file(&archive)?)
}

fn begin(host: &mut There<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let (read, write) = signals::pipe(0)?;
    let script = format!("{}/run", host.dir);
    let mut command = host.command(&["sh", &script]);
    let said = File::create(host.errand.dir.join("told")).context("told")?;
    command.stdin(read).stdout(said).stderr(append(output)?);
    let mut child = guarded.command(command, true)?;
    child.go();
    host.running = Some((child, write));
    Ok(())
}

/// Waits until it says that it records.
fn ready(host: &mut There<'_>) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(BESIDE);
    let name = host.errand.name;
    let Some((child, _)) = &mut host.running else { return Ok(()) };
    loop {
        if std::fs::read_to_string(host.errand.dir.join("told")).is_ok_and(|told| told.contains("ready")) {
            return Ok(());
        }
        let next = Instant::now() + Duration::from_millis(20);
        match wait_all(std::slice::from_mut(child), Some(next), true) {
            Waited::Stopped => return Err(StoppedByUser.into()),
            Waited::Ended => bail!("host {name}: its recording ended before it began"),
            Waited::Late if next >= limit => bail!("host {name}: does not record after {BESIDE} s"),
            Waited::Late => {}
        }
    }
}

/// Takes back what it left.
fn fetch(host: &There<'_>, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let archive = host.errand.dir.with_extension("tar");
    let file = File::create(&archive).with_context(|| archive.display().to_string())?;
    let there = format!("{}/out", host.dir);
    let told = Some(Stdio::from(file));
    guarded
        .tool_with(host.command(&["tar", "-cf", "-", "-C", &there, "."]), output, Stdio::null(), told)
        .with_context(|| format!("host {}", host.errand.name))?;
    let out = host.errand.out();
    std::fs::create_dir(&out).with_context(|| out.display().to_string())?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(&out).arg("--no-same-owner");
    guarded.tool(unpack, output)?;
    Ok(std::fs::remove_file(&archive)?)
}
