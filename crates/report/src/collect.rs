// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timeline, requests and operations of the document, made of a run's rows as they pass by.

mod depth;
mod heat;
mod keep;
mod lanes;
mod requests;

use crate::document::{Lane as LaneRow, Operations, Requests, Sampled, Timeline};
use crate::pack::Table;
use crate::stream::{CpuInterval, Interval, OperationRow, RequestRow, Take, Wait};
use anyhow::Result;
use depth::Depths;
use heat::Maps;
use keep::Keep;
use lanes::{Cell, Key, Lane, Lanes, Limits, Part, Sleep, Whose};
use plumb_model::{CpuState, RunResult, Who};
use plumb_trace::kernel::req;
use plumb_trace::load::OperationKind;
use plumb_trace::reader::State;
use plumb_trace::units;
use requests::{requests, Asked};
use std::collections::{HashMap, VecDeque};

/// Intervals, threads, requests and operations in a document. They take some 2 MB of a
/// page, which is drawn without a wait.
const MOST: Most =
    Most { lanes: Limits { cells: 160_000, lanes: 4_000 }, requests: 40_000, operations: 40_000 };

#[derive(Debug, Clone, Copy)]
struct Most {
    lanes: Limits,
    requests: usize,
    operations: usize,
}

#[derive(Debug)]
pub struct Collect {
    names: Vec<String>,
    /// Names of threads by number and one; a thread that nothing named is not in it.
    known_as: HashMap<u32, u32>,
    lanes: Lanes,
    /// Waits of a thread whose intervals are still to come.
    waits: HashMap<u32, VecDeque<Wait>>,
    requests: Keep<Asked>,
    heat: Maps,
    depths: Depths,
    operations: Keep<OperationRow>,
}

/// The parts of a document that are made of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// What threads and CPUs did when.
    pub timeline: Timeline,
    pub requests: Requests,
    /// Operations that workloads told of themselves.
    pub operations: Operations,
}

impl Default for Collect {
    fn default() -> Self {
        Self::within(MOST)
    }
}

impl Collect {
    fn within(most: Most) -> Self {
        Self {
            names: Vec::new(),
            known_as: HashMap::new(),
            lanes: Lanes::new(most.lanes),
            waits: HashMap::new(),
            requests: Keep::new(most.requests),
            heat: Maps::default(),
            depths: Depths::default(),
            operations: Keep::new(most.operations),
        }
    }

    /// Number of a thread's name and one; 0 where nothing told it.
    fn name_of(&self, tid: u32) -> u32 {
        self.known_as.get(&tid).copied().unwrap_or(0)
    }

    /// The wait that an interval is a part of.
    fn sleep(&mut self, i: &Interval) -> Sleep {
        let Some(waits) = self.waits.get_mut(&i.tid).filter(|_| i.wait != 0) else {
            return Sleep::default();
        };
        // Earlier ones have had all of their intervals.
        while waits.front().is_some_and(|w| w.number < i.wait) {
            waits.pop_front();
        }
        let Some(wait) = waits.front().copied().filter(|w| w.number == i.wait) else {
            return Sleep::default();
        };
        let waker_name = self.name_of(wait.waker);
        Sleep { number: wait.number, stack: wait.stack, waker: wait.waker, waker_name }
    }

