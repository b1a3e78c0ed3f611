// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files with each fault, made by hand, and logs that promise or do not.

use super::*;
use crate::data::{stamp, Stamp};
use crate::log::{Head, LogWriter, Row, DURABLE};
use plumb_stats::random::SplitMix64;
use plumb_trace::load::OperationKind as Kind;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const RUN: u64 = 99;

/// A file, the log of what was done to it, and a clock that ticks by the row.
struct Scene {
    dir: TempDir,
    file: File,
    rows: Vec<Row>,
    now: u64,
}

fn contents(worker: u32, offset: u64, length: u64, generation: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(generation);
    let mut buf: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
    stamp(&mut buf, Stamp { run: RUN, file: 0, worker, offset, generation, sector: 0, length: 0 });
    buf
}

impl Scene {
    /// A file of 64 zero blocks.
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let file = File::create(dir.path().join("data")).expect("a file");
        file.set_len(64 * BLOCK).expect("length");
        Self { dir, file, rows: Vec::new(), now: 1000 }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    fn row(&mut self, row: Row) -> &mut Row {
        self.now += 100;
        self.rows.push(Row { intended_ns: self.now, begin_ns: self.now, end_ns: self.now + 50, ..row });
        self.rows.last_mut().expect("just pushed")
    }

    fn logged(&mut self, block: u64, generation: u64) -> &mut Row {
        let offset = block * BLOCK;
        self.row(Row { kind: Kind::Write, offset, result: BLOCK as i32, generation, ..Row::default() })
    }

    fn stored(&self, block: u64, generation: u64) {
        self.put(block * BLOCK, &contents(0, block * BLOCK, BLOCK, generation));
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset).expect("write");
    }

    fn write(&mut self, block: u64, generation: u64) {
        self.logged(block, generation);
        self.stored(block, generation);
    }

    fn sync(&mut self) {
        self.row(Row { kind: Kind::Sync, flags: DURABLE, ..Row::default() });
    }

    fn log(&self, finish: bool) -> LogReader {
        self.file.sync_all().expect("sync");
        let path = self.dir.path().join("ops.log");
        let _ = fs::remove_file(&path);
        let head = Head { files: vec![self.path()], run: RUN, ..Head::default() };
        let mut log = LogWriter::create(&path, &head).expect("a log");
        for row in &self.rows {
            log.append(row.worker, &[*row]).expect("append");
        }
        if finish {
            log.finish().expect("finish");
        } else {
            log.flush().expect("flush");
        }
        LogReader::open(&path).expect("the log")
    }

    fn verify(&self) -> Verification {
        verify(self.log(false), None).expect("a verification")
    }

    fn only_fault(&self) -> Finding {
        let out = self.verify();
        assert_eq!(out.faults.len(), 1, "{out:?}");
        assert!(!out.sound());
        out.faults[0].clone()
    }
}

#[test]
fn what_was_promised_and_is_there_is_sound() {
    let mut scene = Scene::new();
    for block in 0..20 {
        scene.write(block, block + 1);
    }
    scene.sync();
    scene.write(3, 21);
    let out = scene.verify();
    assert!(out.sound(), "{out:?}");
    assert_eq!((out.blocks, out.promised, out.ok), (20, 20, 20));
    let json = serde_json::to_string(&out).expect("JSON");
    assert!(json.contains("\"ok\":20"), "{json}");
}

#[test]
fn a_lost_write_is_missing_only_when_it_was_durable() {
    let mut scene = Scene::new();
    scene.logged(7, 1);
    assert!(scene.verify().sound(), "nobody synced it");
    scene.sync();
    let fault = scene.only_fault();
    assert_eq!((fault.kind, fault.offset, fault.length), (FaultKind::Missing, 7 * BLOCK, BLOCK));
    assert_eq!((fault.expected, fault.found.as_str()), (Some(1), "zeros"));
    assert_eq!(fault.path, scene.path());
}

#[test]
fn a_write_that_is_durable_by_itself_needs_no_sync() {
    let mut scene = Scene::new();
    scene.logged(7, 1).flags = DURABLE;
    assert_eq!(scene.only_fault().kind, FaultKind::Missing);
}

#[test]
fn a_sync_that_began_before_the_writes_end_promises_nothing() {
    let mut scene = Scene::new();
    scene.logged(7, 1);
    scene.sync();
    let write_end = scene.rows[0].end_ns;
    scene.rows[1].begin_ns = write_end - 1;
    scene.rows[1].intended_ns = write_end - 1;
    assert!(scene.verify().sound());
    scene.rows[1].begin_ns = write_end;
    assert!(!scene.verify().sound());
}

#[test]
fn failed_syncs_and_ranges_promise_nothing() {
    let mut scene = Scene::new();
    scene.logged(1, 1);
    scene.row(Row { kind: Kind::Sync, ..Row::default() });
    scene.row(Row { kind: Kind::Sync, flags: DURABLE, result: -libc::EIO, ..Row::default() });
    // The kernel reports a failed page once: this success does not cover it.
    scene.sync();
    let out = scene.verify();
    assert!(out.sound() && out.promised == 0, "{out:?}");
    assert!(out.notes.iter().any(|n| n.contains("a sync failed")), "{:?}", out.notes);
    scene.logged(2, 2);
    scene.sync();
    assert_eq!(scene.only_fault().offset, 2 * BLOCK);
}

