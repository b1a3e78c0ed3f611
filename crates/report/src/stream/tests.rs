// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pieces as a model tells them, by hand: what becomes of them, and in which order.

use super::*;

#[derive(Debug, Default)]
struct Kept {
    intervals: Vec<Interval>,
    waits: Vec<Wait>,
    cpus: Vec<CpuInterval>,
    requests: Vec<RequestRow>,
    samples: Vec<SampleRow>,
    operations: Vec<OperationRow>,
    names: Vec<(u32, String)>,
    known: Vec<(u32, u32)>,
}

impl Take for Kept {
    fn name(&mut self, number: u32, name: &str) {
        self.names.push((number, name.into()));
    }
    fn known_as(&mut self, tid: u32, name: u32) {
        self.known.push((tid, name));
    }
    fn interval(&mut self, i: &Interval) {
        assert!(i.wait == 0 || self.waits.iter().any(|w| w.number == i.wait), "a wait comes before {i:?}");
        self.intervals.push(*i);
    }
    fn wait(&mut self, w: &Wait) {
        self.waits.push(*w);
    }
    fn cpu(&mut self, c: &CpuInterval) {
        self.cpus.push(*c);
    }
    fn request(&mut self, r: &RequestRow) {
        self.requests.push(*r);
    }
    fn sample(&mut self, s: &SampleRow) {
        self.samples.push(*s);
    }
    fn operation(&mut self, o: &OperationRow) {
        self.operations.push(*o);
    }
}

struct Nameless;

impl Naming for Nameless {
    fn name(&self, _: u32) -> String {
        String::new()
    }
    fn who(&self, _: Who) -> String {
        String::new()
    }
    fn process(&self, _: u32) -> String {
        String::new()
    }
}

const BEGIN: u64 = 1000;

fn spent(tid: u32, category: Category, from: u64, to: u64, wait: Option<Slept>) -> Spent {
    let (tgid, name, who, time, request) = (1, 3, Who::Nobody, to - from, 0);
    Spent { tid, tgid, name, category, who, from, to, time, request, wait }
}

fn slept(start: u64, end: u64) -> Option<Slept> {
    Some(Slept { start, end, stack: 5, waker: 9 })
}

fn ended(mut stream: Stream<Kept>) -> Kept {
    stream.end(&Nameless);
    stream.finish()
}

/// Begin, end, category and wait of each.
fn seen(kept: &Kept) -> Vec<(u64, u64, Category, u64)> {
    kept.intervals.iter().map(|i| (i.from, i.to, i.category, i.wait)).collect()
}

#[test]
fn pieces_of_a_wait_come_in_any_order() {
    let mut s = Stream::new(BEGIN, Kept::default());
    let wait = slept(1100, 1500);
    s.spent(&spent(7, Category::BlockIssued, 1300, 1400, wait));
    s.spent(&spent(7, Category::BlockDone, 1400, 1450, wait));
    s.spent(&spent(7, Category::BlockQueued, 1100, 1200, wait));
    s.spent(&spent(7, Category::BlockInserted, 1200, 1300, wait));
    s.thread(7, 1100, 1450, ThreadState::Sleeping);
    let kept = ended(s);
    assert_eq!(
        seen(&kept),
        [
            (100, 200, Category::BlockQueued, 1),
            (200, 300, Category::BlockInserted, 1),
            (300, 400, Category::BlockIssued, 1),
            (400, 450, Category::BlockDone, 1),
        ]
    );
    let wait = Wait { number: 1, tid: 7, pid: 1, from: 100, to: 500, stack: 5, waker: 9 };
    assert_eq!(kept.waits, [wait], "one wait, told once");
}

#[test]
fn running_time_in_parts_is_one_interval() {
    let mut s = Stream::new(BEGIN, Kept::default());
    s.spent(&spent(7, Category::Running, 1000, 1100, None));
    // An interrupt on top: its time is what the interval lacks, told beside.
    s.spent(&Spent { time: 80, ..spent(7, Category::Running, 1100, 1200, None) });
    s.spent(&Spent { time: 20, ..spent(7, Category::Interrupted, 1100, 1200, None) });
    // An interrupt took all of it: that is an interval of its own.
    s.spent(&spent(7, Category::Interrupted, 1200, 1210, None));
    s.spent(&spent(7, Category::Running, 1210, 1300, None));
    s.thread(7, 1000, 1300, ThreadState::Running);
    // The state goes on after it was told of: the same thread runs on.
    s.spent(&spent(7, Category::Running, 1300, 1400, None));
    s.thread(7, 1300, 1400, ThreadState::Running);
    let kept = ended(s);
    assert_eq!(
        seen(&kept),
        [
            (0, 200, Category::Running, 0),
            (200, 210, Category::Interrupted, 0),
            (210, 400, Category::Running, 0),
        ]
    );
    assert_eq!(kept.intervals.iter().map(|i| i.time).collect::<Vec<_>>(), [180, 10, 190]);
}

