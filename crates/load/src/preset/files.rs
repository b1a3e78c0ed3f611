// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Iozone's tests of one file: each reads or writes all of it in another way,
//! and finds it as the test before left it.

mod tables;

use super::{refuse, Classic};
use crate::job::{Bytes, Cell, Given, Job, JobError, Layout, Order, Step, SyncMethod, Through, Timed, What};
use crate::result::{CellResult, Table};
use clap::{Args, ValueEnum};

const AFTER_HELP: &str = "\
Examples:
  plumb load files --size 256M --block 64K -i 0,1,2
  plumb load files --auto --max-size 64M
  plumb load files --throughput 4 --as threads --size 1G -i 0 -e -c
  plumb load files --through mmap -i write,read

Source: Iozone (iozone.org), whose numbers --tests also takes. --paper limit: \"OSS performance and reliability \
evaluation: OS layer\" (Japan OSS Promotion Forum, 2004), initial write of 8 GiB by 1 to 4 workers; its three \
patterns of several commands are the same as processes here. --paper comware: \"What kernel 2.6 can do\" \
(NTT Comware), 12 processes of 4 GiB. --size scales both.";

/// Options of files.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct FilesArgs {
    /// Tests, by name or Iozone's number [default: 0 to 8]
    #[arg(short = 'i', long, value_enum, value_delimiter = ',', value_name = "TEST")]
    pub tests: Vec<Test>,
    /// Every file size from 64K to --max-size with every record from 4K to 16M
    #[arg(long, conflicts_with_all = ["throughput", "paper"])]
    pub auto: bool,
    /// Largest file of --auto
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub max_size: Bytes,
    /// Workers that have a file each; all stop when the first is done
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub throughput: Option<u32>,
    /// What the workers of --throughput are
    #[arg(long = "as", value_enum, value_name = "KIND", default_value_t = Workers::Processes)]
    pub workers: Workers,
    /// Each test's time has an fsync at its end in it
    #[arg(short = 'e', long)]
    pub include_fsync: bool,
    /// Each test's time has the close in it
    #[arg(short = 'c', long)]
    pub include_close: bool,
    /// A published evaluation's parameters
    #[arg(long, value_enum, value_name = "PAPER", conflicts_with = "throughput")]
    pub paper: Option<Paper>,
}

/// A test: its number is Iozone's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Write a new file, write it again
    #[value(alias = "0")]
    Write,
    /// Read it, read it again
    #[value(alias = "1")]
    Read,
    /// Read and write records, each once, in random order
    #[value(alias = "2")]
    Random,
    /// Read from the end to the beginning
    #[value(alias = "3")]
    Backwards,
    /// Write the same record over and over
    #[value(alias = "4")]
    RecordRewrite,
    /// Read every 17th record
    #[value(alias = "5")]
    Stride,
    /// fwrite a new file, fwrite it again
    #[value(alias = "6")]
    Fwrite,
    /// fread it, fread it again
    #[value(alias = "7")]
    Fread,
    /// Random records, half of them read (--mix)
    #[value(alias = "8")]
    Mix,
    /// pwrite a new file, pwrite it again
    #[value(alias = "9")]
    Pwrite,
    /// pread it, pread it again
    #[value(alias = "10")]
    Pread,
    /// pwritev a new file, pwritev it again
    #[value(alias = "11")]
    Pwritev,
    /// preadv it, preadv it again
    #[value(alias = "12")]
    Preadv,
}

/// What workers are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workers {
    /// A process each
    #[default]
    Processes,
    /// Threads of one process
    Threads,
}

/// A published evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Initial write of 8 GiB in all (--size) by 1 to 4 processes or threads
    Limit,
    /// Write and read by 12 processes, 4 GiB each (--size)
    Comware,
}

