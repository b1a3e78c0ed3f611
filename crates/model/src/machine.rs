// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hands each event to the state machines that it concerns.

mod blame;
mod calls;
mod carried;
mod charge;
mod contention;
mod finish;
mod loss;
mod operations;
mod pause;
mod rows;
mod runnable;
mod spans;
mod threads;

use crate::account::Category;
use crate::ahead::Ahead;
use crate::block::{Below, Blocks, Effect};
use crate::cpu::{Cpu, Frame};
use crate::disk::Disk;
use crate::files::Synced;
use crate::index::Index;
use crate::journal::Journals;
use crate::latches::Latches;
use crate::ledger::Ledger;
use crate::locks::Locks;
use crate::parts::{Names, Parts, Piece, TCP_AGAIN, TCP_TIMER};
use crate::path::Path;
use crate::pattern::Patterns;
use crate::process::Processes;
use crate::samples::Samples;
use crate::sched::Switch;
use crate::services::Services;
use crate::setup::Setup;
use crate::slow::Slow;
use crate::spans::Spans;
use crate::tasks;
use crate::thread::Thread;
use crate::triggered::Triggered;
use crate::wait::{site, Calls};
use crate::wait_events::WaitEvents;
use crate::Observer;
pub use carried::Carried;
use pause::Pauses;
use plumb_trace::kernel::{softirq as vector, MOST_CPUS, OUTSIDE_KERNEL, PID_MAX_LIMIT, TID_LIMIT};
use plumb_trace::reader::{Item, RawRecord, Told};
use plumb_trace::schema::*;
use plumb_trace::Record;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};

/// Ended threads that are remembered.
const GRAVES: usize = 256;
/// What threads, CPUs and requests of a trace may last together, ns: 292 years. A trace that says more is damaged, and
/// below it no sum of times overflows.
const MOST_TIME: u64 = i64::MAX as u64;
/// How often that is added up, ns; what comes or goes in between is no more than that off.
const COUNTED_EVERY: u64 = 1 << 20;
/// What threads outside of the recorder's PID namespace are called until they say otherwise.
const OUTSIDE: &str = "another PID namespace";

/// The state machines of one trace.
pub struct Model<O: Observer = ()> {
    setup: Setup,
    observer: O,
    now: u64,
    /// The last event's own time, ns: before the setup's begin, `now` stands still.
    seen: u64,
    /// What threads, CPUs and requests lasted together until `counted`, at most, ns.
    lasted: u64,
    counted: u64,
    /// They last longer than any: nothing is accounted any more.
    refused: bool,
    /// The first event came.
    begun: bool,
    /// What is accounted has begun.
    counting: bool,
    /// It goes on in another's place.
    took_over: bool,
    events: u64,
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    free: Vec<u32>,
    /// Place in `threads` by thread id.
    index: Index,
    names: Names,
    /// Names that the observer was told.
    named: u32,
    /// Number of [`TCP_TIMER`].
    tcp_timer: u32,
    /// Number of [`TCP_AGAIN`].
    tcp_again: u32,
    processes: Processes,
    blocks: Blocks,
    patterns: Patterns,
    synced: Synced,
    journals: Journals,
    locks: Locks,
    samples: Samples,
    /// Samples whose time has not come.
    pending: VecDeque<StateCpuSample>,
    /// TCP segments that were sent again.
    retransmits: u64,
    /// Threads that ended lately: waits that they ended are explained after they are gone.
    graves: VecDeque<(u32, u32)>,
    /// Places of threads that ended earlier and that an interval refers to, by thread.
    kept: FxHashMap<u32, u32>,
    /// Critical path of the command's first thread.
    path: Path,
    /// Its time with waits for threads of the target followed to what those did.
    followed: Parts,
    services: Services,
    /// By service.
    ledgers: Vec<Ledger>,
    /// Pieces of requests' paths that were looked at.
    walked: u64,
    calls: Calls,
    /// What is known of futexes.
    latches: Latches,
    /// What each kernel stack waits for.
    sites: FxHashMap<u32, Option<Category>>,
    /// Processes of the target that were told at their exec: their birth may lie before the trace.
    told: FxHashSet<u32>,
    /// Stacks of waits that end soon.
    stacks: Ahead<u32>,
    spans: Spans,
    wait_events: WaitEvents,
    triggered: Triggered,
    slow: Slow,
    /// Texts of spans that begin soon.
    texts: Ahead<u32>,
    /// Stacks of who ended a wait, kernel and user, by wakee and time.
    wakers: FxHashMap<(u32, u64), (u32, u32)>,
    /// Pieces of the wait that is being closed; kept to save their memory.
    own: Vec<Piece>,
    deep: Vec<Piece>,
    scratch: Vec<Piece>,
    gaps: Vec<(u64, u64)>,
    /// CPUs, and threads that were on them last and left unseen.
    strays: Vec<(u32, u32)>,
    pauses: Pauses,
    lost_events: u64,
    unexplained: FxHashMap<(u32, i64), (u64, u64)>,
    impossible: BTreeMap<&'static str, u64>,
}

