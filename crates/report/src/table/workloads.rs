// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What workloads tell: their operations in sums, and the figures of `plumb load`.

use super::{table, Cell, Context, Sink};
use plumb_model::{OperationRow, ProcessRow, RunResult};
use serde_json::Value;

table!(OPERATION_KINDS, OperationKinds, Operations, "operation_kinds", "Operations that workloads told of themselves, in sums",
kind(r: (&ProcessRow, &OperationRow), c) {
    pid: Integer = r.0.pid, "Process";
    process: Text = &r.0.comm, "Its name";
    kind: Text = &r.1.kind, "write, rewrite, read, reread, sync, create ...";
    count: Integer = r.1.count, "Operations that ended";
    errors: Integer = r.1.errors, "Of those, failed";
    bytes: Integer = r.1.bytes, "Bytes that they moved";
    total_ns: Integer = r.1.total, "Sum of their durations";
    max_ns: Integer = r.1.max, "Longest";
    late_us: Integer = r.1.late, "Sum of how long after its intended time each began";
    unfinished: Integer = r.1.unfinished, "Operations whose end was not told: cut off, or lost";
    overlapping: Integer = r.1.overlapping, "1: a thread had several open at once";
    accounted_ns: Integer = r.1.accounted, "What their account adds up to; total_ns where nothing overlaps";
});

table!(OPERATION_ACCOUNT, OperationAccount, Operations, "operation_account",
"Where the time of operations went; adds up to their accounted_ns",
kind_account(r: (&ProcessRow, &OperationRow, &str, u64), c) {
    pid: Integer = r.0.pid, "Process";
    kind: Text = &r.1.kind, "As in operation_kinds";
    category: Text = r.2, "What the time went to, see categories";
    time_ns: Integer = r.3, "Time";
});

table!(LOADS, Loads, Load, "loads", "Figures of `plumb load`: of each kind of operation of each job of each step of each round",
load(r: (Step<'_>, &Value), c) {
    copy: Integer = r.0.copy, "Which of the loads that ran at once, 1 and up: load.json, load.2.json ...";
    cell: Text = r.0.cell, "What tells it from the other cells";
    round: Integer = r.0.round as u64, "Round, 1 and up";
    step: Text = r.0.step, "Step";
    job: Integer = r.0.job as u64, "Place of the job in its step, 1 and up";
    verdict: Text = r.0.verdict, "Whether the figures may be believed: valid, suspect, invalid";
    kind: Text = text(r.1, "kind"), "Kind of operation";
    count: Integer = whole(r.1, "count"), "Operations that ended";
    errors: Integer = whole(r.1, "errors"), "Of these, failed ones; they are in no latency";
    short: Integer = whole(r.1, "short"), "Of these, ones that moved fewer bytes than asked for";
    bytes: Integer = whole(r.1, "bytes"), "Bytes moved";
    rate: Real = real(r.1, "rate"), "Operations a second, failed ones left out";
    bytes_per_second: Real = real(r.1, "bandwidth"), "Bytes a second";
    mean_ns: Real = real(&r.1["service"], "mean_ns"), "Mean time from an operation's begin to its end";
    stddev_ns: Real = real(&r.1["service"], "stddev_ns"), "Its standard deviation";
    min_ns: Integer = whole(&r.1["service"], "min"), "Shortest";
    p50_ns: Integer = whole(&r.1["service"], "p50"), "Median";
    p90_ns: Integer = whole(&r.1["service"], "p90"), "90 % are not longer";
    p95_ns: Integer = whole(&r.1["service"], "p95"), "95 % are not longer";
    p99_ns: Integer = whole(&r.1["service"], "p99"), "99 % are not longer";
    p99_9_ns: Integer = whole(&r.1["service"], "p99_9"), "99.9 % are not longer";
    p99_99_ns: Integer = whole(&r.1["service"], "p99_99"), "99.99 % are not longer";
    max_ns: Integer = whole(&r.1["service"], "max"), "Longest";
    response_mean_ns: Real = real(&r.1["response"], "mean_ns"), "Mean time from the moment that an operation was due to its end; open loop only";
    response_p50_ns: Integer = whole(&r.1["response"], "p50"), "Median of that";
    response_p99_ns: Integer = whole(&r.1["response"], "p99"), "99 % of that are not longer";
    response_p99_9_ns: Integer = whole(&r.1["response"], "p99_9"), "99.9 % of that are not longer";
    response_max_ns: Integer = whole(&r.1["response"], "max"), "Longest of that";
});

table!(LOAD_SECONDS, LoadSeconds, Load, "load_seconds", "Figures of `plumb load`, second by second",
second(r: (Step<'_>, &Value), c) {
    copy: Integer = r.0.copy, "As in loads";
    cell: Text = r.0.cell, "As in loads";
    round: Integer = r.0.round as u64, "As in loads";
    step: Text = r.0.step, "As in loads";
    job: Integer = r.0.job as u64, "As in loads";
    at_ns: Integer = whole(r.1, "at_ns"), "Its end, from the jobs' common start";
    length_ns: Integer = whole(r.1, "length_ns"), "Its length";
    operations: Integer = whole(r.1, "operations"), "Operations that ended in it";
    bytes: Integer = whole(r.1, "bytes"), "Bytes moved in it";
    longest_ns: Integer = whole(r.1, "longest_ns"), "Longest operation that ended in it; where operations are due at set times, counted from then";
});

/// Where in load.json a row stands.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    copy: u32,
    cell: Option<&'a str>,
    round: usize,
    step: Option<&'a str>,
    verdict: Option<&'a str>,
    job: usize,
}

pub(super) fn whole(value: &Value, key: &str) -> Cell<'static> {
    value[key].as_i64().map_or(Cell::None, Cell::Integer)
}

pub(super) fn real(value: &Value, key: &str) -> Cell<'static> {
    value[key].as_f64().map_or(Cell::None, Cell::Real)
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// Elements of a list; none where it is none.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Hands the operations' sums to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, c: &Context, sink: &mut S) {
    for p in &result.processes {
        for o in &p.operations {
            kind(sink, c, (p, o));
            o.account.iter().for_each(|(name, time)| kind_account(sink, c, (p, o, name.name(), *time)));
        }
    }
}

/// Hands what a load.json says to a sink; what it does not have is none.
pub(super) fn loads<S: Sink + ?Sized>(document: &Value, copy: u32, c: &Context, sink: &mut S) {
    for cell in list(document, "cells") {
        for (round, steps) in list(cell, "rounds").enumerate() {
            for step in steps.as_array().into_iter().flatten() {
                for (job, figures) in list(step, "jobs").enumerate() {
                    let at = Step {
                        copy,
                        cell: text(cell, "label"),
                        round: round + 1,
                        step: text(step, "label"),
                        verdict: text(&step["verdict"], "word"),
                        job: job + 1,
                    };
                    list(figures, "operations").for_each(|o| load(sink, c, (at, o)));
                    list(figures, "series").for_each(|s| second(sink, c, (at, s)));
                }
            }
        }
    }
}
