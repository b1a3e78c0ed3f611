// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans by what names them, and what programs say that they wait for.

use super::account::filled;
use super::{table, Context, Sink};
use plumb_model::{CauseRow, EndedByRow, RunResult, SlowSpanRow, SpanRow, WaitEventRow};

table!(SPANS, Spans, Trace, "spans", "Spans (requests, statements, calls) by what names them, most time first",
span(s: &SpanRow, c) {
    span: Text = &s.name, "What the kind of span is called";
    key: Text = filled(&s.key), "What names these: a number or a text; none: nothing does";
    count: Integer = s.count, "Spans that ended";
    unfinished: Integer = s.unfinished, "Spans whose end was not seen";
    total_ns: Integer = s.total, "Sum of their durations";
    p50_ns: Integer = s.p50, "Median";
    p90_ns: Integer = s.p90, "90 % are not longer";
    p99_ns: Integer = s.p99, "99 % are not longer";
    p99_9_ns: Integer = s.p999, "99.9 % are not longer";
    max_ns: Integer = s.max, "Longest";
    slow_ns: Integer = s.tail.as_ref().map(|t| t.mean), "Mean of the slowest percent; none with few spans";
    typical_ns: Integer = s.tail.as_ref().map(|t| t.typical), "Mean of the others";
    place: Text = &s.place, "Program and functions where it begins and ends";
});

table!(SPAN_CAUSES, SpanCauses, Trace, "span_causes", "Where the time of spans went, most time first",
cause(r: (&SpanRow, &str, &CauseRow), c) {
    span: Text = &r.0.name, "As in spans";
    key: Text = filled(&r.0.key), "As in spans";
    of: Text = r.1, "all: of all of them; tail: mean of the slowest percent";
    category: Text = &r.2.category, "Category of the account";
    who: Text = filled(&r.2.who), "Thread's name or disk";
    beside: Text = filled(&r.2.beside), "Whose requests the disk served meanwhile, mostly, where that was no thread of the target";
    event: Text = filled(&r.2.event), "What the program said that it waits for";
    time_ns: Integer = r.2.time, "Time";
    typical_ns: Integer = (r.1 == "tail").then_some(r.2.typical), "Of a tail: the mean of the others";
    spans: Integer = (r.1 == "all").then_some(r.2.spans), "Spans that had any of it";
});

table!(SLOW_SPANS, SlowSpans, Trace, "slow_spans", "The slowest spans of each kind",
slow(r: (&SpanRow, &SlowSpanRow), c) {
    span: Text = &r.0.name, "As in spans";
    key: Text = filled(&r.0.key), "As in spans";
    at_ns: Integer = r.1.at, "When it began, from the run's begin";
    time_ns: Integer = r.1.time, "How long it took";
    tid: Integer = r.1.thread, "Thread";
});

table!(WAIT_EVENTS, WaitEvents, Trace, "wait_events", "What programs said that their threads waited for, most time first",
wait_event(w: &WaitEventRow, c) {
    event: Text = &w.name, "Class and name, as the program's own views show them";
    waits: Integer = w.waits, "Waits";
    time_ns: Integer = w.time, "Their time, asleep";
    max_ns: Integer = w.max, "Longest";
    elapsed_ns: Integer = w.elapsed, "Their time by the program's clock: the whole of the call in which it waited, as its own views show it";
});

table!(WAIT_EVENT_ENDERS, WaitEventEnders, Trace, "wait_event_enders", "Threads of the target that ended waits of an event",
ender(r: (&WaitEventRow, &EndedByRow), c) {
    event: Text = &r.0.name, "As in wait_events";
    tid: Integer = r.1.thread, "Thread";
    thread: Text = &r.1.comm, "Its name";
    key: Text = filled(&r.1.span), "Key of the span that it was in, or that it ended last";
    time_ns: Integer = r.1.time, "Time of the waits that it ended";
});

/// Hands all of them to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, c: &Context, sink: &mut S) {
    for s in &result.spans {
        span(sink, c, s);
        s.causes.iter().for_each(|row| cause(sink, c, (s, "all", row)));
        s.tail.iter().flat_map(|t| &t.causes).for_each(|row| cause(sink, c, (s, "tail", row)));
        s.slowest.iter().for_each(|row| slow(sink, c, (s, row)));
    }
    for w in &result.wait_events {
        wait_event(sink, c, w);
        w.ended_by.iter().for_each(|row| ender(sink, c, (w, row)));
    }
}
