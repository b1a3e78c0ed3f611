// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A record as LTTng's event: its number, and the bytes of its fields.

use super::blocks::{Blocks, Place};
use super::classes::{self, Arguments, Used};
use crate::export::block::rwbs_bits;
use plumb_model::sched::{Left, Switch};
use plumb_model::tasks::Tasks;
use plumb_trace::event::text;
use plumb_trace::kernel::task_state;
use plumb_trace::reader::RawRecord;
use plumb_trace::schema::{
    BlockBioBackmerge, BlockBioFrontmerge, BlockBioQueue, BlockBioRemap, BlockGetrq, BlockRqComplete,
    BlockRqInsert, BlockRqIssue, BlockRqMerge, BlockRqRequeue, BlockSplit, CallFunctionSingleEntry,
    CallFunctionSingleExit, IrqHandlerEntry, IrqHandlerExit, LocalTimerEntry, LocalTimerExit, SchedExec,
    SchedExit, SchedFork, SchedMigrate, SchedSwitch, SchedWakeupNew, SchedWaking, SoftirqEntry, SoftirqExit,
    SysEnter, SysExit,
};
use plumb_trace::Record;

/// Bytes of fields.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    pub fn s32(&mut self, n: i32) -> &mut Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub fn u32(&mut self, n: u32) -> &mut Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub fn s64(&mut self, n: i64) -> &mut Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    /// A thread's name, 16 bytes with at least one NUL.
    pub fn comm(&mut self, comm: &str) -> &mut Self {
        let mut bytes = [0; 16];
        let len = comm.len().min(15);
        bytes[..len].copy_from_slice(&comm.as_bytes()[..len]);
        self.0.extend_from_slice(&bytes);
        self
    }
    /// A text of any length.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend(text.bytes().filter(|b| *b != 0));
        self.0.push(0);
        self
    }
}

/// State of a thread that leaves its CPU, in the bits that Trace Compass asks for
/// (`LinuxValues`, `SchedSwitchHandler`): 0 is runnable, 1 and 2 wait, 64 has ended. No `sched_process_free`
/// is recorded, which would tell it the end otherwise.
fn prev_state(left: Left) -> i64 {
    const ENDED: i64 = 64;
    match left {
        Left::Preempted | Left::Yielded => 0,
        Left::Ended => ENDED,
        Left::Slept(state) if state & task_state::INTERRUPTIBLE != 0 => 1,
        // Idle, parked, stopped and traced threads wait as well; their own bits mean nothing or the
        // end there.
        Left::Slept(_) => 2,
    }
}

/// What is known while a trace is written.
#[derive(Debug)]
pub struct Maker {
    pub tasks: Tasks,
    blocks: Blocks,
    pub used: Used,
    /// Events of bios and requests whose begin was not seen, so that their sector is not known.
    pub without_sector: u64,
    fields: Fields,
}

impl Maker {
    pub fn new(tasks: Tasks) -> Self {
        Self {
            tasks,
            blocks: Blocks::default(),
            used: Used::default(),
            without_sector: 0,
            fields: Fields::default(),
        }
    }

    /// Number and fields of a record's event.
    pub fn event(&mut self, r: &RawRecord<'_>) -> (u16, &[u8]) {
        self.fields.0.clear();
        let id = self
            .scheduling(r)
            .or_else(|| self.interrupt(r))
            .or_else(|| self.call(r))
            .or_else(|| self.block(r))
            .unwrap_or_else(|| self.own(r));
        (id, &self.fields.0)
    }

    /// An event that LTTng has no counterpart of: the record's own bytes behind the thread.
    fn own(&mut self, r: &RawRecord<'_>) -> u16 {
        self.fields.0.clear();
        self.fields.s32(r.tid as i32);
        self.fields.0.extend_from_slice(&r.bytes[16..]);
        self.used.own.insert(r.id);
        classes::own_id(r.id)
    }

