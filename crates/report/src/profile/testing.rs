// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles from text, for tests.

use plumb_model::profile::{Entry, Frame, Function, Module, Origin, Profile, Root, Stack, Thread};
use plumb_model::{Category, CATEGORIES};

fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> u32 {
    let at = all.iter().position(|a| *a == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    u32::try_from(at).expect("few")
}

fn module(path: &str) -> Module {
    Module { path: path.into(), ..Module::default() }
}

/// `[module!]name[@FILE:LINE][_[k]|_[i]|_[j]]`; no module means `/bin/app`, `?` has no symbol.
fn frame(p: &mut Profile, word: &str) -> Frame {
    let (word, origin, inlined) = match word.rsplit_once("_[") {
        Some((w, "k]")) => (w, Origin::Kernel, false),
        Some((w, "i]")) => (w, Origin::User, true),
        Some((w, "j]")) => (w, Origin::Jit, false),
        _ => (word, Origin::User, false),
    };
    let (word, line) = word.split_once('@').unwrap_or((word, ""));
    let (path, name) = word.split_once('!').unwrap_or(("/bin/app", word));
    let module = if origin == Origin::Kernel { 0 } else { place(&mut p.modules, module(path)) };
    let function =
        Function { name: name.into(), named: !name.contains('?'), module, origin, start: 0, size: 0 };
    let function = place(&mut p.functions, function);
    Frame { function, address: 0, line: place(&mut p.lines, line.into()), inlined }
}

/// A profile of lines such as `app;main;f;read_[k] block.device@sda 30*2`: thread and frames,
/// outermost first; category and cause; time in ms and count. A frame `~` in front: the
/// outer ones are missing. `app:7` is thread 7 of process 1.
pub fn profile(text: &str) -> Profile {
    let mut p = Profile {
        end: 1_000_000_000,
        modules: vec![module("kernel")],
        whos: vec![String::new()],
        lines: vec![String::new()],
        stacks: vec![Stack::default()],
        clock: "cpu-clock 199 Hz".into(),
        ..Profile::default()
    };
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (rest, number) = line.rsplit_once(' ').expect("time");
        let (stack, state) = rest.rsplit_once(' ').expect("category");
        let (time, count) = number.split_once('*').unwrap_or((number, "1"));
        let (state, who) = state.split_once('@').unwrap_or((state, ""));
        let category =
            CATEGORIES.iter().find(|(_, name, _)| *name == state).map(|(c, ..)| *c).expect("category");
        let mut words = stack.split(';');
        let name = words.next().expect("thread");
        let (comm, tid) = name.split_once(':').unwrap_or((name, "1"));
        let thread =
            Thread { tid: tid.parse().expect("tid"), pid: 1, comm: comm.into(), process: "app".into() };
        let thread = place(&mut p.threads, thread);
        let mut root = Root::Whole;
        let mut frames: Vec<Frame> = Vec::new();
        for word in words {
            if word == "~" {
                root = Root::Cut;
            } else {
                let frame = frame(&mut p, word);
                frames.insert(0, frame);
            }
        }
        let empty = frames.is_empty();
        let frames = frames.into_iter().map(|f| place(&mut p.frames, f)).collect();
        let on_cpu = matches!(category, Category::Running | Category::Spinning | Category::Interrupted);
        let sampled = on_cpu && !empty;
        let entry = Entry {
            thread,
            cpu: sampled.then_some(0),
            category,
            who: place(&mut p.whos, who.into()),
            stack: place(&mut p.stacks, Stack { frames, root }),
            time: time.parse::<u64>().expect("ms") * 1_000_000,
            count: count.parse().expect("count"),
        };
        p.samples += if sampled { entry.count } else { 0 };
        p.entries.push(entry);
    }
    p.entries.sort_by_key(|e| std::cmp::Reverse(e.time));
    p
}

/// A reader that waits for its disk, and computes.
pub const READER: &str = "
    app;main;parse;copy_[k] running 400*80
    app;main;parse running 200*40
    app;main;parse;hash_[i] running 50*10
    app;main;read;vfs_read_[k];folio_wait_[k];io_schedule_[k];schedule_[k] block.device@sda 250*25
    app:2;start;libc.so.6!futex_wait;do_futex_[k];schedule_[k] lock.user@app 80*4
    app:2 running 15
    app:2 runnable 5*3";

/// A walk through a tree that calls itself, and through another function.
pub const RECURSIVE: &str = "
    app;main;walk;walk;walk running 10
    app;main;walk;visit;walk;leaf running 20
    app;main;walk;visit running 5
    app;main;other;leaf running 65";
