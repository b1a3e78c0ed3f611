// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LKST's analysers and btt as views of a trace: each view is a small state
//! machine that turns events into items (a wait, a request, a packet), one file
//! each; what all of them share is beside them.
//!
//! Memory is bounded by what is open, and by the groups that were asked for;
//! never by the number of items.

mod blkqueue;
pub mod btt;
mod buffer;
mod busywait;
mod cpu;
mod groups;
mod names;
mod netroute;
mod netsend;
mod offcpu;
mod runqueue;
mod sample;
mod spinlock;
#[cfg(test)]
mod tests;
mod waitqueue;
mod waittime;
pub mod waypoints;

pub use crate::histogram::Histogram;
pub use groups::{Group, Groups};
pub use names::Names;
pub use sample::{Key, Sample, KEYS, NONE};

use plumb_trace::kernel::{MOST_CPUS, TID_LIMIT};
use plumb_trace::reader::{Item, RawRecord, State};

/// A state machine that turns events into items.
pub trait View {
    /// Takes the next item of the trace, in the order of time, and hands out
    /// what ended with it.
    fn feed(&mut self, item: &Item<'_>, names: &Names, out: &mut dyn FnMut(Sample));
}

/// What a view's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Durations, ns.
    Time,
    Count,
    /// Sectors of 512 bytes.
    Sectors,
}

/// A table of a view: which items, grouped by what.
#[derive(Debug, Clone, Copy)]
pub struct Grouping {
    /// Kind of the items; empty for every kind.
    pub kind: &'static str,
    pub by: Key,
}

impl Grouping {
    /// Whether items of this kind belong to the table.
    pub fn wants(&self, kind: &str) -> bool {
        self.kind.is_empty() || self.kind == kind
    }
}

/// What there is to know of a view before it runs.
#[derive(Debug)]
pub struct Spec {
    /// Name on the command line.
    pub name: &'static str,
    pub about: &'static str,
    /// Events without which it says nothing.
    pub needs: &'static [&'static str],
    /// Events that give it more, and what.
    pub gains: &'static [(&'static str, &'static str)],
    /// The event sets to record, as `-e` takes them.
    pub record: &'static str,
    /// The tables that it shows when nothing else is asked for.
    pub tables: &'static [Grouping],
    /// Keys that its items have.
    pub keys: &'static [Key],
    /// Names of the two parts of its values; empty where it has none.
    pub parts: [&'static str; 2],
    pub unit: Unit,
    make: fn() -> Box<dyn View>,
}

macro_rules! view {
    ($machine:ty) => {
        || Box::new(<$machine>::default())
    };
}

const fn table(kind: &'static str, by: Key) -> Grouping {
    Grouping { kind, by }
}

const PIDS: [Key; 3] = [Key::Process, Key::Thread, Key::Comm];

