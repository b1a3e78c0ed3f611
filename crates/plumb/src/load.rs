// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load`: from words to figures.
//!
//! Data flows: options -> [`Workload`] -> [`Session`] (`progress` shows how far it is) -> `show` (with `doubts`
//! and a `preset`'s tables), JSON or CSV. Commands beside a load: `verify`, `log`, `engines`, `clean`, `dbt3`,
//! `tpcc`.

mod clean;
mod csv;
mod dbt3;
mod doubts;
mod engines;
mod fill;
mod log;
mod preset;
mod progress;
mod recorded;
mod show;
mod tpcc;
mod verify;

use crate::cli::{LoadArgs, LoadCommand, LoadOptions};
use crate::quality::NOT_VALID;
use anyhow::{bail, Result};
use plumb_load::job::text;
use plumb_load::preset::Preset;
use plumb_load::result::CellResult;
use plumb_load::session::{PresetResult, Session};
use plumb_load::workload::Workload;
use plumb_machine::json;
use plumb_machine::signals::{self, Calls};
use plumb_report::plain::Plain;
use plumb_trace::suggest::nearest;
use progress::Progress;
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
        Some(LoadCommand::Dbt3Fill(args)) => dbt3::fill(args),
        Some(LoadCommand::Dbt3Check(args)) => dbt3::check(args),
        Some(LoadCommand::TpccFill(args)) => tpcc::fill(args),
        Some(LoadCommand::Preset(command)) => {
            run(of_preset(&command.preset, &command.options)?, &command.options)
        }
        None => run(of(&args.options)?, &args.options),
    }
}

/// The cells of a load, looked through for contradictions; None of a command beside a load.
///
/// # Errors
/// A job file that cannot be read, or the first contradiction.
pub(crate) fn cells(args: &LoadArgs) -> Result<Option<Vec<plumb_load::job::Cell>>> {
    let workload = match &args.command {
        None => of(&args.options)?,
        Some(LoadCommand::Preset(command)) => of_preset(&command.preset, &command.options)?,
        Some(_) => return Ok(None),
    };
    workload.check()?;
    Ok(Some(workload.cells))
}

fn of(options: &LoadOptions) -> Result<Workload> {
    let (given, session) = (&options.job.given, &options.session);
    match (&session.job_file, &session.fio) {
        (Some(path), _) => Workload::of_job_file(path, given),
        (None, Some(path)) => Workload::of_fio(path, given),
        (None, None) => Ok(Workload::of_job(&options.job.job, given)),
    }
}

fn of_preset(preset: &Preset, options: &LoadOptions) -> Result<Workload> {
    if options.session.job_file.is_some() || options.session.fio.is_some() {
        bail!("{}: a preset has its own jobs; leave out --job and --fio", preset.name());
    }
    Workload::of_preset(preset.clone(), &options.job.given, options.session.log.is_some())
}

/// Runs a workload and shows what came of it.
fn run(mut workload: Workload, options: &LoadOptions) -> Result<ExitCode> {
    let session = &options.session;
    let target = options.target.clone().or_else(|| workload.target.clone()).unwrap_or_else(|| ".".into());
    is_no_command(&target)?;
    for warning in &workload.warnings {
        eprintln!("plumb: {warning}");
    }
    if session.show_job {
        workload.check()?;
        write!(std::io::stdout().lock(), "{}", text::all(&workload.cells))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::catch(Calls::Interrupt);
    let stop = signals::asked();
    if let Some(class) = session.io_class {
        class.take()?;
    }
    let progress = Progress::new(session.quiet);
    let mut asked = session.of_session();
    if workload.jobs().all(|job| job.what.without_files()) {
        if session.rpm.is_some() {
            bail!("--rpm is of a disk, and this load uses none\nhint: leave --rpm out");
        }
    } else {
        asked.turn_ns = asked.turn_ns.or_else(|| recorded::turn_of_served(&target, &asked.also));
    }
    let ready = Session::prepare(&mut workload, &target, &asked, stop, &progress)?;
    if let (Some(preset), false) = (ready.preset(), session.json || session.csv) {
        preset::announce(preset, ready.cells(), &mut Plain(std::io::stdout().lock()))?;
    }
    let Some(outcome) = ready.run()? else {
        eprintln!("plumb: stopped before anything was measured");
        return Ok(ExitCode::from(NOT_VALID));
    };
    let classic = workload
        .preset
        .as_ref()
        .map(|preset| PresetResult::of(preset, &workload.cells, &outcome))
        .transpose()?;
    let mut out = std::io::stdout().lock();
    let arguments: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let document = outcome.document(&arguments, classic.as_ref(), &workload.warnings);
    recorded::leave(&document);
    if session.json {
        json::write(&mut out, &document)?;
    } else if session.csv {
        csv::write(&outcome, &mut out)?;
    } else {
        show::write(&outcome, classic.as_ref(), &workload.warnings, &mut Plain(&mut out))?;
    }
    out.flush()?;
    if let Some(error) = outcome.error {
        bail!("not all went well, what was measured stands above: {error}");
    }
    Ok(match () {
        () if outcome.cells.iter().any(CellResult::damaged) => ExitCode::from(1),
        () if outcome.interrupted || outcome.cells.iter().any(CellResult::invalid) => {
            ExitCode::from(NOT_VALID)
        }
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
