// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader meets arbitrary bytes: it never panics, and what it hands out
//! is in the order of time. fuzz/ does the same with more kinds of damage.

use plumb_trace::ctf::{Metadata, PacketHead};
use plumb_trace::kernel::KTIME_MAX;
use plumb_trace::load::{LoadStream, OperationKind};
use plumb_trace::reader::{Gap, Item, Operation, Trace};
use plumb_trace::schema::{BlockRqIssue, SchedSwitch, StateClock, StateTask, StateWaitStack};
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::Record;
use proptest::prelude::*;
use std::path::Path;

/// A good trace of two CPUs with `n` records each, a loss in the first.
fn good(dir: &Path, n: u64) {
    let sink = DirectorySink::create(dir, &Metadata::default()).expect("directory");
    let mut w = TraceWriter::new(sink, 2, 1);
    for i in 0..n {
        let ts = 1000 + i * 10;
        if i == n / 2 {
            w.lost(0, 7).expect("loss");
        }
        w.record(0, SchedSwitch { ts, id: SchedSwitch::ID, tid: 1, ..Default::default() }.bytes())
            .expect("record");
        let e = BlockRqIssue { ts: ts + 5, id: BlockRqIssue::ID, cont_id: 0xffff, ..Default::default() };
        w.record(1, e.bytes()).expect("record");
    }
    w.state(1, &StateClock { monotonic: 1, ..Default::default() }).expect("state");
    w.state(2, &StateTask { comm: "name".into(), ..Default::default() }).expect("state");
    w.wait(2, &StateWaitStack::default()).expect("wait");
    w.finish().expect("finish");
    let mut stream = LoadStream::create(dir, 0).expect("created").expect("stream");
    for i in 0..n / 2 {
        stream.begin(1000 + i * 20, OperationKind::Read, 0, 0, 0);
        stream.end(1010 + i * 20, 0, 1, 0);
    }
    stream.finish().expect("written");
    // A name that does not depend on who we are.
    std::fs::rename(dir.join(format!("load_{}_0", std::process::id())), dir.join("load_1_0"))
        .expect("rename");
}

fn read(dir: &Path) -> Option<(u64, u64, usize)> {
    let trace = Trace::open(dir).ok()?;
    let mut last = 0;
    let summary = trace
        .for_each(|item| {
            let ts = match item {
                Item::Record(r) => {
                    assert_eq!(r.bytes.len() % 32, 0);
                    r.ts
                }
                Item::Operation(Operation::Begin(e)) => e.ts,
                Item::Operation(Operation::End(e)) => e.ts,
                _ => return,
            };
            assert!(ts >= last, "time goes back");
            last = ts;
        })
        .ok()?;
    Some((summary.records, summary.lost(), summary.damage.len()))
}

#[test]
fn a_good_trace_comes_back_whole() {
    let dir = tempfile::tempdir().expect("directory");
    good(dir.path(), 5000);
    assert_eq!(read(dir.path()), Some((10_000, 7, 0)));
    let trace = Trace::open(dir.path()).expect("trace");
    assert_eq!(trace.state.tasks[0].comm, "name");
}

#[test]
fn records_that_an_interrupt_swapped_are_put_in_order() {
    let dir = tempfile::tempdir().expect("directory");
    let sink = DirectorySink::create(dir.path(), &Metadata::default()).expect("directory");
    let mut w = TraceWriter::new(sink, 1, 1);
    for ts in [10u64, 20, 40, 30, 50, 45, 44, 60] {
        w.record(0, SchedSwitch { ts, id: SchedSwitch::ID, ..Default::default() }.bytes()).expect("record");
        if ts % 4 == 0 {
            let e = BlockRqIssue { ts, id: BlockRqIssue::ID, cont_id: 0xffff, ..Default::default() };
            w.record(0, e.bytes()).expect("record");
        }
    }
    w.finish().expect("finish");
    assert_eq!(read(dir.path()), Some((12, 0, 0)));
}

#[test]
fn a_long_row_of_damaged_packets_is_left_out_in_one_gap() {
    let dir = tempfile::tempdir().expect("directory");
    good(dir.path(), 3);
    let packet = |ts: u64, id: u16| {
        let size = 96;
        let head = PacketHead { begin: ts, end: ts, content: size, size, ..PacketHead::default() };
        let mut bytes = head.encode().to_vec();
        bytes.extend(SchedSwitch { ts, id, ..Default::default() }.bytes());
        bytes
    };
    let mut bytes = packet(5, SchedSwitch::ID);
    (0..100_000).for_each(|i| bytes.extend(packet(10 + i, 0x1ff)));
    bytes.extend(packet(200_000, SchedSwitch::ID));
    std::fs::write(dir.path().join("cpu_0"), bytes).expect("written");
    std::fs::remove_file(dir.path().join("cpu_1")).expect("removed");
    let trace = Trace::open(dir.path()).expect("trace");
    let summary = trace.for_each(|_| {}).expect("read");
    assert_eq!((summary.records, summary.damage.len()), (2, 100_000));
    assert_eq!(summary.gaps[0], Gap { cpu: 0, begin: 5, end: 100_009, lost: 0 });
}

#[test]
fn a_time_that_no_kernel_has_is_damage() {
    let head = |end| PacketHead { begin: 1, end, content: 64, size: 64, ..PacketHead::default() };
    assert!(PacketHead::decode(&head(KTIME_MAX).encode()).is_ok());
    assert!(PacketHead::decode(&head(KTIME_MAX + 1).encode()).is_err_and(|e| e.contains("clock")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn spoiled_bytes_never_panic(
        file in 0usize..6,
        spots in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().expect("directory");
        good(dir.path(), 300);
        let path = dir.path().join(["cpu_0", "cpu_1", "state", "waits", "metadata", "load_1_0"][file]);
        let mut bytes = std::fs::read(&path).expect("file");
        for (at, value) in spots {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            let at = cut.index(bytes.len());
            bytes.truncate(at);
        }
        std::fs::write(&path, bytes).expect("spoil");
        read(dir.path());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let dir = tempfile::tempdir().expect("directory");
        good(dir.path(), 3);
        for file in ["cpu_0", "state", "waits", "load_1_0"] {
            std::fs::write(dir.path().join(file), &bytes).expect("write");
        }
        read(dir.path());
    }
}
