// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb iosched`.

use clap::{Args, Subcommand};
use plumb_govern::iosched::knobs;
use std::path::PathBuf;

/// Help's last part.
pub(super) const HELP: &str = "\
lp-deadline is a kernel module (kmod/): deadline order for foreground requests, and a gate for background requests: those of \
I/O priority class idle (ionice -c3) and of declared cgroups. Without a kernel module, plumb govern limits rates instead.

Examples:
  plumb iosched status
  plumb iosched set sda idle_dispatch_interval=3000000
  plumb iosched remove sda
  plumb iosched install --persistent sda sdb";

/// The knobs of the paper; with --help the advanced ones, too.
fn set_help(all: bool) -> String {
    let knobs = match all {
        false => format!("{}\n  advanced knobs: --help, or plumb iosched status --advanced", knobs::basic()),
        true => knobs::all(),
    };
    format!(
        "Knobs (defaults fit the disk; docs/iosched-knobs.md has the evidence):\n{knobs}\n\nExamples:\n  plumb iosched set \
         sda\n  plumb iosched set /dev/nvme0n1 idle_dispatch_interval=500"
    )
}

/// `plumb iosched ...`
#[derive(Debug, Args)]
pub struct IoschedArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: IoschedCommand,
    /// A tree that stands for `/`, for tests.
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// What to do with schedulers.
#[derive(Debug, Subcommand)]
pub enum IoschedCommand {
    /// Show each disk's scheduler, lp-deadline's knobs and counters, who is low, and what hinders
    #[command(
        after_help = "Needs no root; without it, the list of background processes may lack those of other users.\nExamples:\n  plumb iosched status\n  plumb iosched status sda --json | jq '.disks[0].selected.knobs'"
    )]
    Status {
        /// Only this disk
        #[arg(value_name = "DEVICE")]
        device: Option<String>,
        /// List the advanced knobs too, and when to change them
        #[arg(long)]
        advanced: bool,
        /// Print JSON, with all knobs
        #[arg(long)]
        json: bool,
    },
    /// Select lp-deadline on a disk, until the next start, and set its knobs; a bad knob lists all
    #[command(after_help = set_help(false), after_long_help = set_help(true))]
    Set {
        /// The disk
        #[arg(value_name = "DEVICE")]
        device: String,
        /// Knobs, in the units that status shows
        #[arg(value_name = "KNOB=VALUE")]
        knobs: Vec<String>,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Select lp-deadline at every start: writes a rule of udev
    #[command(
        after_help = "Writes /etc/udev/rules.d/60-plumb-iosched.rules; disks are named by their serial number where udev knows it. What an earlier install wrote is replaced: name every disk that is to have a rule.\nExamples:\n  plumb iosched install --persistent sda sdb\n  plumb iosched install --persistent sda idle_dispatch_interval=3000000 --load-early"
    )]
    Install {
        /// Disks, and knobs that all of them get
        #[arg(required = true, value_name = "DEVICE|KNOB=VALUE")]
        words: Vec<String>,
        /// Yes, files in /etc may be written
        #[arg(long)]
        persistent: bool,
        /// Load the module early too, by /etc/modules-load.d/plumb-iosched.conf; else it is when the rule selects it
        #[arg(long)]
        load_early: bool,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put back what a disk had before set; with --persistent delete what install wrote
    #[command(after_help = "Examples:\n  plumb iosched remove sda\n  plumb iosched remove --persistent")]
    Remove {
        /// Disks
        #[arg(required_unless_present = "persistent", value_name = "DEVICE")]
        devices: Vec<String>,
        /// Delete the files that install wrote, and no others
        #[arg(long)]
        persistent: bool,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
}
