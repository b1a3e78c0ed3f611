// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bonnie++'s tests of one large file.
//!
//! Bonnie++ rewrites by reading a block, changing it and writing it back
//! before it reads the next. A job's operations have one kind each, so the
//! rewrite is two passes here, one that reads and one that writes; both times
//! together give its figure, and the table says so.

use super::figures::{bytes, cpu_percent, each, failures, kib_per_s, number, operations, per_s, Rounds};
use super::{refuse, Classic};
use crate::job::{Bytes, Cache, Cell, Given, Job, JobError, Layout, Order, Sharing, Step, Through, What};
use crate::result::{CellResult, JobResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Examples:
  plumb load stream --size 1G
  plumb load stream --size 1G --fast --seeks 8000 --seekers 3

Source: Bonnie++ (Russell Coker, after Tim Bray's Bonnie), as used in \"What kernel 2.6 can do\" (NTT Comware). \
The file should be larger than memory: by default it is twice as large.";

/// Options of stream.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct StreamArgs {
    /// Leave out the tests that go character by character
    #[arg(long)]
    pub fast: bool,
    /// Random seeks, of all seekers together
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeks: u64,
    /// Processes that seek
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub seekers: u32,
}

const PUT_CHAR: &str = "put char";
const PUT_BLOCK: &str = "put block";
const REWRITE_READ: &str = "rewrite: read";
const REWRITE_WRITE: &str = "rewrite: write";
const GET_CHAR: &str = "get char";
const GET_BLOCK: &str = "get block";
const SEEKS: &str = "seeks";

/// Memory of this machine, bytes; 1 GiB where the system does not tell.
fn memory() -> u64 {
    // SAFETY: plain calls.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(page)) {
        (Ok(pages), Ok(page)) if pages > 0 && page > 0 => pages * page,
        _ => 1 << 30,
    }
}

impl Classic for StreamArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "its tests are fixed; --fast leaves some out";
        refuse(
            given,
            &[
                ("what", own),
                ("through", own),
                ("order", own),
                ("layout", own),
                ("mix", own),
                ("sharing", own),
            ],
        )?;
        refuse(
            given,
            &[
                ("processes", "choose with --seekers"),
                ("threads", "choose with --seekers"),
                ("operations", "choose with --seeks"),
            ],
        )?;
        let block = 8192;
        // The file is the same for one worker and for the seekers together.
        let base = Job {
            through: Through::Write,
            block: Bytes(block),
            size: Bytes((2 * memory()).next_multiple_of(block)),
            sharing: Sharing::Shared,
            layout: Layout::Append,
            cache: Cache::Fadvise,
            ..Job::default()
        };
        let chars = |what| Job { what, through: Through::Char, ..base.clone() };
        let blocks = |what| Job { what, ..base.clone() };
        let mut steps = vec![
            (PUT_CHAR, chars(What::Write)),
            (PUT_BLOCK, blocks(What::Write)),
            (REWRITE_READ, blocks(What::Read)),
            (REWRITE_WRITE, Job { cache: Cache::AsFound, ..blocks(What::Rewrite) }),
            (GET_CHAR, chars(What::Read)),
            (GET_BLOCK, blocks(What::Read)),
            (
                SEEKS,
                Job {
                    what: What::Mix,
                    mix: 90,
                    order: Order::Random,
                    processes: self.seekers,
                    operations: Some(self.seeks.div_ceil(u64::from(self.seekers))),
                    ..base.clone()
                },
            ),
        ];
        if self.fast {
            steps.retain(|(_, job)| job.through != Through::Char);
        }
        let step = |(label, job): (&str, Job)| Step { label: label.into(), jobs: vec![given.over(&job)] };
        let steps: Vec<Step> = steps.into_iter().map(step).collect();
        let size = steps[0].jobs[0].size;
        Ok(vec![Cell { label: format!("file of {size}"), steps }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        for cell in cells {
            for (label, steps, unit) in [
                ("sequential output, per char", &[PUT_CHAR][..], "K/s"),
                ("sequential output, block", &[PUT_BLOCK], "K/s"),
                ("sequential output, rewrite", &[REWRITE_READ, REWRITE_WRITE], "K/s"),
                ("sequential input, per char", &[GET_CHAR], "K/s"),
                ("sequential input, block", &[GET_BLOCK], "K/s"),
                ("random seeks", &[SEEKS], "/s"),
            ] {
                let of = |figure: &dyn Fn(&[&JobResult]) -> f64| together(cell, steps, figure);
                let elapsed = |jobs: &[&JobResult]| jobs.iter().map(|j| j.elapsed_ns).sum::<u64>();
                let speeds = if unit == "/s" {
                    of(&|jobs| per_s(jobs.iter().map(|j| operations(j)).sum::<u64>() as f64, elapsed(jobs)))
                } else {
                    of(&|jobs| kib_per_s(jobs.iter().map(|j| bytes(j)).max().unwrap_or(0), elapsed(jobs)))
                };
                if speeds.is_empty() {
                    continue;
                }
                let busy = of(&|jobs| {
                    jobs.iter().map(|j| cpu_percent(j) * j.elapsed_ns as f64).sum::<f64>()
                        / elapsed(jobs) as f64
                });
                let last = steps[steps.len() - 1];
                let ms =
                    |figure: fn(&JobResult) -> f64| Rounds::default().median("", each(cell, last, figure));
                let mean = ms(|j| {
                    let kinds = || j.main_operations();
                    kinds().map(|k| k.latency().mean_ns * k.count as f64).sum::<f64>()
                        / kinds().map(|k| k.count as f64).sum::<f64>()
                        / 1e6
                });
                let max = ms(|j| {
                    j.main_operations()
                        .filter_map(|k| k.latency().max)
                        .max()
                        .map_or(f64::NAN, |m| m as f64 / 1e6)
                });
                rows.push(vec![
                    label.to_string(),
                    format!(
                        "{} {unit}",
                        number(rounds.median(label, speeds), if unit == "/s" { 1 } else { 0 })
                    ),
                    number(Rounds::default().median("", busy), 0),
                    number(mean, 3),
                    number(max, 3),
                ]);
            }
        }
        let mut notes = vec![rounds.note("K/s or seeks/s")];
        notes.push(
            "Rewrite: Bonnie++ reads and writes back block by block; here one pass reads all and one writes all, \
             and the figure is the file's size over both times (latency: of the writes)."
                .into(),
        );
        notes.push("Seeks: Bonnie++ writes back the block that it read; here a tenth of the seeks write and the others read.".into());
        notes.push("The file leaves the page cache before each reading test (--cache as-found: as Bonnie++, which has larger files).".into());
        notes.extend(failures(cells));
        let title = cells.first().map_or_else(|| "One file".to_string(), |c| format!("One {}", c.label));
        let head = ["<test", "speed", "CPU %", "mean ms", "max ms"].map(String::from).to_vec();
        vec![Table { title, head, rows, notes }]
    }
}

