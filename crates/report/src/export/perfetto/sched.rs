// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the kernel as ftrace's events, in bundles by CPU: from them Perfetto makes its own
//! states of threads, and its critical path.

use super::packets::Packets;
use super::proto::{self, Ftrace, FtraceEvent};
use plumb_model::sched::{Left, Switch};
use plumb_model::tasks::Tasks;
use plumb_trace::calls;
use plumb_trace::event::text;
use plumb_trace::kernel::task_state;
use plumb_trace::reader::{Gap, RawRecord};
use plumb_trace::schema::{
    IrqHandlerEntry, IrqHandlerExit, LocalTimerEntry, LocalTimerExit, SchedExec, SchedExit, SchedFork,
    SchedMigrate, SchedRename, SchedSwitch, SchedWakeupNew, SchedWaking, SoftirqEntry, SoftirqExit, SysEnter,
    SysExit,
};
use plumb_trace::Record;
use prost::encoding::{encode_key, encode_varint, message, WireType};
use std::io::Write;

/// Bytes of events after which a bundle is written.
const BUNDLE: usize = 64 << 10;
/// `CLONE_VM | CLONE_THREAD`, include/uapi/linux/sched.h: Perfetto tells a thread from a process by it.
const CLONE_THREAD: u64 = 0x100 | 0x1_0000;

/// State of a thread that leaves its CPU, as the tracepoint reports it: `__trace_sched_switch_state()`
/// in include/trace/events/sched.h, 4.14 and later.
pub fn reported_state(left: Left) -> i64 {
    const IDLE: u32 = task_state::UNINTERRUPTIBLE | task_state::NOLOAD;
    const REPORT_IDLE: i64 = 0x80;
    const REPORT_PREEMPTED: i64 = 0x100;
    match left {
        Left::Preempted => REPORT_PREEMPTED,
        // Whether it is a zombie first, its parent decides; the record does not tell.
        Left::Ended => task_state::EXIT_DEAD.into(),
        Left::Yielded => 0,
        Left::Slept(state) if state & IDLE == IDLE => REPORT_IDLE,
        Left::Slept(state) if state & task_state::RTLOCK_WAIT != 0 => task_state::UNINTERRUPTIBLE.into(),
        // The kernel reports the highest bit that is set.
        Left::Slept(state) => (state & task_state::REPORT).checked_ilog2().map_or(0, |bit| 1 << bit),
    }
}

#[derive(Debug, Default)]
struct Bundle {
    events: Vec<u8>,
    /// Events are missing before it.
    lost: bool,
}

#[derive(Debug)]
pub struct Bundles {
    cpus: Vec<Bundle>,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC from moments on (ns, CLOCK_MONOTONIC).
    boot: Vec<(u64, u64)>,
    /// Whose numbers system calls have there: uname(2)'s name of the architecture.
    machine: String,
    /// Events written.
    pub events: u64,
    /// Switches and wakeups among them.
    pub sched: u64,
}

impl Bundles {
    /// None yet. `boot`: see [`super::preamble::boot_offsets`]; `machine`: what uname(2) calls the architecture.
    pub fn new(boot: Vec<(u64, u64)>, machine: &str) -> Self {
        Self { cpus: Vec::new(), boot, machine: machine.into(), events: 0, sched: 0 }
    }

    fn call(&self, nr: u32) -> Option<i64> {
        calls::number_on(&self.machine, nr).map(i64::from)
    }

    fn boottime(&self, ts: u64) -> u64 {
        let at = self.boot.iter().rev().find(|(from, _)| *from <= ts).or(self.boot.first());
        ts.saturating_add(at.map_or(0, |(_, offset)| *offset))
    }

