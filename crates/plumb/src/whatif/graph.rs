// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a pass saw to what threads do again.
//!
//! Data flows: intervals -> parts (a thread's life; of a worker of the kernel each time that it had something to do) -> requests and
//! wakeups as places in the parts of those who made them -> each part's steps.

use super::read::{Done, Interval, Records, Seen};
use crate::sim::from;
use plumb_model::{Below, Cause, ThreadState};
use plumb_sim::device::{Ns, Operation};
use plumb_sim::queue::task::Recorded;
use plumb_sim::queue::{Class, Hints};
use plumb_sim::whatif::{Asked, Event, Recording, Step, Thread};
use plumb_trace::kernel::req;
use std::collections::{HashMap, HashSet};

/// A read or write of more bytes is taken for a damaged record.
const MOST_BYTES: u32 = 32 << 20;
/// So many times who serves a disk is looked for: who serves those who serve.
const ROUNDS: u32 = 16;

/// What would be otherwise with a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    pub dev: u32,
    /// Another one takes its place.
    pub replaced: bool,
    /// That one has a cache that a flush empties.
    pub flushes: bool,
}

/// What is done again, and what of it is not.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub recording: Recording,
    /// Time of the target's threads that is kept as it was, ns: nothing tells what ended it.
    pub kept: Ns,
    /// When the target began, and when it had done all that it did, ns from the recording's begin.
    pub begin: Ns,
    pub end: Ns,
    /// Flushes that the recorded disk was not asked for, since it had no cache, and that the other one is.
    pub flushes: usize,
}

/// What a thread does at a moment, on a CPU.
#[derive(Debug, Clone, Copy)]
enum Does {
    Ask(u32),
    Tell(u32),
    /// It asks for a request, and waits for it.
    Sync(u32),
}

/// A thread's life, or what a worker of the kernel did from one idle sleep to the next: what it does then has nothing to do
/// with what it did before.
#[derive(Debug)]
struct Part<'a> {
    tid: u32,
    intervals: &'a [Interval],
    /// Of each interval the last sleep until then that was not for a request.
    slept: Vec<Option<u32>>,
    /// The idle sleep that was before it.
    idle: Option<Interval>,
    does: Vec<(u64, Does)>,
    /// It takes no part: it serves a disk that another one replaces.
    out: bool,
}

impl Part<'_> {
    fn start(&self) -> u64 {
        self.intervals[0].start
    }

    fn end(&self) -> u64 {
        self.intervals[self.intervals.len() - 1].end
    }

    /// Whether it was awake already, for time had passed or for a third thread, when another went to sleep that it woke: then it was in the way,
    /// and that was chance. The end of its sleep.
    fn awake_by_itself(&self, tid: u32, other: &Interval) -> Option<u64> {
        let third = |i: &Interval| matches!(i.cause, Cause::Thread(by) if by != tid) && i.end < other.start;
        if let Some(idle) = self.idle.filter(third) {
            return Some(idle.end);
        }
        let before = self.intervals.partition_point(|i| i.end <= other.end);
        let last = self.slept[before.checked_sub(1)?]?;
        let last = &self.intervals[last as usize];
        (last.cause == Cause::Timer && last.end < other.start).then_some(last.end)
    }
}

/// All parts, in the order of threads and of time.
struct Parts<'a> {
    all: Vec<Part<'a>>,
    of: HashMap<u32, std::ops::Range<usize>>,
}

impl<'a> Parts<'a> {
    fn of(seen: &'a Seen, records: &Records) -> Self {
        let mut parts = Self { all: Vec::new(), of: HashMap::new() };
        let mut births: HashMap<u32, Vec<u64>> = HashMap::new();
        for (child, _, at) in &records.forks {
            births.entry(*child).or_default().push(*at);
        }
        for (tid, intervals) in &seen.threads {
            let first = parts.all.len();
            let mut from = 0;
            let mut idle = None;
            let mut births = births.remove(tid).unwrap_or_default().into_iter().peekable();
            for (n, i) in intervals.iter().enumerate() {
                if births.next_if(|at| i.start >= *at).is_some() {
                    // Its number was another thread's before.
                    parts.add(*tid, &intervals[from..n], idle);
                    (from, idle) = (n, None);
                }
                if i.state == ThreadState::Sleeping && records.idle.contains(&(*tid, i.start)) {
                    parts.add(*tid, &intervals[from..n], idle);
                    (from, idle) = (n + 1, Some(*i));
                }
            }
            parts.add(*tid, &intervals[from..], idle);
            parts.of.insert(*tid, first..parts.all.len());
        }
        parts
    }

