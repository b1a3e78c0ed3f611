// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb trigger`.

use clap::Args;
use std::path::PathBuf;

pub const HELP: &str = "The run holds what was kept until 5 s after the trigger. For what plumb cannot see: a hook of a monitor, a line in a log,
a unit that failed. It needs the right to write into DIR. docs: plumb help watching.

Exit codes: 0 a run will be written, 2 error: nobody watches.
Examples:
  plumb trigger
  plumb trigger --name oom /srv/plumb
  tail -Fn0 app.log | grep --line-buffered FATAL | while read -r line; do plumb trigger --name fatal; done
  OnFailure=plumb-trigger@%n.service       # of a unit; ExecStart=plumb trigger --name %i there";

/// What a run is to be written of.
#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// `directory` of the plumb watch that is to write.
    #[arg(value_name = "DIR", default_value = "/var/lib/plumb")]
    pub dir: PathBuf,
    /// What the run is called.
    #[arg(long, value_name = "NAME", default_value = "asked")]
    pub name: String,
}