#[test]
fn a_sync_before_the_first_failure_still_counts() {
    let mut scene = Scene::new();
    scene.logged(1, 1);
    scene.sync();
    scene.row(Row { kind: Kind::Sync, flags: DURABLE, result: -libc::EIO, ..Row::default() });
    assert_eq!(scene.only_fault().offset, BLOCK);
}

#[test]
fn an_older_generation_is_a_lost_write_and_a_later_one_is_none() {
    let mut scene = Scene::new();
    scene.write(5, 1);
    scene.logged(5, 2);
    scene.sync();
    let fault = scene.only_fault();
    assert_eq!((fault.kind, fault.expected), (FaultKind::Missing, Some(2)));
    assert!(fault.found.contains("generation 1 of worker 0"), "{}", fault.found);
    scene.stored(5, 3);
    assert!(scene.verify().sound(), "generation 3 is beyond the log's end");
}

#[test]
fn another_workers_write_is_judged_by_its_time() {
    let mut scene = Scene::new();
    scene.logged(5, 9).worker = 1;
    scene.logged(5, 1);
    scene.sync();
    scene.put(5 * BLOCK, &contents(1, 5 * BLOCK, BLOCK, 9));
    let fault = scene.only_fault();
    assert!(fault.found.contains("generation 9 of worker 1"), "{}", fault.found);
    // Side by side with the promised one, either may have come last.
    scene.rows[0].end_ns = scene.rows[1].end_ns;
    assert!(scene.verify().sound());
}

#[test]
fn concurrent_writes_of_one_worker_may_land_in_either_order() {
    let mut scene = Scene::new();
    scene.logged(5, 1);
    scene.logged(5, 2);
    scene.rows[0].end_ns = scene.rows[1].end_ns;
    scene.sync();
    scene.stored(5, 1);
    assert!(scene.verify().sound());
}

#[test]
fn a_torn_block_is_a_fault_when_a_part_is_older_than_promised() {
    let mut scene = Scene::new();
    scene.write(5, 1);
    scene.sync();
    scene.logged(5, 2);
    scene.put(5 * BLOCK, &contents(0, 5 * BLOCK, BLOCK, 2)[..1024]);
    let out = scene.verify();
    assert!(out.sound() && out.torn_under_way == 1, "{out:?}");
    scene.sync();
    let fault = scene.only_fault();
    assert_eq!((fault.kind, fault.expected), (FaultKind::Torn, Some(2)));
    assert!(fault.found.contains("generation 1") && fault.found.contains("generation 2"), "{}", fault.found);
    scene.put(5 * BLOCK + 1024, &[0; 512]);
    assert!(scene.only_fault().found.contains("nothing of this run"));
}

#[test]
fn corrupt_and_misplaced_blocks_are_faults_without_any_promise() {
    let mut scene = Scene::new();
    scene.write(1, 1);
    scene.write(2, 2);
    scene.put(BLOCK + 700, b"!");
    scene.put(2 * BLOCK, &contents(0, 9 * BLOCK, BLOCK, 2));
    let out = scene.verify();
    assert_eq!((out.corrupt, out.misplaced, out.ok), (1, 1, 0), "{out:?}");
    assert!(out.faults[0].found.contains("sector 1"), "{:?}", out.faults);
    assert!(out.faults[1].found.contains("offset 36864"), "{:?}", out.faults);
}

#[test]
fn all_faults_are_counted_and_the_first_listed() {
    let mut scene = Scene::new();
    for block in 0..50 {
        scene.logged(block, block + 1);
    }
    scene.sync();
    let out = scene.verify();
    assert_eq!((out.missing, out.faults.len(), out.faults[0].offset), (50, LISTED, 0));
}

#[test]
fn without_a_crash_every_acknowledged_write_must_be_there() {
    let mut scene = Scene::new();
    scene.write(1, 1);
    scene.logged(1, 2);
    assert!(scene.verify().sound());
    let out = verify_promise(scene.log(true), None, Promise::Acknowledged).expect("a verification");
    assert_eq!((out.missing, out.blocks), (1, 1), "{out:?}");
}

#[test]
fn blocks_of_several_lengths_are_judged_by_their_common_piece() {
    let mut scene = Scene::new();
    let long = contents(0, 0, 4 * BLOCK, 1);
    scene.logged(0, 1).result = 4 * BLOCK as i32;
    scene.put(0, &long);
    scene.write(2, 2);
    scene.sync();
    let out = scene.verify();
    assert!(out.sound() && out.blocks == 4, "{out:?}");
    scene.put(2 * BLOCK, &long[2 * BLOCK as usize..3 * BLOCK as usize]);
    assert_eq!(scene.only_fault().offset, 2 * BLOCK);
}

