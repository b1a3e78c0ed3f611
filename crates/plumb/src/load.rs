// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load`: from words to figures.
//!
//! Data flows: options -> `plan` (which cells; `words` writes them as a job
//! file) -> `place` (may this be written, is there room; made and removed) ->
//! `session` (rounds x cells x steps; `progress`, `until`) -> `classic` (a
//! preset's tables) -> `show` (with `doubts`), `json`, `csv`. Commands beside a
//! load: `verify`, `log`, `engines`, `clean`.

mod classic;
mod clean;
mod csv;
mod doubts;
mod engines;
mod json;
mod log;
mod place;
mod plan;
mod progress;
mod rounds;
mod session;
mod show;
mod until;
mod verify;
mod words;

pub use until::Until;
pub use words::options;

use crate::cli::{LoadArgs, LoadCommand};
use crate::quality::NOT_VALID;
use crate::signals::asked_on_signal;
use anyhow::{bail, Result};
use classic::Classic;
use plan::Plan;
use plumb_load::suggest::nearest;
use plumb_report::plain::Plain;
use session::Session;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// A sentence that names option or path, and the next step; then nothing was made.
pub fn main(args: &LoadArgs) -> Result<ExitCode> {
    match &args.command {
        Some(LoadCommand::Verify(args)) => verify::main(args),
        Some(LoadCommand::Log(args)) => log::main(args),
        Some(LoadCommand::Engines(args)) => engines::main(args),
        Some(LoadCommand::Clean(args)) => clean::main(args),
        Some(LoadCommand::Preset(command)) => {
            run(Plan::of_preset(command.preset.clone(), &command.options)?, &command.options)
        }
        None => run(Plan::of(&args.options)?, &args.options),
    }
}

/// The cells of a load, looked through for contradictions; None of a command beside a load.
///
/// # Errors
/// A job file that cannot be read, or the first contradiction.
pub(crate) fn cells(args: &LoadArgs) -> Result<Option<Vec<plumb_load::job::Cell>>> {
    let plan = match &args.command {
        None => Plan::of(&args.options)?,
        Some(LoadCommand::Preset(command)) => Plan::of_preset(command.preset.clone(), &command.options)?,
        Some(_) => return Ok(None),
    };
    plan.check()?;
    Ok(Some(plan.cells))
}

/// Runs a plan and shows what came of it.
fn run(mut plan: Plan, options: &crate::cli::LoadOptions) -> Result<ExitCode> {
    let session = &options.session;
    let target = options.target.clone().or_else(|| plan.target.clone()).unwrap_or_else(|| ".".into());
    is_no_command(&target)?;
    for warning in &plan.warnings {
        eprintln!("plumb: {warning}");
    }
    if session.show_job {
        plan.check()?;
        write!(std::io::stdout().lock(), "{}", words::all(&plan.cells))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = asked_on_signal();
    let ready = Session::prepare(&mut plan, &target, session, stop)?;
    ready.announce(&mut Plain(std::io::stdout().lock()))?;
    let Some(outcome) = ready.run()? else {
        eprintln!("plumb: stopped before anything was measured");
        return Ok(ExitCode::from(NOT_VALID));
    };
    let classic =
        plan.preset.as_ref().map(|preset| Classic::of(preset, &plan.cells, &outcome)).transpose()?;
    let mut out = std::io::stdout().lock();
    if session.json {
        json::write(&outcome, classic.as_ref(), &plan.warnings, &mut out)?;
    } else if session.csv {
        csv::write(&outcome, &mut out)?;
    } else {
        show::write(&outcome, classic.as_ref(), &plan.warnings, &mut Plain(&mut out))?;
    }
    out.flush()?;
    if let Some(error) = outcome.error {
        bail!("not all went well, what was measured stands above: {error}");
    }
    Ok(match () {
        () if outcome.cells.iter().any(doubts::found) => ExitCode::from(1),
        () if outcome.interrupted || outcome.cells.iter().any(doubts::invalid) => ExitCode::from(NOT_VALID),
        () => ExitCode::SUCCESS,
    })
}

/// `plumb load --block 8K log` names a file called log, which is not what is meant; nor is `plumb load syncwrit`.
fn is_no_command(target: &Path) -> Result<()> {
    let command = <LoadCommand as clap::Subcommand>::has_subcommand;
    match target.to_str() {
        Some(word) if command(word) && !target.exists() => bail!(
            "'{word}' is a command of plumb load: its options stand behind its name, as in 'plumb load {word} --help'; \
             for a target of that name write ./{word}"
        ),
        Some("help") if !target.exists() => {
            bail!("'help' is no target; 'plumb help load' explains the command, 'plumb help loads' is its manual")
        }
        // What people call a file is no typing error of a preset.
        Some("file") => Ok(()),
        Some(word) if !word.contains('/') && !target.exists() => match nearest(word, &commands()) {
            Some(near) => bail!(
                "'{word}': there is no such target; did you mean 'plumb load {near}'? For a new file of that name \
                 write ./{word}"
            ),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Names of the presets and commands.
fn commands() -> Vec<String> {
    let all = <LoadCommand as clap::Subcommand>::augment_subcommands(clap::Command::new("load"));
    all.get_subcommands().map(|c| c.get_name().to_string()).collect()
}
