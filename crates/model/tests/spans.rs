// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans over events made by hand: counts, times and causes that can be added up on paper.

use plumb_model::{Category, CauseRow, Model, RunResult, Setup, SpanRow};
use plumb_trace::reader::{Gap, Item, RawRecord, Told};
use plumb_trace::schema::*;
use plumb_trace::Record;

const ME: u32 = 100;
const OTHER: u32 = 200;
/// The spans of the tests: a request that takes texts, and a call within it.
const REQUEST: u32 = 0;
const CALL: u32 = 1;

/// Two threads of a service; the first runs on CPU 0 from time 1000 on.
struct Bench(Model);

impl Bench {
    fn new() -> Self {
        let mut setup = Setup { begin: 1000, end: 100_000_000, ..Setup::default() };
        let task = |tid, comm: &str| StateTask {
            tid,
            tgid: tid,
            target: 1,
            syscall: StateTask::NO_SYSCALL,
            comm: comm.into(),
            ..StateTask::default()
        };
        let span =
            |span, nests, name: &str| StateSpan { span, nests, name: name.into(), ..Default::default() };
        let text = |text, value: &str| StateText { text, value: value.into() };
        setup.state.tasks = vec![task(ME, "server"), task(OTHER, "holder")];
        setup.state.spans = vec![span(REQUEST, 0, "request"), span(CALL, 1, "call")];
        setup.state.texts = vec![text(1, "read"), text(2, "write")];
        setup.state.wait_events =
            vec![StateWaitEvent { program: 7, number: 0x0300_0005, name: "Lock:row".into() }];
        let mut bench = Self(Model::new(setup, ()));
        bench.at(1000, 0, SchedSwitch { next_tid: ME, ..Default::default() });
        bench
    }

    fn at<R: Record>(&mut self, ts: u64, tid: u32, record: R) -> &mut Self {
        self.0.feed(Item::Record(RawRecord { ts, id: R::ID, cpu: 0, tid, bytes: record.bytes() }));
        self
    }

    fn switch(&mut self, ts: u64, tid: u32, prev_state: u32, next_tid: u32) -> &mut Self {
        let preempt = u32::from(prev_state == 0);
        self.at(ts, tid, SchedSwitch { tid, next_tid, prev_state, preempt, ..Default::default() })
    }

    fn begin(&mut self, ts: u64, span: u32, text: u32) -> &mut Self {
        if text > 0 {
            self.0.feed(Item::Told(&Told::SpanText(StateSpanText { at: ts, thread: ME, text })));
        }
        self.at(ts, ME, SpanBegin { ts, tid: ME, span, ..Default::default() })
    }

    fn end(&mut self, ts: u64, span: u32) -> &mut Self {
        self.at(ts, ME, SpanEnd { ts, tid: ME, span, ..Default::default() })
    }

    /// ME sleeps for a lock that OTHER has, who runs for `ns` and lets go of it.
    fn waits(&mut self, ts: u64, ns: u64) -> &mut Self {
        self.at(ts, ME, SpanWait { ts, tid: ME, number: 0x0300_0005, program: 7, ..Default::default() });
        self.switch(ts, ME, 1, OTHER).at(ts + ns, OTHER, SchedWaking { wakee: ME, ..Default::default() });
        self.switch(ts + ns, OTHER, 1, ME)
    }

    fn finish(self) -> RunResult {
        self.0.finish().0
    }
}

fn row<'a>(result: &'a RunResult, name: &str, key: &str) -> &'a SpanRow {
    let found = result.spans.iter().find(|s| (s.name.as_str(), s.key.as_str()) == (name, key));
    found.unwrap_or_else(|| panic!("no {name} {key}: {:?}", result.spans))
}

fn cause<'a>(s: &'a SpanRow, event: &str) -> &'a CauseRow {
    s.causes.iter().find(|c| c.event == event).expect("cause")
}

#[test]
fn a_spans_time_goes_to_what_its_thread_was_at() {
    let mut b = Bench::new();
    b.begin(1100, REQUEST, 1).end(1150, REQUEST);
    // 10 running, 500 asleep for the other thread, 40 running.
    b.begin(2000, REQUEST, 2).waits(2010, 500).end(2550, REQUEST);
    let result = b.finish();
    let read = row(&result, "request", "read");
    assert_eq!((read.count, read.total, read.max, read.unfinished), (1, 50, 50, 0));
    let write = row(&result, "request", "write");
    assert_eq!((write.count, write.total), (1, 550));
    assert_eq!(write.account.values().sum::<u64>(), write.total);
    assert_eq!(write.account[&Category::Running], 50);
    let lock = cause(write, "Lock:row");
    assert_eq!((lock.time, lock.who.as_str(), lock.spans), (500, "holder", 1));
    let [event] = &result.wait_events[..] else { panic!("{:?}", result.wait_events) };
    assert_eq!((event.name.as_str(), event.waits, event.time, event.max), ("Lock:row", 1, 500, 500));
    assert_eq!(event.elapsed, 500);
    assert_eq!(event.account.values().sum::<u64>(), 500);
    assert_eq!((event.ended_by[0].thread, event.ended_by[0].time), (OTHER, 500));
    assert_eq!(result.impossible.len(), 0, "{:?}", result.impossible);
}

