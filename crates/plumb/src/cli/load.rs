// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb load`. Those of a job are fields of [`Job`]; here is what a session has besides.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use plumb_load::io_class::IoClass;
use plumb_load::job::{Given, Job, Time};
use plumb_load::preset::{dbt3, tpcc, Preset};
use plumb_load::session::Rpm;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
TARGET: a directory (files are made in one of the load's own within it, and removed at the end), a file, or a
block device. A file or device that holds data is only read, unless --destroy names it as well.

Options of a preset stand behind its name: plumb load syncwrite --block 16K /mnt. A target that is called like a
preset or a command is written with a path: ./log.

Exit codes: 0 done, 1 data was damaged or lost (also: verify found something), 2 error, 3 the measurement is not
valid, or was interrupted; what was measured until then is printed.

Examples:
  plumb load --what read --order random --direct --time 10s /mnt
  plumb load --sync fdatasync --rate 200 --time 30s --repeat 5 /mnt
  plumb load --what read --order random --through io-uring --depth 32 --time 10s /dev/nvme0n1
  plumb load --stamp --sync fsync --log run.log --keep /mnt; plumb load verify run.log
  plumb load --block 8K --show-job > job.toml; plumb load --job job.toml --repeat 5 /mnt";

/// A preset's help, before its examples.
const SETS: &str = "The preset sets options of its jobs itself: --show-job prints what each of them is.";

/// What to do, and where.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LoadArgs {
    /// The load.
    #[command(flatten)]
    pub options: LoadOptions,
    /// A preset, or something to do with what a run left.
    #[command(subcommand)]
    pub command: Option<LoadCommand>,
}

/// A load: job, target and session.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// Directory, file or block device to work on [default: .]
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,
    /// The job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Rounds, result, safety.
    #[command(flatten)]
    pub session: SessionOptions,
}

/// A job's options, and which of them were given.
#[derive(Debug)]
pub struct JobOptions {
    /// The job that they make.
    pub job: Job,
    /// Those that stood on the command line: they go over a preset's and a job file's.
    pub given: Given,
}

