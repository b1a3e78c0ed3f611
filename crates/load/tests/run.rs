// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps with a known answer: exactly so many operations, these bytes, these figures.

use plumb_load::clock::Clock;
use plumb_load::files::Ground;
use plumb_load::job::{Bytes, Job, Layout, Order, Rate, Sharing, Step, SyncMethod, Through, Time, What};
use plumb_load::log::LogReader;
use plumb_load::result::StepResult;
use plumb_load::run::{self, Context, RunError};
use plumb_load::verify::verify;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn run(dir: &Path, jobs: &[Job], log: Option<&Path>) -> Result<StepResult, RunError> {
    let ground = Ground::Directories(vec![dir.to_owned()]);
    let stop = AtomicBool::new(false);
    let context = Context {
        ground: &ground,
        clock: Clock::calibrate(),
        stop: &stop,
        log,
        progress: &|_| {},
        run_id: 7,
        environment: None,
    };
    run::step(&Step { label: "test".into(), jobs: jobs.to_vec() }, &context)
}

fn small() -> Job {
    Job { size: Bytes(64 << 10), ..Job::default() }
}

#[test]
fn one_pass_is_every_block_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let result = run(dir.path(), &[Job { layout: Layout::Append, ..small() }], None).expect("a run");
    let write = result.jobs[0].kind("write").expect("writes");
    assert_eq!((write.count, write.bytes, write.errors, write.short), (16, 64 << 10, 0, 0));
    assert_eq!(write.histogram.count(), 16);
    assert_eq!(std::fs::metadata(dir.path().join("data.0.0")).expect("the file").len(), 64 << 10);
    assert!(!result.interrupted);
}

#[test]
fn workers_do_exactly_what_was_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job {
        processes: 2,
        threads: 3,
        operations: Some(50),
        order: Order::Random,
        sync: SyncMethod::Fdatasync,
        every: 10,
        ..small()
    };
    let result = run(dir.path(), &[job], None).expect("a run");
    let job = &result.jobs[0];
    assert_eq!(job.kind("write").map(|k| k.count), Some(300));
    assert_eq!(job.kind("sync").map(|k| k.count), Some(30));
    assert_eq!(job.workers.len(), 6);
    assert!(job.workers.iter().all(|w| w.operations == 55));
    let pids: std::collections::HashSet<_> = job.workers.iter().map(|w| w.pid).collect();
    assert_eq!(pids.len(), 2, "two processes");
}

#[test]
fn an_open_loop_begins_all_that_is_due() {
    let dir = tempfile::tempdir().expect("a directory");
    let job =
        Job { rate: Some(Rate(200.0)), time: Some(Time(1_000_000_000)), order: Order::Random, ..small() };
    let result = run(dir.path(), &[job], None).expect("a run");
    let schedule = result.jobs[0].schedule.as_ref().expect("a schedule");
    assert_eq!((schedule.due, schedule.never_begun), (200, 0));
    let write = result.jobs[0].kind("write").expect("writes");
    assert_eq!(write.count, 200);
    let (service, response) = (write.service.mean_ns, write.response.as_ref().expect("open").mean_ns);
    assert!(response >= service, "{response} < {service}");
}

#[test]
fn the_log_has_every_operation() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let job = Job { sync: SyncMethod::Fsync, every: 4, stamp: true, threads: 2, ..small() };
    let result = run(dir.path(), &[job], Some(&log)).expect("a run");
    assert_eq!(result.jobs[0].log_waits, 0);
    let mut reader = LogReader::open(&log).expect("a log");
    assert_eq!(reader.head().files.len(), 2);
    assert_eq!(reader.head().run, 7);
    let path = reader.head().files[1].clone();
    let rows: Vec<_> = reader.by_ref().collect::<Result<_, _>>().expect("rows");
    assert!(reader.complete());
    assert_eq!(rows.iter().filter(|r| r.kind.word() == "write").count(), 32);
    assert_eq!(rows.iter().filter(|r| r.kind.word() == "sync").count(), 8);
    let second: Vec<u64> =
        rows.iter().filter(|r| r.worker == 1 && r.kind.word() == "write").map(|r| r.offset).collect();
    assert_eq!(second, (0..16).map(|i| i * 4096).collect::<Vec<_>>());

    // What the log promises is there; a block that is not is named.
    let sound = verify(LogReader::open(&log).expect("a log"), None).expect("verified");
    assert!(sound.sound() && sound.blocks == 32, "{sound:?}");
    let mut bytes = std::fs::read(&path).expect("bytes");
    bytes[8192..12288].fill(0);
    std::fs::write(&path, bytes).expect("lost");
    let lost = verify(LogReader::open(&log).expect("a log"), None).expect("verified");
    assert_eq!((lost.faults.len(), lost.faults[0].offset), (1, 8192), "{lost:?}");
}