impl<O: Observer> Model<O> {
    /// Machines in the state that the setup tells.
    pub fn new(setup: Setup, observer: O) -> Self {
        let mut model = Self {
            now: setup.begin,
            seen: 0,
            observer,
            lasted: 0,
            counted: setup.begin,
            refused: false,
            begun: false,
            counting: false,
            took_over: false,
            events: 0,
            cpus: Vec::new(),
            threads: Vec::new(),
            free: Vec::new(),
            index: Index::default(),
            names: Names::default(),
            named: 0,
            tcp_timer: 0,
            tcp_again: 0,
            processes: Processes::new(setup.root == 0),
            blocks: Blocks::new(setup.begin),
            patterns: Patterns::default(),
            synced: Synced::default(),
            journals: Journals::default(),
            locks: Locks::default(),
            samples: Samples::default(),
            pending: VecDeque::new(),
            retransmits: 0,
            graves: VecDeque::new(),
            kept: FxHashMap::default(),
            path: Path::default(),
            followed: Parts::default(),
            services: Services::default(),
            ledgers: vec![Ledger::default()],
            walked: 0,
            calls: Calls::default(),
            latches: Latches::default(),
            sites: FxHashMap::default(),
            told: FxHashSet::default(),
            stacks: Ahead::default(),
            spans: Spans::default(),
            wait_events: WaitEvents::default(),
            triggered: Triggered::new(setup.trigger()),
            slow: Slow::default(),
            texts: Ahead::default(),
            wakers: FxHashMap::default(),
            own: Vec::new(),
            deep: Vec::new(),
            scratch: Vec::new(),
            gaps: Vec::new(),
            strays: Vec::new(),
            pauses: Pauses::default(),
            lost_events: 0,
            unexplained: FxHashMap::default(),
            impossible: BTreeMap::new(),
            setup,
        };
        model.name_number("");
        model.tcp_timer = model.name_number(TCP_TIMER);
        model.tcp_again = model.name_number(TCP_AGAIN);
        let state = std::mem::take(&mut model.setup.state);
        state.stacks.iter().filter(|s| s.user == 0).for_each(|stack| model.stack(stack));
        model.setup.state = state;
        if let Some(carried) = model.setup.carried.take() {
            model.take_over(*carried);
        }
        model
    }

    /// What was told before the first event is all that there was then.
    #[cold]
    fn begin(&mut self) {
        self.begun = true;
        if self.took_over {
            let told = &self.setup.state.services;
            told.iter().for_each(|service| _ = self.services.told(service, self.seen));
        } else {
            self.services = Services::of(&self.setup);
        }
        self.latches = Latches::new(&self.setup.state);
        let state = std::mem::take(&mut self.setup.state);
        for file in &state.files {
            self.synced.told(file.thread, file.fd, file.at, &file.path);
        }
        for task in &state.tasks {
            self.task(task);
        }
        for file in &state.open {
            self.processes.opened(file);
        }
        for socket in &state.sockets {
            self.processes.socket(self.services.process(socket.pid), socket);
        }
        self.setup.state = state;
    }

    /// What a kernel stack waits for.
    fn stack(&mut self, stack: &StateStack) {
        self.sites.insert(stack.stack, site(&stack.text));
        self.samples.stack(stack.stack, &stack.text);
    }

