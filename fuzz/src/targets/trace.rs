// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader on damaged files; model, profile and findings on events that contradict each other.

use crate::elements::{self, Element, Scratch, STATE, WAIT};
use crate::mutate::{self, number, pick, Random};
use plumb_analysis::hosts::{self, Recording};
use plumb_analysis::{Analysis, Pass, Wanted};
use plumb_model::views::{Filter, Groups, Spec, Viewer, VIEWS};
use plumb_model::{Category, RunResult};
use plumb_replay::graph::{self, Disk, Graph};
use plumb_replay::seen::{Records, Seen as Happened};
use plumb_report::run_directory::{self, Seen};
use plumb_report::terminal::screen::Screen;
use plumb_report::{document_files, upgrade};
use plumb_sim::queue::scheduler::Kind;
use plumb_sim::queue::simulation::MAX_BYTES;
use plumb_sim::queue::{Settings, Simulation};
use plumb_sim::spec::Spec as DiskSpec;
use plumb_sim::whatif;
use plumb_trace::reader::{Item, Operation, Trace};
use plumb_trace::schema::{TcpRead, TcpSegmentIn, TcpSegmentOut, TcpSegmentQueued};
use plumb_trace::Record;
use std::collections::BTreeMap;

/// Files of a trace, as elements of these numbers.
const FILES: [&str; 6] = ["cpu_0", "cpu_1", "state", "waits", "load_1_0", "metadata"];

thread_local! {
    static SCRATCH: Scratch = Scratch::new();
}

/// Whole files of the smaller traces.
pub fn files() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for dir in elements::traces() {
        let file = |(tag, name): (usize, &&str)| Some((tag as u8, std::fs::read(dir.join(*name)).ok()?));
        let all: Vec<Element> = FILES.iter().enumerate().filter_map(file).collect();
        if all.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 80 << 10 {
            out.push(elements::concat(&all));
        }
    }
    out
}

/// Changes bytes of a file, most often of the head of one of its packets.
pub fn spoil(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let (mut all, more) = (elements::parse(input), elements::parse(other));
    for _ in 0..=random.below(3) {
        let (Some(at), Some(from)) =
            ((!all.is_empty()).then(|| random.below(all.len() as u64) as usize), more.first())
        else {
            return;
        };
        let file = &mut all[at].1;
        let heads: Vec<usize> = file
            .windows(4)
            .enumerate()
            .filter(|(_, w)| *w == [0xc1, 0x1f, 0xfc, 0xc1])
            .map(|(i, _)| i)
            .collect();
        match random.below(4) {
            0 | 1 if !heads.is_empty() => {
                let head = *pick(&heads, random);
                let end = (head + 64).min(file.len());
                number(&mut file[head..end], random);
            }
            2 if !heads.is_empty() => {
                // Many packets, all damaged alike.
                let head = *pick(&heads, random);
                let block = file[head..(head + 128).min(file.len())].to_vec();
                (0..random.below(2000)).for_each(|_| file.extend(&block));
            }
            _ => mutate::bytes(file, &from.1, random),
        }
    }
    *input = elements::concat(&all);
}

/// Reads a trace of files.
pub fn read(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        for (i, name) in FILES.iter().enumerate() {
            let file = elements::parse(input).into_iter().find(|(tag, _)| usize::from(*tag) == i);
            scratch.write(name, &file.map(|(_, bytes)| bytes).unwrap_or_default());
        }
        let Ok(trace) = Trace::open(scratch.path()) else { return 0 };
        let mut last = 0;
        let summary = trace.for_each(|item| {
            let ts = match item {
                Item::Record(r) => r.ts,
                Item::Operation(Operation::Begin(e)) => e.ts,
                Item::Operation(Operation::End(e)) => e.ts,
                _ => return,
            };
            assert!(ts >= last, "time goes back");
            last = ts;
        });
        let Ok(summary) = summary else { return 1 };
        let mut damage: Vec<&str> = summary.damage.iter().map(|d| d.what.as_str()).collect();
        damage.sort_unstable();
        damage.dedup();
        let _ = summary.lost();
        crate::driver_hash(
            format!(
                "{damage:?} {} {}",
                summary.gaps.len().min(4),
                summary.records.checked_ilog2().unwrap_or(0)
            )
            .as_bytes(),
        )
    })
}

/// State and waits of every trace with few records.
pub fn states() -> Vec<Vec<u8>> {
    elements::windows(100)
}

pub fn windows() -> Vec<Vec<u8>> {
    elements::windows(600)
}

/// Changes only what the recorder told.
pub fn spoil_state(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let mut all = elements::parse(input);
    let told = |all: &[Element]| -> Vec<usize> {
        (0..all.len()).filter(|i| (STATE..=WAIT).contains(&all[*i].0)).collect()
    };
    let more = elements::parse(other);
    for _ in 0..=random.below(5) {
        let (places, others) = (told(&all), told(&more));
        if places.is_empty() || others.is_empty() {
            return;
        }
        let at = *pick(&places, random);
        let from = more[*pick(&others, random)].clone();
        match random.below(8) {
            0 => drop(all.remove(at)),
            1 => all.insert(at, from),
            2 => all.insert(at, all[at].clone()),
            3 => mutate::bytes(&mut all[at].1, &from.1, random),
            _ => number(all[at].1.get_mut(10..).unwrap_or_default(), random),
        }
    }
    *input = elements::concat(&all);
}

