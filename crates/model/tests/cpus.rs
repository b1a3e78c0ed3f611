// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose a wait for a CPU is: who has it, or who has another one on which the thread could run. Events made by hand.

mod common;

use common::{Bench, END, NEIGHBOUR, SHELL, SLEEPS};
use plumb_model::Category;
use plumb_trace::schema::{SchedSwitch, SchedWaking, SysEnter, SysExit};

const WORKER: u32 = 200;
const THIRD: u32 = 300;
/// CPUs of the target's first thread and of the neighbour.
const HERE: u32 = 1;
const THERE: u32 = 9;
const SCHED_SETAFFINITY: u32 = 203;

fn switch(b: &mut Bench, cpu: u32, ts: u64, tid: u32, next_tid: u32, preempt: u32) {
    let prev_state = if preempt == 0 && tid != 0 { SLEEPS } else { 0 };
    b.on(cpu, ts, tid, SchedSwitch { tid, prev_state, next_tid, preempt, ..Default::default() });
}

/// The first thread has run on both CPUs, and its worker takes its own for 60,000 ns, while the neighbour runs on the other.
/// `first` happens before.
fn taken(first: impl FnOnce(&mut Bench)) -> Vec<(Category, u64)> {
    let mut b = begins();
    switch(&mut b, HERE, 3000, SHELL, 0, 1);
    switch(&mut b, THERE, 3000, 0, SHELL, 0);
    switch(&mut b, THERE, 4000, SHELL, 0, 1);
    switch(&mut b, HERE, 4000, 0, SHELL, 0);
    first(&mut b);
    takes(b)
}

fn begins() -> Bench {
    let mut b = Bench::command();
    switch(&mut b, THERE, 2000, NEIGHBOUR, 0, 0);
    b.clones(2000, SHELL, WORKER).leaves(2500, WORKER, SLEEPS);
    b
}

fn takes(mut b: Bench) -> Vec<(Category, u64)> {
    b.on(HERE, 9000, SHELL, SchedWaking { tid: SHELL, wakee: WORKER, ..Default::default() });
    b.on(THERE, 10_000, 0, SchedWaking { wakee: NEIGHBOUR, ..Default::default() });
    switch(&mut b, THERE, 10_000, 0, NEIGHBOUR, 0);
    switch(&mut b, HERE, 10_000, SHELL, WORKER, 1);
    switch(&mut b, HERE, 70_000, WORKER, SHELL, 0);
    b.path()
}

#[test]
fn a_stranger_on_another_cpu_is_whom_it_waits_for() {
    let running = END - 1000 - 60_000;
    assert_eq!(taken(|_| ()), [(Category::Preempted, 60_000), (Category::Running, running)]);
}

#[test]
fn who_left_unseen_sleeps_once_its_cpu_is_idle() {
    let mut b = begins();
    // The kernel does not raise the switch to the worker.
    switch(&mut b, HERE, 10_000, WORKER, THIRD, 0);
    switch(&mut b, HERE, 14_000, THIRD, 0, 0);
    let lost = b.contradicted_path().into_iter().find(|(category, _)| *category == Category::Lost);
    // It ran last at 2000, when it began its worker.
    assert_eq!(lost, Some((Category::Lost, 14_000 - 2000)));
}

#[test]
fn it_could_run_where_another_thread_of_its_process_ran() {
    let mut b = begins();
    b.on(HERE, 2500, SHELL, SchedWaking { tid: SHELL, wakee: WORKER, ..Default::default() });
    switch(&mut b, THERE, 3000, 0, WORKER, 0);
    switch(&mut b, THERE, 4000, WORKER, 0, 0);
    assert!(takes(b).contains(&(Category::Preempted, 60_000)));
}

#[test]
fn of_two_that_wait_the_stranger_keeps_what_they_would_not_have_waited() {
    // A third thread is ready to run all the time.
    let parts = taken(|b| {
        b.forks(5000, SHELL, THIRD);
        switch(b, 3 + THIRD % 100, 6000, THIRD, 0, 1);
    });
    let time = |category| parts.iter().find(|(c, _)| *c == category).map_or(0, |(_, t)| *t);
    // Three that share a CPU wait twice as long as they run; with two CPUs half as long.
    assert_eq!((time(Category::Preempted), time(Category::Crowded)), (45_000, 15_000), "{parts:?}");
}

#[test]
fn where_it_may_not_run_nobody_keeps_it_from_running() {
    let parts = taken(|b| {
        b.on(
            HERE,
            5000,
            SHELL,
            SysEnter { ts: 5000, tid: SHELL, nr: SCHED_SETAFFINITY, ..Default::default() },
        );
        b.on(
            HERE,
            5500,
            SHELL,
            SysExit { ts: 5500, tid: SHELL, nr: SCHED_SETAFFINITY, ..Default::default() },
        );
    });
    assert!(parts.contains(&(Category::Crowded, 60_000)), "{parts:?}");
}
