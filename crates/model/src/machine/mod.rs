// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hands each event to the state machines that it concerns.

mod blame;
mod calls;
mod finish;
mod loss;
mod threads;

use crate::account::Category;
use crate::block::{Blocks, Effect};
use crate::cpu::{Cpu, Frame};
use crate::disk::Disk;
use crate::process::Processes;
use crate::thread::Thread;
use crate::wait::{site, Calls};
use crate::Observer;
use plumb_trace::event::text;
use plumb_trace::reader::{Item, RawRecord, State as TraceState};
use plumb_trace::schema::*;
use plumb_trace::Record;
use std::collections::{BTreeMap, HashMap, HashSet};

/// `StateTask::syscall` of a process that the recorder looked at after its exec.
const TOLD_AT_EXEC: i32 = -2;
/// Thread ids end here on 64-bit kernels (PID_MAX_LIMIT).
const MOST_TIDS: u32 = 1 << 22;
/// No thread.
const NONE: u32 = u32::MAX;

/// What is known before the first event.
#[derive(Debug, Default)]
pub struct Setup {
    /// First moment that is accounted, ns; events before it only set states.
    pub begin: u64,
    /// Last moment, ns; later events are not read. `u64::MAX` where it is not known.
    pub end: u64,
    /// Everybody is the target.
    pub everyone: bool,
    /// Process id of the recorder.
    pub recorder: u32,
    /// Tasks, disks and stacks.
    pub state: TraceState,
}

/// The state machines of one trace.
pub struct Model<O: Observer = ()> {
    setup: Setup,
    observer: O,
    now: u64,
    events: u64,
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    free: Vec<u32>,
    /// Place in `threads` by thread id.
    index: Vec<u32>,
    processes: Processes,
    blocks: Blocks,
    calls: Calls,
    /// What each kernel stack waits for.
    sites: HashMap<u32, Option<Category>>,
    /// Processes of the target that were told at their exec: their birth may lie before the trace.
    told: HashSet<u32>,
    /// Stacks of waits that end soon.
    stacks: HashMap<(u32, u64), u32>,
    gaps: Vec<(u64, u64)>,
    lost_events: u64,
    unexplained: HashMap<(u32, i64), (u64, u64)>,
    impossible: BTreeMap<&'static str, u64>,
}

impl<O: Observer> Model<O> {
    /// Machines in the state that the setup tells.
    pub fn new(setup: Setup, observer: O) -> Self {
        let mut model = Self {
            now: setup.begin,
            observer,
            events: 0,
            cpus: Vec::new(),
            threads: Vec::new(),
            free: Vec::new(),
            index: Vec::new(),
            processes: Processes::default(),
            blocks: Blocks::default(),
            calls: Calls::default(),
            sites: HashMap::new(),
            told: HashSet::new(),
            stacks: HashMap::new(),
            gaps: Vec::new(),
            lost_events: 0,
            unexplained: HashMap::new(),
            impossible: BTreeMap::new(),
            setup,
        };
        for stack in model.setup.state.stacks.iter().filter(|s| s.user == 0) {
            model.sites.insert(stack.stack, site(&stack.text));
        }
        for task in std::mem::take(&mut model.setup.state.tasks) {
            model.task(&task);
        }
        model
    }

    /// A thread that the recorder saw in /proc.
    fn task(&mut self, task: &StateTask) {
        if task.tid >= MOST_TIDS {
            // A damaged record's; the index would grow to gigabytes.
            return;
        }
        self.processes.name(task.tgid, &task.comm, &task.cmdline);
        if task.syscall == TOLD_AT_EXEC {
            self.told.insert(task.tid);
            return;
        }
        let begin = self.setup.begin;
        let at = self.place(task.tid);
        let everyone = self.setup.everyone && task.kernel == 0 && task.tgid != self.setup.recorder;
        let t = &mut self.threads[at];
        t.tgid = task.tgid;
        t.kernel = task.kernel == 1;
        t.target = task.target == 1 || everyone;
        t.first_call = task.syscall;
        t.born = begin;
        let (tgid, target) = (t.tgid, t.target);
        self.processes.join(tgid, begin, target);
    }