/// A step: label, what, its own way into the kernel, order.
type Kind = (&'static str, What, Option<Through>, Order);

impl Test {
    fn steps(self) -> &'static [Kind] {
        use {Order as O, Through as T, What as W};
        match self {
            Test::Write => {
                &[("write", W::Write, None, O::Sequential), ("rewrite", W::Rewrite, None, O::Sequential)]
            }
            Test::Read => {
                &[("read", W::Read, None, O::Sequential), ("reread", W::Reread, None, O::Sequential)]
            }
            Test::Random => &[
                ("random read", W::Read, None, O::RandomOnce),
                ("random write", W::Rewrite, None, O::RandomOnce),
            ],
            Test::Backwards => &[("backwards read", W::BackwardsRead, None, O::Sequential)],
            Test::RecordRewrite => &[("record rewrite", W::RecordRewrite, None, O::Sequential)],
            Test::Stride => &[("strided read", W::StridedRead, None, O::Sequential)],
            Test::Fwrite => &[
                ("fwrite", W::Write, Some(T::Stdio), O::Sequential),
                ("frewrite", W::Rewrite, Some(T::Stdio), O::Sequential),
            ],
            Test::Fread => &[
                ("fread", W::Read, Some(T::Stdio), O::Sequential),
                ("freread", W::Reread, Some(T::Stdio), O::Sequential),
            ],
            Test::Mix => &[("random mix", W::Mix, None, O::RandomOnce)],
            Test::Pwrite => &[
                ("pwrite", W::Write, Some(T::Pwrite), O::Sequential),
                ("pwrite again", W::Rewrite, Some(T::Pwrite), O::Sequential),
            ],
            Test::Pread => &[
                ("pread", W::Read, Some(T::Pwrite), O::Sequential),
                ("pread again", W::Reread, Some(T::Pwrite), O::Sequential),
            ],
            Test::Pwritev => &[
                ("pwritev", W::Write, Some(T::Pwritev2), O::Sequential),
                ("pwritev again", W::Rewrite, Some(T::Pwritev2), O::Sequential),
            ],
            Test::Preadv => &[
                ("preadv", W::Read, Some(T::Pwritev2), O::Sequential),
                ("preadv again", W::Reread, Some(T::Pwritev2), O::Sequential),
            ],
        }
    }
}

/// Smallest file of the automatic mode.
const LEAST_FILE: u64 = 64 << 10;
/// Smallest and largest record of the automatic mode.
const RECORDS: (u64, u64) = (4 << 10, 16 << 20);
/// From this file size on, records below 64K are left out, as Iozone does.
const LARGE_FILE: u64 = 32 << 20;

/// Doubling from `from` to `to`.
fn doubling(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from), |n| n.checked_mul(2)).take_while(move |&n| n <= to)
}

/// A cell's shape.
struct Shape {
    label: String,
    size: Bytes,
    record: Bytes,
    processes: u32,
    threads: u32,
    stonewall: bool,
}

impl FilesArgs {
    fn tests(&self) -> Vec<Test> {
        match (self.tests.is_empty(), self.paper) {
            (false, _) => self.tests.clone(),
            (_, Some(Paper::Limit)) => vec![Test::Write],
            (_, Some(Paper::Comware)) => vec![Test::Write, Test::Read, Test::Random],
            _ => Test::value_variants()[..9].to_vec(),
        }
    }

