// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One item of a view, and the keys by which items are grouped.

use super::names::Names;
use super::waypoints;
use crate::wait::call_name;
use plumb_trace::kernel::{req, softirq};

/// A field that an item does not have.
pub const NONE: u64 = u64::MAX;

/// What items can be grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Process,
    Thread,
    Comm,
    Cpu,
    /// Kernel priority, 0-139.
    Priority,
    /// Thread that ran before on the CPU that was waited for.
    Instead,
    Irq,
    Lock,
    /// Kind of the lock and of the wait for it, or of a wait.
    Type,
    Site,
    Call,
    Device,
    /// Operation of a block request.
    Operation,
    Interface,
    /// Two waypoints of a system call, one after the other.
    Way,
    /// Function of the kernel, by the system call that it was called in.
    Function,
}

/// Keys with the names that `--by` takes.
pub const KEYS: &[(Key, &str)] = &[
    (Key::Process, "process"),
    (Key::Thread, "thread"),
    (Key::Comm, "comm"),
    (Key::Cpu, "cpu"),
    (Key::Priority, "priority"),
    (Key::Instead, "instead"),
    (Key::Irq, "irq"),
    (Key::Lock, "lock"),
    (Key::Type, "type"),
    (Key::Site, "site"),
    (Key::Call, "call"),
    (Key::Device, "device"),
    (Key::Operation, "operation"),
    (Key::Interface, "interface"),
    (Key::Way, "way"),
    (Key::Function, "function"),
];

impl Key {
    /// Name in options and in JSON.
    pub fn name(self) -> &'static str {
        KEYS[self as usize].1
    }

    /// Words for a value of this key.
    pub fn label(self, value: u64, names: &Names) -> String {
        if value == NONE {
            return match self {
                Key::Site => names.site_label(NONE),
                _ => "-".into(),
            };
        }
        let n = value as u32;
        match self {
            Key::Process | Key::Thread | Key::Instead => names.thread_label(n),
            Key::Comm => names.comm_label(value),
            Key::Cpu | Key::Priority => value.to_string(),
            Key::Irq => irq_label(value),
            Key::Lock => format!("{value:#x}"),
            Key::Type => TYPES.get(value as usize).copied().unwrap_or("-").into(),
            Key::Site => names.site_label(value),
            Key::Call => call_name(n),
            Key::Device => names.disk_label(n),
            Key::Operation => req::word(n).into(),
            Key::Interface => format!("if{value}"),
            Key::Way => {
                let [call, from, to] = waypoints::way(value, names);
                format!("{call}: {from} to {to}")
            }
            Key::Function => waypoints::function(value, names).join(": "),
        }
    }
}

/// Words of [`Key::Type`]; the place is the value.
const TYPES: &[&str] = &[
    "spinlock",
    "rwlock reader",
    "rwlock writer",
    "rwsem reader",
    "rwsem writer",
    "mutex",
    "rtmutex",
    "percpu rwsem reader",
    "percpu rwsem writer",
    "semaphore",
    "interruptible",
    "uninterruptible",
    "idle (uninterruptible, no load)",
    "stopped or traced",
    "other sleep",
    "preempted",
    "gave way",
    "new",
    "woken",
];

/// The value of a word of [`Key::Type`].
pub(super) fn type_of(word: &str) -> u64 {
    TYPES.iter().position(|t| *t == word).map_or(NONE, |t| t as u64)
}

/// Soft interrupts are numbered behind the device interrupts.
pub(super) const SOFTIRQ: u64 = 1 << 32;
pub(super) const LOCAL_TIMER: u64 = 2 << 32;
/// A call from another CPU.
pub(super) const CALL_FUNCTION: u64 = 3 << 32;

fn irq_label(value: u64) -> String {
    let n = value & 0xffff_ffff;
    match value & !0xffff_ffff {
        SOFTIRQ => {
            softirq::NAMES.get(n as usize).map_or_else(|| format!("softirq {n}"), |s| format!("softirq {s}"))
        }
        LOCAL_TIMER => "local timer".into(),
        CALL_FUNCTION => "call from another CPU".into(),
        _ => format!("irq {n}"),
    }
}

/// One item: something that was waited for, or counted.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// What the value is; items of different kinds are never added up.
    pub kind: &'static str,
    /// Begin, ns.
    pub begin: u64,
    /// End, ns; the same as the begin where the item is a moment.
    pub end: u64,
    /// Duration in ns, or what the view counts.
    pub value: u64,
    /// Two parts of the value, as the view names them, same unit.
    pub parts: [u64; 2],
    fields: [u64; KEYS.len()],
}

impl Sample {
    /// An item that lasts from `begin` to `end`; its value is its length, ns.
    pub fn interval(kind: &'static str, begin: u64, end: u64) -> Self {
        Self { kind, begin, end, value: end.saturating_sub(begin), parts: [0; 2], fields: [NONE; KEYS.len()] }
    }

    /// A count at a moment.
    pub fn count(kind: &'static str, at: u64, value: u64) -> Self {
        Self { value, ..Self::interval(kind, at, at) }
    }

    #[must_use]
    pub fn with(mut self, key: Key, value: impl Into<u64>) -> Self {
        self.fields[key as usize] = value.into();
        self
    }

    #[must_use]
    pub fn parts(mut self, parts: [u64; 2]) -> Self {
        self.parts = parts;
        self
    }

    /// Sets thread, process and name.
    #[must_use]
    pub fn of(self, tid: u32, names: &Names) -> Self {
        self.with(Key::Thread, tid).with(Key::Process, names.process(tid)).with(Key::Comm, names.comm_of(tid))
    }

    /// A field, [`NONE`] where the item has none.
    pub fn get(&self, key: Key) -> u64 {
        self.fields[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_at_their_own_place() {
        for (i, (key, name)) in KEYS.iter().enumerate() {
            assert_eq!((*key as usize, key.name()), (i, *name));
        }
        assert_ne!(type_of("woken"), NONE);
    }
}
