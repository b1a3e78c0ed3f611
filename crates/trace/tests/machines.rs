// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace of a machine whose system calls have other numbers is read with those that every reader knows.

use plumb_trace::calls::{self, Call};
use plumb_trace::ctf::Metadata;
use plumb_trace::reader::{Item, Trace};
use plumb_trace::schema::{SchedSwitch, StateEnd, SysEnter, SysExit};
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::Record;
use std::path::Path;

/// openat(2) with O_DIRECT, a switch, and its return, as arm64 numbers them.
fn read(machine: &str) -> Vec<(u32, u64)> {
    let dir = tempfile::tempdir().expect("directory");
    let path: &Path = dir.path();
    let env = [("machine".to_string(), machine.to_string())].into();
    let sink = DirectorySink::create(path, &Metadata { env, ..Metadata::default() }).expect("directory");
    let mut w = TraceWriter::new(sink, 1, 0);
    let enter = SysEnter {
        ts: 10,
        id: SysEnter::ID,
        tid: 7,
        nr: 56,
        arg0: 3,
        arg2: 0o200_000,
        ..SysEnter::default()
    };
    w.record(0, enter.bytes()).expect("record");
    w.record(0, SchedSwitch { ts: 20, id: SchedSwitch::ID, tid: 56, ..SchedSwitch::default() }.bytes())
        .expect("record");
    let exit = SysExit { ts: 30, id: SysExit::ID, tid: 7, nr: 56, ret: 4, ..SysExit::default() };
    w.record(0, exit.bytes()).expect("record");
    w.state(30, &StateEnd { begin: 5, end: 30, ..StateEnd::default() }).expect("state");
    w.flush().expect("flush");
    let mut seen = Vec::new();
    let trace = Trace::open(path).expect("a trace");
    let summary = trace.for_each(|item| {
        let Item::Record(r) = item else { return };
        seen.push(match r.id {
            SysEnter::ID => (SysEnter::read(r.bytes).nr, SysEnter::read(r.bytes).arg2),
            SysExit::ID => (SysExit::read(r.bytes).nr, SysExit::read(r.bytes).ret as u64),
            _ => (r.tid, 0),
        });
    });
    assert!(summary.expect("a trace").damage.is_empty());
    seen
}

#[test]
fn calls_of_arm64_are_those_of_their_names() {
    let openat = Call::openat as u32;
    assert_eq!(calls::name(openat), Some("openat"));
    assert_eq!(read("aarch64"), [(openat, 0o40_000), (56, 0), (openat, 4)]);
    assert_eq!(read("x86_64"), [(56, 0o200_000), (56, 0), (56, 4)]);
    assert_eq!(read(""), read("x86_64"), "a trace that tells no machine is of a reader's own");
}
