// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/findings.md comes from the rules. `cargo xtask golden` writes it anew.

use plumb_diagnose::{LEAST, RULES};
use std::path::Path;

fn manual() -> String {
    let mut out = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <!-- Written by 'cargo xtask golden' from crates/diagnose/src/rules.rs; do not edit. -->\n\
         # Findings\n\n\
         A finding is a reason for the target's time: its share, a bound, the evidence, doubts, and what\n\
         to do next. The rules look in this order, what is special before what is general; each\n\
         nanosecond goes to one finding at most, so the shares never exceed the whole. Below {:.0} %\n\
         nothing is found.\n\n\
         - **share:** of the command's elapsed time, where waits for its own threads are followed to\n  \
           what those did; without a command (`--pid`, `--cgroup`) of its threads' time, resting left out.\n\
         - **bound:** the largest speed-up if that time went away and all else stayed (Amdahl's law on\n  \
           the path); the larger one of the account that is followed wait by wait, and of the path of\n  \
           the threads that ended last.\n\
         - **type:** CPU busy, CPU idle: device, lock contention (the three types of the evaluation of\n  \
           Linux by Hitachi, Fujitsu and others, 2004), and CPU short, memory short, waiting for others,\n  \
           asleep on purpose.\n\n\
         | finding | what it says | next |\n|---|---|---|\n",
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
    assert!(RULES.iter().all(|r| !r.title.is_empty() && r.next.ends_with('.')));
}
