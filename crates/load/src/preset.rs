// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classic measurements by name: each makes cells of jobs, and tables of what
//! came of them in the words of the tool or paper that it comes from.
//!
//! options and what was [`Given`] -> [`Preset::cells`] -> runs ->
//! [`Preset::figures`]. One file a preset; [`figures`] has what their tables
//! share.

mod chat;
mod create;
pub mod dbt3;
mod figures;
mod fileio;
mod files;
pub mod fill;
mod meta;
mod network;
mod parameters;
mod readers;
mod stream;
mod syncwrite;
#[cfg(test)]
pub(crate) mod testing;
mod threads;
pub mod tpcc;
mod web;

pub use chat::ChatArgs;
pub use create::{CreateArgs, Growth};
pub use dbt3::Dbt3Args;
pub use fileio::{FileioArgs, Mode};
pub use files::{FilesArgs, Paper, Test, Workers};
pub use meta::MetaArgs;
pub use parameters::ran;
pub use readers::ReadersArgs;
pub use stream::StreamArgs;
pub use syncwrite::{Method, SyncwriteArgs, Target, Walk};
pub use threads::ThreadsArgs;
pub use tpcc::TpccArgs;
pub use web::WebArgs;

use crate::job::{Cell, Given, JobError};
use crate::log::Row;
use crate::result::{CellResult, Table};
use clap::Subcommand;

/// A classic measurement.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Preset {
    /// Writes that must last, by every method and order (diskio)
    Syncwrite(SyncwriteArgs),
    /// Thirteen ways to read and write a file (Iozone)
    Files(FilesArgs),
    /// One large file: characters, blocks, seeks (Bonnie++)
    Stream(StreamArgs),
    /// Many files: create, stat, delete (Bonnie++)
    Meta(MetaArgs),
    /// One-byte files in one directory, and how each takes longer than the one before
    Create(CreateArgs),
    /// Files read one after the other and all at once
    Readers(ReadersArgs),
    /// Threads that count under a lock
    Threads(ThreadsArgs),
    /// Files read and written in six modes (SysBench fileio)
    Fileio(FileioArgs),
    /// A web server under connections that stay open (httperf)
    Web(WebArgs),
    /// A chat server: a message goes to all of its room (VolanoMark)
    Chat(ChatArgs),
    /// 22 queries to a database, derived from TPC-H (DBT-3)
    Dbt3(Dbt3Args),
    /// Order entry in a database: five transactions in a mix, derived from TPC-C
    Tpcc(TpccArgs),
}

/// What every preset can say.
trait Classic {
    /// Its jobs, with what was given over its own values.
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError>;

    /// Its tables.
    fn figures(&self, cells: &[CellResult], ticks_per_ns: Option<f64>) -> Vec<Table>;

    /// Its tables where a turn of the disk takes `turn_ns`.
    fn figures_in_turns(&self, cells: &[CellResult], ticks_per_ns: Option<f64>, _turn_ns: u64) -> Vec<Table> {
        self.figures(cells, ticks_per_ns)
    }

    /// How often it runs unless asked otherwise.
    fn rounds(&self) -> Option<u32> {
        None
    }

    /// The operations to print one by one, first and last.
    fn listing(&self) -> Option<(u64, u64)> {
        None
    }

    /// A table of one step's log.
    fn figures_of_log(&self, _label: &str, _rows: &mut dyn Iterator<Item = Row>) -> Option<Table> {
        None
    }
}

