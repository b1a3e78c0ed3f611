// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each machine on a short trace whose items can be counted by hand.

use super::*;
use plumb_trace::kernel::{dev, req};
use plumb_trace::reader::{Gap, RawRecord, Told};
use plumb_trace::schema::*;
use plumb_trace::Record;

/// A view fed by hand.
struct Bench {
    viewer: Viewer,
    found: Vec<Sample>,
}

impl Bench {
    fn new(name: &str) -> Self {
        Self::with(name, &State::default(), Filter { to: u64::MAX, ..Default::default() })
    }

    fn with(name: &str, state: &State, filter: Filter) -> Self {
        Self { viewer: Viewer::new(Spec::find(name).expect("view"), state, filter), found: Vec::new() }
    }

    fn feed(&mut self, item: &Item<'_>) {
        let found = &mut self.found;
        self.viewer.feed(item, &mut |s, _| found.push(*s));
    }

    fn at<R: Record>(&mut self, ts: u64, cpu: u32, tid: u32, record: R) -> &mut Self {
        self.feed(&Item::Record(RawRecord { ts, id: R::ID, cpu, tid, bytes: record.bytes() }));
        self
    }

    /// A switch; `state` 0 is a preemption.
    fn switch(&mut self, ts: u64, cpu: u32, tid: u32, state: u32, next_tid: u32) -> &mut Self {
        let preempt = u32::from(state == 0);
        self.at(ts, cpu, tid, SchedSwitch { next_tid, prev_state: state, preempt, ..Default::default() })
    }

    fn waking(&mut self, ts: u64, wakee: u32) -> &mut Self {
        self.at(ts, 0, 0, SchedWaking { wakee, ..Default::default() })
    }

    /// Kind, begin, end and value of everything found.
    fn items(&self) -> Vec<(&'static str, u64, u64, u64)> {
        self.found.iter().map(|s| (s.kind, s.begin, s.end, s.value)).collect()
    }

    fn values(&self, kind: &str) -> Vec<u64> {
        self.found.iter().filter(|s| s.kind == kind).map(|s| s.value).collect()
    }
}

/// Thread 7 sleeps, is woken, is preempted, and sleeps again as its wakeup overtakes it.
fn absences(name: &str) -> Bench {
    let mut b = Bench::new(name);
    b.switch(100, 0, 7, 1, 8).waking(150, 7).waking(155, 7).switch(170, 0, 8, 2, 7);
    b.switch(200, 0, 7, 0, 9).switch(230, 0, 9, 1, 7);
    b.waking(240, 7).switch(250, 0, 7, 1, 0).switch(255, 0, 0, 0, 7);
    b
}

#[test]
fn off_the_cpu_is_asleep_and_ready() {
    let ready =
        [("wait for a CPU", 150, 170, 20), ("wait for a CPU", 200, 230, 30), ("wait for a CPU", 250, 255, 5)];
    assert_eq!(absences("runqueue").items(), ready);
    assert_eq!(absences("waitqueue").items(), [("sleep", 100, 150, 50), ("sleep", 250, 250, 0)]);
    let b = absences("waittime");
    assert_eq!(b.values("off the CPU"), [70, 30, 5]);
    assert!(b.found.iter().all(|s| s.parts[0] + s.parts[1] == s.value));
    let b = absences("runqueue");
    let instead: Vec<u64> = b.found.iter().map(|s| s.get(Key::Instead)).collect();
    assert_eq!(instead, [8, 9, 0]);
}

#[test]
fn an_absence_whose_begin_or_wakeup_is_not_known_is_no_item() {
    let mut b = Bench::new("waittime");
    // Never seen before; then asleep and not woken; then its events are lost.
    b.switch(10, 0, 1, 1, 7).switch(20, 0, 7, 1, 1).switch(30, 0, 1, 1, 7).switch(40, 0, 7, 1, 1);
    b.waking(50, 7);
    b.feed(&Item::Gap(Gap { cpu: 1, begin: 50, end: 60, lost: 3 }));
    b.switch(70, 0, 1, 1, 7);
    assert_eq!(b.items(), []);
    // A new holder of the id has nothing to do with the old one's sleep.
    b.switch(80, 0, 7, 1, 1).at(90, 0, 1, SchedFork { child_tid: 7, child_tgid: 7, ..Default::default() });
    b.at(91, 0, 1, SchedWakeupNew { wakee: 7, ..Default::default() }).switch(95, 0, 1, 1, 7);
    assert_eq!(b.items(), [("off the CPU", 91, 95, 4)]);
    assert_eq!(Key::Type.label(b.found[0].get(Key::Type), &b.viewer.names), "new");
}