    /// The place of a thread, made if it is new.
    fn place(&mut self, tid: u32) -> usize {
        let i = tid as usize;
        if i >= self.index.len() {
            // Thread ids end at 2^22; a greater one is a damaged record's.
            let len = (i + 1).next_power_of_two().max(1024);
            self.index.resize(len, NONE);
        }
        if self.index[i] != NONE {
            return self.index[i] as usize;
        }
        let mut thread = Thread::new(tid, tid, self.now.max(self.setup.begin));
        thread.target = (self.setup.everyone && tid != self.setup.recorder) || self.told.contains(&tid);
        let at = match self.free.pop() {
            Some(at) => {
                self.threads[at as usize] = thread;
                at as usize
            }
            None => {
                self.threads.push(thread);
                self.threads.len() - 1
            }
        };
        self.index[i] = at as u32;
        at
    }

    fn known(&self, tid: u32) -> Option<usize> {
        self.index.get(tid as usize).filter(|i| **i != NONE).map(|i| *i as usize)
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let begin = self.setup.begin.min(self.now);
        while self.cpus.len() <= cpu as usize {
            self.cpus.push(Cpu::new(begin));
        }
        &mut self.cpus[cpu as usize]
    }

    fn count_impossible(&mut self, what: &'static str) {
        if self.now <= self.setup.begin {
            // The programs are attached one after the other; the first events have no past.
            return;
        }
        *self.impossible.entry(what).or_default() += 1;
    }

    /// Takes the next item of a trace. Items come in the order of time.
    pub fn feed(&mut self, item: Item<'_>) {
        match item {
            Item::Record(r) if r.ts <= self.setup.end && r.tid < 1 << 22 && r.cpu < 1 << 16 => {
                self.record(&r)
            }
            Item::Record(_) => {}
            Item::Gap(gap) => self.gap(gap),
            Item::Wait(w) => {
                if self.sites.contains_key(&w.stack) {
                    if self.stacks.len() > 1 << 16 {
                        let old = self.now.saturating_sub(10_000_000_000);
                        self.stacks.retain(|(_, end), _| *end > old);
                    }
                    self.stacks.insert((w.waiter, w.end), w.stack);
                }
            }
        }
    }

    #[allow(clippy::too_many_lines)] // one line an event: a table
    fn record(&mut self, r: &RawRecord<'_>) {
        self.events += 1;
        let ts = r.ts.max(self.now).max(self.setup.begin);
        self.now = ts;
        let b = r.bytes;
        match r.id {
            SchedSwitch::ID => self.switch(r.cpu, ts, &SchedSwitch::read(b)),
            SchedWaking::ID => self.waking(r.cpu, ts, r.tid, SchedWaking::read(b).wakee),
            SchedWakeupNew::ID => self.wakeup_new(ts, SchedWakeupNew::read(b).wakee),
            SchedFork::ID => self.fork(ts, &SchedFork::read(b)),
            SchedExec::ID => self.exec(r.tid, &text(&SchedExec::read(b).comm)),
            SchedRename::ID => self.exec(r.tid, &text(&SchedRename::read(b).comm)),
            SchedExit::ID => {
                let at = self.place(r.tid);
                self.threads[at].kernel_run = Some(SchedExit::read(b).run_ns);
            }
            IrqHandlerEntry::ID | CallFunctionSingleEntry::ID => self.cpu(r.cpu).enter(ts, Frame::Device),
            IrqHandlerExit::ID | CallFunctionSingleExit::ID => self.leave(r.cpu, ts, Frame::Device),
            LocalTimerEntry::ID => self.cpu(r.cpu).enter(ts, Frame::Timer),
            LocalTimerExit::ID => self.leave(r.cpu, ts, Frame::Timer),
            SoftirqEntry::ID => self.cpu(r.cpu).enter(ts, softirq(SoftirqEntry::read(b).vec)),
            SoftirqExit::ID => self.leave(r.cpu, ts, softirq(SoftirqExit::read(b).vec)),
            SysEnter::ID => self.enter(r.cpu, ts, r.tid, SysEnter::read(b).nr),
            SysExit::ID => self.exit(r.cpu, ts, r.tid, SysExit::read(b).nr),
            BlockBioQueue::ID => {
                let e = BlockBioQueue::read(b);
                self.cpu(r.cpu).other_work();
                self.blocks.queue(&BlockBioQueue { ts, ..e });
                let at = self.place(r.tid);
                self.threads[at].queued_bio = e.bio;
            }
            BlockSplit::ID => {
                let e = BlockSplit::read(b);
                self.blocks.split(&e);
                let at = self.place(r.tid);
                self.threads[at].queued_bio = e.bio;
            }
            BlockBioBackmerge::ID => {
                self.merged(ts, r.tid, BlockBioBackmerge::read(b).bio, BlockBioBackmerge::read(b).dev)
            }
            BlockBioFrontmerge::ID => {
                self.merged(ts, r.tid, BlockBioFrontmerge::read(b).bio, BlockBioFrontmerge::read(b).dev);
            }
            BlockGetrq::ID => {
                let at = self.place(r.tid);
                self.threads[at].queued_bio = 0;
                if let Some(call) = &mut self.threads[at].call {
                    call.own_requests += 1;
                }
                let effect = self.blocks.got(&BlockGetrq { ts, ..BlockGetrq::read(b) });
                self.apply(r.cpu, ts, effect);
            }
            BlockRqInsert::ID => self.blocks.insert(&BlockRqInsert { ts, ..BlockRqInsert::read(b) }),
            BlockRqIssue::ID => {
                let effect = self.blocks.issue(&BlockRqIssue { ts, ..BlockRqIssue::read(b) });
                self.apply(r.cpu, ts, effect);
            }
            BlockRqRequeue::ID => {
                let effect = self.blocks.requeue(&BlockRqRequeue { ts, ..BlockRqRequeue::read(b) });
                self.apply(r.cpu, ts, effect);
            }
            BlockRqMerge::ID => {
                let effect = self.blocks.absorb(BlockRqMerge::read(b).rq);
                self.apply(r.cpu, ts, effect);
            }
            BlockRqComplete::ID => {
                let effect = self.blocks.complete(&BlockRqComplete { ts, ..BlockRqComplete::read(b) });
                self.apply(r.cpu, ts, effect);
            }
            ContentionBegin::ID => {
                let at = self.place(r.tid);
                self.threads[at].lock = Some(ContentionBegin::read(b).lock);
            }
            ContentionEnd::ID => {
                let at = self.place(r.tid);
                self.threads[at].lock = None;
            }
            BalanceDirtyPages::ID => {
                let at = self.place(r.tid);
                self.threads[at].throttled = true;
            }
            DirectReclaimBegin::ID | CompactionBegin::ID => {
                let at = self.place(r.tid);
                self.threads[at].reclaim = true;
            }
            DirectReclaimEnd::ID | CompactionEnd::ID => {
                let at = self.place(r.tid);
                self.threads[at].reclaim = false;
            }
            _ => {}
        }
    }

