// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of `plumb load` and `plumb run` that a cell's settings make, read by the program's own
//! parser ([`Program`]) before anything runs.

use crate::file::{Settings, Value};
use crate::program::Program;
use crate::server::sample_url;
use anyhow::{bail, Result};
use plumb_load::job::{Cell as LoadCell, Job};
use plumb_trace::suggest::nearest;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of a load that the plan gives itself, and what says so in a plan.
const OWN: &[(&str, &str)] = &[
    ("json", "the plan keeps every repetition's JSON"),
    ("csv", "'plumb plan report --csv' prints every repetition"),
    ("quiet", "the plan shows its own progress"),
    ("log", "a chart of kind \"operations\" keeps it"),
    ("destroy", "give 'plumb plan run --destroy PATH'"),
    ("show-job", "a plan measures"),
    ("help", "see 'plumb load --help'"),
];

/// `plumb load [PRESET] --key=value ... TARGET`. Workers lie in several targets in turn;
/// each copy of a load has one.
pub fn load_arguments(settings: &Settings, targets: &[PathBuf]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["plumb".into(), "load".into()];
    words.extend(settings.preset.iter().map(OsString::from));
    for (key, value) in &settings.load {
        match value {
            Value::Flag(true) => words.push(format!("--{key}").into()),
            Value::Flag(false) => {}
            other => words.extend(other.words().into_iter().map(|w| OsString::from(format!("--{key}={w}")))),
        }
    }
    let mut targets = targets.iter();
    let first = targets.next();
    for other in targets {
        words.extend([OsString::from("--also"), other.into()]);
    }
    words.extend(first.map(OsString::from));
    words
}

/// The jobs of a cell's load.
///
/// # Errors
/// As [`load_cells`].
pub(crate) fn jobs(settings: &Settings, program: &dyn Program) -> Result<Vec<Job>> {
    Ok(load_cells(settings, program)?.into_iter().flat_map(|c| c.steps).flat_map(|s| s.jobs).collect())
}

/// The cells of a cell's load: of a preset there are several.
///
/// # Errors
/// An unknown preset or option, a bad value, options that contradict each other, or an option
/// that a plan gives itself.
pub fn load_cells(settings: &Settings, program: &dyn Program) -> Result<Vec<LoadCell>> {
    if let Some(preset) = &settings.preset {
        let all = program.presets();
        if !all.contains(preset) {
            let near = nearest(preset, &all).map(|n| format!("did you mean \"{n}\"? "));
            bail!(
                "preset: there is no preset \"{preset}\"; {}there are: {}",
                near.unwrap_or_default(),
                all.join(", ")
            );
        }
    }
    for key in settings.load.keys() {
        if let Some((_, instead)) = OWN.iter().find(|(own, _)| own == key) {
            bail!("load.{key}: a plan sets it itself; {instead}");
        }
        if key.is_empty() || key.starts_with('-') || key.contains('=') {
            bail!("load.{key}: write an option's long name without dashes, as in load.block = \"8K\"");
        }
    }
    let mut words = load_arguments(settings, &["/target".into()]);
    if let Some(kind) = settings.server.as_ref().and_then(|server| server.kind) {
        for word in &mut words {
            *word = word.to_string_lossy().replace("{server}", sample_url(kind)).into();
        }
    }
    program.load_cells(words)
}

/// Looks through the options of a recording.
///
/// # Errors
/// An unknown option, event or value, or an option that a plan gives itself.
pub fn check_record(options: &[String], program: &dyn Program) -> Result<()> {
    let own = ["-o", "--output", "--pid", "-p", "--repeat", "--json", "-q", "--quiet", "--no-report", "--"];
    let given =
        |option: &&String| own.iter().any(|o| *o == option.as_str() || option.starts_with(&format!("{o}=")));
    if let Some(option) = options.iter().find(given) {
        bail!("record: {option}: a plan sets it itself; leave it out");
    }
    let head = ["plumb", "run"].map(String::from);
    let tail = ["--output", "/out", "--", "command"].map(String::from);
    let words = head.iter().chain(options).chain(&tail).map(OsString::from);
    program.check_run(words.collect())
}
