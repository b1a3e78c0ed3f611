// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide`: the words of the command line.

use crate::cli::{GuideArgs, GuideCommand};
use anyhow::{Context, Result};
use plumb_plan::guide::{self, options};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// A sentence that names directory, command or setting, and the next step.
pub fn main(args: GuideArgs) -> Result<ExitCode> {
    match args.command {
        Some(GuideCommand::List { json }) => return guide::list(json),
        Some(GuideCommand::Undo { dir, json }) => return guide::undo(&dir, json),
        None => {}
    }
    let keep = (args.keep || args.revert).then_some(args.keep);
    let (quiet, json) = (args.quiet, args.json);
    if let Some(dir) = args.dir {
        return guide::run(&options::Guide { dir, new: None, keep, quiet, json });
    }
    const NEXT: &str = "as in: plumb guide -o DIR --goal 'elapsed -30%' -- COMMAND";
    let new = options::New {
        goal: args.goal.with_context(|| format!("cannot begin a guide: no --goal; {NEXT}"))?,
        may: args.may,
        trials: args.tries,
        steps: args.steps,
        repeat: args.repeat,
        prepare: args.prepare,
        command: Some(args.measured)
            .filter(|c| !c.is_empty())
            .with_context(|| format!("cannot begin a guide: no command; {NEXT}"))?,
    };
    let dir = args.output.with_context(|| format!("cannot begin a guide: no -o DIR; {NEXT}"))?;
    guide::run(&options::Guide { dir, new: Some(new), keep, quiet, json })
}
