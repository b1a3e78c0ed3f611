// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a disk was asked for in a recording, as tasks of a simulation: each after what it waited for.

use crate::device::{Ns, Operation};
use crate::queue::classes::{Classes, Pieces};
use crate::queue::task::{scripts, Recorded, Task};
use crate::queue::Class;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Replay {
    pub dir: String,
    pub disk: String,
    /// The scheduler that it had; empty where the trace does not tell.
    pub scheduler: String,
    /// Operations that are done again.
    pub operations: usize,
    /// Those of them that --max-request makes several requests of: each is counted once as recorded, and request by
    /// request as simulated.
    pub split: usize,
    pub threads: usize,
    /// Pieces that a simulation cannot do: zone commands, zeroes, what passes a driver by.
    pub left_out: u64,
    /// Requests that completed without anything known of who queued them, or when.
    pub unknown: u64,
    /// Events of the kernel that were lost.
    pub lost: u64,
    /// The operations themselves.
    #[serde(skip)]
    pub recorded: Vec<Recorded>,
}

impl Replay {
    /// The tasks, all of one job.
    pub fn tasks(&self, start: Ns) -> Vec<Task> {
        let scripts = scripts(self.recorded.clone());
        scripts.into_iter().zip(0..).map(|(script, n)| Task::replay(script, 0, n, start)).collect()
    }

    /// Behind the last byte that was asked for.
    pub fn end(&self) -> u64 {
        self.recorded.iter().map(|r| r.offset.saturating_add(u64::from(r.length))).max().unwrap_or(0)
    }

    /// What each class got when it was recorded.
    pub fn classes(&self, step: Ns) -> Classes {
        let with_data = self.recorded.iter().filter(|r| r.operation != Operation::Flush);
        let pieces = with_data.map(|r| (r.class, r.queued, r.ended, u64::from(r.length)));
        Pieces(pieces.collect()).classes(0, step)
    }

    /// Only what is not of the idle class.
    pub fn without_idle(&self) -> Vec<Task> {
        let normal: Vec<_> = self.recorded.iter().filter(|r| r.class != Class::Idle).copied().collect();
        scripts(normal).into_iter().zip(0..).map(|(script, n)| Task::replay(script, 0, n, 0)).collect()
    }

    /// Whether anything of this class was recorded.
    pub fn has(&self, idle: bool) -> bool {
        self.recorded.iter().any(|r| (r.class == Class::Idle) == idle)
    }
}
