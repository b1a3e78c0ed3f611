// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles with known answers for the tests of the formats.

use plumb_model::profile::{Entry, Frame, Function, Module, Origin, Profile, Root, Stack, Thread};
use plumb_model::Category;

fn function(name: &str, module: u32, origin: Origin) -> Function {
    Function { name: name.into(), named: true, module, origin, start: 0x1000, size: 0x100 }
}

fn frame(function: u32, address: u64, line: u32, inlined: bool) -> Frame {
    Frame { function, address, line, inlined }
}

fn thread(tid: u32, comm: &str) -> Thread {
    Thread { tid, pid: 10, comm: comm.into(), process: "app".into() }
}

fn entry(thread: u32, category: Category, who: u32, stack: u32, time: u64, count: u64) -> Entry {
    let cpu = (category == Category::Running && stack > 0).then_some(1);
    Entry { thread, cpu, category, who, stack, time, count }
}

/// Two threads, each kind of code, a device, a sleep, a cut stack and time without a sample: 98 us.
pub fn small() -> Profile {
    let mut p = Profile {
        begin: 1_000,
        end: 61_000,
        threads: vec![thread(10, "app"), thread(11, "worker")],
        whos: vec![String::new(), "sda".into()],
        modules: vec![
            Module { path: "kernel".into(), ..Module::default() },
            Module { path: "/usr/bin/app".into(), build_id: "ab12".into(), lacking: String::new() },
            Module { path: "/lib/libc.so.6".into(), build_id: "cd34".into(), lacking: String::new() },
            Module { path: "[jit]".into(), ..Module::default() },
        ],
        functions: vec![
            function("main", 1, Origin::User),
            function("fast", 1, Origin::User),
            function("read", 2, Origin::User),
            function("sys_read", 0, Origin::Kernel),
            function("hot", 3, Origin::Jit),
        ],
        lines: vec![String::new(), "app.c:7".into(), "fast.h:12".into()],
        stacks: vec![Stack::default()],
        entries: vec![
            entry(0, Category::BlockIssued, 1, 2, 50_000, 3),
            entry(0, Category::Running, 0, 1, 30_000, 6),
            entry(1, Category::Running, 0, 3, 8_000, 2),
            entry(1, Category::Timer, 0, 0, 6_000, 1),
            entry(0, Category::Running, 0, 0, 4_000, 0),
        ],
        samples: 8,
        clock: "cpu-clock 199 Hz".into(),
        notes: vec!["1 stack is cut".into()],
        ..Profile::default()
    };
    p.push_stack(&[frame(1, 0x1010, 2, true), frame(0, 0x1010, 1, false)], Root::Whole);
    let read = [frame(3, 0xffff_8000, 0, false), frame(2, 0x900, 0, false), frame(0, 0x1020, 1, false)];
    p.push_stack(&read, Root::Whole);
    p.push_stack(&[frame(4, 0x7000, 0, false)], Root::Cut);
    p
}

/// A profile of `stacks` different stacks, the same for the same seed.
pub fn random(seed: u64, stacks: u32) -> Profile {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    // Knuth's MMIX generator: the upper half is good enough.
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut p = small();
    p.functions = (0..5_000u64)
        .map(|i| {
            let (module, origin) = match i % 4 {
                0 => (0, Origin::Kernel),
                1 => (3, Origin::Jit),
                _ => (1, Origin::User),
            };
            function(&format!("namespace::Type<{i}>::function_{i}(int, char const&)"), module, origin)
        })
        .collect();
    p.stacks.truncate(1);
    p.entries.clear();
    for i in 0..stacks {
        let mut frames = Vec::new();
        let mut at = next(5);
        for depth in 0..8 + next(25) {
            at = (at * 7 + 1 + next(if depth < 6 { 2 } else { 5 })) % 5_000;
            frames.insert(0, frame(at as u32, at * 64 + 4, 0, next(9) == 0));
        }
        // The outermost function has no caller to be inlined into.
        frames.iter_mut().rev().take(1).for_each(|f| f.inlined = false);
        p.push_stack(&frames, Root::Whole);
        let category = [Category::Running, Category::BlockIssued, Category::Timer][next(3) as usize];
        let who = u32::from(category == Category::BlockIssued);
        let time = 1_000_000_000 / (u64::from(i) + 3) + next(5_000);
        p.entries.push(entry(next(2) as u32, category, who, i + 1, time, 1 + next(4)));
    }
    p.entries.sort_by_key(|e| std::cmp::Reverse(e.time));
    p
}
