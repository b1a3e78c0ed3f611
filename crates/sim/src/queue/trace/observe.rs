// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens in a simulation, event by event.

use super::words::{addresses, opf};
use super::{Frame, Tracer, BEGIN, DEV, PRIORITY};
use crate::device::{Completion, Ns, Operation, Outcome};
use crate::queue::observer::{Observer, Sleep, Woken};
use crate::queue::requests::{Bio, Merge, Request};
use crate::queue::task::Op;
use plumb_trace::kernel::task_state::{INTERRUPTIBLE, TASK_DEAD, UNINTERRUPTIBLE};
use plumb_trace::schema::*;
use plumb_trace::writer::CONT_ID;
use plumb_trace::Record;

impl Tracer {
    fn complete_bio_of_flush(&mut self, now: Ns, number: u32, bio: &Bio) {
        self.put(&BlockRqComplete {
            ts: BEGIN + now,
            id: BlockRqComplete::ID,
            lap: 1,
            tid: self.on_cpu,
            dev: DEV,
            opf: opf(bio.operation, bio.fua, true),
            sector: 0,
            rq: addresses::flush_of(number),
            cont_id: CONT_ID,
            cont_lap: 1,
            len: 0,
            left: 0,
            error: 0,
            bio: addresses::bio(number),
        });
    }
}

impl Observer for Tracer {
    fn wakes(&mut self, now: Ns, task: u32, why: Woken) {
        // A completion has begun its interrupt already.
        if why == Woken::Timer {
            self.frame(now, Frame::Timer);
        }
        self.put(&SchedWaking {
            ts: BEGIN + now,
            id: SchedWaking::ID,
            lap: 1,
            tid: self.on_cpu,
            wakee: self.threads[task as usize].tid,
            wakee_prio: u32::from(PRIORITY),
            target_cpu: 0,
            unused: 0,
        });
    }

    fn runs(&mut self, now: Ns, task: u32) {
        self.frame(now, Frame::None);
        self.switch(now, self.threads[task as usize].tid, 0);
        let t = &self.threads[task as usize];
        // Who waited for a slot goes on in its call; who waits for an operation stays until that has ended.
        let ended = t.slept != Sleep::Slot && (t.queues || t.slept == Sleep::Time || t.result.is_some());
        if ended {
            self.leave(now, task);
        }
    }

    fn operation_begins(&mut self, now: Ns, task: u32, op: &Op) {
        let t = &self.threads[task as usize];
        if !t.queues {
            self.enter(now, task, t.calls.of_operation(op.operation), 3, op.length);
        } else if t.call.is_none() {
            self.enter(now, task, t.calls.queue, 4, 1);
        }
    }

    fn queued(&mut self, now: Ns, number: u32, bio: &Bio) {
        self.put(&BlockBioQueue {
            ts: BEGIN + now,
            id: BlockBioQueue::ID,
            lap: 1,
            tid: self.on_cpu,
            dev: DEV,
            opf: opf(bio.operation, bio.fua, true),
            sector: bio.offset >> 9,
            bio: addresses::bio(number),
            cont_id: CONT_ID,
            cont_lap: 1,
            len: bio.length,
            part_dev: DEV,
            ioprio: bio.class.ioprio(),
            unused: 0,
        });
    }

    fn got(&mut self, now: Ns, number: u32, bio: &Bio) {
        self.put(&BlockGetrq {
            ts: BEGIN + now,
            id: BlockGetrq::ID,
            lap: 1,
            tid: self.on_cpu,
            bio: addresses::bio(number),
            dev: DEV,
            len: bio.length,
        });
    }

    fn merged(&mut self, now: Ns, number: u32, bio: &Bio, merge: Merge, _: &Request) {
        let (ts, lap, tid, bio, len) = (BEGIN + now, 1, self.on_cpu, addresses::bio(number), bio.length);
        if merge.front {
            let id = BlockBioFrontmerge::ID;
            self.put(&BlockBioFrontmerge { ts, id, lap, tid, bio, dev: DEV, len });
        } else {
            let id = BlockBioBackmerge::ID;
            self.put(&BlockBioBackmerge { ts, id, lap, tid, bio, dev: DEV, len });
        }
    }

