// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb profile`.

use clap::{Args, ValueEnum};
use plumb_report::export::profile::Format;
use plumb_report::profile::{self, Options, View};
use plumb_trace::units;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
Time on a CPU is known from samples (plumb run --sample 199), waits from the stacks taken of them (--stacks 1ms).
Without --on-cpu and --off-cpu all the time is shown. Exit codes: 0 done, 2 error, 3 events were lost.

Examples:
  plumb profile DIR                                # functions by the time spent in them
  plumb profile DIR --on-cpu --comm worker
  plumb profile DIR --off-cpu --by cause           # waits: for what, and whose
  plumb profile DIR --callers copy_folio           # who calls it, with shares
  plumb profile DIR --tree --min 2% --depth 12
  plumb profile DIR --account                      # category, cause, functions
  plumb profile DIR --flame wall.svg
  plumb profile before after                       # per function: what became slower
  plumb profile before after --coverage --svg c.svg  # how few functions have most of the time
  plumb profile DIR --json | jq '.rows[0]'";

/// What the rows of a flat table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The innermost function.
    Function,
    /// Process.
    Process,
    /// Thread.
    Thread,
    /// CPU that it was sampled on; waits have none.
    Cpu,
    /// Category of the account.
    Category,
    /// Program, library or kernel that the innermost function is of.
    Module,
    /// Source line of the innermost function.
    Line,
    /// Category and who caused it.
    Cause,
}

/// File formats of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// Folded stacks, for flamegraph.pl.
    Folded,
    /// pprof's profile.proto, compressed.
    Pprof,
    /// What a collector of OpenTelemetry is sent (profiles/v1development), JSON.
    Otlp,
    /// speedscope's JSON.
    Speedscope,
    /// Firefox profiler's JSON.
    Firefox,
    /// The report page's JSON.
    Json,
}

/// Which view of what.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "View")]
pub struct ProfileArgs {
    /// Run directory or trace directory.
    #[arg(help_heading = None)]
    pub dir: PathBuf,
    /// A second one: show how its times differ from the first's, its minus the first's. With --coverage: any number.
    #[arg(value_name = "DIR2", help_heading = None)]
    pub others: Vec<PathBuf>,

    /// Only time on a CPU.
    #[arg(long, help_heading = "Time", conflicts_with = "off_cpu")]
    pub on_cpu: bool,
    /// Only time off the CPU: blocked, or waiting on the run queue.
    #[arg(long, help_heading = "Time")]
    pub off_cpu: bool,
    /// Only this category of the account, or those that begin with NAME and a point: block (repeatable).
    #[arg(long, value_name = "NAME", help_heading = "Time", conflicts_with_all = ["on_cpu", "off_cpu"])]
    pub category: Vec<String>,
    /// Only from this long after the trace's begin on.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, help_heading = "Time")]
    pub from: Option<u64>,
    /// Only until this long after the trace's begin.
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, help_heading = "Time")]
    pub to: Option<u64>,

    /// Only threads of this name, or of processes of this name (repeatable).
    #[arg(long, value_name = "NAME", help_heading = "Whose")]
    pub comm: Vec<String>,
    /// Only this process (repeatable).
    #[arg(short, long, value_name = "PID", help_heading = "Whose")]
    pub pid: Vec<u32>,
    /// Only this thread (repeatable).
    #[arg(long, value_name = "TID", help_heading = "Whose")]
    pub tid: Vec<u32>,
    /// Only what was sampled on this CPU; waits have none (repeatable).
    #[arg(long, value_name = "N", help_heading = "Whose")]
    pub cpu: Vec<u32>,

    /// What the flat table's rows are.
    #[arg(long, value_name = "WHAT", default_value = "function", group = "view")]
    pub by: By,
    /// Who calls FUNC, as a tree from it outward.
    #[arg(long, value_name = "FUNC", group = "view")]
    pub callers: Option<String>,
    /// What FUNC calls, as a tree from it inward.
    #[arg(long, value_name = "FUNC", group = "view")]
    pub callees: Option<String>,
    /// The whole call tree from its roots inward.
    #[arg(long, group = "view")]
    pub tree: bool,
    /// How many functions have 50, 80, 90 ... % of the time.
    #[arg(long, group = "view")]
    pub coverage: bool,
    /// By the account: category, cause, functions.
    #[arg(long, group = "view")]
    pub account: bool,
    /// FUNC's instructions, with the time that lies at each.
    #[arg(long, value_name = "FUNC", group = "view")]
    pub annotate: Option<String>,
    /// How the times of two directories differ (as a second DIR does).
    #[arg(long, value_name = "DIR2", conflicts_with = "others")]
    pub diff: Option<PathBuf>,
    /// With two directories: scale the first's times to the second's whole.
    #[arg(long)]
    pub normalize: bool,
    /// Inlined functions count as part of the function that they were put into.
    #[arg(long)]
    pub no_inline: bool,

    /// Rows of a table, 0 for all [default: 40; all with --json].
    #[arg(long, value_name = "N", help_heading = "Length")]
    pub limit: Option<usize>,
    /// Add up branches of a tree below this share of its root [default: 1%; none with --json].
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Length")]
    pub min: Option<f64>,
    /// Levels of a tree, 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Length")]
    pub depth: usize,
    /// With --annotate: every instruction, not only those near the time.
    #[arg(long, requires = "annotate", help_heading = "Length")]
    pub all: bool,
    /// With --annotate: look for source files here too.
    #[arg(long, value_name = "DIR", requires = "annotate", help_heading = "Length")]
    pub source: Option<PathBuf>,

    /// With --coverage: write the curves of all directories as a chart.
    #[arg(long, value_name = "FILE.svg", requires = "coverage", help_heading = "Result")]
    pub svg: Option<PathBuf>,
    /// Write a flame graph; of two directories their difference, as wide as the second's times.
    #[arg(long, value_name = "FILE.svg", group = "view", help_heading = "Result")]
    pub flame: Option<PathBuf>,
    /// With two directories: the flame graph as wide as the first's times, which shows what went away.
    #[arg(long, value_name = "FILE.svg", group = "view", help_heading = "Result")]
    pub flame_before: Option<PathBuf>,
    /// Write the profile in another program's format.
    #[arg(long, value_name = "FORMAT", group = "view", help_heading = "Result")]
    pub export: Option<Export>,
    /// Where --export writes to [default: standard output].
    #[arg(short, long, value_name = "FILE", requires = "export", help_heading = "Result")]
    pub output: Option<PathBuf>,
    /// Print the view as JSON.
    #[arg(long, help_heading = "Result", conflicts_with_all = ["flame", "flame_before", "export", "svg"])]
    pub json: bool,
}

