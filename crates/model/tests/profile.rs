// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile over events made by hand, with entries that can be added up on paper; and over
//! events at random, where it must add up to the account.

use plumb_model::profile::{hot, Collector, Frame, Origin, Profile, Root};
use plumb_model::{Category, Model, RunResult, Setup};
use plumb_trace::reader::{Gap, Item, RawRecord, State, Told, UserStacks};
use plumb_trace::schema::*;
use plumb_trace::Record;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const ME: u32 = 100;
const OTHER: u32 = 200;
const BEGIN: u64 = 1000;

/// Kernel stacks: a write, a spin, a soft interrupt, a wait for a page, one for a futex.
const WRITE: u32 = 1;
const SPIN: u32 = 2;
const SOFT: u32 = 3;
const PAGE: u32 = 4;
const FUTEX: u32 = 5;
/// User stacks: hash under main, write(2) under parse under main, a JIT's, one cut off.
const HASH: u32 = 11;
const PARSE: u32 = 12;
const JITTED: u32 = 13;
const CUT: u32 = 14;

fn state() -> State {
    let kernel = |stack, text: &str| StateStack {
        stack,
        user: 0,
        frames: (0..text.split(';').count() as u64)
            .map(|i| 0xf000 + u64::from(stack) * 256 + i * 16)
            .collect(),
        text: text.into(),
    };
    let user = |stack, cut, frames: &[(u64, u64)]| StateUserStack {
        stack,
        cut,
        modules: frames.iter().map(|f| f.0).collect(),
        offsets: frames.iter().map(|f| f.1).collect(),
    };
    let module = |module, kind, path: &str| StateModule {
        module,
        kind,
        pid: 0,
        build_id: "ab".into(),
        path: path.into(),
    };
    let function = |module, offset, start, names: &str, lines: &str| StateFunction {
        module,
        offset,
        start,
        size: 64,
        names: names.into(),
        lines: lines.into(),
    };
    let task = |tid, target, comm: &str| StateTask {
        tid,
        tgid: tid,
        target,
        syscall: StateTask::NO_SYSCALL,
        comm: comm.into(),
        ..StateTask::default()
    };
    State {
        tasks: vec![task(ME, 1, "me"), task(OTHER, 0, "other")],
        stacks: vec![
            kernel(WRITE, "__pfx_copy_page;generic_perform_write;ksys_write;do_syscall_64;entry_SYSCALL_64_after_hwframe"),
            kernel(SPIN, "native_queued_spin_lock_slowpath;ext4_rename;__x64_sys_rename;do_syscall_64"),
            kernel(SOFT, "net_rx_action;handle_softirqs;__irq_exit_rcu;asm_common_interrupt"),
            kernel(PAGE, "__schedule;schedule;io_schedule;folio_wait_bit;ext4_sync_file;__x64_sys_fsync;do_syscall_64"),
            kernel(FUTEX, "__schedule;schedule;futex_do_wait;__x64_sys_futex;do_syscall_64"),
        ],
        modules: vec![module(1, 0, "/usr/bin/me"), module(2, 0, "/lib/libc.so.6"), module(3, 1, "")],
        user_stacks: Arc::new(UserStacks::from_iter([
            user(HASH, 0, &[(1, 0x10), (1, 0x90)]),
            user(PARSE, 0, &[(2, 0x500), (1, 0x50), (1, 0x90)]),
            user(JITTED, 0, &[(3, 0x7000_0000), (1, 0x90)]),
            user(CUT, 1, &[(1, 0x333)]),
        ])),
        functions: vec![
            function(1, 0x10, 0, "mix\nhash", "h.c:3\nh.c:9"),
            function(1, 0x50, 0x40, "parse", "p.c:7"),
            function(1, 0x90, 0x80, "main", ""),
            function(2, 0x500, 0x4f0, "write", ""),
            function(3, 0x7000_0000, 0x6fff_fff0, "js_loop", ""),
        ],
        named: vec![StateSymbols { module: 1, lacking: "stripped".into(), ..StateSymbols::default() }],
        code: vec![StateCode { module: 1, start: 0x40, bytes: 9, words: vec![1, 2] }],
        ..State::default()
    }
}

