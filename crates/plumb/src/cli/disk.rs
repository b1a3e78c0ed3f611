// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb disk`.

use clap::{Args, Subcommand};
use plumb_load::job::Bytes;
use plumb_sim::serve::Backing;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Help's last part.
pub(super) const HELP: &str = "\
A served disk is a block device of this machine, with data, whose requests take as long as a model of a disk says: \
a hard disk of 2004, a cloud's volume, one that is about to fail. It is gone when it is stopped, and when what \
started it is killed. plumb disk list --models tells the models; docs/disk.md has the rest.

Examples:
  plumb disk serve atlas10k4 --size 4G
  plumb disk serve hdp72503 --set medium.write-cache=false --detach --name old
  plumb disk show gp3 > mine.toml; plumb disk serve ./mine.toml
  plumb disk cut old --keep 50; plumb disk power-on old
  plumb disk stop old";

/// `plumb disk ...`
#[derive(Debug, Args)]
pub struct DiskArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DiskCommand,
}

/// What to do with disks.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Serve a disk until Ctrl-C.
    #[command(
        after_help = "Exit codes: 0 it was ended as asked, 2 error.\nExamples:\n  plumb disk serve atlas10k4 --size 4G\n  plumb disk serve nvme --backing disk.img --log requests.csv\n  plumb disk serve gp3 --detach --json | jq -r .device\n  plumb disk serve instant --no-device --nbd 127.0.0.1:10809"
    )]
    Serve(ServeArgs),
    /// List the disks that are served, or the models that there are
    #[command(after_help = "Examples:\n  plumb disk list\n  plumb disk list --models")]
    List(DiskListArgs),
    /// Print a model as a file (TOML) that serve reads, to be edited
    #[command(
        after_help = "Examples:\n  plumb disk show gp3 > mine.toml\n  plumb disk show hdp72503 --set medium.write-cache=false --json"
    )]
    Show {
        /// Model: a preset's name or a file
        model: String,
        /// Set a key of it (repeatable)
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// End disks; one that is in use only by --force
    #[command(after_help = "Examples:\n  plumb disk stop atlas10k4\n  plumb disk stop --all --force")]
    Stop(DiskStopArgs),
    /// Cut a disk's power: what was not flushed is lost, and everything fails until power-on
    #[command(
        after_help = "A file system on it has to be unmounted before power-on, and is mounted again after it.\nExample:\n  plumb disk cut old --keep 50 --seed 7; umount /mnt; plumb disk power-on old; mount /dev/loop0 /mnt"
    )]
    Cut {
        /// Which disk
        name: String,
        /// Chance of each sector of 512 bytes that was not flushed to survive
        #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
        keep: u64,
        /// Which of them survive
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch a disk on again after a power cut
    #[command(after_help = "Example:\n  plumb disk power-on old")]
    PowerOn {
        /// Which disk
        name: String,
        /// One in use too: what its users hold in the page cache is written as if there had been no cut
        #[arg(long)]
        force: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// The process that serves (what serve starts).
    #[command(hide = true)]
    Server,
    /// The process that holds the device (what the server starts).
    #[command(hide = true)]
    Holder,
}

/// What to serve, and how.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Model: a preset's name, or a file (a path with a '/' or ending in .toml)
    pub model: String,
    /// Length, a multiple of 4K [default: the file's that it is kept in, or 1G]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Where the data are kept: memory, or a file, which is made or must be as long as the disk
    #[arg(long, value_name = "memory|FILE", default_value = "memory")]
    pub backing: BackingWord,
    /// Seed of everything random in the model
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Its name for list, stop and cut [default: the model's, with a number if that is taken]
    #[arg(long)]
    pub name: Option<String>,
    /// Set a key of the model, as in medium.write-cache=false (repeatable; show prints all keys)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write a line for each request into a file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Serve NBD too: HOST:PORT, or the path of a Unix socket
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Option<String>,
    /// No block device, NBD alone; needs no root
    #[arg(long, requires = "nbd")]
    pub no_device: bool,
    /// Return when it is ready; it lives until stop
    #[arg(long)]
    pub detach: bool,
    /// Do not measure the way to the device, nor take it off the times
    #[arg(long)]
    pub no_calibrate: bool,
    /// Print what is served as JSON
    #[arg(long)]
    pub json: bool,
}

/// `memory`, or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingWord(pub Backing);

impl FromStr for BackingWord {
    type Err = Infallible;
    fn from_str(word: &str) -> Result<Self, Infallible> {
        Ok(BackingWord(if word == "memory" { Backing::Memory } else { Backing::File(word.into()) }))
    }
}

/// What to list.
#[derive(Debug, Args)]
pub struct DiskListArgs {
    /// The models that serve knows by name, instead
    #[arg(long)]
    pub models: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which disks to end.
#[derive(Debug, Args)]
pub struct DiskStopArgs {
    /// Which (repeatable)
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Vec<String>,
    /// All that are served
    #[arg(long)]
    pub all: bool,
    /// One in use too: its I/O fails, it is unmounted lazily
    #[arg(long)]
    pub force: bool,
    /// Print what became of each as JSON
    #[arg(long)]
    pub json: bool,
}