    fn add(&mut self, tid: u32, intervals: &'a [Interval], idle: Option<Interval>) {
        if !intervals.is_empty() {
            let mut last = None;
            let slept = |(n, i): (usize, &Interval)| {
                if i.state == ThreadState::Sleeping && !matches!(i.cause, Cause::Request(_)) {
                    last = Some(n as u32);
                }
                last
            };
            let slept = intervals.iter().enumerate().map(slept).collect();
            self.all.push(Part { tid, intervals, slept, idle, does: Vec::new(), out: false });
        }
    }

    /// The part of a thread at a moment, or in an idle sleep the one behind it.
    fn at(&self, tid: u32, at: u64) -> Option<usize> {
        let range = self.of.get(&tid)?.clone();
        let place = self.all[range.clone()].partition_point(|p| p.end() < at);
        (!range.is_empty()).then(|| range.start + place.min(range.len() - 1))
    }

    /// The same, if it takes part.
    fn within(&self, tid: u32, at: u64) -> Option<usize> {
        self.at(tid, at).filter(|p| !self.all[*p].out)
    }

    /// Leaves out what is there only to serve a disk: processes that completed its requests, threads that such wake above all, and workers
    /// that wake or wait for such.
    fn leave_out(&mut self, dev: u32, seen: &Seen, records: &Records, targets: &HashSet<u32>) {
        let mut processes: HashSet<u32> = HashSet::new();
        for d in seen.done.iter().filter(|d| d.request.dev == dev) {
            if let Below::Thread(tid) = d.request.below {
                if let Some(part) = self.at(tid, d.request.c) {
                    self.all[part].out = true;
                }
                processes.extend(records.processes.get(&tid));
            }
        }
        for part in self.all.iter_mut().filter(|p| !targets.contains(&p.tid)) {
            part.out |= records.processes.get(&part.tid).is_some_and(|process| processes.contains(process));
        }
        let sleeps = |p: &Part<'_>| {
            let sleeps = p.intervals.iter().filter(|i| i.state == ThreadState::Sleeping);
            sleeps
                .filter_map(|i| if let Cause::Thread(by) = i.cause { Some((by, i.end)) } else { None })
                .collect()
        };
        let wakes: Vec<Vec<(u32, u64)>> = self.all.iter().map(sleeps).collect();
        for _ in 0..ROUNDS {
            let mut out: Vec<usize> = Vec::new();
            for (n, part) in self.all.iter().enumerate() {
                let by = |(tid, at): &(u32, u64)| self.at(*tid, *at);
                let served = wakes[n].iter().filter(|w| by(w).is_some_and(|by| self.all[by].out)).count();
                let worker = part.idle.is_some();
                let enough = if worker { served > 0 } else { 2 * served > wakes[n].len() };
                if !part.out && enough && !targets.contains(&part.tid) {
                    out.push(n);
                }
                if part.out && !worker {
                    // Workers that hand a request to a server.
                    let hands = wakes[n].iter().filter_map(by);
                    out.extend(hands.filter(|by| !self.all[*by].out && self.all[*by].idle.is_some()));
                }
            }
            if out.is_empty() {
                return;
            }
            out.iter().for_each(|n| self.all[*n].out = true);
        }
    }
}

/// Some CPU is idle: how long that was so until each moment.
struct IdleCpus(Vec<(u64, u64, bool)>);

impl IdleCpus {
    fn of(mut changes: Vec<(u64, i64)>) -> Self {
        changes.sort_unstable();
        let (mut idle, mut sum, mut since, mut out) = (0, 0, 0, Vec::with_capacity(changes.len()));
        for (at, change) in changes {
            if idle > 0 {
                sum += at - since;
            }
            (idle, since) = (idle + change, at);
            out.push((at, sum, idle > 0));
        }
        Self(out)
    }

