// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command and option, defined once; help comes from here. What a load
//! does is [`plumb_load::job::Job`], whose fields are options too.

mod bisect;
mod collect;
mod disk;
mod export;
mod govern;
mod guide;
mod help;
mod iosched;
mod lake;
mod load;
pub mod mcp;
mod plan;
pub mod profile;
mod publish;
mod query;
mod report;
mod sim;
mod size;
pub mod top;
pub mod trigger;
mod tune;
pub mod watch;
mod whatif;

pub use bisect::BisectArgs;
pub use collect::CollectArgs;
pub use disk::*;
pub use export::ExportArgs;
pub use govern::GovernArgs;
pub use guide::{GuideArgs, GuideCommand};
pub use help::*;
pub use iosched::*;
pub use lake::{LakeArgs, LakeCommand};
pub use load::*;
pub use plan::*;
pub use profile::{By, Export, ProfileArgs};
pub use publish::PublishArgs;
pub use query::QueryArgs;
pub use report::ReportArgs;
pub use sim::{SimArgs, Simulated};
pub use size::SizeArgs;
pub use tune::{TuneArgs, TuneIosched, TuneWhat};
pub use whatif::{More, WhatifArgs};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use plumb_net::Address;
use plumb_probe::{Sampling, SpanSpec};
use plumb_report::terminal::screen;
use plumb_trace::units;
use std::ffi::OsString;
use std::path::PathBuf;

/// Records what the kernel does with a workload, accounts for its wall-clock time, and names the bottleneck.
#[derive(Debug, Parser)]
#[command(
    name = "plumb",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    help_template = "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
    after_help = "Exit codes: 0 done, 1 a threshold was crossed (compare --fail-above, --fail-below) or data was lost (load), 2 error, 3 the measurement is not valid (events were lost; a load's figures mislead). 'plumb run -- COMMAND' exits with the command's own code.\n\nExamples:\n  plumb check\n  plumb run -- dd if=big of=/dev/null bs=64k\n  plumb run --pid 4711 --for 10s\n  plumb help account"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Colour the output: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always, never.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: Color,
}

/// When colours are used: [`screen::Color`] as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Also in files and pipes.
    Always,
    /// Nowhere.
    Never,
}

