// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads of a few processes over events made by hand, with a CPU for each.

use plumb_model::{Category, Model, RunResult, Setup};
use plumb_trace::reader::{Gap, Item, RawRecord, Told};
use plumb_trace::schema::*;
use plumb_trace::Record;

/// The first thread of the target.
pub const SHELL: u32 = 100;
/// A process beside the target.
pub const NEIGHBOUR: u32 = 900;
/// A process that does nothing; only of a machine.
pub const QUIET: u32 = 800;
pub const END: u64 = 100_000;

/// Scheduler states of a switch: asleep, dead.
pub const SLEEPS: u32 = 1;
pub const DIES: u32 = 0x80;

pub struct Bench(Model);

#[allow(dead_code, reason = "not every test needs all of it")]
impl Bench {
    /// With a command's critical path.
    pub fn command() -> Self {
        Self::new(SHELL, Vec::new())
    }

    /// As with --pid; sockets that are open at the beginning.
    pub fn service(sockets: Vec<StateSocket>) -> Self {
        Self::new(0, sockets)
    }

    /// As with -a: each of the two processes is a service.
    pub fn machine(sockets: Vec<StateSocket>) -> Self {
        Self::of(Setup { everyone: true, ..Setup::default() }, sockets)
    }

    /// As with -a, where processes run scripts of these names.
    pub fn scripts(sockets: Vec<StateSocket>, scripts: &[(u32, &str)]) -> Self {
        let mut setup = Setup { everyone: true, ..Setup::default() };
        let told = |(pid, name): &(u32, &str)| StateService {
            pid: *pid,
            name: (*name).into(),
            ..Default::default()
        };
        setup.state.services = scripts.iter().map(told).collect();
        Self::of(setup, sockets)
    }

    /// Only of processes of a name.
    pub fn only(comm: &str, sockets: Vec<StateSocket>) -> Self {
        Self::of(Setup { comms: vec![comm.into()], ..Setup::default() }, sockets)
    }

    fn new(root: u32, sockets: Vec<StateSocket>) -> Self {
        Self::of(Setup { root, ..Setup::default() }, sockets)
    }

    fn of(setup: Setup, sockets: Vec<StateSocket>) -> Self {
        let mut setup = Setup { begin: 1000, end: END, reads: true, ..setup };
        let task = |tid, target| StateTask {
            tid,
            tgid: tid,
            target,
            syscall: StateTask::NO_SYSCALL,
            comm: format!("task{tid}"),
            ..StateTask::default()
        };
        setup.state.tasks = vec![task(SHELL, 1), task(NEIGHBOUR, 0)];
        setup.state.tasks.extend(setup.everyone.then(|| task(QUIET, 0)));
        setup.state.sockets = sockets;
        let mut bench = Self(Model::new(setup, ()));
        bench.runs(1000, SHELL).runs(1000, NEIGHBOUR);
        bench
    }

    pub fn at<R: Record>(&mut self, ts: u64, tid: u32, record: R) -> &mut Self {
        self.on(tid % 100 + tid / 100, ts, tid, record)
    }

    pub fn on<R: Record>(&mut self, cpu: u32, ts: u64, tid: u32, record: R) -> &mut Self {
        self.0.feed(Item::Record(RawRecord { ts, id: R::ID, cpu, tid, bytes: record.bytes() }));
        self
    }

    pub fn runs(&mut self, ts: u64, tid: u32) -> &mut Self {
        let e = SchedSwitch { next_tid: tid, ..Default::default() };
        self.on(tid % 100 + tid / 100, ts, 0, e)
    }

    pub fn leaves(&mut self, ts: u64, tid: u32, prev_state: u32) -> &mut Self {
        self.at(ts, tid, SchedSwitch { tid, prev_state, ..Default::default() })
    }

    pub fn calls(&mut self, ts: u64, tid: u32, nr: u32) -> &mut Self {
        self.at(ts, tid, SysEnter { ts, tid, nr, ..Default::default() })
    }

    pub fn returns(&mut self, ts: u64, tid: u32, nr: u32) -> &mut Self {
        self.at(ts, tid, SysExit { ts, tid, nr, ..Default::default() })
    }

    /// A call on a descriptor that does not wait.
    pub fn does(&mut self, ts: u64, tid: u32, nr: u32, fd: u32, ret: i64) -> &mut Self {
        self.at(ts, tid, SysEnter { ts, tid, nr, arg0: fd, ..Default::default() });
        self.at(ts, tid, SysExit { ts, tid, nr, ret, ..Default::default() })
    }

