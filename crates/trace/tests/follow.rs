// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace that is read while it is written hands out what it does when it is whole, in the same order.

use plumb_trace::ctf::Metadata;
use plumb_trace::reader::{Following, Item, News, Published, Summary, Trace, Unordered};
use plumb_trace::schema::{SchedSwitch, StateEnd, StatePause, StateStack, StateTask, StateWaitStack};
use plumb_trace::writer::{DirectorySink, Sink, TraceWriter};
use plumb_trace::Record;
use std::path::Path;

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1000 * SECOND + 300_000_000;
const CPUS: u32 = 3;

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Tells what was published, one after the other.
struct Told(std::vec::IntoIter<Published>);

impl News for Told {
    fn next(&mut self) -> Option<Published> {
        self.0.next()
    }

    fn rest(&mut self) {}
}

/// Records of some seconds, with losses and the recorder's own words, and what was published meanwhile. `silent`: the
/// last CPU says nothing for so long before it loses events.
fn write(dir: &Path, random: &mut Random, silent: u64) -> Vec<Published> {
    let sink = DirectorySink::create(dir, &Metadata::default()).expect("directory");
    let mut w = TraceWriter::new(sink, CPUS, BEGIN - SECOND);
    let (mut now, mut published, mut drained) = (BEGIN - SECOND, Vec::new(), 0);
    let task = |tid| StateTask { tid, tgid: tid, comm: "t".into(), ..StateTask::default() };
    w.state(now, &task(1)).expect("state");
    w.state(BEGIN - 1000, &task(2)).expect("state");
    let mut quiet = now;
    while now < BEGIN + 9 * SECOND {
        let round = now;
        for _ in 0..random.below(400) {
            let cpu = random.below(CPUS.into()) as u32;
            now += random.below(4_000_000);
            if cpu == CPUS - 1 {
                if now < quiet {
                    continue;
                }
                if random.below(40) == 0 {
                    w.lost(cpu, 5).expect("lost");
                    now += 2_000_000;
                }
            }
            let e = SchedSwitch { ts: now, id: SchedSwitch::ID, tid: now as u32 & 7, ..Default::default() };
            w.record(cpu, e.bytes()).expect("record");
        }
        if silent > 0 && now > BEGIN + SECOND && quiet < BEGIN {
            w.flush().expect("flush");
            w.lost(CPUS - 1, 7).expect("lost");
            quiet = now + silent;
        }
        if silent == 0 && random.below(6) == 0 {
            let begin = now;
            now += 1 + random.below(900_000_000);
            w.state(now, &StatePause { begin, end: now }).expect("state");
            now += 1;
        }
        let stack = random.below(50) as u32;
        let text = StateStack { stack, text: "schedule".into(), ..StateStack::default() };
        w.state(now, &text).expect("state");
        w.wait(now, &StateWaitStack { end: round, waiter: 1, stack }).expect("wait");
        w.flush().expect("flush");
        published.push(Published { until: drained, sizes: w.sink().sizes(), last: false });
        drained = round;
    }
    w.state(now, &StateEnd { begin: BEGIN, end: now, ..StateEnd::default() }).expect("state");
    w.flush().expect("flush");
    published.push(Published { until: u64::MAX, sizes: w.sink().sizes(), last: true });
    published
}

fn seen(item: &Item<'_>) -> String {
    match item {
        Item::Record(r) => format!("{} {} {}", r.ts, r.cpu, r.tid),
        other => format!("{other:?}"),
    }
}

fn follow(dir: &Path, published: Vec<Published>) -> Result<(Vec<String>, Summary, usize), Unordered> {
    let mut items = Vec::new();
    let mut following = Following::open(dir, BEGIN)?;
    let end = following.follow(&mut Told(published.into_iter()), |item| items.push(seen(&item)))?;
    assert!(end.end.is_some(), "the whole state is known before the rest");
    let before = items.len();
    let (trace, summary) = following.rest(|item| items.push(seen(&item)))?;
    assert_eq!(trace.state.tasks.len(), 2);
    Ok((items, summary, before))
}