pub const VIEWS: &[Spec] = &[
    Spec {
        name: "cpu",
        about: "CPU busy periods, the threads that run, and time in each interrupt.",
        needs: &["sched_switch"],
        gains: &[("irq_handler_entry", "time in interrupts")],
        record: "default",
        tables: &[table("busy", Key::Cpu), table("run", Key::Process), table(cpu::INTERRUPT, Key::Irq)],
        keys: &[Key::Cpu, Key::Irq, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["in interrupts", "outside"],
        unit: Unit::Time,
        make: view!(cpu::CpuTime),
    },
    Spec {
        name: "busywait",
        about: "CPU time spent spinning for kernel locks, by call site.",
        needs: &["contention_begin", "contention_end"],
        gains: &[("sched_switch", "off-CPU time, call sites"), ("sys_enter", "system calls")],
        record: "default",
        tables: &[table("", Key::Site), table("", Key::Type)],
        keys: &[Key::Lock, Key::Type, Key::Site, Key::Call, Key::Cpu, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(busywait::BusyWait),
    },
    Spec {
        name: "spinlock",
        about: "Kernel lock contention by lock, kind and call site: blocked and spinning.",
        needs: &["contention_begin", "contention_end"],
        gains: &[("sched_switch", "off-CPU time, call sites"), ("sys_enter", "system calls")],
        record: "default",
        tables: &[table("", Key::Type), table("", Key::Site), table("", Key::Lock)],
        keys: &[Key::Lock, Key::Type, Key::Site, Key::Call, Key::Cpu, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["off the CPU", "on the CPU"],
        unit: Unit::Time,
        make: view!(spinlock::SpinLock),
    },
    Spec {
        name: "buffer",
        about: "Block requests from queueing (Q) to completion (C), by device and operation.",
        needs: &["block_bio_queue", "block_rq_issue", "block_rq_complete"],
        gains: &[("block_getrq", "merged bios")],
        record: "default",
        tables: &[table("", Key::Device), table("", Key::Operation)],
        keys: &[Key::Device, Key::Operation, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["before the driver", "in flight"],
        unit: Unit::Time,
        make: view!(buffer::Buffer),
    },
    Spec {
        name: "blkqueue",
        about: "Requests (tags) in use as a request arrives, its own included, by device.",
        needs: &["block_bio_queue", "block_getrq", "block_rq_issue", "block_rq_complete"],
        gains: &[],
        record: "default",
        tables: &[table("", Key::Device)],
        keys: &[Key::Device, Key::Operation, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["in flight", "not issued"],
        unit: Unit::Count,
        make: view!(blkqueue::BlkQueue),
    },
    Spec {
        name: "runqueue",
        about: "Run-queue latency: from wakeup, preemption or fork to the switch, and who ran before.",
        needs: &["sched_switch", "sched_waking"],
        gains: &[("sched_wakeup_new", "first waits of new threads")],
        record: "default",
        tables: &[table("", Key::Process), table("", Key::Cpu)],
        keys: &[Key::Cpu, Key::Priority, Key::Instead, Key::Type, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(runqueue::RunQueue),
    },
    Spec {
        name: "waitqueue",
        about: "Blocked time, from the switch to the wakeup, by process, system call and kernel function.",
        needs: &["sched_switch", "sched_waking"],
        gains: &[("sys_enter", "system calls")],
        record: "default",
        tables: &[table("", Key::Process), table("", Key::Site)],
        keys: &[Key::Call, Key::Site, Key::Type, Key::Cpu, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(waitqueue::WaitQueue),
    },
    Spec {
        name: "waittime",
        about: "Off-CPU time, from switch-out to switch-in, by process.",
        needs: &["sched_switch", "sched_waking"],
        gains: &[("sched_wakeup_new", "first waits of new threads"), ("sys_enter", "system calls")],
        record: "default",
        tables: &[table("", Key::Process), table("", Key::Type)],
        keys: &[Key::Type, Key::Call, Key::Site, Key::Cpu, Key::Priority, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["sleeping", "runnable"],
        unit: Unit::Time,
        make: view!(waittime::WaitTime),
    },
    Spec {
        name: "netsend",
        about: "Packets from an interface's queueing discipline to its driver.",
        needs: &["net_dev_queue", "net_dev_start_xmit"],
        gains: &[],
        record: "default,net",
        tables: &[table("", Key::Interface)],
        keys: &[Key::Interface, Key::Cpu, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(netsend::NetSend),
    },
    Spec {
        name: "netroute",
        about: "The receive path of a packet: interrupt, softirq, receive, wakeup, receiver on CPU.",
        needs: &["netif_receive_skb", "softirq_entry", "softirq_exit"],
        gains: &[
            ("irq_handler_entry", "interrupt to softirq"),
            ("sched_waking", "receive to wakeup"),
            ("sched_switch", "wakeup to running"),
        ],
        record: "default,net",
        tables: &[table("", Key::Interface)],
        keys: &[Key::Interface, Key::Cpu, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(netroute::NetRoute),
    },
    Spec {
        name: "btt",
        about: "Block I/O layers as btt (blktrace) reports them: Q2G, G2I, I2D, D2C, seeks, merges.",
        needs: &["block_bio_queue", "block_getrq", "block_rq_issue", "block_rq_complete"],
        gains: &[("block_rq_insert", "G2I and I2D"), ("block_bio_backmerge", "Q2M and M2D")],
        record: "default",
        tables: &[table("", Key::Device), table("", Key::Process)],
        keys: &[Key::Device, Key::Operation, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(btt::Btt),
    },
    Spec {
        name: waypoints::NAME,
        about: "The way of a system call through functions of the kernel, from waypoint to waypoint.",
        needs: &["sys_enter", "sys_exit"],
        gains: &[],
        record: "default",
        tables: &[
            table(waypoints::CALL, Key::Call),
            table(waypoints::WAY, Key::Way),
            table(waypoints::FUNCTION, Key::Function),
        ],
        keys: &[Key::Call, Key::Way, Key::Function, PIDS[0], PIDS[1], PIDS[2]],
        parts: ["", ""],
        unit: Unit::Time,
        make: view!(waypoints::Waypoints),
    },
];

impl Spec {
    /// The view of this name.
    pub fn find(name: &str) -> Option<&'static Spec> {
        VIEWS.iter().find(|v| v.name == name)
    }

    /// Unit of the items of a kind.
    pub fn unit_of(&self, kind: &str) -> Unit {
        match kind {
            btt::Q_SEEK | btt::D_SEEK | btt::BLOCKS => Unit::Sectors,
            btt::WAITING | btt::IN_FLIGHT => Unit::Count,
            _ => self.unit,
        }
    }

    /// Names of the parts of the items of a kind; empty where they have none.
    pub fn parts_of(&self, kind: &str) -> [&'static str; 2] {
        match kind {
            cpu::INTERRUPT => ["", ""],
            waypoints::WAY => ["since the enter", ""],
            waypoints::FUNCTION => ["self", "in functions called"],
            _ => self.parts,
        }
    }

    /// The tables for a key that was asked for: kinds that have it by default
    /// under this key, or else every kind.
    pub fn tables_by(&self, by: Key) -> Vec<Grouping> {
        let own: Vec<Grouping> = self.tables.iter().filter(|t| t.by == by).copied().collect();
        match (own.is_empty(), by, self.name) {
            (false, ..) => own,
            // A thread's own time is its runs, not what else its CPU did.
            (true, Key::Thread | Key::Comm, "cpu") => vec![table("run", by)],
            _ => vec![table("", by)],
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Ended at this moment or later, ns.
    pub from: u64,
    /// Ended at this moment or before, ns.
    pub to: u64,
    /// Of threads of one of these names; empty for all.
    pub comms: Vec<String>,
    /// Of these processes or threads; empty for all.
    pub pids: Vec<u32>,
    /// Of these disks or interfaces, by number; empty for all.
    pub devices: Vec<u64>,
}

impl Filter {
    fn wants(&self, s: &Sample, names: &Names) -> bool {
        if s.end < self.from || s.end > self.to {
            return false;
        }
        let tid = s.get(Key::Thread);
        if !self.comms.is_empty() && (tid == NONE || !self.comms.iter().any(|c| c == names.comm(tid as u32)))
        {
            return false;
        }
        let process = s.get(Key::Process);
        if !self.pids.is_empty() && !self.pids.iter().any(|p| [tid, process].contains(&u64::from(*p))) {
            return false;
        }
        self.devices.is_empty()
            || [Key::Device, Key::Interface].iter().any(|k| self.devices.contains(&s.get(*k)))
    }
}

/// A view at work on one trace.
pub struct Viewer {
    view: Box<dyn View>,
    pub names: Names,
    filter: Filter,
    now: u64,
}

impl Viewer {
    /// A view of a trace with this state.
    pub fn new(spec: &Spec, state: &State, filter: Filter) -> Self {
        Self { view: (spec.make)(), names: Names::new(state), filter, now: 0 }
    }

    /// Takes the next item of the trace and hands out what is wanted.
    pub fn feed(&mut self, item: &Item<'_>, out: &mut dyn FnMut(&Sample, &Names)) {
        let item = match item {
            // A damaged record's numbers; tables by them would grow to gigabytes.
            Item::Record(r) if r.tid >= TID_LIMIT || r.cpu >= MOST_CPUS => return,
            Item::Gap(gap) if gap.cpu >= MOST_CPUS => return,
            Item::Record(r) => {
                self.now = self.now.max(r.ts);
                &Item::Record(RawRecord { ts: self.now, ..*r })
            }
            other => other,
        };
        self.names.feed(item);
        let (names, filter) = (&self.names, &self.filter);
        self.view.feed(item, names, &mut |sample| {
            if filter.wants(&sample, names) {
                out(&sample, names);
            }
        });
    }
}