/// A model of one process whose thread runs on CPU 0 from the beginning on.
struct Bench(Model<Collector>, State);

impl Bench {
    fn new(from: u64, to: u64) -> Self {
        Self::of(state(), from, to)
    }

    fn of(state: State, from: u64, to: u64) -> Self {
        let setup = Setup { begin: BEGIN, end: 100_000, state: state.clone(), ..Setup::default() };
        let mut bench = Self(Model::new(setup, Collector::new(from, to).clock("cpu-clock 199 Hz")), state);
        bench.at(BEGIN, 0, SchedSwitch { next_tid: ME, ..Default::default() });
        bench
    }

    fn at<R: Record>(&mut self, ts: u64, tid: u32, record: R) -> &mut Self {
        // The record's head has the time as well.
        let mut bytes = record.bytes().to_vec();
        bytes[..8].copy_from_slice(&ts.to_le_bytes());
        self.0.feed(Item::Record(RawRecord { ts, id: R::ID, cpu: 0, tid, bytes: &bytes }));
        self
    }

    /// From one thread to another: 0 leaves it ready, 1 lets it sleep.
    fn switch(&mut self, ts: u64, tid: u32, prev_state: u32, next_tid: u32) -> &mut Self {
        let preempt = u32::from(prev_state == 0);
        self.at(ts, tid, SchedSwitch { tid, next_tid, prev_state, preempt, ..Default::default() })
    }

    fn sample(&mut self, at: u64, thread: u32, kernel: u32, user: u32) -> &mut Self {
        let sample = StateCpuSample { at, thread, cpu: 0, kernel, user };
        self.0.feed(Item::Told(&Told::Sample(sample)));
        self
    }

    fn stack(&mut self, end: u64, stack: u32) -> &mut Self {
        self.0.feed(Item::Told(&Told::Wait(StateWaitStack { end, waiter: ME, stack })));
        self
    }

    fn finish(self) -> (RunResult, Profile) {
        let (result, collector) = self.0.finish();
        (result, collector.profile(&self.1))
    }
}

/// Entries as text: thread, category, who, functions innermost first, time and count.
fn entries(p: &Profile) -> Vec<String> {
    let name = |f: &plumb_model::profile::Frame| {
        let name = &p.functions[f.function as usize].name;
        if f.inlined {
            format!("{name}(i)")
        } else {
            name.clone()
        }
    };
    p.entries
        .iter()
        .map(|e| {
            let frames: Vec<String> = p.frames_of(e.stack).iter().map(name).collect();
            format!(
                "{} {}{} [{}] {} x{}",
                p.threads[e.thread as usize].tid,
                e.category.name(),
                if e.who == 0 { String::new() } else { format!(" {}", p.whos[e.who as usize]) },
                frames.join(" "),
                e.time,
                e.count
            )
        })
        .collect()
}

/// The account of all processes of the target.
fn account(result: &RunResult) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for (category, ns) in result.processes.iter().flat_map(|p| &p.account) {
        *out.entry(category.to_string()).or_insert(0) += ns;
    }
    out
}

fn own(p: &Profile) -> BTreeMap<String, u64> {
    p.account().into_iter().map(|(category, ns)| (category.to_string(), ns)).collect()
}