    /// A thread that the recorder saw in /proc.
    fn task(&mut self, task: &StateTask) {
        if task.tid >= TID_LIMIT {
            // A damaged record's; the index would grow to gigabytes.
            return;
        }
        self.processes.name(task.tgid, &task.comm, &task.cmdline, task.ppid);
        if task.told_after_exec() {
            self.told.insert(task.tid);
            self.services.runs(task);
            return;
        }
        if self.known(task.tid).is_some() {
            // Told twice it is one thread of its process still, or that would never end.
            return;
        }
        // Told late, it is known from now on.
        let begin = self.now.max(self.setup.begin);
        let at = self.place(task.tid);
        let everyone = self.setup.everyone && task.kernel == 0 && task.tgid != self.setup.recorder;
        let name = self.name_number(&task.comm);
        self.observer.known_as(task.tid, name);
        let t = &mut self.threads[at];
        t.tgid = task.tgid;
        t.name = name;
        t.kernel = task.kernel == 1;
        t.target = self.processes.join(task.tgid, begin, task.target == 1 || everyone);
        t.first_call = task.syscall;
        t.born = begin;
        self.belongs(at);
    }

    /// A thread belongs to its process's service.
    fn belongs(&mut self, at: usize) {
        let service = self.services.process(self.threads[at].tgid);
        self.threads[at].service = service;
        self.call_by_script(at);
        if self.ledgers.len() <= service as usize {
            self.ledgers.resize_with(service as usize + 1, Ledger::default);
        }
    }

    /// A thread has another name or belongs to another service.
    fn call_by_script(&mut self, at: usize) {
        let t = &self.threads[at];
        let script = self.services.script(t.tgid, self.names.name(t.name)).map(str::to_owned);
        self.threads[at].called = match script {
            Some(script) => self.name_number(&script),
            None => t.name,
        };
    }

    /// A process is, or will be, in a unit or container.
    fn in_service(&mut self, told: &StateService) {
        if self.services.told(told, self.seen) {
            let of = |at: &usize| self.threads[*at].tgid == told.pid;
            let threads: Vec<usize> = (0..self.threads.len()).filter(of).collect();
            threads.into_iter().for_each(|at| self.belongs(at));
        }
    }

    /// The sums of a thread's service.
    fn ledger(&mut self, at: usize) -> &mut Ledger {
        &mut self.ledgers[self.threads[at].service as usize]
    }

