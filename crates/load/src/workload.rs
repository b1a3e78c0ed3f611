// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be run: the cells of options, of a job file (ours or fio's), or of a preset.

use crate::fio;
use crate::job::{Cell, Given, Job, JobFile};
use crate::preset::Preset;
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// What is to be run.
#[derive(Debug, Default)]
pub struct Workload {
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

impl Workload {
    /// One job of options; `given` are those that the user gave.
    pub fn of_job(job: &Job, given: &Given) -> Workload {
        Workload {
            cells: vec![Cell::of(job.what.to_string(), job.clone())],
            rounds: 1,
            whole_target: !given.has("size"),
            ..Workload::default()
        }
    }

    /// What a job file holds, with `given` over it.
    ///
    /// # Errors
    /// It cannot be read, or says what is not known.
    pub fn of_job_file(path: &Path, given: &Given) -> Result<Workload> {
        let file = JobFile::parse(&read(path)?).with_context(|| path.display().to_string())?;
        Ok(Workload { cells: vec![file.cell], rounds: 1, ..Workload::default() }.with(given))
    }

    /// The same of a job file of fio's.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_fio(path: &Path, given: &Given) -> Result<Workload> {
        let imported = fio::import(&read(path)?).with_context(|| path.display().to_string())?;
        let warning = |lacking: &fio::Unknown| format!("{}, not translated: {lacking}", path.display());
        let workload = Workload {
            warnings: imported.unknown.iter().map(warning).collect(),
            cells: imported.cells,
            target: imported.target,
            rounds: 1,
            ..Workload::default()
        };
        Ok(workload.with(given))
    }

    /// The cells of a preset; `logged`: every operation goes into a log.
    ///
    /// # Errors
    /// An option that the preset sets itself, or it needs a log.
    pub fn of_preset(preset: Preset, given: &Given, logged: bool) -> Result<Workload> {
        let (from, _) = preset.listing().unwrap_or_default();
        if preset.listing().is_some() && !logged {
            bail!(
                "{}: to print writes one by one from {from} on, they must be in a log; give --log FILE",
                preset.name()
            );
        }
        Ok(Workload {
            cells: preset.cells(given)?,
            rounds: preset.rounds().unwrap_or(1),
            preset: Some(preset),
            ..Workload::default()
        })
    }

    fn with(mut self, given: &Given) -> Workload {
        for job in self.jobs_mut() {
            *job = given.over(job);
        }
        self
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