#[test]
fn what_is_read_is_checked_against_its_stamps() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = Job { stamp: true, ..small() };
    let read = Job { what: What::Read, ..write.clone() };
    run(dir.path(), &[write], None).expect("written");
    let sound = run(dir.path(), std::slice::from_ref(&read), None).expect("read");
    assert_eq!(sound.jobs[0].damaged, 0);
    let path = dir.path().join("data.0.0");
    let mut bytes = std::fs::read(&path).expect("bytes");
    bytes[5000] ^= 1;
    std::fs::write(&path, bytes).expect("damage");
    let damaged = run(dir.path(), &[read], None).expect("read");
    assert_eq!(damaged.jobs[0].damaged, 1);
}

#[test]
fn what_a_file_was_filled_with_is_no_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let read = Job { what: What::Read, stamp: true, ..small() };
    let fresh = run(dir.path(), std::slice::from_ref(&read), None).expect("read");
    assert_eq!(fresh.jobs[0].damaged, 0, "every block is as it was filled");
    let path = dir.path().join("data.0.0");
    let mut bytes = std::fs::read(&path).expect("bytes");
    bytes[4096 + 512..8192].fill(0);
    bytes.copy_within(8192..12288, 12288);
    std::fs::write(&path, bytes).expect("damage");
    let damaged = run(dir.path(), &[read], None).expect("read");
    assert_eq!(damaged.jobs[0].damaged, 2, "one without some of its stamps, one from elsewhere");
}

#[test]
fn users_of_a_queue_think_before_they_ask_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for through in [Through::Pwrite, Through::IoUring, Through::PosixAio] {
        if let Err(e) = plumb_load::engine::available(through) {
            println!("SKIP users_of_a_queue_think_before_they_ask_again, {through}: {e}");
            continue;
        }
        let job = Job { through, think: Time(20_000_000), time: Some(Time(400_000_000)), ..small() };
        let result = run(dir.path(), &[job], None).expect("a run");
        let count = result.jobs[0].kind("write").expect("writes").count;
        assert!((1..=20).contains(&count), "{through}: {count} with 20 ms between them in 400 ms");
    }
}

#[test]
fn a_job_that_only_reads_promises_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job { what: What::Read, sync: SyncMethod::Fsync, ..small() };
    let result = run(dir.path(), &[job], None).expect("a run");
    assert!(
        !result.verdict.reasons.iter().any(|r| r.sentence.contains("durability")),
        "{:?}",
        result.verdict
    );
}

#[test]
fn a_shared_file_is_divided_and_jobs_run_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let shared = Job { sharing: Sharing::Shared, threads: 4, ..small() };
    let result = run(dir.path(), &[shared.clone(), Job { what: What::Read, ..shared }], None).expect("a run");
    assert_eq!(result.jobs[0].kind("write").map(|k| k.count), Some(16));
    assert_eq!(result.jobs[1].kind("read").map(|k| k.count), Some(16));
}

#[test]
fn an_engine_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job { files: 1, ..small() };
    std::fs::create_dir(dir.path().join("data.0.0")).expect("in the way");
    let said = run(dir.path(), &[job], None).expect_err("a directory is no file").to_string();
    assert!(said.contains("data.0.0"), "{said}");
}

#[test]
fn the_null_engine_does_exactly_so_many() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job { through: Through::Null, what: What::Read, operations: Some(100_000), ..small() };
    let result = run(dir.path(), &[job], None).expect("a run");
    assert_eq!(result.jobs[0].kind("read").map(|k| (k.count, k.bytes)), Some((100_000, 100_000 * 4096)));
}
