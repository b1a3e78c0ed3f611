// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a pass saw to what threads do again.
//!
//! Data flows: intervals -> [`crate::parts`] -> requests and wakeups as places in the parts of those who made them -> each part's steps.

use crate::parts::{Does, Parts};
use crate::seen::{Done, Interval, Records, Seen};
use plumb_model::{Cause, ThreadState};
use plumb_sim::device::{Ns, Operation};
use plumb_sim::queue::task::Recorded;
use plumb_sim::queue::{Class, Hints};
use plumb_sim::whatif::{Asked, Event, Recording, Step, Thread};
use plumb_trace::kernel::req;
use std::collections::{HashMap, HashSet};

/// A read or write of more bytes is taken for a damaged record.
const MOST_BYTES: u32 = 32 << 20;

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

/// Whose work is looked at: the run ends with its last.
#[derive(Debug, Clone)]
pub struct Targets {
    pub threads: HashSet<u32>,
    /// What they did from this moment on is not looked at; `u64::MAX`: they are looked at to their end.
    pub until: u64,
}

/// What the threads do again.
pub fn of(seen: &Seen, records: &Records, disk: Option<Disk>, whose: &Targets) -> Graph {
    let targets = &whose.threads;
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
    let mut events: Vec<Happening> = Vec::new();
    // What ends each sleep, by part and end.
    let mut ends: HashMap<(usize, u64), Step> = HashMap::new();
    for n in 0..parts.all.len() {
        let part = &parts.all[n];
        let (tid, intervals) = (part.tid, part.intervals.iter().chain(&part.idle));
        let idle = part.idle.map(|idle| idle.end);
        for i in
            intervals.filter(|i| i.state == ThreadState::Sleeping && !part.out).copied().collect::<Vec<_>>()
        {
            let step = match i.cause {
                _ if i.throttled => written(&writes, &i),
                Cause::Request(request) => {
                    let number = seen.numbers.get(&request).and_then(|place| number_of[*place]);
                    let after = number.map_or_else(Vec::new, |number| {
                        let asked = &graph.recording.requests[number as usize].recorded;
                        let at = asked.queued + seen.begin();
                        // What a worker of the kernel writes for somebody, that one would have written itself.
                        let of_worker = |by: &usize| parts.all[*by].idle.is_some();
                        let other = parts
                            .within(asked.owner, at)
                            .filter(|by| asked.owner != tid && idle != Some(i.end) && !of_worker(by));
                        other.map_or_else(Vec::new, |by| parts.over(by, at, tid, &i))
                    });
                    match number {
                        Some(number) if !after.is_empty() => {
                            events.push((Some(number), after));
                            Some(Step::Await(events.len() as u32 - 1, 0))
                        }
                        number => number.map(|number| Step::AwaitRequest(number, 0)),
                    }
                }
                Cause::Thread(by) if by != tid => {
                    let by = parts.within(by, i.end);
                    by.map(|by| {
                        // From an idle sleep a worker goes on when there is something to do, never without.
                        let after =
                            if idle == Some(i.end) { Vec::new() } else { parts.over(by, i.end, tid, &i) };
                        Step::Await(tell(&mut events, &mut parts, by, i.end, after), 0)
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
            born.entry(child).or_insert_with(|| tell(&mut events, &mut parts, parent, *at, Vec::new()));
        }
    }
    let afters: HashSet<(usize, u64)> = events.iter().flat_map(|(_, after)| after).copied().collect();
    let mut thread_of = HashMap::new();
    let mut step_of: HashMap<(usize, u64), u32> = HashMap::new();
    for (n, part) in parts.all.iter_mut().enumerate().filter(|(_, p)| !p.out) {
        part.does.sort_by_key(|(at, _)| *at);
        let target = targets.contains(&part.tid) && part.start() < whose.until;
        let until = if target { whose.until } else { u64::MAX };
        let mut steps = Steps { steps: Vec::new(), does: &part.does, passes: Vec::new(), kept: 0 };
        match (born.get(&n), part.idle.and_then(|idle| ends.get(&(n, idle.end)))) {
            (Some(event), _) => steps.steps.push(Step::Await(*event, 0)),
            (None, Some(step)) => steps.steps.push(*step),
            (None, None) => steps.pass(part.intervals[0].start - seen.begin()),
        }
        let begun = (part.idle.map_or(part.start(), |idle| idle.end), 0);
        for i in part.intervals.iter().filter(|i| i.start < until) {
            let end = i.end.min(until);
            match i.state {
                ThreadState::Running => steps.ran(i.start, end),
                ThreadState::Sleeping if target && (end < i.end || asleep(i, seen.end)) => continue,
                ThreadState::Sleeping => {
                    // A sleep for time is no doubt.
                    let counts = target && i.cause != Cause::Timer && i.end < seen.end;
                    steps.slept(i, ends.get(&(n, i.end)), counts);
                }
                ThreadState::Runnable => steps.late(idle_cpus.within(i.start, end)),
                ThreadState::Lost => {
                    steps.kept += end - i.start;
                    steps.pass(end - i.start);
                }
            }
            if target {
                graph.end = graph.end.max(end - seen.begin());
                graph.begin = graph.begin.min(i.start - seen.begin());
            }
        }
        steps.until(u64::MAX);
        graph.kept += if target { steps.kept } else { 0 };
        let ends = std::iter::once(begun).chain(steps.passes).map(|(end, step)| ((n, end), step));
        step_of.extend(ends.filter(|(end, _)| afters.contains(end)));
        let steps = steps.steps;
        thread_of.insert(n, graph.recording.threads.len() as u32);
        graph.recording.threads.push(Thread { steps, target });
    }
    let step = |end: &(usize, u64)| Some((*thread_of.get(&end.0)?, *step_of.get(end)?));
    let only_after = |ends: &Vec<(usize, u64)>| ends.iter().filter_map(step).collect();
    let event = |(request, after): &Happening| Event { request: *request, only_after: only_after(after) };
    graph.recording.events = events.iter().map(event).collect();
    graph
}

/// A request that the event is the end of, and what it comes after by chance: parts, and ends of their sleeps.
type Happening = (Option<u32>, Vec<(usize, u64)>);

/// Lets a part tell of a new event at a moment; its number.
fn tell(
    events: &mut Vec<Happening>,
    parts: &mut Parts<'_>,
    by: usize,
    at: u64,
    after: Vec<(usize, u64)>,
) -> u32 {
    let number = events.len() as u32;
    parts.all[by].does.push((at, Does::Tell(number)));
    events.push((None, after));
    number
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
        let asked = crate::requests::Asked {
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
    // What was written past the page cache (O_DIRECT) was queued before the call.
    let process = |tid: &u32| *records.processes.get(tid).unwrap_or(tid);
    let mut direct: HashMap<u32, Vec<u64>> = HashMap::new();
    for d in seen.done.iter().filter(|d| d.request.dev == disk.dev && d.request.is_write()) {
        direct.entry(process(&d.request.owner)).or_default().push(d.request.q);
    }
    direct.values_mut().for_each(|all| all.sort_unstable());
    let among = |all: &[u64], from: u64, to: u64| {
        all.partition_point(|q| *q < from) < all.partition_point(|q| *q <= to)
    };
    let mut before: HashMap<u32, u64> = HashMap::new();
    for (tid, since, at) in &records.synced {
        let whose = process(tid);
        let last = before.insert(whose, *at).unwrap_or(0);
        let own = direct.get(&whose).is_some_and(|all| among(all, last, *at));
        // Of calls on files elsewhere nothing was written here.
        if !own && !among(&queued, *since, *at) {
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
    /// Ends of sleeps, and which step each is.
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
                if matches!(i.cause, Cause::Thread(_)) {
                    self.without_ticks();
                }
                self.passes.push((i.end, self.steps.len() as u32));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_the_end_is_not_looked_at() {
        let at = |start, end, state, cause| Interval { start, end, state, cause, throttled: false };
        let ran = |start, end| at(start, end, ThreadState::Running, Cause::Unknown);
        let mut seen = Seen::default();
        seen.end = 130;
        let timer = at(10, 100, ThreadState::Sleeping, Cause::Timer);
        seen.threads.insert(1, vec![ran(0, 10), timer, ran(100, 130)]);
        // The first thread kills the second one, which waits until then.
        let killed = at(80, 110, ThreadState::Sleeping, Cause::Thread(1));
        seen.threads.insert(2, vec![ran(0, 80), killed, ran(110, 120)]);
        let threads = HashSet::from([2]);
        let of = |until| of(&seen, &Records::default(), None, &Targets { threads: threads.clone(), until });
        assert_eq!((of(u64::MAX).end, of(100).end), (120, 80));
        let mine = of(100).recording.threads.into_iter().find(|t| t.target).expect("a target");
        assert_eq!(mine.steps, [Step::Work(80)]);
    }
}
