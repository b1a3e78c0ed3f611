// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb watch`.

use clap::Args;
use plumb_trace::units;
use std::path::PathBuf;

pub const HELP: &str = "Without a FILE it keeps windows of a minute in /var/lib/plumb, and has no triggers. docs: plumb help watching.
It ends with SIGTERM or SIGINT. With SIGHUP it reads FILE again, unless it has a terminal.

Exit codes: 0 it was ended, 2 error.
Examples:
  plumb watch /etc/plumb/watch.toml
  plumb watch --check /etc/plumb/watch.toml
  plumb watch --example > /etc/plumb/watch.toml
  jq -r 'select(.lost == 0) | [.at, .bottleneck] | @tsv' /var/lib/plumb/windows/*.jsonl";

/// What is kept of what.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// What to keep, and what to write runs of (TOML).
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read FILE, say what is wrong with it, and end.
    #[arg(long)]
    pub check: bool,
    /// Print a FILE with every key and its default.
    #[arg(long, conflicts_with_all = ["file", "check"])]
    pub example: bool,
    /// End after this long.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    pub duration: Option<u64>,
}
