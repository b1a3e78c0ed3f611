// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run directory as a document: its trace, and what lies beside it.

use crate::collect::{Collect, Collected};
use crate::document::{Absent, Document};
use crate::document_files::DOCUMENT;
use crate::export::profile::document as profile;
use crate::hosts::put as put_hosts;
use crate::run::{empty, put, Found, Traced};
use crate::stream::Stream;
use crate::upgrade;
use anyhow::{Context, Result};
use plumb_analysis::hosts::{self, SEGMENT};
use plumb_analysis::{setup, Analysis, Pass};
use plumb_trace::reader::News;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

/// Entries of the profile on a page, those with most time.
pub const MOST_ENTRIES: usize = 10_000;

/// The result of a workload, in a run directory.
pub const LOAD: &str = "load.json";

/// Words for a moment, in seconds after 1970.
pub type Calendar = fn(u64) -> String;

/// What reading a run's trace gave.
#[derive(Debug)]
pub struct Seen {
    pub analysis: Analysis,
    /// When it was recorded, in seconds after 1970; 0 not known.
    recorded: u64,
    rows: Option<Collected>,
}

impl Seen {
    /// Reads the trace; with `rows` also what only a page shows.
    ///
    /// # Errors
    /// No trace, of another schema, or without events.
    pub fn of(dir: &Path, rows: bool) -> Result<Self> {
        let trace = plumb_analysis::open(dir)?;
        let recorded = setup::recorded(&trace);
        if !rows {
            return Ok(Self { analysis: Pass::over(&trace).analysis()?, recorded, rows: None });
        }
        let stream = Stream::new(setup::span(&trace).0, Collect::default());
        let (analysis, stream) = Analysis::read(&trace, stream)?;
        let rows = stream.finish().finish(&analysis.result, &trace.state)?;
        Ok(Self { analysis, recorded, rows: Some(rows) })
    }

    /// The same of a trace in `dir` that is being recorded; `begin`: when its target began, ns.
    ///
    /// # Errors
    /// It is to be read when it is whole, see [`Analysis::live`].
    pub fn live(dir: &Path, rows: bool, begin: u64, news: &mut impl News) -> Result<Self> {
        if !rows {
            let (trace, analysis, ()) = Analysis::live(dir, begin, news, ())?;
            return Ok(Self { analysis, recorded: setup::recorded(&trace), rows: None });
        }
        let (trace, analysis, stream) =
            Analysis::live(dir, begin, news, Stream::new(begin, Collect::default()))?;
        let rows = stream.finish().finish(&analysis.result, &trace.state)?;
        Ok(Self { analysis, recorded: setup::recorded(&trace), rows: Some(rows) })
    }

    fn made(&self, utc: Calendar) -> String {
        if self.recorded > 0 {
            utc(self.recorded)
        } else {
            String::new()
        }
    }
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
pub fn document(dir: &Path, seen: &Seen, utc: Calendar) -> Document {
    let Analysis { environment, quality, diagnosis, result, .. } = seen.analysis.bounded();
    let times = &seen.analysis.profile;
    let traced = match &seen.rows {
        None => None,
        Some(rows) => {
            let shown = (times.time() > 0).then(|| profile(&times.compact(MOST_ENTRIES)));
            Some(Traced { profile: shown, rows: rows.clone() })
        }
    };
    let segments = traced.is_some() && setup::has_event(&environment, SEGMENT);
    let found = Found { environment, arguments: Vec::new(), quality, diagnosis, result, traced };
    let mut document = assemble(dir, found, &seen.made(utc), "It was not asked for.");
    if segments {
        match plumb_analysis::open(dir) {
            Ok(trace) => put_hosts(&mut document, hosts::alone(&trace, &[]).1),
            Err(e) => document.absent.push(Absent { part: "hosts".into(), why: format!("{e:#}.") }),
        }
    }
    document
}

fn assemble(dir: &Path, mut found: Found, made: &str, without_trace: &str) -> Document {
    let mut absent = Vec::new();
    let mut lacks = |part: &str, why: String| absent.push(Absent { part: part.into(), why });
    let bare = dir.join("metadata").exists();
    match optional::<RunFile>(&dir.join("run.json")) {
        Ok(Some(file)) => found.arguments = file.arguments,
        Ok(None) if bare => {
            lacks("arguments", "The directory has only a trace; plumb run also stores its arguments.".into());
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

/// The document of a run directory or a trace; where the trace is gone, of what was kept beside it:
/// `note` gets a sentence about that.
///
/// # Errors
/// There is neither a trace nor a result.
pub fn read(dir: &Path, utc: Calendar, note: &mut dyn FnMut(&str)) -> Result<Document> {
    let no_trace = match Seen::of(dir, true) {
        Ok(seen) => return Ok(document(dir, &seen, utc)),
        Err(e) => e,
    };
    // What was made while the trace was there tells more than the result alone.
    let path = dir.join(DOCUMENT);
    let made = if path.exists() { Some(upgrade::read(&path)) } else { None };
    if let Some(Ok(made)) = made {
        note(&format!("{no_trace:#}; the page is made of {} as it was kept", path.display()));
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