/// Analyzes a trace of elements; its account must be closed.
pub fn analyze(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        let Some(trace) = scratch.open(&elements::parse(input)) else { return 0 };
        let Ok((analysis, ())) = Analysis::read(&trace, ()) else { return 1 };
        closed(&analysis.result);
        for service in &analysis.result.services {
            closed(&service.result);
        }
        let spent: u64 = sum(analysis.result.processes.iter().map(|p| &p.thread_time));
        assert_eq!(
            sum(analysis.profile.entries.iter().map(|e| &e.time)),
            spent,
            "the profile is the account"
        );
        let _ = analysis.bounded();
        shape(&analysis)
    })
}

/// Whether the one of two hosts that has the lower addresses sees an event.
fn lower_sees(event: &Element) -> Option<bool> {
    let (tag, bytes) = event;
    let id = u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?);
    let higher = bytes.get(16)? & 1 == 1;
    match id {
        TcpSegmentOut::ID | TcpSegmentQueued::ID if *tag < STATE => Some(!higher),
        TcpSegmentIn::ID | TcpRead::ID if *tag < STATE => Some(higher),
        _ => None,
    }
}

/// Several recordings as one: those of two hosts, made of one of a machine that was both.
pub fn hosts(input: &[u8]) -> u64 {
    thread_local! {
        static OTHER: Scratch = Scratch::new();
    }
    SCRATCH.with(|scratch| {
        OTHER.with(|other| {
            let all = elements::parse(input);
            let half = |lower| {
                let sees = |e: &&Element| lower_sees(e).is_none_or(|sees| sees == lower);
                all.iter().filter(sees).cloned().collect::<Vec<_>>()
            };
            let (Some(low), Some(high)) = (scratch.open(&half(true)), other.open(&half(false))) else {
                return 0;
            };
            let both = [("low", &low), ("high", &high)].map(|(n, trace)| Recording { name: n.into(), trace });
            let (_, read) = hosts::read(&both, &[]);
            for row in &read.requests {
                let parts = row.parts.iter().fold(0u64, |sum, p| sum.saturating_add(p.time));
                assert!(parts <= row.time, "parts are of the whole: {row:?}");
            }
            for row in &read.commands {
                let parts = row.parts.iter().fold(0u64, |sum, p| sum.saturating_add(p.time));
                assert!(parts <= row.time && row.complete <= row.commands, "parts are of the whole: {row:?}");
            }
            let mut text = Vec::new();
            plumb_report::terminal::slowest(&read, &mut Screen::file(&mut text)).expect("memory");
            plumb_report::terminal::hosts(&read, &mut Screen::file(&mut text)).expect("memory");
            let rows: Vec<_> =
                read.requests.iter().map(|r| (r.incomplete > 0, r.again > 0, r.parts.len())).collect();
            let clocks: Vec<_> = read.clocks.iter().map(|c| c.pieces.min(3)).collect();
            let commands: Vec<_> = read
                .commands
                .iter()
                .map(|r| (&r.kind, r.incomplete > 0, r.on_device > 0, r.parts.len()))
                .collect();
            crate::driver_hash(format!("{rows:?} {commands:?} {clocks:?}").as_bytes())
        })
    })
}

/// Every view of a trace, with all of its tables.
pub fn view(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        let Some(trace) = scratch.open(&elements::parse(input)) else { return 0 };
        let viewer = |spec: &'static Spec| {
            Viewer::new(spec, &trace.state, Filter { to: u64::MAX, ..Filter::default() })
        };
        let mut viewers: Vec<(Viewer, Vec<Groups>)> = VIEWS
            .iter()
            .map(|spec| (viewer(spec), spec.tables.iter().map(|table| Groups::new(*table)).collect()))
            .collect();
        let read = trace.for_each(|item| {
            for (viewer, tables) in &mut viewers {
                viewer.feed(&item, &mut |sample, _| tables.iter_mut().for_each(|t| t.add(sample)));
            }
        });
        if read.is_err() {
            return 1;
        }
        let rows = viewers.iter().flat_map(|(_, tables)| tables).map(|t| t.rows().len().min(3));
        crate::driver_hash(format!("{:?}", rows.collect::<Vec<_>>()).as_bytes())
    })
}

/// The report of a trace: it is written, and reads as it was written.
pub fn report(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        if scratch.open(&elements::parse(input)).is_none() {
            return 0;
        }
        let Ok(seen) = Seen::of(scratch.path(), true) else { return 1 };
        let document = run_directory::document(scratch.path(), &seen, |seconds| seconds.to_string());
        let mut out = Vec::new();
        document_files::write_json(&document, &mut out).expect("memory");
        upgrade::parse(&out).expect("what is written can be read");
        shape(&seen.analysis)
    })
}

