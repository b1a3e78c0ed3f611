// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of the target: the processes of some names.

use crate::Analysis;
use anyhow::{bail, Result};
use plumb_model::{BlameRow, Category, PathResult, RunResult};
use std::collections::BTreeMap;

impl Analysis {
    /// Leaves only the processes of these names; all of them where none is given.
    ///
    /// # Errors
    /// No process is called so.
    pub fn select(&mut self, comms: &[String]) -> Result<()> {
        if comms.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.result.processes.iter().map(|p| p.comm.clone()).collect();
        self.result.processes.retain(|p| comms.contains(&p.comm));
        if self.result.processes.is_empty() {
            let mut names = names;
            names.sort();
            names.dedup();
            bail!("no process is called {}; there are: {}", comms.join(" or "), names.join(", "));
        }
        let profile = std::mem::take(&mut self.profile);
        self.profile = profile
            .filtered(|p, e| p.threads.get(e.thread as usize).is_some_and(|t| comms.contains(&t.process)));
        // The command's critical path is not that of a part of its processes.
        self.result.path = threads_path(&self.result);
        self.judge();
        Ok(())
    }
}

/// Sum over the threads of the processes that are shown, as a path.
fn threads_path(result: &RunResult) -> PathResult {
    let mut parts: BTreeMap<(Category, String), u64> = BTreeMap::new();
    for p in &result.processes {
        let mut left = p.account.clone();
        for b in &p.blame {
            *parts.entry((b.category, b.who.clone())).or_default() += b.time;
            left.entry(b.category).and_modify(|ns| *ns = ns.saturating_sub(b.time));
        }
        for (category, time) in left.into_iter().filter(|(_, ns)| *ns > 0) {
            *parts.entry((category, p.comm.clone())).or_default() += time;
        }
    }
    let mut parts: Vec<BlameRow> =
        parts.into_iter().map(|((category, who), time)| BlameRow { category, who, time }).collect();
    parts.sort_by_key(|p| std::cmp::Reverse(p.time));
    let time = parts.iter().map(|p| p.time).sum();
    PathResult { of: "threads".into(), time, parts, ..PathResult::default() }
}
