// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's instructions with the time at each: `plumb profile DIR --annotate FUNC`.

mod disassembly;
mod histogram;
mod sheet;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod words;

use crate::cli::ProfileArgs;
use anyhow::{Context, Result};
use plumb_model::profile::Profile;
use plumb_model::{Category, HotRow};
use plumb_trace::ctf::Metadata;
use std::io::Write;
use std::path::{Path, PathBuf};

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

/// Prints the instructions of the function `args.annotate`; as JSON with `args.json`.
///
/// # Errors
/// No function has that name or none of its samples; the writer's.
pub fn main(profile: &Profile, args: &ProfileArgs, out: &mut dyn Write) -> Result<()> {
    let options = Options {
        all: args.all,
        source: args.source.clone(),
        json: args.json,
        machine: machine(&args.dir).unwrap_or_else(|| std::env::consts::ARCH.into()),
    };
    annotate(profile, args.annotate.as_deref().unwrap_or_default(), &options, out)
}

/// The architecture that a trace was recorded on.
fn machine(dir: &Path) -> Option<String> {
    let text = [dir.join("metadata"), dir.join("trace/metadata")];
    let text = text.iter().find_map(|path| std::fs::read(path).ok())?;
    Metadata::decode(&String::from_utf8_lossy(&text)).ok()?.env.get("machine").cloned()
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
        writeln!(out, "{}", serde_json::to_string_pretty(&listing)?)?;
        return Ok(());
    }
    listing.write(options.all, out)
}

/// Tells of each function that ran which of its instructions, or which loop, had most of it; of
/// those whose code the trace holds. `machine`: whose code it is, as Rust calls it.
pub fn instructions(profile: &Profile, machine: &str, rows: &mut [HotRow]) {
    for row in rows.iter_mut().filter(|r| r.category == Category::Running.name()) {
        let named = words::Named { function: &row.function, module: &row.module, origin: row.origin };
        row.instruction = words::hot_words(profile, machine, named);
    }
}
