// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the commands have in common that make a database for a preset.

use super::progress::Progress;
use crate::quality::NOT_VALID;
use anyhow::Result;
use plumb_load::preset::fill::{FillError, Observer};
use plumb_load::session::Observer as _;
use plumb_machine::signals::{self, Calls};
use plumb_trace::units;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the tables with progress on standard error, and says what was made with its notes.
///
/// # Errors
/// One of the tables is there, or the database said no.
pub fn fill<Filled>(
    quiet: bool,
    make: impl FnOnce(&AtomicBool, &Observer<'_>) -> Result<Filled, FillError>,
    notes: impl FnOnce(&Filled) -> &[String],
    say: impl FnOnce(&Filled) -> Result<()>,
) -> Result<ExitCode> {
    signals::catch(Calls::Interrupt);
    let (progress, stop) = (Progress::new(quiet), signals::asked());
    let show = |what: &str, rows: u64, expected: u64| {
        let of = if expected > 0 {
            format!("{} of about {} rows", units::count(rows), units::count(expected))
        } else {
            "...".into()
        };
        progress.show(&format!("{what}: {of}"));
    };
    let filled = make(stop, &show);
    progress.ends();
    match filled {
        Ok(filled) => {
            notes(&filled).iter().for_each(|note| progress.say(&format!("plumb: {note}")));
            say(&filled)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(e) if stop.load(Ordering::Acquire) => {
            eprintln!("plumb: {e}");
            Ok(ExitCode::from(NOT_VALID))
        }
        Err(e) => Err(e.into()),
    }
}