#[test]
fn running_time_is_spread_over_samples_to_the_last_ns() {
    let mut b = Bench::new(0, u64::MAX);
    // Three samples over 1000 ns: 333 each and one left over.
    b.sample(1200, ME, 0, HASH).sample(1300, ME, 0, HASH).sample(1400, ME, WRITE, PARSE);
    b.switch(2000, ME, 1, 0);
    let (result, p) = b.finish();
    assert_eq!(
        entries(&p)[1..],
        [
            "100 running [mix(i) hash main] 667 x2",
            "100 running [copy_page generic_perform_write ksys_write do_syscall_64 \
             entry_SYSCALL_64_after_hwframe write parse main] 333 x1",
        ]
    );
    assert_eq!(own(&p), account(&result));
    assert_eq!((p.samples, p.begin, p.end), (3, BEGIN, 100_000));
    assert_eq!(p.clock, "cpu-clock 199 Hz");
}

#[test]
fn spinning_and_interrupts_have_their_own_samples() {
    let mut b = Bench::new(0, u64::MAX);
    b.at(1000, ME, ContentionBegin { lock: 1, ..Default::default() });
    b.at(1300, ME, ContentionEnd { lock: 1, ..Default::default() });
    b.at(1400, ME, SoftirqEntry { vec: 3, ..Default::default() });
    b.at(1500, ME, SoftirqExit { vec: 3, ..Default::default() });
    b.sample(1100, ME, SPIN, 0).sample(1450, ME, SOFT, HASH).sample(1600, ME, 0, HASH);
    b.switch(2000, ME, 1, 0);
    let (result, p) = b.finish();
    assert_eq!(
        entries(&p)[1..],
        [
            "100 running [mix(i) hash main] 600 x1",
            "100 lock.spin [native_queued_spin_lock_slowpath ext4_rename __x64_sys_rename do_syscall_64] 300 x1",
            "100 interrupted [net_rx_action handle_softirqs __irq_exit_rcu asm_common_interrupt mix(i) hash main] 100 x1",
        ]
    );
    assert_eq!(own(&p), account(&result));
}

#[test]
fn without_their_samples_spinning_has_no_stack_and_running_takes_what_there_is() {
    let mut b = Bench::new(0, u64::MAX);
    b.at(1000, ME, ContentionBegin { lock: 1, ..Default::default() });
    b.at(1300, ME, ContentionEnd { lock: 1, ..Default::default() });
    b.sample(1600, ME, 0, HASH);
    b.switch(2000, ME, 1, 0);
    let (_, p) = b.finish();
    assert_eq!(entries(&p)[1..], ["100 running [mix(i) hash main] 700 x1", "100 lock.spin [] 300 x0"]);
    let mut b = Bench::new(0, u64::MAX);
    b.at(1000, ME, ContentionBegin { lock: 1, ..Default::default() });
    b.at(1300, ME, ContentionEnd { lock: 1, ..Default::default() });
    b.sample(1100, ME, SPIN, HASH);
    b.switch(2000, ME, 1, 0);
    let (_, p) = b.finish();
    let spin = "native_queued_spin_lock_slowpath ext4_rename __x64_sys_rename do_syscall_64 mix(i) hash main";
    assert_eq!(
        entries(&p)[1..],
        [format!("100 running [{spin}] 700 x0"), format!("100 lock.spin [{spin}] 300 x1")]
    );
}

