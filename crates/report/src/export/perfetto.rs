// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Perfetto's trace format: for its page, and for SQL with its trace_processor.
//!
//! The kernel's records come as ftrace's events, so that Perfetto's own scheduling tables and
//! critical path work on them; what the model makes of them lies beside, on tracks of the threads
//! and disks. One pass; packets are not in the order of time, their reader sorts them.

mod counters;
mod findings;
mod packets;
mod preamble;
mod proto;
mod rows;
mod samples;
mod sched;
#[cfg(test)]
mod tests;

use crate::stream::Stream;
use anyhow::{bail, Context, Result};
use packets::Packets;
use plumb_analysis::{has_account, setup, Analysis, Pass};
use plumb_model::sched::Switch;
use plumb_model::tasks::{At, Step, Tasks};
use plumb_trace::reader::{Item, RawRecord, Trace};
use rows::{Rows, Shared};
use sched::Bundles;
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    pub packets: u64,
    /// Records that came as ftrace's events.
    pub ftrace_events: u64,
    /// Of those, switches and wakeups.
    pub sched_events: u64,
    /// Intervals of threads of the target.
    pub intervals: u64,
    /// Waits that those are parts of.
    pub waits: u64,
    pub wakeups: u64,
    pub requests: u64,
    pub operations: u64,
    pub samples: u64,
    /// Of those, with a stack.
    pub samples_with_stack: u64,
    /// Intervals in which events are missing.
    pub gaps: u64,
}

/// Writes one record, and what follows from it.
fn record<W: Write>(
    r: &RawRecord<'_>,
    shared: &mut Shared<W>,
    bundles: &mut Bundles,
    depth: &mut counters::Depth,
    trace: &Trace,
) {
    let Shared { out, tasks } = shared;
    tasks.learn_priorities(r);
    let step = Step::read(r);
    let before = matches!(step, Some(Step::Named { .. })).then(|| tasks.comm(r.tid).to_string());
    if let Some(step) = &step {
        tasks.learn(step);
    }
    bundles.record(r, tasks, before.as_deref(), out);
    depth.record(r, &trace.state, out);
    if let Some(Step::Named { tid, comm, exec }) = &step {
        let tgid = tasks.tgid(*tid);
        let executed = exec.then(|| tasks.told_of_exec(tgid)).flatten();
        preamble::renamed(*tid, tgid, comm, executed.as_ref(), r.ts, out);
    }
    if let Some(tid) = Switch::ended(r) {
        tasks.forget(tid);
    }
}

/// Writes a trace, the model's account of it and the findings to `out`. Where events are lacking that the
/// account needs, there are no states of threads.
///
/// # Errors
/// A stream of the trace cannot be opened; the writer's; `stop` was set meanwhile.
pub fn write<W: Write>(trace: &Trace, out: W, stop: &AtomicBool) -> Result<(Written, Analysis)> {
    let (begin, end) = setup::span(trace);
    let boot = preamble::boot_offsets(&trace.state);
    let mut packets = Packets::new(out);
    preamble::write(trace, &boot, begin, &mut packets);
    counters::kernel(&trace.state, &mut packets);
    let shared = Rc::new(RefCell::new(Shared { out: packets, tasks: Tasks::new(&trace.state, At::Begin) }));
    let rows = Rows::new(shared.clone(), &trace.state, begin, has_account(trace));
    let mut bundles = Bundles::new(boot, trace.metadata.machine());
    let mut depth = counters::Depth::default();
    let (analysis, stream) = Pass::over(trace).read_with(Stream::new(begin, rows), |item| {
        let shared = &mut *shared.borrow_mut();
        if shared.out.failed() || stop.load(Ordering::Relaxed) {
            return false;
        }
        match item {
            Item::Record(r) => record(r, shared, &mut bundles, &mut depth, trace),
            Item::Gap(gap) => {
                bundles.gap(gap, &mut shared.out);
                depth.gap();
                findings::gap(gap, end, &mut shared.out);
            }
            Item::Told(_) | Item::Operation(_) => {}
        }
        true
    })?;
    if stop.load(Ordering::Relaxed) {
        bail!("stopped before all of it was written");
    }
    let rows = stream.finish();
    let (counts, samples) = (rows.counts, (rows.samples.count, rows.samples.with_stack));
    drop(rows);
    let mut out = Rc::into_inner(shared).context("the exported rows are still in use")?.into_inner().out;
    bundles.finish(&mut out);
    findings::write(&analysis.diagnosis, begin, analysis.result.end.max(begin), &mut out);
    let packets = out.packets;
    out.finish()?;
    let written = Written {
        packets,
        ftrace_events: bundles.events,
        sched_events: bundles.sched,
        intervals: counts.intervals,
        waits: counts.waits,
        wakeups: counts.wakeups,
        requests: counts.requests,
        operations: counts.operations,
        samples: samples.0,
        samples_with_stack: samples.1,
        gaps: analysis.quality.gaps.len() as u64,
    };
    Ok((written, analysis))
}
