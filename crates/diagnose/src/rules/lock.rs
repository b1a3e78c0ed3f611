// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks: of user code, of files, of the kernel; herds.

use crate::case::{Case, Seen};
use crate::places::Of;
use crate::Evidence;
use plumb_model::profile::short;
use plumb_model::{At, BlameRow, Category, LockRow};
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
        (Some(a), Some(b)) if lock.chain.len() > 1 => {
            b.at.saturating_sub(a.at) as f64 / (lock.chain.len() - 1) as f64
        }
        _ => f64::INFINITY,
    }
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / all.max(1) as f64)
}

/// Who held a lock, what the holders did meanwhile, and the longest wait.
fn evidence(lock: &LockRow) -> Vec<Evidence> {
    let holders = lock.holders.iter().filter(|h| !h.who.is_empty()).take(3);
    let holders: Vec<String> = holders.map(|h| format!("{} {}", h.who, percent(h.time, lock.time))).collect();
    let mut out = vec![Evidence::new(
        if holders.is_empty() { "waits" } else { "held by" },
        format!(
            "{}{}{} waits, {} mean, {} max, up to {} {}",
            holders.join(", "),
            if holders.is_empty() { "" } else { ": " },
            units::count(lock.waits),
            units::brief(lock.time / lock.waits.max(1)),
            units::brief(lock.longest),
            lock.most_waiting,
            if lock.most_waiting == 1 { "waiter" } else { "waiters" }
        ),
    )];
    let doing = activities(&lock.doing);
    if !doing.is_empty() {
        out.push(Evidence::new("while held", format!("holder {}", doing.join(", "))));
    }
    let site = if lock.site.is_empty() { String::new() } else { format!(" in {}", lock.site) };
    out.push(Evidence::new("lock", format!("{} {}{site}", lock.kind, lock.lock)));
    if let Some(h) = lock.chain.iter().max_by_key(|h| h.waited) {
        let function = if h.function.is_empty() { String::new() } else { format!(" in {}", h.function) };
        out.push(Evidence {
            label: "longest wait".into(),
            words: format!(
                "{} in {} ({}), until {} ({}) released the lock{function} at {}; {} more waiting",
                units::brief(h.waited),
                h.next_comm,
                h.next,
                h.holder_comm,
                h.holder,
                units::duration(h.at),
                h.behind
            ),
            at: Some(h.at),
            time: Some(h.waited),
            tid: Some(h.next),
        });
    }
    out
}

/// What threads did, most time first, with its share.
pub(super) fn activities(doing: &[BlameRow]) -> Vec<String> {
    let all: u64 = doing.iter().map(|d| d.time).sum();
    let mut sums: Vec<(String, u64)> = Vec::new();
    for d in doing {
        let runnable = [Category::Woken, Category::Preempted, Category::Crowded].contains(&d.category);
        let words = match d.who.as_str() {
            who if runnable && !who.is_empty() => format!("{} behind {who}", d.category.activity()),
            _ => d.category.resting().to_string(),
        };
        match sums.iter_mut().find(|(w, _)| *w == words) {
            Some((_, time)) => *time += d.time,
            None => sums.push((words, d.time)),
        }
    }
    sums.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    sums.retain(|(_, time)| *time * 100 >= all);
    sums.iter().take(3).map(|(words, time)| format!("{words} {}", percent(*time, all))).collect()
}

fn of<'a>(case: &Case<'a>, kernel: bool) -> Option<&'a LockRow> {
    case.result.locks.iter().find(|l| (l.pid == 0) == kernel)
}

/// Where the target acquires the locks: a fact for the verdict, lines with callers, and the first function.
fn sites(case: &Case<'_>, categories: &[Category], of: Of) -> (Vec<Evidence>, Vec<Evidence>, String) {
    let places = case.places(categories, of);
    let fact = case.place_fact("acquired in", &places, categories);
    let first = places.first().map_or(String::new(), |p| short(&p.function));
    (fact, case.place_lines(&places, categories), first)
}

/// The next step for a lock that is acquired in `site`, or the rule's where that is not known.
fn shorten(lock: Option<&LockRow>, site: &str) -> String {
    let Some(most) = lock.and_then(|l| l.doing.first()).filter(|_| !site.is_empty()) else {
        return String::new();
    };
    format!("shorten the critical section in {site}: the holder is mostly {}", most.category.activity())
}

