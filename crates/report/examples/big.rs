// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A made-up document with as many intervals as asked for, to try the page's speed with:
//! `cargo run -p plumb-report --example big -- 1000000 > report.json`; with `--page` the page itself.
//!
//! 50 threads of five processes and 4 CPUs, with waits, kernel stacks, wakers, block requests (a tenth
//! of the intervals) and operations (a twentieth). The same count makes the same document.

use anyhow::{bail, Context, Result};
use plumb_model::{Account, Category, CpuState, ProcessRow, Request, RunResult, ThreadRow, Who};
use plumb_report::collect::Collect;
use plumb_report::run::{self, Found, Traced};
use plumb_report::stream::{CpuInterval, Interval, OperationRow, RequestRow, Take, Wait};
use plumb_trace::load::OperationKind;
use plumb_trace::reader::State;
use plumb_trace::schema::{StateDisk, StateStack};
use std::collections::BTreeMap;
use std::io::Write;

const THREADS: usize = 50;
const CPUS: usize = 4;
const DISK: u32 = plumb_trace::kernel::dev::new(8, 0);

/// A sequence that is the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Mostly short, seldom long, ns.
    fn length(&mut self) -> u64 {
        let scale = 1 << self.below(10);
        500 + self.below(2000) * scale
    }
}

struct Made {
    dice: Dice,
    collect: Collect,
    accounts: Vec<Account>,
    waits: u64,
    requests: u64,
}

impl Made {
    /// One interval of a thread, and what belongs to it; its end.
    fn interval(&mut self, n: usize, from: u64, state: usize) -> u64 {
        let to = from + self.dice.length();
        let (tid, pid) = (1000 + n as u32, 1000 + (n / 10 * 10) as u32);
        let category = match state % 2 {
            0 => Category::Running,
            _ => [
                Category::BlockIssued,
                Category::UserLock,
                Category::Preempted,
                Category::Pipe,
                Category::Timer,
                Category::Journal,
                Category::KernelLock,
                Category::Memory,
            ][self.dice.below(8) as usize],
        };
        let (mut wait, mut request, mut who) = (0, 0, Who::Nobody);
        if !matches!(category, Category::Running | Category::Preempted) {
            self.waits += 1;
            wait = self.waits;
            let waker = 1000 + self.dice.below(THREADS as u64) as u32;
            let stack = 1 + self.dice.below(20) as u32;
            self.collect.wait(&Wait { number: wait, tid, pid, from, to, stack, waker });
        }
        match category {
            Category::BlockIssued => {
                who = Who::Disk(DISK);
                request = self.request(tid, from, to);
            }
            Category::UserLock | Category::Preempted => who = Who::Name(1 + self.dice.below(5) as u32),
            _ => {}
        }
        let time = if category == Category::Running { (to - from) * 99 / 100 } else { to - from };
        self.accounts[n].add(category, time);
        self.accounts[n].add(Category::Interrupted, to - from - time);
        let name = 1 + (n / 10) as u32;
        self.collect.interval(&Interval { tid, pid, name, category, who, from, to, time, wait, request });
        if self.dice.below(20) == 0 {
            let kinds = [OperationKind::Write, OperationKind::Read, OperationKind::Sync];
            let kind = kinds[self.dice.below(3) as usize];
            let result = if self.dice.below(1000) == 0 { -5 } else { 4096 };
            self.collect.operation(&OperationRow { tid, pid, kind, from, to, result, late: 0 });
        }
        to
    }

    fn request(&mut self, owner: u32, from: u64, to: u64) -> u64 {
        self.requests += 1;
        let step = (to - from) / 20;
        let steps = [from, from + step, from + step, from + 2 * step, from + 3 * step, to];
        let (dev, sector) = (DISK, self.dice.below(1 << 31));
        let (opf, depth) = (self.dice.below(2) as u32, 1 + self.dice.below(32) as u32);
        let request = Request { dev, owner, len: 4096, opf, sector, depth, ..Request::default() };
        self.collect.request(&RequestRow { number: self.requests, request, steps });
        self.requests
    }

    fn cpu(&mut self, cpu: usize, from: u64, state: usize) -> u64 {
        let to = from + self.dice.length() / 8 + 100;
        let state = match state % 3 {
            0 => CpuState::Idle,
            _ => CpuState::Busy(1000 + self.dice.below(THREADS as u64) as u32),
        };
        self.collect.cpu(&CpuInterval { cpu: cpu as u32, state, from, to });
        to
    }
}

fn result(accounts: &[Account], end: u64) -> RunResult {
    let mut result = RunResult { end, ..RunResult::default() };
    for (p, accounts) in accounts.chunks(10).enumerate() {
        let mut whole = Account::default();
        let mut row =
            ProcessRow { pid: 1000 + p as u32 * 10, comm: format!("worker {p}"), ..Default::default() };
        for (n, account) in accounts.iter().enumerate() {
            whole.merge(account);
            let (tid, elapsed) = (row.pid + n as u32, account.total());
            row.threads.push(ThreadRow { tid, elapsed, account: account.parts(), ..ThreadRow::default() });
        }
        (row.thread_time, row.account, row.elapsed) = (whole.total(), whole.parts(), end);
        result.processes.push(row);
    }
    result
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = "usage: big INTERVALS [--page]";
    let count: usize = words.next().context(usage)?.parse().context(usage)?;
    let page = match words.next().as_deref() {
        None => false,
        Some("--page") => true,
        Some(other) => bail!("{other}: not known; {usage}"),
    };
    let accounts = vec![Account::default(); THREADS];
    let mut made = Made { dice: Dice(1), collect: Collect::default(), accounts, waits: 0, requests: 0 };
    made.collect.name(0, "");
    (0..5).for_each(|n| made.collect.name(n + 1, &format!("worker {n}")));
    (0..THREADS as u32).for_each(|n| made.collect.known_as(1000 + n, 1 + n / 10));
    let (mut threads, mut cpus) = ([0; THREADS], [0; CPUS]);
    let of_cpus = count / 5;
    for n in 0..count - of_cpus {
        let thread = n % THREADS;
        threads[thread] = made.interval(thread, threads[thread], n / THREADS);
    }
    let end = threads.into_iter().max().unwrap_or(0);
    for n in 0..of_cpus {
        cpus[n % CPUS] = made.cpu(n % CPUS, cpus[n % CPUS], n / CPUS);
    }
    let text = |n: u32| format!("schedule;wait_{n};do_something_{};do_syscall_64", n % 7);
    let stacks = (1..=20).map(|n| StateStack { stack: n, text: text(n), ..StateStack::default() });
    let disks = vec![StateDisk { dev: DISK, disk: DISK, name: "sda".into(), ..StateDisk::default() }];
    let state = State { stacks: stacks.collect(), disks, ..State::default() };
    let result = result(&made.accounts, end);
    let rows = made.collect.finish(&result, &state)?;
    let mut document = run::empty("run", &format!("{count} intervals"), "2026-01-31T12:00:00Z");
    let events = "sched_switch,sched_waking,block_rq_complete";
    let environment = BTreeMap::from([("events".to_string(), events.to_string())]);
    let traced = Some(Traced { profile: None, rows });
    run::put(&mut document, Found { environment, result, traced, ..Found::default() }, "");
    let mut out = std::io::stdout().lock();
    if page {
        return plumb_report::page::write(&document, &mut out);
    }
    serde_json::to_writer(&mut out, &document)?;
    writeln!(out)?;
    Ok(())
}
