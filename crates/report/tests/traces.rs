// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded traces as rows: the timeline tiles every thread's life and is the account, to the
//! nanosecond; what a wait is linked to was there when it waited.

use plumb_analysis::Analysis;
use plumb_model::{Category, RunResult, CATEGORIES};
use plumb_report::collect::{Collect, Collected};
use plumb_report::stream::Stream;
use plumb_trace::reader::Trace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn traces() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let mut traces: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("tests/traces")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("metadata").exists())
        .collect();
    traces.sort();
    assert!(traces.len() >= 15, "{traces:?}");
    traces
}

fn read(dir: &Path) -> (RunResult, Collected) {
    let trace = Trace::open(dir).expect("a trace");
    let rows = Stream::new(plumb_analysis::setup::span(&trace).0, Collect::default());
    let (Analysis { result, .. }, stream) = Analysis::read(&trace, rows).expect("readable");
    let collected = stream.finish().finish(&result, &trace.state).expect("packed");
    (result, collected)
}

fn column(packed: &plumb_report::document::Packed, name: &str) -> Vec<usize> {
    packed.column(name).expect(name).into_iter().map(|n| n as usize).collect()
}

#[test]
fn the_timeline_is_the_account() {
    for trace in traces() {
        let (result, Collected { timeline: t, .. }) = read(&trace);
        let name = trace.display();
        let intervals = |name| column(&t.intervals, name);
        let (gap, length, state) = (intervals("gap"), intervals("length"), intervals("state"));
        let (interrupted, merged) = (intervals("interrupted"), intervals("merged"));
        assert!(merged.iter().all(|n| *n == 1), "{name}");
        assert_eq!((t.sampled.seen, t.sampled.shown), (t.intervals.rows, t.intervals.rows));
        let mut accounts: BTreeMap<u32, BTreeMap<Category, u64>> = BTreeMap::new();
        let mut threads = 0;
        for lane in &t.lanes {
            let rows = lane.first as usize..(lane.first + lane.rows) as usize;
            let mut at = 0;
            for row in rows.clone() {
                assert!(row == rows.start || gap[row] == 0, "{name}: {lane:?}: a gap at row {row}");
                at += gap[row] + length[row];
            }
            if lane.kind == "cpu" {
                assert_eq!(at as u64, t.length, "{name}: {lane:?}");
                assert_eq!(gap[rows.start], 0, "{name}: {lane:?}");
                // Interrupts are the CPU's, whatever they lie on.
                let cpu = &result.cpus[lane.id as usize];
                let mut over = 0;
                for (kind, own) in [cpu.idle, cpu.busy, cpu.unseen, cpu.lost].into_iter().enumerate() {
                    let shown = rows.clone().filter(|r| state[*r] == kind).map(|r| length[r] as u64);
                    over += shown.sum::<u64>().checked_sub(own).expect("at least its own");
                }
                assert_eq!(over, cpu.interrupts, "{name}: {lane:?}");
                continue;
            }
            let process = result.processes.iter().find(|p| p.pid == lane.pid).expect("its process");
            let row = process.threads.iter().find(|t| t.tid == lane.id).expect("its thread");
            let account = accounts.entry(lane.pid).or_default();
            let begin = gap[rows.start] as u64;
            assert_eq!(begin, row.begin - result.begin, "{name}: {lane:?}");
            assert_eq!(at as u64, begin + row.elapsed, "{name}: {lane:?}");
            let mut own = BTreeMap::new();
            for r in rows {
                for account in [&mut *account, &mut own] {
                    let mut add = |category: Category, ns: usize| {
                        if ns > 0 {
                            *account.entry(category).or_default() += ns as u64;
                        }
                    };
                    add(CATEGORIES[state[r]].0, length[r] - interrupted[r]);
                    add(Category::Interrupted, interrupted[r]);
                }
            }
            assert_eq!(own, row.account, "{name}: {lane:?}");
            threads += 1;
        }
        assert_eq!(threads, result.processes.iter().map(|p| p.threads.len()).sum::<usize>(), "{name}");
        for process in &result.processes {
            assert_eq!(accounts[&process.pid], process.account, "{name}: {}", process.comm);
        }
    }
}

#[test]
fn what_a_wait_is_linked_to_was_there() {
    let (mut linked, mut woken, mut stacks) = (0, 0, 0);
    for trace in traces() {
        let (_, Collected { timeline: t, requests: r, .. }) = read(&trace);
        let name = trace.display();
        let of = |name| column(&t.intervals, name);
        let (gap, length, state, who) = (of("gap"), of("length"), of("state"), of("who"));
        let (wait, request) = (of("wait"), of("request"));
        let of = |name| column(&r.table, name);
        let (mut at, mut queued) = (0, Vec::new());
        for step in of("queued") {
            at += step;
            queued.push(at);
        }
        let layers = ["q2g", "g2f", "f2i", "i2d", "d2c"].map(of);
        let device = of("device");
        let of = |name| column(&t.waits, name);
        let (stack, waker, waker_name) = (of("stack"), of("waker"), of("waker_name"));
        for lane in &t.lanes {
            let mut at = 0;
            for row in lane.first as usize..(lane.first + lane.rows) as usize {
                let from = at + gap[row];
                at = from + length[row];
                if wait[row] > 0 {
                    let w = wait[row] - 1;
                    assert_eq!(lane.kind, "thread");
                    stacks += usize::from(!t.stacks[stack[w]].is_empty());
                    if waker[w] > 0 {
                        let lane = &t.lanes[waker[w] - 1];
                        assert_eq!(lane.kind, "thread", "{name}");
                        assert!(!t.whos[waker_name[w]].is_empty(), "{name}: {lane:?}");
                        woken += 1;
                    }
                }
                let Some(n) = request[row].checked_sub(1) else { continue };
                linked += 1;
                // The layer that the state names: from its step to the next one.
                let category = CATEGORIES[state[row]].1;
                let layer = match category {
                    "block.limit" | "block.queue" => 0,
                    "block.plug" => 1,
                    "block.flush" => 2,
                    "block.schedule" => 3,
                    "block.device" => 4,
                    "block.wakeup" => 5,
                    _ => panic!("{name}: {lane:?}: a request's wait is {category}"),
                };
                let begin = queued[n] + layers[..layer].iter().map(|l| l[n]).sum::<usize>();
                // A limit holds the bio back before it is queued.
                let begin = if category == "block.limit" { 0 } else { begin };
                let done = queued[n] + layers.iter().map(|l| l[n]).sum::<usize>();
                let end = match layer {
                    0 => queued[n] + layers[0][n],
                    5 => usize::MAX,
                    layer => done - layers[layer + 1..].iter().map(|l| l[n]).sum::<usize>(),
                };
                assert!(begin <= from && at <= end, "{name}: {lane:?}: {from}..{at} in {begin}..{end}");
                assert_eq!(t.whos[who[row]], r.devices[device[n]], "{name}: {lane:?}");
            }
        }
    }
    assert!(linked > 100 && woken > 50 && stacks > 100, "{linked} {woken} {stacks}");
}