    fn tgid(&mut self, tid: u32) -> u32 {
        let at = self.place(tid);
        self.threads[at].tgid
    }

    fn leave(&mut self, cpu: u32, ts: u64, frame: Frame) {
        if !self.cpu(cpu).exit(ts, frame) {
            self.count_impossible("interrupt ends that did not begin");
        }
    }

    fn merged(&mut self, ts: u64, tid: u32, bio: u64, dev: u32) {
        self.blocks.merge(ts, bio, dev);
        let at = self.place(tid);
        self.threads[at].queued_bio = 0;
    }

    /// Lets the disk machines of an owner's thread and process take a step.
    fn step_disk(&mut self, owner: u32, step: impl Fn(&mut Disk)) {
        let tgid = match self.known(owner) {
            Some(at) => {
                step(&mut self.threads[at].disk);
                self.threads[at].tgid
            }
            None => owner,
        };
        step(self.processes.disk(tgid));
    }

    fn apply(&mut self, cpu: u32, ts: u64, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Queued(tid, waited) => self.step_disk(tid, |d| d.queued(ts, waited)),
            Effect::Unqueued(tid) => self.step_disk(tid, |d| d.unqueued(ts)),
            Effect::Issued(tid, counted) => self.step_disk(tid, |d| d.issued(ts, counted)),
            Effect::Requeued(tid) => self.step_disk(tid, |d| d.requeued(ts)),
            Effect::Completed(number, issued) => {
                self.cpu(cpu).completed(number);
                let Some(stamp) = self.blocks.stamp(number).copied().filter(|_| issued) else { return };
                self.step_disk(stamp.owner, |d| d.completed(ts, &stamp));
                if let Some(at) = self.known(stamp.owner) {
                    self.threads[at].remember_request(stamp.steps()[0], stamp.len);
                }
            }
        }
    }
}

fn softirq(vec: u32) -> Frame {
    match vec {
        1 | 8 => Frame::Timer,
        3 => Frame::NetReceive,
        _ => Frame::Soft,
    }
}