    fn inserted(&mut self, now: Ns, number: u32, request: &Request) {
        self.put(&BlockRqInsert {
            ts: BEGIN + now,
            id: BlockRqInsert::ID,
            lap: 1,
            tid: self.on_cpu,
            dev: DEV,
            opf: opf(request.operation, request.fua, false),
            sector: request.offset >> 9,
            rq: addresses::request(number),
            cont_id: CONT_ID,
            cont_lap: 1,
            len: request.length,
            bio: addresses::bio(request.first),
            ioprio: request.class.ioprio(),
            unused: 0,
        });
    }

    fn issued(&mut self, now: Ns, number: u32, request: &Request) {
        self.frame(now, Frame::None);
        let flush = request.operation == Operation::Flush;
        self.put(&BlockRqIssue {
            ts: BEGIN + now,
            id: BlockRqIssue::ID,
            lap: 1,
            tid: self.on_cpu,
            dev: DEV,
            opf: opf(request.operation, request.fua, false),
            sector: request.offset >> 9,
            rq: addresses::request(number),
            cont_id: CONT_ID,
            cont_lap: 1,
            len: request.length,
            // A flush is the kernel's own: the bios that asked for it complete behind it.
            bio: if flush { 0 } else { addresses::bio(request.first) },
            ioprio: request.class.ioprio(),
            unused: 0,
        });
    }

    fn completed(&mut self, now: Ns, number: u32, request: &Request, completion: &Completion) {
        self.end = self.end.max(now);
        self.frame(now, Frame::Device);
        let flush = request.operation == Operation::Flush;
        self.put(&BlockRqComplete {
            ts: BEGIN + now,
            id: BlockRqComplete::ID,
            lap: 1,
            tid: self.on_cpu,
            dev: DEV,
            opf: opf(request.operation, request.fua, false),
            sector: request.offset >> 9,
            rq: addresses::request(number),
            cont_id: CONT_ID,
            cont_lap: 1,
            len: request.length,
            left: 0,
            // BLK_STS_IOERR
            error: if matches!(completion.outcome, Outcome::Failed(_)) { 10 } else { 0 },
            bio: if flush { 0 } else { addresses::bio(request.first) },
        });
    }

    fn flushed(&mut self, now: Ns, number: u32, bio: &Bio) {
        self.complete_bio_of_flush(now, number, bio);
    }

    fn operation_ends(&mut self, now: Ns, task: u32, op: &Op) {
        let t = &mut self.threads[task as usize];
        let ret = if op.error == 0 { op.length as i64 } else { -i64::from(op.error) };
        t.result = Some(if t.queues { 1 } else { ret });
        let running = t.tid == self.on_cpu;
        if running && !t.queues {
            self.leave(now, task);
        }
    }

    fn sleeps(&mut self, now: Ns, task: u32, why: Sleep) {
        self.end = self.end.max(now);
        let t = &mut self.threads[task as usize];
        t.slept = why;
        let (tid, tgid, queues, calls) = (t.tid, t.tgid, t.queues, t.calls);
        match why {
            Sleep::Operation if queues => {
                if self.threads[task as usize].call.is_none() {
                    self.enter(now, task, calls.queue, 4, 1);
                }
                self.switch(now, 0, INTERRUPTIBLE);
            }
            Sleep::Operation | Sleep::Slot => self.switch(now, 0, UNINTERRUPTIBLE),
            Sleep::Time => {
                self.leave(now, task);
                self.enter(now, task, calls.sleep, libc::CLOCK_MONOTONIC as u32, 0);
                self.switch(now, 0, INTERRUPTIBLE);
            }
            Sleep::Ended => {
                self.leave(now, task);
                let id = SchedExit::ID;
                let exit = SchedExit { ts: BEGIN + now, id, lap: 1, tid, tgid, exit_code: 0, run_ns: 0 };
                self.put(&exit);
                self.switch(now, 0, TASK_DEAD);
            }
        }
    }
}
