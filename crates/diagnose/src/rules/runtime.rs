// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Language runtimes.

use crate::case::{Case, Seen};
use crate::Evidence;
use plumb_model::{BlameRow, Category};
use plumb_trace::units;

/// Beginnings of the names of threads that collect garbage: the JVM's VM thread (serial collection, and what the
/// parallel ones do in between) and the workers of its collectors, .NET's.
const COLLECTORS: &[&str] = &[
    "VM Thread",
    "GC Thread#",
    "ParGC Thread",
    "G1 Main Marker",
    "G1 Conc#",
    "G1 Refine#",
    "Shenandoah GC",
    "ZWorker",
    "ZDriver",
    "XWorker",
    "XDriver",
    ".NET Server GC",
    ".NET BGC",
];

/// A collector of the target at work, or on a CPU that another thread of the target wants. Who waits on the run queue
/// behind a stranger's (`runnable`, `preempted`) waits for a CPU.
const WORK: &[Category] = &[Category::Running, Category::Crowded, Category::WokenIdle, Category::Memory];

fn collects(p: &BlameRow) -> bool {
    COLLECTORS.iter().any(|name| p.who.starts_with(name))
}

/// Threads that wait for a collection of garbage. Collections beside a program take only CPUs.
pub fn gc(case: &mut Case<'_>) -> Option<Seen> {
    let rows = || case.result.path.parts.iter().filter(|p| collects(p) && WORK.contains(&p.category));
    let mut threads: Vec<(&str, u64)> = Vec::new();
    for p in rows() {
        match threads.iter_mut().find(|(who, _)| *who == p.who) {
            Some((_, time)) => *time += p.time,
            None => threads.push((&p.who, p.time)),
        }
    }
    threads.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let first = threads.first()?.0.to_string();
    let process = match case.result.processes.as_slice() {
        [one] => format!(" in {} ({})", one.comm, one.pid),
        _ => String::new(),
    };
    let names = threads.iter().take(3).map(|(who, time)| format!("{who} {}", units::brief(*time)));
    let mut evidence = vec![Evidence::new("collectors", names.collect::<Vec<_>>().join(", "))];
    evidence.extend(case.longest_behind(&first));
    let by_category: Vec<(Category, u64)> = rows().map(|p| (p.category, p.time)).collect();
    let time = by_category.into_iter().map(|(c, time)| case.take(&[c], time as f64)).sum::<u64>();
    (time > 0).then(|| Seen {
        time,
        headline: format!("garbage collection{process}"),
        place: first,
        words: format!("{} while threads collect garbage", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}
