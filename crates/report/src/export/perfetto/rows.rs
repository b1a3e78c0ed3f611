// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of a run on tracks: states of threads, wakeups, block requests, operations, samples.

use super::packets::{Arg, Event, Packets};
use super::proto;
use super::samples::Samples;
use crate::export::block;
use crate::stream::{Interval, OperationRow, RequestRow, SampleRow, Take, Wait};
use plumb_model::profile::Resolver;
use plumb_model::tasks::Tasks;
use plumb_model::Who;
use plumb_trace::kernel::req;
use plumb_trace::reader::State;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

/// What the pass over the records and the rows share.
pub struct Shared<W> {
    pub out: Packets<W>,
    pub tasks: Tasks,
}

/// Layers of a request between its six steps.
const LAYERS: [(&str, &str); 5] = [
    ("Q2G", "block.queue"),
    ("G2I", "block.plug"),
    ("flush first", "block.flush"),
    ("I2D", "block.schedule"),
    ("D2C", "block.device"),
];
/// Innermost functions of a wait's stack that are shown.
const FUNCTIONS: usize = 12;

/// Slices of one kind that overlap, spread over lanes so that those of a lane do not.
#[derive(Debug, Default)]
pub struct Lanes(Vec<u64>);

impl Lanes {
    /// A lane that is free from `from` on. Slices must come in the order of their ends.
    pub fn place(&mut self, from: u64, to: u64) -> u32 {
        // The one that was used last, so that few are needed.
        let free = self.0.iter().enumerate().filter(|(_, end)| **end <= from).max_by_key(|(_, end)| **end);
        let lane = free.map_or(self.0.len(), |(lane, _)| lane);
        if lane == self.0.len() {
            self.0.push(to);
        } else {
            self.0[lane] = to;
        }
        lane as u32
    }
}

/// The end of a wait, which the thread's next interval follows.
#[derive(Debug, Clone, Copy)]
struct Ended {
    wait: u64,
    waker: u32,
    at: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub intervals: u64,
    /// Waits that they are parts of.
    pub waits: u64,
    /// Wakeups with an arrow from the waker to the woken.
    pub wakeups: u64,
    pub requests: u64,
    pub operations: u64,
}

pub struct Rows<'a, W> {
    shared: Rc<RefCell<Shared<W>>>,
    state: &'a State,
    /// The run's, ns CLOCK_MONOTONIC.
    begin: u64,
    /// Whether states of threads can be told.
    account: bool,
    stacks: Resolver<'a>,
    names: Vec<String>,
    /// The wait of each thread that came last.
    waits: HashMap<u32, Wait>,
    ended: HashMap<u32, Ended>,
    /// Processes of the target's threads.
    pids: HashMap<u32, u32>,
    requests: HashMap<u32, Lanes>,
    operations: HashMap<(u32, u32), Lanes>,
    pub samples: Samples,
    pub counts: Counts,
}

impl<'a, W: Write> Rows<'a, W> {
    pub fn new(shared: Rc<RefCell<Shared<W>>>, state: &'a State, begin: u64, account: bool) -> Self {
        Self {
            shared,
            state,
            begin,
            account,
            stacks: Resolver::new(state),
            names: Vec::new(),
            waits: HashMap::new(),
            ended: HashMap::new(),
            pids: HashMap::new(),
            requests: HashMap::new(),
            operations: HashMap::new(),
            samples: Samples::default(),
            counts: Counts::default(),
        }
    }

    fn who(&self, who: Who) -> Option<String> {
        match who {
            Who::Nobody => None,
            Who::Name(number) => self.names.get(number as usize).filter(|n| !n.is_empty()).cloned(),
            Who::Disk(dev) => Some(block::disk(self.state, dev)),
        }
    }

    /// The innermost functions of a wait's kernel stack; none where it was not taken.
    fn stack(&mut self, number: u32) -> Option<String> {
        let place = self.stacks.wait(number, 0);
        let frames = self.stacks.frames_at(place);
        let name = |place: u32| self.stacks.function_at(place).map_or("", |f| f.name.as_str());
        let names: Vec<&str> = frames.iter().take(FUNCTIONS).map(|f| name(f.function)).collect();
        (!names.is_empty()).then(|| names.join(" < "))
    }

    /// An arrow from who woke a thread to what it did next; its number where there is one.
    fn wakeup(&mut self, i: &Interval) -> Option<u64> {
        let ended = self.ended.remove(&i.tid).filter(|e| e.waker != 0 && e.at == i.from)?;
        let shared = &mut *self.shared.borrow_mut();
        // Without its process there is no track that it could be on.
        let pid = self
            .pids
            .get(&ended.waker)
            .copied()
            .or_else(|| Some(shared.tasks.tgid(ended.waker)))
            .filter(|pid| *pid != 0)?;
        let at = self.begin + i.from;
        let thread = shared.out.thread(at, pid, ended.waker);
        let track = shared.out.below(at, thread, "plumb: wakeups", 0);
        let mut args = vec![("wakee", Arg::Uint(i.tid.into()))];
        if let Some(name) = self.names.get(i.name as usize) {
            args.push(("wakee_name", Arg::Word(name.clone())));
        }
        shared.out.event(
            at,
            Event {
                track,
                kind: proto::INSTANT,
                name: "wakes",
                category: "wakeup",
                args,
                flow: Some(ended.wait),
                ..Event::default()
            },
        );
        self.counts.wakeups += 1;
        Some(ended.wait)
    }
}

