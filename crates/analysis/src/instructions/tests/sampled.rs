// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of one function whose code and samples are known; the tests of listings use them too.

use plumb_model::profile::{Entry, Frame, Function, Module, Origin, Profile, Root, Stack, Thread};
use plumb_model::Category;

/// Where the tests' function begins.
pub const START: u64 = 0x1000;

pub fn function(name: &str, module: u32, start: u64, size: u64) -> Function {
    Function { name: name.into(), named: true, module, origin: Origin::User, start, size }
}

/// A profile of `f` in `prog`, with its code and samples by offset, 1 ms each.
pub fn profile(code: &[u8], samples: &[(u64, u64)]) -> Profile {
    let module = |path: &str| Module { path: path.into(), ..Module::default() };
    let mut p = Profile {
        threads: vec![Thread { tid: 1, pid: 1, comm: "t".into(), process: "t".into() }],
        modules: vec![module("kernel"), module("/bin/prog"), module("/lib/libx.so")],
        functions: vec![function("f", 1, START, code.len() as u64)],
        lines: vec![String::new()],
        stacks: vec![Stack::default()],
        clock: "cpu-clock 199 Hz".into(),
        ..Profile::default()
    };
    if !code.is_empty() {
        p.code.insert((1, START), code.to_vec());
    }
    for (offset, n) in samples {
        sample(&mut p, &[frame(0, START + offset)], *n);
    }
    p
}

pub fn frame(function: u32, address: u64) -> Frame {
    Frame { function, address, line: 0, inlined: false }
}

/// More samples of a stack, 1 ms each.
pub fn sample(p: &mut Profile, frames: &[Frame], n: u64) {
    let stack = p.push_stack(frames, Root::Whole);
    p.entries.push(Entry {
        thread: 0,
        cpu: Some(0),
        category: Category::Running,
        who: 0,
        stack,
        time: n * 1_000_000,
        count: n,
    });
}
