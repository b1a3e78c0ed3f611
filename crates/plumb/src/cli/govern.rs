// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb govern`.

use clap::Args;
use plumb_govern::rate::Rate;
use plumb_trace::units;
use std::ffi::OsString;

/// Help's last part.
pub(super) const HELP: &str = "\
Needs root, and no kernel module: the limits are the kernel's own (io.max of cgroup v2, blkio.throttle of v1). They \
are taken away when plumb ends, however it ends; --restore takes away what a killed one left where its guardian was \
killed too. docs/govern.md tells what is not covered.

Exit codes: 0 done, 1 COMMAND failed or was ended by --for or Ctrl-C, 2 error.

Examples:
  plumb govern --protect /dev/sda -- restic backup /home
  plumb govern --low backup.slice --protect /dev/sda --delay 2s
  plumb govern --low /sys/fs/cgroup/backup --protect database.slice --target 10ms
  plumb govern --low scrub --protect nvme0n1 --limit 50M,1000iops --for 1h --json";

/// `plumb govern`
#[derive(Debug, Args)]
pub struct GovernArgs {
    /// Cgroup whose I/O is low, with all below it: its directory, or its path below the hierarchy (repeatable)
    #[arg(long, value_name = "CGROUP")]
    pub low: Vec<String>,
    /// Disk whose normal I/O is protected, or cgroup whose I/O alone is normal (repeatable) [default: every disk but loop devices]
    #[arg(long, value_name = "DEVICE|CGROUP")]
    pub protect: Vec<String>,
    /// What low I/O may do beside normal I/O, of reads and of writes each: 2M, 50iops or 2M,50iops
    /// (K, M and G are powers of 1024; what is printed is in MB, a million bytes)
    /// [default: 2 MB/s and 5 requests a second on a disk that turns, else 20 MB/s and 1000]
    #[arg(long, value_name = "RATE")]
    pub limit: Option<Rate>,
    /// How long no normal I/O must have been there before low I/O is free
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = units::parse_duration)]
    pub delay: u64,
    /// Widen the limit as long as 99 of 100 normal requests take no longer with the device
    #[arg(long, value_name = "LATENCY", value_parser = units::parse_duration, conflicts_with = "sums")]
    pub target: Option<u64>,
    /// End after this long, as with Ctrl-C; COMMAND is then ended too (SIGTERM, after 10 s SIGKILL)
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    pub duration: Option<u64>,
    /// Do without BPF: watch sums of bytes, not requests
    #[arg(long)]
    pub sums: bool,
    /// Only take away what killed ones have left, and end
    #[arg(long, conflicts_with_all = ["low", "protect", "limit", "target", "duration", "sums", "command"])]
    pub restore: bool,
    /// No progress on standard error, only an end that nobody asked for
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON on standard output; a command's own output then goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Command to run as low I/O, in a cgroup of its own, after `--`; --for and Ctrl-C end it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