    /// A new thread of the target's first process.
    pub fn clones(&mut self, ts: u64, tid: u32, child: u32) -> &mut Self {
        self.born(ts, tid, child, tid)
    }

    /// A new process.
    pub fn forks(&mut self, ts: u64, tid: u32, child: u32) -> &mut Self {
        self.born(ts, tid, child, child)
    }

    fn born(&mut self, ts: u64, tid: u32, child: u32, child_tgid: u32) -> &mut Self {
        let target = u32::from(tid != NEIGHBOUR);
        let e =
            SchedFork { tid, child_tid: child, child_tgid, parent_tgid: tid, target, ..Default::default() };
        self.at(ts, tid, e);
        self.at(ts, tid, SchedWakeupNew { tid, wakee: child, ..Default::default() }).runs(ts, child)
    }

    /// Thread `tid` wakes `wakee`, which runs at once.
    pub fn wakes(&mut self, ts: u64, tid: u32, wakee: u32) -> &mut Self {
        self.at(ts, tid, SchedWaking { tid, wakee, ..Default::default() }).runs(ts, wakee)
    }

    /// A timer wakes `tid`, which runs at once.
    pub fn expires(&mut self, ts: u64, tid: u32) -> &mut Self {
        self.at(ts, tid, SchedWaking { wakee: tid, ..Default::default() }).runs(ts, tid)
    }

    /// The interrupt of a CPU's timer wakes `tid`, which runs at once.
    pub fn times_out(&mut self, ts: u64, tid: u32) -> &mut Self {
        let cpu = tid % 100 + tid / 100;
        self.on(cpu, ts, 0, LocalTimerEntry::default());
        self.on(cpu, ts, 0, SchedWaking { wakee: tid, ..Default::default() });
        self.on(cpu, ts, 0, LocalTimerExit::default()).runs(ts, tid)
    }

    /// The recording pauses on all CPUs.
    pub fn pauses(&mut self, begin: u64, end: u64) -> &mut Self {
        self.pauses_told(&[(begin, end)]).pauses_begin(&[(begin, end)])
    }

    /// The recorder tells of pauses, ahead of them.
    pub fn pauses_told(&mut self, pauses: &[(u64, u64)]) -> &mut Self {
        for &(begin, end) in pauses {
            self.0.feed(Item::Told(&Told::Pause(StatePause { begin, end })));
        }
        self
    }

    pub fn pauses_begin(&mut self, pauses: &[(u64, u64)]) -> &mut Self {
        for &(begin, end) in pauses {
            for cpu in 0..10 {
                self.0.feed(Item::Gap(Gap { cpu, begin, end, lost: 0 }));
            }
        }
        self
    }

    /// Short processes of a neighbour.
    pub fn neighbours(&mut self, from: u64, number: u32) -> &mut Self {
        for i in 0..number {
            let (child, ts) = (10_000 + i, from + u64::from(i) * 10);
            self.forks(ts, NEIGHBOUR, child).leaves(ts + 5, child, DIES);
        }
        self
    }

    /// A received packet wakes `tid`, which runs at once.
    pub fn packet(&mut self, ts: u64, tid: u32) -> &mut Self {
        let cpu = tid % 100 + tid / 100;
        self.on(cpu, ts, 0, IrqHandlerEntry::default());
        self.on(cpu, ts, 0, SoftirqEntry { vec: 3, ..Default::default() });
        self.on(cpu, ts, 0, SchedWaking { wakee: tid, ..Default::default() });
        self.on(cpu, ts, 0, SoftirqExit { vec: 3, ..Default::default() });
        self.on(cpu, ts, 0, IrqHandlerExit::default()).runs(ts, tid)
    }

    /// What was found; it has no contradictions.
    pub fn finish(self) -> RunResult {
        let result: RunResult = self.0.finish().0;
        assert!(result.impossible.is_empty(), "{:?}", result.impossible);
        result
    }

    /// Time of the path by category, ns.
    pub fn path(self) -> Vec<(Category, u64)> {
        path(&self.finish())
    }

    /// The same of events that contradict each other.
    pub fn contradicted_path(self) -> Vec<(Category, u64)> {
        let result: RunResult = self.0.finish().0;
        assert!(!result.impossible.is_empty());
        path(&result)
    }
}

fn path(result: &RunResult) -> Vec<(Category, u64)> {
    let mut sums: Vec<(Category, u64)> = Vec::new();
    for p in &result.path.parts {
        match sums.iter_mut().find(|(c, _)| *c == p.category) {
            Some((_, sum)) => *sum += p.time,
            None => sums.push((p.category, p.time)),
        }
    }
    sums.sort();
    sums
}
