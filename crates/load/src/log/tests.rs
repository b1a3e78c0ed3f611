// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was appended is read again, and what is not a whole log is told apart.

use super::*;
use plumb_stats::random::SplitMix64;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn head() -> Head {
    Head {
        job: serde_json::json!({"name": "mixed"}),
        files: vec!["a".into(), "b".into()],
        clock: "tsc".into(),
        run: 0xfeed_beef_dead_cafe,
    }
}

/// Rows as a worker makes them, with an outlier in any field now and then.
fn rows(worker: u32, n: usize, random: &mut SplitMix64) -> Vec<Row> {
    let mut now = 1 << 50;
    (0..n)
        .map(|i| {
            let wild = random.below(50) == 0;
            now += random.below(20_000);
            let begin_ns = if wild { random.next_u64() } else { now + random.below(300) };
            Row {
                worker,
                kind: kind_of(random.below(14) as u8),
                flags: if wild { random.next_u64() as u8 } else { PACED },
                file: if wild { random.next_u64() as u32 } else { 1 },
                intended_ns: now,
                begin_ns,
                end_ns: if wild { random.next_u64() } else { begin_ns + random.below(1 << 20) },
                offset: if wild { random.next_u64() } else { random.below(1 << 18) * 4096 },
                result: if wild { random.next_u64() as i32 } else { 4096 },
                generation: if wild { random.next_u64() } else { i as u64 },
            }
        })
        .collect()
}

fn written(dir: &TempDir, rows: &[Vec<Row>], finish: bool) -> std::path::PathBuf {
    let path = dir.path().join("ops.log");
    let mut log = LogWriter::create(&path, &head()).expect("a new log");
    for (worker, rows) in rows.iter().enumerate() {
        for part in rows.chunks(10_007) {
            log.append(worker as u32, part).expect("append");
        }
    }
    if finish {
        let total: usize = rows.iter().map(Vec::len).sum();
        assert_eq!(log.finish().expect("finish"), total as u64);
    } else {
        log.flush().expect("flush");
    }
    path
}

fn of_worker(all: &[Row], worker: u32) -> Vec<Row> {
    all.iter().filter(|r| r.worker == worker).copied().collect()
}

fn read(path: &Path) -> (Vec<Row>, LogReader) {
    let mut log = LogReader::open(path).expect("a log");
    let rows = log.by_ref().map(|r| r.expect("a row")).collect();
    (rows, log)
}

#[test]
fn rows_are_read_as_they_were_appended() {
    let dir = TempDir::new().expect("a directory");
    let mut random = SplitMix64::new(11);
    let each = [rows(0, 150_000, &mut random), rows(1, 3, &mut random), rows(2, 65_536, &mut random)];
    let path = written(&dir, &each, true);
    let (all, mut log) = read(&path);
    for (worker, rows) in each.iter().enumerate() {
        assert!(&of_worker(&all, worker as u32) == rows, "worker {worker}");
    }
    assert_eq!(log.head(), &head());
    assert!(log.complete() && log.note().is_none());
    assert!(log.next().is_none());
    log.rewind().expect("rewind");
    assert_eq!(log.by_ref().count(), all.len());
    assert!(log.complete());
}

#[test]
fn ordinary_rows_take_few_bytes() {
    let dir = TempDir::new().expect("a directory");
    let mut random = SplitMix64::new(12);
    let n = 100_000;
    let ordinary: Vec<Row> = (0..n)
        .map(|i| {
            let begin_ns = (1 << 50) + i * 10_000;
            Row {
                kind: OperationKind::Read,
                intended_ns: begin_ns,
                begin_ns,
                end_ns: begin_ns + random.below(100_000),
                offset: random.below(1 << 18) * 4096,
                result: 4096,
                ..Row::default()
            }
        })
        .collect();
    let path = written(&dir, &[ordinary], true);
    let length = fs::metadata(path).expect("metadata").len();
    assert!(length < n * 16, "{} bytes a row", length as f64 / n as f64);
}

