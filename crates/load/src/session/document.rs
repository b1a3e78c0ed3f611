// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result for programs: one document.

use super::{LogFile, Outcome, PresetResult};
use crate::result::CellResult;
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::Environment;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// `load.json`: what `plumb load --json` prints.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// Version of plumb.
    plumb: &'static str,
    /// The command line that asked for it.
    arguments: &'a [String],
    target: &'a Path,
    /// It was ended by Ctrl-C.
    interrupted: bool,
    /// Why there are as many rounds as there are.
    ended: &'a str,
    /// What ended it before its time, or what of it cannot be removed.
    error: Option<&'a str>,
    warnings: &'a [String],
    environment: &'a Environment,
    /// The clock of all times.
    clock: ClockFacts,
    /// In which order the cells ran in each round.
    orders: &'a [Vec<usize>],
    /// Cells without a round are left out when it ended early.
    cells: &'a [CellResult],
    preset: Option<&'a PresetResult>,
    logs: &'a [LogFile],
    /// One turn of the target's disk, ns: --rpm, or that of a served disk's model; `None` where it is not known.
    turn_ns: Option<u64>,
    /// Where the files stay (--keep).
    kept: Option<&'a PathBuf>,
}

impl Output for Document<'_> {
    const FORMAT: &'static Format = &formats::LOAD;
}

#[derive(Debug, Serialize)]
struct ClockFacts {
    /// `tsc` or `clock_monotonic`.
    source: &'static str,
    /// What one reading costs, ns.
    cost_ns: f64,
    /// Smallest step between two readings in a row, ns.
    resolution_ns: u64,
    /// How far it went from CLOCK_MONOTONIC, parts per million.
    drift_ppm: f64,
    /// Ticks of its counter a nanosecond, where it is one.
    ticks_per_ns: Option<f64>,
}

impl Outcome {
    /// The document; `arguments` are the command line that asked for it.
    pub fn document<'a>(
        &'a self,
        arguments: &'a [String],
        preset: Option<&'a PresetResult>,
        warnings: &'a [String],
    ) -> Document<'a> {
        let clock = &self.clock;
        Document {
            plumb: env!("CARGO_PKG_VERSION"),
            arguments,
            target: &self.target,
            interrupted: self.interrupted,
            ended: &self.ended,
            error: self.error.as_deref(),
            warnings,
            environment: &self.environment,
            clock: ClockFacts {
                source: clock.source(),
                cost_ns: clock.cost_ns(),
                resolution_ns: clock.resolution_ns(),
                drift_ppm: clock.drift_ppm_since(),
                ticks_per_ns: self.ticks_per_ns,
            },
            orders: &self.orders,
            cells: &self.cells,
            preset,
            logs: &self.logs,
            turn_ns: self.turn_ns,
            kept: self.kept.as_ref(),
        }
    }
}