    /// The document's parts; names of processes come from the result, of disks and functions from
    /// the trace's state.
    ///
    /// # Errors
    /// The compressor's.
    pub fn finish(mut self, result: &RunResult, state: &State) -> Result<Collected> {
        let lanes = self.lanes.finish();
        let sampled = self.sampled(lanes.iter().map(|l| l.cells.len() as u64).sum());
        let lane_of = LaneIndex::new(&lanes);
        let disk = |dev: u32| {
            let disk = state.disks.iter().find(|d| d.dev == dev);
            disk.map_or_else(|| units::device(dev), |d| d.name.clone())
        };
        let names = &self.names;
        let name = |place: u32| (place as usize).checked_sub(1).and_then(|n| names.get(n));
        let (mut requests, rows) = requests(self.requests, &lane_of, &disk, &name)?;
        requests.heat = self.heat.finish(disk);
        requests.depth = self.depths.finish(disk);
        let operations = operations(self.operations, &lane_of)?;

        let mut whos = Texts::default();
        let mut stacks = Stacks::new(state);
        let mut intervals =
            Table::new(&["gap", "length", "state", "who", "wait", "request", "merged", "interrupted"]);
        let mut waits = Table::new(&["stack", "waker", "waker_name"]);
        let mut shown = Vec::new();
        for lane in &lanes {
            let first = intervals.rows();
            let (mut upto, mut last) = (0, (0, 0));
            for cell in &lane.cells {
                let main = &cell.main;
                let who = match main.whose {
                    Whose::Who(Who::Nobody) => 0,
                    Whose::Who(Who::Name(n)) => whos.place(names.get(n as usize).map_or("", String::as_str)),
                    Whose::Who(Who::Disk(dev)) => whos.place(&disk(dev)),
                    Whose::Unnamed(tid) => whos.place(&unnamed(tid)),
                };
                let sleep = &main.sleep;
                // A wait's intervals follow each other.
                if sleep.number != 0 && sleep.number != last.0 {
                    let waker_name = match (sleep.waker, name(sleep.waker_name)) {
                        (0, _) => 0,
                        (_, Some(name)) => whos.place(name),
                        (tid, None) => whos.place(&unnamed(tid)),
                    };
                    let waker = lane_of.at(sleep.waker, (cell.from, cell.to));
                    waits.push(&[stacks.place(sleep.stack), waker, waker_name]);
                    last = (sleep.number, waits.rows());
                }
                intervals.push(&[
                    cell.from - upto,
                    cell.to - cell.from,
                    main.state.into(),
                    who,
                    if sleep.number == 0 { 0 } else { last.1 },
                    rows.get(&main.request).copied().unwrap_or(0),
                    cell.merged,
                    cell.interrupted,
                ]);
                upto = cell.to;
            }
            shown.push(lane_row(lane, result, names, (first, intervals.rows() - first)));
        }
        let timeline = Timeline {
            length: result.end.saturating_sub(result.begin),
            lanes: shown,
            whos: whos.all,
            stacks: stacks.all,
            intervals: intervals.pack()?,
            waits: waits.pack()?,
            sampled,
        };
        Ok(Collected { timeline, requests, operations })
    }

    /// What of the intervals is shown, and why not all are.
    fn sampled(&self, shown: u64) -> Sampled {
        let mut how = Vec::new();
        if self.lanes.shortest > 0 {
            how.push(format!(
                "neighbours shorter than {} were put together under the state of most time",
                units::duration(self.lanes.shortest)
            ));
        }
        let (threads, longest, _) = self.lanes.left_out;
        if threads > 0 {
            how.push(format!(
                "{} threads of at most {} are left out",
                units::count(threads),
                units::duration(longest)
            ));
        }
        Sampled { seen: self.lanes.seen, shown, how: how.join("; ") }
    }
}

fn unnamed(tid: u32) -> String {
    format!("thread {tid}")
}

fn lane_row(lane: &Lane, result: &RunResult, names: &[String], (first, rows): (u64, u64)) -> LaneRow {
    match lane.key {
        Key::Cpu(cpu) => LaneRow {
            kind: "cpu".into(),
            id: cpu,
            name: format!("CPU {cpu}"),
            first,
            rows,
            ..LaneRow::default()
        },
        Key::Thread(pid, tid) => {
            let process = result.processes.iter().find(|p| p.pid == pid);
            LaneRow {
                kind: "thread".into(),
                id: tid,
                pid,
                name: names.get(lane.name as usize).cloned().unwrap_or_default(),
                process: process.map(|p| p.comm.clone()).unwrap_or_default(),
                first,
                rows,
            }
        }
    }
}

struct LaneIndex(HashMap<u32, Vec<(u64, u64, u64)>>);

impl LaneIndex {
    fn new(lanes: &[Lane]) -> Self {
        let mut index: HashMap<u32, Vec<(u64, u64, u64)>> = HashMap::new();
        for (at, lane) in lanes.iter().enumerate() {
            if let (Key::Thread(_, tid), Some(first), Some(last)) =
                (lane.key, lane.cells.first(), lane.cells.last())
            {
                index.entry(tid).or_default().push((first.from, last.to, at as u64));
            }
        }
        Self(index)
    }

    /// Place of a thread's lane and one; 0 where it has none in that time. An id may be used again.
    fn at(&self, tid: u32, (from, to): (u64, u64)) -> u64 {
        let of = self.0.get(&tid).into_iter().flatten();
        of.filter(|(first, last, _)| *first <= to && *last >= from)
            .map(|(_, _, at)| at + 1)
            .next()
            .unwrap_or(0)
    }
}

/// Texts, each once; the first is empty.
#[derive(Debug)]
struct Texts {
    all: Vec<String>,
    places: HashMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { all: vec![String::new()], places: HashMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as u64;
        self.all.push(text.into());
        self.places.insert(text.into(), place);
        place
    }
}

/// Kernel stacks by the trace's number.
struct Stacks<'a> {
    told: HashMap<u32, &'a str>,
    all: Vec<Vec<String>>,
    places: HashMap<u32, u64>,
}

