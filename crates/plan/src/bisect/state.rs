// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lies in the directory of a search, and how far it is.
//!
//! `bisect.json` this; `repository/` a bare clone that borrows the objects of the user's, so that nothing is registered
//! there; `trees/COMMIT/` its worktrees; `logs/VERSION.build`, `logs/VERSION.run` what the last build and the last run of a version
//! printed; `.gitignore`, so that a directory in the user's checkout is no change of it.

use super::answer::Answer;
use anyhow::{Context, Result};
use plumb_compare::run_directory::{read, write_json};
use plumb_machine::json::{formats, Format, Output};
use plumb_stats::changepoint::search::{Question, Search};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const STATE: &str = "bisect.json";
/// Runs at most where nobody says how many.
pub const MOST: usize = 500;

/// What is searched, and what determines a figure. A search goes on only where all of it is the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Git's directory; none of words.
    pub repository: Option<PathBuf>,
    /// Where words are built and run; none of commits, which have worktrees.
    pub directory: Option<PathBuf>,
    pub versions: Vec<Version>,
    pub command: Vec<String>,
    pub build: Option<String>,
    pub figure: String,
    pub error: f64,
    pub least: f64,
    pub warm_up: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Hash of the commit, or the word.
    pub id: String,
    /// First line of the commit's message; empty of a word.
    pub subject: String,
}

impl Version {
    /// As it is shown: the hash's beginning, or the word.
    pub fn short(&self, is_commit: bool) -> &str {
        self.id.get(..12).filter(|_| is_commit).unwrap_or(&self.id)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub version: usize,
    /// Of elapsed and CPU time in ns; else the figure as it was printed.
    pub value: f64,
    pub elapsed_ns: u64,
    /// When it was begun, UTC.
    pub begun: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub version: usize,
    pub why: String,
}

/// `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub plumb: String,
    pub asked: Asked,
    /// Runs at most, those that warm up included.
    pub most: usize,
    /// A build or a run that takes longer has failed.
    pub limit: Option<Duration>,
    /// Measured ones, in their order.
    pub runs: Vec<Run>,
    /// How many others there were, to warm up or that failed.
    pub other_runs: usize,
    /// Versions whose tree is whole.
    pub built: Vec<usize>,
    pub builds: usize,
    pub skipped: Vec<Skipped>,
    pub answer: Option<Answer>,
}

impl Output for State {
    const FORMAT: &'static Format = &formats::BISECT;
}

impl State {
    /// Of nothing measured yet.
    pub fn new(asked: Asked) -> State {
        State {
            plumb: env!("CARGO_PKG_VERSION").into(),
            asked,
            most: MOST,
            limit: None,
            runs: Vec::new(),
            other_runs: 0,
            built: Vec::new(),
            builds: 0,
            skipped: Vec::new(),
            answer: None,
        }
    }

    /// The search after these runs.
    pub fn search(&self) -> Search {
        let Asked { versions, error, least, .. } = &self.asked;
        let mut search = Search::new(Question { versions: versions.len(), error: *error, least: *least });
        self.runs.iter().for_each(|r| search.add(r.version, r.value));
        self.skipped.iter().for_each(|s| search.skip(s.version));
        search
    }

    /// # Errors
    /// It is damaged, or cannot be read. None where no search was begun.
    pub fn read(dir: &Path) -> Result<Option<State>> {
        let path = dir.join(STATE);
        path.exists()
            .then(|| {
                read(&path).context("damaged, or of another version of plumb; search again with another -o")
            })
            .transpose()
    }

    /// # Errors
    /// It cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write_json(&dir.join(STATE), self)
    }
}
