// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan`: the words of the command line, and what plans ask of this program.

use crate::cli::{
    Cli, Command, PlanArgs, PlanCommand, PlanReportArgs, PlanRunArgs, PlanShowArgs, PresetCommand,
};
use crate::{load, record, report, run};
use anyhow::{anyhow, bail, Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use plumb_load::job::Cell;
use plumb_plan::options;
use plumb_plan::program::Program;
use plumb_report::document_files::{write_page, PAGE};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// A sentence that names plan, factor, level or path, and the next step.
pub fn main(args: &PlanArgs) -> Result<ExitCode> {
    match &args.command {
        PlanCommand::Run(args) => plumb_plan::run::main(&to_run(args), &ThisProgram),
        PlanCommand::Show(PlanShowArgs { plan, changes, json }) => {
            let options = options::Show { plan: plan.clone(), changes: changes.into(), json: *json };
            plumb_plan::show::main(&options, &ThisProgram)
        }
        PlanCommand::List(args) => plumb_plan::library::main(args.json, &ThisProgram),
        PlanCommand::Report(PlanReportArgs { dir, figure, json, csv }) => {
            let (dir, figure) = (dir.clone(), figure.clone());
            plumb_plan::report::main(&options::Report { dir, figure, json: *json, csv: *csv })
        }
        PlanCommand::Compare(args) => plumb_plan::compare::main(&options::Compare {
            a: args.a.clone(),
            b: args.b.clone(),
            figure: args.figure.clone(),
            json: args.json,
        }),
        PlanCommand::Restore(args) => {
            plumb_plan::restore::main(&args.dir, plumb_plan::own_devices::PLAN, args.json, || Ok(()))
        }
    }
}

fn to_run(args: &PlanRunArgs) -> options::Run {
    options::Run {
        plan: args.plan.clone(),
        output: args.output.clone(),
        stamp: run::stamp(),
        changes: (&args.changes).into(),
        destroy: args.destroy.clone(),
        again: args.again.clone(),
        quiet: args.quiet,
        json: args.json,
    }
}

#[derive(Debug)]
struct ThisProgram;

impl Program for ThisProgram {
    fn load_cells(&self, words: Vec<OsString>) -> Result<Vec<Cell>> {
        match parse(words).map_err(|said| anyhow!("load: {said}"))? {
            Command::Load(args) => {
                load::cells(&args).context("load")?.context("load: is not a load but a concurrent command")
            }
            _ => bail!("load: is no load"),
        }
    }

    fn presets(&self) -> Vec<String> {
        let all = PresetCommand::augment_subcommands(clap::Command::new("presets"));
        all.get_subcommands().map(|c| c.get_name().to_string()).collect()
    }

    fn has_option(&self, preset: Option<&str>, key: &str) -> bool {
        let cli = Cli::command();
        let Some(mut command) = cli.find_subcommand("load") else { return false };
        if let Some(preset) = preset.and_then(|p| command.find_subcommand(p)) {
            command = preset;
        }
        let mut options = command.get_arguments().filter_map(|a| a.get_long());
        options.any(|long| long == key)
    }

    fn check_run(&self, words: Vec<OsString>) -> Result<()> {
        let mut args = match parse(words).map_err(|said| anyhow!("record: {said}"))? {
            Command::Run(args) => args,
            _ => bail!("record: is no option of plumb run"),
        };
        // A device of another machine is no mistake of the plan's.
        args.what.device.clear();
        record::options(&args.what, Path::new("/out")).context("record")?;
        Ok(())
    }

    fn write_page(&self, dir: &Path) -> Result<PathBuf> {
        // Named apart: a plan's report.json is its own.
        let page = dir.join(PAGE);
        write_page(&page, &report::plan(dir)?)?;
        Ok(page)
    }
}

fn parse(words: Vec<OsString>) -> Result<Command, String> {
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|e| sentence(&e.to_string()))
}

/// What clap says, on one line and without its advice on how to call the program.
fn sentence(said: &str) -> String {
    let lines = said.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:"));
    let lines = lines.filter(|l| !l.is_empty() && !l.contains("to pass '") && !l.starts_with("For more"));
    let lines = lines.map(|l| l.trim_start_matches("error: ").trim_start_matches("tip: "));
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
