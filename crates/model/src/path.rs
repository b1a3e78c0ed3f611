// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The critical path that leads to a thread: where it waits for another thread
//! of the target, that one's path is its own (C.-Q. Yang and B. Miller,
//! "Critical path analysis for the execution of parallel and distributed
//! programs"). Kept forward: each thread carries what leads to its present.

use crate::parts::{Part, Parts, Piece};

/// Steps that a path remembers, the longest.
const STEPS: usize = 24;

/// One wait on a path, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub tid: u32,
    pub name: u32,
    pub part: Part,
    pub from: u64,
    pub to: u64,
}

/// What leads to a moment of a thread.
#[derive(Debug, Clone, Default)]
pub struct Path {
    /// What its time went to; adds up to the time since the target's begin.
    pub parts: Parts,
    steps: Vec<Step>,
}

impl Path {
    /// The thread was on a CPU.
    pub fn ran(&mut self, part: Part, ns: u64) {
        if ns > 0 {
            self.parts.add(part, ns);
        }
    }

    /// The thread waited, and nothing of the target was behind it.
    pub fn waited(&mut self, tid: u32, name: u32, p: &Piece) {
        self.parts.add(p.part, p.to - p.from);
        keep(&mut self.steps, STEPS, Step { tid, name, part: p.part, from: p.from, to: p.to });
    }

    /// Takes over the path of the thread that ended a wait.
    pub fn copy(&mut self, other: &Path) {
        self.parts.clone_from(&other.parts);
        self.steps.clone_from(&other.steps);
    }

    /// The longest waits in the order of time.
    pub fn steps(&self) -> Vec<Step> {
        let mut out = self.steps.clone();
        out.sort_by_key(|s| s.from);
        out
    }
}

pub fn keep(list: &mut Vec<Step>, most: usize, step: Step) {
    let length = |s: &Step| s.to - s.from;
    if list.len() == most {
        let Some(least) = (0..list.len()).min_by_key(|i| length(&list[*i])) else { return };
        if length(&step) <= length(&list[least]) {
            return;
        }
        list.swap_remove(least);
    }
    list.push(step);
}
