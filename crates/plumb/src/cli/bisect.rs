// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb bisect`.

use super::profile::percent;
use clap::Args;
use plumb_trace::units;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
COMMAND runs in a worktree of each commit, below DIR; the repository and its checkout stay as they are. Versions that
cannot be built or measured are skipped. 'plumb help bisect' tells more.

Exit codes: 0 the version was found, 2 error, 3 first and last version do not differ, or undecided within --most runs.

Examples:
  plumb bisect --good v1.2 --bad HEAD --build 'make -j2' -- ./bench
  plumb bisect --good v1.2 --bad HEAD --figure 'requests/s: ([0-9.]+)' -- ./load.sh
  plumb bisect --among 6.1,6.6,6.12 --figure cpu -- ./boot.sh {} ./bench
  plumb bisect -o DIR                        (goes on where it was interrupted)";

/// What to search, and how surely.
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// Commit before the change
    #[arg(long, value_name = "REV", requires = "bad")]
    pub good: Option<String>,
    /// Commit after the change; the commits between are those along first parents
    #[arg(long, value_name = "REV", requires = "good")]
    pub bad: Option<String>,
    /// Directory of the git repository [default: the current one]
    #[arg(long, value_name = "DIR", requires = "good")]
    pub repo: Option<PathBuf>,
    /// Versions in their order, in place of commits; {} in COMMAND and --build becomes the version
    #[arg(long, value_name = "VERSION,...", value_delimiter = ',', conflicts_with = "good")]
    pub among: Vec<String>,
    /// Build each version once with this line of sh, before it is measured
    #[arg(long, value_name = "LINE")]
    pub build: Option<String>,
    /// The metric: elapsed, cpu (of COMMAND and its children), or the number that COMMAND prints where this POSIX extended regular
    /// expression, as of grep -E, has its group; of several lines the last
    #[arg(long, value_name = "WORD|REGEX", default_value = "elapsed")]
    pub figure: String,
    /// Most probability of a wrong answer
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = below_half)]
    pub error: f64,
    /// Smallest change of interest
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = below_half)]
    pub least: f64,
    /// Runs at most [default: 500, or what the search was begun with]
    #[arg(long, value_name = "N")]
    pub most: Option<usize>,
    /// Runs of each version that warm up, and are not measured
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// A build or run that takes longer has failed
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub limit: Option<u64>,
    /// Directory for the search; of one that was begun it goes on [default: plumb-bisect-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the answer and every run as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// What is measured, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A share above 0 and below a half.
pub(super) fn below_half(text: &str) -> Result<f64, String> {
    percent(text).and_then(|p| match p > 0.0 && p < 0.5 {
        true => Ok(p),
        false => Err(format!("'{text}' is not above 0 % and below 50 %")),
    })
}
