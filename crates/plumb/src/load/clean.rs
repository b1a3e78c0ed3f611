// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load clean`: what killed runs left behind.

use crate::cli::CleanArgs;
use anyhow::{bail, Result};
use plumb_load::guard::Claim;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::plain::Plain;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

#[derive(Serialize)]
struct Leftovers<'a> {
    leftovers: Vec<Leftover<'a>>,
}

impl Output for Leftovers<'_> {
    const FORMAT: &'static Format = &formats::LOAD_CLEAN;
}

/// What a load that was killed left.
#[derive(Serialize)]
struct Leftover<'a> {
    dir: &'a Path,
    files: u64,
    /// What they take on the disk.
    bytes: u64,
    /// When the load made it, UTC; null where nothing tells.
    made: Option<&'a str>,
    removed: bool,
}

/// Runs the command.
///
/// # Errors
/// No directory, or something cannot be removed.
pub fn main(args: &CleanArgs) -> Result<ExitCode> {
    if !args.dir.is_dir() {
        bail!("{}: is not a directory; name the one that the loads worked in", args.dir.display());
    }
    let mut out = std::io::stdout().lock();
    let left = Claim::leftovers(&args.dir);
    if args.json {
        let mut leftovers = Vec::new();
        for one in &left {
            if args.yes {
                one.remove()?;
            }
            leftovers.push(Leftover {
                dir: &one.dir,
                files: one.files,
                bytes: one.size,
                made: one.made.as_deref(),
                removed: args.yes,
            });
        }
        json::write(&mut out, &Leftovers { leftovers })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = Plain(out);
    if left.is_empty() {
        writeln!(out, "{}: nothing was left behind.", args.dir.display())?;
    }
    for one in &left {
        let what = format!(
            "{}: {} files, {}, of a run of {} that ended",
            one.dir.display(),
            units::count(one.files),
            units::bytes(one.size),
            one.made.as_deref().unwrap_or("an unknown time")
        );
        if args.yes {
            one.remove()?;
            writeln!(out, "removed {what}")?;
        } else {
            writeln!(out, "{what}")?;
        }
    }
    if !args.yes && !left.is_empty() {
        writeln!(out, "--yes removes {}.", if left.len() == 1 { "it" } else { "them" })?;
    }
    Ok(ExitCode::SUCCESS)
}
