// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb report`: the report document of what a directory holds, and its page.
//!
//! [`find`] says what a path is, [`run`], [`set`] and [`others`] make the document, plumb-report packs the page.

mod find;
mod others;
mod run;
mod set;

pub use others::{comparison, link_sides, plan};
pub use run::{document, Seen};
pub use set::document as set;

use crate::cli::{CompareArgs, ReportArgs};
use crate::export::staged_output::{Kind, StagedOutput};
use crate::{compare, quality};
use anyhow::{bail, Context, Result};
use find::Subject;
use plumb_report::document::Document;
use plumb_report::{page, upgrade};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The document, in a run directory.
pub const DOCUMENT: &str = "report.json";
/// The page.
pub const PAGE: &str = "report.html";

/// Writes the document and its page into a run directory.
///
/// # Errors
/// A file cannot be written; named.
pub fn keep(dir: &Path, document: &Document) -> Result<()> {
    write(&dir.join(DOCUMENT), |out| json(document, out))?;
    write(&dir.join(PAGE), |out| page::write(document, out))
}

/// Writes a page.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_page(path: &Path, document: &Document) -> Result<()> {
    write(path, |out| page::write(document, out))
}

fn json(document: &Document, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    writeln!(out)?;
    Ok(())
}

/// Writes a file under another name first: what is there stays until all of the new one is.
fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let name = || path.display().to_string();
    // A device or a pipe is written to; what a link points to is replaced, not the link.
    let place = path.canonicalize().unwrap_or_else(|_| path.into());
    if place.exists() && !place.is_file() {
        let mut out = BufWriter::new(File::create(path).with_context(name)?);
        return content(&mut out).and_then(|()| Ok(out.flush()?)).with_context(name);
    }
    let beside = StagedOutput::new(&place, Kind::File, true)?;
    let mut out = BufWriter::new(File::create(beside.path()).with_context(name)?);
    content(&mut out).and_then(|()| Ok(out.flush()?)).with_context(name)?;
    beside.rename()
}

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
                comm: Vec::new(),
                fail_above: Vec::new(),
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
    if args.json {
        match &args.output {
            Some(file) => write(file, |out| json(&document, out))?,
            None => json(&document, &mut std::io::stdout().lock())?,
        }
        return Ok(code);
    }
    match &args.output {
        Some(file) => write_page(file, &document)?,
        // StagedOutput the page a run directory has its document.
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

/// The document of one path, where its page belongs, and the exit code.
fn one(path: &Path) -> Result<(Document, PathBuf, ExitCode)> {
    let here = PathBuf::from(PAGE);
    let done = ExitCode::SUCCESS;
    Ok(match find::subject(path)? {
        Subject::Run(dir) => {
            let document = run::read(&dir)?;
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
        Subject::Plan(dir) => (plan(&dir)?, dir.join(PAGE), done),
        Subject::Load { file, dir } => (others::load(&file)?, dir.map_or(here, |d| d.join(PAGE)), done),
        Subject::Document(file) => (upgrade::read(&file)?, here, done),
    })
}

/// Shows a page in the browser; where that is not possible, what to open is on stderr already.
fn open(page: &Path) {
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
