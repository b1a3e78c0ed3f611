// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes that must last: each method by which Linux makes a write durable,
//! in each order, into blocks that are allocated and blocks that are not.

use super::figures::{each, failures, number, Rounds};
use super::{refuse, Classic};
use crate::job::{Bytes, Cell, Given, Job, JobError, Layout, Order, SyncMethod, Through};
use crate::result::{CellResult, JobResult, KindResult, Table};
use clap::{Args, ValueEnum};

const AFTER_HELP: &str = "\
Examples:
  plumb load syncwrite --methods fsync,fdatasync,o-dsync --orders sequential --targets overwrite
  plumb load syncwrite --paper --rpm 10000

Source: diskio 2.0, in \"OSS performance and reliability evaluation: OS layer\" (Japan OSS Promotion Forum, \
2004), which imitates a database's log. Its published figures are those of the six methods of --paper, \
--orders sequential, --targets overwrite.";

/// Options of syncwrite.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SyncwriteArgs {
    /// Methods [default: those of --paper, aio and mmap-msync]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "METHOD")]
    pub methods: Vec<Method>,
    /// Every method
    #[arg(long, conflicts_with = "methods")]
    pub all: bool,
    /// Orders of the places [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ORDER")]
    pub orders: Vec<Walk>,
    /// Whether blocks are allocated before [default: both]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TARGET")]
    pub targets: Vec<Target>,
    /// The evaluation's own parameters: 6144 writes of 8192 bytes (48 MiB), access points 8192 bytes apart
    #[arg(long)]
    pub paper: bool,
    /// First write to print by itself, from 0 (needs --log)
    #[arg(long, value_name = "N")]
    pub start: Option<u64>,
    /// Last write to print by itself
    #[arg(long, value_name = "N")]
    pub end: Option<u64>,
}

/// A way to write and to make it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// write, and nothing after it: what the others are compared with
    Async,
    /// write, fsync
    Fsync,
    /// write, fdatasync
    Fdatasync,
    /// write, sync, sync: as a checkpoint of old databases
    SyncSync,
    /// write to a file opened with O_SYNC
    OSync,
    /// write to a file opened with O_DSYNC
    ODsync,
    /// io_submit, io_getevents, without waiting for the device
    Aio,
    /// io_submit, io_getevents of a file opened with O_DSYNC
    AioDsync,
    /// memory of a mapping, msync
    MmapMsync,
    /// writev, and nothing after it
    Writev,
    /// writev, fsync
    WritevFsync,
    /// writev, fdatasync
    WritevFdatasync,
    /// writev, sync, sync
    WritevSyncSync,
    /// writev to a file opened with O_SYNC
    WritevOSync,
    /// writev to a file opened with O_DSYNC
    WritevODsync,
    /// pwritev2 with RWF_DSYNC
    RwfDsync,
    /// write, sync_file_range: no promise, no flush of the device's cache
    SyncFileRange,
}

/// An order of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Walk {
    /// The next one, without lseek
    Sequential,
    /// --interleave bytes on
    Interleave,
    /// Any (Mersenne Twister of --seed)
    Random,
}

/// Whether blocks are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Not yet: the file grows
    Append,
    /// They were written before
    Overwrite,
}

impl Method {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_string())
    }

    fn how(self) -> (Through, SyncMethod) {
        use {SyncMethod as S, Through as T};
        match self {
            Method::Async => (T::Write, S::None),
            Method::Fsync => (T::Write, S::Fsync),
            Method::Fdatasync => (T::Write, S::Fdatasync),
            Method::SyncSync => (T::Write, S::SyncSync),
            Method::OSync => (T::Write, S::OSync),
            Method::ODsync => (T::Write, S::ODsync),
            Method::Aio => (T::Libaio, S::None),
            Method::AioDsync => (T::Libaio, S::ODsync),
            Method::MmapMsync => (T::Mmap, S::Msync),
            Method::Writev => (T::Writev, S::None),
            Method::WritevFsync => (T::Writev, S::Fsync),
            Method::WritevFdatasync => (T::Writev, S::Fdatasync),
            Method::WritevSyncSync => (T::Writev, S::SyncSync),
            Method::WritevOSync => (T::Writev, S::OSync),
            Method::WritevODsync => (T::Writev, S::ODsync),
            Method::RwfDsync => (T::Pwritev2, S::RwfDsync),
            Method::SyncFileRange => (T::Write, S::SyncFileRange),
        }
    }
}