impl ProfileArgs {
    /// What of the profile is shown.
    pub fn options(&self) -> Options {
        Options {
            on_cpu: self.on_cpu,
            off_cpu: self.off_cpu,
            category: self.category.clone(),
            from: self.from,
            to: self.to,
            comm: self.comm.clone(),
            pid: self.pid.clone(),
            tid: self.tid.clone(),
            cpu: self.cpu.clone(),
            view: self.view(),
            normalize: self.normalize,
            no_inline: self.no_inline,
            limit: self.limit,
            min: self.min,
            depth: self.depth,
            json: self.json,
        }
    }

    fn view(&self) -> View {
        if let Some(function) = &self.annotate {
            return View::Annotate { function: function.clone(), all: self.all, source: self.source.clone() };
        }
        if let Some(name) = &self.callers {
            return View::Callers(name.clone());
        }
        if let Some(name) = &self.callees {
            return View::Callees(name.clone());
        }
        match (self.tree, self.account, self.coverage) {
            (true, ..) => View::Tree,
            (_, true, _) => View::Account,
            (.., true) => View::Coverage,
            _ => View::Flat(self.by.into()),
        }
    }

    /// The file that is to be written, and in which format.
    pub fn file(&self) -> Option<(Format, Option<&PathBuf>)> {
        let flame = self.flame.as_ref().map(|f| (Format::Flame, Some(f)));
        let before = self.flame_before.as_ref().map(|f| (Format::FlameBefore, Some(f)));
        flame.or(before).or_else(|| self.export.map(|format| (format.into(), self.output.as_ref())))
    }
}

impl From<By> for profile::By {
    fn from(by: By) -> Self {
        match by {
            By::Function => Self::Function,
            By::Process => Self::Process,
            By::Thread => Self::Thread,
            By::Cpu => Self::Cpu,
            By::Category => Self::Category,
            By::Module => Self::Module,
            By::Line => Self::Line,
            By::Cause => Self::Cause,
        }
    }
}

impl From<Export> for Format {
    fn from(export: Export) -> Self {
        match export {
            Export::Folded => Self::Folded,
            Export::Pprof => Self::Pprof,
            Export::Otlp => Self::Otlp,
            Export::Speedscope => Self::Speedscope,
            Export::Firefox => Self::Firefox,
            Export::Json => Self::Json,
        }
    }
}

/// `2%`, `2` or `0.5%` as a share, 0 to 1.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p / 100.0),
        _ => Err(format!("'{text}' is no share; examples: 1%, 0.5%")),
    }
}
