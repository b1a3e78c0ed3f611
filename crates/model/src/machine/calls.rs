// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls: what a thread's account grew by while it was in one.

use super::Model;
use crate::thread::{Call, State};
use crate::{CpuState, Observer};
use plumb_trace::schema::{SysEnter, SysExit};

impl<O: Observer> Model<O> {
    pub(super) fn enter(&mut self, cpu: u32, ts: u64, tid: u32, e: &SysEnter) {
        let at = self.place(tid);
        self.seen_running(at, cpu, ts);
        self.charge(at, ts);
        self.observer.called(tid);
        self.settle_call(at, false);
        let t = &mut self.threads[at];
        t.queued_bio = 0;
        t.first_call = -1;
        t.call = Some(Call {
            nr: e.nr,
            start: ts,
            fd: e.arg0,
            arg2: e.arg2,
            before: t.account,
            own_requests: 0,
            other_requests: 0,
            other_bytes: 0,
            counted: ts,
        });
    }

    pub(super) fn exit(&mut self, cpu: u32, ts: u64, tid: u32, e: &SysExit) {
        let at = self.place(tid);
        self.seen_running(at, cpu, ts);
        self.charge(at, ts);
        // The recorder named its stack by the record's own time.
        self.observer.returned(tid, e.ts);
        let t = &mut self.threads[at];
        t.queued_bio = 0;
        t.first_call = -1;
        t.futex = None;
        self.settle_call(at, true);
        let t = &mut self.threads[at];
        let Some(call) = t.call.take().filter(|c| c.nr == e.nr) else { return };
        let spent = t.account.since(&call.before);
        let tgid = t.tgid;
        if self.processes.call(tgid, &call, ts, e.ret, &spent) {
            self.synced.call(tid, call.fd, call.start, ts - call.start);
        }
    }

    /// A call's event proves that its thread is on that CPU.
    pub(super) fn seen_running(&mut self, at: usize, cpu: u32, ts: u64) {
        self.cpu(cpu);
        match self.threads[at].state {
            State::Running(on) if on == cpu => {}
            State::Unknown => self.on_cpu_since(at, cpu),
            _ => {
                if !self.missing(self.threads[at].since, ts) {
                    self.count_impossible("thread makes a call without a CPU");
                }
                self.settle_lost(at, ts);
                let t = &mut self.threads[at];
                t.state = State::Running(cpu);
                let tid = t.tid;
                if self.cpus[cpu as usize].state != CpuState::Busy(tid) {
                    self.cpu_becomes(cpu, ts, CpuState::Busy(tid));
                }
            }
        }
    }
}
