// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb guide`.

use clap::{Args, Subcommand};
use plumb_plan::guide::goal::Goal;
use plumb_plan::guide::may::May;
use plumb_plan::guide::trial::Trial;
use std::path::PathBuf;

/// Help's last part.
pub(super) const HELP: &str = "\
Measures the command, proposes the one change that its largest finding points to, makes it if --may allows it, measures \
again, and keeps it only where the command became faster above the noise; then the next one. Without --may it changes \
nothing and prints the option that would allow it. At the end every change is put back, unless --keep is given. \
docs/guide.md tells the method.

Exit codes: 0 the goal is reached, 1 it is not, 2 error, 3 interrupted.

Examples:
  plumb guide -o g --goal 'elapsed -30%' -- ./load.sh
  plumb guide -o g --goal 'elapsed < 2s' --may read-ahead --may scheduler=bfq -- ./load.sh
  plumb guide -o g --goal 'elapsed -50%' --may all --may env:SYNC_EVERY=100@sync.write -- ./import
  plumb guide g            # goes on where it was interrupted
  plumb guide undo g       # puts everything back";

/// `plumb guide`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct GuideArgs {
    /// What to do besides.
    #[command(subcommand)]
    pub command: Option<GuideCommand>,
    /// Directory of a guide that was interrupted: it goes on
    #[arg(value_name = "DIR", conflicts_with_all = ["output", "goal", "may", "tries", "steps", "repeat", "prepare", "measured"])]
    pub dir: Option<PathBuf>,
    /// Directory of a new guide
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// 'elapsed -30%' (of the first measurement) or 'elapsed < 2s', median of the repetitions
    #[arg(long, value_name = "GOAL", value_parser = |text: &str| Goal::parse(text).map_err(|e| e.to_string()))]
    pub goal: Option<Goal>,
    /// What may be changed (repeatable): a tunable of 'plumb guide list', with a value that one alone; all; or env:NAME=VALUE,
    /// a variable of the command's environment, with @FINDING for that finding alone
    #[arg(long, value_name = "TUNABLE[=VALUE]", value_parser = |text: &str| May::parse(text).map_err(|e| e.to_string()))]
    pub may: Vec<May>,
    /// A change of your own (repeatable): two shell commands, one that makes it and one that undoes it; the second must do
    /// no harm where the first was not run
    #[arg(long = "try", id = "tries", value_name = "NAME[@FINDING]: APPLY ; UNDO", value_parser = |text: &str| Trial::parse(text).map_err(|e| e.to_string()))]
    pub tries: Vec<Trial>,
    /// Most changes that are tried
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub steps: u32,
    /// Repetitions of each measurement; of fewer than 4 no difference is above the noise
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub repeat: u32,
    /// Shell command before each repetition, not measured: to empty caches, to remove what the last one wrote
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Leave accepted changes in place at the end, until the next boot
    #[arg(long, conflicts_with = "revert")]
    pub keep: bool,
    /// Put every change back at the end; this is the default
    #[arg(long)]
    pub revert: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Command to measure, after `--`
    #[arg(last = true, id = "measured", value_name = "COMMAND", requires_all = ["output", "goal"])]
    pub measured: Vec<String>,
}

/// `plumb guide list`, `plumb guide undo`.
#[derive(Debug, Subcommand)]
pub enum GuideCommand {
    /// List the tunables: for which finding each is, its values and its undo.
    #[command(
        after_help = "Examples:\n  plumb guide list\n  plumb guide list --json | jq -r '.tunables[].key'"
    )]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put back whatever a guide changed, what it was told to keep too.
    #[command(
        after_help = "Exit codes: 0 nothing is left changed, 2 error.\nExamples:\n  plumb guide undo g"
    )]
    Undo {
        /// Directory of the guide
        dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