impl FromArgMatches for JobOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let job = Job::from_arg_matches(matches)?;
        // A key of a job is its option's name; clap knows it by the field's.
        let stood = |key: &str| {
            matches.value_source(&key.replace('-', "_")) == Some(clap::parser::ValueSource::CommandLine)
        };
        let given = Given::of(&job, stood);
        Ok(JobOptions { job, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for JobOptions {
    fn augment_args(command: Command) -> Command {
        Job::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Job::augment_args_for_update(command)
    }
}

/// Rounds, result, safety.
#[derive(Debug, Args)]
pub struct SessionOptions {
    /// Read the job from a file (TOML; its keys are the options' names); options given go over it
    #[arg(long = "job", value_name = "FILE", help_heading = "Job")]
    pub job_file: Option<PathBuf>,
    /// Read the job from a job file of fio, as far as it can be translated: the rest is named on standard error
    #[arg(long, value_name = "FILE", conflicts_with = "job_file", help_heading = "Job")]
    pub fio: Option<PathBuf>,
    /// Print the job as a file that --job reads, and run nothing
    #[arg(long, help_heading = "Job")]
    pub show_job: bool,

    /// One more directory, as a rule on another device (repeatable): worker N works in the Nth of all
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub also: Vec<PathBuf>,

    /// Run everything N times, in another order each time [default: 1]
    #[arg(long, value_name = "N", help_heading = "Rounds", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
    /// Go on until the 95 % interval of the rounds' median is so narrow, as in p99:5% (mean, p50, p90, p95, p99,
    /// p99.9, p99.99, rate); at least 3 rounds, at most --repeat [default then: 100]
    #[arg(long, value_name = "FIGURE:PERCENT", help_heading = "Rounds")]
    pub until: Option<plumb_load::session::Until>,
    /// Begin no round that would not end in this time, as far as can be told; the first is always run
    /// (alone: as many rounds as fit, at most 100)
    #[arg(long, value_name = "DURATION", help_heading = "Rounds")]
    pub budget: Option<Time>,

    /// Write every operation into a log; of several steps FILE.1, FILE.2, ...
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub log: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Result")]
    pub json: bool,
    /// Print a line for each kind of operation of each job, step and round, comma-separated
    #[arg(long, conflicts_with = "json", help_heading = "Result")]
    pub csv: bool,
    /// Rotation speed of the target's disk, revolutions per minute: charts have lines at 1, 2 and 3 turns
    /// [default: that of the served disk's model, where it is one]
    #[arg(long, value_name = "N", help_heading = "Result")]
    pub rpm: Option<Rpm>,
    /// No progress on standard error
    #[arg(short, long, help_heading = "Result")]
    pub quiet: bool,

    /// Keep the files that the load made
    #[arg(long, help_heading = "Safety")]
    pub keep: bool,
    /// The contents of this file or device may be lost (repeatable); what is mounted or swapped to is never written
    #[arg(long, value_name = "PATH", help_heading = "Safety")]
    pub destroy: Vec<PathBuf>,

    /// I/O priority class of the load, as ionice gives it to a command
    #[arg(long, value_enum, value_name = "CLASS", help_heading = "Priority")]
    pub io_class: Option<IoClass>,
}

impl SessionOptions {
    /// Those of them that the session itself goes by.
    pub fn of_session(&self) -> plumb_load::session::Options {
        plumb_load::session::Options {
            also: self.also.clone(),
            repeat: self.repeat,
            until: self.until,
            budget: self.budget,
            log: self.log.clone(),
            keep: self.keep,
            destroy: self.destroy.clone(),
            turn_ns: self.rpm.map(Rpm::turn_ns),
        }
    }
}

/// A preset, and commands beside a load.
#[derive(Debug, Subcommand)]
pub enum LoadCommand {
    /// A classic measurement.
    #[command(flatten)]
    Preset(Box<PresetCommand>),
    /// Look whether what a run's log says was acknowledged is there, after a crash
    #[command(
        after_help = "Exit codes: 0 all is there, 1 something is missing, torn or damaged, 2 error, 3 there was nothing to verify.\nThe job needs --stamp and --log. A later run over the same files makes an older log useless.\n\nExamples:\n  plumb load verify run.log\n  plumb load verify run.log /mnt/after-the-crash\n  plumb load verify --stamps /mnt/data"
    )]
    Verify(VerifyArgs),
    /// Print the operations of a log
    #[command(
        after_help = "Examples:\n  plumb load log run.log\n  plumb load log run.log --csv --from 1000 --to 2000"
    )]
    Log(LogArgs),
    /// List the interfaces of the kernel that --through knows, and which this kernel has
    #[command(
        after_help = "Examples:\n  plumb load engines\n  plumb load engines --json | jq -r '.engines[] | select(.available).engine'"
    )]
    Engines(EnginesArgs),
    /// Name what killed runs left in a directory, and remove it with --yes
    #[command(after_help = "Examples:\n  plumb load clean /mnt\n  plumb load clean /mnt --yes")]
    Clean(CleanArgs),
    /// Make the tables of dbt3 in a database: rows, keys, indexes, statistics
    #[command(
        after_help = "Where a table region, nation, supplier, customer, part, partsupp, orders or lineitem exists, nothing is made. With PostgreSQL all is one transaction. With MariaDB, which needs local_infile=ON (the default), a command that was interrupted names what to drop.\n\nExit codes: 0 done, 2 error, 3 interrupted.\n\nExamples:\n  plumb load dbt3-fill --scale 0.1 --to 'postgresql:///bench?host=/var/run/postgresql'\n  plumb load dbt3-fill --to mariadb://root@localhost/bench"
    )]
    Dbt3Fill(Dbt3FillArgs),
    /// Run the queries of dbt3 once, and compare their answers with the published ones or between databases
    #[command(
        after_help = "At scale 1 the answers are compared with the published ones: rows, text and whole numbers exactly, others within 1 %. At other scales it prints rows and checksums, which are the same for the same data in either database.\n\nExit codes: 0 no answer is wrong, 2 error, 3 an answer is wrong.\n\nExamples:\n  plumb load dbt3-check --to mariadb://root@localhost/bench\n  plumb load dbt3-check --to postgresql:///bench --json | jq -r '.queries[] | [.query, .rows, .checksum] | @tsv'"
    )]
    Dbt3Check(Dbt3CheckArgs),
    /// Make the tables of tpcc in a database: rows, keys, indexes, procedures, statistics
    #[command(
        after_help = "A warehouse has 10 districts with 3,000 customers and 3,000 orders each, of 5 to 15 lines, and 100,000 rows of stock; there are 100,000 items. Rows are the same in each run and in both databases. Where a table item, warehouse, stock, district, customer, history, orders, new_order or order_line exists, nothing is made; procedures tpcc_new_order, tpcc_payment, tpcc_order_status, tpcc_delivery and tpcc_stock_level are replaced. With PostgreSQL all is one transaction. With MariaDB, which needs local_infile=ON (the default), a command that was interrupted names what to drop.\n\nTables and rows are derived from TPC-C; results are not comparable with published results of that.\n\nExit codes: 0 done, 2 error, 3 interrupted.\n\nExamples:\n  plumb load tpcc-fill --to 'postgresql:///bench?host=/var/run/postgresql'\n  plumb load tpcc-fill --warehouses 10 --to mariadb://root@localhost/bench"
    )]
    TpccFill(TpccFillArgs),
}

/// A preset with the options of every load behind its name.
#[derive(Debug)]
pub struct PresetCommand {
    /// The preset.
    pub preset: Preset,
    /// The rest.
    pub options: LoadOptions,
}