/// An interpreter that runs one thread at a time: CPython, Ruby.
pub fn interpreter(case: &mut Case<'_>) -> Option<Seen> {
    let user = || case.result.locks.iter().filter(|l| l.pid != 0);
    let of_interpreter = || user().filter(|l| l.kind == "global interpreter lock");
    let lock = of_interpreter().next()?;
    let sum = |locks: &mut dyn Iterator<Item = &LockRow>| locks.map(|l| l.time).sum::<u64>() as f64;
    let share = sum(&mut of_interpreter()) / sum(&mut user()).max(1.0);
    let process = case.result.processes.iter().find(|p| p.pid == lock.pid);
    let process = process.map_or(String::new(), |p| format!(" of {} ({})", p.comm, p.pid));
    let mut evidence = evidence(lock);
    // Who gave up for now tells who had it last, not who had it then.
    evidence.retain(|e| e.label != "while held");
    // Only its holder runs the interpreter's code.
    let running = &[Category::Running];
    let places = case.places(running, Of::User);
    evidence.splice(1..1, case.place_fact("held in", &places, running));
    let time = case.take(USER, case.left(USER) * share);
    (time > 0).then(|| Seen {
        time,
        headline: format!("contention on the global interpreter lock (GIL){process}"),
        words: format!("{} waiting for the interpreter, which runs one thread at a time", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn convoy(case: &mut Case<'_>) -> Option<Seen> {
    let lock = of(case, false)?;
    // Threads in futex(2) wait for the lock, whether its holder was told or not.
    let users: u32 = case.result.locks.iter().filter(|l| l.pid != 0).map(|l| l.most_waiting).sum();
    if users < QUEUE || hold(lock) > SHORT_HOLD {
        return None;
    }
    let (fact, lines, site) = sites(case, USER, Of::User);
    let queue =
        format!("up to {users} threads; the lock changes hands every {}", units::brief(hold(lock) as u64));
    let evidence = [fact, vec![Evidence::new("queue", queue)], evidence(lock), lines].concat();
    let time = case.take_all(&[Category::UserLock]);
    (time > 0).then(|| Seen {
        time,
        place: site,
        words: format!("{} waiting in a queue for the lock", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn user(case: &mut Case<'_>) -> Option<Seen> {
    let (fact, lines, site) = sites(case, USER, Of::User);
    let lock = of(case, false);
    let next = shorten(lock, &site);
    let spun = case.left(&[Category::Running]) * case.sampled(At::UserSpin);
    let blocked = case.take_all(&[Category::UserLock]);
    let spinning = case.take(&[Category::Running], spun);
    let time = blocked + spinning;
    let how = match spinning {
        0 => Vec::new(),
        _ => vec![Evidence::new(
            "waiting",
            format!("blocked {}, spinning {}", units::brief(blocked), units::brief(spinning)),
        )],
    };
    (time > 0).then(|| Seen {
        time,
        place: site,
        words: format!("{} waiting for the lock", units::brief(time)),
        evidence: [fact, lock.map(evidence).unwrap_or_default(), how, lines].concat(),
        next,
        ..Seen::default()
    })
}

pub fn file(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(&[Category::FileLock]);
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("held by", who));
    }
    evidence.extend(case.longest(&[Category::FileLock]));
    let time = case.take_all(&[Category::FileLock]);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} waiting for file locks", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn kernel(case: &mut Case<'_>) -> Option<Seen> {
    let running = case.left(&[Category::Running]);
    let spun = running * case.sampled(At::Spin);
    let blocked = case.take_all(&[Category::KernelLock]);
    let spinning = case.take_all(&[Category::Spinning]) + case.take(&[Category::Running], spun);
    let time = blocked + spinning;
    let lock = of(case, true);
    let places = case.places(KERNEL, Of::Kernel);
    let site = lock.map_or("", |l| l.site.as_str());
    let site = if site.is_empty() { places.first().map_or("", |p| p.function.as_str()) } else { site };
    let fact = case.place_fact("acquired in", &places, KERNEL);
    let lines = case.place_lines(&places, KERNEL);
    let kind = lock.map_or("lock", |l| l.kind.as_str());
    let how = format!("blocked {}, spinning {}", units::brief(blocked), units::brief(spinning));
    (time > 0).then(|| Seen {
        time,
        headline: if site.is_empty() {
            format!("contention on a kernel {kind}")
        } else {
            format!("contention on a kernel {kind} in {site}()")
        },
        place: site.into(),
        words: format!("{} waiting for the lock", units::brief(time)),
        evidence: [fact, lock.map(evidence).unwrap_or_default(), vec![Evidence::new("waiting", how)], lines]
            .concat(),
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
            "{} of {} wakeups were futile: the thread went back to sleep",
            units::count(futile),
            units::count(wakeups)
        ),
        evidence: vec![Evidence::new("wakeups", format!("up to {largest} threads at once"))],
        doubt: vec!["futile wakeups are inferred from how soon the thread sleeps again".into()],
        ..Seen::default()
    })
}