#[test]
fn a_wait_has_the_user_stack_of_its_call_or_its_own() {
    let mut b = Bench::new(0, u64::MAX);
    // Told ahead: the kernel stack of the first wait, the user stack of its call, both of a fault's.
    b.stack(2000, PAGE).stack(2600, PARSE).stack(4000, PAGE).stack(4000, HASH);
    b.at(1100, ME, SysEnter { nr: 74, ..Default::default() });
    b.switch(1200, ME, 2, 0).switch(2000, 0, 0, ME);
    // Below the threshold, in the same call: the kernel does not tell where, its caller is the same.
    b.switch(2100, ME, 2, 0).switch(2200, 0, 0, ME);
    b.at(2600, ME, SysExit { nr: 74, ..Default::default() });
    // Outside of any call.
    b.switch(3000, ME, 2, 0).switch(4000, 0, 0, ME);
    // A call without a stack; the wait before it is not its.
    b.switch(4100, ME, 2, 0).switch(4105, 0, 0, ME);
    b.at(4200, ME, SysEnter { nr: 0, ..Default::default() }).stack(4300, HASH);
    b.at(4300, ME, SysExit { nr: 0, ..Default::default() });
    b.switch(4400, ME, 1, 0);
    let (result, p) = b.finish();
    let page = "__schedule schedule io_schedule folio_wait_bit ext4_sync_file __x64_sys_fsync do_syscall_64";
    assert_eq!(
        entries(&p)[2..],
        [
            format!("100 unexplained [{page} mix(i) hash main] 1000 x1"),
            format!("100 unexplained [{page} write parse main] 800 x1"),
            "100 unexplained [write parse main] 100 x1".into(),
        ]
    );
    // The wait before the last call, and the one that the end cut off.
    assert_eq!(entries(&p)[0], "100 unexplained [] 95605 x2");
    assert_eq!(own(&p), account(&result));
    assert!(p.notes[0].contains("never met the target"), "{:?}", p.notes);
}

#[test]
fn a_wait_counts_once_at_each_cause() {
    let mut b = Bench::new(0, u64::MAX);
    // Ready from 2000 to 5000; another had the CPU twice, and it idled between.
    b.switch(2000, ME, 0, OTHER).switch(3000, OTHER, 1, 0).switch(3500, 0, 0, OTHER);
    b.switch(5000, OTHER, 1, ME);
    b.switch(6000, ME, 1, 0);
    let (result, p) = b.finish();
    assert_eq!(
        entries(&p)[1..],
        ["100 preempted other [] 2500 x1", "100 running [] 2000 x0", "100 runnable.idle [] 500 x1"]
    );
    assert_eq!(own(&p), account(&result));
}

#[test]
fn a_window_clips_pieces_and_samples() {
    let mut b = Bench::new(1900, 2500);
    b.sample(1200, ME, 0, HASH).sample(1950, ME, WRITE, PARSE);
    b.stack(3000, PAGE);
    // 100 of 1000 ns are an interrupt's, somewhere.
    b.at(1400, ME, SoftirqEntry { vec: 3, ..Default::default() });
    b.at(1500, ME, SoftirqExit { vec: 3, ..Default::default() });
    b.switch(2000, ME, 2, 0).switch(3000, 0, 0, ME);
    b.switch(3100, ME, 1, 0);
    let (_, p) = b.finish();
    let page = "__schedule schedule io_schedule folio_wait_bit ext4_sync_file __x64_sys_fsync do_syscall_64";
    assert_eq!(
        entries(&p),
        [
            format!("100 unexplained [{page}] 500 x1"),
            "100 running [copy_page generic_perform_write ksys_write do_syscall_64 \
             entry_SYSCALL_64_after_hwframe write parse main] 90 x1"
                .into(),
            "100 interrupted [] 10 x0".into(),
        ]
    );
    assert_eq!((p.begin, p.end, p.samples), (1900, 2500, 1));
}

/// Twenty children of 10 ns, of which the clock met the first one if `met`.
fn children(met: bool) -> (Vec<String>, Vec<(u32, String)>) {
    let mut b = Bench::new(0, u64::MAX);
    b.sample(1500, ME, 0, HASH).sample(1600, ME, 0, HASH).sample(1700, ME, WRITE, PARSE);
    let mut ts = 2000;
    b.switch(ts, ME, 1, 0);
    for child in 1000..1020 {
        b.at(
            ts,
            ME,
            SchedFork {
                tid: ME,
                child_tid: child,
                child_tgid: child,
                parent_tgid: ME,
                target: 1,
                ..Default::default()
            },
        );
        b.switch(ts, 0, 0, child);
        if met && child == 1000 {
            b.sample(ts + 5, child, 0, PARSE);
        }
        b.switch(ts + 10, child, 0x80, 0);
        ts += 10;
    }
    let (result, p) = b.finish();
    assert_eq!(own(&p), account(&result));
    (entries(&p), p.threads.iter().map(|t| (t.tid, t.comm.clone())).collect())
}

