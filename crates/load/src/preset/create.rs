// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One-byte files, one after the other, in one directory: how long each
//! takes, and how much longer than the one before.

use super::figures::{each, failures, number, Rounds};
use super::{refuse, Classic};
use crate::job::{Bytes, Cache, Cell, Given, Job, JobError, Step, What};
use crate::log::Row;
use crate::result::{CellResult, JobResult, Table};
use clap::Args;
use plumb_trace::load::OperationKind;

const AFTER_HELP: &str = "\
Examples:
  plumb load create
  plumb load create --files 50000 --passes 2 --cold --log create.log
  plumb load create --paper

Source: S. Yamaguchi, M. Oguchi, M. Kitsuregawa, \"An Analysis for Performance of File Operations on IP-SAN with \
Trace System\": 100,000 files 0000012345.txt of one byte made by open() in one empty directory, five times in a \
row (A to E), the directory emptied before each. There a file took longer the more there were (linear search), \
and only A was slower: the names that were looked up in vain were not cached yet.";

/// Options of create.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CreateArgs {
    /// How often all files are recreated, with the same names
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub passes: u32,
    /// The first pass begins with empty caches of names and inodes (root): only then can it differ from the others
    #[arg(long)]
    pub cold: bool,
    /// 100,000 files, five passes, the first one cold
    #[arg(long)]
    pub paper: bool,
}

/// How the time of an operation grows with the number of those before:
/// a straight line by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Time of the first, us.
    pub first_us: f64,
    /// Longer by so much every 1000 operations, us.
    pub us_per_1000: f64,
    /// Share of the times' variance that the line explains, 0 to 1.
    pub r2: f64,
}

impl Growth {
    /// The line through points of (operations before, us, weight); `None` with
    /// fewer than three, or all at one place.
    pub fn fit(points: &[(f64, f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let weight: f64 = points.iter().map(|p| p.2).sum();
        let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>() / weight;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y) * p.2).sum::<f64>();
        let (xx, xy, yy) = (sum(&|dx, _| dx * dx), sum(&|dx, dy| dx * dy), sum(&|_, dy| dy * dy));
        if xx <= 0.0 || !xx.is_finite() {
            return None;
        }
        let slope = xy / xx;
        let r2 = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
        Some(Growth { first_us: y - slope * x, us_per_1000: slope * 1000.0, r2 })
    }
}

/// The growth that a job's seconds show: each second's mean time of a file
/// against the number of files in its middle.
fn growth_of_seconds(job: &JobResult) -> Option<Growth> {
    let mut before = 0.0;
    let mut points = Vec::new();
    for second in job.series.iter().filter(|s| s.operations > 0) {
        let count = second.operations as f64;
        points.push((before + count / 2.0, second.length_ns as f64 / count / 1e3, count));
        before += count;
    }
    Growth::fit(&points)
}

/// A, B, C ...; numbers when the alphabet is at its end.
fn pass_name(i: u32) -> String {
    match u8::try_from(i) {
        Ok(i) if i < 26 => char::from(b'A' + i).to_string(),
        _ => (i + 1).to_string(),
    }
}

