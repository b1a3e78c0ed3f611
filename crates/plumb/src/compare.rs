// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb compare`: two runs or two sets of runs, one signed difference with its error.

mod environment;
mod gate;
mod lines;
mod load;
mod measure;
mod show;
mod words;

pub use words::PARTS;

use crate::cli::CompareArgs;
use crate::quality::NOT_VALID;
use crate::report;
use anyhow::{Context, Result};
use environment::Differs;
use gate::{Gate, Verdict};
use lines::Line;
use load::{Kind, Side};
use plumb_report::plain::Plain;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Exit code when a threshold was crossed.
const CROSSED: u8 = 1;

/// All that the comparison found.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Faster, slower, or no difference found.
    pub headline: String,
    /// What the difference consists of.
    pub sentences: Vec<String>,
    pub a: Side,
    pub b: Side,
    /// What is not the same of where and how they were made.
    pub environment: Vec<Differs>,
    pub doubts: Vec<String>,
    /// Lines that were tested together.
    pub tested: usize,
    /// Every figure, table by table.
    pub lines: Vec<Line>,
    /// What became of each `--fail-above`.
    pub gates: Vec<Verdict>,
}

impl Comparison {
    /// Reads both sides and compares them.
    ///
    /// # Errors
    /// One of the two is no run, no trace and no set; a threshold that cannot be judged.
    pub fn read(args: &CompareArgs) -> Result<Self> {
        let gates: Vec<Gate> = args.fail_above.iter().map(|g| Gate::parse(g)).collect::<Result<_>>()?;
        let (a, b) = (Side::load(&args.a, &args.comm)?, Side::load(&args.b, &args.comm)?);
        Self::of(a, b, &gates)
    }

    /// A run that stands for each side where only one can be shown: its first.
    pub fn examples(&self) -> [&Path; 2] {
        // A side without a run is not read.
        [&self.a, &self.b].map(|side| side.members.first().map_or(side.path.as_path(), |m| &m.dir))
    }

    fn of(a: Side, b: Side, gates: &[Gate]) -> Result<Self> {
        let lines = lines::lines(&a, &b);
        let elapsed = words::elapsed(&lines).context("the runs have no elapsed time")?;
        let given = a.length_given() || b.length_given();
        Ok(Self {
            headline: words::headline(elapsed, &a, &b),
            sentences: words::sentences(&lines),
            environment: environment::differences(&a, &b),
            doubts: [doubts("A", &a), doubts("B", &b)].concat(),
            tested: lines.iter().filter(|l| l.q.is_some()).count(),
            gates: gates.iter().map(|g| g.judge(&lines, given)).collect::<Result<_>>()?,
            lines,
            a,
            b,
        })
    }

    /// Documented in the help: what is not valid outranks what was crossed.
    pub fn exit_code(&self) -> ExitCode {
        let members = || self.a.members.iter().chain(&self.b.members);
        if members().any(|m| !m.not_valid.is_empty()) {
            ExitCode::from(NOT_VALID)
        } else if self.gates.iter().any(|g| g.crossed) {
            ExitCode::from(CROSSED)
        } else {
            ExitCode::SUCCESS
        }
    }
}

fn doubts(name: &str, side: &Side) -> Vec<String> {
    let mut out = Vec::new();
    for m in &side.members {
        let run = match side.kind {
            Kind::Run => name.to_string(),
            Kind::Set => format!("{name}, run {}", m.dir.file_name().unwrap_or_default().to_string_lossy()),
        };
        out.extend(m.not_valid.iter().chain(&m.doubts).map(|d| format!("{run}: {d}")));
        if !m.no_account.is_empty() {
            out.push(format!("{run}: no account of time, {} not recorded", m.no_account.join(" and ")));
        }
    }
    out
}

/// Runs the command.
///
/// # Errors
/// One of the two is no run, no trace and no set; a threshold that cannot be judged.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    let comparison = Comparison::read(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&comparison)?)?;
    } else {
        show::print(&comparison, &mut Plain(&mut out))?;
    }
    if let Some(page) = &args.report {
        let mut document = report::comparison(args, &comparison)?;
        report::link_sides(&mut document, &comparison, page);
        report::write_page(page, &document)?;
        eprintln!("report: {}", page.display());
    }
    Ok(comparison.exit_code())
}
