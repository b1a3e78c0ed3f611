// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and threads of the target, and where their time went.

use super::{table, Context, Sink};
use plumb_model::{BlameRow, ProcessRow, RunResult, SyscallRow, ThreadRow, WaitRow, CATEGORIES};

table!(PROCESSES, Processes, Account, "processes", "Processes of the target, in the order of their begin",
process(p: &ProcessRow, c) {
    pid: Integer = p.pid, "Process id";
    process: Text = &p.comm, "Name of its first thread";
    cmdline: Text = &p.cmdline, "Command line, where it could be read";
    parent: Integer = p.parent, "Process id of its parent; none: not known";
    begin_ns: Integer = p.begin.saturating_sub(c.begin()), "Begin";
    elapsed_ns: Integer = p.elapsed, "From its begin to its end";
    thread_time_ns: Integer = p.thread_time, "Sum of its threads' life times; its account adds up to it";
    threads: Integer = p.threads.len() as u64, "Threads";
    cpu_used_ns: Integer = p.usage.cpu_used, "On a CPU";
    cpu_wait_ns: Integer = p.usage.cpu_wait, "Waiting for a CPU";
    disk_used_ns: Integer = p.usage.disk_used, "At least one of its requests was in flight";
    disk_wait_ns: Integer = p.usage.disk_wait, "Requests of its own waited, and none was in flight";
    accesses: Integer = p.usage.accesses, "Block requests with data";
    writes: Integer = p.usage.writes, "Of those, writes";
    bytes: Integer = p.usage.bytes, "Their bytes";
    flushes: Integer = p.usage.flushes, "Block requests without data";
    service_ns: Integer = p.usage.service, "Sum of the accesses' device service times";
    response_ns: Integer = p.usage.response, "Sum over the accesses of the time from queue to completion";
    syncs: Integer = p.syncs, "Calls of fsync(2) and the like, and writes with O_SYNC or O_DSYNC";
    kernel_cpu_ns: Integer = p.kernel_cpu, "CPU time as the kernel counted it for threads that ended, for comparison";
    switches_own: Integer = p.switches[0], "Times its threads left a CPU by their own will";
    switches_forced: Integer = p.switches[1], "Involuntary switches (preemptions)";
});

table!(THREADS, Threads, Account, "threads", "Threads of the target",
thread(r: (&ProcessRow, &ThreadRow), c) {
    tid: Integer = r.1.tid, "Thread id";
    pid: Integer = r.0.pid, "Its process";
    thread: Text = c.thread(r.1.tid), "Its last name; none where it had no interval";
    process: Text = &r.0.comm, "Name of its process";
    begin_ns: Integer = r.1.begin.saturating_sub(c.begin()), "Begin";
    elapsed_ns: Integer = r.1.elapsed, "From its begin to its end; its account adds up to it";
    cpu_used_ns: Integer = r.1.usage.cpu_used, "On a CPU";
    cpu_wait_ns: Integer = r.1.usage.cpu_wait, "Waiting for a CPU";
    disk_used_ns: Integer = r.1.usage.disk_used, "At least one of its requests was in flight";
    disk_wait_ns: Integer = r.1.usage.disk_wait, "Requests of its own waited, and none was in flight";
    accesses: Integer = r.1.usage.accesses, "Block requests with data";
    writes: Integer = r.1.usage.writes, "Of those, writes";
    bytes: Integer = r.1.usage.bytes, "Their bytes";
});

table!(ACCOUNT, Account, Account, "account", "Where the time of each process went; adds up to its thread_time_ns",
account(r: (&ProcessRow, &str, u64), c) {
    pid: Integer = r.0.pid, "Process";
    process: Text = &r.0.comm, "Its name";
    category: Text = r.1, "What the time went to, see categories";
    time_ns: Integer = r.2, "Time";
});

table!(THREAD_ACCOUNT, ThreadAccount, Account, "thread_account",
"Where the time of each thread went; adds up to its elapsed_ns",
thread_account(r: (&ProcessRow, u32, &str, u64), c) {
    tid: Integer = r.1, "Thread";
    pid: Integer = r.0.pid, "Its process";
    category: Text = r.2, "What the time went to, see categories";
    time_ns: Integer = r.3, "Time";
});

table!(BLAME, Blame, Account, "blame", "Who or what the waits of each process went to",
blame(r: (&ProcessRow, &BlameRow), c) {
    pid: Integer = r.0.pid, "Process";
    process: Text = &r.0.comm, "Its name";
    category: Text = &r.1.category, "Category of the account";
    who: Text = filled(&r.1.who), "Thread's name or disk; none: nobody in particular";
    time_ns: Integer = r.1.time, "Time";
});

