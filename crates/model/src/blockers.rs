// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads of the target that requests in progress waited for.

use crate::parts::Names;
use crate::result::BlockerRow;
use rustc_hash::FxHashMap;

/// Threads that are remembered.
const MOST: usize = 4096;
/// Threads in a result.
const SHOWN: usize = 10;

#[derive(Debug, Clone, Copy)]
struct Blocker {
    pid: u32,
    name: u32,
    waits: u64,
    time: u64,
}

#[derive(Debug, Default)]
pub struct Blockers(FxHashMap<u32, Blocker>);

impl Blockers {
    /// A request waited for a thread (process, thread), ns.
    pub fn add(&mut self, (pid, tid): (u32, u32), name: u32, time: u64) {
        if self.0.len() >= MOST && !self.0.contains_key(&tid) {
            return;
        }
        let b = self.0.entry(tid).or_insert(Blocker { pid, name, waits: 0, time: 0 });
        b.waits += 1;
        b.time += time;
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        for (tid, b) in &other.0 {
            let known = self.0.entry(*tid).or_insert(Blocker { waits: 0, time: 0, ..*b });
            known.waits += b.waits;
            known.time += b.time;
        }
    }

    /// Most time first.
    pub fn rows(&self, names: &Names) -> Vec<BlockerRow> {
        let row = |(tid, b): (&u32, &Blocker)| BlockerRow {
            tid: *tid,
            pid: b.pid,
            comm: names.name(b.name).into(),
            waits: b.waits,
            time: b.time,
        };
        let mut rows: Vec<BlockerRow> = self.0.iter().map(row).collect();
        rows.sort_by_key(|r| (std::cmp::Reverse(r.time), r.tid));
        rows.truncate(SHOWN);
        rows
    }
}
