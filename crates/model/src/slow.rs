// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that took longer than they may, for who looks at a recording while it grows.

/// Those that nobody has asked for yet; more are not kept.
const MOST: usize = 4096;

/// A request that a process of the target answered, from its arrival to the answer; times in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// The service, see [`crate::RunResult::services`]; empty where the target has none.
    pub service: String,
    /// Who answered it.
    pub thread: u32,
    pub begin: u64,
    pub end: u64,
}

#[derive(Debug, Default)]
pub struct Slow {
    /// Longer than this is too long, ns; nothing: nobody looks.
    pub limit: Option<u64>,
    pub seen: Vec<SlowRequest>,
}

impl Slow {
    pub fn answered(&mut self, thread: u32, (begin, end): (u64, u64), service: impl FnOnce() -> String) {
        let slow = self.limit.is_some_and(|limit| end.saturating_sub(begin) > limit);
        if slow && self.seen.len() < MOST {
            self.seen.push(SlowRequest { service: service(), thread, begin, end });
        }
    }
}