table!(PATH, Path, Account, "path",
"The critical path: the target's elapsed time, waits for its own threads followed to what those did",
path(r: (&str, &str, &BlameRow), c) {
    of: Text = r.0, "command: from its first thread's begin to its end; threads: the sum over all threads";
    part: Text = r.1, "path: adds up to the elapsed time; last: whole lives of the threads on whose ends the end depended";
    category: Text = &r.2.category, "Category of the account";
    who: Text = filled(&r.2.who), "Thread's name or disk; none: nobody in particular";
    time_ns: Integer = r.2.time, "Time";
});

table!(STEPS, Steps, Account, "path_steps", "The longest waits of the critical path's last threads, in the order of time",
step(w: &WaitRow, c) {
    at_ns: Integer = w.at, "When";
    time_ns: Integer = w.time, "How long";
    category: Text = &w.category, "What for";
    who: Text = filled(&w.who), "Thread's name or disk; none: nobody in particular";
    thread: Text = filled(&w.comm), "Name of the thread that waited";
});

table!(LONGEST, Longest, Account, "longest", "The longest waits of each category",
longest(w: &WaitRow, c) {
    category: Text = &w.category, "What for";
    at_ns: Integer = w.at, "When";
    time_ns: Integer = w.time, "How long";
    tid: Integer = w.tid, "Thread that waited";
    thread: Text = &w.comm, "Its name";
    who: Text = filled(&w.who), "Thread's name or disk; none: nobody in particular";
});

table!(CATEGORY_TABLE, Categories, Trace, "categories", "The parts that a thread's time is split into, the same in every run",
category(r: (usize, &str, &str), c) {
    place: Integer = r.0 as u64, "Place in reports";
    category: Text = r.1, "Its name";
    about: Text = r.2, "What it is";
});

table!(SYSCALLS, Syscalls, Syscalls, "syscalls", "System calls of each process that were recorded",
syscall(r: (&ProcessRow, &SyscallRow), c) {
    pid: Integer = r.0.pid, "Process";
    process: Text = &r.0.comm, "Its name";
    syscall: Text = &r.1.name, "System call";
    calls: Integer = r.1.calls, "Calls that returned";
    total_ns: Integer = r.1.total, "Sum of their durations";
    max_ns: Integer = r.1.max, "Longest";
    own_requests: Integer = r.1.own_requests, "Block requests that the thread itself asked for within the calls";
    other_requests: Integer = r.1.other_requests, "Block requests of other threads (journal, writeback) that the calls waited for";
    other_bytes: Integer = r.1.other_bytes, "Bytes of those";
    bytes: Integer = r.1.bytes, "Bytes that the calls read or wrote";
});

table!(SYSCALL_ACCOUNT, SyscallAccount, Syscalls, "syscall_account",
"Where the time of system calls went; adds up to their total_ns",
syscall_account(r: (&ProcessRow, &SyscallRow, &str, u64), c) {
    pid: Integer = r.0.pid, "Process";
    syscall: Text = &r.1.name, "System call";
    category: Text = r.2, "What the time went to, see categories";
    time_ns: Integer = r.3, "Time";
});

/// The model says "nobody" with an empty text.
pub(crate) fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Hands all of them to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, c: &Context, sink: &mut S) {
    for p in &result.processes {
        process(sink, c, p);
        p.account.iter().for_each(|(name, time)| account(sink, c, (p, name.name(), *time)));
        p.blame.iter().for_each(|b| blame(sink, c, (p, b)));
        for t in &p.threads {
            thread(sink, c, (p, t));
            t.account.iter().for_each(|(name, time)| thread_account(sink, c, (p, t.tid, name.name(), *time)));
        }
        for s in &p.syscalls {
            syscall(sink, c, (p, s));
            s.account.iter().for_each(|(name, time)| syscall_account(sink, c, (p, s, name.name(), *time)));
        }
    }
    let of = result.path.of.as_str();
    result.path.parts.iter().for_each(|b| path(sink, c, (of, "path", b)));
    result.path.last.iter().for_each(|b| path(sink, c, (of, "last", b)));
    result.path.steps.iter().for_each(|w| step(sink, c, w));
    result.longest.values().flatten().for_each(|w| longest(sink, c, w));
    for (place, (_, name, about)) in CATEGORIES.iter().enumerate() {
        category(sink, c, (place, name, about));
    }
}
