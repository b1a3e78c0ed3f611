// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever events come, the decoded timeline tiles every life and is the account; thinned, it still tiles.

use super::*;
use crate::document::Packed;
use crate::stream::Stream;
use plumb_model::{Category, Model, Setup, CATEGORIES};
use plumb_trace::kernel::{dev, req};
use plumb_trace::reader::{Gap, Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BEGIN: u64 = 1_000;
const CPUS: u32 = 3;
const TIDS: u32 = 7;

#[derive(Debug, Clone)]
struct Step {
    dt: u64,
    cpu: u32,
    kind: u32,
    a: u32,
    b: u32,
    c: u32,
}

fn step() -> impl Strategy<Value = Step> {
    let parts = (0u64..50, 0..CPUS, 0u32..25, 0..TIDS, 0..TIDS, 0u32..6);
    parts.prop_map(|(dt, cpu, kind, a, b, c)| Step { dt, cpu, kind, a, b, c })
}

/// A record for a step: `a` and `b` are threads, `c` is anything.
fn record(s: &Step, ts: u64) -> Vec<u8> {
    macro_rules! make {
        ($t:ident { $($f:ident: $v:expr),* }) => {
            $t { ts, id: $t::ID, tid: s.a, $($f: $v,)* ..Default::default() }.bytes().to_vec()
        };
    }
    let states = [0, 1, 2, 0x80, 0x402, 8];
    let rq = u64::from(s.c % 3) + 1;
    match s.kind {
        0..=6 => make!(SchedSwitch { next_tid: s.b, prev_state: states[s.c as usize], preempt: s.b % 2 }),
        7..=9 => make!(SchedWaking { wakee: s.b }),
        10 => make!(SchedFork { child_tid: s.b, child_tgid: s.b, parent_tgid: s.a, target: s.c % 2 }),
        11 => make!(SchedWakeupNew { wakee: s.b }),
        12 => make!(SysEnter { nr: s.c }),
        13 => make!(SysExit { nr: s.c }),
        14 => make!(SoftirqEntry { vec: s.c }),
        15 => make!(SoftirqExit { vec: s.c }),
        16 => make!(BlockBioQueue { dev: 1, bio: rq, sector: rq * 8, len: 4096, cont_id: 0xffff }),
        17 => make!(BlockGetrq { dev: 1, bio: rq }),
        18 => make!(BlockRqInsert { dev: 1, rq: rq, bio: rq, sector: rq * 8, len: 4096, cont_id: 0xffff }),
        19 => make!(BlockRqIssue { dev: 1, rq: rq, bio: rq, sector: rq * 8, len: 4096, cont_id: 0xffff }),
        20 => make!(BlockRqComplete { dev: 1, rq: rq, bio: rq, sector: rq * 8, len: 4096, cont_id: 0xffff }),
        21 => make!(ContentionBegin { lock: 1 }),
        22 => make!(ContentionEnd { lock: 1 }),
        23 => make!(SchedExec { comm: [b'a' + s.c as u8; 16] }),
        _ => make!(SchedExit { tgid: s.a, run_ns: 1 }),
    }
}

fn run(steps: &[Step], gaps: &[(usize, u32, u64)], known: &[u32], most: Most) -> (RunResult, Collected) {
    let mut setup = Setup { begin: BEGIN, end: u64::MAX, everyone: true, ..Setup::default() };
    for tid in known {
        if setup.state.tasks.iter().all(|t| t.tid != *tid) {
            let task = StateTask {
                tid: *tid,
                tgid: *tid,
                syscall: StateTask::NO_SYSCALL,
                target: 1,
                ..Default::default()
            };
            setup.state.tasks.push(task);
        }
    }
    let mut model = Model::new(setup, Stream::new(BEGIN, Collect::within(most)));
    let (mut ts, mut silent) = (BEGIN, [0u64; CPUS as usize]);
    for (i, s) in steps.iter().enumerate() {
        ts += s.dt;
        for (_, cpu, length) in gaps.iter().filter(|(at, ..)| *at == i) {
            model.feed(Item::Gap(Gap { cpu: *cpu, begin: ts, end: ts + length, lost: 5 }));
            silent[*cpu as usize] = ts + length;
        }
        // A CPU says nothing while its events are lost.
        if silent[s.cpu as usize] <= ts {
            let bytes = record(s, ts);
            let id = u16::from_le_bytes([bytes[8], bytes[9]]);
            model.feed(Item::Record(RawRecord { ts, id, cpu: s.cpu, tid: s.a, bytes: &bytes }));
        }
    }
    let (result, stream) = model.finish();
    let collected = stream.finish().finish(&result, &State::default()).expect("packed");
    (result, collected)
}

/// Rows of the intervals: gap, length, state, merged, interrupted, request.
fn rows(packed: &Packed) -> Vec<[u64; 6]> {
    let columns =
        ["gap", "length", "state", "merged", "interrupted", "request"].map(|c| packed.column(c).expect(c));
    (0..packed.rows as usize).map(|r| [0, 1, 2, 3, 4, 5].map(|c: usize| columns[c][r])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_timeline_is_the_account(
        steps in prop::collection::vec(step(), 1..150),
        gaps in prop::collection::vec((0usize..150, 0..CPUS, 1u64..400), 0..3),
        known in prop::collection::vec(1..TIDS, 0..4),
    ) {
        let (result, collected) = run(&steps, &gaps, &known, MOST);
        let t = &collected.timeline;
        let all = rows(&t.intervals);
        let mut shown: BTreeMap<(u32, u32), BTreeMap<String, u64>> = BTreeMap::new();
        for lane in &t.lanes {
            let own = &all[lane.first as usize..(lane.first + lane.rows) as usize];
            for [gap, length, state, merged, interrupted, request] in own {
                prop_assert_eq!(*merged, 1);
                prop_assert!(*length > 0 && interrupted <= length);
                prop_assert!(*request <= collected.requests.table.rows);
                if lane.kind == "cpu" {
                    prop_assert_eq!(*gap, 0, "CPUs begin with the run");
                    continue;
                }
                let account = shown.entry((lane.pid, lane.id)).or_default();
                *account.entry(CATEGORIES[*state as usize].1.to_string()).or_default() += length - interrupted;
                if *interrupted > 0 {
                    *account.entry(Category::Interrupted.name().to_string()).or_default() += interrupted;
                }
            }
            let length = own.iter().map(|r| r[0] + r[1]).sum::<u64>();
            prop_assert!(length <= t.length, "{:?}", lane);
            if lane.kind == "cpu" {
                prop_assert_eq!(length, t.length);
            }
        }
        shown.values_mut().for_each(|a| a.retain(|_, ns| *ns > 0));
        let mut accounts: BTreeMap<(u32, u32), BTreeMap<String, u64>> = BTreeMap::new();
        let mut lives: BTreeMap<(u32, u32), Vec<(u64, u64)>> = BTreeMap::new();
        for p in &result.processes {
            for th in p.threads.iter().filter(|t| t.elapsed > 0) {
                let begin = th.begin - BEGIN;
                lives.entry((p.pid, th.tid)).or_default().push((begin, begin + th.elapsed));
                let account = accounts.entry((p.pid, th.tid)).or_default();
                th.account.iter().for_each(|(c, ns)| *account.entry(c.to_string()).or_default() += ns);
            }
        }
        prop_assert_eq!(shown, accounts);
        // Every life is covered, and nothing else: an id's lives may follow each other.
        for lane in t.lanes.iter().filter(|l| l.kind == "thread") {
            let (mut at, mut spans) = (0, Vec::<(u64, u64)>::new());
            for row in &all[lane.first as usize..(lane.first + lane.rows) as usize] {
                let from = at + row[0];
                at = from + row[1];
                match spans.last_mut().filter(|s| s.1 == from) {
                    Some(last) => last.1 = at,
                    None => spans.push((from, at)),
                }
            }
            let mut own = lives.remove(&(lane.pid, lane.id)).unwrap_or_default();
            own.sort_unstable();
            let mut joined = Vec::<(u64, u64)>::new();
            for (from, to) in own {
                match joined.last_mut().filter(|s| s.1 == from) {
                    Some(last) => last.1 = to,
                    None => joined.push((from, to)),
                }
            }
            prop_assert_eq!(spans, joined, "{:?}", lane);
        }
        prop_assert!(lives.is_empty(), "lives without a lane: {:?}", lives);

        // Few are allowed: the same time, in fewer rows.
        let few = Most { lanes: Limits { cells: 20, lanes: 1000 }, requests: 32, operations: 32 };
        let (_, thin) = run(&steps, &gaps, &known, few);
        let (thin, thinned) = (&thin.timeline, rows(&thin.timeline.intervals));
        prop_assert_eq!(&thin.lanes.iter().map(|l| (&l.kind, l.id, l.pid)).collect::<Vec<_>>(),
            &t.lanes.iter().map(|l| (&l.kind, l.id, l.pid)).collect::<Vec<_>>());
        prop_assert_eq!(thinned.iter().map(|r| r[3]).sum::<u64>(), t.intervals.rows);
        prop_assert_eq!(thin.sampled.seen, t.intervals.rows);
        prop_assert_eq!(thin.sampled.shown, thin.intervals.rows);
        prop_assert_eq!(thin.sampled.how.is_empty(), thin.intervals.rows == t.intervals.rows);
        for (a, b) in t.lanes.iter().zip(&thin.lanes) {
            let of = |all: &[[u64; 6]], lane: &LaneRow| {
                let own = &all[lane.first as usize..(lane.first + lane.rows) as usize];
                let sum = |n: usize| own.iter().map(|r| r[n]).sum::<u64>();
                (sum(0), sum(1), sum(4))
            };
            prop_assert_eq!(of(&all, a), of(&thinned, b), "gaps, lengths and interrupts of {:?}", a);
        }
    }
}

fn interval(tid: u32, from: u64, to: u64, category: Category) -> Interval {
    Interval {
        tid,
        pid: 1,
        name: 0,
        category,
        who: Who::Nobody,
        from,
        to,
        time: to - from,
        wait: 0,
        request: 0,
    }
}

#[test]
fn an_id_that_is_used_again_is_another_lane_or_leaves_a_gap() {
    let mut c = Collect::default();
    c.interval(&interval(7, 0, 10, Category::Running));
    c.interval(&interval(7, 50, 60, Category::Timer));
    c.interval(&Interval { pid: 2, ..interval(7, 60, 90, Category::Running) });
    // Thread 7 of process 2 woke thread 8: the first was gone by then.
    c.wait(&Wait { number: 1, tid: 8, pid: 1, from: 70, to: 80, stack: 0, waker: 7 });
    c.interval(&Interval { wait: 1, ..interval(8, 70, 80, Category::Pipe) });
    let t = c.finish(&RunResult::default(), &State::default()).expect("packed").timeline;
    assert_eq!(t.intervals.column("gap").expect("gap"), [0, 40, 70, 60]);
    let ids: Vec<(u32, u32)> = t.lanes.iter().map(|l| (l.pid, l.id)).collect();
    assert_eq!(ids, [(1, 7), (1, 8), (2, 7)]);
    assert_eq!(t.waits.column("waker").expect("waker"), [3]);
    let name = t.waits.column("waker_name").expect("waker_name")[0];
    assert_eq!(t.whos[name as usize], "thread 7", "nothing told its name");
}

#[test]
fn requests_stand_in_the_order_in_which_they_were_queued() {
    let mut c = Collect::default();
    let request = |number: u64, queued: u64, done: u64, opf: u32, len: u32| RequestRow {
        number,
        request: plumb_model::Request {
            dev: dev::new(8, 0),
            owner: 7,
            len,
            opf,
            sector: 4,
            ..Default::default()
        },
        steps: [queued, queued + 1, queued + 3, queued + 6, queued + 10, done],
    };
    c.name(0, "");
    c.name(1, "dd");
    c.known_as(7, 1);
    c.request(&request(1, 100, 200, 1, 4096));
    c.request(&request(2, 50, 300, 0, 512));
    let mut flush = request(4, 120, 400, req::FLUSH, 0);
    flush.request.sector = u64::MAX;
    c.request(&flush);
    c.request(&request(5, 130, 400, 1, 0));
    c.request(&request(6, 140, 400, 3, 8192));
    c.interval(&Interval { request: 1, ..interval(7, 110, 200, Category::BlockIssued) });
    c.interval(&Interval { request: 3, ..interval(7, 200, 210, Category::BlockIssued) });
    let found = c.finish(&RunResult::default(), &State::default()).expect("packed");
    let r = &found.requests;
    let column = |name: &str| r.table.column(name).expect(name);
    assert_eq!(column("queued"), [50, 50, 20, 10, 10]);
    assert_eq!(column("q2g"), [1; 5]);
    assert_eq!(column("i2d"), [4; 5]);
    assert_eq!(column("d2c"), [240, 90, 270, 260, 250]);
    assert_eq!(column("write"), [0, 1, 1, 1, 1], "a flush counts with the writes");
    assert_eq!(column("sector"), [4, 4, 0, 0, 4], "a place of what has data or a length");
    assert_eq!(column("slow"), [0; 5]);
    let kinds = column("operation").into_iter().map(|k| &r.operations[k as usize]);
    let kinds: Vec<_> = kinds.map(|k| (k.word.as_str(), k.write, k.data)).collect();
    let told = [("read", false, true), ("write", true, true), ("flush", true, false)];
    assert_eq!(kinds, [&told[..], &[("empty write", true, false), ("discard", true, false)]].concat());
    assert_eq!(column("owner"), [1; 5]);
    assert_eq!((column("owner_name"), r.whos[1].as_str()), (vec![1; 5], "dd"));
    assert_eq!(r.devices, ["8:0"]);
    let of_heat: u64 = r.heat.iter().flat_map(|h| &h.cells).map(|c| c.2).sum();
    assert_eq!(of_heat, 2, "those with data");
    // Number 3 completed for nobody, and is not in the table.
    assert_eq!(found.timeline.intervals.column("request").expect("request"), [2, 0]);
}

#[test]
fn operations_have_their_outcome() {
    let mut c = Collect::default();
    let of = |from: u64, kind: OperationKind, result: i64| OperationRow {
        tid: 7,
        pid: 1,
        kind,
        from,
        to: from + 5,
        result,
        late: 3,
    };
    c.interval(&interval(7, 0, 100, Category::Running));
    c.operation(&of(20, OperationKind::Write, 4096));
    c.operation(&of(10, OperationKind::Sync, -5));
    let found = c.finish(&RunResult::default(), &State::default()).expect("packed").operations;
    let column = |name: &str| found.table.column(name).expect(name);
    assert_eq!(found.kinds, ["sync", "write"]);
    assert_eq!((column("begin"), column("kind")), (vec![10, 10], vec![0, 1]));
    assert_eq!((column("bytes"), column("failed")), (vec![0, 4096], vec![5, 0]));
    assert_eq!((column("length"), column("late"), column("lane")), (vec![5, 5], vec![3, 3], vec![1, 1]));
    assert_eq!(column("slow"), [0, 0]);
}

#[test]
fn many_requests_are_sampled_and_links_still_hold() {
    let most = Most { lanes: Limits { cells: 100_000, lanes: 10 }, requests: 320, operations: 32 };
    let mut c = Collect::within(most);
    let mut at = 0;
    for n in 1..=5000u64 {
        let took = if n % 997 == 0 { 1_000_000 } else { 100 + n % 50 };
        let (sector, depth) = (n, 1 + (n == 2500) as u32);
        let request =
            plumb_model::Request { dev: 1, owner: 7, len: 4096, sector, depth, ..Default::default() };
        c.request(&RequestRow { number: n, request, steps: [at, at, at, at, at, at + took] });
        c.interval(&Interval { request: n, ..interval(7, at, at + took, Category::BlockIssued) });
        at += took;
    }
    let found = c.finish(&RunResult::default(), &State::default()).expect("packed");
    let (r, t) = (&found.requests, &found.timeline);
    assert!(r.table.rows <= 320 && r.sampled.seen == 5000, "{:?}", r.sampled);
    assert!(r.sampled.how.starts_with("one in 32 of 5,000 requests, and the 20 slowest"), "{:?}", r.sampled);
    assert_eq!(r.heat.iter().flat_map(|h| &h.cells).map(|c| c.2).sum::<u64>(), 5000, "heat has all");
    let depth = &r.depth[0];
    assert_eq!(depth.time.iter().sum::<u64>(), at, "one after the other, with the driver all the time");
    assert_eq!(
        depth.most.iter().filter(|n| **n == 2).count(),
        1,
        "depth has all, also what is not in the table"
    );
    let sectors = r.table.column("sector").expect("sector");
    assert!(!sectors.contains(&2500));
    let slow = r.table.column("slow").expect("slow");
    for (sector, slow) in sectors.iter().zip(slow) {
        assert_eq!(slow == 1, (sector - 1) % 32 != 0, "{sector}");
    }
    for slow in [997, 1994, 2991, 3988, 4985] {
        assert!(sectors.contains(&slow), "{slow}");
    }
    let linked = t.intervals.column("request").expect("request");
    let shown = linked.iter().enumerate().filter(|(_, row)| **row > 0);
    let mut count = 0;
    for (n, row) in shown {
        assert_eq!(sectors[*row as usize - 1], n as u64 + 1);
        count += 1;
    }
    assert_eq!(count, r.table.rows);
}
