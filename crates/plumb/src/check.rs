// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb check`: what this machine offers.

use crate::cli::CheckArgs;
use anyhow::Result;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_probe::check::{self, Check, Status};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

#[derive(Serialize)]
struct Checks {
    checks: Vec<Check>,
}

impl Output for Checks {
    const FORMAT: &'static Format = &formats::CHECKS;
}

/// Prints every prerequisite.
///
/// # Errors
/// Standard output is gone.
pub fn main(args: &CheckArgs) -> Result<ExitCode> {
    let all = Checks { checks: check::run() };
    let checks = &all.checks;
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &all)?;
    } else {
        for c in checks {
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
