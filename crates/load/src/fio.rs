// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Job files of fio, as jobs of this program: text -> [`parse`] into sections
//! -> [`translate`] each into a job -> steps of one cell, a new one at each
//! stonewall. What has no counterpart here is named with its line, never
//! passed over in silence.
//!
//! Source: fio's HOWTO (fio.readthedocs.io), version 3.

mod option_names;
mod options;
mod parse;
mod translate;
mod units;

#[cfg(test)]
mod tests;

use crate::job::{Bytes, Cell, Layout, Step};
use std::path::PathBuf;

/// A job file, translated.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its jobs: one cell whose steps follow each other.
    pub cells: Vec<Cell>,
    /// Where it works, if it says so: a directory, a file or a device.
    pub target: Option<PathBuf>,
    /// Options that have no counterpart: without them the load is another one.
    pub unknown: Vec<Unknown>,
    /// Options that do not change the load, or are so here anyway.
    pub ignored: Vec<Unknown>,
}

/// An option that was not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its line, from 1.
    pub line: usize,
    /// As it is written there.
    pub option: String,
    /// Why not, as a clause.
    pub why: String,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.option, self.why)
    }
}

/// A job file that cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct FioError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub text: String,
}

/// Translates the text of a job file.
///
/// # Errors
/// The line that is no option or section, has a value that cannot be read, or
/// belongs to a job that cannot run here.
pub fn import(text: &str) -> Result<Imported, FioError> {
    let sections = parse::sections(text)?;
    let mut out = Imported { cells: Vec::new(), target: None, unknown: Vec::new(), ignored: Vec::new() };
    let mut steps: Vec<Step> = Vec::new();
    for section in &sections {
        let mut made = translate::section(section)?;
        if !made.named {
            // As with fio, each job has files of its own.
            made.job.prefix = made.name.replace(['/', '\0'], "-").trim_start_matches('.').to_string();
        }
        made.job
            .check()
            .map_err(|e| FioError { line: section.line, text: format!("[{}]: {e}", section.name) })?;
        for (from, to) in [(made.unknown, &mut out.unknown), (made.ignored, &mut out.ignored)] {
            // What [global] says stands in every job.
            to.extend(from.into_iter().filter(|new| !to.contains(new)).collect::<Vec<_>>());
        }
        aim(&mut out, made.target, section);
        match steps.last_mut() {
            Some(step) if !made.waits => {
                step.label = format!("{} + {}", step.label, made.name);
                step.jobs.push(made.job);
            }
            _ => {
                let again = steps.iter().filter(|s| s.label == made.name).count();
                let label = if again > 0 { format!("{} {}", made.name, again + 1) } else { made.name };
                steps.push(Step { label, jobs: vec![made.job] });
            }
        }
    }
    steps.iter_mut().for_each(share_files);
    let label = match &steps[..] {
        [] => {
            let line = text.lines().count().max(1);
            return Err(FioError {
                line,
                text: "no job: a section like [name] with options is missing".into(),
            });
        }
        [one] => one.label.clone(),
        _ => "fio".into(),
    };
    out.cells.push(Cell { label, steps });
    Ok(out)
}

/// Jobs that run at once on the same files: these are as long as the longest
/// needs, and written where one reads.
fn share_files(step: &mut Step) {
    let before = step.jobs.clone();
    for job in &mut step.jobs {
        let same = || before.iter().filter(|other| other.prefix == job.prefix);
        let size = same().map(|j| j.size).max().unwrap_or_default();
        let read = same().count() > 1 && same().any(|j| j.what.reads());
        if job.size < size {
            job.range = Some(Bytes(job.span()));
            job.size = size;
        }
        if read {
            job.layout = Layout::Overwrite;
        }
    }
}

/// There is one target; a job that has another one is named.
fn aim(out: &mut Imported, target: Option<(PathBuf, usize)>, section: &parse::Section) {
    match (&out.target, target) {
        (_, None) => {}
        (None, Some((path, _))) => out.target = Some(path),
        (Some(first), Some((path, _))) if *first == path => {}
        (Some(first), Some((path, line))) => out.unknown.push(Unknown {
            line,
            option: path.display().to_string(),
            why: format!(
                "all jobs work in one place here; [{}] works on {} as well",
                section.name,
                first.display()
            ),
        }),
    }
}
