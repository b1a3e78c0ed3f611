// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload's threads tell of their operations. They say it of
//! themselves, so it changes no state of a thread or CPU: the account is the
//! same with it and without.

use super::Model;
use crate::account::Account;
use crate::Observer;
use plumb_trace::kernel::TID_LIMIT;
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

    /// The place of a thread that tells something, when that is, and its account then.
    fn tells(&mut self, tid: u32, ts: u64) -> Option<(usize, u64, Account)> {
        self.events += 1;
        let ts = ts.max(self.now).max(self.setup.begin);
        let at = if tid < TID_LIMIT { self.known(tid) } else { None };
        if self.lasted_until(ts) > super::MOST_TIME {
            self.refused = true;
            return None;
        }
        let Some(at) = at else {
            self.contradiction("operation of a thread that was not seen");
            return None;
        };
        Some((at, ts, self.account_at(at, ts)))
    }

    /// Unlike the kernel's events, none of these can have its past before the recording.
    fn contradiction(&mut self, what: &'static str) {
        *self.impossible.entry(what).or_default() += 1;
    }

    fn operation_begins(&mut self, e: &LoadBegin) {
        let Some((at, ts, account)) = self.tells(e.tid, e.ts) else { return };
        let t = &mut self.threads[at];
        let tgid = t.tgid;
        let unfinished = t.operations.get_or_insert_with(Box::default).begin(ts, &account, e);
        if let Some(kind) = unfinished {
            self.processes.operations(tgid).unfinished(kind);
            self.contradiction("operation begins where another has not ended");
        }
    }

    fn operation_ends(&mut self, e: &LoadEnd) {
        let Some((at, ts, account)) = self.tells(e.tid, e.ts) else { return };
        let t = &mut self.threads[at];
        let tgid = t.tgid;
        let open = t.operations.get_or_insert_with(Box::default);
        match open.end(ts, &account, e) {
            Some(done) => {
                self.processes.operations(tgid).add(&done, e);
                self.observer.operation(&crate::Operation {
                    tid: e.tid,
                    tgid,
                    kind: done.kind,
                    begin: ts - done.took,
                    end: ts,
                    result: e.result,
                    late: e.late,
                });
            }
            None if open.lossy() => {}
            None => self.contradiction("operation ends that did not begin"),
        }
    }

    fn operations_lost(&mut self, tid: u32) {
        let Some(at) = Some(tid).filter(|t| *t < TID_LIMIT).and_then(|t| self.known(t)) else { return };
        let t = &mut self.threads[at];
        let open = t.operations.get_or_insert_with(Box::default);
        for kind in open.lose() {
            self.processes.operations(t.tgid).unfinished(kind);
        }
    }
}
