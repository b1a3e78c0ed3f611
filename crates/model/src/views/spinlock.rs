// SPDX-License-Identifier: Apache-2.0 OR MIT
//! spinlock: waits for kernel locks, from the entry into the slow path to its
//! end, by lock, kind and call site; how much of it off the CPU and how much on it.

use super::names::Names;
use super::sample::{type_of, Key, Sample, NONE};
use super::View;
use crate::locks::flags;
use crate::sched::Switch;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::{ContentionBegin, ContentionEnd, SchedSwitch};
use plumb_trace::Record;
use std::collections::HashMap;

/// Waits within waits that are followed: a spinlock inside the slow path of a mutex is one.
const DEPTH: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Wait {
    lock: u64,
    flags: u32,
    begin: u64,
    off_cpu: u64,
    left: Option<u64>,
    site: u64,
}

#[derive(Debug, Default)]
pub struct SpinLock {
    /// Open waits by thread, innermost last.
    waits: HashMap<u64, Vec<Wait>>,
}

/// The idle threads share the id 0, so there the CPU tells them apart.
fn who(tid: u32, cpu: u32) -> u64 {
    if tid == 0 {
        1 << 32 | u64::from(cpu)
    } else {
        u64::from(tid)
    }
}

fn kind(bits: u32, slept: bool) -> &'static str {
    let write = bits & flags::WRITE != 0;
    match bits {
        f if f & flags::MUTEX != 0 => "mutex",
        f if f & flags::RT != 0 => "rtmutex",
        f if f & flags::PERCPU != 0 && write => "percpu rwsem writer",
        f if f & flags::PERCPU != 0 => "percpu rwsem reader",
        f if f & flags::SPIN != 0 && write => "rwlock writer",
        f if f & flags::SPIN != 0 && f & flags::READ != 0 => "rwlock reader",
        f if f & flags::READ != 0 => "rwsem reader",
        _ if write => "rwsem writer",
        // Spinlocks and semaphores both come without a flag; only one of them sleeps.
        _ if slept => "semaphore",
        _ => "spinlock",
    }
}

impl SpinLock {
    fn begin(&mut self, r: &RawRecord<'_>) {
        let e = ContentionBegin::read(r.bytes);
        let open = self.waits.entry(who(r.tid, r.cpu)).or_default();
        // A mutex begins again when it turns from spinning to sleeping: still one wait.
        if open.iter().any(|w| w.lock == e.lock) {
            return;
        }
        if open.len() == DEPTH {
            open.remove(0);
        }
        open.push(Wait { lock: e.lock, flags: e.flags, begin: r.ts, off_cpu: 0, left: None, site: NONE });
    }

    fn end(&mut self, r: &RawRecord<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        let e = ContentionEnd::read(r.bytes);
        let key = who(r.tid, r.cpu);
        let Some(open) = self.waits.get_mut(&key) else { return };
        let Some(at) = open.iter().rposition(|w| w.lock == e.lock) else { return };
        let wait = open.remove(at);
        if open.is_empty() {
            self.waits.remove(&key);
        }
        let call = names.call(r.tid);
        let site = if wait.site == NONE { Names::call_site(call) } else { wait.site };
        let sample = Sample::interval("wait for a lock", wait.begin, r.ts);
        let off = wait.off_cpu.min(sample.value);
        out(sample
            .parts([off, sample.value - off])
            .of(r.tid, names)
            .with(Key::Cpu, r.cpu)
            .with(Key::Lock, wait.lock)
            .with(Key::Type, type_of(kind(wait.flags, off > 0)))
            .with(Key::Call, call)
            .with(Key::Site, site));
    }

    fn switch(&mut self, r: &RawRecord<'_>, names: &Names) {
        let next = Switch::read(r).next;
        if let Some(open) = self.waits.get_mut(&u64::from(r.tid)) {
            open.iter_mut().for_each(|w| w.left = Some(r.ts));
        }
        if let Some(open) = self.waits.get_mut(&u64::from(next)) {
            let site = names.stack(next, r.ts);
            for wait in open {
                wait.off_cpu += wait.left.take().map_or(0, |left| r.ts.saturating_sub(left));
                wait.site = site.unwrap_or(wait.site);
            }
        }
    }
}

impl View for SpinLock {
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample)) {
        match item {
            Item::Record(r) => match r.id {
                ContentionBegin::ID => self.begin(r),
                ContentionEnd::ID => self.end(r, names, out),
                SchedSwitch::ID if !self.waits.is_empty() => self.switch(r, names),
                _ => {}
            },
            Item::Gap(_) => self.waits.clear(),
            Item::Told(_) | Item::Operation(_) => {}
        }
    }
}