    fn until(&self, at: u64) -> u64 {
        let place = self.0.partition_point(|(t, ..)| *t <= at);
        place.checked_sub(1).map_or(0, |p| self.0[p].1 + if self.0[p].2 { at - self.0[p].0 } else { 0 })
    }

    fn within(&self, from: u64, to: u64) -> u64 {
        self.until(to) - self.until(from)
    }
}

/// What the threads do again; `targets` end the run.
pub fn of(seen: &Seen, records: &Records, disk: Option<Disk>, targets: &HashSet<u32>) -> Graph {
    let idle_cpus = IdleCpus::of(seen.idle.clone());
    let mut parts = Parts::of(seen, records);
    if let Some(disk) = disk.filter(|d| d.replaced) {
        parts.leave_out(disk.dev, seen, records, targets);
    }
    let mut graph = Graph { begin: Ns::MAX, ..Graph::default() };
    let (number_of, writes) = requests(seen, disk, &mut parts, &mut graph);
    if let Some(disk) = disk {
        syncs(seen, records, disk, &mut parts, &mut graph);
    }
    // Of each event the part that lets it happen, and the end of the sleep for time that it comes after by chance.
    let mut events: Vec<(usize, Option<u64>)> = Vec::new();
    let mut event = |parts: &mut Parts<'_>, by: usize, at: u64, after: Option<u64>| {
        let number = events.len() as u32;
        parts.all[by].does.push((at, Does::Tell(number)));
        events.push((by, after));
        number
    };
    // What ends each sleep, by part and end.
    let mut ends: HashMap<(usize, u64), Step> = HashMap::new();
    for n in 0..parts.all.len() {
        let part = &parts.all[n];
        let (tid, intervals) = (part.tid, part.intervals.iter().chain(&part.idle));
        for i in
            intervals.filter(|i| i.state == ThreadState::Sleeping && !part.out).copied().collect::<Vec<_>>()
        {
            let step = match i.cause {
                _ if i.throttled => written(&writes, &i),
                Cause::Request(request) => {
                    let number = seen.numbers.get(&request).and_then(|place| number_of[*place]);
                    number.map(|number| Step::AwaitRequest(number, 0))
                }
                Cause::Thread(by) if by != tid => {
                    let by = parts.within(by, i.end);
                    by.map(|by| {
                        let after = parts.all[by].awake_by_itself(tid, &i);
                        Step::Await(event(&mut parts, by, i.end, after), 0)
                    })
                }
                _ => None,
            };
            if let Some(step) = step {
                ends.insert((n, i.end), step);
            }
        }
    }
    let mut born: HashMap<usize, u32> = HashMap::new();
    for (child, parent, at) in &records.forks {
        let first = parts.within(*child, *at).filter(|n| parts.all[*n].start() >= *at);
        if let (Some(child), Some(parent)) = (first, parts.within(*parent, *at)) {
            born.entry(child).or_insert_with(|| event(&mut parts, parent, *at, None));
        }
    }
    let mut thread_of = HashMap::new();
    let mut passes: HashMap<(usize, u64), u32> = HashMap::new();
    for (n, part) in parts.all.iter_mut().enumerate().filter(|(_, p)| !p.out) {
        part.does.sort_by_key(|(at, _)| *at);
        let target = targets.contains(&part.tid);
        let mut steps = Steps { steps: Vec::new(), does: &part.does, passes: Vec::new(), kept: 0 };
        match (born.get(&n), part.idle.and_then(|idle| ends.get(&(n, idle.end)))) {
            (Some(event), _) => steps.steps.push(Step::Await(*event, 0)),
            (None, Some(step)) => {
                steps.steps.push(*step);
                passes.extend(part.idle.map(|idle| ((n, idle.end), 0)));
            }
            (None, None) => steps.pass(part.intervals[0].start - seen.begin()),
        }
        for i in part.intervals {
            match i.state {
                ThreadState::Running => steps.ran(i.start, i.end),
                ThreadState::Sleeping if target && asleep(i, seen.end) => continue,
                ThreadState::Sleeping => {
                    // A sleep for time is no doubt.
                    let counts = target && i.cause != Cause::Timer && i.end < seen.end;
                    steps.slept(i, ends.get(&(n, i.end)), counts);
                }
                ThreadState::Runnable => steps.late(idle_cpus.within(i.start, i.end)),
                ThreadState::Lost => {
                    steps.kept += i.end - i.start;
                    steps.pass(i.end - i.start);
                }
            }
            if target {
                graph.end = graph.end.max(i.end - seen.begin());
                graph.begin = graph.begin.min(i.start - seen.begin());
            }
        }
        steps.until(u64::MAX);
        graph.kept += if target { steps.kept } else { 0 };
        passes.extend(steps.passes.iter().map(|(end, step)| ((n, *end), *step)));
        let steps = steps.steps;
        thread_of.insert(n, graph.recording.threads.len() as u32);
        graph.recording.threads.push(Thread { steps, target });
    }
    let only_after = |(by, after): &(usize, Option<u64>)| {
        let step = passes.get(&(*by, (*after)?))?;
        Some((*thread_of.get(by)?, *step))
    };
    graph.recording.events = events.iter().map(|e| Event { only_after: only_after(e) }).collect();
    graph
}