/// A figure of each round over several of its steps; rounds that lack one are left out.
fn together(cell: &CellResult, steps: &[&str], figure: &dyn Fn(&[&JobResult]) -> f64) -> Vec<f64> {
    let jobs = |round: &'_ Vec<crate::result::StepResult>| -> Option<f64> {
        let find = |label: &&str| round.iter().find(|s| s.label == **label)?.jobs.first();
        let jobs: Option<Vec<&JobResult>> = steps.iter().map(find).collect();
        jobs.map(|jobs| figure(&jobs))
    };
    cell.rounds.iter().filter_map(jobs).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    #[test]
    fn tests_are_bonnies_on_one_file() {
        let given = given(Job { size: Bytes(1 << 20), ..Job::default() }, &["size"]);
        let cells = parse(&["stream"]).cells(&given).expect("cells");
        assert_eq!(cells[0].steps.len(), 7);
        for step in &cells[0].steps {
            assert_eq!((step.jobs[0].size, step.jobs[0].sharing), (Bytes(1 << 20), Sharing::Shared));
        }
        let seeks = &cells[0].steps[6].jobs[0];
        assert_eq!((seeks.processes, seeks.operations, seeks.mix), (3, Some(2667), 90));
        let fast = parse(&["stream", "--fast"]).cells(&given).expect("cells");
        assert_eq!(fast[0].steps.len(), 5);
        let large = parse(&["stream"]).cells(&Given::default()).expect("cells");
        assert!(large[0].steps[0].jobs[0].size.0 >= 2 * memory());
    }

    #[test]
    fn a_rewrite_takes_both_times() {
        let given = given(Job { size: Bytes(1 << 20), ..Job::default() }, &["size"]);
        let preset = parse(&["stream", "--fast"]);
        let cells = preset.cells(&given).expect("cells");
        let job = |i: usize| &cells[0].steps[i].jobs[0];
        let round = vec![
            step(REWRITE_READ, job(1), 1_000_000_000, &[("read", &[1_000_000; 128])]),
            step(REWRITE_WRITE, job(2), 3_000_000_000, &[("rewrite", &[2_000_000; 128])]),
            step(SEEKS, job(4), 2_000_000_000, &[("read", &[5_000_000; 9]), ("write", &[5_000_000])]),
        ];
        let table = &preset.figures(&[cell("file of 1M", vec![round])], None)[0];
        assert_eq!(table.rows.len(), 2);
        // 1024 KiB in four seconds; three seekers, each half a CPU.
        assert_eq!(table.rows[0][..4], ["sequential output, rewrite", "256 K/s", "50", "2.000"]);
        assert_eq!(table.rows[1][..3], ["random seeks", "5.0 /s", "150"]);
    }
}