impl From<Color> for screen::Color {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record kernel events of a command, process, cgroup or the whole machine into a trace.
    #[command(
        after_help = "Examples:\n  plumb record -o t -- dd if=big of=/dev/null bs=64k\n  plumb record -o t --pid 4711 --for 10s\n  plumb record -o t --events default,fs --keep 10s --when 'fsync > 50ms' --pid 4711\n  plumb record -o t --events block --only-target --device /dev/sda -- fio job.fio\n  plumb record --to collector:7007 --invitation web1.invitation --pid 4711 --for 10s"
    )]
    Record(RecordArgs),
    /// Record a command or running processes, and print the verdict: bottleneck, account, evidence.
    #[command(
        after_help = "Next to a COMMAND, whose output passes through, results go to standard error; without one to standard output.\nExamples:\n  plumb run -- dd if=big of=/dev/null bs=64k\n  plumb run -o before --comm postgres -- ./load.sh\n  plumb run --pid 4711 --for 10s\n  plumb run --repeat 10 -o before -- ./load.sh\n  plumb run -o DIR -- ./load.sh && xdg-open DIR/report.html"
    )]
    Run(RunArgs),
    /// Show live what limits each service of this machine: threads by state, requests, locks, devices.
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Record this machine all the time: a line of each minute, and a run of whatever was too slow.
    #[command(after_help = watch::HELP)]
    Watch(watch::WatchArgs),
    /// Have plumb watch write a run of what happens now.
    #[command(after_help = trigger::HELP)]
    Trigger(trigger::TriggerArgs),
    /// Print verdict, account and findings of an existing run or trace.
    #[command(
        after_help = "Examples:\n  plumb explain plumb-run-20260101-120000\n  plumb explain DIR --json | jq '.processes[0].account'"
    )]
    Explain(ExplainArgs),
    /// Compare two runs or sets of runs: what changed, by how much, with confidence intervals.
    #[command(
        after_help = "Exit codes: 0 done, 1 a --fail-above or --fail-below was crossed, 2 error, 3 events of A or B were lost or cannot be read.\nExamples:\n  plumb run --repeat 10 -o before -- ./load.sh\n  plumb run --repeat 10 -o after -- ./load.sh\n  plumb compare before after\n  plumb compare before after --fail-above 5% --fail-above cpu=10%\n  plumb compare before after --fail-below requests=5%\n  plumb compare before after --report difference.html\n  plumb compare --lake /srv/lake \"kernel like '6.1.%'\" \"kernel like '6.12.%'\"\n  plumb compare --lake /srv/lake \"began < '2026-03-01'\" \"began >= '2026-03-01'\" --json"
    )]
    Compare(CompareArgs),
    /// Print one kind of event pair of a trace (waits, block requests, locks, packets) as statistics, distribution or log.
    #[command(
        after_help = crate::view::HELP
    )]
    View(ViewArgs),
    /// Print a wall-clock profile by function: on-CPU and off-CPU time, call trees, flame graphs.
    #[command(after_help = profile::HELP)]
    Profile(Box<ProfileArgs>),
    /// Generate I/O load on files or a device; report latency, throughput and whether the result is valid.
    #[command(after_help = load::HELP)]
    Load(Box<LoadArgs>),
    /// Simulate a load on a device model behind an I/O scheduler; uses no device of this machine.
    #[command(after_help = sim::HELP)]
    Sim(Box<SimArgs>),
    /// Predict how long a recorded run would take with another disk, other CPUs or more memory.
    #[command(after_help = whatif::HELP)]
    Whatif(Box<WhatifArgs>),
    /// Run an evaluation plan: measure every combination of factors, and report each factor's effect.
    #[command(after_help = plan::PLAN_HELP)]
    Plan(Box<PlanArgs>),
    /// Find the commit (or other version) that changed a metric, in few runs, with a bounded error.
    #[command(after_help = bisect::HELP)]
    Bisect(Box<BisectArgs>),
    /// Find the smallest environment of measured ones, or of predicted ones, in which a database meets its targets.
    #[command(after_help = size::HELP)]
    Size(SizeArgs),
    /// Serve a simulated disk as a block device or over NBD, with a model's service times.
    #[command(after_help = disk::HELP)]
    Disk(DiskArgs),
    /// Take the recordings of other hosts into a set; nothing is written on those.
    #[command(after_help = collect::HELP)]
    Collect(CollectArgs),
    /// Check whether this machine can record; changes nothing.
    #[command(
        after_help = "Exit codes: 0 recording works, 2 something that it needs is missing.\nExamples:\n  plumb check\n  plumb check --json | jq '.checks[] | select(.status != \"ok\")'"
    )]
    Check(CheckArgs),
    /// List the findings that the diagnosis can report, each with its next step.
    #[command(after_help = "Examples:\n  plumb findings\n  plumb findings --json | jq -r '.findings[].id'")]
    Findings(FindingsArgs),
    /// List the events that can be recorded, with fields and cost.
    #[command(
        after_help = "Examples:\n  plumb events\n  plumb events --set block\n  plumb events --measure"
    )]
    Events(EventsArgs),
    /// Write the report page of a run, set, plan, load or comparison: one self-contained HTML file.
    #[command(after_help = report::HELP)]
    Report(ReportArgs),
    /// Show help for a command or topic; write manual pages.
    #[command(
        after_help = "Examples:\n  plumb help\n  plumb help account\n  plumb help load verify\n  plumb help --man ~/.local/share/man"
    )]
    Help(HelpArgs),
    /// Print a shell completion script.
    #[command(
        after_help = "Examples:\n  plumb completions bash > ~/.local/share/bash-completion/completions/plumb\n  plumb completions zsh > ~/.zfunc/_plumb\n  plumb completions fish > ~/.config/fish/completions/plumb.fish"
    )]
    Completions(CompletionsArgs),
    /// Query runs in SQL: account, intervals, waits, requests, samples, locks and more as tables.
    #[command(after_help = query::help())]
    Query(QueryArgs),
    /// Tell assistants of runs by the Model Context Protocol, read-only: verdict, findings, account, SQL, comparison.
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(mcp::McpArgs),
    /// Print the JSON Schema of what a command prints with --json, or list them.
    #[command(
        after_help = "Examples:\n  plumb schema\n  plumb schema explain > explain.schema.json\n  plumb explain DIR --json > explain.json; python3 -m jsonschema -i explain.json explain.schema.json"
    )]
    Schema(SchemaArgs),
    /// Export a run to other tools: Perfetto, LTTng CTF, pprof, Parquet and more.
    #[command(after_help = export::HELP)]
    Export(Box<ExportArgs>),
    /// Put runs of many hosts into a lake, a directory or bucket of tables that DuckDB, Spark and others query.
    #[command(after_help = publish::HELP)]
    Publish(PublishArgs),
    /// Prepare the runs that were published for an engine: joined files, views.
    #[command(after_help = lake::HELP)]
    Lake(LakeArgs),
    /// Find lp-deadline settings that meet a latency target, by simulation.
    #[command(after_help = tune::HELP)]
    Tune(Box<TuneArgs>),
    /// Tune for a command step by step: measure, make the change that the findings point to, accept or undo it.
    #[command(after_help = guide::HELP)]
    Guide(Box<GuideArgs>),
    /// Throttle background I/O (backup, scrub) by cgroup while foreground I/O is active.
    #[command(after_help = govern::HELP)]
    Govern(GovernArgs),
    /// Show, set and install the low-priority I/O scheduler lp-deadline.
    #[command(after_help = iosched::HELP)]
    Iosched(IoschedArgs),
}

