// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pauses of the recording, over events made by hand: their time is no part of what was recorded, and adds up with it.

mod common;

use common::{Bench, DIES, END, SHELL, SLEEPS};
use plumb_model::{Category, ProcessRow, RunResult};
use plumb_trace::schema::SchedExit;

const CHILD: u32 = 300;
const WORKER: u32 = 200;
const POLL: u32 = 7;

fn process(result: &RunResult, pid: u32) -> &ProcessRow {
    result.processes.iter().find(|p| p.pid == pid).expect("the process")
}

fn time(row: &ProcessRow, category: Category) -> u64 {
    row.account.get(&category).copied().unwrap_or(0)
}

#[test]
fn a_pause_is_neither_running_nor_waiting() {
    let mut b = Bench::service(Vec::new());
    b.pauses(20_000, 60_000);
    b.calls(70_000, SHELL, POLL).leaves(70_000, SHELL, SLEEPS);
    let result = b.finish();
    let shell = process(&result, SHELL);
    assert_eq!((time(shell, Category::Running), time(shell, Category::Paused)), (29_000, 40_000));
    assert_eq!(shell.account.values().sum::<u64>(), END - 1000);
    assert_eq!(result.paused, 40_000);
    // Until its first switch nothing is known of a CPU, as at the begin.
    let cpu = result.cpus.iter().find(|c| c.cpu == 1).expect("its CPU");
    assert_eq!((cpu.busy, cpu.unseen), (19_000, 50_000));
}

#[test]
fn who_slept_in_a_call_before_a_pause_sleeps_in_it_behind_it() {
    let mut b = Bench::service(Vec::new());
    b.calls(10_000, SHELL, POLL).leaves(10_000, SHELL, SLEEPS);
    b.pauses(20_000, 60_000).expires(80_000, SHELL);
    let result = b.finish();
    let shell = process(&result, SHELL);
    let rests = time(shell, Category::Poll) + time(shell, Category::Idle);
    assert_eq!((rests, time(shell, Category::Paused)), (30_000, 40_000), "{:?}", shell.account);
}

#[test]
fn threads_are_born_and_end_in_a_pause() {
    let mut b = Bench::service(Vec::new());
    b.forks(5000, SHELL, WORKER).leaves(6000, WORKER, SLEEPS).pauses(20_000, 60_000);
    b.forks(30_000, SHELL, CHILD);
    for tid in [WORKER, CHILD] {
        b.at(50_000, tid, SchedExit { tid, tgid: tid, ..Default::default() });
    }
    b.leaves(70_000, SHELL, DIES);
    let result = b.finish();
    let [worker, child] = [WORKER, CHILD].map(|pid| process(&result, pid));
    assert_eq!((worker.elapsed, time(worker, Category::Paused)), (45_000, 30_000));
    assert_eq!((child.elapsed, time(child, Category::Paused)), (20_000, 20_000));
}

#[test]
fn of_a_thread_without_events_between_two_pauses_nothing_is_known() {
    let mut b = Bench::service(Vec::new());
    // It ran before, and sleeps in no call that is known.
    b.pauses(20_000, 30_000).pauses(40_000, 50_000).calls(60_000, SHELL, POLL).leaves(60_000, SHELL, SLEEPS);
    let result = b.finish();
    let shell = process(&result, SHELL);
    assert_eq!((time(shell, Category::Running), time(shell, Category::Paused)), (29_000, 30_000));
}

#[test]
fn many_pauses_are_told_ahead() {
    let mut b = Bench::service(Vec::new());
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (20_000 + i * 2000, 21_000 + i * 2000)).collect();
    b.pauses_told(&pauses).pauses_begin(&pauses);
    b.calls(70_000, SHELL, POLL).leaves(70_000, SHELL, SLEEPS);
    let result = b.finish();
    assert_eq!((result.paused, time(process(&result, SHELL), Category::Paused)), (20_000, 20_000 + 19_000));
}

#[test]
fn one_pause_follows_another_and_the_last_one_ends_the_recording() {
    let mut b = Bench::service(Vec::new());
    b.pauses(20_000, 30_000).pauses(40_000, 50_000).leaves(60_000, SHELL, SLEEPS).pauses(90_000, END);
    let result = b.finish();
    let shell = process(&result, SHELL);
    // Between the first two it did nothing that was recorded, and whether it ran is not known.
    assert_eq!((time(shell, Category::Paused), result.paused), (40_000, 30_000), "{:?}", shell.account);
    assert_eq!(shell.account.values().sum::<u64>(), END - 1000);
}
