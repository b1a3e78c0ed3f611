// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb report`: the report document of what a directory holds, and its page.
//!
//! [`find`] says what a path is, [`run`], [`set`] and [`others`] make the document, plumb-report packs the page.

mod find;
mod others;
mod set;

pub use others::{comparison, fleet, link_sides};
pub use plumb_plan::report::document as plan;
pub use set::document as set;

use crate::cli::{CompareArgs, ReportArgs};
use crate::{compare, quality};
use anyhow::{bail, Result};
use find::Subject;
use plumb_analysis::hosts;
use plumb_machine::utc_of;
use plumb_report::document::Document;
use plumb_report::document_files::{is_ours, keep, write_document, write_json, write_page, PAGE};
use plumb_report::{run_directory, upgrade};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Runs the command.
///
/// # Errors
/// A path holds nothing that a report can be made of; the page cannot be written.
pub fn main(args: &ReportArgs) -> Result<ExitCode> {
    let (document, page, code) = match args.paths.as_slice() {
        [a, b] => {
            let words = CompareArgs {
                a: a.clone(),
                b: b.clone(),
                lake: None,
                comm: Vec::new(),
                fail_above: Vec::new(),
                fail_below: Vec::new(),
                json: false,
                report: None,
            };
            let found = compare::read(&words)?;
            let code = found.exit_code();
            let mut document = comparison(&words, &found)?;
            link_sides(&mut document, &found, args.output.as_deref().unwrap_or(Path::new(PAGE)));
            (document, PAGE.into(), code)
        }
        [path] => one(path)?,
        _ => bail!("give one path, or two to compare; plumb report --help shows examples"),
    };
    if let Some(file) = args.output.as_deref().filter(|f| f.is_file() && !args.force && !is_ours(f)) {
        bail!(
            "{}: is there, and is no page of plumb's; choose another name, or replace it with --force",
            file.display()
        );
    }
    if args.json {
        match &args.output {
            Some(file) => write_document(file, &document)?,
            None => write_json(&document, &mut std::io::stdout().lock())?,
        }
        return Ok(code);
    }
    match &args.output {
        Some(file) => write_page(file, &document)?,
        // Beside the page a run directory has its document.
        None if document.kind == "run" && page != Path::new(PAGE) => {
            keep(page.parent().unwrap_or(Path::new(".")), &document)?;
        }
        None => write_page(&page, &document)?,
    }
    let page = args.output.as_ref().unwrap_or(&page);
    eprintln!("report: {}", page.display());
    if args.open {
        open(page);
    }
    Ok(code)
}

/// The document of a run directory or a trace. What was left out of it, and why, goes to stderr.
///
/// # Errors
/// There is neither a trace nor a result.
fn run(dir: &Path) -> Result<Document> {
    run_directory::read(dir, utc_of, &mut |note| eprintln!("plumb: {note}"))
}

/// The document of one path, where its page belongs, and the exit code.
fn one(path: &Path) -> Result<(Document, PathBuf, ExitCode)> {
    let here = PathBuf::from(PAGE);
    let done = ExitCode::SUCCESS;
    Ok(match find::subject(path)? {
        Subject::Run(dir) => {
            let document = run(&dir)?;
            let code = document.run.as_ref().map_or(done, |r| quality::exit_code(&r.quality));
            // What lies in a trace's directory is read as a part of the trace.
            let page = if dir.join("metadata").exists() { here } else { dir.join(PAGE) };
            (document, page, code)
        }
        Subject::Set(dir) => {
            let document = set::read(&dir)?;
            let code = document.run.as_ref().map_or(done, |r| quality::exit_code(&r.quality));
            (document, dir.join(PAGE), code)
        }
        Subject::Hosts(recordings) => {
            let set = hosts::Set::read(&recordings, &[]);
            let code = ExitCode::from(set.exit_code());
            let document = plumb_report::hosts::document(set, utc_of);
            for bad in document.recordings.iter().filter(|r| !r.error.is_empty()) {
                eprintln!("plumb: {}: {}", bad.name, bad.error);
            }
            (document, here, code)
        }
        Subject::Plan(dir) => (plan(&dir)?, dir.join(PAGE), done),
        Subject::Load { file, dir } => (others::load(&file)?, dir.map_or(here, |d| d.join(PAGE)), done),
        Subject::Document(file) => (upgrade::read(&file)?, here, done),
    })
}

/// Shows a page in the browser; where that is not possible, what to open is on stderr already.
fn open(page: &Path) {
    // SAFETY: a call without arguments.
    if unsafe { libc::geteuid() } == 0 {
        eprintln!("plumb: runs as root and starts no browser; open {} in yours", page.display());
        return;
    }
    let begun = Command::new("xdg-open")
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match begun {
        Ok(status) if status.success() => {}
        Ok(_) => eprintln!("plumb: xdg-open found no browser; open {} in one", page.display()),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            eprintln!("plumb: there is no xdg-open here; open {} in a browser", page.display());
        }
        Err(e) => eprintln!("plumb: xdg-open: {e}; open {} in a browser", page.display()),
    }
}
