// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb report`.

use clap::Args;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
The page is a program with the report inside: it is read with any browser of the last years, from the disk.
Of a directory that plumb made, the page is its report.html (of a run, report.json beside it); else ./report.html.

Exit codes: 0 done, 2 error, 3 the measurement is not valid (events were lost, or cannot be read); the page says so too.

Examples:
  plumb report plumb-run-20260101-120000
  plumb report before after -o difference.html
  plumb report my-plan --open
  plumb load --json /mnt > load.json; plumb report load.json
  plumb report DIR --json | jq '.run.timeline.lanes[].name'";

/// Of what to make a report, and where to.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directory, trace, set of runs (its median run, and how far all agree), set of several hosts' recordings, plan's directory,
    /// result of plumb load --json, or a report.json of this or an earlier plumb; of two runs or sets a comparison.
    #[arg(required = true, num_args = 1..=2, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The page's file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE though it is no page or document of plumb's.
    #[arg(short, long, requires = "output")]
    pub force: bool,
    /// Show it in the browser (xdg-open), where there is one.
    #[arg(long, conflicts_with = "json")]
    pub open: bool,
    /// The document as JSON, on standard output or to FILE, and no page.
    #[arg(long)]
    pub json: bool,
}