/// What the threads of a trace do again: as it was recorded, and with its busiest disk replaced.
pub fn again(input: &[u8]) -> u64 {
    SCRATCH.with(|scratch| {
        let Some(trace) = scratch.open(&elements::parse(input)) else { return 0 };
        let mut records = Records::of(trace.state.tasks.iter().map(|t| (t.tid, t.tgid)).collect());
        let read = Pass::over(&trace).wanted(Wanted::Account).read_with(Happened::default(), |item| {
            records.take(item);
            true
        });
        let Ok((analysis, seen)) = read else { return 1 };
        let threads = analysis.result.processes.iter().flat_map(|p| &p.threads);
        let threads = threads.map(|t| t.tid).filter(|tid| *tid != 0).collect();
        let targets = plumb_replay::graph::Targets { threads, until: u64::MAX };
        let disks = seen.disks(|_| true);
        let dev = disks.iter().max_by_key(|(_, n)| **n).map(|(dev, _)| *dev);
        let mut ends = Vec::new();
        for replaced in [false, true] {
            let disk = dev.map(|dev| Disk { dev, replaced, flushes: replaced });
            let Graph { mut recording, .. } = graph::of(&seen, &records, disk, &targets);
            let spec = DiskSpec::load("intel330", &[]).expect("a model of ours");
            let fits = |offset: u64, length: u32| offset.saturating_add(u64::from(length)) <= spec.size.0;
            for r in &mut recording.requests {
                r.simulated &= replaced && fits(r.recorded.offset, r.recorded.length);
            }
            let queue = || {
                let scheduler = Kind::named("noop", false).expect("a scheduler of ours");
                let settings = Settings { nr_requests: 64, max_bytes: MAX_BYTES, depth: 32 };
                Simulation::outside(spec.build(spec.size.0, 1).expect("a disk"), scheduler.build(0), settings)
            };
            let end = whatif::again(&recording, 2, 1.0, replaced.then(queue)).map(|o| o.end.checked_ilog2());
            ends.push((end.ok(), recording.threads.len().min(8), recording.requests.len().min(8)));
        }
        crate::driver_hash(format!("{ends:?}").as_bytes())
    })
}

/// An account at its limit is at its limit, and not a small number.
fn sum<'a>(times: impl Iterator<Item = &'a u64>) -> u64 {
    times.fold(0, |a, b| a.saturating_add(*b))
}

fn closed(result: &RunResult) {
    let length = result.end.saturating_sub(result.begin);
    let within = |account: &BTreeMap<Category, u64>, time: u64| {
        assert!(
            account.values().all(|ns| *ns <= time),
            "a part is longer than the whole: {account:?} of {time}"
        );
    };
    for p in &result.processes {
        assert_eq!(sum(p.account.values()), p.thread_time, "account of process {}", p.pid);
        assert!(p.elapsed <= length, "process {} took {} of {length}", p.pid, p.elapsed);
        for t in p.threads.iter().filter(|t| t.tid != 0) {
            assert_eq!(sum(t.account.values()), t.elapsed, "account of thread {}", t.tid);
            assert!(t.elapsed <= length, "thread {} took {} of {length}", t.tid, t.elapsed);
            within(&t.account, length);
        }
        for s in &p.syscalls {
            assert_eq!(sum(s.account.values()), s.total, "account of {}", s.name);
            assert!(s.max <= length, "{} took {} of {length}", s.name, s.max);
        }
        for o in &p.operations {
            assert_eq!(sum(o.account.values()), o.accounted, "account of {}", o.kind);
            assert!(o.overlapping || o.accounted == o.total, "{} is not accounted", o.kind);
        }
    }
    assert_eq!(sum(result.path.parts.iter().map(|p| &p.time)), result.path.time, "parts of the path");
    for c in &result.cpus {
        let parts = [c.busy, c.idle, c.interrupts, c.unseen, c.lost];
        assert_eq!(sum(parts.iter()), length, "CPU {} has {parts:?}", c.cpu);
    }
    for d in &result.devices {
        assert!(d.busy <= length, "{} was busy {} of {length}", d.name, d.busy);
    }
}

/// Which categories, contradictions and findings there are.
fn shape(analysis: &Analysis) -> u64 {
    let r = &analysis.result;
    let mut words: Vec<String> =
        r.processes.iter().flat_map(|p| p.account.keys()).map(|c| c.to_string()).collect();
    words.extend(r.impossible.keys().cloned());
    words.extend(analysis.diagnosis.findings.iter().map(|f| f.id.to_string()));
    words.extend(r.locks.iter().map(|l| l.kind.clone()));
    words.push(format!("{} {} {}", r.path.of, r.processes.len().min(8), r.devices.len().min(3)));
    words.sort();
    words.dedup();
    crate::driver_hash(words.join(" ").as_bytes())
}
