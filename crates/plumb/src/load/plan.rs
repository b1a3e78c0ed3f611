// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cells a load has: of the options, a job file (ours or fio's), or a preset.

use crate::cli::LoadOptions;
use anyhow::{bail, Context, Result};
use plumb_load::fio;
use plumb_load::job::{Cell, Job, JobFile};
use plumb_load::preset::Preset;
use std::path::{Path, PathBuf};

/// What is to be run.
#[derive(Debug, Default)]
pub struct Plan {
    pub cells: Vec<Cell>,
    /// Rounds, when the user does not say.
    pub rounds: u32,
    /// Nobody said how large the target is: a file or device that is there counts whole.
    pub whole_target: bool,
    /// The preset that made the cells; it has tables of its own.
    pub preset: Option<Preset>,
    /// Where it works, if the job file says so and the command line does not.
    pub target: Option<PathBuf>,
    /// What of a job file of fio could not be translated: the load is another one.
    pub warnings: Vec<String>,
}

impl Plan {
    /// The plan of a load without a preset.
    ///
    /// # Errors
    /// The job file cannot be read, or says what is not known.
    pub fn of(options: &LoadOptions) -> Result<Plan> {
        let given = &options.job.given;
        let mut plan = Plan { rounds: 1, ..Plan::default() };
        let session = &options.session;
        if let Some(path) = &session.job_file {
            let file = JobFile::parse(&read(path)?).with_context(|| path.display().to_string())?;
            plan.cells = vec![file.cell];
        } else if let Some(path) = &session.fio {
            let imported = fio::import(&read(path)?).with_context(|| path.display().to_string())?;
            let warning = |lacking: &fio::Unknown| format!("{}, not translated: {lacking}", path.display());
            plan.warnings = imported.unknown.iter().map(warning).collect();
            (plan.cells, plan.target) = (imported.cells, imported.target);
        } else {
            plan.cells = vec![Cell::of(options.job.job.what.to_string(), options.job.job.clone())];
            plan.whole_target = !given.has("size");
            return Ok(plan);
        }
        for job in plan.jobs_mut() {
            *job = given.over(job);
        }
        Ok(plan)
    }

    /// The plan of a preset.
    ///
    /// # Errors
    /// A job file beside it, or an option that the preset sets itself.
    pub fn of_preset(preset: Preset, options: &LoadOptions) -> Result<Plan> {
        if options.session.job_file.is_some() || options.session.fio.is_some() {
            bail!("{}: a preset has its own jobs; leave out --job and --fio", preset.name());
        }
        let (from, _) = preset.listing().unwrap_or_default();
        if preset.listing().is_some() && options.session.log.is_none() {
            bail!(
                "{}: to print writes one by one from {from} on, they must be in a log; give --log FILE",
                preset.name()
            );
        }
        Ok(Plan {
            cells: preset.cells(&options.job.given)?,
            rounds: preset.rounds().unwrap_or(1),
            preset: Some(preset),
            ..Plan::default()
        })
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.cells.iter().flat_map(|c| &c.steps).flat_map(|s| &s.jobs)
    }

    /// All jobs, to change.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.cells.iter_mut().flat_map(|c| &mut c.steps).flat_map(|s| &mut s.jobs)
    }

    /// Looks for contradictions in every job.
    ///
    /// # Errors
    /// The first one, with its cell and step where there are several.
    pub fn check(&self) -> Result<()> {
        let several = self.jobs().nth(1).is_some();
        for cell in &self.cells {
            for step in &cell.steps {
                for job in &step.jobs {
                    let checked = job.check();
                    match several {
                        true => checked.with_context(|| format!("{}, {}", cell.label, step.label))?,
                        false => checked?,
                    }
                }
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("job file {}", path.display()))
}
