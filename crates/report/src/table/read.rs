// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pass over a trace that fills the tables that are asked for.

use super::{
    account, disks, locks, results, spans, stacks, streamed, workloads, Context, Filler, Sink, Table,
};
use crate::stream::Stream;
use anyhow::Result;
use plumb_analysis::{setup, Analysis, Pass, Wanted};
use plumb_trace::reader::Trace;
use std::sync::atomic::AtomicBool;

/// Reads a trace once and hands the tables that the sink wants to it. `name`: what the column `run`
/// says. Profile and findings are made only where a table needs them. `stop` ends it when it becomes true.
///
/// # Errors
/// A stream of the trace cannot be opened, or it was stopped.
pub fn read<'s>(
    name: &str,
    trace: &Trace,
    stop: &AtomicBool,
    sink: &mut (dyn Sink + 's),
) -> Result<Analysis> {
    let (begin, _) = setup::span(trace);
    let context = Context::new(name, begin, &trace.state);
    let wants = |tables: &[&'static Table]| tables.iter().any(|t| sink.wants(t));
    let streams = [
        &streamed::INTERVALS,
        &streamed::CPU_INTERVALS,
        &streamed::WAITS,
        &streamed::REQUESTS,
        &streamed::SAMPLES,
        &streamed::OPERATIONS,
        // Threads' names stand in their intervals.
        &account::THREADS,
    ];
    // What is found, and the functions that it is found with.
    let findings = [
        &results::VERDICT,
        &results::FINDINGS,
        &results::SERVICES,
        &results::EVIDENCE,
        &results::PROFILE,
        &results::HOT,
    ];
    let rows = wants(&streams);
    let wanted = if wants(&findings) { Wanted::Findings } else { Wanted::Account };
    // One type of observer with rows and without: each makes the compiler translate the whole model again.
    let observer = rows.then(|| Stream::new(begin, Filler::new(context.clone(), &mut *sink)));
    let (analysis, rows) = Pass::over(trace).wanted(wanted).until(stop).read(observer)?;
    let context = rows.map_or(context, |rows| rows.finish().context);

    let Analysis { diagnosis, result, profile, .. } = &analysis;
    results::run(&analysis, trace, &context, sink);
    account::tell(result, &context, sink);
    disks::tell(result, &context, sink);
    locks::tell(result, &context, sink);
    spans::tell(result, &context, sink);
    workloads::tell(result, &context, sink);
    results::tell(result, diagnosis, &context, sink);
    stacks::tell(&trace.state, &context, sink);
    results::profile(profile, &context, sink);
    Ok(analysis)
}
