// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time is conserved: whatever events come, lost ones and nonsense included,
//! the intervals of every thread and CPU follow each other without gap and
//! without overlap, and every account adds up to its thread's life.

use plumb_model::{CpuState, Model, Observer, RunResult, Setup, Spent, ThreadState};
use plumb_trace::reader::{Gap, Item, Operation, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

const BEGIN: u64 = 1_000;
const CPUS: u32 = 3;
const TIDS: u32 = 7;

/// Checks at every interval that it begins where the last one ended.
#[derive(Default)]
struct Tiles {
    threads: HashMap<u32, (u64, u64)>,
    cpus: HashMap<u32, u64>,
    /// What entered the account, by process, thread and category.
    spent: BTreeMap<(u32, u32, &'static str), u64>,
}

impl Observer for Tiles {
    fn thread(&mut self, tid: u32, start: u64, end: u64, _: ThreadState) {
        assert!(end > start, "thread {tid}: empty interval");
        let (upto, sum) = self.threads.entry(tid).or_insert((start, 0));
        // A new holder of the id begins later; it never begins before the old one's end.
        assert!(start >= *upto, "thread {tid}: {start} overlaps {upto}");
        *upto = end;
        *sum += end - start;
    }
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, _: CpuState) {
        assert!(end > start, "CPU {cpu}: empty interval");
        let upto = self.cpus.entry(cpu).or_insert(BEGIN);
        assert_eq!(start, *upto, "CPU {cpu}: gap or overlap");
        *upto = end;
    }
    fn spent(&mut self, s: &Spent) {
        assert!(s.time > 0 && s.time <= s.to - s.from, "{s:?}");
        assert!(
            s.wait.is_none_or(|w| w.start <= s.from && w.end >= s.to && s.time == s.to - s.from),
            "{s:?}"
        );
        *self.spent.entry((s.tgid, s.tid, s.category.name())).or_default() += s.time;
    }
}

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
    (0u64..50, 0..CPUS, 0u32..24, 0..TIDS, 0..TIDS, 0u32..6).prop_map(|(dt, cpu, kind, a, b, c)| Step {
        dt,
        cpu,
        kind,
        a,
        b,
        c,
    })
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
        _ => make!(SchedExit { tgid: s.a, run_ns: 1 }),
    }
}