/// What to record, of whom, and where to.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Directory for the trace; it must not hold one.
    #[arg(short, long, value_name = "DIR", default_value = "plumb-trace")]
    pub output: PathBuf,
    /// What to record, of whom.
    #[command(flatten)]
    pub what: What,
    /// Flight recorder: keep only the last while, in memory, and write it at the end.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub keep: Option<u64>,
    /// Freeze the flight recorder when this comes true: 'CALL > DURATION',
    /// 'request > DURATION' or 'runqueue > DURATION'.
    #[arg(long, value_name = "CONDITION", requires = "keep")]
    pub when: Option<String>,
    /// Most memory that the flight recorder keeps.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = units::parse_bytes)]
    pub keep_memory: u64,
    /// Send the trace to a collector at HOST:PORT, unix:PATH or vsock:CID:PORT; nothing is written here. With
    /// the default events the set tcp is recorded too.
    #[arg(long, value_name = "ADDRESS", requires = "invitation", conflicts_with_all = ["output", "keep"])]
    pub to: Option<Address>,
    /// The collector's invitation.
    #[arg(long, value_name = "FILE", requires = "to")]
    pub invitation: Option<PathBuf>,
    /// Print the result as JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A span's words; what is wrong with them in one line.
fn span(words: &str) -> Result<SpanSpec, String> {
    SpanSpec::parse(words).map_err(|e| format!("{e:#}"))
}