    fn shapes(&self, job: &Job, given: &Given) -> Vec<Shape> {
        let one = |label: String, size: u64, record: u64| Shape {
            label,
            size: Bytes(size),
            record: Bytes(record),
            processes: 1,
            threads: 1,
            stonewall: false,
        };
        let many = |label: String, size: Bytes, n: u32, workers: Workers| Shape {
            processes: if workers == Workers::Processes { n } else { 1 },
            threads: if workers == Workers::Threads { n } else { 1 },
            stonewall: true,
            ..one(label, size.0, job.block.0)
        };
        let word = |workers| if workers == Workers::Threads { "threads" } else { "processes" };
        if let Some(n) = self.throughput {
            return vec![many(format!("{n} {}", word(self.workers)), job.size, n, self.workers)];
        }
        match self.paper {
            Some(Paper::Comware) => {
                let size = if given.has("size") { job.size } else { Bytes(4 << 30) };
                return vec![many("12 processes".into(), size, 12, Workers::Processes)];
            }
            Some(Paper::Limit) => {
                let total = if given.has("size") { job.size.0 } else { 8 << 30 };
                let each = |n: u32| Bytes((total / u64::from(n)).next_multiple_of(job.block.0.max(1)));
                let both = |n| {
                    [Workers::Processes, Workers::Threads]
                        .map(|w| many(format!("{n} {}", word(w)), each(n), n, w))
                };
                return (1..=4).flat_map(both).collect();
            }
            None => {}
        }
        if !self.auto {
            return vec![one(format!("{} in records of {}", job.size, job.block), job.size.0, job.block.0)];
        }
        let records = |size: u64| {
            let least = if size >= LARGE_FILE { 64 << 10 } else { RECORDS.0 };
            doubling(least, RECORDS.1.min(size)).filter(|&r| !given.has("block") || r == job.block.0)
        };
        let sizes = doubling(LEAST_FILE, self.max_size.0);
        let all = sizes.flat_map(|size| records(size).map(move |record| (size, record)));
        all.map(|(size, record)| {
            one(format!("{} in records of {}", Bytes(size), Bytes(record)), size, record)
        })
        .collect()
    }

    fn step(&self, kind: &Kind, shape: &Shape, given: &Given) -> Step {
        let &(label, what, own, order) = kind;
        // What Iozone does not do through the way that was given, it does one at a time.
        let keep: &[&str] =
            if own.is_some() { &["through", "depth", "size", "block"] } else { &["size", "block"] };
        let mut job = given.over_except(
            &Job {
                what,
                through: own.unwrap_or(Through::Write),
                order,
                mix: 50,
                layout: Layout::Append,
                size: shape.size,
                block: shape.record,
                stride: Bytes(17 * shape.record.0),
                processes: shape.processes,
                threads: shape.threads,
                stonewall: shape.stonewall,
                time_close: if self.include_close { Timed::In } else { Timed::Out },
                ..Job::default()
            },
            keep,
        );
        let mapped = job.through == Through::Mmap;
        if mapped && what == What::Write {
            job.layout = Layout::Sparse;
        }
        if self.include_fsync && what.writes() {
            job.sync = if mapped { SyncMethod::Msync } else { SyncMethod::Fsync };
            job.every = job.operations.unwrap_or(job.span() / job.block.0.max(1)).max(1);
        }
        Step { label: label.into(), jobs: vec![job] }
    }
}

impl Classic for FilesArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let tests = "choose with --tests";
        let workers = "choose with --throughput and --as";
        refuse(
            given,
            &[
                ("what", tests),
                ("order", tests),
                ("layout", tests),
                ("processes", workers),
                ("threads", workers),
            ],
        )?;
        if self.include_fsync {
            refuse(given, &[("sync", "leave out -e"), ("every", "leave out -e")])?;
        }
        if self.auto {
            refuse(given, &[("size", "with --auto, use --max-size")])?;
        }
        let job = given.over(&Job::default());
        let shapes = self.shapes(&job, given);
        if shapes.is_empty() {
            return Err(JobError(format!(
                "--max-size {}: --auto has no file and record within it; the smallest file has 64K, \
                 records have 4K to 16M",
                self.max_size
            )));
        }
        let tests = self.tests();
        let cell = |shape: &Shape| {
            let mut kinds: Vec<&Kind> = tests.iter().flat_map(|t| t.steps()).collect();
            if self.paper == Some(Paper::Limit) && self.tests.is_empty() {
                kinds.truncate(1);
            }
            Cell {
                label: shape.label.clone(),
                steps: kinds.iter().map(|k| self.step(k, shape, given)).collect(),
            }
        };
        Ok(shapes.iter().map(cell).collect())
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        if self.throughput.is_some() || self.paper.is_some() {
            tables::throughput(cells)
        } else if self.auto {
            tables::matrices(cells)
        } else {
            tables::lines(cells)
        }
    }
}

#[cfg(test)]
mod tests;
