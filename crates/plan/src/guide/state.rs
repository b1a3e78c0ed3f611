// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `guide.json`: what a guide was asked, and what became of each step. Written whole after every step, so that one that
//! was interrupted goes on.

use super::action::Action;
use super::command::Observed;
use super::effect::Effect;
use super::goal::Goal;
use super::may::May;
use super::trial::Trial;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::Environment;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Its name in a guide's directory.
pub const STATE: &str = "guide.json";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    pub plumb: String,
    /// The words that it was begun with.
    pub arguments: Vec<String>,
    pub goal: Goal,
    pub may: Vec<May>,
    pub trials: Vec<Trial>,
    /// Most changes that are tried.
    pub most: u32,
    pub repeat: u32,
    pub prepare: Option<String>,
    pub command: Vec<String>,
    /// Where it is run.
    pub directory: PathBuf,
    /// Accepted changes stay at the end.
    pub keep: bool,
    pub preconditions: Environment,
    /// Prerequisites of recording that this machine has less of, and what that costs.
    pub checks: Vec<String>,
    /// The command, run once without a recording.
    pub observed: Option<Observed>,
    /// The first measurement, then each change that was tried.
    pub steps: Vec<Step>,
    /// Changes that the findings of the last accepted measurement point to, and that were not tried.
    pub untried: Vec<Proposal>,
    pub end: Option<End>,
    /// What was put back at the end, in words.
    pub put_back: Vec<String>,
}

impl Output for State {
    const FORMAT: &'static Format = &formats::GUIDE;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// From 0; also the name of its set in `steps/`.
    pub number: u32,
    /// None of the first measurement.
    pub change: Option<Proposal>,
    pub measured: Option<Measured>,
    pub verdict: Verdict,
    /// Against the last accepted measurement.
    pub effect: Option<Effect>,
    /// Of a small gain: against the state before, measured again without the change.
    pub confirmed: Option<Effect>,
}

/// A measurement: a set of runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Elapsed of each repetition, ns.
    pub elapsed: Vec<u64>,
    pub median: f64,
    /// 95 % interval of the median.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Run directory of the median run, below the guide's.
    pub run: String,
    /// Verdict of the median run, a line each.
    pub verdict: Vec<String>,
    pub account: Vec<Part>,
    /// Functions with most of the time, and what they spent it on.
    pub profile: Vec<Part>,
    pub findings: Vec<Found>,
    pub doubts: Vec<String>,
}

/// A part of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    /// 0 to 1.
    pub share: f64,
}

/// A finding of the median run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pub id: String,
    pub headline: String,
    pub device: String,
    pub share: f64,
    pub next: String,
}

/// A change, and why it is proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Key of the tunable, `env:NAME`, or the name of `--try`.
    pub key: String,
    /// What it is of: a device, `cgroup DIR`, `system`, `command`.
    pub of: String,
    pub from: String,
    pub to: String,
    pub finding: Found,
    pub because: String,
    pub costs: String,
    pub action: Action,
    /// The words of `--may` that allow it.
    pub may: String,
    pub allowed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The first measurement.
    First,
    /// Faster, above the noise.
    Accepted,
    /// Slower, above the noise: undone.
    Worse,
    /// No difference above the noise: undone.
    Noise,
    /// It could not be made or measured: undone.
    Failed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    GoalReached,
    /// No change is left that the findings point to and that was allowed.
    NothingLeft,
    StepsUsed,
}

impl State {
    /// The last accepted measurement, which the system is as in now.
    pub fn current(&self) -> Option<&Step> {
        self.steps.iter().rev().find(|s| s.is_accepted())
    }

    pub fn first(&self) -> Option<&Step> {
        self.steps.first()
    }

    pub fn accepted(&self) -> impl Iterator<Item = &Proposal> {
        self.steps.iter().filter(|s| s.verdict == Verdict::Accepted).filter_map(|s| s.change.as_ref())
    }

    /// Changes that were tried.
    pub fn tried(&self) -> u32 {
        self.steps.iter().filter(|s| s.change.is_some()).count() as u32
    }

    /// Whether a measurement meets the goal.
    pub fn meets(&self, measured: &Measured) -> bool {
        let first = self.first().and_then(|s| s.measured.as_ref());
        first.is_some_and(|first| measured.median < self.goal.limit(first.median))
    }
}

impl Step {
    pub fn is_accepted(&self) -> bool {
        matches!(self.verdict, Verdict::First | Verdict::Accepted)
    }
}

/// The guide that was begun in a directory, if one was.
///
/// # Errors
/// It cannot be read, or is of another version's making.
pub fn read(dir: &Path) -> Result<Option<State>> {
    let path = dir.join(STATE);
    let opened = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None)
        }
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    // It has commands, which are run: nobody else may have written them.
    let (meta, me) = (file.metadata()?, effective_user());
    if meta.uid() != me || meta.mode() & 0o022 != 0 {
        bail!(
            "cannot read {}: user {} can write it, and you are user {me}\nhint: go on as the user who began it",
            path.display(),
            meta.uid()
        );
    }
    let state = serde_json::from_reader(BufReader::new(file)).with_context(|| {
        format!(
            "cannot read {}: damaged, or of another version of plumb; begin a new guide with -o",
            path.display()
        )
    })?;
    Ok(Some(state))
}

/// # Errors
/// It cannot be written.
pub fn write(dir: &Path, state: &State) -> Result<()> {
    // Behind sudo it stays root's: what root will obey is nobody else's to write.
    let (path, beside) = (dir.join(STATE), dir.join(format!(".{STATE}.{}.part", std::process::id())));
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW).mode(0o600);
    let made = options.open(&beside).and_then(|mut file| {
        serde_json::to_writer_pretty(&mut file, state)?;
        std::fs::rename(&beside, &path)
    });
    made.with_context(|| format!("cannot write {}", path.display()))
}

fn effective_user() -> u32 {
    // SAFETY: plain call.
    unsafe { libc::geteuid() }
}
