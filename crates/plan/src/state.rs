// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lies in a plan's directory, and how far it is.
//!
//! `plan.toml` the plan as it runs; `plan.json` this; `changes.jsonl` what was changed on
//! the system; `cells/NNN-LABEL/` each cell, with a directory for each repetition (`1/`, `2/`):
//! `cell.json` ([`Made`]), `load.json` (of several copies `load.2.json`, ...), `output.txt`, `log`,
//! of a recorded one a run directory's files, of one with several hosts their recordings in `hosts/`; `report.txt`, `report.json`, `charts/`.

use super::file::{PlanFile, Settings};
use plumb_machine::Environment;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `ext4 fsync`: the levels' names.
    pub label: String,
    /// Level of each factor, by number.
    pub levels: Vec<usize>,
    pub settings: Settings,
    /// Why it is left out: the plan says so, or this machine lacks something.
    pub skipped: Option<String>,
    /// Its directory, within the plan's.
    pub dir: PathBuf,
}

/// `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub plumb: String,
    /// The words that it was first called with.
    pub arguments: Vec<String>,
    /// The plan, with what the command line changed in it.
    pub plan: PlanFile,
    pub cells: Vec<Cell>,
    /// What is to run, in this order: cell and repetition (from 1).
    pub schedule: Vec<(usize, u32)>,
    /// What has run, in the order in which it did.
    pub made: Vec<Made>,
    pub environment: Option<Environment>,
    /// Why it ended before all was made, where it did.
    pub ended_early: Option<String>,
}

#[cfg(test)]
impl State {
    /// Of a plan of which nothing is known.
    pub fn empty(plan: PlanFile) -> State {
        State {
            plumb: "0".into(),
            arguments: Vec::new(),
            plan,
            cells: Vec::new(),
            schedule: Vec::new(),
            made: Vec::new(),
            environment: None,
            ended_early: None,
        }
    }
}

/// A repetition that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    pub cell: usize,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Its directory, within the plan's.
    pub dir: PathBuf,
    /// When it was begun, UTC.
    pub begun: String,
    /// How long all of it took, with making and removing its ground, ns.
    pub took_ns: u64,
    /// How long the measured command ran, ns.
    pub elapsed_ns: u64,
    pub end: End,
    /// Things that lower its worth, in sentences.
    pub doubts: Vec<String>,
}

/// What became of a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It was measured; a load may still have found itself not valid (in `doubts`).
    Measured,
    /// It failed; why, in a sentence.
    Failed(String),
    /// It took longer than the limit and was ended; what its processes were at lies in `stuck.txt`.
    TimedOut,
}