/// Those that the evaluation measured.
const PAPER: [Method; 6] =
    [Method::Async, Method::Fsync, Method::Fdatasync, Method::SyncSync, Method::OSync, Method::ODsync];

/// Why a combination cannot be.
fn impossible(method: Method, order: Walk, target: Target) -> Option<&'static str> {
    match (method, order, target) {
        (_, Walk::Interleave | Walk::Random, Target::Append) => Some("a file grows in one order only"),
        (Method::MmapMsync, _, Target::Append) => Some("a mapping cannot grow a file"),
        _ => None,
    }
}

type Combination = (Method, Walk, Target);

impl SyncwriteArgs {
    fn methods(&self) -> Vec<Method> {
        match (self.all, self.methods.is_empty()) {
            (true, _) => Method::value_variants().to_vec(),
            (_, false) => self.methods.clone(),
            _ if self.paper => PAPER.to_vec(),
            _ => PAPER.into_iter().chain([Method::Aio, Method::MmapMsync]).collect(),
        }
    }

    /// What can be, and what cannot be with the reason.
    fn combinations(&self) -> (Vec<Combination>, Vec<(Combination, &'static str)>) {
        let orders = if self.orders.is_empty() { Walk::value_variants() } else { &self.orders };
        let targets = if self.targets.is_empty() { Target::value_variants() } else { &self.targets };
        let (mut possible, mut left_out) = (Vec::new(), Vec::new());
        for &target in targets {
            for &order in orders {
                for method in self.methods() {
                    match impossible(method, order, target) {
                        None => possible.push((method, order, target)),
                        Some(why) => left_out.push(((method, order, target), why)),
                    }
                }
            }
        }
        (possible, left_out)
    }
}

fn words((method, order, target): Combination) -> [String; 3] {
    [method.word(), format!("{order:?}").to_lowercase(), format!("{target:?}").to_lowercase()]
}

impl Classic for SyncwriteArgs {
    fn cells(&self, given: &Given) -> Result<Vec<Cell>, JobError> {
        let own = "choose with --methods, --orders and --targets";
        refuse(given, &[("what", own), ("through", own), ("sync", own), ("order", own), ("layout", own)])?;
        if let (Some(start), Some(end)) = (self.start, self.end) {
            if start > end {
                return Err(JobError(format!("--start {start} is behind --end {end}")));
            }
        }
        let (possible, left_out) = self.combinations();
        if let (true, Some((combination, why))) = (possible.is_empty(), left_out.first()) {
            return Err(JobError(format!(
                "{}: cannot be: {why}; choose other --orders or --targets",
                words(*combination).join(" ")
            )));
        }
        let cell = |combination: Combination| {
            let (method, order, target) = combination;
            let (through, sync) = method.how();
            let mut job = given.over(&Job {
                through,
                sync,
                order: match order {
                    Walk::Sequential => Order::Sequential,
                    Walk::Interleave => Order::Interleave,
                    Walk::Random => Order::Random,
                },
                layout: match target {
                    Target::Append => Layout::Append,
                    Target::Overwrite => Layout::Overwrite,
                },
                block: Bytes(8192),
                interleave: Bytes(if self.paper { 8192 } else { 1 << 20 }),
                operations: (!given.has("time") && !given.has("bytes")).then_some(if self.paper {
                    6144
                } else {
                    1024
                }),
                ..Job::default()
            });
            if let (Some(n), false) = (job.operations, given.has("size")) {
                job.size = Bytes(n.saturating_mul(job.block.0).saturating_add(job.offset.0));
            }
            Cell::of(words(combination).join(" "), job)
        };
        Ok(possible.into_iter().map(cell).collect())
    }