#[test]
fn threads_that_the_clock_never_met_ran_what_their_like_ran() {
    let (all, threads) = children(false);
    assert_eq!(threads, [(ME, "me".into()), (0, "me".into())], "twenty of a name are one");
    let lent: Vec<String> = all.into_iter().filter(|e| e.starts_with("0 ")).collect();
    assert_eq!(lent[0], "0 running [mix(i) hash main] 133 x0");
    assert!(lent[1].ends_with(" 67 x0"), "{lent:?}");
}

#[test]
fn short_threads_ran_what_short_ones_ran() {
    let (all, _) = children(true);
    let lent: Vec<String> = all.into_iter().filter(|e| e.starts_with("0 ")).collect();
    assert_eq!(lent, ["0 running [write parse main] 190 x0"], "not what the long one ran that forked them");
}

#[test]
fn frames_say_where_they_are() {
    let mut b = Bench::new(0, 2000);
    b.sample(1200, ME, 0, HASH).sample(1300, ME, WRITE, PARSE).sample(1400, ME, 0, JITTED);
    b.sample(1500, ME, 0, CUT);
    b.switch(2000, ME, 1, 0);
    let (_, p) = b.finish();
    let frames = |function: &str| {
        let innermost = |s: &u32| p.frames_of(*s).first().map(|f| &*p.functions[f.function as usize].name);
        let with = (0..p.stacks.len() as u32).find(|s| innermost(s) == Some(function));
        let with = with.unwrap_or_else(|| panic!("{function}"));
        let frames: Vec<Frame> = p.frames_of(with).iter().copied().collect();
        (frames, p.stacks[with as usize].root)
    };
    let (hash, _) = frames("mix");
    let line = |i: usize| p.lines[hash[i].line as usize].as_str();
    assert_eq!([line(0), line(1), line(2)], ["h.c:3", "h.c:9", ""]);
    // The instruction itself, and a place inside the call.
    assert_eq!(hash.iter().map(|f| f.address).collect::<Vec<_>>(), [0x10, 0x10, 0x8f]);
    let f = |i: usize| &p.functions[hash[i].function as usize];
    assert_eq!((f(0).start, f(1).start, f(1).size), (0, 0, 64));
    let (write, root) = frames("copy_page");
    assert_eq!(write[0].address, 0xf100, "a sample's own address");
    assert_eq!(write[1].address, 0xf10f);
    assert_eq!(write[5].address, 0x4ff, "in a system call it is a return address");
    assert_eq!(root, Root::Whole);
    let jit = &p.functions[frames("js_loop").0[0].function as usize];
    assert_eq!((jit.origin, p.modules[jit.module as usize].path.as_str()), (Origin::Jit, "[jit]"));
    let (cut, root) = frames("me+0x333");
    assert_eq!((root, p.functions[cut[0].function as usize].named), (Root::Cut, false));
    assert_eq!(p.modules[0].path, "kernel");
    let me = p.modules.iter().position(|m| m.name() == "me").expect("the program") as u32;
    assert_eq!(p.modules[me as usize].lacking, "stripped");
    assert_eq!(p.code[&(me, 0x40)], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
    let notes = p.notes.join("\n");
    assert!(notes.contains("places in me that have no name: stripped."), "{notes}");
    assert!(notes.contains("a stack whose outer frames are missing"), "{notes}");
}

#[test]
fn the_kernels_rows_give_a_function_its_place() {
    let mut told = state();
    told.functions.push(StateFunction {
        offset: 0xf100,
        start: 0xf100,
        size: 0x10,
        names: "copy_page".into(),
        lines: "copy.S:1".into(),
        ..Default::default()
    });
    let mut b = Bench::of(told, 0, u64::MAX);
    b.sample(1200, ME, WRITE, 0);
    b.switch(2000, ME, 1, 0);
    let (_, p) = b.finish();
    let stack = p.stacks.iter().position(|s| !s.frames.is_empty()).expect("one");
    let frame = p.frames_of(stack as u32).first().expect("one");
    let f = &p.functions[frame.function as usize];
    assert_eq!((f.name.as_str(), f.start, f.size), ("copy_page", 0xf100, 16));
    assert_eq!(p.lines[frame.line as usize], "copy.S:1");
    assert_eq!(p.stacks[stack].root, Root::Cut, "user frames were not taken");
}

#[test]
fn hot_functions_and_their_callers() {
    let mut b = Bench::new(0, u64::MAX);
    b.sample(1200, ME, 0, HASH).sample(1300, ME, WRITE, PARSE).sample(1400, ME, WRITE, HASH);
    b.sample(1450, ME, WRITE, PARSE);
    b.stack(3000, PAGE).stack(3100, PARSE);
    b.at(1900, ME, SysEnter { nr: 74, ..Default::default() });
    b.switch(2000, ME, 2, 0).switch(3000, 0, 0, ME);
    b.at(3100, ME, SysExit { nr: 74, ..Default::default() });
    b.switch(3200, ME, 1, 0);
    let (_, p) = b.finish();
    let rows: Vec<String> = hot(&p, |_| true)
        .iter()
        .map(|r| {
            let under = r.under.join("<");
            format!(
                "{} {:?} {} {} {under} {} {} x{}",
                r.category, r.origin, r.module, r.function, r.call, r.time, r.count
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            "running Kernel kernel copy_page generic_perform_write<parse<main write(2) 900 x3",
            "running User me mix hash<main  300 x1",
            "unexplained User me parse main fsync(2) 1000 x1",
        ]
    );
}

#[test]
fn a_lock_of_the_kernel_is_told_by_who_wants_it() {
    let mut told = state();
    told.stacks[3].text =
        "__schedule;schedule;rwsem_down_write_slowpath;down_write;ext4_rename;__x64_sys_rename;do_syscall_64"
            .into();
    let mut b = Bench::of(told, 0, u64::MAX);
    b.stack(3000, PAGE).stack(3000, HASH);
    b.at(1900, ME, ContentionBegin { lock: 1, ..Default::default() });
    b.switch(2000, ME, 2, 0).switch(3000, 0, 0, ME);
    b.at(3000, ME, ContentionEnd { lock: 1, ..Default::default() });
    b.switch(3200, ME, 1, 0);
    let (_, p) = b.finish();
    let rows = hot(&p, |_| true);
    let row = rows.iter().find(|r| r.category == Category::KernelLock).expect("the lock");
    assert_eq!((row.function.as_str(), row.call.as_str()), ("ext4_rename", "rename(2)"));
    assert_eq!(row.under, ["mix", "hash", "main"]);
}

/// One step of a random trace: nonsense is allowed.
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
    (0u64..50, 0u32..3, 0u32..26, 0u32..6, 1u32..6, 0u32..6).prop_map(|(dt, cpu, kind, a, b, c)| Step {
        dt,
        cpu,
        kind,
        a,
        b,
        c,
    })
}

fn record(s: &Step, ts: u64) -> Vec<u8> {
    macro_rules! make {
        ($t:ident { $($f:ident: $v:expr),* }) => {
            $t { ts, id: $t::ID, tid: s.a, $($f: $v,)* ..Default::default() }.bytes().to_vec()
        };
    }
    match s.kind {
        0..=9 => make!(SchedSwitch {
            next_tid: s.b,
            prev_state: [0, 1, 2, 0x80, 2, 1][s.c as usize],
            preempt: s.b % 2
        }),
        10..=13 => make!(SchedWaking { wakee: s.b }),
        14 => make!(SchedFork { child_tid: s.b, child_tgid: s.b, parent_tgid: s.a, target: 1 }),
        15..=17 => make!(SysEnter { nr: s.c }),
        18..=20 => make!(SysExit { nr: s.c }),
        21 => make!(SoftirqEntry { vec: s.c }),
        22 => make!(SoftirqExit { vec: s.c }),
        23 => make!(ContentionBegin { lock: 1 }),
        24 => make!(ContentionEnd { lock: 1 }),
        _ => make!(SchedExec { comm: [b'a' + s.c as u8; 16] }),
    }
}

/// The profile and the account of random steps within a window.
fn run(steps: &[Step], gaps: &[(usize, u32, u64)], from: u64, to: u64) -> (RunResult, Profile) {
    let setup = Setup { begin: BEGIN, end: u64::MAX, everyone: true, state: state(), ..Setup::default() };
    let mut model = Model::new(setup, Collector::new(from, to));
    let mut ts = BEGIN;
    let mut silent = [0u64; 3];
    for (i, s) in steps.iter().enumerate() {
        ts += s.dt;
        for (_, cpu, length) in gaps.iter().filter(|(at, ..)| *at == i) {
            model.feed(Item::Gap(Gap { cpu: *cpu, begin: ts, end: ts + length, lost: 5 }));
            silent[*cpu as usize] = ts + length;
        }
        if silent[s.cpu as usize] > ts {
            continue;
        }
        // What is told of this moment: stacks of a wait or a call that ends, and a sample.
        for stack in [s.c, s.b + 10] {
            let told = StateWaitStack { end: ts, waiter: if s.kind < 10 { s.b } else { s.a }, stack };
            model.feed(Item::Told(&Told::Wait(told)));
        }
        let sample = StateCpuSample { at: ts, thread: s.a, cpu: s.cpu, kernel: s.c, user: s.b + 9 };
        if s.dt % 3 == 0 {
            model.feed(Item::Told(&Told::Sample(sample)));
        }
        let bytes = record(s, ts);
        let id = u16::from_le_bytes([bytes[8], bytes[9]]);
        model.feed(Item::Record(RawRecord { ts, id, cpu: s.cpu, tid: s.a, bytes: &bytes }));
    }
    let (result, collector) = model.finish();
    (result, collector.profile(&state()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_profile_adds_up_to_the_account(
        steps in prop::collection::vec(step(), 1..150),
        gaps in prop::collection::vec((0usize..150, 0u32..3, 1u64..400), 0..3),
        cut in 0u64..4000,
    ) {
        let (result, whole) = run(&steps, &gaps, 0, u64::MAX);
        prop_assert_eq!(own(&whole), account(&result));
        let mut threads: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for e in &whole.entries {
            prop_assert!(e.time > 0);
            let tid = whole.threads[e.thread as usize].tid;
            *threads.entry((tid, e.category.name())).or_default() += e.time;
        }
        let mut rows: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for t in result.processes.iter().flat_map(|p| &p.threads) {
            t.account.iter().for_each(|(c, ns)| *rows.entry((t.tid, c.name())).or_default() += ns);
        }
        prop_assert_eq!(threads, rows, "thread by thread");
        // Two windows side by side have it all; an interrupt's share is rounded down in each.
        let (_, first) = run(&steps, &gaps, 0, BEGIN + cut);
        let (_, second) = run(&steps, &gaps, BEGIN + cut, u64::MAX);
        for (category, ns) in whole.account() {
            let part = |p: &Profile| p.account().get(category).copied().unwrap_or(0);
            let both = part(&first) + part(&second);
            prop_assert!(both <= ns && ns <= both + 8, "{}: {} of {}", category, both, ns);
        }
        prop_assert!(first.samples + second.samples >= whole.samples);
    }
}
