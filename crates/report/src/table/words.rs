// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a table has no rows: what was not recorded.

use super::{Context, Part, Sink, Table};
use plumb_trace::reader::State;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a trace with this environment can have no rows for a table, and what to record for it to
/// have some; `None` where it can.
pub fn absent(table: &Table, environment: &BTreeMap<String, String>, workload: bool) -> Option<&'static str> {
    let events = environment.get("events").map_or("", String::as_str);
    let has = |event: &str| events.split(',').any(|e| e == event);
    let zero = |key: &str| environment.get(key).is_none_or(|v| v == "0");
    let sampled = environment.contains_key("sample_clock") || !zero("sample_hz");
    let stacks = !zero("stack_threshold_ns");
    let why = match table.part {
        Part::Trace | Part::Load | Part::Windows => return None,
        Part::Account if !has("sched_switch") || !has("sched_waking") => {
            "switches and wakeups were not recorded; record with -e default"
        }
        Part::Block if !has("block_rq_complete") => {
            "block requests were not recorded; record with -e default or -e block"
        }
        Part::Syscalls if !has("sys_exit") => "no system calls were recorded; record with -e default",
        Part::Locks if !has("contention_begin") && !has("futex") => {
            "contentions of locks were not recorded; record with -e default"
        }
        Part::Samples if !sampled => "the sampling clock was off; record with --sample 199Hz",
        Part::Profile if !has("sched_switch") || !has("sched_waking") => {
            "a profile needs switches and wakeups, which were not recorded; record with -e default"
        }
        Part::Profile if !sampled && !stacks => {
            "no samples and no stacks were taken; record with --sample 199Hz and --stacks 1ms"
        }
        Part::Operations if !workload => {
            "no workload told of its operations; plumb run -- plumb load ... records them"
        }
        _ => return None,
    };
    Some(why)
}

/// Hands the figures of a `load.json` to a sink; `copy`: which of those of the run, 1 and up.
pub fn load<S: Sink + ?Sized>(run: &str, document: &Value, copy: u32, sink: &mut S) {
    let context = Context::new(run, 0, &State::default());
    super::workloads::loads(document, copy, &context, sink);
}
