// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run as a document.

use super::find::LOAD;
use super::DOCUMENT;
use crate::explain::{self, Explained};
use crate::profile;
use anyhow::{Context, Result};
use plumb_load::environment::utc_of;
use plumb_report::collect::Collected;
use plumb_report::document::{Absent, Document};
use plumb_report::run::{empty, put, Found, Traced};
use plumb_report::upgrade;
use plumb_trace::reader::Trace;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

/// What reading a run's trace gave.
#[derive(Debug)]
pub struct Seen {
    /// Account, profile, verdict.
    pub explained: Explained,
    /// When it was recorded, UTC.
    made: String,
    rows: Option<Collected>,
}

impl Seen {
    /// Reads the trace; with `rows` also what only a page shows.
    ///
    /// # Errors
    /// No trace, of another schema, or without events.
    pub fn of(dir: &Path, rows: bool) -> Result<Self> {
        let trace = explain::open(dir)?;
        let made = made(&trace);
        if !rows {
            return Ok(Self { explained: explain::explain_trace(&trace)?, made, rows: None });
        }
        let (explained, rows) = explain::explain_with_rows(&trace)?;
        Ok(Self { explained, made, rows: Some(rows) })
    }
}

fn made(trace: &Trace) -> String {
    let clock = trace.state.clocks.first();
    clock.filter(|c| c.realtime > 0).map_or_else(String::new, |c| utc_of(c.realtime / 1_000_000_000))
}

/// `run.json`, as far as a report needs it.
#[derive(Deserialize)]
struct RunFile {
    arguments: Vec<String>,
}

/// A file of the directory; `None` where there is none, an error where it cannot be read.
fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let read = serde_json::from_reader(BufReader::new(file));
    read.map(Some).with_context(|| format!("{} is damaged", path.display()))
}

/// The document of a run whose trace was read, and of what lies beside it.
pub fn document(dir: &Path, seen: &Seen) -> Document {
    let Seen { explained, made, rows } = seen;
    let traced = rows.as_ref().map(|rows| {
        let profile = &explained.profile;
        let shown = (profile.time() > 0).then(|| serde_json::to_value(profile::document(profile)));
        let shown = shown.and_then(|s| s.map_err(|e| eprintln!("plumb: the profile is left out: {e}")).ok());
        Traced { profile: shown, rows: rows.clone() }
    });
    let found = Found {
        environment: explained.environment.clone(),
        arguments: Vec::new(),
        quality: explained.quality.clone(),
        diagnosis: explained.diagnosis.clone(),
        result: explained.result.clone(),
        traced,
    };
    assemble(dir, found, made, "It was not asked for.")
}

fn assemble(dir: &Path, mut found: Found, made: &str, without_trace: &str) -> Document {
    let mut absent = Vec::new();
    let mut lacks = |part: &str, why: String| absent.push(Absent { part: part.into(), why });
    let bare = dir.join("metadata").exists();
    match optional::<RunFile>(&dir.join("run.json")) {
        Ok(Some(file)) => found.arguments = file.arguments,
        Ok(None) if bare => {
            lacks("arguments", "It is a trace alone; plumb run keeps how it was called beside it.".into());
        }
        Ok(None) => lacks(
            "arguments",
            "run.json is missing: the run was ended before it was written, or the file was removed.".into(),
        ),
        Err(e) => lacks("arguments", format!("{e:#}.")),
    }
    let quality = &found.quality;
    if quality.cut_off {
        let why =
            "The recording was cut off: its end is not in the trace, and neither is what came after it.";
        lacks("trace", why.into());
    }
    if !quality.damage.is_empty() {
        let why = "cannot be read; what follows there is left out.";
        lacks("trace", format!("{} {why}", quality.damage.join("; ")));
    }
    let told = found.result.processes.iter().any(|p| !p.operations.is_empty());
    let loads = match optional::<Value>(&dir.join(LOAD)) {
        Ok(Some(load)) => vec![load],
        Ok(None) => {
            if told {
                let why = "The workload's own result is not in the directory; keep what plumb load --json \
                           prints as load.json there.";
                lacks("loads", why.into());
            }
            Vec::new()
        }
        Err(e) => {
            lacks("loads", format!("{e:#}."));
            Vec::new()
        }
    };
    let title = found.environment.get("target").filter(|t| !t.is_empty()).cloned();
    let title = title.unwrap_or_else(|| dir.display().to_string());
    let mut document = empty("run", &title, made);
    document.loads = loads;
    document.absent = absent;
    put(&mut document, found, without_trace);
    document
}

/// The document of a run directory or a trace; where the trace is gone, of what was kept beside it.
///
/// # Errors
/// There is neither a trace nor a result.
pub fn read(dir: &Path) -> Result<Document> {
    let no_trace = match Seen::of(dir, true) {
        Ok(seen) => return Ok(document(dir, &seen)),
        Err(e) => e,
    };
    // What was made while the trace was there tells more than the result alone.
    let document = dir.join(DOCUMENT);
    let made = if document.exists() { Some(upgrade::read(&document)) } else { None };
    if let Some(Ok(made)) = made {
        eprintln!("plumb: {no_trace:#}; the page is made of {} as it was kept", document.display());
        return Ok(made);
    }
    if let Some(found) = kept(dir)? {
        let why = format!("The trace cannot be read: {no_trace:#}.");
        let mut document = assemble(dir, found, "", &why);
        document.absent.insert(0, Absent { part: "trace".into(), why });
        return Ok(document);
    }
    made.unwrap_or(Err(no_trace))
}

/// What `result.json` in a run directory tells; none where there is none that can be read.
///
/// # Errors
/// It is of another version.
pub fn kept(dir: &Path) -> Result<Option<Found>> {
    let path = dir.join("result.json");
    let Ok(Some(kept)) = optional::<Value>(&path) else { return Ok(None) };
    result(kept).map(Some).with_context(|| format!("{} is of another version", path.display()))
}

/// What `result.json` tells.
fn result(mut kept: Value) -> Result<Found> {
    let mut part = |name: &str| kept.get_mut(name).map_or(Value::Null, Value::take);
    let environment = serde_json::from_value(part("environment")).context("environment")?;
    let quality = serde_json::from_value(part("quality")).context("quality")?;
    let diagnosis = serde_json::from_value(kept.clone()).context("diagnosis")?;
    let result = serde_json::from_value(kept).context("result")?;
    Ok(Found { environment, arguments: Vec::new(), quality, diagnosis, result, traced: None })
}
