// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload's operations: what a thread's account grew by while one was open.
//!
//! Where a thread has several open at once, their durations overlap, and time
//! must not be counted twice: it goes to the oldest that is open, once.

use crate::account::Account;
use crate::result::OperationRow;
use plumb_trace::kernel::MAX_RW_COUNT;
use plumb_trace::load::OperationKind;
use plumb_trace::schema::{LoadBegin, LoadEnd};
use std::collections::BTreeMap;

/// One operation that has not ended.
#[derive(Debug, Clone, Copy)]
struct Begun {
    slot: u16,
    kind: OperationKind,
    /// ns.
    begin: u64,
    /// Another one of the thread was open at some time of its own.
    overlapping: bool,
}

/// The operations that one thread has open.
#[derive(Debug, Default)]
pub struct Open {
    begun: Vec<Begun>,
    /// What the oldest one's time went to so far.
    spent: Account,
    /// The thread's account when that was told last, and when that was, ns.
    before: Account,
    told: u64,
    /// Something that the thread told is missing, so an end may have no begin.
    lossy: bool,
}

#[derive(Debug)]
pub struct Done {
    pub kind: OperationKind,
    /// ns.
    pub took: u64,
    overlapping: bool,
    spent: Account,
}

impl Open {
    /// Gives the time since the last call to the oldest operation. Where the
    /// thread's account is not complete up to now, what is missing is lost time.
    fn advance(&mut self, ts: u64, account: &Account) {
        if !self.begun.is_empty() {
            self.spent.merge(&account.since_in(&self.before, ts.saturating_sub(self.told)));
        }
        (self.before, self.told) = (*account, ts);
    }

    fn take(&mut self, slot: u16) -> Option<(Begun, Account)> {
        let i = self.begun.iter().position(|b| b.slot == slot)?;
        let begun = self.begun.remove(i);
        // Only the oldest has been given any time.
        let spent = if i == 0 { std::mem::take(&mut self.spent) } else { Account::default() };
        Some((begun, spent))
    }

    /// One begins at `ts` (ns); `account` is the thread's. Returns the one whose
    /// end was not told, if the slot had one.
    pub fn begin(&mut self, ts: u64, account: &Account, e: &LoadBegin) -> Option<OperationKind> {
        self.advance(ts, account);
        let unfinished = self.take(e.slot).map(|(begun, _)| begun.kind);
        // Where there are more, each of them has met another already.
        if let [only] = self.begun.as_mut_slice() {
            only.overlapping = true;
        }
        let overlapping = !self.begun.is_empty();
        let kind = OperationKind::from_number(e.kind).unwrap_or(OperationKind::Other);
        self.begun.push(Begun { slot: e.slot, kind, begin: ts, overlapping });
        unfinished
    }

    /// The one in the slot ends at `ts` (ns); `None` where none is open there.
    pub fn end(&mut self, ts: u64, account: &Account, e: &LoadEnd) -> Option<Done> {
        self.advance(ts, account);
        let (begun, spent) = self.take(e.slot)?;
        Some(Done {
            kind: begun.kind,
            took: ts.saturating_sub(begun.begin),
            overlapping: begun.overlapping,
            spent,
        })
    }

    /// What the thread told is missing: forgets and hands out what is open.
    pub fn lose(&mut self) -> impl Iterator<Item = OperationKind> {
        self.lossy = true;
        self.spent = Account::default();
        std::mem::take(&mut self.begun).into_iter().map(|b| b.kind)
    }

    /// Whether an end without its begin is nothing to wonder at.
    pub fn lossy(&self) -> bool {
        self.lossy
    }

    /// Kinds of those that are open.
    pub fn kinds(&self) -> impl Iterator<Item = OperationKind> + '_ {
        self.begun.iter().map(|b| b.kind)
    }
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    errors: u64,
    bytes: u64,
    total: u64,
    max: u64,
    late: u64,
    unfinished: u64,
    overlapping: bool,
    account: Account,
}

/// The operations of a process, by kind.
#[derive(Debug, Default)]
pub struct Operations(BTreeMap<OperationKind, Sum>);

impl Operations {
    pub fn add(&mut self, done: &Done, e: &LoadEnd) {
        let sum = self.0.entry(done.kind).or_default();
        sum.count += 1;
        sum.errors += u64::from(e.result < 0);
        sum.bytes += u64::try_from(e.result).map_or(0, |n| n.min(MAX_RW_COUNT));
        sum.total += done.took;
        sum.max = sum.max.max(done.took);
        sum.late += u64::from(e.late) * 1000;
        sum.overlapping |= done.overlapping;
        sum.account.merge(&done.spent);
    }

    /// Counts one whose end was not told.
    pub fn unfinished(&mut self, kind: OperationKind) {
        self.0.entry(kind).or_default().unfinished += 1;
    }

    /// In the order of the kinds.
    pub fn rows(&self) -> Vec<OperationRow> {
        let row = |(kind, sum): (&OperationKind, &Sum)| OperationRow {
            kind: kind.word().into(),
            count: sum.count,
            errors: sum.errors,
            bytes: sum.bytes,
            total: sum.total,
            max: sum.max,
            late: sum.late,
            unfinished: sum.unfinished,
            overlapping: sum.overlapping,
            accounted: sum.account.total(),
            account: sum.account.parts(),
        };
        self.0.iter().map(row).collect()
    }
}
