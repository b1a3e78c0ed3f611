// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of a workload's threads: through the streams and back.

use plumb_trace::ctf::{Metadata, HEAD_BYTES};
use plumb_trace::load::{cut_torn, LoadStream, OperationKind};
use plumb_trace::reader::{Item, Operation, Summary, Trace};
use plumb_trace::schema::SchedSwitch;
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::{Record, SCHEMA_HASHES};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A trace with a record of CPU 0 every 100 ns from 1000 on.
fn trace(dir: &Path, records: u64) {
    let sink = DirectorySink::create(dir, &Metadata::default()).expect("directory");
    let mut w = TraceWriter::new(sink, 1, 1);
    for i in 0..records {
        let e = SchedSwitch { ts: 1000 + i * 100, id: SchedSwitch::ID, ..Default::default() };
        w.record(0, e.bytes()).expect("record");
    }
    w.finish().expect("finish");
}

/// `n` operations of 50 ns, one every 100 ns from 1000 on.
fn tell(dir: &Path, worker: u32, n: u64) {
    let mut stream = LoadStream::create(dir, worker).expect("created").expect("of this schema");
    for i in 0..n {
        stream.begin(1000 + i * 100, OperationKind::Sync, 3, worker + 7, i);
        stream.end(1050 + i * 100, 3, i as i64, i * 1000);
    }
    stream.finish().expect("written");
}

fn load_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("directory")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("load_")))
        .collect();
    files.sort();
    files
}

/// Operations in the order of the trace, with the records of CPUs between as `None`.
fn read(dir: &Path) -> (Vec<Option<Operation>>, Summary) {
    let mut items = Vec::new();
    let summary = Trace::open(dir)
        .expect("trace")
        .for_each(|item| match item {
            Item::Operation(o) => items.push(Some(o)),
            Item::Record(_) => items.push(None),
            other => panic!("{other:?}"),
        })
        .expect("readable");
    (items, summary)
}

#[test]
fn operations_come_back_between_the_records_of_the_cpus() {
    let dir = tempfile::tempdir().expect("directory");
    trace(dir.path(), 3000);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let dir = dir.path();
            scope.spawn(move || tell(dir, worker, 3000));
        }
    });
    let (items, summary) = read(dir.path());
    assert_eq!((summary.records, summary.operations, summary.operations_lost), (3000, 12_000, 0));
    assert_eq!((summary.damage.len(), summary.gaps.len()), (0, 0));
    // Each 100 ns: the kernel's record, two begins of the same time, two ends.
    for (i, five) in items.chunks(5).enumerate() {
        let i = i as u64;
        assert!(five[0].is_none(), "{five:?}");
        let mut tids = Vec::new();
        for begin in &five[1..3] {
            let Some(Operation::Begin(e)) = begin else { panic!("{five:?}") };
            assert_eq!((e.ts, e.kind, e.slot, e.offset), (1000 + i * 100, 4, 3, i));
            assert!(e.tid != std::process::id() && [7, 8].contains(&e.file), "{e:?}");
            tids.push(e.tid);
        }
        assert_ne!(tids[0], tids[1]);
        for (end, tid) in five[3..].iter().zip(&tids) {
            let Some(Operation::End(e)) = end else { panic!("{five:?}") };
            assert_eq!((e.ts, e.slot, e.result, u64::from(e.late)), (1050 + i * 100, 3, i as i64, i));
            assert_eq!(e.tid, *tid);
        }
    }
    // More than one packet each, none above its length.
    for file in load_files(dir.path()) {
        assert!(file.metadata().expect("file").len() > 2 * 65536);
    }
}

#[test]
fn babeltrace_reads_them_and_sees_as_many() {
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        println!("SKIP babeltrace_reads_them_and_sees_as_many: 'babeltrace2' is not installed (make deps)");
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    trace(dir.path(), 100);
    tell(dir.path(), 0, 3000);
    // A stream that nothing was written to: its thread was killed early.
    std::fs::write(dir.path().join("load_1_9"), []).expect("empty");
    let out = Command::new("babeltrace2").arg(dir.path()).output().expect("runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{errors}");
    assert_eq!(out.stdout.iter().filter(|b| **b == b'\n').count(), 100 + 6000);
}

#[test]
fn a_slow_workload_writes_a_packet_every_second() {
    let dir = tempfile::tempdir().expect("directory");
    trace(dir.path(), 1);
    let mut stream = LoadStream::create(dir.path(), 0).expect("created").expect("stream");
    for i in 0..5 {
        stream.begin(i * 600_000_000, OperationKind::Read, 0, 0, 0);
        stream.end(i * 600_000_000 + 500_000_000, 0, 1, 0);
    }
    // Not finished, as if it were killed.
    let (items, _) = read(dir.path());
    assert_eq!(items.iter().flatten().count(), 2 * 4);
    drop(stream);
}

