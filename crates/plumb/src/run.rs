// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb run`: record, model, verdict, kept together in a run directory.

use crate::cli::{RunArgs, Show};
use crate::explain::{print, Explained};
use crate::{record, repeat};
use anyhow::{bail, Result};
use plumb_analysis::Analysis;
use plumb_compare::run_directory::{write_document, CHAIN};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::{output, utc_of};
use plumb_probe::{Beside, Outcome};
use plumb_report::document_files::{self, PAGE};
use plumb_report::run_directory::{document, Seen};
use plumb_report::terminal::screen::Screen;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `run.json`: how the run was made.
#[derive(Serialize)]
struct RunFile<'a> {
    plumb: &'static str,
    /// The words that it was called with.
    arguments: Vec<String>,
    /// The result was made while it was recorded, not from the whole trace.
    live: bool,
    recording: &'a Outcome,
}

impl Output for RunFile<'_> {
    const FORMAT: &'static Format = &formats::RUN;
}

/// `environment.json`: what the trace says of machine, target and options.
#[derive(Serialize)]
struct EnvironmentFile<'a> {
    environment: &'a BTreeMap<String, String>,
}

impl Output for EnvironmentFile<'_> {
    const FORMAT: &'static Format = &formats::ENVIRONMENT;
}

/// Reading so many events takes a while.
const LONG: u64 = 5_000_000;

/// Runs the command.
///
/// # Errors
/// Nothing could be recorded, or the run directory cannot be written.
pub fn main(args: &RunArgs) -> Result<ExitCode> {
    if let Some(count) = args.repeat {
        return repeat::main(args, count);
    }
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("plumb-run-{}", stamp())));
    if dir.join("run.json").exists() || dir.join("trace").exists() {
        bail!("{}: holds a run already; choose another directory with -o", dir.display());
    }
    if dir.join("set.json").exists() {
        bail!("{}: holds a set of runs already; choose another directory with -o", dir.display());
    }
    let (outcome, _) = make(args, &dir, args.what.quiet, |explained| {
        if args.show.comm.is_empty() {
            return show(args, |screen| print(explained, &args.show, screen));
        }
        let explained = Analysis::of(&dir, &args.show.comm)?;
        show(args, |screen| print(&explained, &args.show, screen))
    })?;
    if !args.what.quiet {
        eprintln!("run directory: {} (plumb explain {0} shows this again)", dir.display());
        if !args.no_report {
            eprintln!("report: {}", dir.join(PAGE).display());
        }
    }
    Ok(record::exit_code(&outcome, args.what.exit_code))
}

/// Writes results to standard output; beside a command, whose standard output passes through, to standard
/// error, so that `plumb run -- pg_dump > dump.sql` leaves the dump alone. With `--json` the command's own
/// output goes to standard error instead.
///
/// # Errors
/// The writer's.
pub fn show(args: &RunArgs, write: impl FnOnce(&mut Screen<'_>) -> Result<()>) -> Result<()> {
    if args.what.command.is_empty() || args.show.json {
        write(&mut Screen::stdout(&mut std::io::stdout().lock(), args.show.wide))
    } else {
        write(&mut Screen::stderr(&mut std::io::stderr().lock(), args.show.wide))
    }
}

/// Makes one run directory: record, model, verdict, and their files. `tell` is called before the page is written.
///
/// # Errors
/// Nothing could be recorded, or the run directory cannot be written.
pub fn make(
    args: &RunArgs,
    dir: &Path,
    quiet: bool,
    tell: impl FnOnce(&Analysis) -> Result<()>,
) -> Result<(Outcome, Analysis)> {
    output::private_unless(args.what.share);
    let mut options = record::options(&args.what, &dir.join("trace"))?;
    options.output_apart = args.show.json;
    let made = !dir.exists();
    if !made {
        output::directory(dir)?;
    }
    // A set has one page, when all of its runs are made.
    let page = !args.no_report && args.repeat.is_none();
    let read = move |mut beside: Beside| {
        let (trace, begin) = (beside.dir.clone(), beside.begin);
        Seen::live(&trace, page, begin, &mut beside)
    };
    let (outcome, seen) = record::record_beside(&options, quiet, read).inspect_err(|_| {
        if made {
            // Nothing was recorded: leave nothing. Only empty directories go.
            let _ = std::fs::remove_dir(dir.join("trace"));
            let _ = std::fs::remove_dir(dir);
        }
    })?;
    let live = matches!(seen, Some(Ok(_)));
    let seen = match seen {
        Some(Ok(seen)) => Ok(seen),
        Some(Err(why)) if outcome.events > LONG && !quiet => {
            eprintln!("plumb: reading the trace from its begin: {why:#}");
            Seen::of(dir, page)
        }
        _ => Seen::of(dir, page),
    };
    let run = RunFile {
        plumb: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args().collect(),
        live,
        recording: &outcome,
    };
    write_document(&dir.join("run.json"), &run)?;
    let seen = seen?;
    keep_result(dir, &seen.analysis)?;
    // Who reads it may have gone (a closed pipe): the page is kept all the same.
    let told = tell(&seen.analysis);
    if page {
        document_files::keep(dir, &document(dir, &seen, utc_of))?;
    }
    told?;
    Ok((outcome, seen.analysis))
}

/// Writes the second half's files: tables as JSON, and the text.
fn keep_result(dir: &Path, explained: &Analysis) -> Result<()> {
    write_document(&dir.join("environment.json"), &EnvironmentFile { environment: &explained.environment })?;
    let bounded = explained.bounded();
    write_document(&dir.join("result.json"), &Explained { analysis: &bounded, hosts: None })?;
    let show = |chain: bool| Show { comm: Vec::new(), threads: !chain, chain, wide: true, json: false };
    let text = |name: &str, chain: bool| {
        output::replace(&dir.join(name), |out| print(explained, &show(chain), &mut Screen::file(out)))
    };
    text("result.txt", false)?;
    text(CHAIN, true)
}

/// Local date and time for a directory's name.
pub fn stamp() -> String {
    // SAFETY: a plain call; tm is plain data that localtime_r fills.
    let tm = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut tm);
        tm
    };
    let (date, time) = ([tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday], [tm.tm_hour, tm.tm_min, tm.tm_sec]);
    let two = |numbers: [i32; 3]| numbers.map(|n| format!("{n:02}")).concat();
    format!("{}-{}", two(date), two(time))
}
