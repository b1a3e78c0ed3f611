// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a damaged trace may say, and no kernel does: the account stays closed, or is refused.

use plumb_model::{Model, RunResult, Setup};
use plumb_trace::kernel::KTIME_MAX;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::{SchedFork, SchedSwitch, StateTask};
use plumb_trace::Record;

fn task(tid: u32, tgid: u32, target: u8) -> StateTask {
    StateTask { tid, tgid, target, syscall: StateTask::NO_SYSCALL, ..StateTask::default() }
}

fn model(tasks: Vec<StateTask>) -> Model {
    let mut setup = Setup { begin: 1000, end: u64::MAX, ..Setup::default() };
    setup.state.tasks = tasks;
    Model::new(setup, ())
}

fn feed<R: Record>(model: &mut Model, ts: u64, tid: u32, record: R) {
    model.feed(Item::Record(RawRecord { ts, id: R::ID, cpu: 0, tid, bytes: record.bytes() }));
}

fn times(result: &RunResult) -> Vec<(u32, u64, u64)> {
    result.processes.iter().map(|p| (p.pid, p.thread_time, p.account.values().sum())).collect()
}

#[test]
fn times_of_centuries_are_refused() {
    let mut m = model(vec![task(7, 7, 1), task(8, 8, 1), task(9, 9, 1)]);
    feed(&mut m, 5_000_000, 7, SchedSwitch { next_tid: 8, ..Default::default() });
    assert_eq!(m.refusal(), None);
    feed(&mut m, KTIME_MAX, 8, SchedSwitch { next_tid: 7, ..Default::default() });
    assert!(m.refusal().is_some_and(|why| why.contains("292 years")));
    // What came before it is an account still.
    let (result, ()) = m.finish();
    assert_eq!(result.end, 5_000_000);
    assert!(times(&result).iter().all(|(_, time, account)| time == account));
}

#[test]
fn an_end_of_centuries_is_refused() {
    let mut setup = Setup { begin: 1000, end: KTIME_MAX, ..Setup::default() };
    setup.state.tasks = vec![task(7, 7, 1), task(8, 8, 1)];
    assert!(Model::new(setup, ()).refusal().is_some());
}

#[test]
fn a_task_that_is_told_twice_is_one_thread() {
    let mut m = model(vec![task(7, 7, 1), task(7, 7, 1), task(8, 7, 1)]);
    feed(&mut m, 2000, 7, SchedSwitch { next_tid: 9, ..Default::default() });
    assert_eq!(times(&m.finish().0), [(7, 2000, 2000)]);
}

#[test]
fn a_process_belongs_to_the_target_with_all_of_its_threads() {
    let mut m = model(vec![task(7, 7, 1), task(8, 7, 0)]);
    feed(&mut m, 2000, 7, SchedSwitch { next_tid: 9, ..Default::default() });
    assert_eq!(times(&m.finish().0), [(7, 2000, 2000)]);
    // A thread that was not seen before, and so is of a process of its own, forks one of the target into it.
    let mut m = model(Vec::new());
    let child = SchedFork { child_tid: 21, parent_tgid: 20, child_tgid: 20, target: 1, ..Default::default() };
    feed(&mut m, 2000, 20, child);
    feed(&mut m, 5000, 20, SchedSwitch { next_tid: 9, ..Default::default() });
    assert_eq!(times(&m.finish().0), [(20, 3000, 3000)]);
}
