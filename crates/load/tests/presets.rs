// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every preset, made small, runs from its command line to its tables.

use clap::Parser;
use plumb_load::clock::Clock;
use plumb_load::files::Ground;
use plumb_load::job::{Bytes, Cache, Cell, Given, Job, Step, Through, Time};
use plumb_load::log::LogReader;
use plumb_load::preset::{ran, Preset};
use plumb_load::result::{CellResult, Table};
use plumb_load::run::{self, Context};
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    preset: Preset,
}

fn preset(words: &str) -> Preset {
    Line::parse_from(std::iter::once("load").chain(words.split(' '))).preset
}

fn given(job: &Job, keys: &[&str]) -> Given {
    Given::of(job, |key| keys.contains(&key))
}

/// Runs the cells once; a step's log, if one is wanted, is called as the step.
fn run(dir: &Path, cells: &[Cell], log: bool) -> Result<Vec<CellResult>, String> {
    let stop = AtomicBool::new(false);
    let clock = Clock::calibrate();
    let one = |(i, cell): (usize, &Cell)| {
        let ground = Ground::Directories(vec![dir.join(format!("cell{i}"))]);
        let one = |step: &Step| {
            let path = dir.join(format!("{}.log", step.label));
            let context = Context {
                ground: &ground,
                clock,
                stop: &stop,
                log: log.then_some(path.as_path()),
                progress: &|_| {},
                run_id: 1,
                environment: None,
            };
            run::step(step, &context).map_err(|e| format!("{}: {e}", cell.label))
        };
        let steps: Result<Vec<_>, String> = cell.steps.iter().map(one).collect();
        steps.map(|steps| CellResult { label: cell.label.clone(), rounds: vec![steps] })
    };
    cells.iter().enumerate().map(one).collect()
}

/// Runs a preset and gives its tables; nothing in it may fail.
fn tables(words: &str, given: &Given) -> Vec<Table> {
    let dir = tempfile::tempdir().expect("a directory");
    let preset = preset(words);
    let cells = preset.cells(given).unwrap_or_else(|e| panic!("{words}: {e}"));
    let before = preset.parameters(&cells);
    let results = run(dir.path(), &cells, false).unwrap_or_else(|e| panic!("{words}, {e}"));
    assert_eq!(preset.parameters(&ran(&results)), before, "{words}");
    for step in results.iter().flat_map(|r| r.rounds.iter().flatten()) {
        for job in &step.jobs {
            assert_eq!(job.failures, Vec::<String>::new(), "{words}, {}", step.label);
            assert_eq!(job.damaged, 0);
        }
    }
    let tables = preset.figures(&results, Some(1.0));
    for table in &tables {
        assert!(!table.rows.is_empty(), "{words}: {}", table.title);
        for row in &table.rows {
            assert_eq!(row.len(), table.head.len(), "{words}: {row:?}");
        }
    }
    tables
}

