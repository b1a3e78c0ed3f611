// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a run directory.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Write};
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

/// Writes a value as indented JSON.
///
/// # Errors
/// The file cannot be written; named.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    serde_json::to_writer_pretty(&mut file, value)
        .and_then(|()| file.write_all(b"\n").map_err(serde_json::Error::io))
        .with_context(|| path.display().to_string())
}