#[test]
fn what_lies_within_another_is_a_part_of_both() {
    let mut b = Bench::new();
    // The call: itself within itself counts once.
    b.begin(2000, REQUEST, 1).begin(2100, CALL, 0).begin(2110, CALL, 0).waits(2120, 300).end(2430, CALL);
    b.end(2450, CALL).end(2500, REQUEST);
    let result = b.finish();
    let (request, call) = (row(&result, "request", "read"), row(&result, "call", ""));
    assert_eq!((call.count, call.total, request.total), (1, 350, 500));
    for (s, running) in [(request, 200), (call, 50)] {
        assert_eq!((s.account[&Category::Running], cause(s, "Lock:row").time), (running, 300), "{}", s.name);
    }
}

#[test]
fn a_second_begin_tells_more_of_a_span_that_is_open() {
    let mut b = Bench::new();
    // As a statement of the extended protocol: parse, bind, execute.
    b.begin(2000, REQUEST, 1).begin(2100, REQUEST, 2).begin(2200, REQUEST, 0).end(2300, REQUEST);
    b.end(2400, REQUEST);
    let result = b.finish();
    assert_eq!(result.spans.len(), 1);
    assert_eq!((row(&result, "request", "write").count, row(&result, "request", "write").total), (1, 300));
}

#[test]
fn what_did_not_end_is_counted_apart() {
    let mut b = Bench::new();
    b.end(1500, REQUEST);
    b.begin(2000, REQUEST, 1).begin(2100, CALL, 0).end(2300, REQUEST).begin(3000, REQUEST, 1);
    let result = b.finish();
    let (request, call) = (row(&result, "request", "read"), row(&result, "call", ""));
    assert_eq!((request.count, request.unfinished, call.count, call.unfinished), (1, 1, 0, 1));
}

#[test]
fn missing_events_end_no_span() {
    let mut b = Bench::new();
    b.begin(2000, REQUEST, 1);
    b.0.feed(Item::Gap(Gap { cpu: 0, begin: 2500, end: 4000, lost: 3 }));
    b.at(4000, ME, SchedWaking { wakee: OTHER, ..Default::default() });
    // It may be another one's end.
    b.end(5000, REQUEST);
    let result = b.finish();
    let request = row(&result, "request", "read");
    assert_eq!((request.count, request.unfinished), (0, 1));
}

#[test]
fn a_thread_that_is_first_seen_in_a_span_has_no_more_than_its_time() {
    let mut b = Bench::new();
    // It ran on the other CPU since before the recording.
    let on = |ts, id, bytes| RawRecord { ts, id, cpu: 1, tid: OTHER, bytes };
    let begin = SpanBegin { ts: 5000, tid: OTHER, span: CALL, ..Default::default() };
    let end = SpanEnd { ts: 5700, tid: OTHER, span: CALL, ..Default::default() };
    b.0.feed(Item::Record(on(5000, SpanBegin::ID, begin.bytes())));
    b.0.feed(Item::Record(on(5700, SpanEnd::ID, end.bytes())));
    let result = b.finish();
    let call = row(&result, "call", "");
    assert_eq!((call.total, call.account.values().sum::<u64>()), (700, 700), "{:?}", call.account);
}

#[test]
fn the_tail_has_its_own_causes() {
    let mut b = Bench::new();
    for i in 0..1000u64 {
        let ts = 10_000 * (i + 1);
        b.begin(ts, REQUEST, 1);
        // Each hundredth waits.
        if i % 100 == 50 {
            b.waits(ts + 10, 5000).end(ts + 5050, REQUEST);
        } else {
            b.end(ts + 50 + i % 7, REQUEST);
        }
    }
    let result = b.finish();
    let request = row(&result, "request", "read");
    assert_eq!((request.count, request.max), (1000, 5050));
    assert!((50..=56).contains(&request.p50) && request.p99 < 60, "{} {}", request.p50, request.p99);
    let tail = request.tail.as_ref().expect("a tail");
    assert_eq!((tail.spans, tail.least, tail.mean), (10, 5050, 5050));
    assert!((50..=56).contains(&tail.typical), "{}", tail.typical);
    let first = &tail.causes[0];
    assert_eq!((first.event.as_str(), first.time, first.typical), ("Lock:row", 5000, 0));
    assert_eq!((request.slowest.len(), request.slowest[0].time, request.slowest[0].thread), (5, 5050, ME));
    assert_eq!(request.slowest[0].causes[0].event, "Lock:row");
}

#[test]
fn many_kinds_are_bounded() {
    let mut b = Bench::new();
    for i in 0..2000u64 {
        let ts = 10_000 * (i + 1);
        b.at(ts, ME, SpanBegin { ts, tid: ME, span: REQUEST, key: 100 + i, ..Default::default() });
        b.waits(ts + 10, 100).end(ts + 200, REQUEST);
    }
    let result = b.finish();
    assert_eq!(result.spans.iter().map(|s| s.count).sum::<u64>(), 2000);
    assert!(result.spans.len() <= 513, "{}", result.spans.len());
    assert!(result.spans.iter().skip(64).all(|s| s.slowest.is_empty()), "told in brief");
    assert!(result.spans[0].key == "all others" && !result.spans[0].slowest.is_empty());
}