impl Preset {
    fn classic(&self) -> &dyn Classic {
        match self {
            Preset::Syncwrite(args) => args,
            Preset::Files(args) => args,
            Preset::Stream(args) => args,
            Preset::Meta(args) => args,
            Preset::Create(args) => args,
            Preset::Readers(args) => args,
            Preset::Threads(args) => args,
            Preset::Fileio(args) => args,
            Preset::Web(args) => args,
            Preset::Chat(args) => args,
            Preset::Dbt3(args) => args,
            Preset::Tpcc(args) => args,
        }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Preset::Syncwrite(_) => "syncwrite",
            Preset::Files(_) => "files",
            Preset::Stream(_) => "stream",
            Preset::Meta(_) => "meta",
            Preset::Create(_) => "create",
            Preset::Readers(_) => "readers",
            Preset::Threads(_) => "threads",
            Preset::Fileio(_) => "fileio",
            Preset::Web(_) => "web",
            Preset::Chat(_) => "chat",
            Preset::Dbt3(_) => "dbt3",
            Preset::Tpcc(_) => "tpcc",
        }
    }

    /// Its jobs: its own values, over them what was given.
    ///
    /// # Errors
    /// An option was given that the preset itself varies (the sentence names
    /// the preset's own option), or a job cannot be ([`crate::job::Job::check`]).
    pub fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let cells = self.classic().cells(given)?;
        for cell in &cells {
            for step in &cell.steps {
                for job in &step.jobs {
                    job.check().map_err(|e| JobError(format!("{}, {}: {e}", self.name(), step.label)))?;
                }
            }
        }
        Ok(cells)
    }

    /// The measurement's tables: medians over rounds, with the number of
    /// rounds and their spread in a note. `ticks_per_ns` is the rate of the
    /// clock's counter where the clock is one, for figures in CPU ticks.
    pub fn figures(&self, cells: &[CellResult], ticks_per_ns: Option<f64>) -> Vec<Table> {
        self.classic().figures(cells, ticks_per_ns)
    }

    /// The same where a turn of the disk takes `turn_ns`.
    pub fn figures_in_turns(
        &self,
        cells: &[CellResult],
        ticks_per_ns: Option<f64>,
        turn_ns: u64,
    ) -> Vec<Table> {
        self.classic().figures_in_turns(cells, ticks_per_ns, turn_ns)
    }

    /// What the jobs are told, by key, as text: to print before and after a
    /// run (then of [`ran`]'s cells). A difference means that the results must
    /// not be trusted.
    ///
    /// Source: diskio 2.0 prints its parameters twice for this reason.
    pub fn parameters(&self, cells: &[Cell]) -> Vec<(String, String)> {
        parameters::of(cells)
    }

    /// How many rounds it runs unless asked otherwise; `None` leaves it to the caller.
    pub fn rounds(&self) -> Option<u32> {
        self.classic().rounds()
    }

    /// The operations of each step that are to be printed one by one, from the
    /// log: numbers of the first and the last, from 0.
    pub fn listing(&self) -> Option<(u64, u64)> {
        self.classic().listing()
    }

    /// What only the log of a step can tell, when there is one.
    pub fn figures_of_log(&self, label: &str, rows: &mut dyn Iterator<Item = Row>) -> Option<Table> {
        self.classic().figures_of_log(label, rows)
    }
}

/// Refuses what was given and the preset varies: (key, the preset's own option).
fn refuse(given: &Given, varied: &[(&str, &str)]) -> Result<(), JobError> {
    match varied.iter().find(|(key, _)| given.has(key)) {
        None => Ok(()),
        Some((key, instead)) => Err(JobError(format!("--{key}: this measurement sets it itself; {instead}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::parse;
    use super::*;
    use crate::job::Job;

    #[test]
    fn every_preset_has_jobs_that_can_be() {
        for name in
            ["syncwrite", "files", "stream", "meta", "create", "readers", "threads", "fileio", "web", "chat"]
        {
            let preset = parse(&[name]);
            assert_eq!(preset.name(), name);
            let cells = preset.cells(&Given::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!cells.is_empty(), "{name}");
            let labels: std::collections::HashSet<_> = cells.iter().map(|c| &c.label).collect();
            assert_eq!(labels.len(), cells.len(), "{name}: a label twice");
            assert!(cells.iter().all(|c| !c.steps.is_empty() && c.steps.iter().all(|s| !s.jobs.is_empty())));
        }
    }

    #[test]
    fn tables_of_nothing_are_no_panic() {
        for name in [
            "syncwrite",
            "files",
            "stream",
            "meta",
            "create",
            "readers",
            "threads",
            "fileio",
            "web",
            "chat",
            "dbt3",
            "tpcc",
        ] {
            for table in parse(&[name]).figures(&[], None) {
                assert!(table.rows.iter().all(|r| r.is_empty() || r.len() == table.head.len()), "{name}");
            }
        }
    }

    #[test]
    fn what_a_preset_varies_is_refused_by_name() {
        let job = Job::default();
        let given = Given::of(&job, |key| key == "sync");
        let said = parse(&["syncwrite"]).cells(&given).expect_err("it varies --sync").0;
        assert!(said.contains("--sync") && said.contains("--methods"), "{said}");
    }

    #[test]
    fn options_of_a_preset_are_no_options_of_a_job() {
        use clap::{Args, CommandFactory};
        let job = Job::augment_args(clap::Command::new("job"));
        let of_job: Vec<_> = job.get_arguments().map(|a| (a.get_id().clone(), a.get_long())).collect();
        let mut line = testing::Line::command();
        line.build();
        for preset in line.get_subcommands() {
            for own in preset.get_arguments() {
                let clash = of_job.iter().find(|(id, long)| id == own.get_id() || *long == own.get_long());
                assert_eq!(clash, None, "{}: {:?}", preset.get_name(), own.get_long());
            }
        }
    }

    #[test]
    fn help_of_every_preset_names_its_source() {
        use clap::CommandFactory;
        for command in testing::Line::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Source:"), "{} has no source", command.get_name());
            assert!(help.contains("Examples:"), "{} has no example", command.get_name());
        }
    }
}