#[test]
fn waits_that_follow_each_other_stay_apart() {
    let mut s = Stream::new(BEGIN, Kept::default());
    s.spent(&spent(7, Category::Pipe, 1000, 1100, slept(1000, 1100)));
    s.thread(7, 1000, 1100, ThreadState::Sleeping);
    s.spent(&spent(7, Category::Pipe, 1100, 1200, slept(1100, 1200)));
    // Another thread's comes between them.
    s.spent(&spent(8, Category::Pipe, 1050, 1150, slept(1050, 1150)));
    s.spent(&spent(7, Category::Timer, 1200, 1210, slept(1100, 1200)));
    s.thread(8, 1050, 1150, ThreadState::Sleeping);
    s.thread(7, 1100, 1210, ThreadState::Sleeping);
    let kept = ended(s);
    assert_eq!(kept.waits.iter().map(|w| (w.number, w.tid)).collect::<Vec<_>>(), [(1, 7), (2, 7), (3, 8)]);
    let of = |tid: u32| -> Vec<(u64, u64, u64)> {
        kept.intervals.iter().filter(|i| i.tid == tid).map(|i| (i.from, i.to, i.wait)).collect()
    };
    assert_eq!(of(7), [(0, 100, 1), (100, 200, 2), (200, 210, 2)]);
    assert_eq!(of(8), [(50, 150, 3)]);
}

#[test]
fn a_name_or_a_request_that_changes_ends_an_interval() {
    let mut s = Stream::new(BEGIN, Kept::default());
    s.spent(&spent(7, Category::Running, 1000, 1100, None));
    s.spent(&Spent { name: 4, ..spent(7, Category::Running, 1100, 1200, None) });
    let wait = slept(1200, 1400);
    s.spent(&Spent { request: 1, ..spent(7, Category::BlockIssued, 1200, 1300, wait) });
    s.spent(&Spent { request: 2, ..spent(7, Category::BlockIssued, 1300, 1400, wait) });
    let kept = ended(s);
    let seen: Vec<_> = kept.intervals.iter().map(|i| (i.from, i.to, i.name, i.request)).collect();
    assert_eq!(seen, [(0, 100, 3, 0), (100, 200, 4, 0), (200, 300, 3, 1), (300, 400, 3, 2)]);
}

#[test]
fn cpus_go_on_until_their_state_changes() {
    let mut s = Stream::new(BEGIN, Kept::default());
    s.cpu(0, 1000, 1100, CpuState::Idle);
    s.cpu(1, 1000, 1150, CpuState::Unseen);
    s.cpu(0, 1100, 1200, CpuState::Idle);
    s.cpu(0, 1200, 1300, CpuState::Busy(7));
    s.cpu(0, 1300, 1400, CpuState::Busy(8));
    let kept = ended(s);
    let rows = |cpu: u32| -> Vec<(u64, u64, CpuState)> {
        kept.cpus.iter().filter(|c| c.cpu == cpu).map(|c| (c.from, c.to, c.state)).collect()
    };
    assert_eq!(
        rows(0),
        [(0, 200, CpuState::Idle), (200, 300, CpuState::Busy(7)), (300, 400, CpuState::Busy(8))]
    );
    assert_eq!(rows(1), [(0, 150, CpuState::Unseen)]);
}

#[test]
fn others_are_passed_on_from_the_runs_begin() {
    let mut s = Stream::new(BEGIN, Kept::default());
    let request = Request { q: 1100, d: 1200, c: 1300, ..Request::default() };
    s.request(4, &request, true);
    s.request(5, &request, false);
    let sample = StateCpuSample { at: 1050, thread: 7, cpu: 1, kernel: 2, user: 3 };
    s.sampled(1, true, &sample);
    s.sampled(1, false, &sample);
    s.operation(&plumb_model::Operation {
        tid: 7,
        tgid: 1,
        kind: OperationKind::Sync,
        begin: 1100,
        end: 1200,
        result: -5,
        late: 2,
    });
    s.named(3, "dd");
    s.known_as(7, 3);
    let kept = ended(s);
    assert_eq!(kept.requests.len(), 1, "what nobody issued is left out");
    assert_eq!((kept.requests[0].number, kept.requests[0].steps), (5, [100, 200, 200, 200, 200, 300]));
    assert_eq!(kept.samples, [SampleRow { at: 50, tid: 7, pid: 1, cpu: 1, kernel: 2, user: 3 }]);
    assert_eq!((kept.operations[0].from, kept.operations[0].to, kept.operations[0].result), (100, 200, -5));
    assert_eq!((kept.names, kept.known), (vec![(3, "dd".into())], vec![(7, 3)]));
}
