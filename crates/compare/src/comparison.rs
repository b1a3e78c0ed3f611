// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both sides, and what is between them.

use crate::environment::{self, Differs};
use crate::gate::{exit_code, Gate, Verdict};
use crate::lines::{self, Line};
use crate::side::{Kind, Side};
use crate::words;
use anyhow::{Context, Result};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to compare.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub a: PathBuf,
    pub b: PathBuf,
    /// Only processes of these names; all if it is empty.
    pub comm: Vec<String>,
    /// Thresholds that are judged.
    pub gates: Vec<Gate>,
}

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
    /// What became of each `--fail-above` and `--fail-below`.
    pub gates: Vec<Verdict>,
}

impl Output for Comparison {
    const FORMAT: &'static Format = &formats::COMPARE;
}

impl Comparison {
    /// Reads both sides and compares them.
    ///
    /// # Errors
    /// One of the two is no run, no trace and no set; a threshold that cannot be judged.
    pub fn read(options: &Options) -> Result<Self> {
        let (a, b) = (Side::load(&options.a, &options.comm)?, Side::load(&options.b, &options.comm)?);
        Self::of(a, b, &options.gates)
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
            headline: words::headline(&lines, elapsed, &a, &b),
            sentences: words::sentences(&lines),
            environment: environment::differences(&a, &b),
            doubts: [doubts("A", &a), doubts("B", &b), words::arrivals(&a, &b).into_iter().collect()]
                .concat(),
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
        exit_code(members().all(|m| m.not_valid.is_empty()), &self.gates)
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
