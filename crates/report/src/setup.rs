// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model must know of a trace before it reads the first event.

use plumb_model::Setup;
use plumb_trace::reader::Trace;

/// First and last moment that the trace accounts for, ns; the last is `u64::MAX` when the recording was cut off.
pub fn span(trace: &Trace) -> (u64, u64) {
    let begin = trace.state.clocks.first().map_or(0, |c| c.monotonic);
    let (begin, end) = trace.state.end.as_ref().map_or((begin, u64::MAX), |e| (e.begin, e.end));
    if trace.metadata.env.contains_key("keep_ns") {
        // What a flight recorder forgot is not silence: begin where every CPU speaks.
        return (trace.first_events().into_iter().fold(begin, u64::max).min(end), end);
    }
    (begin, end)
}

/// The model's setup for a trace.
pub fn of(trace: &Trace) -> Setup {
    let env = &trace.metadata.env;
    let (begin, end) = span(trace);
    let pid = |key: &str| env.get(key).and_then(|p| p.parse().ok()).unwrap_or(0);
    Setup {
        begin,
        end,
        everyone: env.get("everyone").is_some_and(|v| v == "1"),
        recorder: pid("recorder_pid"),
        root: pid("command_pid"),
        state: trace.state.clone(),
    }
}
