// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load's operations as events of a recording that is under way: `plumb
//! run -- plumb load ...` has them in its account.

use crate::engine::Operation;
use plumb_trace::load::LoadStream;

/// A worker's stream in the trace of the recording that started the load.
#[derive(Debug)]
pub struct Events {
    stream: LoadStream,
    operations: u64,
}

impl Events {
    /// Opens the stream of worker `worker`; `None` when nobody records.
    ///
    /// # Errors
    /// There is a recording and it takes no stream; a sentence.
    pub fn open(worker: u32) -> Result<Option<Self>, String> {
        match LoadStream::from_env(worker) {
            Ok(stream) => Ok(stream.map(|stream| Events { stream, operations: 0 })),
            Err(e) => Err(format!("the recording that started this load takes no events of it: {e}")),
        }
    }

    /// The operation in `slot` began at `at`, ns of CLOCK_MONOTONIC.
    #[inline]
    pub fn begin(&mut self, op: &Operation, slot: u32, at: u64) {
        self.operations += 1;
        self.stream.begin(at, op.kind, slot as u16, op.file, op.offset);
    }

    /// It ended; `late` is how long after it was due it began, ns.
    #[inline]
    pub fn end(&mut self, slot: u32, at: u64, result: i64, late: u64) {
        self.stream.end(at, slot as u16, result, late);
    }

    /// Writes what is held back; operations whose events may be missing.
    pub fn finish(self) -> u64 {
        match self.stream.finish() {
            Ok(()) => 0,
            Err(_) => self.operations,
        }
    }
}