#[test]
fn a_mutex_that_begins_twice_is_one_wait_with_its_time_off_the_cpu() {
    let state = State {
        stacks: vec![StateStack {
            stack: 3,
            text: "schedule;__mutex_lock;ext4_x;vfs_y".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut b = Bench::with("spinlock", &state, Filter { to: u64::MAX, ..Default::default() });
    let begin = |lock, flags| ContentionBegin { lock, flags, ..Default::default() };
    let end = |lock| ContentionEnd { lock, ..Default::default() };
    b.feed(&Item::Told(&Told::Wait(StateWaitStack { end: 160, waiter: 7, stack: 3 })));
    b.at(100, 0, 7, begin(0xa, 33)).at(110, 0, 7, begin(0xa, 32));
    b.at(112, 0, 7, begin(0xb, 0)).at(115, 0, 7, end(0xb));
    b.switch(120, 0, 7, 2, 0).switch(160, 0, 0, 0, 7).at(170, 0, 7, end(0xa)).at(180, 0, 7, end(0xa));
    assert_eq!(b.items(), [("wait for a lock", 112, 115, 3), ("wait for a lock", 100, 170, 70)]);
    assert_eq!(b.found[1].parts, [40, 30]);
    let label = |n: usize, key: Key| key.label(b.found[n].get(key), &b.viewer.names);
    assert_eq!((label(0, Key::Type), label(1, Key::Type)), ("spinlock".into(), "mutex".into()));
    assert_eq!(label(1, Key::Site), "ext4_x < vfs_y");
}

#[test]
fn idle_threads_of_two_cpus_wait_for_a_lock_each_for_itself() {
    let mut b = Bench::new("spinlock");
    let begin = ContentionBegin { lock: 1, ..Default::default() };
    let end = ContentionEnd { lock: 1, ..Default::default() };
    b.at(10, 0, 0, begin).at(12, 1, 0, begin).at(15, 0, 0, end).at(20, 1, 0, end);
    assert_eq!(b.values("wait for a lock"), [5, 8]);
}

#[test]
fn interrupts_are_counted_without_those_on_top_of_them() {
    let mut b = Bench::new("cpu");
    b.switch(100, 0, 0, 0, 7);
    b.at(110, 0, 7, SoftirqEntry { vec: 3, ..Default::default() });
    b.at(112, 0, 7, IrqHandlerEntry { irq: 24, ..Default::default() });
    b.at(115, 0, 7, IrqHandlerExit { irq: 24, ..Default::default() });
    b.at(120, 0, 7, SoftirqExit { vec: 3, ..Default::default() });
    b.switch(150, 0, 7, 1, 8).switch(200, 0, 8, 1, 0);
    assert_eq!(b.values("interrupt"), [3, 7]);
    assert_eq!((b.values("run"), b.values("busy")), (vec![50, 50], vec![100]));
    let busy = b.found.iter().find(|s| s.kind == "busy").expect("busy");
    assert_eq!(busy.parts, [10, 90]);
    let irqs: Vec<String> =
        b.found[..2].iter().map(|s| Key::Irq.label(s.get(Key::Irq), &b.viewer.names)).collect();
    assert_eq!(irqs, ["irq 24", "softirq net_rx"]);
    // Thread 9 leaves, and the switch to it was not told: its run has no begin.
    b.switch(210, 0, 0, 0, 7).switch(220, 0, 9, 1, 0);
    assert_eq!(b.values("run").len(), 2);
}

const DEV: u32 = dev::new(8, 0);

impl Bench {
    fn queue(&mut self, ts: u64, bio: u64, sector: u64, len: u32) -> &mut Self {
        self.at(ts, 0, 7, BlockBioQueue { dev: DEV, opf: 1, sector, bio, len, ..Default::default() })
    }
    fn got(&mut self, ts: u64, bio: u64) -> &mut Self {
        self.at(ts, 0, 7, BlockGetrq { dev: DEV, bio, ..Default::default() })
    }
    fn insert(&mut self, ts: u64, rq: u64, bio: u64, sector: u64, len: u32) -> &mut Self {
        self.at(ts, 0, 7, BlockRqInsert { dev: DEV, opf: 1, sector, rq, len, bio, ..Default::default() })
    }
    fn issue(&mut self, ts: u64, rq: u64, bio: u64, sector: u64, len: u32) -> &mut Self {
        self.at(ts, 0, 9, BlockRqIssue { dev: DEV, opf: 1, sector, rq, len, bio, ..Default::default() })
    }
    fn complete(&mut self, ts: u64, rq: u64, bio: u64, left: u32) -> &mut Self {
        self.at(ts, 0, 0, BlockRqComplete { dev: DEV, opf: 1, rq, bio, left, ..Default::default() })
    }
}

/// A request with a bio merged at its end and one at its front, requeued once, done in two parts.
fn merged(name: &str) -> Bench {
    let mut b = Bench::new(name);
    b.queue(100, 1, 80, 4096).got(105, 1);
    b.queue(110, 2, 88, 4096).at(112, 0, 7, BlockBioBackmerge { bio: 2, dev: DEV, ..Default::default() });
    b.insert(120, 50, 1, 80, 8192);
    b.queue(130, 3, 72, 4096).at(131, 0, 7, BlockBioFrontmerge { bio: 3, dev: DEV, ..Default::default() });
    b.issue(150, 50, 3, 72, 12288);
    b.at(155, 0, 9, BlockRqRequeue { rq: 50, dev: DEV, ..Default::default() });
    b.insert(156, 50, 3, 72, 12288).issue(160, 50, 3, 72, 12288);
    b.complete(190, 50, 3, 8192).complete(200, 50, 1, 0);
    b
}

#[test]
fn a_merged_request_is_one_request_and_three_bios() {
    let b = merged("buffer");
    assert_eq!(b.items(), [("arrival to completion", 100, 200, 100)]);
    assert_eq!(b.found[0].parts, [60, 40]);
    let b = merged("btt");
    assert_eq!((b.values("Q2G"), b.values("Q2M")), (vec![5], vec![2, 1]));
    assert_eq!((b.values("G2I"), b.values("I2D")), (vec![15], vec![30]));
    let sorted = |kind: &str| {
        let mut v = b.values(kind);
        v.sort_unstable();
        v
    };
    assert_eq!((sorted("M2D"), sorted("D2C"), sorted("Q2C")), (vec![19, 38], vec![40; 3], vec![70, 90, 100]));
    assert_eq!((b.values("blocks of a D"), b.values("waiting at Q")), (vec![24], vec![0, 1, 2]));
    assert_eq!(b.values("Q seek"), [0, 16]);
}

#[test]
fn slots_in_use_are_counted_until_their_request_completes_or_merges() {
    let mut b = Bench::new("blkqueue");
    b.queue(1, 1, 0, 4096).got(2, 1).queue(3, 2, 8, 4096).got(4, 2).queue(5, 3, 64, 4096).got(6, 3);
    b.insert(7, 51, 1, 0, 4096).insert(8, 52, 2, 8, 4096).insert(9, 53, 3, 64, 4096);
    // The second joins the first: one slot is free again.
    b.at(10, 0, 7, BlockRqMerge { rq: 52, dev: DEV, ..Default::default() });
    b.queue(11, 4, 128, 4096).got(12, 4);
    b.issue(13, 51, 1, 0, 8192).complete(14, 51, 1, 0);
    b.queue(15, 5, 200, 4096).got(16, 5);
    assert_eq!(b.values("requests"), [1, 2, 3, 3, 3]);
}

#[test]
fn a_split_bio_and_a_flush_have_their_arrival() {
    let mut b = Bench::new("buffer");
    b.queue(100, 1, 0, 8192);
    b.at(
        101,
        0,
        7,
        BlockSplit { dev: DEV, opf: 1, sector: 8, bio: 2, len: 4096, parent: 1, ..Default::default() },
    );
    b.got(102, 2).got(103, 1).issue(110, 50, 2, 0, 4096).issue(111, 51, 1, 8, 4096);
    b.complete(120, 50, 2, 0).complete(130, 51, 1, 0);
    // A flush without data, for which the kernel issues one of its own.
    let flush = BlockBioQueue { dev: DEV, opf: req::WRITE | req::PREFLUSH, bio: 9, ..Default::default() };
    b.at(140, 0, 7, flush)
        .got(141, 9)
        .issue(145, 60, 0, 0, 0)
        .complete(150, 60, 0, 0)
        .complete(151, 61, 9, 0);
    assert_eq!(b.values("arrival to completion"), [20, 30, 11]);
    let operations: Vec<u64> = b.found.iter().map(|s| s.get(Key::Operation)).collect();
    assert_eq!(operations, [1, 1, 2]);
}

#[test]
fn a_packet_is_followed_from_the_interrupt_to_its_receiver() {
    let mut b = Bench::new("netroute");
    b.at(100, 0, 0, IrqHandlerEntry { irq: 5, ..Default::default() });
    b.at(104, 0, 0, SoftirqEntry { vec: 3, ..Default::default() });
    b.at(110, 0, 0, NetifReceiveSkb { skb: 1, len: 60, ifindex: 2, ..Default::default() });
    b.waking(115, 7);
    b.at(116, 0, 0, NetifReceiveSkb { skb: 2, len: 60, ifindex: 2, ..Default::default() });
    b.at(118, 0, 0, SoftirqExit { vec: 3, ..Default::default() });
    // Woken by something else: no packet's business.
    b.waking(119, 8);
    b.switch(120, 0, 0, 0, 7).switch(130, 0, 7, 1, 8);
    let expected = [
        ("interrupt to softirq", 100, 104, 4),
        ("softirq to receive", 104, 110, 6),
        ("receive to wakeup", 110, 115, 5),
        ("softirq to receive", 110, 116, 6),
        ("wakeup to running", 115, 120, 5),
    ];
    assert_eq!(b.items(), expected);
}

#[test]
fn a_packet_that_is_queued_on_two_interfaces_is_two_items() {
    let mut b = Bench::new("netsend");
    let queue = |ifindex| NetDevQueue { skb: 1, len: 60, ifindex, ..Default::default() };
    let xmit = |ifindex| NetDevStartXmit { skb: 1, len: 60, ifindex, ..Default::default() };
    b.at(10, 0, 7, queue(4)).at(12, 0, 7, queue(2)).at(15, 0, 7, xmit(2)).at(16, 0, 7, xmit(4));
    b.at(20, 0, 7, xmit(4));
    assert_eq!(b.values("queue to driver"), [3, 6]);
}

#[test]
fn the_filter_takes_what_ends_in_the_window_of_whom_was_asked_for() {
    let task = |tid, tgid, comm: &str| StateTask {
        tid,
        tgid,
        comm: comm.into(),
        syscall: StateTask::NO_SYSCALL,
        ..Default::default()
    };
    let state = State { tasks: vec![task(7, 5, "db"), task(8, 8, "other")], ..Default::default() };
    let count = |filter: Filter| {
        let mut b = Bench::with("runqueue", &state, filter);
        b.switch(10, 0, 7, 0, 8).switch(20, 0, 8, 0, 7).switch(30, 0, 7, 0, 8).switch(40, 0, 8, 0, 7);
        b.items().iter().map(|i| i.2).collect::<Vec<_>>()
    };
    let all = Filter { to: u64::MAX, ..Default::default() };
    assert_eq!(count(all.clone()), [20, 30, 40]);
    assert_eq!(count(Filter { from: 20, to: 30, ..all.clone() }), [20, 30]);
    assert_eq!(count(Filter { pids: vec![5], ..all.clone() }), [20, 40]);
    assert_eq!(count(Filter { comms: vec!["other".into()], ..all.clone() }), [30]);
    assert_eq!(count(Filter { devices: vec![1], ..all }), [] as [u64; 0]);
}

#[test]
fn a_process_has_the_name_of_its_last_exec_whether_the_event_is_there_or_not() {
    let task =
        |comm: &str, syscall| StateTask { tid: 7, tgid: 7, comm: comm.into(), syscall, ..Default::default() };
    let state = State { tasks: vec![task("sh", -1), task("db", -2)], ..Default::default() };
    let mut b = Bench::with("runqueue", &state, Filter { to: u64::MAX, ..Default::default() });
    assert_eq!(b.viewer.names.thread_label(7), "db (7)");
    let mut comm = [0; 16];
    comm[..2].copy_from_slice(b"ls");
    b.at(5, 0, 7, SchedExec { comm, ..Default::default() });
    assert_eq!(b.viewer.names.thread_label(7), "ls (7)");
    b.at(6, 0, 7, SchedFork { child_tid: 9, child_tgid: 9, parent_tgid: 7, ..Default::default() });
    assert_eq!((b.viewer.names.thread_label(9), b.viewer.names.process(9)), ("ls (9)".into(), 9));
}

#[test]
fn groups_beyond_the_number_that_is_kept_are_one() {
    let mut groups = Groups::new(Grouping { kind: "k", by: Key::Lock });
    for lock in 0..20_000u64 {
        groups.add(&Sample::count("k", 0, 2).with(Key::Lock, lock));
        groups.add(&Sample::count("another kind", 0, 2).with(Key::Lock, lock));
    }
    let rows = groups.rows();
    let rest = &rows[0];
    assert!(rest.2.rest && rows.len() < 20_000);
    assert_eq!(rows.iter().map(|r| r.2.values.count).sum::<u64>(), 20_000);
}

/// The bytes of a record: small numbers that meet each other, or any.
fn bytes() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    prop_oneof![
        5 => proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0u8..4], 64),
        1 => proptest::collection::vec(any::<u8>(), 64),
    ]
}

