// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb govern`.

use clap::Args;
use plumb_govern::rate::Rate;
use plumb_trace::units;
use std::ffi::OsString;

/// Help's last part.
pub(super) const HELP: &str = "\
Needs root, but no kernel module: plumb sets the kernel's own limits (io.max of cgroup v2, blkio.throttle of v1). \
plumb removes them when it ends. If it is killed, its guardian removes them; if both were killed, --restore does. \
docs/govern.md lists what is not covered.

Exit codes: 0 done, 1 COMMAND failed or was ended by --for or Ctrl-C, 2 error.

Examples:
  plumb govern --protect /dev/sda -- restic backup /home
  plumb govern --low backup.slice --protect /dev/sda --delay 2s
  plumb govern --low /sys/fs/cgroup/backup --protect database.slice --target 10ms
  plumb govern --low scrub --protect nvme0n1 --limit 50M,1000iops --for 1h --json";

/// `plumb govern`
#[derive(Debug, Args)]
pub struct GovernArgs {
    /// Cgroup whose I/O is background I/O, with its descendants: its directory, or its path in the hierarchy (repeatable)
    #[arg(long, value_name = "CGROUP")]
    pub low: Vec<String>,
    /// Disk whose foreground I/O is protected, or the only cgroup whose I/O is foreground (repeatable) [default: every disk but loop devices]
    #[arg(long, value_name = "DEVICE|CGROUP")]
    pub protect: Vec<String>,
    /// Limit of background I/O during foreground I/O, for reads and for writes each: 2M, 50iops or 2M,50iops
    /// (K, M and G are powers of 1024; the output is in MB, a million bytes)
    /// [default: 2 MB/s and 5 requests/s on an HDD, otherwise 20 MB/s and 1000]
    #[arg(long, value_name = "RATE")]
    pub limit: Option<Rate>,
    /// Idle period of foreground I/O after which background I/O is unlimited
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = units::parse_duration)]
    pub delay: u64,
    /// Raise the limit while the p99 device service time of foreground requests stays within this
    #[arg(long, value_name = "LATENCY", value_parser = units::parse_duration, conflicts_with = "sums")]
    pub target: Option<u64>,
    /// End after this time, as with Ctrl-C; plumb also ends COMMAND (SIGTERM, after 10 s SIGKILL)
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    pub duration: Option<u64>,
    /// Do not use BPF: watch byte counters instead of requests
    #[arg(long)]
    pub sums: bool,
    /// Only remove the limits that killed instances left, and exit
    #[arg(long, conflicts_with_all = ["low", "protect", "limit", "target", "duration", "sums", "command"])]
    pub restore: bool,
    /// No progress on standard error, except when plumb ends unasked
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON on standard output; a command's own output then goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Command whose I/O is background I/O, run in its own cgroup, after `--`; --for and Ctrl-C end it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