impl FromArgMatches for PresetCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let preset = Preset::from_arg_matches(matches)?;
        let behind = matches.subcommand_matches(preset.name()).unwrap_or(matches);
        Ok(PresetCommand { preset, options: LoadOptions::from_arg_matches(behind)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for PresetCommand {
    fn augment_subcommands(command: Command) -> Command {
        let presets = Preset::augment_subcommands(Command::new("presets"));
        command.subcommands(presets.get_subcommands().cloned().map(with_load_options))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Preset::has_subcommand(name)
    }
}

/// A preset's own options, then those of every load. What the latter are about is not what the preset is about,
/// and their defaults are not what it sets.
fn with_load_options(preset: Command) -> Command {
    let (about, long_about) = (preset.get_about().cloned(), preset.get_long_about().cloned());
    let own: Vec<_> = preset.get_arguments().map(|a| a.get_id().clone()).collect();
    let sources = preset.get_after_help().map(|h| h.to_string()).unwrap_or_default();
    LoadOptions::augment_args(preset)
        .mut_args(|a| {
            let overruled = a.get_action().takes_values() && !own.contains(a.get_id());
            if overruled {
                a.hide_default_value(true)
            } else {
                a
            }
        })
        .after_help(format!("{SETS}\n\n{sources}").trim_end().to_string())
        .about(about.map_or(Resettable::Reset, Resettable::Value))
        .long_about(long_about.map_or(Resettable::Reset, Resettable::Value))
}

/// What to verify.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Log of the run; with --stamps the file or device itself
    pub log: PathBuf,
    /// Where the data is now, if not where the run wrote it: the file or device, or the files' directory
    pub target: Option<PathBuf>,
    /// Every write that succeeded must be there, durable or not: after a run without a crash
    #[arg(long)]
    pub acknowledged: bool,
    /// There is no log: look whether the blocks of a file hold together
    #[arg(long, conflicts_with_all = ["acknowledged", "target"])]
    pub stamps: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which operations to print.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The log
    pub log: PathBuf,
    /// From this row on, counted from 1 in the order of the log
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub from: u64,
    /// To this row [default: to the last]
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,
    /// Comma-separated, with a head
    #[arg(long)]
    pub csv: bool,
    /// A JSON object a line
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
}

/// How to show the engines.
#[derive(Debug, Args)]
pub struct EnginesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Where to clean.
#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Directory that loads worked in
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Remove it
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to make, and where.
#[derive(Debug, Args)]
pub struct Dbt3FillArgs {
    /// URL of the database: postgresql://... or mariadb://[user[:password]@][host[:port]]/[database][?socket=/path]
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Scale: 1 has 8.7 million rows of about 1 GB
    #[arg(long, value_name = "SCALE", default_value_t = 1.0, value_parser = dbt3::scale)]
    pub scale: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// What to check.
#[derive(Debug, Args)]
pub struct Dbt3CheckArgs {
    /// URL of the database: postgresql://... or mariadb://[user[:password]@][host[:port]]/[database][?socket=/path]
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Scale that the tables must have [default: that which they have]
    #[arg(long, value_name = "SCALE", value_parser = dbt3::scale)]
    pub scale: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// What to make, and where.
#[derive(Debug, Args)]
pub struct TpccFillArgs {
    /// URL of the database: postgresql://... or mariadb://[user[:password]@][host[:port]]/[database][?socket=/path]
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Warehouses, of 0.5 million rows each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = tpcc::warehouses)]
    pub warehouses: u32,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use plumb_load::job::Bytes;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    #[test]
    fn what_stood_on_the_line_is_known() {
        let line = Line::parse_from(["load", "--block", "4K", "--time-sync", "out", "dir"]).load.options;
        assert_eq!(line.target, Some(PathBuf::from("dir")));
        assert_eq!(line.job.job.block, Bytes(4096));
        let given = &line.job.given;
        assert!(given.has("block") && given.has("time-sync") && !given.has("size"), "{given:?}");
    }

    #[test]
    fn no_two_options_have_one_name() {
        use clap::CommandFactory;
        Line::command().debug_assert();
    }

    #[test]
    fn help_of_a_preset_shows_no_defaults_that_it_overrules() {
        use clap::CommandFactory;
        let mut line = Line::command();
        let mut help =
            |name: &str| line.find_subcommand_mut(name).expect("a preset").render_long_help().to_string();
        let stream = help("stream");
        assert!(!stream.contains("[default: 64M]") && !stream.contains("[default: 4K]"), "{stream}");
        for name in ["stream", "threads", "syncwrite"] {
            let help = help(name);
            assert!(help.contains(SETS) && help.contains("Examples:"), "{help}");
        }
        assert!(Line::command().render_long_help().to_string().contains("[default: 64M]"));
    }

    #[test]
    fn a_preset_has_the_options_of_a_load_behind_its_name() {
        let line = Line::parse_from(["load", "threads", "--seed", "7", "--json", "dir"]).load;
        let Some(LoadCommand::Preset(p)) = line.command else { panic!("{:?}", line.command) };
        assert_eq!((p.preset.name(), p.options.job.job.seed), ("threads", 7));
        assert!(p.options.session.json && p.options.job.given.has("seed"));
        assert_eq!(p.options.target, Some(PathBuf::from("dir")));
    }
}
