// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is added up because there are too many rows: the sum of an account stays whole.

use crate::account::Category;
use crate::parts::Parts;
use crate::result::{OperationRow, ProcessRow, SyscallRow, ThreadRow};
use plumb_trace::units;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows that are kept one by one, of processes and of a process's threads.
pub const MOST_ROWS: usize = 10_000;

/// Rows of processes that ended: those with the most thread time, and the others in one.
#[derive(Debug, Default)]
pub struct Rows {
    kept: Vec<(ProcessRow, Parts)>,
    rest: ProcessRow,
    blame: Parts,
    /// Processes in `rest`.
    more: u64,
}

impl Rows {
    pub fn push(&mut self, row: ProcessRow, blame: Parts) {
        self.kept.push((row, blame));
        if self.kept.len() >= 2 * MOST_ROWS {
            self.fold();
        }
    }

    fn fold(&mut self) {
        if self.kept.len() <= MOST_ROWS {
            return;
        }
        self.kept.sort_by_key(|(r, _)| (Reverse(r.thread_time), r.begin, r.pid));
        for (row, blame) in self.kept.drain(MOST_ROWS..) {
            self.more += 1;
            self.blame.merge(&blame);
            add_process(&mut self.rest, &row, self.more == 1);
        }
    }

    /// In the order of their begin; what was added up has process id 0 and says how many it is.
    pub fn finish(mut self) -> Vec<(ProcessRow, Parts)> {
        self.fold();
        if self.more > 0 {
            let are = if self.more == 1 { "process" } else { "processes" };
            self.rest.comm = format!("{} more {are}", units::count(self.more));
            self.kept.push((self.rest, self.blame));
        }
        self.kept.sort_by_key(|(r, _)| (r.begin, r.pid));
        self.kept
    }
}

/// Takes a thread; beyond [`MOST_ROWS`] into the last row, whose thread id is 0 then.
pub fn push_thread(rows: &mut Vec<ThreadRow>, thread: ThreadRow) {
    if rows.len() <= MOST_ROWS {
        rows.push(if rows.len() == MOST_ROWS { ThreadRow { tid: 0, ..thread } } else { thread });
    } else if let Some(last) = rows.last_mut() {
        add_thread(last, &thread);
    }
}

/// Adds a thread to a sum.
pub fn add_thread(into: &mut ThreadRow, from: &ThreadRow) {
    into.begin = into.begin.min(from.begin);
    into.elapsed += from.elapsed;
    into.usage.merge(&from.usage);
    sum(&mut into.account, &from.account);
}

fn sum(into: &mut BTreeMap<Category, u64>, from: &BTreeMap<Category, u64>) {
    for (category, time) in from {
        match into.get_mut(category) {
            Some(sum) => *sum += time,
            None => drop(into.insert(*category, *time)),
        }
    }
}

/// Adds a process to a sum, but for its blame and threads; `first`: it is the first.
pub fn add_process(into: &mut ProcessRow, from: &ProcessRow, first: bool) {
    let end = from.begin + from.elapsed;
    let ended = if first { end } else { end.max(into.begin + into.elapsed) };
    into.begin = if first { from.begin } else { from.begin.min(into.begin) };
    into.elapsed = ended - into.begin;
    into.kernel_cpu = match (first, into.kernel_cpu, from.kernel_cpu) {
        (true, _, counted) => counted,
        (false, Some(a), Some(b)) => Some(a.saturating_add(b)),
        _ => None,
    };
    into.usage.merge(&from.usage);
    into.thread_time += from.thread_time;
    sum(&mut into.account, &from.account);
    sum(&mut into.direct, &from.direct);
    sum(&mut into.synced, &from.synced);
    into.syncs += from.syncs;
    into.advised += from.advised;
    into.switches[0] += from.switches[0];
    into.switches[1] += from.switches[1];
    for call in &from.syscalls {
        match into.syscalls.iter_mut().find(|c| c.name == call.name) {
            Some(known) => add_call(known, call),
            None => into.syscalls.push(call.clone()),
        }
    }
    for operation in &from.operations {
        match into.operations.iter_mut().find(|o| o.kind == operation.kind) {
            Some(known) => add_operation(known, operation),
            None => into.operations.push(operation.clone()),
        }
    }
}