    fn figures(&self, cells: &[CellResult], ticks_per_ns: Option<f64>) -> Vec<Table> {
        self.table(cells, ticks_per_ns, None)
    }

    fn figures_in_turns(&self, cells: &[CellResult], ticks_per_ns: Option<f64>, turn_ns: u64) -> Vec<Table> {
        self.table(cells, ticks_per_ns, Some(turn_ns as f64 / 1e3))
    }

    fn rounds(&self) -> Option<u32> {
        Some(3)
    }

    fn listing(&self) -> Option<(u64, u64)> {
        (self.start.is_some() || self.end.is_some())
            .then(|| (self.start.unwrap_or(0), self.end.unwrap_or(u64::MAX)))
    }
}

impl SyncwriteArgs {
    fn table(&self, cells: &[CellResult], ticks_per_ns: Option<f64>, turn_us: Option<f64>) -> Vec<Table> {
        let mut head: Vec<String> =
            ["<method", "<order", "<target", "writes", "mean us", "min", "max", "p50", "p99"]
                .map(String::from)
                .to_vec();
        head.extend(ticks_per_ns.map(|_| "mean ticks".to_string()));
        head.extend(turn_us.map(|_| "turns".to_string()));
        let mut rounds = Rounds::default();
        let us = |ns: f64| ns / 1000.0;
        let (possible, left_out) = self.combinations();
        let rows = possible.into_iter().filter_map(|combination| {
            let words = words(combination);
            let label = words.join(" ");
            let cell = cells.iter().find(|c| c.label == label)?;
            let of = |figure: fn(&KindResult) -> f64| {
                each(cell, &label, move |j: &JobResult| j.kind("write").map_or(f64::NAN, figure))
            };
            let mean = rounds.median(&label, of(|k| k.latency().mean_ns).map(us));
            let quiet = &mut Rounds::default();
            let p50 = quiet.median("", of(|k| whole(k.latency().p50)).map(us));
            let p99 = quiet.median("", of(|k| whole(k.latency().p99)).map(us));
            let count = of(|k| k.count as f64).sum::<f64>();
            let min = of(|k| whole(k.latency().min)).map(us).filter(|f| f.is_finite()).reduce(f64::min);
            let max = of(|k| whole(k.latency().max)).map(us).filter(|f| f.is_finite()).reduce(f64::max);
            let mut row = words.to_vec();
            row.push(number(Some(count), 0));
            row.extend([mean, min, max, p50, p99].map(|f| number(f, 1)));
            row.extend(ticks_per_ns.map(|rate| number(mean.map(|us| us * 1000.0 * rate), 0)));
            row.extend(turn_us.map(|turn| number(mean.map(|us| us / turn), 2)));
            Some(row)
        });
        let rows = rows.collect();
        let mut notes = vec![
            rounds.note("us"),
            "min and max are those of all rounds; a write's time has its synchronisation in it.".into(),
        ];
        if let Some(turn) = turn_us {
            notes.push(format!(
                "One rotation takes {turn:.1} us, two {:.1}, three {:.1}: a synchronous write waits for whole rotations.",
                2.0 * turn,
                3.0 * turn
            ));
        }
        notes.extend(left_out_note(&left_out));
        notes.extend(failures(cells));
        vec![Table { title: "Synchronous writes, us a write".into(), head, rows, notes }]
    }
}

fn whole(figure: Option<u64>) -> f64 {
    figure.map_or(f64::NAN, |f| f as f64)
}

/// Combinations that are not in the table, by reason.
fn left_out_note(left_out: &[(Combination, &'static str)]) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (combination, why) in left_out {
        let [method, order, target] = words(*combination);
        let name = if *why == "a mapping cannot grow a file" {
            format!("{method} {target}")
        } else {
            format!("{order} {target}")
        };
        match reasons.iter_mut().find(|(w, _)| w == why) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let said: Vec<String> =
        reasons.into_iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
    (!said.is_empty()).then(|| format!("Left out: {}.", said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, given, parse, step};
    use super::*;

    #[test]
    fn the_paper_is_6144_writes_of_8192_bytes() {
        let cells = parse(&["syncwrite", "--paper"]).cells(&Given::default()).expect("cells");
        // Six methods; three orders overwrite, one appends.
        assert_eq!(cells.len(), 6 * 4);
        for cell in &cells {
            let job = &cell.steps[0].jobs[0];
            assert_eq!((job.block, job.operations, job.size), (Bytes(8192), Some(6144), Bytes(48 << 20)));
            assert_eq!((job.seed, job.interleave), (123_456, Bytes(8192)));
        }
        let labels: Vec<_> = cells.iter().map(|c| c.label.as_str()).collect();
        assert!(labels.contains(&"o-dsync random overwrite") && !labels.contains(&"fsync random append"));
        let osync = cells.iter().find(|c| c.label == "o-sync sequential append").expect("a cell");
        assert_eq!(osync.steps[0].jobs[0].sync, SyncMethod::OSync);
    }

    #[test]
    fn every_method_is_a_job_that_can_be() {
        let cells = parse(&["syncwrite", "--all"]).cells(&Given::default()).expect("cells");
        let methods = Method::value_variants().len();
        assert_eq!(cells.len(), methods * 3 + methods - 1);
        assert_eq!(cells[0].steps[0].jobs[0].operations, Some(1024));
    }

    #[test]
    fn given_options_go_over_its_own() {
        let given = given(
            Job { operations: Some(10), block: Bytes(4096), ..Job::default() },
            &["operations", "block"],
        );
        let cells = parse(&["syncwrite", "--methods", "fsync", "--orders", "sequential"])
            .cells(&given)
            .expect("cells");
        let job = &cells[0].steps[0].jobs[0];
        assert_eq!((cells.len(), job.size, job.block), (2, Bytes(40960), Bytes(4096)));
        let nothing = parse(&["syncwrite", "--orders", "random", "--targets", "append"]).cells(&given);
        assert!(nothing.is_err_and(|e| e.0.contains("one order only")));
    }

    #[test]
    fn the_table_has_times_ticks_and_turns() {
        let preset =
            parse(&["syncwrite", "--methods", "fsync,mmap-msync", "--orders", "sequential", "--start", "5"]);
        let cells = preset.cells(&Given::default()).expect("cells");
        assert_eq!(cells.len(), 3);
        let round = |times: &[u64]| {
            let made = step(&cells[0].label, &cells[0].steps[0].jobs[0], 1_000_000_000, &[("write", times)]);
            vec![made]
        };
        let results = [cell(
            &cells[0].label,
            vec![round(&[9_000_000, 15_000_000]), round(&[12_000_000]), round(&[6_000_000])],
        )];
        let table = &preset.figures_in_turns(&results, Some(2.0), 6_000_000)[0];
        assert_eq!(table.rows.len(), 1);
        let row: Vec<&str> = table.rows[0].iter().map(String::as_str).collect();
        assert_eq!(row[..7], ["fsync", "sequential", "append", "4", "12000.0", "6000.0", "15000.0"]);
        assert_eq!(row[9..], ["24000000", "2.00"]);
        assert!(
            table.notes[0].contains("3 rounds") && table.notes[0].contains("6000.0..12000.0 us"),
            "{}",
            table.notes[0]
        );
        assert!(table.notes.iter().any(|n| n.contains("6000.0 us, two 12000.0, three 18000.0")));
        assert!(table.notes.iter().any(|n| n.contains("mmap-msync append (a mapping cannot grow a file)")));
        assert_eq!(preset.listing(), Some((5, u64::MAX)));
    }
}
