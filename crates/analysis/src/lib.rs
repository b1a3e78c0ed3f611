// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over a trace: account, profile, quality and findings.
//!
//! Every output reads its trace through [`Analysis::read`] or a [`Pass`] with more options, so that all of
//! them show the same findings. Does no output and knows no format.

mod bounded;
pub mod hosts;
pub mod instructions;
mod live;
mod pass;
mod quality;
pub mod setup;
mod target;
pub mod windows;

pub use pass::{Pass, Wanted};
pub use quality::{has_account, Quality, NOT_VALID};

use anyhow::{Context, Result};
use plumb_diagnose::{diagnose, diagnose_service, Diagnosis};
use plumb_model::profile::{self, Profile};
use plumb_model::{HotRow, Observer, RunResult};
use plumb_trace::reader::Trace;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything that is known of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// Machine, target and options, from the trace.
    pub environment: BTreeMap<String, String>,
    /// How far the trace can be trusted.
    pub quality: Quality,
    /// Verdict, kind of limit, findings.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// Account, tables, devices.
    #[serde(flatten)]
    pub result: RunResult,
    /// What [`RunResult::hot`] is the first lines of.
    #[serde(skip)]
    pub profile: Profile,
}

impl Analysis {
    /// Reads a trace once; `observer` sees what the model sees.
    ///
    /// # Errors
    /// A stream of the trace cannot be opened.
    pub fn read<O: Observer>(trace: &Trace, observer: O) -> Result<(Self, O)> {
        Pass::over(trace).read(observer)
    }

    /// Reads the trace of a run directory, or one that stands alone; only of the processes of some names where
    /// they are given.
    ///
    /// # Errors
    /// There is none, it is of another schema, a stream cannot be opened, or no process is called so.
    pub fn of(dir: &Path, comms: &[String]) -> Result<Self> {
        Pass::over(&open(dir)?).only(comms).analysis()
    }

    /// Names functions and finds reasons: whatever changes the result or the profile does it again.
    pub(crate) fn judge(&mut self) {
        let trust = self.quality.trust();
        self.result.hot = hot(&self.profile, &self.environment);
        self.diagnosis = diagnose(&self.result, &trust);
        for service in &mut self.result.services {
            service.result.hot = profile::hot(&self.profile, |pid| service.pids.contains(&pid));
            self.diagnosis.services.push(diagnose_service(service, &trust));
        }
    }
}

/// Opens the trace of a run directory, or one that stands alone.
///
/// # Errors
/// There is none, or it is of another schema.
pub fn open(dir: &Path) -> Result<Trace> {
    Trace::open(dir)
        .with_context(|| format!("cannot explain {}: neither a run directory nor a trace", dir.display()))
}

/// The functions with most time, with their instructions.
fn hot(profile: &Profile, env: &BTreeMap<String, String>) -> Vec<HotRow> {
    let mut rows = profile::hot(profile, |_| true);
    instructions::name(profile, setup::machine(env), &mut rows);
    rows
}
