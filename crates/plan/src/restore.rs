// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan restore`, `plumb guide undo`: puts back what a run left changed.

use anyhow::{bail, Result};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_undo::change::Held;
use plumb_undo::guardian::Whose;
use plumb_undo::journal::{restore, JOURNAL};
use plumb_undo::lock::Locks;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

#[derive(Serialize)]
struct Restored<'a> {
    /// Nothing is left changed.
    whole: bool,
    /// What was put back, a sentence each.
    done: &'a [String],
}

impl Output for Restored<'_> {
    const FORMAT: &'static Format = &formats::RESTORE;
}

/// Puts back what the journal in a directory says, of runs of this kind; `then` is done before another may run there.
///
/// # Errors
/// No such run was there, it still goes on, or something cannot be put back.
pub fn main(dir: &Path, whose: Whose, as_json: bool, then: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
    let (shown, command) = (dir.display(), whose.restore);
    if !dir.join(JOURNAL).exists() {
        bail!("cannot restore {shown}: no {JOURNAL} there, so nothing was changed from there; name the directory of a run, as in '{command} DIR'");
    }
    let mut locks = Locks::default();
    locks.run(dir)?;
    let mut said = Vec::new();
    let whole = restore(dir, Held::NotSince, whose.devices, &mut |line| {
        said.push(line.to_string());
        if !as_json {
            println!("{line}");
        }
    })?;
    if as_json {
        json::write(std::io::stdout(), &Restored { whole, done: &said })?;
    }
    if !whole {
        bail!("cannot put all back, see above; mend it and call '{command} {shown}' again");
    }
    then()?;
    if said.is_empty() && !as_json {
        println!("nothing was left changed");
    }
    Ok(ExitCode::SUCCESS)
}
