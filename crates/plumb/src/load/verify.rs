// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load verify`: is what was acknowledged there?

use crate::cli::VerifyArgs;
use crate::quality::NOT_VALID;
use anyhow::Result;
use plumb_load::log::LogReader;
use plumb_load::verify::{verify_promise, verify_stamps, Promise, Verification, VerifyError, LISTED};
use plumb_machine::json;
use plumb_report::plain::Plain;
use plumb_trace::units;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// The log or the data cannot be read, or the log has no stamped writes.
pub fn main(args: &VerifyArgs) -> Result<ExitCode> {
    let promise = if args.acknowledged { Promise::Acknowledged } else { Promise::Durable };
    let seen = match args.stamps {
        true => verify_stamps(&args.log)?,
        false => match verify_promise(LogReader::open(&args.log)?, args.target.as_deref(), promise) {
            Err(nothing @ VerifyError::NotStamped { .. }) => {
                eprintln!("plumb: {nothing}");
                return Ok(ExitCode::from(NOT_VALID));
            }
            seen => seen?,
        },
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &seen)?;
    } else {
        show(&seen, &mut Plain(&mut out))?;
    }
    Ok(match () {
        () if seen.sound() => ExitCode::SUCCESS,
        () if seen.blocks == 0 => ExitCode::from(NOT_VALID),
        () => ExitCode::from(1),
    })
}

fn show(seen: &Verification, out: &mut dyn Write) -> std::io::Result<()> {
    let faults = seen.blocks - seen.ok - seen.torn_under_way;
    let verdict = match (seen.blocks, faults) {
        (0, _) => "NOTHING TO VERIFY: no block was judged".to_string(),
        (_, 0) => "all there".to_string(),
        (_, n) => format!("NOT ALL THERE: {} blocks are not what they must be", units::count(n)),
    };
    writeln!(out, "{verdict}.")?;
    writeln!(
        out,
        "{} blocks, of {} a write was promised: {} as they must or may be, {} torn by a write under way, {} missing, \
         {} torn, {} corrupt, {} misplaced, {} unreadable.",
        units::count(seen.blocks),
        units::count(seen.promised),
        units::count(seen.ok),
        units::count(seen.torn_under_way),
        units::count(seen.missing),
        units::count(seen.torn),
        units::count(seen.corrupt),
        units::count(seen.misplaced),
        units::count(seen.unreadable)
    )?;
    for f in &seen.faults {
        let kind = format!("{:?}", f.kind).to_lowercase();
        let expected = f.expected.map_or_else(String::new, |g| format!(", generation {g} was promised"));
        writeln!(
            out,
            "  {kind}: {} at {} ({} bytes): {}{expected}",
            f.path.display(),
            f.offset,
            f.length,
            f.found
        )?;
    }
    if faults > LISTED as u64 {
        writeln!(out, "  and {} more", units::count(faults - seen.faults.len() as u64))?;
    }
    for note in &seen.notes {
        writeln!(out, "Note: {note}")?;
    }
    Ok(())
}
