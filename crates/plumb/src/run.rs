// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb run`: record, model, verdict, kept together in a run directory.

use crate::cli::RunArgs;
use crate::explain::{explain, print, select, Explained};
use crate::record;
use anyhow::{bail, Context, Result};
use plumb_probe::Outcome;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `run.json`: how the run was made.
#[derive(Serialize)]
struct RunFile<'a> {
    /// Version of plumb.
    plumb: &'static str,
    /// The words that it was called with.
    arguments: Vec<String>,
    /// What the recorder said.
    recording: &'a Outcome,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be recorded, or the run directory cannot be written.
pub fn main(args: &RunArgs) -> Result<ExitCode> {
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("plumb-run-{}", stamp())));
    if dir.join("run.json").exists() || dir.join("trace").exists() {
        bail!("{}: holds a run already; choose another directory with -o", dir.display());
    }
    let options = record::options(&args.what, &dir.join("trace"))?;
    let made = !dir.exists();
    let outcome = record::record(&options, args.what.quiet).inspect_err(|_| {
        if made {
            // Nothing was recorded: leave nothing. Only empty directories go.
            let _ = std::fs::remove_dir(dir.join("trace"));
            let _ = std::fs::remove_dir(&dir);
        }
    })?;
    let explained = explain(&dir);
    let run = RunFile {
        plumb: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args().collect(),
        recording: &outcome,
    };
    write_json(&dir.join("run.json"), &run)?;
    let mut explained = explained?;
    keep(&dir, &explained)?;
    select(&mut explained, &args.show)?;
    print(&explained, &args.show, &mut std::io::stdout().lock())?;
    if !args.what.quiet {
        eprintln!("run directory: {} (plumb explain {0} shows this again)", dir.display());
    }
    Ok(record::exit_code(&outcome))
}

/// Writes the second half's files: tables as JSON, and the text.
fn keep(dir: &Path, explained: &Explained) -> Result<()> {
    write_json(&dir.join("environment.json"), &explained.environment)?;
    write_json(&dir.join("result.json"), explained)?;
    let path = dir.join("result.txt");
    let mut file = File::create(&path).with_context(|| path.display().to_string())?;
    print(explained, &crate::cli::Show { comm: Vec::new(), threads: true, json: false }, &mut file)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    serde_json::to_writer_pretty(&mut file, value)
        .and_then(|()| file.write_all(b"\n").map_err(serde_json::Error::io))
        .with_context(|| path.display().to_string())
}

/// Local date and time for a directory's name.
fn stamp() -> String {
    // SAFETY: time and localtime_r with valid pointers; tm is plain data.
    let tm = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut tm);
        tm
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}