impl<'a> Stacks<'a> {
    fn new(state: &'a State) -> Self {
        let told = state.stacks.iter().filter(|s| s.user == 0).map(|s| (s.stack, s.text.as_str()));
        Self { told: told.collect(), all: vec![Vec::new()], places: HashMap::new() }
    }

    fn place(&mut self, number: u32) -> u64 {
        let Some(text) = self.told.get(&number).filter(|t| number != 0 && !t.is_empty()) else { return 0 };
        *self.places.entry(number).or_insert_with(|| {
            self.all.push(text.split(';').map(String::from).collect());
            self.all.len() as u64 - 1
        })
    }
}

fn operations(kept: Keep<OperationRow>, lane_of: &LaneIndex) -> Result<Operations> {
    let (mut rows, sampled) = kept.finish("operations");
    rows.sort_by_key(|(o, _)| o.from);
    let mut table = Table::new(&["begin", "length", "kind", "lane", "bytes", "failed", "late", "slow"]);
    let (mut kinds, mut at) = (Vec::<OperationKind>::new(), 0);
    for (o, slow) in &rows {
        let kind = kinds.iter().position(|k| *k == o.kind).unwrap_or_else(|| {
            kinds.push(o.kind);
            kinds.len() - 1
        });
        let (bytes, failed) = if o.result < 0 { (0, o.result.unsigned_abs()) } else { (o.result as u64, 0) };
        table.push(&[
            o.from - at,
            o.to.saturating_sub(o.from),
            kind as u64,
            lane_of.at(o.tid, (o.from, o.to)),
            bytes,
            failed,
            o.late.into(),
            (*slow).into(),
        ]);
        at = o.from;
    }
    let kinds = kinds.iter().map(ToString::to_string).collect();
    Ok(Operations { kinds, table: table.pack()?, sampled })
}

impl Take for Collect {
    fn name(&mut self, number: u32, name: &str) {
        // Numbers rise one by one.
        self.names.resize_with((number as usize + 1).max(self.names.len()), String::new);
        self.names[number as usize] = name.into();
    }

    fn known_as(&mut self, tid: u32, name: u32) {
        if self.names.get(name as usize).is_some_and(|n| !n.is_empty()) {
            self.known_as.insert(tid, name + 1);
        }
    }

    fn wait(&mut self, wait: &Wait) {
        self.waits.entry(wait.tid).or_default().push_back(*wait);
    }

    fn interval(&mut self, i: &Interval) {
        let sleep = self.sleep(i);
        let length = i.to.saturating_sub(i.from);
        let part = Part {
            state: i.category as u8,
            whose: Whose::Who(i.who),
            time: length,
            longest: length,
            sleep,
            request: i.request,
        };
        let cell = Cell::new(i.from, i.to, length.saturating_sub(i.time), part);
        self.lanes.add(Key::Thread(i.pid, i.tid), i.name, cell);
    }

    fn cpu(&mut self, c: &CpuInterval) {
        let nobody = Whose::Who(Who::Nobody);
        let (state, whose) = match c.state {
            CpuState::Idle => (0, nobody),
            CpuState::Busy(tid) => match self.name_of(tid) {
                0 => (1, Whose::Unnamed(tid)),
                place => (1, Whose::Who(Who::Name(place - 1))),
            },
            CpuState::Unseen => (2, nobody),
            CpuState::Lost => (3, nobody),
        };
        let time = c.to.saturating_sub(c.from);
        let part = Part { state, whose, time, longest: time, sleep: Sleep::default(), request: 0 };
        self.lanes.add(Key::Cpu(c.cpu), 0, Cell::new(c.from, c.to, 0, part));
    }

    fn request(&mut self, r: &RequestRow) {
        let request = &r.request;
        // A flush has no data, but its time is that of writes.
        let write = request.is_write() || req::op(request.opf) == req::FLUSH;
        let [queued, .., issued, done] = r.steps;
        self.depths.add(request.dev, (issued, done), request.depth);
        if request.moves_data() {
            self.heat.add(request.dev, write, done, done - queued);
        }
        let asked = Asked {
            number: r.number,
            steps: r.steps,
            dev: request.dev,
            write,
            opf: request.opf,
            data: request.moves_data(),
            len: request.len,
            sector: request.sector,
            owner: request.owner,
            owner_name: self.name_of(request.owner),
            depth: request.depth,
        };
        self.requests.add(done - queued, asked);
    }

    fn operation(&mut self, o: &OperationRow) {
        self.operations.add(o.to.saturating_sub(o.from), *o);
    }
}

#[cfg(test)]
mod tests;