/// A stream whose process is gone, its last packet torn `cut` bytes before its end.
fn torn(dir: &Path, operations: u64, cut: u64) -> PathBuf {
    trace(dir, 1);
    tell(dir, 0, operations);
    let alive = load_files(dir).remove(0);
    // No process has the greatest id that there can be.
    let gone = dir.join(format!("load_{}_0", 1 << 22));
    std::fs::rename(&alive, &gone).expect("rename");
    let file = std::fs::File::options().write(true).open(&gone).expect("open");
    file.set_len(file.metadata().expect("file").len() - cut).expect("cut");
    gone
}

#[test]
fn a_torn_packet_is_damage_and_what_is_open_is_forgotten() {
    let dir = tempfile::tempdir().expect("directory");
    torn(dir.path(), 1500, 10);
    let (items, summary) = read(dir.path());
    assert_eq!((summary.operations, summary.damage.len()), (2046, 1), "{:?}", summary.damage);
    assert!(matches!(items.last(), Some(Some(Operation::Lost { lost: 0, tid: 1.. }))), "{:?}", items.last());
    assert_eq!(summary.gaps, [], "no CPU lost anything");
}

#[test]
fn a_torn_packet_is_cut_and_its_events_are_counted_as_lost() {
    let dir = tempfile::tempdir().expect("directory");
    let file = torn(dir.path(), 1500, 10);
    let torn_packet = 2 * (1500 - 1023);
    assert_eq!(cut_torn(dir.path()).expect("cut"), torn_packet);
    let whole_packet = HEAD_BYTES + 2 * 1023 * 32;
    assert_eq!(file.metadata().expect("file").len(), (whole_packet + HEAD_BYTES) as u64);
    let (items, summary) = read(dir.path());
    assert_eq!((summary.operations, summary.operations_lost), (2046, torn_packet));
    assert_eq!(summary.damage, []);
    assert!(matches!(items.last(), Some(Some(Operation::Lost { lost, .. })) if *lost == torn_packet));
    assert_eq!(cut_torn(dir.path()).expect("again"), 0, "a whole file stays");
    // The head itself is torn: nobody knows how many there were.
    let length = file.metadata().expect("file").len();
    std::fs::File::options().write(true).open(&file).and_then(|f| f.set_len(length - 1)).expect("cut");
    assert_eq!(cut_torn(dir.path()).expect("cut"), 0);
    assert_eq!(file.metadata().expect("file").len(), length - 64);
}

#[test]
fn the_stream_of_a_living_process_is_not_cut() {
    let dir = tempfile::tempdir().expect("directory");
    trace(dir.path(), 1);
    tell(dir.path(), 0, 10);
    let file = load_files(dir.path()).remove(0);
    let length = file.metadata().expect("file").len() - 5;
    std::fs::File::options().write(true).open(&file).and_then(|f| f.set_len(length)).expect("cut");
    assert_eq!(cut_torn(dir.path()).expect("nothing to do"), 0);
    assert_eq!(file.metadata().expect("file").len(), length);
}

#[test]
fn traces_of_the_first_generation_are_read() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let first = format!("{:016x}", SCHEMA_HASHES[0]);
    let mut old = 0;
    for dir in std::fs::read_dir(traces).expect("tests/traces").map(|e| e.expect("entry").path()) {
        if !dir.join("metadata").exists() {
            continue;
        }
        let trace = Trace::open(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        if trace.metadata.env["plumb_schema"] == first {
            old += 1;
            let summary = trace.for_each(|_| {}).expect("readable");
            assert!(summary.records > 0 && summary.damage.is_empty(), "{}", dir.display());
        }
    }
    assert!(old > 0, "one at least");
}

#[test]
fn a_trace_of_another_schema_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    trace(dir.path(), 1);
    let path = dir.path().join("metadata");
    let ours = format!("{:016x}", SCHEMA_HASHES[SCHEMA_HASHES.len() - 1]);
    let text = std::fs::read_to_string(&path).expect("metadata").replace(&ours, "00000000deadbeef");
    std::fs::write(&path, text).expect("metadata");
    let e = Trace::open(dir.path()).expect_err("another schema").to_string();
    assert!(e.contains("00000000deadbeef") && e.contains(&ours), "{e}");
    assert!(LoadStream::create(dir.path(), 0).expect("readable").is_none());
}
