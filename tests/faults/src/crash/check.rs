// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One command, one power cut, and a look at what survived.

use super::command::{self, Cut};
use super::disk::{Disk, Fs};
use super::duration;
use anyhow::Result;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

pub const HELP: &str = "\
Commands run by sh -c with $DEV, the device, $DIR, where it is mounted (not with --fs none), and
$SAFE, a directory that no power cut touches.

Exit codes: that of --verify, or 128 and its signal's number; 2 the check itself failed. So a
verification does well to keep to 0 and 1.";

#[derive(Debug, clap::Args)]
pub struct Words {
    /// File system on the disk.
    #[arg(long, value_enum, default_value = "ext4")]
    fs: Fs,
    /// Mount options.
    #[arg(long, default_value = "", hide_default_value = true)]
    options: String,
    /// Shell command that runs when the power is cut, or has ended.
    #[arg(long)]
    command: String,
    /// Shell command that looks at what survived.
    #[arg(long)]
    verify: String,
    /// Cut the power so long after the command's start; without this, at its end.
    #[arg(long, value_parser = duration, conflicts_with = "cut_after_ready")]
    cut_after: Option<Duration>,
    /// Cut the power so long after the command printed the line READY.
    #[arg(long, value_parser = duration)]
    cut_after_ready: Option<Duration>,
    /// Chance of each 512-byte sector that was not flushed to survive, %; 0: all of them are lost.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    keep: u64,
    /// Which of them survive.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the disk, MiB; without this, what the file system needs.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    mib: Option<u64>,
    /// Give up after so long.
    #[arg(long, default_value = "120s", value_parser = duration)]
    deadline: Duration,
}

/// Runs it.
///
/// # Errors
/// The disk, the file system or the command (before the cut) failed, or it all took too long.
pub fn main(words: &Words) -> Result<ExitCode> {
    let cut = match (words.cut_after, words.cut_after_ready) {
        (Some(time), _) => Cut::After(time),
        (_, Some(time)) => Cut::AfterReady(time),
        _ => Cut::AtEnd,
    };
    let fs = words.fs;
    let mut disk = Disk::start(words.mib.map_or(fs.size(), |mib| mib << 20), words.deadline)?;
    disk.attach()?;
    disk.make(fs)?;
    disk.mount(fs, &words.options)?;

    let mut running = command::start(&disk, fs != Fs::None, &words.command)?;
    let ended = running.until(cut, words.deadline)?;
    let toll = disk.cut(words.keep, words.seed)?;
    drop(running);
    eprintln!(
        "power cut {}: {} unflushed sectors lost, {} kept, after {} flushes",
        if ended.is_some() { "at the command's end" } else { "while the command ran" },
        toll.lost,
        toll.kept,
        toll.flushes
    );

    disk.detach()?;
    disk.power_on(fs, &words.options)?;
    let status = command::start(&disk, fs != Fs::None, &words.verify)?.wait(words.deadline)?;
    disk.take_down()?;
    Ok(pass_on(status))
}

fn pass_on(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}