proptest::proptest! {
    /// Damaged records pass every check of the reader that their length passes.
    #[test]
    fn no_record_makes_a_view_panic_or_an_item_end_before_it_begins(
        steps in proptest::collection::vec(
            (0u64..100, 0usize..EVENTS.len(), 0u32..3, 0u32..5, bytes()),
            1..200,
        ),
    ) {
        for spec in VIEWS {
            let mut b = Bench::new(spec.name);
            let mut now = 1000;
            for (dt, event, cpu, tid, bytes) in &steps {
                // Sorted but for neighbours.
                now = now + dt - 3;
                let info = &EVENTS[*event];
                if info.size > 0 {
                    let bytes = &bytes[..info.size];
                    b.feed(&Item::Record(RawRecord { ts: now, id: info.id, cpu: *cpu, tid: *tid, bytes }));
                } else {
                    b.feed(&Item::Gap(Gap { cpu: *cpu, begin: now, end: now + dt, lost: 1 }));
                }
            }
            for s in &b.found {
                let time = spec.unit_of(s.kind) == Unit::Time;
                proptest::prop_assert!(s.begin <= s.end, "{} {s:?}", spec.name);
                proptest::prop_assert!(!time || s.value <= s.end - s.begin, "{} {s:?}", spec.name);
                let parts = s.parts[0].saturating_add(s.parts[1]);
                proptest::prop_assert!(!time || parts <= s.value, "{} {s:?}", spec.name);
                for key in spec.keys {
                    proptest::prop_assert!(!key.label(s.get(*key), &b.viewer.names).is_empty());
                }
            }
        }
    }
}

