// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a system call: its waypoints are its enter, the begin and the end of each span of a kernel function
//! within it, and its exit. An item is what lies between one and the next, a call, or a function.

use super::names::Names;
use super::sample::{Key, Sample};
use super::View;
use crate::wait::call_name;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::{SpanBegin, SpanEnd, SysEnter, SysExit};
use plumb_trace::Record;
use std::collections::HashMap;

pub const NAME: &str = "waypoints";
/// A system call with waypoints.
pub const CALL: &str = "system call";
/// Between two waypoints, one after the other.
pub const WAY: &str = "between waypoints";
/// A call of a function, those that it calls included.
pub const FUNCTION: &str = "function";

/// A waypoint, and a system call, have so many bits in a key.
const BITS: u32 = 20;
const MASK: u64 = (1 << BITS) - 1;
/// In the place of a system call: none is known.
pub const NO_CALL: u64 = MASK;
const ENTER: u64 = 0;
const EXIT: u64 = 1;
/// Spans further on are left out; a damaged record's, or nobody's.
const MOST_SPANS: u32 = 1 << (BITS - 2);
/// Functions within each other that are followed.
const DEEPEST: usize = 64;

fn begin(span: u32) -> u64 {
    2 + 2 * u64::from(span)
}

fn end(span: u32) -> u64 {
    begin(span) + 1
}

fn call_label(call: u64) -> String {
    if call == NO_CALL {
        "no system call".into()
    } else {
        call_name(call as u32)
    }
}

fn label(waypoint: u64, names: &Names) -> String {
    let name = |n: u64| names.function((n >> 1) as u32).unwrap_or("unknown");
    match waypoint {
        ENTER => "enter".into(),
        EXIT => "exit".into(),
        n if n & 1 == 0 => name(n - 2).into(),
        n => format!("{} ends", name(n - 3)),
    }
}

/// Of a value of [`Key::Way`]: the system call's name, and those of the two waypoints.
pub fn way(value: u64, names: &Names) -> [String; 3] {
    let part = |n: u32| value >> (n * BITS) & MASK;
    [call_label(part(2)), label(part(1), names), label(part(0), names)]
}

/// Of a value of [`Key::Function`]: the names of the system call and of the function.
pub fn function(value: u64, names: &Names) -> [String; 2] {
    let name = names.function((value & MASK) as u32).unwrap_or("unknown");
    [call_label(value >> BITS & MASK), name.into()]
}

/// The system call of a value of [`Key::Way`] or [`Key::Function`], as [`Key::Call`] has it.
pub fn call_of(by: Key, value: u64) -> u64 {
    value >> (BITS * if by == Key::Way { 2 } else { 1 }) & MASK
}

/// A system call that a thread is in.
#[derive(Debug)]
struct Call {
    nr: u64,
    begin: u64,
    /// The last waypoint, and when it was passed, ns.
    last: (u64, u64),
}

/// A function that has not ended.
#[derive(Debug)]
struct Open {
    span: u32,
    begin: u64,
    /// Time of functions that it called, ns.
    within: u64,
}

#[derive(Debug, Default)]
struct Thread {
    call: Option<Call>,
    open: Vec<Open>,
}

impl Thread {
    fn nr(&self) -> u64 {
        self.call.as_ref().map_or(NO_CALL, |c| c.nr)
    }

    /// The thread passes a waypoint.
    fn pass(&mut self, ts: u64, waypoint: u64) -> Option<Sample> {
        let call = self.call.as_mut()?;
        let (from, at) = std::mem::replace(&mut call.last, (waypoint, ts));
        let way = call.nr << (2 * BITS) | from << BITS | waypoint;
        let since = at.saturating_sub(call.begin);
        let s = Sample::interval(WAY, at, ts).parts([since, 0]);
        Some(s.with(Key::Way, way).with(Key::Call, call.nr))
    }

    /// Ends the innermost of a span; those within it have no end.
    fn end(&mut self, ts: u64, span: u32) -> Option<Sample> {
        let at = self.open.iter().rposition(|o| o.span == span)?;
        self.open.truncate(at + 1);
        let done = self.open.pop()?;
        let s = Sample::interval(FUNCTION, done.begin, ts);
        if let Some(outer) = self.open.last_mut() {
            outer.within += s.value;
        }
        let s = s.parts([s.value.saturating_sub(done.within), done.within.min(s.value)]);
        let s = s.with(Key::Function, self.nr() << BITS | u64::from(span));
        Some(if self.call.is_some() { s.with(Key::Call, self.nr()) } else { s })
    }
}

/// The system calls that threads are in.
#[derive(Debug, Default)]
pub struct Waypoints {
    threads: HashMap<u32, Thread>,
}

impl Waypoints {
    fn record(&mut self, r: &RawRecord<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let known = |span: u32| span < MOST_SPANS && names.function(span).is_some();
        match r.id {
            SysEnter::ID => {
                let nr = u64::from(SysEnter::read(r.bytes).nr);
                let call = (nr < NO_CALL).then_some(Call { nr, begin: r.ts, last: (ENTER, r.ts) });
                // No function of the kernel outlives the system call that called it.
                self.threads.insert(r.tid, Thread { call, open: Vec::new() });
            }
            SysExit::ID => {
                let Some(mut thread) = self.threads.remove(&r.tid) else { return };
                let passed = thread.call.as_ref().is_some_and(|c| c.last.0 != ENTER);
                let Some(way) = thread.pass(r.ts, EXIT).filter(|_| passed) else { return };
                out(way.of(r.tid, names));
                let begin = thread.call.as_ref().map_or(r.ts, |c| c.begin);
                out(Sample::interval(CALL, begin, r.ts).with(Key::Call, thread.nr()).of(r.tid, names));
            }
            SpanBegin::ID => {
                let span = SpanBegin::read(r.bytes).span;
                if !known(span) {
                    return;
                }
                let thread = self.threads.entry(r.tid).or_default();
                if let Some(way) = thread.pass(r.ts, begin(span)) {
                    out(way.of(r.tid, names));
                }
                if thread.open.len() < DEEPEST {
                    thread.open.push(Open { span, begin: r.ts, within: 0 });
                }
            }
            SpanEnd::ID => {
                let span = SpanEnd::read(r.bytes).span;
                let Some(thread) = self.threads.get_mut(&r.tid).filter(|_| known(span)) else { return };
                if let Some(way) = thread.pass(r.ts, end(span)) {
                    out(way.of(r.tid, names));
                }
                if let Some(function) = thread.end(r.ts, span) {
                    out(function.of(r.tid, names));
                }
            }
            _ => {}
        }
    }
}

impl View for Waypoints {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        match item {
            Item::Record(r) => self.record(r, names, out),
            // Waypoints may be missing of any thread.
            Item::Gap(_) => self.threads.clear(),
            Item::Told(_) | Item::Operation(_) => {}
        }
    }
}
