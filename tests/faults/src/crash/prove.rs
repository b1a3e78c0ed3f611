// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disk tests itself: a writer of numbered blocks, with and without fsync, on the device and on
//! file systems. What plumb's own loads are tested with must be right before they are.

use super::blocks::{self, Found, BLOCKS, SECTORS};
use super::disk::{Disk, Fs};
use super::{duration, within};
use anyhow::{bail, ensure, Context, Result};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub const HELP: &str = "\
Prints PASS, FAIL or SKIP and the name of each case.
Exit codes: 0 all passed or were skipped; 1 not so; 2 error.";

/// Of a case that another program's sync(2) disturbed.
const TRIES: u64 = 5;

#[derive(Debug, clap::Args)]
pub struct Words {
    /// Only this case, in this process.
    #[arg(long)]
    case: Option<String>,
    /// A case fails after so long.
    #[arg(long, default_value = "60s", value_parser = duration)]
    deadline: Duration,
}

type Case = (&'static str, Fs, fn(&mut Disk, Fs) -> Result<()>);

const CASES: &[Case] = &[
    ("device-unflushed-lost", Fs::None, lost),
    ("device-fsync-kept", Fs::None, kept),
    ("device-sync-write-kept", Fs::None, sync_write),
    ("device-some-kept-and-torn", Fs::None, torn),
    ("ext4-unflushed-lost", Fs::Ext4, lost),
    ("ext4-fsync-kept", Fs::Ext4, kept),
    ("ext4-some-kept-and-torn", Fs::Ext4, torn),
    ("ext4-journal-replayed", Fs::Ext4, journal),
    ("xfs-unflushed-lost", Fs::Xfs, lost),
    ("xfs-fsync-kept", Fs::Xfs, kept),
    ("xfs-some-kept-and-torn", Fs::Xfs, torn),
    ("xfs-journal-replayed", Fs::Xfs, journal),
];

/// Runs the cases, each in a process of its own.
///
/// # Errors
/// No case of that name, or it failed.
pub fn main(words: &Words) -> Result<ExitCode> {
    if let Some(name) = &words.case {
        let (_, fs, case) = CASES.iter().find(|(n, ..)| n == name).with_context(|| {
            let names: Vec<_> = CASES.iter().map(|(name, ..)| *name).collect();
            format!("{name}: no case of that name; there are {}", names.join(", "))
        })?;
        run(*fs, *case, words.deadline)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = false;
    for (name, fs, _) in CASES {
        if let Some(reason) = fs.lacks() {
            println!("SKIP {name}: {reason}");
            continue;
        }
        match apart(name, words.deadline) {
            Ok(()) => println!("PASS {name}"),
            Err(e) => {
                failed = true;
                println!("FAIL {name}: {e:#}");
            }
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// Runs a case as a process: it takes itself into a namespace, and may be stuck.
fn apart(name: &str, deadline: Duration) -> Result<()> {
    let mut said = tempfile::tempfile().context("temporary file")?;
    let mut child = Command::new(std::env::current_exe().context("own path")?)
        .args(["crash", "prove", "--case", name, "--deadline"])
        .arg(format!("{}ms", deadline.as_millis()))
        .stderr(said.try_clone()?)
        .process_group(0)
        .spawn()
        .context("the case's process")?;
    let mut status = None;
    // The case gives up by itself at its deadline; this is for when it cannot.
    let limit = deadline + Duration::from_secs(40);
    if !within(limit, || child.try_wait().is_ok_and(|s| (status = s, s.is_some()).1)) {
        // Its server clears up.
        crate::sys::kill_group(child.id(), libc::SIGKILL);
        bail!("process {} is not done after {limit:?}", child.id());
    }
    if status.is_some_and(|s| s.success()) {
        return Ok(());
    }
    let mut text = String::new();
    said.rewind()?;
    said.read_to_string(&mut text)?;
    let text = text.trim().lines().collect::<Vec<_>>().join("; ");
    bail!("{}", text.strip_prefix("plumb-faults: ").unwrap_or(&text))
}

fn run(fs: Fs, case: fn(&mut Disk, Fs) -> Result<()>, deadline: Duration) -> Result<()> {
    let mut disk = Disk::start(fs.size(), deadline)?;
    disk.attach()?;
    disk.make(fs)?;
    disk.mount(fs, "")?;
    case(&mut disk, fs)?;
    disk.take_down()
}

/// How the new generation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Unflushed,
    Fsync,
    /// O_DSYNC: each write with FUA.
    SyncWrite,
}

/// Writes an old generation with fsync, a new one as it is told, cuts the power, and looks.
fn cut_after(disk: &mut Disk, fs: Fs, percent: u64, how: How) -> Result<Found> {
    for round in 0..TRIES {
        let (old, new) = (2 * round + 1, 2 * round + 2);
        let path = target(disk, fs)?;
        let file = blocks::open(&path, if how == How::SyncWrite { libc::O_DSYNC } else { 0 })?;
        blocks::write(&file, old)?;
        file.sync_all().context("fsync")?;
        if fs != Fs::None {
            File::open(disk.dir())?.sync_all().context("fsync of the directory")?;
        }
        let before = disk.flushes()?;
        blocks::write(&file, new)?;
        if how == How::Fsync {
            file.sync_all().context("fsync")?;
        }
        let toll = disk.cut(percent, round)?;
        ensure!(blocks::write(&file, new).is_err(), "a disk without power took a write");
        drop(file);
        disk.detach()?;
        disk.power_on(fs, "")?;
        // Else a sync(2) of the whole machine, or the journal's own commit because it took long.
        if how != How::Unflushed || toll.flushes == before {
            return blocks::look(&target(disk, fs)?, old, new);
        }
    }
    bail!("other programs flushed every disk in each of {TRIES} tries: call it again when none calls sync")
}

fn target(disk: &Disk, fs: Fs) -> Result<PathBuf> {
    Ok(if fs == Fs::None { disk.device()?.path().to_owned() } else { disk.dir().join("blocks") })
}

fn lost(disk: &mut Disk, fs: Fs) -> Result<()> {
    let found = cut_after(disk, fs, 0, How::Unflushed)?;
    ensure!(found == Found { old: SECTORS, ..Found::default() }, "not all is as before: {found:?}");
    Ok(())
}

fn all_new(found: &Found) -> Result<()> {
    ensure!(*found == Found { new: SECTORS, ..Found::default() }, "not all is there: {found:?}");
    Ok(())
}

fn kept(disk: &mut Disk, fs: Fs) -> Result<()> {
    all_new(&cut_after(disk, fs, 0, How::Fsync)?)
}

fn sync_write(disk: &mut Disk, fs: Fs) -> Result<()> {
    // What makes a flush of a FUA write is the block layer, for a device without FUA but with a cache.
    let (fua, cache) = (disk.device()?.queue("fua")?, disk.device()?.queue("write_cache")?);
    ensure!(fua == "0" && cache == "write back", "the loop device says fua {fua}, write cache '{cache}'");
    all_new(&cut_after(disk, fs, 0, How::SyncWrite)?)
}

fn torn(disk: &mut Disk, fs: Fs) -> Result<()> {
    let found = cut_after(disk, fs, 50, How::Unflushed)?;
    let Found { old, new, other, torn } = found;
    ensure!(other == 0, "sectors that nobody wrote: {found:?}");
    // Half of 512 sectors, give or take over six standard deviations.
    ensure!(old.min(new) > SECTORS / 3 && torn > BLOCKS / 2, "not about half of it: {found:?}");
    Ok(())
}

/// Files with and without fsync, and half of what was not flushed: the journal makes a whole of it.
fn journal(disk: &mut Disk, fs: Fs) -> Result<()> {
    const FILES: u64 = 24;
    for round in 0..3_u64 {
        let name = |kind: &str, i| format!("{kind}-{round}-{i}");
        let content = |i: u64| vec![(i + round) as u8 + 1; 3000 + 1000 * i as usize];
        for i in 0..FILES {
            let path = disk.dir().join(name("synced", i));
            let mut file = File::create(&path).with_context(|| path.display().to_string())?;
            file.write_all(&content(i))?;
            file.sync_all().with_context(|| format!("{}: fsync", path.display()))?;
            std::fs::write(disk.dir().join(name("not", i)), content(i))?;
        }
        File::open(disk.dir())?.sync_all().context("fsync of the directory")?;
        // Work that is under way when the power goes.
        for i in 0..FILES {
            std::fs::remove_file(disk.dir().join(name("not", i)))?;
            let path = disk.dir().join(name("late", i));
            std::fs::write(path, content(i))?;
        }
        disk.cut(50, round)?;
        disk.detach()?;
        disk.power_on(fs, "")?;
        for i in 0..FILES {
            let path = disk.dir().join(name("synced", i));
            let data = std::fs::read(&path).with_context(|| format!("{}: was synced", path.display()))?;
            ensure!(data == content(i), "{}: other content than was synced", path.display());
        }
    }
    Ok(())
}