/// Options that every recording has.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("running").multiple(true))]
#[command(group = ArgGroup::new("group"))]
pub struct What {
    /// Sets and events: names, default, all, syscall:io, syscall:NAME, syscall:all, -NAME to leave one out.
    #[arg(short, long, value_name = "LIST", default_value = "default", allow_hyphen_values = true)]
    pub events: String,
    /// Let every user read what is recorded; else its user alone can (of sudo, the user who called it).
    #[arg(long)]
    pub share: bool,
    /// Record a running process and its descendants, those that run and future ones (repeatable). With a COMMAND: both,
    /// as a server and what asks it, until the command ends.
    #[arg(short, long, value_name = "PID", group = "running")]
    pub pid: Vec<u32>,
    /// The same, of the processes of this name (repeatable).
    #[arg(long, value_name = "NAME", group = "running")]
    pub name: Vec<String>,
    /// With --pid or --name: leave out the child processes that run already.
    #[arg(long, requires = "running")]
    pub no_children: bool,
    /// Record a systemd unit that runs: its name, of a service also without .service.
    #[arg(long, value_name = "UNIT", group = "group", conflicts_with = "running")]
    pub unit: Option<String>,
    /// Record a container that runs: its name (of a pod also its namespace and pod before it: shop/cart-0/web) or the
    /// begin of its id.
    #[arg(long, value_name = "NAME", group = "group", conflicts_with = "running")]
    pub container: Option<String>,
    /// Record the members of a cgroup: its directory.
    #[arg(long, value_name = "DIR", group = "group", conflicts_with = "running")]
    pub cgroup: Option<PathBuf>,
    /// System calls and stacks of every process, not of a target.
    #[arg(short, long, conflicts_with_all = ["running", "group"])]
    pub all: bool,
    /// Leave out every event that the target has no part in; causes from outside are then unknown.
    #[arg(long, conflicts_with = "all")]
    pub only_target: bool,
    /// Record block events of this disk only (repeatable, up to 8).
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<PathBuf>,
    /// Take the stacks of waits longer than this; 0ms takes none.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = units::parse_duration)]
    pub stacks: u64,
    /// Sample what the target's CPUs are at: so many times a second (199Hz), every so many CPU cycles (3000000c), or off.
    #[arg(long, value_name = "CLOCK", default_value_t = Sampling::Rate(199))]
    pub sample: Sampling,
    /// Most that recording may cost, of the target's CPU time, with -a of all CPUs': where it costs more, it pauses again and again.
    #[arg(long, value_name = "PERCENT", value_parser = profile::percent)]
    pub budget: Option<f64>,
    /// Keep one of N of a set (N a power of two): SET=N, for syscall, block, fs, pagecache, mem, net (repeatable).
    #[arg(long, value_name = "SET=N")]
    pub thin: Vec<String>,
    /// Record a span, a named interval of a thread, and account for it by its key (repeatable):
    /// 'NAME=FUNCTION' is each call of a function of the target's program,
    /// 'NAME=FILE:BEGIN(KEY)..END' what lies between two functions of a file or its USDT probes (%PROBE),
    /// 'kernel:FUNCTION' each call of a function of the kernel. KEY is an argument: arg0 (a number), arg0:string or
    /// arg0:sql.
    #[arg(long, value_name = "SPEC", value_parser = span)]
    pub span: Vec<SpanSpec>,
    /// Of programs that plumb knows (PostgreSQL, MariaDB, MySQL, SQLite): their requests and wait events, the wait
    /// events only, which need no probe, or nothing.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Programs::All)]
    pub programs: Programs,
    /// Write the texts of spans to the trace, SQL without its literals; otherwise only their first word and a hash.
    #[arg(long)]
    pub span_text: bool,
    /// Ring memory of each CPU [default: 16M, less on many CPUs].
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub buffer: Option<u64>,
    /// End after this long; a command that still runs is left alone.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    pub duration: Option<u64>,
    /// No progress on standard error.
    #[arg(short, long)]
    pub quiet: bool,
    /// Exit with the code of the recorded COMMAND, or with plumb's own: 0 done, 2 error, 3 events were lost.
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = ExitCodeOf::Command)]
    pub exit_code: ExitCodeOf,
    /// Command to run and record, after `--`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "group")]
    pub command: Vec<OsString>,
}

/// What is recorded of programs that plumb knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Programs {
    /// Requests and wait events.
    All,
    /// Wait events.
    Waits,
    /// Nothing.
    None,
}

/// Whose exit code `plumb run` and `plumb record` end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExitCodeOf {
    /// The command's: 128 + N when signal N ended it.
    Command,
    /// plumb's own.
    Plumb,
}

/// What to run and how to show it.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Run directory [default: plumb-run-DATE-TIME, of a set plumb-set-DATE-TIME].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Run it N times, into a set: run directories 1/ to N/ and set.json.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
    /// What to record, of whom.
    #[command(flatten)]
    pub what: What,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
    /// Write no report.json and report.html; 'plumb report DIR' makes them later.
    #[arg(long)]
    pub no_report: bool,
}

