// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load clean`: what killed runs left behind.

use crate::cli::CleanArgs;
use anyhow::{bail, Result};
use plumb_load::guard::Claim;
use plumb_report::plain::Plain;
use plumb_trace::units;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

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
        let mut rows = Vec::new();
        for one in &left {
            if args.yes {
                one.remove()?;
            }
            rows.push(json!({"dir": one.dir, "files": one.files, "bytes": one.size, "made": one.made,
                "removed": args.yes}));
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
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
