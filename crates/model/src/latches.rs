// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futexes by what ends the waits on them. A lock's word tells its holder; that of a condition variable tells
//! nothing, so who ended earlier waits decides: a wait with a timeout is no sleep where threads have ended such
//! waits, and an interpreter's global lock is known by the function in which its holder lets go.

use plumb_trace::reader::State;
use rustc_hash::{FxHashMap, FxHashSet};

/// Futexes that are remembered.
const MOST: usize = 65_536;
/// Innermost frames among which an interpreter's function is looked for.
const FRAMES: usize = 16;

/// Functions in which a thread lets go of its interpreter's global lock: CPython (Python/ceval_gil.c) and Ruby
/// (thread_pthread.c).
const RELEASES: &[&str] = &[
    "drop_gil",
    "PyEval_SaveThread",
    "PyEval_ReleaseThread",
    "PyGILState_Release",
    "thread_sched_to_waiting",
    "gvl_release",
    "gvl_release_common",
];

/// What is known of a futex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latch {
    /// A thread ended a wait for it.
    Woken,
    /// The global lock of an interpreter, with the address that stands for it.
    Interpreter(u64),
}

#[derive(Debug, Default)]
pub struct Latches {
    /// By process and address. glibc's condition variables have two words, side by side, that take turns.
    of: FxHashMap<(u32, u64), Latch>,
    /// User stacks of threads that let go of an interpreter.
    releases: FxHashSet<u32>,
}

/// User stacks of threads that let go of an interpreter.
fn releases(state: &State) -> FxHashSet<u32> {
    let releases =
        |names: &str| names.split('\n').any(|n| n.split('.').next().is_some_and(|n| RELEASES.contains(&n)));
    let places: FxHashSet<(u64, u64)> = state
        .functions
        .iter()
        .filter(|f| releases(&f.names))
        .map(|f| (u64::from(f.module), f.offset))
        .collect();
    if places.is_empty() {
        return FxHashSet::default();
    }
    let stacks = state.user_stacks.iter().filter(|s| {
        let mut frames = s.frames.iter().take(FRAMES).filter_map(|f| state.user_stacks.place(*f));
        frames.any(|place| places.contains(&place))
    });
    stacks.map(|s| s.stack).collect()
}

/// Whether a thread was seen that lets go of an interpreter's global lock. The names by which that is known are found
/// when a recording ends.
pub fn has_interpreter(state: &State) -> bool {
    !releases(state).is_empty()
}

impl Latches {
    pub fn new(state: &State) -> Self {
        Self { of: FxHashMap::default(), releases: releases(state) }
    }

    /// A thread ended a wait of a process's thread; `stack`: its user stack then.
    pub fn woken(&mut self, pid: u32, address: u64, stack: Option<u32>) {
        let key = (pid, address & !7);
        if self.of.len() >= MOST && !self.of.contains_key(&key) {
            return;
        }
        let latch = self.of.entry(key).or_insert(Latch::Woken);
        if *latch == Latch::Woken && stack.is_some_and(|s| self.releases.contains(&s)) {
            *latch = Latch::Interpreter(address);
        }
    }

    /// What is known of it.
    pub fn get(&self, pid: u32, address: u64) -> Option<Latch> {
        self.of.get(&(pid, address & !7)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::schema::{StateFunction, StateUserStack};
    use std::sync::Arc;

    #[test]
    fn an_interpreters_lock_is_known_by_who_lets_go() {
        let function = |offset, names: &str| StateFunction {
            module: 3,
            offset,
            names: names.into(),
            ..StateFunction::default()
        };
        let mut state = State {
            functions: vec![
                function(0x10, "pthread_cond_signal"),
                function(0x20, "drop_gil.lto_priv.0\n_PyEval_Tick"),
                function(0x30, "not_drop_gil"),
            ],
            ..State::default()
        };
        let stacks = Arc::make_mut(&mut state.user_stacks);
        for (stack, offsets) in [(1, [0x10, 0x20]), (2, [0x10, 0x30])] {
            let (modules, offsets) = (vec![3, 3], offsets.to_vec());
            stacks.push(&StateUserStack { stack, modules, offsets, ..StateUserStack::default() });
        }
        let mut latches = Latches::new(&state);
        assert_eq!(latches.get(7, 0x1000), None);
        latches.woken(7, 0x1000, Some(2));
        assert_eq!(latches.get(7, 0x1000), Some(Latch::Woken), "another function woke");
        latches.woken(7, 0x1004, Some(1));
        latches.woken(7, 0x1000, None);
        assert_eq!(
            latches.get(7, 0x1000),
            Some(Latch::Interpreter(0x1004)),
            "the other word is the same lock"
        );
        assert_eq!(latches.get(8, 0x1000), None, "another process");
    }
}
