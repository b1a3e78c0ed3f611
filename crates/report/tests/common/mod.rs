// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded traces, and what the model says of them.
#![allow(dead_code, reason = "each test file uses its part")]

use plumb_analysis::Analysis;
use plumb_model::RunResult;
use plumb_report::stream::{Interval, RequestRow, SampleRow, Stream, Take, Wait};
use plumb_trace::reader::Trace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Traces that most tests look at: waits for disks, threads, locks, sockets; requests of two disks.
pub const TRACES: &[&str] =
    &["write-fsync", "direct-writes", "pipe", "mutex", "join", "tcp-peer", "cold-read"];

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name)
}

/// A recorded trace, opened.
pub fn open(name: &str) -> Trace {
    Trace::open(&path(name)).expect("a recorded trace")
}

/// What the rows add up to.
#[derive(Debug, Default)]
pub struct Sums {
    /// By thread and category: intervals and their length.
    pub states: BTreeMap<(u32, &'static str), (u64, u64)>,
    pub waits: u64,
    /// Requests and their time from queue to completion.
    pub requests: (u64, u64),
    pub samples: u64,
}

impl Take for Sums {
    fn interval(&mut self, i: &Interval) {
        let sum = self.states.entry((i.tid, i.category.name())).or_default();
        *sum = (sum.0 + 1, sum.1 + i.to - i.from);
    }
    fn wait(&mut self, _: &Wait) {
        self.waits += 1;
    }
    fn request(&mut self, row: &RequestRow) {
        self.requests = (self.requests.0 + 1, self.requests.1 + row.steps[5] - row.steps[0]);
    }
    fn sample(&mut self, _: &SampleRow) {
        self.samples += 1;
    }
}

/// What the model says of a trace.
pub fn modelled(trace: &Trace) -> (RunResult, Sums) {
    let rows = Stream::new(plumb_analysis::setup::span(trace).0, Sums::default());
    let (analysis, stream) = Analysis::read(trace, rows).expect("readable");
    (analysis.result, stream.finish())
}