impl Classic for CreateArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        refuse(given, &[("what", "it makes files")])?;
        let files = if self.paper { 100_000 } else { 20_000 };
        let job = given.over(&Job { what: What::Create, block: Bytes(1), files, ..Job::default() });
        let passes = if self.paper { 5 } else { self.passes };
        let step = |i: u32| {
            let mut job = job.clone();
            if i == 0 && (self.cold || self.paper) && !given.has("cache") {
                job.cache = Cache::Drop;
            }
            Step { label: pass_name(i), jobs: vec![job] }
        };
        Ok(vec![Cell {
            label: format!("{} files of {} bytes", job.files, job.block.0),
            steps: (0..passes).map(step).collect(),
        }])
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        let mut fitted = false;
        for cell in cells {
            for step in super::figures::steps(cell) {
                let label = step.label.as_str();
                let of = |figure: &dyn Fn(&JobResult) -> f64| {
                    Rounds::default().median("", each(cell, label, figure))
                };
                let create = |j: &JobResult, figure: fn(&plumb_stats::histogram::Summary) -> Option<u64>| {
                    j.kind("create").and_then(|k| figure(k.latency())).map_or(f64::NAN, |ns| ns as f64 / 1e3)
                };
                let growth = of(&|j| growth_of_seconds(j).map_or(f64::NAN, |g| g.us_per_1000));
                fitted |= growth.is_some();
                let mut row = vec![
                    label.to_string(),
                    number(of(&|j| j.kind("create").map_or(0.0, |k| k.count as f64)), 0),
                ];
                row.push(number(
                    rounds.median(&format!("pass {label}"), each(cell, label, |j| j.elapsed_ns as f64 / 1e9)),
                    3,
                ));
                row.push(number(
                    of(&|j| j.kind("create").map_or(f64::NAN, |k| k.latency().mean_ns / 1e3)),
                    1,
                ));
                row.push(number(of(&|j| create(j, |s| s.p50)), 1));
                row.push(number(of(&|j| create(j, |s| s.p99)), 1));
                row.push(number(of(&|j| create(j, |s| s.max)), 1));
                row.push(number(growth, 3));
                row.push(number(of(&|j| growth_of_seconds(j).map_or(f64::NAN, |g| g.r2)), 3));
                rows.push(row);
            }
        }
        let mut notes = vec![rounds.note("s")];
        notes.push(if fitted {
            "Growth: a line through each second's mean by least squares; r2 near 1 means that time really grows by the number of files.".into()
        } else {
            "A pass took less than three seconds, too few for a line through them; --log FILE gives growth from every file's time.".into()
        });
        if !self.cold && !self.paper {
            notes.push("The files' names were looked up before the first pass as well; --cold empties the cache of names before it (root).".into());
        }
        notes.extend(failures(cells));
        let title = cells
            .first()
            .map_or_else(|| "Files made".to_string(), |c| format!("{} made in one directory", c.label));
        let head =
            ["<pass", "files", "elapsed s", "mean us", "p50", "p99", "max", "us more per 1000 files", "r2"];
        vec![Table { title, head: head.map(String::from).to_vec(), rows, notes }]
    }

    fn figures_of_log(&self, label: &str, rows: &mut dyn Iterator<Item = Row>) -> Option<Table> {
        let mut times: Vec<(u64, u64)> = rows
            .filter(|row| row.kind == OperationKind::Create && row.result >= 0)
            .map(|row| (row.begin_ns, row.end_ns - row.begin_ns.min(row.end_ns)))
            .collect();
        // Several workers' rows come by chunks.
        times.sort_unstable();
        let times: Vec<f64> = times.into_iter().map(|(_, ns)| ns as f64 / 1e3).collect();
        if times.is_empty() {
            return None;
        }
        let points: Vec<_> = times.iter().enumerate().map(|(i, &us)| (i as f64, us, 1.0)).collect();
        let table_rows = times.chunks(1000).enumerate().map(|(i, chunk)| {
            let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
            let max = chunk.iter().copied().fold(0.0, f64::max);
            vec![format!("{}", i * 1000 + chunk.len()), number(Some(mean), 2), number(Some(max), 1)]
        });
        let note = match Growth::fit(&points) {
            Some(g) => format!(
                "The first file takes {:.2} us by the line of least squares, every 1000 files {:.4} us more (r2 {:.3}, of single files).",
                g.first_us, g.us_per_1000, g.r2
            ),
            None => "Too few files for a line.".into(),
        };
        Some(Table {
            title: format!("{label}: time of a file, us, by 1000 files"),
            head: ["files", "mean us", "max us"].map(String::from).to_vec(),
            rows: table_rows.collect(),
            notes: vec![note],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;
    use crate::result::Second;

    #[test]
    fn the_paper_makes_100_000_files_five_times() {
        let cells = parse(&["create", "--paper"]).cells(&Given::default()).expect("cells");
        let steps = &cells[0].steps;
        assert_eq!(steps.iter().map(|s| s.label.as_str()).collect::<String>(), "ABCDE");
        let job = &steps[0].jobs[0];
        assert_eq!((job.what, job.files, job.block, job.dirs), (What::Create, 100_000, Bytes(1), 0));
        assert_eq!((job.cache, steps[1].jobs[0].cache), (Cache::Drop, Cache::AsFound));
        let given = given(Job { files: 7, ..Job::default() }, &["files"]);
        let cells = parse(&["create", "--passes", "2"]).cells(&given).expect("cells");
        assert_eq!((cells[0].steps.len(), cells[0].steps[0].jobs[0].files), (2, 7));
        assert_eq!(cells[0].steps[0].jobs[0].cache, Cache::AsFound);
    }

    #[test]
    fn a_line_is_found_and_told_from_noise() {
        let line: Vec<_> =
            (0..100).map(|i| (f64::from(i) * 10.0, 50.0 + 0.02 * f64::from(i) * 10.0, 1.0)).collect();
        let growth = Growth::fit(&line).expect("a line");
        assert!((growth.first_us - 50.0).abs() < 1e-9 && (growth.us_per_1000 - 20.0).abs() < 1e-9);
        assert!((growth.r2 - 1.0).abs() < 1e-9);
        let noise: Vec<_> = (0..100).map(|i| (f64::from(i), f64::from(i % 2), 1.0)).collect();
        assert!(Growth::fit(&noise).expect("a line").r2 < 0.01);
        assert_eq!(Growth::fit(&line[..2]), None);
        assert_eq!(Growth::fit(&[(1.0, 1.0, 1.0); 3]), None);
    }

    #[test]
    fn seconds_show_growth() {
        let preset = parse(&["create", "--passes", "1"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        let mut made = step("A", &cells[0].steps[0].jobs[0], 3_000_000_000, &[("create", &[100_000; 10])]);
        // 1000 us, 2000 us, 4000 us a file: longer each second.
        made.jobs[0].series = [1000, 500, 250]
            .iter()
            .enumerate()
            .map(|(i, &operations)| Second {
                at_ns: (i as u64 + 1) * 1_000_000_000,
                length_ns: 1_000_000_000,
                operations,
                bytes: 0,
                longest_ns: 0,
            })
            .collect();
        let table = &preset.figures(&[cell("files", vec![vec![made]])], None)[0];
        let row: Vec<&str> = table.rows[0].iter().map(String::as_str).collect();
        assert_eq!(row[..4], ["A", "10", "3.000", "100.0"]);
        assert!(row[7].parse::<f64>().is_ok_and(|growth| growth > 1000.0), "{row:?}");
        assert!(row[8].parse::<f64>().is_ok_and(|r2| r2 > 0.8), "{row:?}");
    }

    #[test]
    fn the_log_gives_every_thousand() {
        let mut rows = (0..2500u64).map(|i| Row {
            kind: OperationKind::Create,
            begin_ns: i * 1_000_000,
            end_ns: i * 1_000_000 + 10_000 + i * 20,
            ..Row::default()
        });
        let table = parse(&["create"]).figures_of_log("A", &mut rows).expect("a table");
        assert_eq!(table.rows.len(), 3);
        // The mean of 10 us + 0..999 x 20 ns.
        assert_eq!(table.rows[0], ["1000", "19.99", "30.0"]);
        assert_eq!(table.rows[2][0], "2500");
        assert!(table.notes[0].contains("every 1000 files 20.0000 us more (r2 1.000"), "{}", table.notes[0]);
        assert_eq!(parse(&["create"]).figures_of_log("A", &mut std::iter::empty()), None);
    }
}
