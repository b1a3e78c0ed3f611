// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb tune`.

use super::Simulated;
use clap::{Args, Subcommand};
use plumb_load::job::Time;

/// Help's last part.
pub const HELP: &str = "\
Exit codes: 0 settings were found, 1 no settings keep the target, 2 error.

Examples:
  plumb tune iosched nvme --target 2ms
  plumb tune iosched atlas10k4 --job two.toml --idle=2 --target 40ms
  plumb tune iosched nvme --from DIR --target 5ms --json";

/// What to tune.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct TuneArgs {
    /// What.
    #[command(subcommand)]
    pub what: TuneWhat,
}

/// What can be tuned.
#[derive(Debug, Subcommand)]
pub enum TuneWhat {
    /// lp-deadline's interval and depth: the highest throughput of the idle class while foreground requests meet a target.
    #[command(after_help = HELP)]
    Iosched(Box<TuneIosched>),
}

/// The target, and what is simulated.
#[derive(Debug, Args)]
pub struct TuneIosched {
    /// Highest acceptable p99 latency of foreground requests, queue and device (Q2C)
    #[arg(long, value_name = "TIME", help_heading = "Result")]
    pub target: Time,
    /// Model, queue and job; without a job: a reader of 4K with 1 ms of think time, concurrently with 32 idle reads of 128K
    #[command(flatten)]
    pub of: Simulated,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Result")]
    pub json: bool,
}