#[test]
fn syncwrite_runs_each_method_in_each_order() {
    let given = given(
        &Job { operations: Some(8), interleave: Bytes(16384), ..Job::default() },
        &["operations", "interleave"],
    );
    // sync(2) would wait for all that the other tests write.
    let methods =
        "async,fsync,fdatasync,o-sync,o-dsync,mmap-msync,writev-fdatasync,rwf-dsync,sync-file-range";
    let table = &tables(&format!("syncwrite --methods {methods}"), &given)[0];
    assert_eq!(table.rows.len(), 9 * 4 - 1);
    for row in &table.rows {
        assert_eq!(row[3], "8", "{row:?}");
        let figures: Vec<f64> = row[4..9].iter().map(|f| f.parse().unwrap_or(f64::NAN)).collect();
        assert!(figures[1] <= figures[0] && figures[0] <= figures[2], "{row:?}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let aio = preset("syncwrite --methods aio --targets overwrite").cells(&given).expect("cells");
    if let Err(e) = run(dir.path(), &aio[..1], false) {
        println!("SKIP syncwrite's aio: {e}");
        return;
    }
    assert_eq!(tables("syncwrite --methods aio,aio-dsync", &given)[0].rows.len(), 8);
}

#[test]
fn files_runs_iozones_tests() {
    let small = given(&Job { size: Bytes(256 << 10), ..Job::default() }, &["size"]);
    let table = &tables("files -i 0,1,2,3,4,5,6,7,8,9,10,11,12 -e -c", &small)[0];
    assert_eq!(table.head.len(), 2 + 22);
    assert!(
        table.rows[0][2..].iter().all(|kb| kb.parse::<f64>().is_ok_and(|kb| kb > 0.0)),
        "{:?}",
        table.rows
    );
    let mapped = given(
        &Job { size: Bytes(256 << 10), through: Through::Mmap, ..Job::default() },
        &["size", "through"],
    );
    tables("files -i write,read,random -e", &mapped);
    let matrices = tables("files --auto --max-size 128K -i 0", &Given::default());
    assert_eq!(matrices.len(), 2);
    assert_eq!(matrices[0].rows.len(), 2);
    let many = &tables("files --throughput 3 --as threads -i 0,1", &small)[0];
    assert_eq!(many.rows.len(), 4);
    assert!(many.rows.iter().all(|row| row[1] == "3 threads"));
}

#[test]
fn stream_and_meta_run_bonnies_tests() {
    let small = given(&Job { size: Bytes(1 << 20), ..Job::default() }, &["size"]);
    assert_eq!(tables("stream --seeks 60", &small)[0].rows.len(), 6);
    let few =
        given(&Job { files: 40, dirs: 4, block: Bytes(90), ..Job::default() }, &["files", "dirs", "block"]);
    let table = &tables("meta", &few)[0];
    assert_eq!(table.rows.len(), 6);
    assert!(
        table.rows.iter().all(|row| row[1].parse::<f64>().is_ok_and(|rate| rate > 0.0)),
        "{:?}",
        table.rows
    );
}

#[test]
fn create_makes_the_same_names_in_every_pass() {
    let few = given(&Job { files: 1500, ..Job::default() }, &["files"]);
    let dir = tempfile::tempdir().expect("a directory");
    let preset = preset("create --passes 2");
    let cells = preset.cells(&few).expect("cells");
    let results = run(dir.path(), &cells, true).expect("a run");
    let table = &preset.figures(&results, None)[0];
    assert_eq!(
        table.rows.iter().map(|r| (r[0].as_str(), r[1].as_str())).collect::<Vec<_>>(),
        [("A", "1500"), ("B", "1500")]
    );
    let last = dir.path().join("cell0/names/0000001499.txt");
    assert_eq!(std::fs::metadata(&last).expect("the last file").len(), 1);
    let mut log = LogReader::open(&dir.path().join("B.log")).expect("the pass's log");
    let rows: Vec<_> = log.by_ref().collect::<Result<_, _>>().expect("rows");
    let by_thousand = preset.figures_of_log("B", &mut rows.into_iter()).expect("a table");
    assert_eq!(by_thousand.rows.iter().map(|r| r[0].as_str()).collect::<Vec<_>>(), ["1000", "1500"]);
}

#[test]
fn readers_and_threads_and_fileio_run() {
    // Not cold: dropping caches would disturb what else runs here.
    let small =
        given(&Job { size: Bytes(256 << 10), cache: Cache::Fadvise, ..Job::default() }, &["size", "cache"]);
    let table = &tables("readers --readers 3", &small)[0];
    assert_eq!(table.rows.iter().map(|r| r[0].as_str()).collect::<Vec<_>>(), ["64K", "4K"]);
    let table = &tables("threads --thread-counts 1,3 --updates 200", &Given::default())[0];
    assert_eq!(table.rows.len(), 2);
    assert!(!table.notes.iter().any(|n| n.contains("does not lock")), "{:?}", table.notes);
    let short = given(
        &Job { files: 4, operations: Some(120), time: Some(Time(20_000_000_000)), ..Job::default() },
        &["files", "operations", "time"],
    );
    let table = &tables("fileio --total-size 1M", &short)[0];
    assert_eq!(table.rows.len(), 6);
    let of = |mode: &str| table.rows.iter().find(|r| r[0] == mode).expect(mode);
    assert_eq!((of("seqrd")[2].as_str(), of("seqwr")[1].as_str()), ("0.00", "0.00"));
    assert!(of("rndwr")[3].parse::<f64>().is_ok_and(|syncs| syncs > 0.0));
}
