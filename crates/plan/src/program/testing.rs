// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program for tests: jobs and presets are parsed as the real one does.

use super::Program;
use anyhow::{anyhow, bail, Result};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use plumb_load::job::{Cell, Given, Job};
use plumb_load::preset::Preset;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Line {
    target: Option<PathBuf>,
    #[command(flatten)]
    job: Job,
    #[arg(long, value_enum)]
    io_class: Option<plumb_load::io_class::IoClass>,
}

fn command() -> clap::Command {
    let presets = Preset::augment_subcommands(clap::Command::new("presets"));
    let with_options = |preset: clap::Command| {
        Job::augment_args(preset).arg(clap::Arg::new("target").value_parser(clap::value_parser!(PathBuf)))
    };
    Line::command().subcommands(presets.get_subcommands().cloned().map(with_options))
}

fn sentence(e: &clap::Error) -> anyhow::Error {
    let said = e.to_string();
    let lines = said.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:"));
    anyhow!("load: {}", lines.filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; "))
}

#[derive(Debug)]
pub(crate) struct TestProgram;

impl Program for TestProgram {
    fn load_cells(&self, words: Vec<OsString>) -> Result<Vec<Cell>> {
        let matches = command().try_get_matches_from(words.into_iter().skip(1)).map_err(|e| sentence(&e))?;
        let cells = match matches.subcommand() {
            Some((_, behind)) => {
                let preset = Preset::from_arg_matches(&matches)?;
                let job = Job::from_arg_matches(behind)?;
                let stood = |key: &str| {
                    behind.value_source(&key.replace('-', "_"))
                        == Some(clap::parser::ValueSource::CommandLine)
                };
                preset.cells(&Given::of(&job, stood))?
            }
            None => {
                let job = Job::from_arg_matches(&matches)?;
                vec![Cell::of(job.what.to_string(), job)]
            }
        };
        for job in cells.iter().flat_map(|c| &c.steps).flat_map(|s| &s.jobs) {
            job.check().map_err(|e| anyhow!("load: {e:#}"))?;
        }
        Ok(cells)
    }

    fn presets(&self) -> Vec<String> {
        let all = Preset::augment_subcommands(clap::Command::new("presets"));
        all.get_subcommands().map(|c| c.get_name().to_string()).collect()
    }

    fn has_option(&self, preset: Option<&str>, key: &str) -> bool {
        let all = command();
        let of = preset.and_then(|p| all.find_subcommand(p)).unwrap_or(&all);
        let mut options = of.get_arguments().filter_map(|a| a.get_long());
        options.any(|long| long == key)
    }

    fn check_run(&self, words: Vec<OsString>) -> Result<()> {
        match words.iter().find(|w| w.to_string_lossy().starts_with("--ev") && *w != "--events") {
            Some(unknown) => bail!("record: unexpected argument '{}'", unknown.to_string_lossy()),
            None => Ok(()),
        }
    }

    fn write_page(&self, dir: &Path) -> Result<PathBuf> {
        Ok(dir.join("report.html"))
    }
}
