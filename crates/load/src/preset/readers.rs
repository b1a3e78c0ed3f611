// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same files read one after the other and all at once: what readers
//! cost each other.

use super::figures::{failures, number, steps, Rounds};
use super::{refuse, Classic};
use crate::job::{Bytes, Cache, Cell, Given, Job, JobError, Through, What};
use crate::result::{CellResult, Table};
use clap::Args;

const AFTER_HELP: &str = "\
Examples:
  plumb load readers
  plumb load readers --readers 4 --size 32M --pieces 64K

Source: T. Horikawa, on a software event tracer for Linux: nine files of 100 MB read by nine processes in pieces \
of 64 KiB and of 4 KiB, cold. Linux 2.2.17 took 55 s one by one and 569 s at once, 2.4.0 55 s and 81 s.";

/// Options of readers.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReadersArgs {
    /// Files, and processes that read one each
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub readers: u32,
    /// Bytes of a read [default: 64K,4K, or --block]
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    pub pieces: Vec<Bytes>,
}

const ONE_BY_ONE: &str = "one by one";
const AT_ONCE: &str = "at once";

/// Nothing cached: all of it where that is allowed, else of these files.
fn cold() -> Cache {
    // SAFETY: a plain call.
    match unsafe { libc::geteuid() } {
        0 => Cache::Drop,
        _ => Cache::Fadvise,
    }
}

impl ReadersArgs {
    fn pieces(&self, given: &Given) -> Vec<Bytes> {
        match self.pieces.is_empty() {
            false => self.pieces.clone(),
            true if given.has("block") => vec![given.over(&Job::default()).block],
            true => vec![Bytes(64 << 10), Bytes(4 << 10)],
        }
    }
}

fn label(piece: Bytes, how: &str) -> String {
    format!("{piece} {how}")
}

impl Classic for ReadersArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "choose with --readers";
        refuse(
            given,
            &[("what", "it reads"), ("processes", own), ("threads", own), ("files", own), ("sharing", own)],
        )?;
        if !self.pieces.is_empty() {
            refuse(given, &[("block", "choose with --pieces")])?;
        }
        let mut cells = Vec::new();
        for piece in self.pieces(given) {
            let job = Job {
                what: What::Read,
                through: Through::Write,
                block: piece,
                size: Bytes(100 << 20),
                cache: cold(),
                ..Job::default()
            };
            let job = given.over_except(&job, &["block"]);
            // One process goes through file after file: as one that begins when the one before has ended.
            let alone = Job { files: u64::from(self.readers), ..job.clone() };
            cells.push(Cell::of(label(piece, ONE_BY_ONE), alone));
            cells.push(Cell::of(label(piece, AT_ONCE), Job { processes: self.readers, ..job }));
        }
        Ok(cells)
    }

    fn figures(&self, cells: &[CellResult], _ticks_per_ns: Option<f64>) -> Vec<Table> {
        let mut rounds = Rounds::default();
        let mut pieces: Vec<Bytes> = Vec::new();
        for job in cells.iter().flat_map(steps).flat_map(|s| &s.jobs) {
            if !pieces.contains(&job.job.block) {
                pieces.push(job.job.block);
            }
        }
        let mut seconds = |name: &str| {
            let cell = cells.iter().find(|c| c.label == name)?;
            rounds.median(name, cell.step(name).map(|s| s.elapsed_ns as f64 / 1e9))
        };
        let rows: Vec<Vec<String>> = pieces
            .iter()
            .map(|&piece| {
                let alone = seconds(&label(piece, ONE_BY_ONE));
                let together = seconds(&label(piece, AT_ONCE));
                let ratio = alone.zip(together).map(|(a, t)| t / a);
                vec![piece.to_string(), number(alone, 3), number(together, 3), number(ratio, 2)]
            })
            .collect();
        let mut notes = vec![rounds.note("s")];
        notes.push(
            "Ratio: above 1, the readers hindered each other; below 1, they used what one alone leaves idle."
                .into(),
        );
        notes.push("One by one is one process that goes through the files; at once is a process a file. The files are cold.".into());
        notes.extend(failures(cells));
        let head = ["<piece", "one by one s", "at once s", "ratio"].map(String::from).to_vec();
        vec![Table { title: format!("{} files read", self.readers), head, rows, notes }]
    }

    fn rounds(&self) -> Option<u32> {
        Some(3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    #[test]
    fn nine_files_of_100_mb_in_pieces_of_64_and_4_kib() {
        let cells = parse(&["readers"]).cells(&Given::default()).expect("cells");
        let labels: Vec<_> = cells.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(labels, ["64K one by one", "64K at once", "4K one by one", "4K at once"]);
        let (alone, together) = (&cells[0].steps[0].jobs[0], &cells[1].steps[0].jobs[0]);
        assert_eq!((alone.files, alone.processes, alone.size), (9, 1, Bytes(100 << 20)));
        assert_eq!((together.files, together.processes, together.block), (1, 9, Bytes(65536)));
        assert_ne!(alone.cache, Cache::AsFound);
        let given =
            given(Job { block: Bytes(8192), cache: Cache::AsFound, ..Job::default() }, &["block", "cache"]);
        let cells = parse(&["readers", "--readers", "2"]).cells(&given).expect("cells");
        assert_eq!((cells.len(), cells[1].steps[0].jobs[0].processes), (2, 2));
        assert_eq!(cells[0].steps[0].jobs[0].cache, Cache::AsFound);
        assert!(parse(&["readers", "--pieces", "4K"]).cells(&given).is_err_and(|e| e.0.contains("--pieces")));
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let preset = parse(&["readers", "--pieces", "64K"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        let results = [(0, [55, 50, 60]), (1, [569, 500, 600])].map(|(i, seconds)| {
            let c: &Cell = &cells[i];
            let round =
                |s: u64| vec![step(&c.label, &c.steps[0].jobs[0], s * 1_000_000_000, &[("read", &[1])])];
            cell(&c.label, seconds.map(round).into())
        });
        let table = &preset.figures(&results, None)[0];
        assert_eq!(table.rows, [["64K", "55.000", "569.000", "10.35"]]);
        assert!(table.notes[0].contains("3 rounds"));
    }
}
