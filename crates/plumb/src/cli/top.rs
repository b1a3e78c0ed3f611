// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb top`.

use clap::Args;
use plumb_trace::units;

pub const HELP: &str = "Columns: threads that are in each state, on average over the window: on a CPU, on a run queue, waiting for a lock, for a disk, for the
network, and for other things; idle ones are not counted. Requests a second, their mean and the longest; what limits the service.
Keys: up, down: choose; Enter: one service, its account, findings and longest waits; s: sort by the next column; /: only names with a text in
them; space: stand still; w: write the last 30 s as a run; q: end.
Without a terminal it prints each window as text.

Exit codes: 0 it was ended, 2 error.
Examples:
  plumb top
  plumb top --window 5s --sort requests
  plumb top --for 10s --json | jq -r 'select(.bottleneck).bottleneck'";

/// What is shown.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Show what happened in so much time, again and again.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::parse_duration)]
    pub window: u64,
    /// Which service comes first.
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Sort::Busy)]
    pub sort: Sort,
    /// Only services with this text in their names.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// How much of the recording is kept, to be written.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = units::parse_duration)]
    pub keep: u64,
    /// Most memory that this takes.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = units::parse_bytes)]
    pub keep_memory: u64,
    /// End after this long.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    pub duration: Option<u64>,
    /// Print each window as a line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Columns by which services can be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Threads that are not idle.
    Busy,
    /// Threads on a CPU.
    Cpu,
    /// Requests a second.
    Requests,
    /// The longest request.
    Longest,
    /// Name.
    Name,
}