    fn scheduling(&mut self, r: &RawRecord<'_>) -> Option<u16> {
        let (f, tasks) = (&mut self.fields, &self.tasks);
        let wakeup = |f: &mut Fields, tid: u32, prio: u32, cpu: u32| {
            f.comm(tasks.comm(tid)).s32(tid as i32).s32(prio as i32).s32(cpu as i32);
        };
        Some(match r.id {
            SchedSwitch::ID => {
                let e = Switch::read(r);
                f.comm(tasks.comm(e.prev)).s32(e.prev as i32).s32(e.prev_prio.into());
                f.s64(prev_state(e.left));
                f.comm(tasks.comm(e.next)).s32(e.next as i32).s32(e.next_prio.into());
                classes::SWITCH
            }
            SchedWaking::ID => {
                let e = SchedWaking::read(r.bytes);
                wakeup(f, e.wakee, e.wakee_prio, e.target_cpu);
                classes::WAKING
            }
            SchedWakeupNew::ID => {
                let e = SchedWakeupNew::read(r.bytes);
                wakeup(f, e.wakee, e.wakee_prio, e.target_cpu);
                classes::WAKEUP_NEW
            }
            SchedMigrate::ID => {
                let e = SchedMigrate::read(r.bytes);
                let tid = e.moved_tid;
                f.comm(tasks.comm(tid)).s32(tid as i32).s32(tasks.prio(tid) as i32);
                f.s32(e.from_cpu as i32).s32(e.to_cpu as i32);
                classes::MIGRATE
            }
            SchedFork::ID => {
                let e = SchedFork::read(r.bytes);
                f.comm(tasks.comm(e.tid)).s32(e.tid as i32).s32(e.parent_tgid as i32);
                f.comm(tasks.comm(e.child_tid)).s32(e.child_tid as i32).s32(e.child_tgid as i32);
                classes::FORK
            }
            SchedExec::ID => {
                // The record has the new name, not the path.
                f.text(&text(&SchedExec::read(r.bytes).comm)).s32(r.tid as i32).s32(r.tid as i32);
                classes::EXEC
            }
            SchedExit::ID => {
                f.comm(tasks.comm(r.tid)).s32(r.tid as i32).s32(tasks.prio(r.tid) as i32);
                classes::EXIT
            }
            _ => return None,
        })
    }

    fn interrupt(&mut self, r: &RawRecord<'_>) -> Option<u16> {
        let f = &mut self.fields;
        Some(match r.id {
            IrqHandlerEntry::ID => {
                let irq = IrqHandlerEntry::read(r.bytes).irq;
                f.s32(irq as i32).text(&format!("irq {irq}"));
                classes::IRQ_ENTRY
            }
            IrqHandlerExit::ID => {
                let e = IrqHandlerExit::read(r.bytes);
                f.s32(e.irq as i32).s32(e.ret);
                classes::IRQ_EXIT
            }
            SoftirqEntry::ID => {
                f.u32(SoftirqEntry::read(r.bytes).vec);
                classes::SOFTIRQ_ENTRY
            }
            SoftirqExit::ID => {
                f.u32(SoftirqExit::read(r.bytes).vec);
                classes::SOFTIRQ_EXIT
            }
            LocalTimerEntry::ID => {
                f.s32(LocalTimerEntry::read(r.bytes).vec as i32);
                classes::TIMER_ENTRY
            }
            LocalTimerExit::ID => {
                f.s32(LocalTimerExit::read(r.bytes).vec as i32);
                classes::TIMER_EXIT
            }
            CallFunctionSingleEntry::ID => {
                f.s32(CallFunctionSingleEntry::read(r.bytes).vec as i32);
                classes::CALL_ENTRY
            }
            CallFunctionSingleExit::ID => {
                f.s32(CallFunctionSingleExit::read(r.bytes).vec as i32);
                classes::CALL_EXIT
            }
            _ => return None,
        })
    }

    fn call(&mut self, r: &RawRecord<'_>) -> Option<u16> {
        let f = &mut self.fields;
        match r.id {
            SysEnter::ID => {
                let e = SysEnter::read(r.bytes);
                let Some(name) = classes::call_name(e.nr) else {
                    f.s32(e.nr as i32);
                    return Some(classes::UNKNOWN_ENTRY);
                };
                match classes::arguments(name) {
                    Arguments::FdCount => drop(f.s32(e.arg0 as i32).u64(e.arg2)),
                    Arguments::Fd => drop(f.s32(e.arg0 as i32)),
                    Arguments::Nothing => {}
                }
                self.used.calls.insert(e.nr);
                Some(classes::entry_id(e.nr))
            }
            SysExit::ID => {
                let e = SysExit::read(r.bytes);
                if classes::call_name(e.nr).is_none() {
                    f.s32(e.nr as i32).s64(e.ret);
                    return Some(classes::UNKNOWN_EXIT);
                }
                f.s64(e.ret);
                self.used.calls.insert(e.nr);
                Some(classes::exit_id(e.nr))
            }
            _ => None,
        }
    }

    /// Fields of an event that is about a bio.
    fn of_bio(&mut self, r: &RawRecord<'_>, place: &Place) {
        self.fields.u32(place.dev).u64(place.sector).u32(place.sectors()).u32(rwbs_bits(place.opf));
        self.fields.s32(r.tid as i32).comm(self.tasks.comm(r.tid));
    }

    /// Fields of an event that is about a request which is with the queue or the driver from now on.
    fn of_request(&mut self, r: &RawRecord<'_>, rq: u64, place: Place) {
        self.blocks.request(rq, place);
        self.fields.u32(place.dev).u64(place.sector).u32(place.sectors()).u32(place.len);
        self.fields.s32(r.tid as i32).u32(rwbs_bits(place.opf)).comm(self.tasks.comm(r.tid));
    }