/// Spans 0 and 1 are kernel functions, 2 is a program's.
fn with_functions() -> Bench {
    let span = |span, name: &str, place: &str| StateSpan {
        span,
        nests: 1,
        numbered: 0,
        name: name.into(),
        place: place.into(),
    };
    let spans = vec![
        span(0, "create", "kernel: ext4_create (kprobe)"),
        span(1, "add_entry", "kernel: ext4_add_entry (kprobe)"),
        span(2, "request", "/bin/server: handle"),
    ];
    Bench::with(
        "waypoints",
        &State { spans, ..Default::default() },
        Filter { to: u64::MAX, ..Default::default() },
    )
}

impl Bench {
    fn enter(&mut self, ts: u64, nr: u32) -> &mut Self {
        self.at(ts, 0, 7, SysEnter { nr, ..Default::default() })
    }
    fn exit(&mut self, ts: u64, nr: u32) -> &mut Self {
        self.at(ts, 0, 7, SysExit { nr, ..Default::default() })
    }
    fn begins(&mut self, ts: u64, span: u32) -> &mut Self {
        self.at(ts, 0, 7, SpanBegin { span, ..Default::default() })
    }
    fn ends(&mut self, ts: u64, span: u32) -> &mut Self {
        self.at(ts, 0, 7, SpanEnd { span, ..Default::default() })
    }
    /// Kind, label by this key, value and first part of the items that have it.
    fn labelled(&self, kind: &str, by: Key) -> Vec<(String, u64, u64)> {
        let of_kind = self.found.iter().filter(|s| s.kind == kind);
        of_kind.map(|s| (by.label(s.get(by), &self.viewer.names), s.value, s.parts[0])).collect()
    }
}

