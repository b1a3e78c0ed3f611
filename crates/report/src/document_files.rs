// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document and its page as files.

use crate::document::Document;
use crate::page;
use anyhow::{bail, Context, Result};
use plumb_machine::{json, output};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// The document, in a run directory.
pub const DOCUMENT: &str = "report.json";
/// The page.
pub const PAGE: &str = "report.html";

/// Writes the document and its page into a run directory.
///
/// # Errors
/// A file cannot be written; named.
pub fn keep(dir: &Path, document: &Document) -> Result<()> {
    write_document(&dir.join(DOCUMENT), document)?;
    write_page(&dir.join(PAGE), document)
}

/// Writes a page.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_page(path: &Path, document: &Document) -> Result<()> {
    write(path, |out| page::write(document, out))
}

/// Whether a file is a page or a document that plumb made, so that another may replace it.
pub fn is_ours(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(1 << 10).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head);
    read.is_ok() && (head.contains("<title>plumb") || head.starts_with("{\"format\":"))
}

/// Writes a document.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_document(path: &Path, document: &Document) -> Result<()> {
    write(path, |out| write_json(document, out))
}

/// Writes a document as JSON.
///
/// # Errors
/// The writer's.
pub fn write_json(document: &Document, out: &mut dyn Write) -> Result<()> {
    Ok(json::write_in_a_line(out, document)?)
}

/// Writes a file under another name first: what is there stays until all of the new one is.
fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let name = || path.display().to_string();
    // A device or a pipe is written to; what a link points to is replaced, not the link.
    if !output::may_follow(path) {
        bail!("{}: is another user's link; choose another name", path.display());
    }
    let place = path.canonicalize().unwrap_or_else(|_| path.into());
    if place.exists() && !place.is_file() {
        let mut out = BufWriter::new(File::create(path).with_context(name)?);
        return content(&mut out).and_then(|()| Ok(out.flush()?)).with_context(name);
    }
    output::replace(&place, content)
}