    /// A bio whose record has its length only; none where its queueing was not seen.
    fn known_bio(&mut self, bio: u64, len: u32) -> Option<Place> {
        let place = self.blocks.bio_at(bio);
        self.without_sector += u64::from(place.is_none());
        place.map(|p| Place { len, ..p })
    }

    fn block(&mut self, r: &RawRecord<'_>) -> Option<u16> {
        Some(match r.id {
            BlockBioQueue::ID => {
                let e = BlockBioQueue::read(r.bytes);
                let place = Place { dev: e.dev, sector: e.sector, len: e.len, opf: e.opf };
                self.blocks.bio(e.bio, place);
                self.of_bio(r, &place);
                classes::BIO_QUEUE
            }
            BlockBioBackmerge::ID => {
                let e = BlockBioBackmerge::read(r.bytes);
                let place = self.known_bio(e.bio, e.len)?;
                self.blocks.joined(&place, false);
                self.of_bio(r, &place);
                classes::BIO_BACKMERGE
            }
            BlockBioFrontmerge::ID => {
                let e = BlockBioFrontmerge::read(r.bytes);
                let place = self.known_bio(e.bio, e.len)?;
                self.blocks.joined(&place, true);
                self.of_bio(r, &place);
                classes::BIO_FRONTMERGE
            }
            BlockGetrq::ID => {
                let e = BlockGetrq::read(r.bytes);
                let place = self.known_bio(e.bio, e.len)?;
                self.of_bio(r, &place);
                classes::GETRQ
            }
            BlockSplit::ID => {
                let e = BlockSplit::read(r.bytes);
                let front = e.sector.saturating_sub(u64::from(e.len >> 9));
                self.blocks.bio(e.bio, Place { dev: e.dev, sector: front, len: e.len, opf: e.opf });
                let parent = self.blocks.bio_at(e.parent).unwrap_or_default();
                let len = parent.len.saturating_sub(e.len);
                self.blocks.bio(e.parent, Place { dev: e.dev, sector: e.sector, len, opf: e.opf });
                self.fields.u32(e.dev).u64(front).u64(e.sector).u32(rwbs_bits(e.opf));
                self.fields.s32(r.tid as i32).comm(self.tasks.comm(r.tid));
                classes::SPLIT
            }
            BlockRqInsert::ID => {
                let e = BlockRqInsert::read(r.bytes);
                self.of_request(r, e.rq, Place { dev: e.dev, sector: e.sector, len: e.len, opf: e.opf });
                classes::RQ_INSERT
            }
            BlockRqIssue::ID => {
                let e = BlockRqIssue::read(r.bytes);
                self.of_request(r, e.rq, Place { dev: e.dev, sector: e.sector, len: e.len, opf: e.opf });
                classes::RQ_ISSUE
            }
            BlockRqComplete::ID => {
                let e = BlockRqComplete::read(r.bytes);
                self.fields
                    .u32(e.dev)
                    .u64(e.sector)
                    .u32(e.len >> 9)
                    .s32(e.error as i32)
                    .u32(rwbs_bits(e.opf));
                if e.left == 0 {
                    self.blocks.done(e.rq, e.bio);
                }
                classes::RQ_COMPLETE
            }
            BlockRqRequeue::ID => {
                let e = BlockRqRequeue::read(r.bytes);
                let place = self.blocks.request_at(e.rq);
                self.without_sector += u64::from(place.is_none());
                let place = place?;
                self.fields.u32(e.dev).u64(place.sector).u32(e.len >> 9).u32(rwbs_bits(place.opf));
                classes::RQ_REQUEUE
            }
            BlockRqMerge::ID => {
                let e = BlockRqMerge::read(r.bytes);
                let merged = self.blocks.merged(e.rq);
                self.without_sector += u64::from(merged.is_none());
                let (kept, gone) = merged?;
                self.fields.u32(e.dev).u64(kept.sector).u64(gone.sector);
                classes::RQ_MERGE
            }
            BlockBioRemap::ID => {
                let e = BlockBioRemap::read(r.bytes);
                let opf = self.blocks.bio_at(e.bio).map_or(0, |p| p.opf);
                self.fields.u32(e.dev).u64(e.sector).u32(e.len >> 9);
                self.fields.u32(e.old_dev).u64(e.old_sector).u32(rwbs_bits(opf));
                classes::REMAP
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_that_trace_compass_tells_apart() {
        let all = [(1, 1), (2, 2), (0x402, 2), (0x40, 2), (0x2101, 1)];
        for (raw, state) in all {
            assert_eq!(prev_state(Left::Slept(raw)), state, "{raw:#x}");
        }
        assert_eq!([Left::Yielded, Left::Preempted, Left::Ended].map(prev_state), [0, 0, 64]);
    }

    #[test]
    fn a_name_keeps_its_last_nul() {
        let mut fields = Fields::default();
        fields.comm("a name that is too long");
        assert_eq!(&fields.0, b"a name that is \0");
    }
}
