// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal of a file system (jbd2): which thread commits which
//! transaction, since when, and who asked for it.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Commits of one journal that are remembered.
const KEPT: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// When it began, ns.
    pub start: u64,
    /// When it was over, ns; none while it goes on.
    pub end: Option<u64>,
    /// Thread that woke the journal's for it, and its name.
    pub asked_by: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Commits {
    pub commits: u64,
    /// Their time, ns.
    pub time: u64,
}

/// All journals, by the thread that commits.
#[derive(Debug, Default)]
pub struct Journals {
    threads: FxHashMap<u32, VecDeque<Commit>>,
    pub totals: Commits,
}

impl Journals {
    pub fn begin(&mut self, tid: u32, ts: u64, asked_by: Option<(u32, u32)>) {
        let commits = self.threads.entry(tid).or_default();
        if commits.len() == KEPT {
            commits.pop_front();
        }
        commits.push_back(Commit { start: ts, end: None, asked_by });
    }

    pub fn end(&mut self, tid: u32, ts: u64) {
        let Some(commit) = self.threads.get_mut(&tid).and_then(VecDeque::back_mut) else { return };
        if commit.end.is_none() {
            commit.end = Some(ts);
            self.totals.commits += 1;
            self.totals.time += ts - commit.start;
        }
    }

    /// Nothing is recorded for a while: when the open ones end is not seen.
    pub fn pause(&mut self) {
        self.threads.values_mut().for_each(|commits| commits.retain(|c| c.end.is_some()));
    }

    /// The commit that the thread was at when thread `me` began to wait at `ts`,
    /// unless it is the one that `me` asked for.
    pub fn earlier(&self, tid: u32, ts: u64, me: u32) -> Option<&Commit> {
        let commits = self.threads.get(&tid)?;
        let at = commits.iter().rev().find(|c| c.start < ts && c.end.is_none_or(|end| end > ts));
        at.filter(|c| c.asked_by.is_none_or(|(tid, _)| tid != me))
    }
}
