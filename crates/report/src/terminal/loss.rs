// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace holds, and what is missing in it.

use anyhow::Result;
use plumb_analysis::Quality;
use plumb_model::RunResult;
use plumb_trace::units;
use std::io::Write;

/// Gaps that are told one by one.
const GAPS: usize = 10;

/// Events, losses, gaps, damage and contradictions of a trace.
///
/// # Errors
/// The writer's.
pub fn loss(q: &Quality, result: &RunResult, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "\nTrace: {} events, {} of the recorder itself, {} lost, {} missed",
        units::count(q.events),
        units::count(q.state_events),
        units::count(q.lost),
        units::count(q.missed)
    )?;
    if q.operation_events > 0 {
        writeln!(
            out,
            "  {} operation events of the workload, {} lost",
            units::count(q.operation_events),
            units::count(q.operation_events_lost)
        )?;
    }
    for (cpu, begin, end, lost) in q.gaps.iter().take(GAPS) {
        let at = begin.saturating_sub(result.begin);
        let length = units::duration(end.saturating_sub(*begin).min(result.end));
        writeln!(
            out,
            "  CPU {cpu}: {} events lost at {} for {length}",
            units::count(*lost),
            units::duration(at)
        )?;
    }
    for place in &q.damage {
        writeln!(out, "  damaged: {place}; the rest of this file is skipped")?;
    }
    for (what, n) in &result.impossible {
        writeln!(out, "  {}: {what}", units::count(*n))?;
    }
    Ok(())
}
