// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model must know of a trace before it reads the first event.

use anyhow::{bail, Result};
use plumb_model::Setup;
use plumb_trace::kernel::KTIME_MAX;
use plumb_trace::reader::{State, Trace};
use plumb_trace::units;
use std::collections::BTreeMap;

/// First and last moment that the trace accounts for, ns; the last is `u64::MAX` when the recording was cut off.
pub fn span(trace: &Trace) -> (u64, u64) {
    let begin = trace.state.clocks.first().map_or(0, |c| c.monotonic).min(KTIME_MAX);
    // A damaged end's times are no times: they would become lengths of centuries.
    let told = trace.state.end.as_ref().map(|e| (e.begin.min(KTIME_MAX), e.end.min(KTIME_MAX)));
    let (begin, end) = told.unwrap_or((begin, u64::MAX));
    if trace.metadata.env.contains_key("keep_ns") {
        // What a flight recorder forgot is not silence: begin where every CPU speaks.
        return (trace.first_events().into_iter().fold(begin, u64::max).min(end), end);
    }
    (begin, end)
}

/// A moment of a trace, ns CLOCK_MONOTONIC, in ns after 1970, as the clocks were read last before it.
pub fn realtime(trace: &Trace, monotonic: u64) -> u64 {
    let read = trace.state.clocks.iter().rev().find(|c| c.monotonic <= monotonic);
    let offset = read.map_or(trace.metadata.clock_offset, |c| c.realtime.saturating_sub(c.monotonic));
    monotonic.saturating_add(offset)
}

/// When a trace was recorded, in seconds after 1970; 0 not known.
pub fn recorded(trace: &Trace) -> u64 {
    trace.state.clocks.first().map_or(0, |c| c.realtime / 1_000_000_000)
}

/// Whether the target is the whole machine.
pub fn everyone(env: &BTreeMap<String, String>) -> bool {
    env.get("everyone").is_some_and(|v| v == "1")
}

/// Whether an event was recorded.
pub fn has_event(env: &BTreeMap<String, String>, event: &str) -> bool {
    env.get("events").is_some_and(|events| events.split(',').any(|e| e == event))
}

/// The model's setup for a trace that begins and ends then; what holds for all of it is told on the way.
pub fn of(env: &BTreeMap<String, String>, (begin, end): (u64, u64)) -> Setup {
    let pid = |key: &str| env.get(key).and_then(|p| p.parse().ok()).unwrap_or(0);
    Setup {
        begin,
        end,
        everyone: everyone(env),
        recorder: pid("recorder_pid"),
        comms: Vec::new(),
        retransmit_waiters: has_event(env, "tcp_retransmit_waiter"),
        reads: has_event(env, "tcp_read_waited"),
        root: pid("command_pid"),
        state: State::default(),
        carried: None,
    }
}

/// What is found when a recording ends, and is wanted from the begin: of user code, and what froze a flight recorder.
pub fn named_late(state: &State) -> State {
    State {
        functions: state.functions.clone(),
        user_stacks: state.user_stacks.clone(),
        triggers: state.triggers.clone(),
        ..State::default()
    }
}

/// What the sampling clock was; empty where there was none.
pub fn sample_clock(env: &BTreeMap<String, String>) -> String {
    let rate = env.get("sample_hz").filter(|hz| *hz != "0").map(|hz| format!("cpu-clock {hz} Hz"));
    env.get("sample_clock").cloned().or(rate).unwrap_or_default()
}

/// The architecture that a trace was recorded on, as Rust calls it.
pub fn machine(env: &BTreeMap<String, String>) -> &str {
    env.get("machine").map_or(std::env::consts::ARCH, String::as_str)
}

/// The part of a span that lies `from` to `to` after its begin, ns.
///
/// # Errors
/// It is empty, or lies behind the end.
pub fn window((begin, end): (u64, u64), from: Option<u64>, to: Option<u64>) -> Result<(u64, u64)> {
    let (from, to) = (from.unwrap_or(0), to.unwrap_or(u64::MAX));
    if from >= to {
        bail!("--from {} is not before --to {}", units::duration(from), units::duration(to));
    }
    let length = end.saturating_sub(begin);
    if from > length {
        bail!("--from {} lies behind the trace's end at {}", units::duration(from), units::duration(length));
    }
    Ok((begin.saturating_add(from), begin.saturating_add(to).min(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_in_the_trace() {
        let at = |from, to| window((100, 200), from, to).map_err(|e| e.to_string());
        assert_eq!(at(None, None), Ok((100, 200)));
        assert_eq!(at(Some(10), Some(500)), Ok((110, 200)));
        assert_eq!(at(Some(10), Some(10)), Err("--from 10 ns is not before --to 10 ns".into()));
        assert_eq!(at(Some(101), None), Err("--from 101 ns lies behind the trace's end at 100 ns".into()));
    }
}
