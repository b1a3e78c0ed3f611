// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload's threads tell of their operations. They say it of
//! themselves, so it changes no state of a thread or CPU: the account is the
//! same with it and without.

use super::{Model, MOST_TIDS};
use crate::Observer;
use plumb_trace::reader::Operation;
use plumb_trace::schema::{LoadBegin, LoadEnd};

impl<O: Observer> Model<O> {
    pub(super) fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Begin(e) if e.ts <= self.setup.end => self.operation_begins(e),
            Operation::End(e) if e.ts <= self.setup.end => self.operation_ends(e),
            Operation::Begin(_) | Operation::End(_) => {}
            Operation::Lost { tid, .. } => self.operations_lost(*tid),
        }
    }

    /// Brings a thread's account up to an event that it told; its place and the time.
    fn tells(&mut self, tid: u32, ts: u64) -> Option<(usize, u64)> {
        self.events += 1;
        let ts = ts.max(self.now).max(self.setup.begin);
        self.now = ts;
        let at = if tid < MOST_TIDS { self.known(tid) } else { None };
        let Some(at) = at else {
            self.count_impossible("operation of a thread that was not seen");
            return None;
        };
        self.charge(at, ts);
        Some((at, ts))
    }

    fn operation_begins(&mut self, e: &LoadBegin) {
        let Some((at, ts)) = self.tells(e.tid, e.ts) else { return };
        let t = &mut self.threads[at];
        let tgid = t.tgid;
        let unfinished = t.operations.get_or_insert_with(Box::default).begin(ts, &t.account, e);
        if let Some(kind) = unfinished {
            self.processes.operations(tgid).unfinished(kind);
            self.count_impossible("operation begins where another has not ended");
        }
    }

    fn operation_ends(&mut self, e: &LoadEnd) {
        let Some((at, ts)) = self.tells(e.tid, e.ts) else { return };
        let t = &mut self.threads[at];
        let tgid = t.tgid;
        let open = t.operations.get_or_insert_with(Box::default);
        match open.end(ts, &t.account, e) {
            Some(done) => self.processes.operations(tgid).add(&done, e),
            None if open.lossy() => {}
            None => self.count_impossible("operation ends that did not begin"),
        }
    }

    fn operations_lost(&mut self, tid: u32) {
        let Some(at) = Some(tid).filter(|t| *t < MOST_TIDS).and_then(|t| self.known(t)) else { return };
        let t = &mut self.threads[at];
        let open = t.operations.get_or_insert_with(Box::default);
        for kind in open.lose() {
            self.processes.operations(t.tgid).unfinished(kind);
        }
    }
}
