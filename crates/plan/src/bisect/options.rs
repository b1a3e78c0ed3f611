// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user asks of a search.

use std::path::PathBuf;
use std::time::Duration;

/// `plumb bisect`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Commits without and with the change.
    pub good: Option<String>,
    pub bad: Option<String>,
    /// Any directory of the repository; the current one if there is none.
    pub repository: Option<PathBuf>,
    /// Words in place of commits, in their order.
    pub among: Vec<String>,
    /// A line of sh that is run once for each version before it is measured.
    pub build: Option<String>,
    /// `elapsed`, `cpu`, or a regular expression with one group.
    pub figure: String,
    /// Most probability of a wrong answer.
    pub error: f64,
    /// Smallest change of interest, as a part.
    pub least: f64,
    /// Runs at most, those that warm up included; what the search was begun with, or 500, if there is none.
    pub most: Option<usize>,
    /// Runs of each version that are not measured.
    pub warm_up: usize,
    /// A build or a run that takes longer has failed; what the search was begun with if there is none.
    pub limit: Option<Duration>,
    pub output: Option<PathBuf>,
    /// Ends the name of the directory if there is no `output`: `plumb-bisect-STAMP`.
    pub stamp: String,
    pub quiet: bool,
    pub json: bool,
    /// Of an empty one the search in `output` goes on.
    pub command: Vec<String>,
}
