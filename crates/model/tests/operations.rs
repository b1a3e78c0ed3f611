// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload's operations over events made by hand: counts, times and parts
//! that can be added up on paper.

use plumb_model::{Model, OperationRow, RunResult, Setup};
use plumb_trace::load::OperationKind;
use plumb_trace::reader::{Gap, Item, Operation, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;

const ME: u32 = 100;
const OTHER: u32 = 200;

/// A model of one process whose thread runs on CPU 0 from time 1000 on.
struct Bench(Model);

impl Bench {
    fn new() -> Self {
        let mut setup = Setup { begin: 1000, end: 100_000, ..Setup::default() };
        let task = |tid, target, comm: &str| StateTask {
            tid,
            tgid: tid,
            target,
            syscall: StateTask::NO_SYSCALL,
            comm: comm.into(),
            ..StateTask::default()
        };
        setup.state.tasks = vec![task(ME, 1, "load"), task(OTHER, 0, "other")];
        let mut bench = Self(Model::new(setup, ()));
        bench.at(1000, 0, SchedSwitch { next_tid: ME, ..Default::default() });
        bench
    }

    fn at<R: Record>(&mut self, ts: u64, tid: u32, record: R) -> &mut Self {
        self.0.feed(Item::Record(RawRecord { ts, id: R::ID, cpu: 0, tid, bytes: record.bytes() }));
        self
    }

    /// From one thread to another: 0 leaves it ready, 1 lets it sleep.
    fn switch(&mut self, ts: u64, tid: u32, prev_state: u32, next_tid: u32) -> &mut Self {
        let preempt = u32::from(prev_state == 0);
        self.at(ts, tid, SchedSwitch { tid, next_tid, prev_state, preempt, ..Default::default() })
    }

    fn begin(&mut self, ts: u64, kind: OperationKind, slot: u16) -> &mut Self {
        let e = LoadBegin { ts, tid: ME, kind: kind.number(), slot, ..Default::default() };
        self.0.feed(Item::Operation(Operation::Begin(e)));
        self
    }

    fn end(&mut self, ts: u64, slot: u16, result: i64) -> &mut Self {
        let e = LoadEnd { ts, tid: ME, slot, result, late: 2, ..Default::default() };
        self.0.feed(Item::Operation(Operation::End(e)));
        self
    }

    fn lost(&mut self) -> &mut Self {
        self.0.feed(Item::Operation(Operation::Lost { tid: ME, lost: 3 }));
        self
    }

    fn finish(self) -> RunResult {
        self.0.finish().0
    }
}

fn row<'a>(result: &'a RunResult, kind: &str) -> &'a OperationRow {
    let p = result.processes.iter().find(|p| p.pid == ME).expect("the process");
    p.operations.iter().find(|o| o.kind == kind).unwrap_or_else(|| panic!("no {kind}: {:?}", p.operations))
}

fn parts(row: &OperationRow) -> Vec<(&str, u64)> {
    row.account.iter().map(|(name, ns)| (name.name(), *ns)).collect()
}

#[test]
fn an_operations_time_goes_to_what_its_thread_was_at() {
    let mut b = Bench::new();
    b.begin(1100, OperationKind::Write, 0).end(1150, 0, 4096);
    // 40 running, 300 put off its CPU, 60 running.
    b.begin(2000, OperationKind::Write, 0).switch(2040, ME, 0, OTHER).switch(2340, OTHER, 1, ME);
    b.end(2400, 0, -5);
    // 10 running, 100 asleep until a timer, 20 until it runs, 5 running.
    b.begin(3000, OperationKind::Sync, 0).switch(3010, ME, 1, 0);
    b.at(3110, 0, LocalTimerEntry::default()).at(3110, 0, SchedWaking { wakee: ME, ..Default::default() });
    b.at(3112, 0, LocalTimerExit::default()).switch(3130, 0, 0, ME).end(3135, 0, 0);
    let result = b.finish();
    let write = row(&result, "write");
    assert_eq!((write.count, write.errors, write.bytes), (2, 1, 4096));
    assert_eq!((write.total, write.max, write.late, write.unfinished), (450, 400, 4000, 0));
    assert_eq!(parts(write), [("preempted", 300), ("running", 150)]);
    assert_eq!((write.accounted, write.overlapping), (450, false));
    let sync = row(&result, "sync");
    assert_eq!(parts(sync), [("running", 15), ("runnable.idle", 20), ("timer", 100)].sorted());
    assert_eq!((sync.count, sync.total, sync.accounted), (1, 135, 135));
    assert_eq!(result.impossible.len(), 0, "{:?}", result.impossible);
}

