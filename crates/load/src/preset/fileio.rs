// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SysBench's file test: many files, six modes.

use super::figures::{each, failures, number, per_s, steps, Rounds};
use super::{refuse, Classic};
use crate::job::{
    Bytes, Cell, Given, Job, JobError, Layout, Order, Sharing, Step, SyncMethod, Through, Time, Timed, What,
};
use crate::result::{CellResult, JobResult, Table};
use clap::{Args, ValueEnum};
use plumb_stats::histogram::Histogram;

const AFTER_HELP: &str = "\
Examples:
  plumb load fileio --total-size 512M --modes rndrw --threads 4 --time 30s
  plumb load fileio --paper

Source: SysBench fileio (A. Kopytov). --paper: Takamura, Ugawa, Iwasaki, on a deadline I/O scheduler with low \
priority: 128 files of 80 MB, direct, sequential and random reading and writing, a minute each.";

/// Options of fileio.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct FileioArgs {
    /// Modes [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MODE")]
    pub modes: Vec<Mode>,
    /// Bytes of all files together
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub total_size: Bytes,
    /// Reads for each write of rndrw
    #[arg(long, value_name = "RATIO", default_value_t = 1.5)]
    pub rw_ratio: f64,
    /// 128 files of 80 MiB past the page cache
    #[arg(long)]
    pub paper: bool,
}

/// A mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Write new files from beginning to end
    Seqwr,
    /// Write them again
    Seqrewr,
    /// Read them
    Seqrd,
    /// Read blocks at random
    Rndrd,
    /// Write blocks at random
    Rndwr,
    /// Both, by --rw-ratio
    Rndrw,
}

impl Mode {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_string())
    }

    fn how(self) -> (What, Order) {
        match self {
            Mode::Seqwr => (What::Write, Order::Sequential),
            Mode::Seqrewr => (What::Rewrite, Order::Sequential),
            Mode::Seqrd => (What::Read, Order::Sequential),
            Mode::Rndrd => (What::Read, Order::Random),
            Mode::Rndwr => (What::Rewrite, Order::Random),
            Mode::Rndrw => (What::Mix, Order::Random),
        }
    }
}

impl Classic for FileioArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "choose with --modes";
        refuse(
            given,
            &[("what", own), ("order", own), ("layout", own), ("sharing", "all workers share the files")],
        )?;
        refuse(given, &[("size", "choose with --total-size"), ("mix", "choose with --rw-ratio")])?;
        if !(self.rw_ratio > 0.0 && self.rw_ratio.is_finite()) {
            return Err(JobError(format!("--rw-ratio {}: must be above 0, as in 1.5", self.rw_ratio)));
        }
        let modes = if self.modes.is_empty() { Mode::value_variants() } else { &self.modes };
        let base = given.over(&Job {
            through: Through::Pwrite,
            block: Bytes(16 << 10),
            files: 128,
            sharing: Sharing::Shared,
            sync: SyncMethod::Fsync,
            every: 100,
            time_sync: Timed::Out,
            direct: self.paper,
            mix: (100.0 * self.rw_ratio / (1.0 + self.rw_ratio)).round() as u8,
            ..Job::default()
        });
        let total = if self.paper { 128 * (80 << 20) } else { self.total_size.0 };
        let block = base.block.0.max(1);
        let size = total / base.files / block * block;
        if size < block {
            return Err(JobError(format!(
                "--total-size {}: {} files of at least one block ({}) do not fit; give fewer --files",
                Bytes(total),
                base.files,
                base.block
            )));
        }
        let bounded = ["time", "operations", "bytes"].iter().any(|key| given.has(key));
        let step = |mode: &Mode| {
            let (what, order) = mode.how();
            let mut job = Job { what, order, size: Bytes(size), layout: Layout::Append, ..base.clone() };
            if !bounded {
                job.time = Some(Time(if self.paper { 60_000_000_000 } else { 10_000_000_000 }));
            }
            if *mode == Mode::Seqwr && job.operations.is_none() && job.bytes.is_none() {
                // New files are written once; going round again would be rewriting.
                job.operations = Some((base.files * (size / block) / u64::from(base.workers())).max(1));
            }
            Step { label: mode.word(), jobs: vec![job] }
        };
        let label = format!("{} files of {}", base.files, Bytes(size));
        Ok(vec![Cell { label, steps: modes.iter().map(step).collect() }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            for step in steps(cell) {
                let label = step.label.as_str();
                let of = |figure: &dyn Fn(&JobResult) -> f64| {
                    Rounds::default().median("", each(cell, label, figure))
                };
                let count = |j: &JobResult, word: &[&str]| -> f64 {
                    kinds(j, word).map(|k| (k.count - k.errors) as f64).sum()
                };
                let mib = |j: &JobResult, word: &[&str]| -> f64 {
                    kinds(j, word).map(|k| k.bytes as f64 / 1_048_576.0).sum()
                };
                let mut row = vec![label.to_string()];
                for words in [READS, WRITES, SYNCS] {
                    let rates = each(cell, label, |j| per_s(count(j, words), j.elapsed_ns));
                    row.push(number(rounds.median(&format!("{label} {}s", words[0]), rates), 2));
                }
                for words in [READS, WRITES] {
                    row.push(number(of(&|j| per_s(mib(j, words), j.elapsed_ns)), 2));
                }
                let ms = |figure: &dyn Fn(&Histogram) -> f64| {
                    number(of(&|j| latencies(j).map_or(f64::NAN, |h| figure(&h) / 1e6)), 3)
                };
                row.push(ms(&|h| h.min().map_or(f64::NAN, |ns| ns as f64)));
                row.push(ms(&|h| h.mean()));
                row.push(ms(&|h| h.max().map_or(f64::NAN, |ns| ns as f64)));
                row.push(ms(&|h| h.quantile(0.95) as f64));
                rows.push(row);
            }
        }
        let mut notes = vec![rounds.note("/s")];
        notes.push("Latency is over reads, writes and fsyncs together, each by itself.".into());
        notes.push("After every 100 writes (--every) the file written last is synchronised; SysBench synchronises all files after 100 requests of any kind.".into());
        notes.extend(failures(cells));
        let title = cells.first().map_or_else(|| "Many files".to_string(), |c| c.label.clone());
        let head = [
            "<mode",
            "reads/s",
            "writes/s",
            "fsyncs/s",
            "read MiB/s",
            "written MiB/s",
            "min ms",
            "avg ms",
            "max ms",
            "95th ms",
        ];
        vec![Table { title, head: head.map(String::from).to_vec(), rows, notes }]
    }
}

