// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb plan`.

use clap::{Args, Subcommand, ValueEnum};
use plumb_load::job::Time;
use plumb_plan::adapt::Changes;
use plumb_plan::file::Order;
use std::path::PathBuf;

/// Help's last part.
pub const PLAN_HELP: &str = "\
PLAN: the path of a .toml, the name of a plan that plumb brings along ('plumb plan list'), or the directory of a run \
that was begun. A word without '/' that is a plan's name is that plan; a directory of that name is written ./NAME.

Exit codes: 0 done, 2 error or nothing could be measured, 3 some cells failed, took too long, or are not valid.

Examples:
  plumb plan list
  plumb plan show quick
  plumb plan run quick -o q
  plumb plan run my.toml --device disk=/dev/sdb --destroy /dev/sdb --only fs=ext4,xfs
  plumb plan run q                      (goes on where it was interrupted: q is a directory)
  plumb plan report q --figure write.p99
  plumb plan compare before after";

/// What to do with plans.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PlanCommand,
}

/// Commands of plans.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Measure every combination of a plan's levels, or go on with a run that was begun
    #[command(
        after_help = "Examples:\n  plumb plan run quick -o q\n  plumb plan run q\n  plumb plan run my.toml --device disk=/dev/sdb --destroy /dev/sdb --only fs=ext4,xfs --repeat 3"
    )]
    Run(PlanRunArgs),
    /// Say what a plan would do to this system, or how far a run is; changes nothing
    #[command(
        after_help = "Examples:\n  plumb plan show quick\n  plumb plan show my.toml --only fs=ext4\n  plumb plan show q"
    )]
    Show(PlanShowArgs),
    /// List the plans that plumb brings along
    #[command(after_help = "Examples:\n  plumb plan list\n  plumb plan list --json | jq -r '.plans[].name'")]
    List(PlanListArgs),
    /// Say again what came out of a run
    #[command(
        after_help = "Examples:\n  plumb plan report q\n  plumb plan report q --figure write.p99\n  plumb plan report q --csv > figures.csv"
    )]
    Report(PlanReportArgs),
    /// Two runs of a plan, cell by cell
    #[command(
        after_help = "Examples:\n  plumb plan compare before after\n  plumb plan compare before after --figure write.p99 --json"
    )]
    Compare(PlanCompareArgs),
    /// Put back what a killed run left changed on this system
    #[command(after_help = "Example:\n  plumb plan restore q")]
    Restore(PlanRestoreArgs),
}

/// In which order cells run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanOrder {
    /// All cells shuffled, anew in each repetition.
    Random,
    /// Shuffled within each combination of the `blocks` factors; those in shuffled order too.
    Blocked,
    /// As the file has them, the last factor changing fastest.
    Given,
}

/// What the command line changes in a plan.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct PlanChanges {
    /// Use this block device or directory for the plan's device NAME (repeatable)
    #[arg(long, value_name = "NAME=PATH", help_heading = "Changes to the plan")]
    pub device: Vec<String>,
    /// Only these levels of a factor (repeatable; a level with a comma in its name is written as it is
    /// called, alone or among others)
    #[arg(long, value_name = "FACTOR=LEVEL[,LEVEL]", help_heading = "Changes to the plan")]
    pub only: Vec<String>,
    /// Repetitions of every cell
    #[arg(long, value_name = "N", help_heading = "Changes to the plan",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
    /// Begin no repetition that would not end in this time
    #[arg(long, value_name = "DURATION", help_heading = "Changes to the plan")]
    pub budget: Option<Time>,
    /// End a repetition that takes longer, and name it
    #[arg(long, value_name = "DURATION", help_heading = "Changes to the plan")]
    pub limit: Option<Time>,
    /// In which order cells run
    #[arg(long, value_enum, help_heading = "Changes to the plan")]
    pub order: Option<PlanOrder>,
    /// Seed of the order
    #[arg(long, value_name = "N", help_heading = "Changes to the plan")]
    pub seed: Option<u32>,
    /// Record every cell, so that the report says where its time went
    #[arg(long, help_heading = "Changes to the plan")]
    pub record: bool,
    /// Record no cell
    #[arg(long, conflicts_with = "record", help_heading = "Changes to the plan")]
    pub no_record: bool,
}

impl From<&PlanChanges> for Changes {
    fn from(given: &PlanChanges) -> Changes {
        let order = given.order.map(|order| match order {
            PlanOrder::Random => Order::Random,
            PlanOrder::Blocked => Order::Blocked,
            PlanOrder::Given => Order::Given,
        });
        Changes {
            device: given.device.clone(),
            only: given.only.clone(),
            repeat: given.repeat,
            budget: given.budget,
            limit: given.limit,
            order,
            seed: given.seed,
            record: given.record,
            no_record: given.no_record,
        }
    }
}

/// What to run.
#[derive(Debug, Args)]
pub struct PlanRunArgs {
    /// Path of a .toml, name of a plan, or directory of a run that was begun
    pub plan: PathBuf,
    /// Directory for the run [default: plumb-plan-NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What the command line changes in the plan.
    #[command(flatten)]
    pub changes: PlanChanges,
    /// The contents of this device may be lost (repeatable); what is mounted or swapped to is never written
    #[arg(long, value_name = "PATH")]
    pub destroy: Vec<PathBuf>,
    /// Measure this cell of a begun run anew: its label or number (repeatable)
    #[arg(long, value_name = "CELL")]
    pub again: Vec<String>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// At the end, print the report as JSON on standard output, not as text
    #[arg(long)]
    pub json: bool,
}

/// What to show.
#[derive(Debug, Args)]
pub struct PlanShowArgs {
    /// Path of a .toml, name of a plan, or directory of a run that was begun
    pub plan: PathBuf,
    /// What the command line changes in the plan.
    #[command(flatten)]
    pub changes: PlanChanges,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How to list.
#[derive(Debug, Args)]
pub struct PlanListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to report.
#[derive(Debug, Args)]
pub struct PlanReportArgs {
    /// Directory of the run
    pub dir: PathBuf,
    /// About this figure, as in write.p99 (repeatable) [default: those of the plan]
    #[arg(long, value_name = "FIGURE")]
    pub figure: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Print every figure of every repetition, comma-separated
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// What to compare.
#[derive(Debug, Args)]
pub struct PlanCompareArgs {
    /// Directory of the run before
    pub a: PathBuf,
    /// Directory of the run after
    pub b: PathBuf,
    /// About this figure (repeatable) [default: those of the plan]
    #[arg(long, value_name = "FIGURE")]
    pub figure: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to put back.
#[derive(Debug, Args)]
pub struct PlanRestoreArgs {
    /// Directory of the run
    pub dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