/// How results are shown.
#[derive(Debug, Args)]
pub struct Show {
    /// Only processes of this name (repeatable); of a machine (-a) the service with all that it started.
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// A table of threads too.
    #[arg(long)]
    pub threads: bool,
    /// The chain of evidence instead, on one page: from the question over account, functions,
    /// instruction and trace to the judgement; of a set its slowest commands and requests, step by step over all hosts.
    #[arg(long, conflicts_with_all = ["threads", "json"])]
    pub chain: bool,
    /// On a terminal too: every column of the tables and all evidence, as a file or pipe gets them.
    #[arg(long)]
    pub wide: bool,
    /// Print the result as JSON on standard output; a command's own output then goes to standard error.
    #[arg(long)]
    pub json: bool,
}

/// What to explain.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Run directory, trace directory, or a collector's set: then what limits each of its recordings.
    pub dir: PathBuf,
    /// How to show it.
    #[command(flatten)]
    pub show: Show,
}

/// What to compare.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Before: run directory, trace, or set (of --repeat, or a directory with runs in it); with --lake a condition in SQL.
    pub a: PathBuf,
    /// After: the same.
    pub b: PathBuf,
    /// Compare the runs of a lake for which the conditions A and B on its table runs hold, host by host.
    #[arg(long, value_name = "LAKE", conflicts_with_all = ["comm"])]
    pub lake: Option<PathBuf>,
    /// Only processes of this name (repeatable).
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Exit with 1 when B is above A by more than this, with sets the lower end of the 95 % interval:
    /// of the elapsed time, or of METRIC (repeatable); an unknown METRIC lists those that there are. With --lake: of any time,
    /// on all hosts or on one that stands apart, or of the figure METRIC.
    #[arg(long, value_name = "[METRIC=]PERCENT")]
    pub fail_above: Vec<String>,
    /// Exit with 1 when METRIC of B is below that of A by more than this, with sets the upper end of the 95 % interval, as in
    /// requests=5% (repeatable). With --lake: on all hosts, or on one that stands apart or has no such figure any more.
    #[arg(long, value_name = "METRIC=PERCENT")]
    pub fail_below: Vec<String>,
    /// Print everything as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Write a report page of the comparison too, with a profile of each side (without --lake).
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Which view of what, and how to show it.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Which view.
    #[arg(value_name = "VIEW", value_parser = crate::view::names())]
    pub view: String,
    /// Run directory or trace directory; of chain also a set of several hosts' recordings.
    pub dir: PathBuf,
    /// Statistics of each group: count, sum, quantiles (this is the default).
    #[arg(long, conflicts_with_all = ["dist", "log"])]
    pub stat: bool,
    /// Distribution of each group in decades cut 1-2-5.
    #[arg(long, conflicts_with = "log")]
    pub dist: bool,
    /// Every item on a line of its own, in the order of their ends.
    #[arg(long)]
    pub log: bool,
    /// What to group by: process, thread, comm, cpu, priority, instead, irq, lock, type, site, call,
    /// device, operation, interface.
    #[arg(long, value_name = "KEY")]
    pub by: Option<String>,
    /// Only items that end this long after the trace's begin, or later.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub from: Option<u64>,
    /// Only items that end this long after the trace's begin, or earlier.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub to: Option<u64>,
    /// Only threads of this name (repeatable).
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Only this process or thread (repeatable).
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only this disk (kernel name) or network interface (ifN, N its index) (repeatable).
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Print JSON: one document, or one line an item with --log.
    #[arg(long)]
    pub json: bool,
}

/// How to show the checks.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which schema to print.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Format, as a document's key "format" has it, with or without `plumb.`; none lists all.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// How to show the findings.
#[derive(Debug, Args)]
pub struct FindingsArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to list.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only this set.
    #[arg(long, value_name = "SET")]
    pub set: Option<String>,
    /// Measure each event's cost on this machine, as the kernel counts it (needs root, takes 5 s).
    #[arg(long)]
    pub measure: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