fn add_call(into: &mut SyscallRow, from: &SyscallRow) {
    into.calls += from.calls;
    into.total += from.total;
    into.max = into.max.max(from.max);
    sum(&mut into.account, &from.account);
    into.own_requests += from.own_requests;
    into.other_requests += from.other_requests;
    into.other_bytes += from.other_bytes;
    into.bytes += from.bytes;
}

fn add_operation(into: &mut OperationRow, from: &OperationRow) {
    into.count += from.count;
    into.errors += from.errors;
    into.bytes += from.bytes;
    into.total += from.total;
    into.max = into.max.max(from.max);
    into.late += from.late;
    into.unfinished += from.unfinished;
    into.overlapping |= from.overlapping;
    into.accounted += from.accounted;
    sum(&mut into.account, &from.account);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(n: u64) -> ProcessRow {
        let time = n % 97 + 1;
        let account = BTreeMap::from([(Category::Running, time)]);
        let call = SyscallRow { name: "read".into(), calls: 1, total: n, max: n, ..SyscallRow::default() };
        ProcessRow {
            pid: n as u32 + 1,
            begin: n,
            elapsed: time,
            thread_time: time,
            account,
            kernel_cpu: Some(1),
            syscalls: vec![call],
            ..ProcessRow::default()
        }
    }

    #[test]
    fn no_time_is_lost_beyond_the_most_rows() {
        let mut rows = Rows::default();
        let mut total = 0;
        for n in 1..=25_000 {
            let mut row = process(n);
            // The first, a shell say, lives as long as all.
            if n == 25_000 {
                row = ProcessRow { pid: 7, begin: 0, elapsed: 30_000, thread_time: 30_000, ..process(n) };
                row.account.insert(Category::Running, 30_000);
            }
            total += row.thread_time;
            rows.push(row, Parts::default());
        }
        let rows = rows.finish();
        assert_eq!(rows.len(), MOST_ROWS + 1);
        assert_eq!(rows.iter().map(|(r, _)| r.thread_time).sum::<u64>(), total);
        assert_eq!(rows.iter().map(|(r, _)| r.part(Category::Running)).sum::<u64>(), total);
        assert_eq!(rows.iter().map(|(r, _)| r.syscalls[0].calls).sum::<u64>(), 25_000);
        assert!(rows.iter().any(|(r, _)| r.pid == 7), "the longest is kept");
        let (rest, _) = rows.iter().find(|(r, _)| r.pid == 0).expect("a row of the rest");
        assert_eq!((rest.comm.as_str(), rest.kernel_cpu), ("15,000 more processes", Some(15_000)));
        assert!(rest.begin >= 1 && rest.begin + rest.elapsed <= 25_100);
    }

    #[test]
    fn few_rows_are_left_as_they_are() {
        let mut rows = Rows::default();
        (1..=3).for_each(|n| rows.push(process(n), Parts::default()));
        let rows = rows.finish();
        assert_eq!(rows.iter().map(|(r, _)| r.pid).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn threads_beyond_the_most_are_one_row() {
        let mut rows = Vec::new();
        for n in 1..=MOST_ROWS as u32 + 5 {
            let account = BTreeMap::from([(Category::Running, 2)]);
            push_thread(&mut rows, ThreadRow { tid: n, elapsed: 2, account, ..ThreadRow::default() });
        }
        assert_eq!(rows.len(), MOST_ROWS + 1);
        let last = rows.last().expect("there are some");
        assert_eq!((last.tid, last.elapsed, last.account["running"]), (0, 10, 10));
    }
}
