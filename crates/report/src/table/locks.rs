// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks for which the target slept.

use super::account::filled;
use super::{table, Context, Sink};
use plumb_model::{BlameRow, HandoffRow, LockRow, RunResult};

table!(LOCKS, Locks, Locks, "locks", "Locks for which the target slept, most time first",
lock(l: &LockRow, c) {
    lock: Text = &l.lock, "Address; a user lock's within its process";
    pid: Integer = (l.pid > 0).then_some(l.pid), "Process of a user lock; none: a lock of the kernel";
    kind: Text = &l.kind, "mutex, rwsem, user lock ...";
    site: Text = filled(&l.site), "Function in which threads waited; none: no stack was taken";
    contentions: Integer = l.contentions, "Contentions, sleeping or not";
    waits: Integer = l.waits, "Blocking waits";
    readers: Integer = l.readers, "Of those, for reading";
    time_ns: Integer = l.time, "Time of those waits";
    longest_ns: Integer = l.longest, "Longest";
    most_waiting: Integer = l.most_waiting, "Most threads that waited at once";
});

table!(LOCK_HOLDERS, LockHolders, Locks, "lock_holders", "Holders of each lock while others waited, and what they did",
holder(r: (&LockRow, &str, &BlameRow), c) {
    lock: Text = &r.0.lock, "Address, see locks";
    pid: Integer = (r.0.pid > 0).then_some(r.0.pid), "As in locks";
    part: Text = r.1, "holder: who held it; doing: what the holders did meanwhile";
    category: Text = &r.2.category, "Category of the account";
    who: Text = filled(&r.2.who), "Thread's name or disk";
    time_ns: Integer = r.2.time, "Time";
});

table!(HANDOFFS, Handoffs, Locks, "handoffs", "The last handoffs of each lock, in the order of time",
handoff(r: (&LockRow, &HandoffRow), c) {
    lock: Text = &r.0.lock, "Address, see locks";
    pid: Integer = (r.0.pid > 0).then_some(r.0.pid), "As in locks";
    at_ns: Integer = r.1.at, "When";
    holder: Integer = (r.1.holder > 0).then_some(r.1.holder), "Thread that released it; none: unknown";
    holder_name: Text = filled(&r.1.holder_comm), "Its name";
    function: Text = filled(&r.1.function), "Function that released it; none: no stack was taken";
    next: Integer = r.1.next, "Thread that got it";
    next_name: Text = &r.1.next_comm, "Its name";
    waited_ns: Integer = r.1.waited, "How long it had waited";
    behind: Integer = r.1.behind, "Threads that still waited";
    read: Integer = r.1.read, "1: it wanted to read";
});

/// Hands all of them to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, c: &Context, sink: &mut S) {
    for l in &result.locks {
        lock(sink, c, l);
        l.holders.iter().for_each(|b| holder(sink, c, (l, "holder", b)));
        l.doing.iter().for_each(|b| holder(sink, c, (l, "doing", b)));
        l.chain.iter().for_each(|h| handoff(sink, c, (l, h)));
    }
}
