// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in other programs' formats. Each reads the trace once and keeps of it what is open;
//! docs/exports.md tells what of a run each of them holds.

pub mod block;
pub mod csv;
pub mod lttng;
pub mod openmetrics;
pub mod parquet;
pub mod perfetto;
pub mod profile;

use plumb_trace::reader::Trace;

/// Events that a part of a timeline needs: their set, all of those that it needs, and the part.
const NEEDS: &[(&str, &[&str], &str)] = &[
    ("sched", &["sched_switch", "sched_waking"], "what ran on the CPUs and the states of threads"),
    ("sched", &["sched_fork", "sched_exec", "sched_exit"], "births, names and ends of threads"),
    ("syscall", &["sys_enter", "sys_exit"], "system calls"),
    ("irq", &["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"], "interrupts"),
    ("block", &["block_bio_queue", "block_rq_issue", "block_rq_complete"], "block requests"),
];

/// What a trace's timeline lacks because events were not recorded, and how they would be: sentences.
pub fn lacking(trace: &Trace) -> Vec<String> {
    let recorded: Vec<&str> =
        trace.metadata.env.get("events").map_or("", String::as_str).split(',').collect();
    let sentence = |(set, events, part): &(&str, &[&str], &str)| {
        let missing: Vec<&str> = events.iter().filter(|e| !recorded.contains(e)).copied().collect();
        (!missing.is_empty()).then(|| {
            format!(
                "the trace has no events {}, so there will be no {part}; record with --events {set} among the others",
                missing.join(", ")
            )
        })
    };
    NEEDS.iter().filter_map(sentence).collect()
}
