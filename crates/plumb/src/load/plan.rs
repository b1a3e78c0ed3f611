// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cells a load has: of the options, a job file, or a job file of fio.

use crate::cli::LoadOptions;
use anyhow::{Context, Result};
use plumb_load::job::{Cell, Job, JobFile};
use std::path::Path;

/// What is to be run.
#[derive(Debug)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// Rounds, when the user does not say.
    pub rounds: u32,
    /// Nobody said how large the target is: a file or device that is there counts whole.
    pub whole_target: bool,
}

impl Plan {
    /// The plan of a load without a preset.
    ///
    /// # Errors
    /// The job file cannot be read, or says what is not known.
    pub fn of(options: &LoadOptions) -> Result<Plan> {
        let given = &options.job.given;
        let whole_target = !given.has("size");
        let mut plan = Plan { cells: Vec::new(), rounds: 1, whole_target };
        if let Some(path) = &options.session.job_file {
            let file = JobFile::parse(&read(path)?).with_context(|| path.display().to_string())?;
            plan.cells = vec![file.cell];
            plan.whole_target = false;
        } else {
            plan.cells = vec![Cell::of(options.job.job.what.to_string(), options.job.job.clone())];
            return Ok(plan);
        }
        for job in plan.jobs_mut() {
            *job = given.over(job);
        }
        Ok(plan)
    }

    /// All jobs.
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