#[test]
fn a_system_call_is_cut_at_its_waypoints() {
    let mut b = with_functions();
    let creat = 85;
    // The second is called twice within the first; a program's span is none, and a call without any is no item.
    b.begins(90, 2).enter(100, creat).begins(110, 0).begins(115, 1).ends(145, 1).begins(150, 1).ends(170, 1);
    b.ends(180, 0).exit(200, creat).ends(210, 2).enter(300, 0).exit(310, 0);
    let way = |text: &str, took, since| (format!("creat: {text}"), took, since);
    let ways = [
        way("enter to create", 10, 0),
        way("create to add_entry", 5, 10),
        way("add_entry to add_entry ends", 30, 15),
        way("add_entry ends to add_entry", 5, 45),
        way("add_entry to add_entry ends", 20, 50),
        way("add_entry ends to create ends", 10, 70),
        way("create ends to exit", 20, 80),
    ];
    assert_eq!(b.labelled("between waypoints", Key::Way), ways);
    assert_eq!(b.labelled("system call", Key::Call), [("creat".into(), 100, 0)]);
    let functions = b.labelled("function", Key::Function);
    assert_eq!(functions, [way("add_entry", 30, 30), way("add_entry", 20, 20), way("create", 70, 20)]);
    assert_eq!(b.found.iter().find(|s| s.value == 70).map(|s| s.parts), Some([20, 50]));
    assert!(b.found.iter().all(|s| s.get(Key::Thread) == 7));
}

#[test]
fn a_function_whose_return_was_missed_ends_with_its_system_call() {
    let mut b = with_functions();
    b.enter(100, 85).begins(110, 0).begins(120, 1).ends(150, 0).exit(160, 85);
    assert_eq!(b.labelled("function", Key::Function), [("creat: create".into(), 40, 40)]);
    b.found.clear();
    // Nothing of the first call is left in the second.
    b.enter(200, 85).begins(210, 0).exit(220, 85).enter(300, 85).begins(310, 0).ends(330, 0).exit(340, 85);
    assert_eq!(b.labelled("function", Key::Function), [("creat: create".into(), 20, 20)]);
    assert_eq!(b.values("system call"), [20, 40]);
    // Outside of any recorded call; and after events were lost.
    b.found.clear();
    b.begins(400, 1).ends(405, 1).enter(500, 85).begins(510, 0);
    b.feed(&Item::Gap(Gap { cpu: 1, begin: 511, end: 512, lost: 1 }));
    b.ends(520, 0).exit(530, 85);
    assert_eq!(b.labelled("function", Key::Function), [("no system call: add_entry".into(), 5, 5)]);
    assert_eq!(b.values("between waypoints"), [10]);
}