#[test]
fn a_log_without_rows_is_whole() {
    let dir = TempDir::new().expect("a directory");
    let (all, log) = read(&written(&dir, &[], true));
    assert!(all.is_empty() && log.complete());
}

#[test]
fn a_torn_log_gives_its_whole_chunks_and_a_note() {
    let dir = TempDir::new().expect("a directory");
    let mut random = SplitMix64::new(13);
    let each = [rows(0, CHUNK_ROWS + 500, &mut random)];
    let path = written(&dir, &each, false);
    let (all, log) = read(&path);
    assert_eq!(all.len(), CHUNK_ROWS + 500);
    assert!(!log.complete() && log.note().expect("a note").contains("cut off"));

    let whole = fs::read(&path).expect("bytes");
    for cut in [1, 5, 400, 4000] {
        fs::write(&path, &whole[..whole.len() - cut]).expect("write");
        let (all, log) = read(&path);
        assert!(all == each[0][..CHUNK_ROWS], "{} rows after a cut of {cut}", all.len());
        assert!(log.note().expect("a note").contains("torn"), "{:?}", log.note());
    }
    // What a file system may leave of an append after a crash: zeros.
    let mut zeros = whole[..whole.len() - 4000].to_vec();
    zeros.resize(whole.len() + 9000, 0);
    fs::write(&path, zeros).expect("write");
    let (all, log) = read(&path);
    assert_eq!(all.len(), CHUNK_ROWS);
    assert!(!log.complete() && log.note().is_some());
}

#[test]
fn damage_before_a_whole_chunk_is_an_error_with_its_place() {
    let dir = TempDir::new().expect("a directory");
    let mut random = SplitMix64::new(14);
    let path = written(&dir, &[rows(0, 1000, &mut random), rows(1, 1000, &mut random)], true);
    let whole = fs::read(&path).expect("bytes");
    let first = whole.windows(4).position(|w| w == CHUNK_MAGIC).expect("a chunk");
    for at in [first, first + 8, first + 20, first + 300] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&path, bytes).expect("write");
        let mut log = LogReader::open(&path).expect("the head is whole");
        let error = log.next().expect("an error").expect_err("damage").to_string();
        assert!(error.contains(&format!("byte {first}")), "{error}");
        assert!(log.next().is_none(), "it ends after an error");
    }
}

#[test]
fn no_byte_makes_the_reader_panic_or_lie() {
    let dir = TempDir::new().expect("a directory");
    let mut random = SplitMix64::new(15);
    let each = rows(0, 60, &mut random);
    let path = written(&dir, std::slice::from_ref(&each), true);
    let whole = fs::read(&path).expect("bytes");
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next_u64() as u8;
        bytes.truncate(random.below(2 * whole.len() as u64).max(1) as usize);
        fs::write(&path, &bytes).expect("write");
        let Ok(log) = LogReader::open(&path) else { continue };
        let got: Vec<Row> = log.map_while(Result::ok).collect();
        assert!(got.is_empty() || got == each, "{} rows out of damage", got.len());
    }
}

#[test]
fn other_files_and_versions_are_named() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("other");
    for bytes in [&b""[..], b"PLUMB", b"#!/bin/sh\nexit 0 and more\n"] {
        fs::write(&path, bytes).expect("write");
        let error = LogReader::open(&path).expect_err("no log").to_string();
        assert!(error.contains("other is not a log"), "{error}");
    }
    let log = written(&dir, &[], true);
    let mut bytes = fs::read(&log).expect("bytes");
    bytes[8] = 9;
    fs::write(&log, &bytes).expect("write");
    let error = LogReader::open(&log).expect_err("version 9").to_string();
    assert!(error.contains("version 9") && error.contains("reads version 1"), "{error}");
    bytes[8] = 1;
    bytes[20] ^= 1;
    fs::write(&log, &bytes).expect("write");
    assert!(LogReader::open(&log).expect_err("head").to_string().contains("checksum"));
    let error = LogReader::open(&dir.path().join("none")).expect_err("no file").to_string();
    assert!(error.contains("none"), "{error}");
    assert!(LogWriter::create(&log, &head()).is_err(), "an existing log is not overwritten");
}
