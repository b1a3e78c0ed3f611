// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user asks of `plumb guide`.

use super::goal::Goal;
use super::may::May;
use super::trial::Trial;
use std::path::PathBuf;

/// A new guide, or one that goes on.
#[derive(Debug, Clone, Default)]
pub struct Guide {
    /// Its directory.
    pub dir: PathBuf,
    /// What a new one is begun with; None goes on with the one in the directory.
    pub new: Option<New>,
    /// What becomes of accepted changes, where it is not what the guide was begun with.
    pub keep: Option<bool>,
    pub quiet: bool,
    pub json: bool,
}

/// What a new guide is begun with.
#[derive(Debug, Clone, Default)]
pub struct New {
    pub goal: Goal,
    pub may: Vec<May>,
    pub trials: Vec<Trial>,
    /// Most changes that are tried.
    pub steps: u32,
    /// Repetitions of each measurement.
    pub repeat: u32,
    /// Shell command before each repetition; its time is not measured.
    pub prepare: Option<String>,
    pub command: Vec<String>,
}
