// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files and pages of a run have a size, however much happened in it: what is left out of a list is added up in its last
//! row or counted.

use crate::Analysis;
use plumb_model::profile::Profile;
use plumb_model::{add_process, add_thread, BlameRow, Category, ProcessRow, RunResult, ThreadRow};
use plumb_trace::units;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Processes one by one.
const PROCESSES: usize = 400;
/// Threads of all of them one by one.
const THREADS: usize = 2000;
/// Names of who else ran.
const OTHERS: usize = 1000;
/// Stacks of unexplained waits.
const UNEXPLAINED: usize = 200;
/// Times that each of the first locks changed hands, and each of the rest.
const HANDOFFS: (usize, usize, usize) = (4, 512, 64);
/// Intervals in which events are missing.
const GAPS: usize = 1000;

impl Analysis {
    /// What is written of it; without the profile.
    pub fn bounded(&self) -> Self {
        let mut quality = self.quality.clone();
        let mut result = bounded(&self.result);
        if quality.gaps.len() > GAPS {
            result.left_out.insert("gaps".into(), (quality.gaps.len() - GAPS) as u64);
            quality.gaps.sort_by_key(|(.., lost)| Reverse(*lost));
            quality.gaps.truncate(GAPS);
            quality.gaps.sort_by_key(|(_, begin, ..)| *begin);
        }
        let (environment, diagnosis) = (self.environment.clone(), self.diagnosis.clone());
        Self { environment, quality, diagnosis, result, profile: Profile::default() }
    }
}

fn bounded(whole: &RunResult) -> RunResult {
    let mut result = RunResult { services: Vec::new(), ..whole.clone() };
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    let mut leave = |what: &str, rows: usize| {
        if rows > 0 {
            left_out.insert(what.into(), rows as u64);
        }
    };
    leave("processes", processes(&mut result.processes));
    leave("threads", threads(&mut result.processes));
    leave("others", result.others.len().saturating_sub(OTHERS));
    result.others.truncate(OTHERS);
    leave("unexplained", result.unexplained.len().saturating_sub(UNEXPLAINED));
    result.unexplained.truncate(UNEXPLAINED);
    let (first, many, few) = HANDOFFS;
    let mut handoffs = 0;
    for (i, lock) in result.locks.iter_mut().enumerate() {
        let most = if i < first { many } else { few };
        let more = lock.chain.len().saturating_sub(most);
        handoffs += more;
        lock.chain.drain(..more);
    }
    leave("handoffs", handoffs);
    RunResult { left_out, ..result }
}

/// Adds up the processes with the least thread time in one row of process id 0.
fn processes(rows: &mut Vec<ProcessRow>) -> usize {
    if rows.len() <= PROCESSES {
        return 0;
    }
    rows.sort_by_key(|r| (r.pid == 0, Reverse(r.thread_time), r.begin, r.pid));
    let more = rows.split_off(PROCESSES);
    let mut sum = ProcessRow::default();
    let mut blame: BTreeMap<(Category, String), u64> = BTreeMap::new();
    for (i, row) in more.iter().enumerate() {
        add_process(&mut sum, row, i == 0);
        row.blame.iter().for_each(|b| *blame.entry((b.category, b.who.clone())).or_default() += b.time);
    }
    sum.blame = blame.into_iter().map(|((category, who), time)| BlameRow { category, who, time }).collect();
    sum.blame.sort_by_key(|b| Reverse(b.time));
    // One of them may be a sum already.
    let earlier = more.iter().find(|r| r.pid == 0).map(|r| r.comm.as_str());
    let single = units::count((more.len() - usize::from(earlier.is_some())) as u64);
    sum.comm =
        earlier.map_or_else(|| format!("{single} more processes"), |e| format!("{single} processes and {e}"));
    rows.push(sum);
    rows.sort_by_key(|r| (r.begin, r.pid));
    more.len()
}

/// Adds up those threads of each process that live shortest in one row of thread id 0.
fn threads(rows: &mut [ProcessRow]) -> usize {
    let mut lives: Vec<u64> = rows.iter().flat_map(|p| &p.threads).map(|t| t.elapsed).collect();
    if lives.len() <= THREADS {
        return 0;
    }
    lives.sort_unstable_by_key(|ns| Reverse(*ns));
    let least = lives[THREADS];
    let mut left = 0;
    for p in rows {
        let (mut kept, more): (Vec<ThreadRow>, Vec<ThreadRow>) =
            std::mem::take(&mut p.threads).into_iter().partition(|t| t.elapsed > least);
        left += more.len();
        let mut more = more.into_iter();
        if let Some(first) = more.next() {
            let mut sum = ThreadRow { tid: 0, ..first };
            more.for_each(|t| add_thread(&mut sum, &t));
            kept.push(sum);
        }
        p.threads = kept;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(n: u32) -> ProcessRow {
        let account = BTreeMap::from([(Category::Running, u64::from(n))]);
        let thread =
            ThreadRow { tid: n, elapsed: u64::from(n), account: account.clone(), ..ThreadRow::default() };
        let blame = vec![BlameRow { category: Category::Running, who: "x".into(), time: 1 }];
        let threads = vec![thread; 10];
        ProcessRow {
            pid: n,
            begin: n.into(),
            thread_time: n.into(),
            account,
            blame,
            threads,
            ..ProcessRow::default()
        }
    }

    fn sum(result: &RunResult) -> (u64, u64, u64) {
        let threads = result.processes.iter().flat_map(|p| &p.threads);
        let blame = result.processes.iter().flat_map(|p| &p.blame);
        (
            result.processes.iter().map(|p| p.part(Category::Running)).sum(),
            threads.map(|t| t.elapsed).sum(),
            blame.map(|b| b.time).sum(),
        )
    }

    #[test]
    fn what_is_left_out_is_added_up() {
        let whole = RunResult { processes: (1..=3000).map(process).collect(), ..RunResult::default() };
        let written = bounded(&whole);
        assert_eq!(written.processes.len(), PROCESSES + 1);
        assert_eq!(written.left_out["processes"], 2600);
        let rest = written.processes.iter().find(|p| p.pid == 0).expect("the rest");
        assert_eq!((rest.comm.as_str(), rest.threads.len()), ("2,600 more processes", 0));
        // Threads of the processes that are added up have no rows.
        let shown: u64 =
            whole.processes.iter().filter(|p| p.pid > 2600).flat_map(|p| &p.threads).map(|t| t.elapsed).sum();
        let (cpu, _, blame) = sum(&whole);
        assert_eq!(sum(&written), (cpu, shown, blame));
        let rows: usize = written.processes.iter().map(|p| p.threads.len()).sum();
        assert!(rows <= THREADS + PROCESSES, "{rows}");
    }

    #[test]
    fn what_was_added_up_before_is_told_with_it() {
        let mut whole = RunResult { processes: (1..=900).map(process).collect(), ..RunResult::default() };
        whole.processes.push(ProcessRow { pid: 0, comm: "5,000 more processes".into(), ..process(7) });
        let written = bounded(&whole);
        let rest = written.processes.iter().find(|p| p.pid == 0).expect("the rest");
        assert_eq!(rest.comm, "500 processes and 5,000 more processes");
        assert_eq!(sum(&written).0, sum(&whole).0);
    }

    #[test]
    fn a_small_run_is_written_whole() {
        let whole = RunResult { processes: (1..=30).map(process).collect(), ..RunResult::default() };
        assert_eq!(bounded(&whole), whole);
    }
}
