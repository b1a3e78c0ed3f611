// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb size`.

use super::bisect::below_half;
use clap::Args;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
KNOWN and NEW are directories of 'plumb plan run' with the same factor of loads; the other factors are the environments. Where the \
load was measured in KNOWN, that decides; elsewhere it is predicted by the microbenchmarks there. 'plumb help plans' tells more.

LIMIT is one of
  500/s                  operations a second, at least
  500/s of 200           the same of a command that does 200 in a run
  elapsed 2s             time of a run, at most
  mean|p50|p90|p99|p99.9 20ms
                         time of an operation, at most
Of a load with several kinds of operation: write.rate 500/s, read.p99 20ms.

Exit codes: 0 an environment meets all targets, 1 none does, 2 error.

Examples:
  plumb size sizing --target 'PostgreSQL -N: 500/s'
  plumb size sizing --target 'PostgreSQL -N: 500/s, p99 20ms' --target 'PostgreSQL scan: elapsed 2s'
  plumb size sizing --in sizing-new --target 'MariaDB updates: 300/s' --json | jq -r .answer";

/// What is wanted, and what is known.
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// Directory of a run with the database and microbenchmarks in five environments or more
    pub known: PathBuf,
    /// What a load must reach, with limits between commas (repeatable)
    #[arg(long, value_name = "LOAD: LIMIT,...", required = true)]
    pub target: Vec<String>,
    /// Directory of a run of the microbenchmarks in other environments, where the database is predicted (repeatable)
    #[arg(long = "in", value_name = "NEW")]
    pub new: Vec<PathBuf>,
    /// Most probability of missing a target
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = below_half)]
    pub risk: f64,
    /// Print the answer and every environment as JSON on standard output
    #[arg(long)]
    pub json: bool,
}