    fn cpu(&mut self, cpu: u32) -> &mut Bundle {
        let cpu = cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Bundle::default);
        }
        &mut self.cpus[cpu]
    }

    fn flush<W: Write>(&mut self, cpu: u32, out: &mut Packets<W>) {
        let bundle = self.cpu(cpu);
        if bundle.events.is_empty() && !bundle.lost {
            return;
        }
        let mut head = Vec::with_capacity(bundle.events.len() + 16);
        encode_key(1, WireType::Varint, &mut head);
        encode_varint(cpu.into(), &mut head);
        if bundle.lost {
            encode_key(3, WireType::Varint, &mut head);
            encode_varint(1, &mut head);
        }
        head.append(&mut bundle.events);
        bundle.lost = false;
        out.bundle(&head);
    }

    pub fn finish<W: Write>(&mut self, out: &mut Packets<W>) {
        (0..self.cpus.len() as u32).for_each(|cpu| self.flush(cpu, out));
    }

    /// Events are missing: a bundle has none missing inside.
    pub fn gap<W: Write>(&mut self, gap: &Gap, out: &mut Packets<W>) {
        self.flush(gap.cpu, out);
        self.cpu(gap.cpu).lost = true;
    }

    fn put<W: Write>(&mut self, r: &RawRecord<'_>, event: Ftrace, out: &mut Packets<W>) {
        // A thread's first state begins with its birth; of what has the same time Perfetto takes
        // tracks first, and would give the state to who had the number before.
        let early = u64::from(matches!(event, Ftrace::TaskNewtask(_)));
        let timestamp = self.boottime(r.ts).saturating_sub(early);
        let event = FtraceEvent { timestamp, pid: Some(r.tid), event: Some(event) };
        let bundle = self.cpu(r.cpu);
        message::encode(2, &event, &mut bundle.events);
        let full = bundle.events.len() >= BUNDLE;
        self.events += 1;
        if full {
            self.flush(r.cpu, out);
        }
    }

    /// Writes a record that ftrace knows too. `tasks` know what the record tells already; `before`
    /// is the name of its thread before that.
    pub fn record<W: Write>(
        &mut self,
        r: &RawRecord<'_>,
        tasks: &Tasks,
        before: Option<&str>,
        out: &mut Packets<W>,
    ) {
        let event = match r.id {
            SchedSwitch::ID => {
                let e = Switch::read(r);
                self.sched += 1;
                Ftrace::SchedSwitch(proto::SchedSwitch {
                    prev_comm: comm(tasks, e.prev),
                    prev_pid: e.prev as i32,
                    prev_prio: e.prev_prio.into(),
                    prev_state: reported_state(e.left),
                    next_comm: comm(tasks, e.next),
                    next_pid: e.next as i32,
                    next_prio: e.next_prio.into(),
                })
            }
            SchedWaking::ID => {
                let e = SchedWaking::read(r.bytes);
                self.sched += 1;
                Ftrace::SchedWaking(waking(tasks, e.wakee, e.wakee_prio, e.target_cpu))
            }
            SchedWakeupNew::ID => {
                let e = SchedWakeupNew::read(r.bytes);
                self.sched += 1;
                Ftrace::SchedWakeupNew(waking(tasks, e.wakee, e.wakee_prio, e.target_cpu))
            }
            SchedMigrate::ID => {
                let e = SchedMigrate::read(r.bytes);
                Ftrace::SchedMigrateTask(proto::SchedMigrateTask {
                    comm: comm(tasks, e.moved_tid),
                    pid: e.moved_tid as i32,
                    prio: tasks.prio(e.moved_tid) as i32,
                    orig_cpu: e.from_cpu as i32,
                    dest_cpu: e.to_cpu as i32,
                })
            }
            SchedFork::ID => {
                let e = SchedFork::read(r.bytes);
                let clone_flags = if e.child_tgid == e.child_tid { 0 } else { CLONE_THREAD };
                let comm = comm(tasks, e.child_tid);
                Ftrace::TaskNewtask(proto::TaskNewtask { pid: e.child_tid as i32, comm, clone_flags })
            }
            SchedExec::ID => renamed(r.tid, before, &SchedExec::read(r.bytes).comm),
            SchedRename::ID => renamed(r.tid, before, &SchedRename::read(r.bytes).comm),
            SchedExit::ID => {
                let e = SchedExit::read(r.bytes);
                let comm = comm(tasks, e.tid);
                Ftrace::SchedProcessExit(proto::SchedProcessExit {
                    comm,
                    pid: e.tid as i32,
                    tgid: e.tgid as i32,
                })
            }
            SysEnter::ID => {
                let e = SysEnter::read(r.bytes);
                Ftrace::SysEnter(proto::SysEnter { id: self.call(e.nr) })
            }
            SysExit::ID => {
                let e = SysExit::read(r.bytes);
                Ftrace::SysExit(proto::SysExit { id: self.call(e.nr), ret: Some(e.ret) })
            }
            IrqHandlerEntry::ID => {
                let e = IrqHandlerEntry::read(r.bytes);
                let irq = Some(e.irq as i32);
                Ftrace::IrqEntry(proto::IrqEntry { irq, name: format!("irq {}", e.irq) })
            }
            IrqHandlerExit::ID => {
                let e = IrqHandlerExit::read(r.bytes);
                Ftrace::IrqExit(proto::IrqExit { irq: Some(e.irq as i32), ret: Some(e.ret) })
            }
            SoftirqEntry::ID => {
                Ftrace::SoftirqEntry(proto::Softirq { vec: Some(SoftirqEntry::read(r.bytes).vec) })
            }
            SoftirqExit::ID => {
                Ftrace::SoftirqExit(proto::Softirq { vec: Some(SoftirqExit::read(r.bytes).vec) })
            }
            LocalTimerEntry::ID => {
                let vector = Some(LocalTimerEntry::read(r.bytes).vec as i32);
                Ftrace::LocalTimerEntry(proto::LocalTimer { vector })
            }
            LocalTimerExit::ID => {
                let vector = Some(LocalTimerExit::read(r.bytes).vec as i32);
                Ftrace::LocalTimerExit(proto::LocalTimer { vector })
            }
            _ => return,
        };
        self.put(r, event, out);
    }
}

fn comm(tasks: &Tasks, tid: u32) -> String {
    tasks.comm(tid).into()
}

fn waking(tasks: &Tasks, wakee: u32, prio: u32, cpu: u32) -> proto::SchedWaking {
    let comm = comm(tasks, wakee);
    proto::SchedWaking { comm, pid: wakee as i32, prio: prio as i32, success: 1, target_cpu: cpu as i32 }
}

fn renamed(tid: u32, before: Option<&str>, new: &[u8]) -> Ftrace {
    let oldcomm = before.unwrap_or("").to_string();
    Ftrace::TaskRename(proto::TaskRename { pid: tid as i32, oldcomm, newcomm: text(new) })
}

#[cfg(test)]
mod tests {
    use super::{reported_state, Left};

    #[test]
    fn states_are_reported_as_the_tracepoint_does() {
        for (raw, reported) in [(1, 1), (2, 2), (0x402, 0x80), (0x2101, 1), (4, 4), (0x1000, 2)] {
            assert_eq!(reported_state(Left::Slept(raw)), reported, "{raw:#x}");
        }
        assert_eq!([Left::Yielded, Left::Ended, Left::Preempted].map(reported_state), [0, 0x10, 0x100]);
    }
}