#[test]
fn what_grows_is_read_as_what_is_whole() {
    let mut pauses = 0;
    for seed in 0..30 {
        let mut random = Random(seed);
        let dir = tempfile::tempdir().expect("directory");
        let mut published = write(dir.path(), &mut random, 0);
        // A reader that is slow sees only some of the news.
        published.retain(|p| p.last || random.below(4) > 0);
        let (items, summary, before) = follow(dir.path(), published).expect("in order");
        let mut whole = Vec::new();
        let trace = Trace::open(dir.path()).expect("trace");
        let all = trace.for_each(|item| whole.push(seen(&item))).expect("readable");
        let first = items.iter().zip(&whole).position(|(a, b)| a != b);
        assert_eq!((first, items.len()), (None, whole.len()), "seed {seed}");
        assert_eq!((summary.records, summary.waits, &summary.gaps), (all.records, all.waits, &all.gaps));
        assert_eq!((summary.begin, summary.end), (all.begin, all.end));
        // Each pause is a gap of each CPU, and no loss.
        let gaps = items.iter().filter(|i| i.starts_with("Gap(") && i.ends_with("lost: 0 })")).count();
        assert_eq!(gaps, trace.state.pauses.len() * CPUS as usize, "seed {seed}");
        pauses += trace.state.pauses.len();
        assert!(before > items.len() / 3 && !summary.gaps.is_empty(), "{before} of {}", items.len());
    }
    assert!(pauses > 30, "{pauses}");
}

#[test]
fn events_lost_after_a_long_silence_are_an_error() {
    let dir = tempfile::tempdir().expect("directory");
    let published = write(dir.path(), &mut Random(1), 5 * SECOND);
    let result = follow(dir.path(), published).map(|(items, ..)| items.len());
    assert!(matches!(result, Err(Unordered::Late)), "{result:?}");
}

#[test]
fn who_reads_for_what_happens_now_knows_a_late_loss_from_now_on() {
    let dir = tempfile::tempdir().expect("directory");
    let published = write(dir.path(), &mut Random(1), 5 * SECOND);
    let (mut following, mut news) =
        (Following::near(dir.path(), BEGIN, SECOND / 2).expect("a trace"), Told(published.into_iter()));
    let (mut last, mut losses) = (0, 0);
    loop {
        let item = |item: Item<'_>| {
            let ts = match &item {
                Item::Record(r) => r.ts,
                Item::Gap(gap) => {
                    losses += u64::from(gap.lost == 7);
                    gap.begin
                }
                _ => return,
            };
            assert!(ts >= last, "{item:?} behind {last}");
            last = ts;
        };
        if following.step(&mut news, item).expect("no error").last {
            break;
        }
    }
    assert_eq!(losses, 1);
}

#[test]
fn a_writer_that_has_gone_and_a_workload_are_errors() {
    let dir = tempfile::tempdir().expect("directory");
    let mut published = write(dir.path(), &mut Random(2), 0);
    std::fs::write(dir.path().join("load_7_0"), "").expect("a file");
    let result = follow(dir.path(), published.clone()).map(|(items, ..)| items.len());
    assert!(matches!(result, Err(Unordered::Workload)), "{result:?}");
    published.pop();
    let result = follow(dir.path(), published).map(|(items, ..)| items.len());
    assert!(matches!(result, Err(Unordered::Gone)), "{result:?}");
}

#[test]
fn damage_in_what_the_recorder_told_is_told_once() {
    let dir = tempfile::tempdir().expect("directory");
    write(dir.path(), &mut Random(3), 0);
    for name in ["state", "waits"] {
        let path = dir.path().join(name);
        let length = std::fs::metadata(&path).expect(name).len();
        std::fs::File::options().write(true).open(&path).expect(name).set_len(length - 10).expect(name);
    }
    let trace = Trace::open(dir.path()).expect("trace");
    let summary = trace.for_each(|_| ()).expect("readable");
    let files: Vec<&str> = summary.damage.iter().map(|d| d.file.as_str()).collect();
    assert!(summary.records > 1000, "{}", summary.records);
    assert_eq!(files, ["state", "waits"]);
}