/// What a workload's thread tells at a step, true or not.
fn operation(s: &Step, ts: u64) -> Operation {
    let slot = (s.b % 3) as u16;
    match s.kind {
        0..=4 => Operation::Begin(LoadBegin { ts, tid: s.a, kind: s.c as u8, slot, ..Default::default() }),
        5..=9 => Operation::End(LoadEnd { ts, tid: s.a, slot, result: i64::from(s.c), ..Default::default() }),
        _ => Operation::Lost { tid: s.a, lost: 1 },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn intervals_tile_and_accounts_add_up(
        steps in prop::collection::vec(step(), 1..120),
        gaps in prop::collection::vec((0usize..120, 0..CPUS, 1u64..400), 0..3),
        known in prop::collection::vec(1..TIDS, 0..4),
        ends in any::<bool>(),
        told in prop::collection::vec((0usize..120, step(), 0u32..11), 0..60),
    ) {
        let last: u64 = BEGIN + steps.iter().map(|s| s.dt).sum::<u64>();
        let mut setup = Setup { begin: BEGIN, end: if ends { last + 10 } else { u64::MAX }, everyone: true, ..Default::default() };
        for tid in known {
            if setup.state.tasks.iter().all(|t| t.tid != tid) {
                setup.state.tasks.push(StateTask { tid, tgid: tid, syscall: StateTask::NO_SYSCALL, target: 1, ..Default::default() });
            }
        }
        let again = Setup { begin: BEGIN, end: setup.end, everyone: true, state: setup.state.clone(), ..Default::default() };
        let mut plain = Model::new(again, ());
        let mut model = Model::new(setup, Tiles::default());
        let mut ts = BEGIN;
        let mut silent = [0u64; CPUS as usize];
        for (i, s) in steps.iter().enumerate() {
            ts += s.dt;
            for (_, cpu, length) in gaps.iter().filter(|(at, ..)| *at == i) {
                let gap = Gap { cpu: *cpu, begin: ts, end: ts + length, lost: 5 };
                model.feed(Item::Gap(gap));
                plain.feed(Item::Gap(gap));
                silent[*cpu as usize] = ts + length;
            }
            // A CPU says nothing while its events are lost.
            if silent[s.cpu as usize] <= ts {
                let bytes = record(s, ts);
                let id = u16::from_le_bytes([bytes[8], bytes[9]]);
                model.feed(Item::Record(RawRecord { ts, id, cpu: s.cpu, tid: s.a, bytes: &bytes }));
                plain.feed(Item::Record(RawRecord { ts, id, cpu: s.cpu, tid: s.a, bytes: &bytes }));
            }
            for (_, step, kind) in told.iter().filter(|(at, ..)| *at == i) {
                model.feed(Item::Operation(operation(&Step { kind: *kind, ..step.clone() }, ts)));
            }
        }
        let (result, tiles) = model.finish();
        let (plain, _) = plain.finish();
        prop_assert_eq!(&result.cpus, &plain.cpus, "what a workload tells changes no CPU");
        let accounts = |r: &RunResult| -> Vec<_> {
            r.processes.iter().map(|p| (p.pid, p.account.clone(), p.syscalls.clone())).collect()
        };
        prop_assert_eq!(accounts(&result), accounts(&plain), "nor an account");
        for (cpu, upto) in &tiles.cpus {
            prop_assert_eq!(*upto, result.end, "CPU {} ends early", cpu);
            let row = &result.cpus[*cpu as usize];
            let sum = row.busy + row.idle + row.interrupts + row.unseen + row.lost;
            prop_assert_eq!(sum, result.end - BEGIN, "CPU {} does not add up", cpu);
        }
        let (mut told, mut rows) = (BTreeMap::new(), BTreeMap::new());
        for ((pid, tid, category), ns) in &tiles.spent {
            *told.entry((*pid, 0, category.to_string())).or_insert(0) += *ns;
            told.insert((*pid, *tid, category.to_string()), *ns);
        }
        for p in &result.processes {
            for (tid, account) in std::iter::once((0, &p.account)).chain(p.threads.iter().map(|t| (t.tid, &t.account))) {
                account.iter().for_each(|(c, ns)| *rows.entry((p.pid, tid, c.to_string())).or_insert(0) += *ns);
            }
        }
        prop_assert_eq!(told, rows, "what was told of and what the accounts have");
        let mut lives: HashMap<u32, u64> = HashMap::new();
        for p in &result.processes {
            prop_assert_eq!(p.account.values().sum::<u64>(), p.thread_time, "process {}", p.pid);
            for t in &p.threads {
                prop_assert_eq!(t.account.values().sum::<u64>(), t.elapsed, "thread {}", t.tid);
                *lives.entry(t.tid).or_default() += t.elapsed;
            }
            for o in &p.operations {
                prop_assert_eq!(o.account.values().sum::<u64>(), o.accounted, "operation {}", &o.kind);
                prop_assert!(o.accounted <= o.total, "{:?}", o);
                prop_assert!(o.overlapping || o.accounted == o.total, "{:?}", o);
            }
            for c in &p.syscalls {
                prop_assert_eq!(c.account.values().sum::<u64>(), c.total, "call {}", c.name);
            }
        }
        // No gap: the intervals of an id are as long as the lives of all that held it.
        for (tid, life) in lives {
            let seen = tiles.threads.get(&tid).map_or(0, |(_, sum)| *sum);
            prop_assert_eq!(seen, life, "thread {}", tid);
        }
    }
}
