// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a command through threads that ended long ago, threads that were born during the wait,
//! and wakeups for nothing. Events made by hand; times that can be added up on paper.

use plumb_model::{Category, Model, RunResult, Setup};
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::*;
use plumb_trace::Record;

const SHELL: u32 = 100;
const WORKER: u32 = 200;
const CHILD: u32 = 300;
/// A process beside the target.
const NEIGHBOUR: u32 = 900;
const END: u64 = 100_000;

const NANOSLEEP: u32 = 35;
const POLL: u32 = 7;
const WAIT4: u32 = 61;
/// Scheduler states of a switch: asleep, dead.
const SLEEPS: u32 = 1;
const DIES: u32 = 0x80;

/// Threads with a CPU each.
struct Bench(Model);

impl Bench {
    fn new() -> Self {
        let mut setup = Setup { begin: 1000, end: END, root: SHELL, ..Setup::default() };
        let task = |tid, target| StateTask {
            tid,
            tgid: tid,
            target,
            syscall: StateTask::NO_SYSCALL,
            comm: format!("task{tid}"),
            ..StateTask::default()
        };
        setup.state.tasks = vec![task(SHELL, 1), task(NEIGHBOUR, 0)];
        let mut bench = Self(Model::new(setup, ()));
        bench.runs(1000, SHELL).runs(1000, NEIGHBOUR);
        bench
    }

    fn at<R: Record>(&mut self, ts: u64, tid: u32, record: R) -> &mut Self {
        self.on(tid % 100 + tid / 100, ts, tid, record)
    }

    fn on<R: Record>(&mut self, cpu: u32, ts: u64, tid: u32, record: R) -> &mut Self {
        self.0.feed(Item::Record(RawRecord { ts, id: R::ID, cpu, tid, bytes: record.bytes() }));
        self
    }

    fn runs(&mut self, ts: u64, tid: u32) -> &mut Self {
        let e = SchedSwitch { next_tid: tid, ..Default::default() };
        self.on(tid % 100 + tid / 100, ts, 0, e)
    }

    fn leaves(&mut self, ts: u64, tid: u32, prev_state: u32) -> &mut Self {
        self.at(ts, tid, SchedSwitch { tid, prev_state, ..Default::default() })
    }

    fn calls(&mut self, ts: u64, tid: u32, nr: u32) -> &mut Self {
        self.at(ts, tid, SysEnter { ts, tid, nr, ..Default::default() })
    }

    fn returns(&mut self, ts: u64, tid: u32, nr: u32) -> &mut Self {
        self.at(ts, tid, SysExit { ts, tid, nr, ..Default::default() })
    }

    fn forks(&mut self, ts: u64, tid: u32, child: u32) -> &mut Self {
        let target = u32::from(tid != NEIGHBOUR);
        let e = SchedFork {
            tid,
            child_tid: child,
            child_tgid: child,
            parent_tgid: tid,
            target,
            ..Default::default()
        };
        self.at(ts, tid, e);
        self.at(ts, tid, SchedWakeupNew { tid, wakee: child, ..Default::default() }).runs(ts, child)
    }

    /// Thread `tid` wakes `wakee`, which runs at once.
    fn wakes(&mut self, ts: u64, tid: u32, wakee: u32) -> &mut Self {
        self.at(ts, tid, SchedWaking { tid, wakee, ..Default::default() }).runs(ts, wakee)
    }

    /// A timer wakes `tid`, which runs at once.
    fn expires(&mut self, ts: u64, tid: u32) -> &mut Self {
        self.at(ts, tid, SchedWaking { wakee: tid, ..Default::default() }).runs(ts, tid)
    }

    /// Short processes of a neighbour.
    fn neighbours(&mut self, from: u64, number: u32) -> &mut Self {
        for i in 0..number {
            let (child, ts) = (10_000 + i, from + u64::from(i) * 10);
            self.forks(ts, NEIGHBOUR, child).leaves(ts + 5, child, DIES);
        }
        self
    }