const READS: &[&str] = &["read", "reread"];
const WRITES: &[&str] = &["write", "rewrite"];
const SYNCS: &[&str] = &["sync"];

fn kinds<'a>(job: &'a JobResult, words: &'a [&str]) -> impl Iterator<Item = &'a crate::result::KindResult> {
    job.operations.iter().filter(move |k| words.contains(&k.kind))
}

/// All requests' times; `None` without any.
fn latencies(job: &JobResult) -> Option<Box<Histogram>> {
    let mut all = Histogram::boxed();
    [READS, WRITES, SYNCS].iter().flat_map(|words| kinds(job, words)).for_each(|k| all.merge(k.latencies()));
    (all.count() > 0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    #[test]
    fn six_modes_of_128_files() {
        let cells = parse(&["fileio"]).cells(&Given::default()).expect("cells");
        let labels: Vec<_> = cells[0].steps.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"]);
        let job = &cells[0].steps[5].jobs[0];
        assert_eq!(
            (job.files, job.size, job.block, job.every, job.mix),
            (128, Bytes(16 << 20), Bytes(16 << 10), 100, 60)
        );
        // All new blocks once.
        assert_eq!(cells[0].steps[0].jobs[0].operations, Some(2 << 30 >> 14));
        assert_eq!(job.time, Some(Time(10_000_000_000)));
        let paper = parse(&["fileio", "--paper"]).cells(&Given::default()).expect("cells");
        let job = &paper[0].steps[3].jobs[0];
        assert_eq!((job.files, job.size, job.direct), (128, Bytes(80 << 20), true));
    }

    #[test]
    fn given_options_go_over_its_own() {
        let line = Job { files: 4, operations: Some(3), block: Bytes(4096), ..Job::default() };
        let given = given(line, &["files", "operations", "block"]);
        let cells =
            parse(&["fileio", "--total-size", "64K", "--modes", "rndwr"]).cells(&given).expect("cells");
        let job = &cells[0].steps[0].jobs[0];
        assert_eq!((job.files, job.size, job.operations, job.time), (4, Bytes(16384), Some(3), None));
        let tiny = parse(&["fileio", "--total-size", "4K"]).cells(&given);
        assert!(tiny.is_err_and(|e| e.0.contains("--total-size 4K")));
        assert!(parse(&["fileio", "--rw-ratio", "0"])
            .cells(&given)
            .is_err_and(|e| e.0.contains("--rw-ratio")));
    }

    #[test]
    fn figures_are_sysbenchs() {
        let preset = parse(&["fileio", "--modes", "rndrw"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        let job = &cells[0].steps[0].jobs[0];
        let kinds: [(&'static str, &[u64]); 3] =
            [("read", &[1_000_000; 60]), ("write", &[1_000_000; 38]), ("sync", &[30_000_000, 31_000_000])];
        let table =
            &preset.figures(&[cell("files", vec![vec![step("rndrw", job, 2_000_000_000, &kinds)]])], None)[0];
        let row: Vec<&str> = table.rows[0].iter().map(String::as_str).collect();
        assert_eq!(row[..6], ["rndrw", "30.00", "19.00", "1.00", "0.47", "0.30"]);
        assert_eq!(row[6..9], ["1.000", "1.590", "31.000"]);
        let p95: f64 = row[9].parse().expect("a number");
        assert!((1.0..1.05).contains(&p95), "{p95}");
    }
}