#[test]
fn a_short_failed_or_discarded_write_is_no_loss() {
    let mut scene = Scene::new();
    scene.logged(1, 1).result = -libc::ENOSPC;
    scene.logged(2, 2);
    scene.row(Row { kind: Kind::Unlink, ..Row::default() });
    scene.write(3, 3);
    scene.sync();
    let out = scene.verify();
    assert!(out.sound() && out.notes.iter().any(|n| n.contains("trimmed")), "{out:?}");
    scene.put(3 * BLOCK, &[0; BLOCK as usize]);
    assert_eq!(scene.only_fault().offset, 3 * BLOCK, "written after the trim");
}

#[test]
fn a_file_that_is_gone_has_lost_everything() {
    let mut scene = Scene::new();
    scene.write(1, 1);
    scene.sync();
    let log = scene.log(false);
    fs::remove_file(scene.path()).expect("remove");
    let out = verify(log, None).expect("a verification");
    assert_eq!(out.missing, 1);
    assert!(
        out.notes.iter().any(|n| n.contains("does not exist"))
            && out.notes.iter().any(|n| n.contains("no end"))
    );
}

#[test]
fn the_target_may_be_elsewhere_now() {
    let mut scene = Scene::new();
    scene.write(1, 1);
    scene.sync();
    let moved = scene.dir.path().join("moved");
    fs::create_dir(&moved).expect("a directory");
    fs::copy(scene.path(), moved.join("data")).expect("copy");
    scene.put(BLOCK, &[0; BLOCK as usize]);
    assert!(!scene.verify().sound());
    assert!(verify(scene.log(true), Some(&moved)).expect("in a directory").sound());
    assert!(verify(scene.log(true), Some(&moved.join("data"))).expect("the file").sound());
}

#[test]
fn a_log_without_stamps_or_with_unknown_files_is_refused() {
    let mut scene = Scene::new();
    scene.logged(1, 0);
    let error = verify(scene.log(true), None).expect_err("no stamps").to_string();
    assert!(error.contains("no write with a stamp"), "{error}");
    scene.logged(1, 1).offset = 100;
    let error = verify(scene.log(true), None).expect_err("unaligned").to_string();
    assert!(error.contains("512"), "{error}");
    scene.logged(1, 1).file = 5;
    let error = verify(scene.log(true), None).expect_err("no file 5").to_string();
    assert!(error.contains("file 5"), "{error}");
}

#[test]
fn blocks_far_apart_and_behind_the_end_are_read() {
    let mut scene = Scene::new();
    for i in 0..40_u64 {
        scene.write(i * 700, i + 1);
    }
    scene.sync();
    assert!(scene.verify().sound());
    scene.file.set_len(39 * 700 * BLOCK + 512).expect("cut");
    let fault = scene.only_fault();
    assert_eq!((fault.kind, fault.offset), (FaultKind::Torn, 39 * 700 * BLOCK));
}

#[test]
fn stamps_alone_show_torn_corrupt_and_misplaced_blocks() {
    let scene = Scene::new();
    let check = || {
        scene.file.sync_all().expect("sync");
        verify_stamps(&scene.path()).expect("a verification")
    };
    assert!(!check().sound(), "nothing to verify");
    for block in 10..20 {
        scene.stored(block, block);
    }
    let out = check();
    assert!(out.sound() && out.blocks == 10, "{out:?}");

    scene.put(12 * BLOCK, &contents(0, 12 * BLOCK, BLOCK, 50)[..512]);
    scene.put(14 * BLOCK + 3584, &[0; 512]);
    scene.put(15 * BLOCK, &[0; 512]);
    scene.put(16 * BLOCK + 600, b"!");
    scene.put(18 * BLOCK, &contents(0, 30 * BLOCK, BLOCK, 60));
    let out = check();
    let kinds: Vec<_> = out.faults.iter().map(|f| (f.kind, f.offset / BLOCK)).collect();
    assert_eq!((out.torn, out.corrupt, out.misplaced), (3, 1, 8), "{kinds:?}");
    assert!([12, 14, 15].iter().all(|&b| kinds.contains(&(FaultKind::Torn, b))), "{kinds:?}");
}

#[test]
fn stamps_alone_take_a_later_or_other_block_across_as_whole() {
    let scene = Scene::new();
    scene.put(0, &contents(0, 0, 8 * BLOCK, 1));
    scene.stored(2, 2);
    scene.put(5 * BLOCK, &contents(1, 5 * BLOCK, BLOCK, 1));
    scene.file.sync_all().expect("sync");
    let out = verify_stamps(&scene.path()).expect("a verification");
    assert!(out.sound() && out.blocks == 3, "{out:?}");
    // The older block's half over a younger one: the younger one is torn.
    scene.put(10 * BLOCK, &contents(0, 10 * BLOCK, 2 * BLOCK, 9));
    scene.put(11 * BLOCK, &contents(0, 11 * BLOCK, BLOCK, 8));
    scene.file.sync_all().expect("sync");
    let out = verify_stamps(&scene.path()).expect("a verification");
    assert_eq!((out.torn, out.faults[0].offset), (1, 10 * BLOCK), "{out:?}");
}