/// Puts the requests into the parts of those who queued them. Returns the number of each, and the ends of those that nobody waits for, in
/// their order.
fn requests(
    seen: &Seen,
    disk: Option<Disk>,
    parts: &mut Parts<'_>,
    graph: &mut Graph,
) -> (Vec<Option<u32>>, Vec<(u64, u32)>) {
    let mut order: Vec<usize> = (0..seen.done.len()).collect();
    order.sort_by_key(|i| seen.done[*i].request.q);
    let mut number_of = vec![None; seen.done.len()];
    let mut writes: Vec<(u64, u32)> = Vec::new();
    for i in order {
        let Done { request, end } = &seen.done[i];
        let asked = from::Asked {
            opf: request.flags,
            sector: request.sector,
            len: request.len,
            ioprio: request.ioprio,
        };
        let times = (request.q.saturating_sub(seen.begin()), end.saturating_sub(seen.begin()));
        let Some(recorded) = asked.recorded(request.owner, times.0, times.1) else { continue };
        if !is_sound(&recorded) {
            continue;
        }
        let Some(by) = parts.within(request.owner, request.q) else { continue };
        let number = graph.recording.requests.len() as u32;
        number_of[i] = Some(number);
        let simulated = disk.is_some_and(|d| d.dev == request.dev);
        graph.recording.requests.push(Asked { recorded, simulated });
        parts.all[by].does.push((request.q, Does::Ask(number)));
        if request.is_write() && request.opf & req::SYNC == 0 && request.moves_data() {
            writes.push((*end, number));
        }
    }
    writes.sort_unstable();
    (number_of, writes)
}

/// Whether it may be a request of the kernel's: a damaged record's length may be any.
fn is_sound(r: &Recorded) -> bool {
    let data = matches!(r.operation, Operation::Read | Operation::Write);
    r.offset.checked_add(u64::from(r.length)).is_some() && !(data && r.length > MOST_BYTES)
}

/// Flushes that a disk with a cache is asked for at the end of fsync(2) and its like, where the recorded one had none:
/// the kernel drops them before anything is seen of them (submit_bio_noacct()).
fn syncs(seen: &Seen, records: &Records, disk: Disk, parts: &mut Parts<'_>, graph: &mut Graph) {
    let had = |d: &&Done| {
        d.request.dev == disk.dev && (d.request.len == 0 || d.request.flags & (req::PREFLUSH | req::FUA) != 0)
    };
    if !disk.replaced || !disk.flushes || seen.done.iter().any(|d| had(&d)) {
        return;
    }
    let mut queued: Vec<u64> =
        seen.done.iter().filter(|d| d.request.dev == disk.dev).map(|d| d.request.q).collect();
    queued.sort_unstable();
    for (tid, since, at) in &records.synced {
        // Of calls on files elsewhere nothing was written here.
        if queued.partition_point(|q| q < since) == queued.partition_point(|q| q <= at) {
            continue;
        }
        let Some(by) = parts.within(*tid, *at) else { continue };
        let queued = at - seen.begin().min(*at);
        let recorded = Recorded {
            owner: *tid,
            operation: Operation::Flush,
            offset: 0,
            length: 0,
            fua: false,
            flush_before: false,
            class: Class::BestEffort,
            hints: Hints { direct: false, sync: true, meta: false },
            queued,
            ended: queued,
        };
        let number = graph.recording.requests.len() as u32;
        graph.recording.requests.push(Asked { recorded, simulated: true });
        parts.all[by].does.push((*at, Does::Sync(number)));
        graph.flushes += 1;
    }
}