    /// Time of the path by category, ns; it adds up to the command's.
    fn path(self) -> Vec<(Category, u64)> {
        let result: RunResult = self.0.finish().0;
        assert!(result.impossible.is_empty(), "{:?}", result.impossible);
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
}

#[test]
fn a_wait_is_followed_through_a_process_that_ended_before_many_others_did() {
    let mut b = Bench::new();
    b.forks(2000, SHELL, WORKER).calls(2000, SHELL, WAIT4).leaves(2000, SHELL, SLEEPS);
    b.forks(3000, WORKER, CHILD).calls(3000, WORKER, WAIT4).leaves(3000, WORKER, SLEEPS);
    b.calls(3000, CHILD, NANOSLEEP).leaves(3000, CHILD, SLEEPS).expires(50_000, CHILD);
    b.returns(50_000, CHILD, NANOSLEEP).wakes(50_000, CHILD, WORKER).leaves(50_000, CHILD, DIES);
    b.returns(50_000, WORKER, WAIT4).neighbours(51_000, 1000);
    b.wakes(70_000, WORKER, SHELL).leaves(70_000, WORKER, DIES);
    b.returns(70_000, SHELL, WAIT4).leaves(80_000, SHELL, DIES);
    // 1000-2000 the shell, 2000-3000 the worker, 3000-50,000 asleep, 50,000-70,000 the worker, then the shell.
    assert_eq!(b.path(), [(Category::Running, 32_000), (Category::Timer, 47_000)]);
}

#[test]
fn before_a_thread_was_born_its_parent_is_waited_for() {
    let mut b = Bench::new();
    b.forks(2000, SHELL, WORKER).calls(2000, SHELL, WAIT4).leaves(2000, SHELL, SLEEPS);
    b.calls(2000, WORKER, NANOSLEEP).leaves(2000, WORKER, SLEEPS).expires(30_000, WORKER);
    b.returns(30_000, WORKER, NANOSLEEP).forks(30_000, WORKER, CHILD).leaves(30_500, WORKER, SLEEPS);
    b.wakes(60_000, CHILD, SHELL).leaves(60_000, CHILD, DIES);
    b.returns(60_000, SHELL, WAIT4).leaves(80_000, SHELL, DIES);
    // 2000-30,000 the parent sleeps, 30,000-60,000 the child runs.
    assert_eq!(b.path(), [(Category::Running, 51_000), (Category::Timer, 28_000)]);
}

#[test]
fn who_ends_the_last_wait_of_a_call_ended_them_all() {
    let mut b = Bench::new();
    b.forks(2000, SHELL, WORKER).forks(2000, SHELL, CHILD);
    b.calls(2000, SHELL, WAIT4).leaves(2000, SHELL, SLEEPS);
    b.calls(2000, WORKER, NANOSLEEP).leaves(2000, WORKER, SLEEPS);
    // The end of another child wakes the shell for nothing.
    b.wakes(40_000, CHILD, SHELL).leaves(40_000, CHILD, DIES).leaves(40_000, SHELL, SLEEPS);
    b.expires(60_000, WORKER).returns(60_000, WORKER, NANOSLEEP);
    b.wakes(60_000, WORKER, SHELL).leaves(60_000, WORKER, DIES);
    b.returns(60_000, SHELL, WAIT4).leaves(80_000, SHELL, DIES);
    assert_eq!(b.path(), [(Category::Running, 21_000), (Category::Timer, 58_000)]);
}

#[test]
fn a_call_that_an_interrupt_ends_was_ended_by_no_thread() {
    let mut b = Bench::new();
    b.forks(2000, SHELL, WORKER).forks(2000, SHELL, CHILD);
    b.calls(2000, SHELL, POLL).leaves(2000, SHELL, SLEEPS);
    b.calls(3000, WORKER, NANOSLEEP).leaves(3000, WORKER, SLEEPS);
    b.wakes(30_000, CHILD, SHELL).leaves(30_000, CHILD, DIES).leaves(30_000, SHELL, SLEEPS);
    b.expires(40_000, WORKER).wakes(40_000, WORKER, SHELL).leaves(40_000, WORKER, DIES);
    b.leaves(40_000, SHELL, SLEEPS).expires(60_000, SHELL);
    b.returns(60_000, SHELL, POLL).leaves(80_000, SHELL, DIES);
    // Until 30,000 the child ran, until 40,000 the worker slept, then no thread came.
    let parts = [(Category::Poll, 20_000), (Category::Running, 49_000), (Category::Timer, 10_000)];
    assert_eq!(b.path(), parts);
}
