// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/findings.md comes from the rules. `cargo xtask golden` writes it anew.

use plumb_diagnose::{LEAST, RULES};
use std::path::Path;

fn manual() -> String {
    let mut out = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <!-- Written by 'cargo xtask golden' from crates/diagnose/src/rules.rs; do not edit. -->\n\
         # Findings\n\n\
         A finding is a cause of the target's time. List all rules, or query the findings of a run:\n\n    \
             plumb findings\n    \
             plumb query 'select finding, share, speedup, headline from findings' DIR\n\n\
         Each finding has:\n\n\
         - **share:** its part of the command's wall time, with waits for the command's own threads\n  \
           followed to what those threads did. Without a command (`--pid`, `--cgroup`): its part of the\n  \
           time of the requests that were served, or of the threads' time, idle waits excluded. Where the\n  \
           recording itself took more than 2 % of it, without that.\n\
         - **speed-up:** how much faster the same work would be without it, estimated, and a range in which\n  \
           nine of ten measured speed-ups of injected faults are (`speedup`, `speedup_low`, `speedup_high`).\n  \
           It starts from Amdahl's law on the path, `1 / (1 - share)`, and takes into account what comes in\n  \
           the place of the time: nothing (a delay, a limit), larger operations (`io.small`, `sync.write`),\n  \
           or the next queue (`device.saturated`, `lock.kernel`).\n\
         - **evidence:** labelled facts; those with a moment link to the timeline of the report page.\n\
         - **doubt:** what reduces confidence in it.\n\
         - **next:** the next step.\n\n\
         The rules run in the order of the table, special causes before general ones. Each nanosecond\n\
         goes to at most one finding, so the shares add up to at most 100 %. Findings below {:.0} % are\n\
         not reported. A finding on waits has no CPU time in it: that of an `fsync` is in `cpu.kernel`.\n\n\
         Evidence of synchronous writes: `synced file` counts the calls that returned when data was\n\
         durable (fsync, fdatasync, msync, O_SYNC writes). `per call` has the cache flushes of each\n\
         block device; one of a stacked device (loop, dm, md) appears again on the device below.\n\n\
         The verdict's confidence says how complete the account of this run is: lost events, unexplained\n\
         time, and doubts of the first finding. It does not say that a short run is representative:\n\
         `plumb compare` with several runs does.\n\n\
         The verdict's `kind` is one of CPU-bound, I/O-bound, lock contention (the three types of the\n\
         evaluation of Linux by Hitachi, Fujitsu and others, 2004), CPU contention, memory pressure,\n\
         waiting for peers, intentional sleep.\n\n\
         | finding | cause | next step |\n|---|---|---|\n",
        LEAST * 100.0
    );
    for rule in RULES {
        out += &format!("| `{}` | {} | {} |\n", rule.id, rule.title, rule.next);
    }
    out
}

#[test]
fn the_manual_is_that_of_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    if std::env::var_os("PLUMB_GOLDEN").is_some() {
        std::fs::write(&path, manual()).expect("docs is writable");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == manual(), "docs/findings.md is not that of the rules; 'cargo xtask golden' writes it");
}

#[test]
fn ids_are_unique_and_words_are_there() {
    let mut ids: Vec<&str> = RULES.iter().map(|r| r.id).collect();
    ids.sort_unstable();
    let n = ids.len();
    ids.dedup();
    assert!(n == ids.len() && n >= 25, "{n} rules");
    assert!(RULES.iter().all(|r| !r.title.is_empty() && !r.next.is_empty() && !r.next.ends_with('.')));
}
