// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load's operations as events of a recording that is under way.

use crate::engine::Operation;

/// A worker's stream in the trace of the recording that started the load.
#[derive(Debug)]
pub struct Events;

impl Events {
    /// Opens the stream of worker `worker`; `None` when nobody records.
    pub fn open(_worker: u32) -> Option<Self> {
        None
    }

    /// An operation that began and ended, ns of CLOCK_MONOTONIC.
    #[inline(always)]
    pub fn operation(&mut self, _op: &Operation, _begin: u64, _end: u64, _result: i64) {}

    /// Writes what is held back; operations that could not be written.
    pub fn finish(&mut self) -> u64 {
        0
    }
}