    /// Whether two threads are of one target: of one service of it.
    fn together(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.threads[a], &self.threads[b]);
        a.target && b.target && a.service == b.service
    }

    /// The place of a thread, made if it is new.
    fn place(&mut self, tid: u32) -> usize {
        if let Some(at) = self.index.get(tid) {
            return at;
        }
        // The id is used again: whoever refers to the thread that had it finds this one from now on.
        self.free.extend(self.kept.remove(&tid));
        let mut thread = Thread::new(tid, tid, self.now.max(self.setup.begin));
        // Thread 0 is every idle CPU.
        let everyone = self.setup.everyone && tid != self.setup.recorder && tid != 0;
        thread.target = (everyone || self.told.contains(&tid)) && !self.processes.is_other(tid);
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
        self.index.set(tid, at);
        if tid >= PID_MAX_LIMIT {
            self.comes_from_outside(at);
        }
        at
    }

    /// A thread that has no id in the recorder's PID namespace, nor a place in its /proc.
    #[cold]
    fn comes_from_outside(&mut self, at: usize) {
        let name = self.name_number(OUTSIDE);
        let t = &mut self.threads[at];
        (t.name, t.called, t.kernel) = (name, name, t.tid >= OUTSIDE_KERNEL);
        self.processes.name(t.tid, OUTSIDE, "", 0);
    }

    fn known(&self, tid: u32) -> Option<usize> {
        self.index.get(tid)
    }

    /// The place of a thread that lives, ended lately, or that an interval refers to.
    fn remembered(&self, tid: u32) -> Option<usize> {
        let grave = || self.graves.iter().rev().find(|(t, _)| *t == tid).map(|(_, at)| *at as usize);
        self.known(tid).or_else(grave).or_else(|| self.kept.get(&tid).map(|at| *at as usize))
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let begin = self.setup.begin.min(self.now);
        while self.cpus.len() <= cpu as usize {
            self.cpus.push(Cpu::new(begin));
            self.lasted = self.lasted.saturating_add(self.now - begin);
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

    /// What all that is known would have lasted together at `ts`, at most, ns.
    fn lasted_until(&self, ts: u64) -> u64 {
        let told = if self.begun { 0 } else { self.setup.state.tasks.len() };
        let known = told + self.threads.len() + self.cpus.len() + self.blocks.open() + 1;
        self.lasted.saturating_add((ts - self.counted).saturating_mul(known as u64))
    }

    /// Goes on to `ts`; false where that would be more time than there is.
    fn goes_on(&mut self, ts: u64) -> bool {
        if ts - self.counted >= COUNTED_EVERY {
            (self.lasted, self.counted) = (self.lasted_until(ts), ts);
            self.refused |= self.lasted > MOST_TIME;
        }
        if !self.refused {
            self.now = ts;
        }
        !self.refused
    }

    /// The last moment.
    fn end(&self) -> u64 {
        match self.setup.end {
            u64::MAX => self.now,
            end => end.max(self.now),
        }
    }

    /// Why what was fed cannot be accounted; asked before [`Model::finish`].
    pub fn refusal(&self) -> Option<&'static str> {
        let refused = self.refused || self.lasted_until(self.end()) > MOST_TIME;
        refused.then_some(
            "the trace is damaged: by its times its threads, CPUs and requests lasted over 292 years together",
        )
    }

    /// The last moment, which a trace that is being written does not tell.
    pub fn ends_at(&mut self, end: u64) {
        self.setup.end = end;
    }

    /// What holds for the whole trace, for the names of what was found; told before [`Model::finish`].
    pub fn whole_state(&mut self, state: plumb_trace::reader::State) {
        self.setup.state = state;
    }

    /// Takes the next item of a trace. Items come in the order of time.
    pub fn feed(&mut self, item: Item<'_>) {
        match item {
            _ if self.refused => {}
            Item::Told(told) => self.told(told),
            item => {
                if !self.begun {
                    self.begin();
                }
                self.happens(item);
            }
        }
    }

    fn happens(&mut self, item: Item<'_>) {
        match item {
            Item::Record(r) if r.ts <= self.setup.end && r.tid < TID_LIMIT && r.cpu < MOST_CPUS => {
                self.record(&r)
            }
            Item::Record(_) => {}
            Item::Gap(gap) if self.is_pause(&gap) => self.pause(gap.begin, gap.end),
            Item::Gap(gap) => self.gap(gap),
            Item::Operation(operation) => self.operation(&operation),
            Item::Told(_) => {}
        }
    }

    fn told(&mut self, told: &Told) {
        self.observer.told(told);
        let old = self.now.saturating_sub(10_000_000_000);
        match told {
            Told::Task(e) if self.begun => self.task(e),
            Told::Task(e) => self.setup.state.tasks.push(e.clone()),
            // Waits on it are told before the first event.
            Told::Stack(e) => self.stack(e),
            Told::File(e) if self.begun => self.synced.told(e.thread, e.fd, e.at, &e.path),
            Told::File(e) => self.setup.state.files.push(e.clone()),
            Told::Open(e) if self.begun => self.processes.opened(e),
            Told::Open(e) => self.setup.state.open.push(e.clone()),
            Told::Socket(e) if self.begun => self.processes.socket(self.services.process(e.pid), e),
            Told::Socket(e) => self.setup.state.sockets.push(e.clone()),
            Told::Service(e) if self.begun => self.in_service(e),
            Told::Service(e) => self.setup.state.services.push(e.clone()),
            Told::Span(e) => self.setup.state.spans.push(e.clone()),
            // Of a recording of which the last seconds were kept: it was over before what was kept.
            Told::Pause(e) if self.seen == 0 && !self.took_over && e.end <= self.setup.begin => {}
            Told::Pause(e) => self.pauses.tell(e.begin, e.end, self.now),
            Told::Wait(w) if self.sites.contains_key(&w.stack) => {
                *self.stacks.of(w.waiter, w.end) = w.stack;
            }
            Told::Wait(_) => {}
            Told::Waker(w) => {
                if self.wakers.len() > 1 << 16 {
                    self.wakers.retain(|(_, at), _| *at > old);
                }
                let stacks = self.wakers.entry((w.wakee, w.at)).or_default();
                *(if w.user == 1 { &mut stacks.1 } else { &mut stacks.0 }) = w.stack;
            }
            Told::SpanText(s) => *self.texts.of(s.thread, s.at) = s.text,
            // They come before their time, when their thread may not be born yet.
            Told::Sample(s) => self.pending.push_back(s.clone()),
        }
    }

    /// Counts the samples whose time has come.
    fn count_samples(&mut self, ts: u64) {
        while self.pending.front().is_some_and(|s| s.at <= ts) {
            let Some(s) = self.pending.pop_front() else { return };
            if s.at >= self.setup.begin && s.at <= self.setup.end && !self.pauses.has(s.at) {
                let thread = self.known(s.thread).map(|at| &self.threads[at]);
                let (tgid, target) = thread.map_or((s.thread, false), |t| (t.tgid, t.target));
                self.samples.sample(tgid, s.kernel);
                self.observer.sampled(tgid, target, &s);
            }
        }
    }

    #[allow(clippy::too_many_lines)] // one line an event: a table
    fn record(&mut self, r: &RawRecord<'_>) {
        if !self.counting && r.ts >= self.setup.begin {
            self.count_from_here();
        }
        self.events += 1;
        self.seen = r.ts;
        let ts = r.ts.max(self.now).max(self.setup.begin);
        if !self.goes_on(ts) {
            return;
        }
        if self.pauses.now.is_some() && !self.goes_on_in_pause(ts, r) {
            return;
        }
        let b = r.bytes;
        match r.id {
            SchedSwitch::ID if self.pending.front().is_some_and(|s| s.at <= ts) => {
                self.count_samples(ts);
                self.switch(r.cpu, ts, &Switch::read(r));
            }
            SchedSwitch::ID => self.switch(r.cpu, ts, &Switch::read(r)),
            SchedWaking::ID => self.waking(r.cpu, ts, r.tid, SchedWaking::read(b).wakee),
            SchedWakeupNew::ID => {
                let e = SchedWakeupNew::read(b);
                self.wakeup_new(ts, e.wakee, e.target_cpu);
            }
            SchedMigrate::ID => {
                let e = SchedMigrate::read(b);
                if let Some(at) = self.known(e.moved_tid) {
                    self.threads[at].queue.moved(ts, e.to_cpu);
                }
            }
            SpanBegin::ID => self.span_begins(r.cpu, ts, &SpanBegin::read(b)),
            SpanEnd::ID => self.span_ends(r.cpu, ts, &SpanEnd::read(b)),
            SpanWait::ID => self.says(&SpanWait::read(b)),
            TcpRetransmitSkb::ID => self.retransmits += 1,
            TcpReadWaited::ID => self.takes(r.tid, TcpReadWaited::read(b).waited),
            TcpRetransmitWaiter::ID => self.sent_again(ts, TcpRetransmitWaiter::read(b).waiter),
            SchedFork::ID | SchedExec::ID | SchedRename::ID => {
                if let Some(step) = tasks::Step::read(r) {
                    self.task_step(ts, &step);
                }
            }
            SchedExit::ID => {
                let at = self.place(r.tid);
                self.threads[at].kernel_run = Some(SchedExit::read(b).run_ns);
            }
            IrqHandlerEntry::ID | CallFunctionSingleEntry::ID => self.cpu(r.cpu).enter(ts, Frame::Device),
            IrqHandlerExit::ID | CallFunctionSingleExit::ID => self.leave(r.cpu, ts, Frame::Device),
            LocalTimerEntry::ID => self.cpu(r.cpu).enter(ts, Frame::Timer),
            LocalTimerExit::ID => self.leave(r.cpu, ts, Frame::Timer),
            SoftirqEntry::ID => self.cpu(r.cpu).enter(ts, softirq(SoftirqEntry::read(b).vec)),
            SoftirqExit::ID => {
                let vec = SoftirqExit::read(b).vec;
                self.leave(r.cpu, ts, softirq(vec));
                if vec == vector::TIMER {
                    self.cpu(r.cpu).timers_ran(ts);
                }
            }
            SysEnter::ID => self.enter(r.cpu, ts, r.tid, &SysEnter::read(b)),
            SysExit::ID => self.exit(r.cpu, ts, r.tid, &SysExit::read(b)),
            BlockBioQueue::ID
            | BlockSplit::ID
            | BlockBioBackmerge::ID
            | BlockBioFrontmerge::ID
            | BlockGetrq::ID
            | BlockRqInsert::ID
            | BlockRqIssue::ID
            | BlockRqRequeue::ID
            | BlockRqMerge::ID
            | BlockRqComplete::ID => self.block(ts, r),
            ContentionBegin::ID => self.contended(ts, r.tid, &ContentionBegin::read(b)),
            ContentionEnd::ID => self.got_lock(ts, r.tid, ContentionEnd::read(b).lock),
            Futex::ID => self.futex(r.tid, &Futex::read(b)),
            Jbd2StartCommit::ID => {
                let at = self.place(r.tid);
                let asked = self.threads[at].woken_by;
                let asked = self.known(asked).map(|at| (asked, self.threads[at].called));
                self.journals.begin(r.tid, ts, asked);
            }
            Jbd2EndCommit::ID => self.journals.end(r.tid, ts),
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

    #[inline(never)] // most events are of threads, and pay for what is inlined beside them
    fn block(&mut self, ts: u64, r: &RawRecord<'_>) {
        if r.id == BlockBioQueue::ID {
            self.cpu(r.cpu).other_work();
        }
        let effect = self.blocks.record(ts, r);
        if let Some(owner) = self.blocks.ended_unseen() {
            self.step_disk(owner, |d| d.ended_unseen(ts));
        }
        self.apply(r.cpu, r.tid, ts, effect);
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

    /// Finds what a device that lies on others did with a request: the thread
    /// that completed it served it, or the request below that completed just before.
    fn tell_below(&mut self, number: u64, before: Option<u64>, plain: bool, tid: u32) {
        let Some(stamp) = self.blocks.stamp(number).copied() else { return };
        let lower = before.and_then(|n| Some((n, self.blocks.stamp(n)?)));
        let lower = lower.filter(|(_, s)| s.dev != stamp.dev && stamp.d != 0 && s.steps()[0] >= stamp.d);
        let below = match lower {
            Some((n, _)) => Below::Request(n),
            None => {
                let server = self.known(tid).filter(|_| plain && tid != 0 && tid != stamp.owner);
                match server.filter(|at| self.threads[*at].kernel) {
                    Some(_) => Below::Thread(tid),
                    None => return,
                }
            }
        };
        self.blocks.served(number, below);
    }

    /// Number of a thread's name; a new one is told.
    pub(super) fn name_number(&mut self, name: &str) -> u32 {
        let number = self.names.number(name);
        if number == self.named {
            self.named += 1;
            self.observer.named(number, name);
        }
        number
    }

    fn apply(&mut self, cpu: u32, tid: u32, ts: u64, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Queued(bio) => {
                let at = self.place(tid);
                self.threads[at].queued_bio = bio;
            }
            Effect::Joined => {
                let at = self.place(tid);
                self.threads[at].queued_bio = 0;
            }
            Effect::Got(owner) => {
                let at = self.place(tid);
                self.threads[at].queued_bio = 0;
                if let Some(call) = &mut self.threads[at].call {
                    call.own_requests += 1;
                }
                if let Some((owner, waited)) = owner {
                    self.step_disk(owner, |d| d.queued(ts, waited));
                }
            }
            Effect::Unqueued(tid) => self.step_disk(tid, |d| d.unqueued(ts)),
            Effect::Issued(tid, counted) => self.step_disk(tid, |d| d.issued(ts, counted)),
            Effect::Requeued(tid) => self.step_disk(tid, |d| d.requeued(ts)),
            Effect::Completed(number, issued) => {
                let (before, plain) = self.cpu(cpu).completed(number);
                self.tell_below(number, before, plain, tid);
                if let Some(stamp) = self.blocks.stamp(number) {
                    // What completed before the run begins is told at its begin.
                    self.observer.request(number, stamp, issued && ts > self.setup.begin);
                }
                let Some(stamp) = self.blocks.stamp(number).copied().filter(|_| issued) else { return };
                self.step_disk(stamp.owner, |d| d.completed(ts, &stamp));
                if stamp.moves_data() {
                    let tgid = self.known(stamp.owner).map_or(stamp.owner, |at| self.threads[at].tgid);
                    let name = self.known(stamp.owner).map_or(0, |at| self.threads[at].name);
                    self.patterns.completed(tgid, name, &stamp);
                }
                if let Some(at) = self.known(stamp.owner) {
                    self.threads[at].remember_request(stamp.steps()[0], stamp.len);
                }
            }
        }
    }
}

fn softirq(vec: u32) -> Frame {
    match vec {
        vector::TIMER | vector::HRTIMER => Frame::Timer,
        vector::NET_RX => Frame::NetReceive,
        vector::RCU => Frame::Rcu,
        _ => Frame::Soft,
    }
}