impl<W: Write> Take for Rows<'_, W> {
    fn name(&mut self, number: u32, name: &str) {
        let number = number as usize;
        if self.names.len() <= number {
            self.names.resize(number + 1, String::new());
        }
        self.names[number] = name.into();
    }

    fn wait(&mut self, wait: &Wait) {
        if !self.account {
            return;
        }
        self.waits.insert(wait.tid, *wait);
        self.counts.waits += 1;
    }

    fn interval(&mut self, i: &Interval) {
        if !self.account {
            return;
        }
        self.pids.insert(i.tid, i.pid);
        let mut args = Vec::new();
        let mut ends = None;
        if let Some(who) = self.who(i.who) {
            args.push(("who", Arg::Word(who)));
        }
        if i.time != i.to - i.from {
            args.push(("account_ns", Arg::Uint(i.time)));
        }
        if i.wait == 0 {
            ends = self.wakeup(i);
        } else {
            args.push(("wait", Arg::Uint(i.wait)));
            let wait = self.waits.get(&i.tid).copied().filter(|w| w.number == i.wait);
            let waker = wait.map_or(0, |w| w.waker);
            if waker != 0 {
                args.push(("waker", Arg::Uint(waker.into())));
            }
            if let Some(stack) = wait.filter(|w| w.stack != 0).and_then(|w| self.stack(w.stack)) {
                args.push(("stack", Arg::Word(stack)));
            }
            self.ended.insert(i.tid, Ended { wait: i.wait, waker, at: i.to });
        }
        if i.request != 0 {
            args.push(("request", Arg::Uint(i.request)));
        }
        let out = &mut self.shared.borrow_mut().out;
        let (from, to) = (self.begin + i.from, self.begin + i.to);
        let thread = out.thread(from, i.pid, i.tid);
        let track = out.below(from, thread, "plumb: state", 0);
        let name = i.category.name();
        let event = Event { track, name, category: "state", args, ends, ..Event::default() };
        out.slice(from, to, event);
        self.counts.intervals += 1;
    }

    fn request(&mut self, row: &RequestRow) {
        let r = &row.request;
        let steps = row.steps.map(|at| self.begin + at);
        let (from, to) = (steps[0], steps[5]);
        let lane = self.requests.entry(r.dev).or_default().place(from, to);
        let disk = block::disk(self.state, r.dev);
        let shared = &mut *self.shared.borrow_mut();
        let mut args = vec![
            ("number", Arg::Uint(row.number)),
            ("bytes", Arg::Uint(r.len.into())),
            ("rwbs", Arg::Word(block::rwbs(r.opf))),
            ("depth", Arg::Uint(r.depth.into())),
        ];
        // A flush has no place, nor has an empty write; sector 0 is one.
        if r.len > 0 {
            args.push(("sector", Arg::Uint(r.sector)));
        }
        if r.owner != 0 {
            args.push(("owner", Arg::Uint(r.owner.into())));
            let name = shared.tasks.comm(r.owner);
            if !name.is_empty() {
                args.push(("owner_name", Arg::Word(name.into())));
            }
        }
        let out = &mut shared.out;
        let device = out.top(from, &format!("Disk {disk}"));
        let track = out.below(from, device, &format!("{disk} requests"), lane);
        let name = req::word_of(r.opf, r.len);
        let event =
            Event { track, kind: proto::SLICE_BEGIN, name, category: "request", args, ..Event::default() };
        out.event(from, event);
        for (n, (name, category)) in LAYERS.into_iter().enumerate() {
            if steps[n + 1] > steps[n] {
                let args = vec![("category", Arg::Word(category.into()))];
                let event = Event { track, name, category: "layer", args, ..Event::default() };
                out.slice(steps[n], steps[n + 1], event);
            }
        }
        out.end(to, track);
        self.counts.requests += 1;
    }

    fn sample(&mut self, row: &SampleRow) {
        let out = &mut self.shared.borrow_mut().out;
        self.samples.sample(self.begin + row.at, row, &mut self.stacks, out);
    }

    fn operation(&mut self, row: &OperationRow) {
        let lane = self.operations.entry((row.pid, row.tid)).or_default().place(row.from, row.to);
        let out = &mut self.shared.borrow_mut().out;
        let (from, to) = (self.begin + row.from, self.begin + row.to);
        let thread = out.thread(from, row.pid, row.tid);
        let track = out.below(from, thread, "plumb: operations", lane);
        let mut args = vec![("result", Arg::Int(row.result))];
        if row.late != 0 {
            args.push(("late_us", Arg::Uint(row.late.into())));
        }
        let event = Event { track, name: row.kind.word(), category: "operation", args, ..Event::default() };
        out.slice(from, to, event);
        self.counts.operations += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn slices_that_overlap_have_lanes_of_their_own() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.place(0, 10), 0);
        assert_eq!(lanes.place(5, 12), 1);
        assert_eq!(lanes.place(10, 13), 0, "one ends as the next begins");
        assert_eq!(lanes.place(12, 14), 1);
        assert_eq!(lanes.place(1, 20), 2);
    }
}
