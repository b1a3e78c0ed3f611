// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a command through threads that ended long ago, threads that were born during the wait,
//! and wakeups for nothing. Events made by hand; times that can be added up on paper.

mod common;

use common::{Bench, DIES, SHELL, SLEEPS};
use plumb_model::Category;

const WORKER: u32 = 200;
const CHILD: u32 = 300;

const NANOSLEEP: u32 = 35;
const POLL: u32 = 7;
const WAIT4: u32 = 61;

#[test]
fn a_wait_is_followed_through_a_process_that_ended_before_many_others_did() {
    let mut b = Bench::command();
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
    let mut b = Bench::command();
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
    let mut b = Bench::command();
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
    let mut b = Bench::command();
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
