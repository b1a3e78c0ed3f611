// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a run directory.

use anyhow::{Context, Result};
use plumb_machine::json::{self, Output};
use plumb_machine::output;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The chain of evidence.
pub const CHAIN: &str = "chain.txt";

/// Reads a value of a file of JSON.
///
/// # Errors
/// It cannot be read, or holds another thing; named.
pub fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    serde_json::from_reader(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Writes a document for programs.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_document(path: &Path, document: &impl Output) -> Result<()> {
    output::replace(path, |out| Ok(json::write(out, document)?))
}

/// Writes a value of our own, which nobody else reads, as indented JSON.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    output::replace(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        Ok(out.write_all(b"\n")?)
    })
}
