// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user asks of plans.

use crate::adapt::Changes;
use std::path::PathBuf;

/// `plumb plan run`.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Path of a .toml, name of a plan, or directory of a run that was begun.
    pub plan: PathBuf,
    pub output: Option<PathBuf>,
    /// Ends the name of the directory if there is no `output`: `plumb-plan-NAME-STAMP`.
    pub stamp: String,
    pub changes: Changes,
    /// Devices whose contents may be lost.
    pub destroy: Vec<PathBuf>,
    /// Cells that are measured anew.
    pub again: Vec<String>,
    pub quiet: bool,
    pub json: bool,
}

/// `plumb plan show`.
#[derive(Debug, Clone, Default)]
pub struct Show {
    pub plan: PathBuf,
    pub changes: Changes,
    pub json: bool,
}

/// `plumb plan report`.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub dir: PathBuf,
    /// Figures; if there are none, those of the plan.
    pub figure: Vec<String>,
    pub json: bool,
    pub csv: bool,
}

/// `plumb size`.
#[derive(Debug, Clone, Default)]
pub struct Size {
    /// Directory of the run with the database.
    pub known: PathBuf,
    /// As [`crate::size::target`] reads them.
    pub targets: Vec<String>,
    /// Directories of runs in other environments.
    pub new: Vec<PathBuf>,
    /// Probability of missing a target that is taken, 0 to 0.5.
    pub risk: f64,
    pub json: bool,
}

/// `plumb plan compare`.
#[derive(Debug, Clone, Default)]
pub struct Compare {
    pub a: PathBuf,
    pub b: PathBuf,
    pub figure: Vec<String>,
    pub json: bool,
}
