// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb check`: what this machine offers.

use crate::cli::CheckArgs;
use anyhow::Result;
use plumb_probe::check::{self, Status};
use std::io::Write;
use std::process::ExitCode;

/// Prints every prerequisite.
///
/// # Errors
/// Standard output is gone.
pub fn main(args: &CheckArgs) -> Result<ExitCode> {
    let checks = check::run();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&checks)?)?;
    } else {
        for c in &checks {
            let word = match c.status {
                Status::Ok => "ok     ",
                Status::Less => "less   ",
                Status::Missing => "MISSING",
            };
            writeln!(out, "{word} {:<16} {}", c.name, c.found)?;
            if c.status != Status::Ok {
                writeln!(out, "        costs: {}\n        mend:  {}", c.cost, c.fix)?;
            }
        }
    }
    if args.json {
        let missing = checks.iter().any(|c| c.status == Status::Missing);
        return Ok(if missing { ExitCode::from(2) } else { ExitCode::SUCCESS });
    }
    let missing = checks.iter().filter(|c| c.status == Status::Missing).count();
    if missing > 0 {
        writeln!(
            out,
            "recording does not work here: {missing} of {} prerequisites are missing",
            checks.len()
        )?;
        return Ok(ExitCode::from(2));
    }
    writeln!(out, "recording works here")?;
    Ok(ExitCode::SUCCESS)
}
