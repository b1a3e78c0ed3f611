// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks: of user code, of files, of the kernel; herds.

use crate::case::{Case, Seen};
use crate::places::Of;
use crate::Evidence;
use plumb_model::{Category, LockRow};
use plumb_trace::units;

/// So many threads behind one lock are a queue.
const QUEUE: u32 = 4;
/// A lock that changes hands faster than this is a convoy, not a holder that does something long, ns.
const SHORT_HOLD: f64 = 3e6;
/// So many futile wakeups are no accident.
const HERD: u64 = 50;

const USER: &[Category] = &[Category::UserLock];
const KERNEL: &[Category] = &[Category::KernelLock, Category::Spinning];

/// Mean time from one change of hands to the next, ns.
fn hold(lock: &LockRow) -> f64 {
    match (lock.chain.first(), lock.chain.last()) {
        (Some(a), Some(b)) if lock.chain.len() > 1 => (b.at - a.at) as f64 / (lock.chain.len() - 1) as f64,
        _ => f64::INFINITY,
    }
}

fn evidence(lock: &LockRow) -> Vec<Evidence> {
    let mut out = vec![Evidence {
        words: format!(
            "{} {}{}: {} waits, {} together, longest {}, up to {} threads at once",
            lock.kind,
            lock.lock,
            if lock.site.is_empty() { String::new() } else { format!(" in {}", lock.site) },
            units::count(lock.waits),
            units::duration(lock.time),
            units::duration(lock.longest),
            lock.most_waiting
        ),
        ..Evidence::default()
    }];
    let holders: Vec<String> = lock
        .holders
        .iter()
        .filter(|h| !h.who.is_empty())
        .take(3)
        .map(|h| format!("{} {:.0} %", h.who, h.time as f64 * 100.0 / lock.time.max(1) as f64))
        .collect();
    if !holders.is_empty() {
        out.push(Evidence { words: format!("let go by {}", holders.join(", ")), ..Evidence::default() });
    }
    let all: u64 = lock.doing.iter().map(|d| d.time).sum();
    let doing: Vec<String> = lock
        .doing
        .iter()
        .take(3)
        .map(|d| {
            let who = if d.who.is_empty() { String::new() } else { format!(" ({})", d.who) };
            format!("{}{who} {:.0} %", d.category, d.time as f64 * 100.0 / all.max(1) as f64)
        })
        .collect();
    if !doing.is_empty() {
        out.push(Evidence {
            words: format!("what who let go was at meanwhile: {}", doing.join(", ")),
            ..Evidence::default()
        });
    }
    if let Some(h) = lock.chain.iter().max_by_key(|h| h.waited) {
        let function = if h.function.is_empty() { String::new() } else { format!(" in {}", h.function) };
        out.push(Evidence {
            words: format!(
                "{} ({}) let go{function} at {}, {} ({}) got it after {}, {} behind it",
                h.holder_comm,
                h.holder,
                units::duration(h.at),
                h.next_comm,
                h.next,
                units::duration(h.waited),
                h.behind
            ),
            at: Some(h.at),
            time: Some(h.waited),
            tid: Some(h.next),
        });
    }
    out
}

fn of<'a>(case: &Case<'a>, kernel: bool) -> Option<&'a LockRow> {
    case.result.locks.iter().find(|l| (l.pid == 0) == kernel)
}

/// Where the target wants the locks, in words and with callers.
fn sites(case: &Case<'_>, categories: &[Category], of: Of) -> (String, Vec<Evidence>) {
    let places = case.places(categories, of);
    let words = case.place_words(&places, categories);
    let words = if words.is_empty() { words } else { format!("; wanted {words}") };
    (words, case.place_lines(&places, categories))
}

pub fn convoy(case: &mut Case<'_>) -> Option<Seen> {
    let lock = of(case, false)?;
    // Threads in futex(2) wait for the lock, whether its holder was told or not.
    let users: u32 = case.result.locks.iter().filter(|l| l.pid != 0).map(|l| l.most_waiting).sum();
    if users < QUEUE || hold(lock) > SHORT_HOLD {
        return None;
    }
    let (sites, lines) = sites(case, USER, Of::User);
    let evidence = [lines, evidence(lock)].concat();
    let time = case.take_all(&[Category::UserLock]);
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "waited {} in a queue of up to {} threads for locks that change hands every {}{sites}",
            units::duration(time),
            users,
            units::duration(hold(lock) as u64)
        ),
        evidence,
        ..Seen::default()
    })
}

pub fn user(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::UserLock]);
    let (sites, lines) = sites(case, USER, Of::User);
    let time = case.take_all(&[Category::UserLock]);
    (time > 0).then(|| Seen {
        time,
        words: format!("waited {} for a lock held by {who}{sites}", units::duration(time)),
        evidence: [lines, of(case, false).map(evidence).unwrap_or_default()].concat(),
        ..Seen::default()
    })
}

pub fn file(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::FileLock]);
    let evidence = case.longest(&[Category::FileLock]);
    let time = case.take_all(&[Category::FileLock]);
    (time > 0).then(|| Seen {
        time,
        words: format!("waited {} for a file lock that {who} let go", units::duration(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn kernel(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let spun = case.sampled("spinning for locks");
    let who = case.who(&[Category::KernelLock]);
    let slept = case.take_all(&[Category::KernelLock]);
    let time = slept + case.take_all(&[Category::Spinning]) + case.take(&[Category::Running], running * spun);
    let lock = of(case, true);
    let places = case.places(KERNEL, Of::Kernel);
    let site = lock.map_or("", |l| l.site.as_str());
    let site = if site.is_empty() { places.first().map_or("", |p| p.function.as_str()) } else { site };
    let lines = case.place_lines(&places, KERNEL);
    let kind = lock.map_or("lock", |l| l.kind.as_str());
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "waited {} for a {kind} of the kernel{}{}",
            units::duration(time),
            if site.is_empty() { String::new() } else { format!(" in {site}") },
            if who.is_empty() { String::new() } else { format!(", let go by {who}") }
        ),
        evidence: [lines, lock.map(evidence).unwrap_or_default()].concat(),
        ..Seen::default()
    })
}

pub fn herd(case: &mut Case<'_>) -> Option<Seen> {
    let h = &case.result.herds;
    if h.futile < HERD || h.futile * 2 < h.wakeups {
        return None;
    }
    let threads: u64 = case.result.processes.iter().map(|p| p.thread_time).sum();
    let active: u64 = [
        Category::Running,
        Category::Woken,
        Category::Preempted,
        Category::Crowded,
        Category::WokenIdle,
        Category::Spinning,
    ]
    .iter()
    .map(|c| case.result.processes.iter().map(|p| p.part(*c)).sum::<u64>())
    .sum();
    // On the path it costs what it costs of the threads' active time.
    let share = h.time as f64 / active.max(1).min(threads) as f64;
    let categories =
        &[Category::Running, Category::Woken, Category::Preempted, Category::Crowded, Category::WokenIdle];
    let time = case.take(categories, case.left(categories) * share.min(1.0));
    let (futile, wakeups, largest) = (h.futile, h.wakeups, h.largest);
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "{} of {} wakeups of up to {largest} threads at once were for nothing",
            units::count(futile),
            units::count(wakeups)
        ),
        evidence: Vec::new(),
        doubt: vec!["which wakeup was meant is judged by how soon the thread slept again".into()],
    })
}