trait Sorted {
    fn sorted(self) -> Self;
}
impl<const N: usize> Sorted for [(&str, u64); N] {
    fn sorted(mut self) -> Self {
        self.sort_unstable();
        self
    }
}

#[test]
fn several_at_once_share_the_time_oldest_first() {
    let mut b = Bench::new();
    // One alone, then A 2000-2100, B 2030-2170, C 2050-2090.
    b.begin(1500, OperationKind::Read, 0).end(1600, 0, 0);
    b.begin(2000, OperationKind::Write, 0).begin(2030, OperationKind::Sync, 1);
    b.begin(2050, OperationKind::Stat, 2).end(2090, 2, 0).end(2100, 0, 10).end(2170, 1, 0);
    let result = b.finish();
    let of = |kind| {
        let r = row(&result, kind);
        (r.total, r.accounted, r.overlapping)
    };
    assert_eq!(of("read"), (100, 100, false));
    assert_eq!(of("write"), (100, 100, true));
    assert_eq!(of("stat"), (40, 0, true));
    assert_eq!(of("sync"), (140, 70, true));
}

#[test]
fn what_does_not_end_is_counted_and_takes_no_time() {
    let mut b = Bench::new();
    b.begin(2000, OperationKind::Write, 0).begin(3000, OperationKind::Read, 0).end(3100, 0, 1);
    b.end(3200, 5, 1);
    b.begin(4000, OperationKind::Sync, 0);
    let result = b.finish();
    let of = |kind| {
        let r = row(&result, kind);
        (r.count, r.total, r.accounted, r.unfinished)
    };
    assert_eq!(of("write"), (0, 0, 0, 1));
    assert_eq!(of("read"), (1, 100, 100, 0));
    assert_eq!(of("sync"), (0, 0, 0, 1));
    let told: Vec<_> = result.impossible.iter().map(|(what, n)| (what.as_str(), *n)).collect();
    assert_eq!(
        told,
        [("operation begins where another has not ended", 1), ("operation ends that did not begin", 1)]
    );
}

#[test]
fn a_loss_forgets_what_is_open() {
    let mut b = Bench::new();
    b.begin(2000, OperationKind::Write, 0).lost().end(9000, 0, 1);
    b.begin(9100, OperationKind::Write, 0).end(9200, 0, 1);
    let result = b.finish();
    let write = row(&result, "write");
    assert_eq!((write.count, write.total, write.accounted, write.unfinished), (1, 100, 100, 1));
    assert_eq!(result.impossible.len(), 0, "{:?}", result.impossible);
}

#[test]
fn time_in_which_the_kernels_events_are_missing_is_lost_and_the_sum_holds() {
    let mut b = Bench::new();
    b.begin(2000, OperationKind::Write, 0);
    b.0.feed(Item::Gap(Gap { cpu: 0, begin: 2100, end: 2600, lost: 9 }));
    // Nobody knows where the thread is; it says that it goes on.
    b.end(2500, 0, 1).begin(2550, OperationKind::Read, 0);
    b.switch(2700, ME, 1, 0).at(2800, 0, SchedWaking { wakee: ME, ..Default::default() });
    b.switch(2900, 0, 0, ME).end(3000, 0, 1);
    let result = b.finish();
    let (write, read) = (row(&result, "write"), row(&result, "read"));
    assert_eq!(parts(write), [("lost", 400), ("running", 100)]);
    assert_eq!((write.total, read.total, read.accounted), (500, 450, 450));
    assert_eq!(read.account.values().sum::<u64>(), 450, "{read:?}");
}

#[test]
fn a_thread_that_was_never_seen_has_no_operations() {
    let mut b = Bench::new();
    let e = LoadBegin { ts: 2000, tid: 77, ..Default::default() };
    b.0.feed(Item::Operation(Operation::Begin(e)));
    let e = LoadBegin { ts: 2000, tid: u32::MAX, ..Default::default() };
    b.0.feed(Item::Operation(Operation::Begin(e)));
    b.0.feed(Item::Operation(Operation::Lost { tid: u32::MAX, lost: 0 }));
    let result = b.finish();
    assert!(result.processes.iter().all(|p| p.operations.is_empty()));
    assert_eq!(result.impossible["operation of a thread that was not seen"], 2);
}