/// What ended a sleep until dirty pages were written: the last write that had ended by then.
fn written(writes: &[(u64, u32)], i: &Interval) -> Option<Step> {
    let place = writes.partition_point(|(end, _)| *end <= i.end).checked_sub(1)?;
    (writes[place].0 >= i.start).then_some(Step::AwaitRequest(writes[place].1, 0))
}

/// Whether a thread sleeps when the recording ends: nothing was left to do.
fn asleep(i: &Interval, end: u64) -> bool {
    i.state == ThreadState::Sleeping && i.end == end && i.cause == Cause::Unknown
}

/// A part's steps as they are made.
struct Steps<'a> {
    steps: Vec<Step>,
    /// What it does, in the order of time, and has not done.
    does: &'a [(u64, Does)],
    /// Ends of sleeps that are a step, and which.
    passes: Vec<(u64, u32)>,
    kept: Ns,
}

impl Steps<'_> {
    fn work(&mut self, time: Ns) {
        match self.steps.last_mut() {
            Some(Step::Work(before)) => *before += time,
            _ if time > 0 => self.steps.push(Step::Work(time)),
            _ => {}
        }
    }

    fn pass(&mut self, time: Ns) {
        if time > 0 {
            self.steps.push(Step::Pass(time));
        }
    }

    /// Takes out the ticks before a wait that somebody ended: the thread looked again and again, as often as the wait was long.
    fn without_ticks(&mut self) {
        let quiet = self.steps.iter().rposition(|s| !matches!(s, Step::Pass(_) | Step::Work(_)));
        let from = quiet.map_or(0, |n| n + 1);
        let passes =
            self.steps[from..].iter().filter_map(|s| if let Step::Pass(t) = s { Some(*t) } else { None });
        let (count, least, most) =
            passes.fold((0, Ns::MAX, 0), |(n, least, most), t| (n + 1, t.min(least), t.max(most)));
        if count < 2 || most - least > least / 10 {
            return;
        }
        let work: Ns = self.steps[from..]
            .iter()
            .filter_map(|s| if let Step::Work(t) = s { Some(*t) } else { None })
            .sum();
        if work < count * least / 20 {
            self.steps.truncate(from);
            self.passes.retain(|(_, step)| (*step as usize) < from);
            self.work(work);
        }
    }

    /// Does what it did until then, none of it in this time.
    fn until(&mut self, at: u64) {
        self.ran(at, at);
    }

    /// It ran from `at` to `end`, and did what it did until then.
    fn ran(&mut self, mut at: u64, end: u64) {
        while let Some(((when, does), rest)) = self.does.split_first().filter(|((when, _), _)| *when <= end) {
            if *when > at {
                self.work(when - at);
                at = *when;
            }
            match does {
                Does::Ask(request) => self.steps.push(Step::Ask(*request)),
                Does::Tell(event) => self.steps.push(Step::Tell(*event)),
                Does::Sync(request) => {
                    self.steps.extend([Step::Ask(*request), Step::AwaitRequest(*request, 0)]);
                }
            }
            self.does = rest;
        }
        self.work(end - at);
    }

    fn slept(&mut self, i: &Interval, end: Option<&Step>, counts: bool) {
        self.until(i.start);
        match end {
            Some(step) => {
                if matches!(step, Step::Await(..)) {
                    self.without_ticks();
                }
                self.steps.push(*step);
            }
            None => {
                self.kept += if counts { i.end - i.start } else { 0 };
                self.passes.push((i.end, self.steps.len() as u32));
                self.pass(i.end - i.start);
            }
        }
    }

    /// It had to wait although a CPU was idle: so long it took to go on.
    fn late(&mut self, time: Ns) {
        match self.steps.last_mut() {
            Some(Step::Await(_, late) | Step::AwaitRequest(_, late)) => *late += time,
            Some(Step::Pass(before)) => *before += time,
            _ => {}
        }
    }
}
