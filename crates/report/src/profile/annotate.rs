// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's instructions with the time at each: `plumb profile DIR --annotate FUNC`.

mod show;
mod source;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use plumb_analysis::instructions::histogram;
use plumb_machine::json;
use plumb_model::profile::Profile;
use std::io::Write;
use std::path::PathBuf;

/// How a function is shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Every instruction; else only those near the time.
    pub all: bool,
    /// A directory in which to look for source files too.
    pub source: Option<PathBuf>,
    pub json: bool,
    /// Whose code it is, as Rust calls it: `x86_64`.
    pub machine: String,
}

/// Prints the instructions of a function: its exact name, a part of it, or `MODULE!NAME`.
///
/// # Errors
/// No function has that name or none of its samples; the writer's.
pub fn annotate(profile: &Profile, function: &str, options: &Options, out: &mut dyn Write) -> Result<()> {
    let found = histogram::find(profile, function)?;
    let listing = show::Listing::new(profile, &found, options)
        .with_context(|| format!("{function}: the profile has no row of its function"))?;
    if options.json {
        return Ok(json::write(out, &listing)?);
    }
    listing.write(options.all, out)
}
