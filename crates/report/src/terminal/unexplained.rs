// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What nothing explains, by where it was.

use super::screen::{Screen, COLUMNS};
use super::table::wrapped_to;
use anyhow::Result;
use plumb_model::{is_scheduler, RunResult};
use plumb_trace::units;
use std::collections::BTreeMap;
use std::io::Write;

/// What the unexplained time consists of, with its kernel stack.
///
/// # Errors
/// The writer's.
pub fn unexplained(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let total: u64 = result.unexplained.iter().map(|u| u.time).sum();
    let all: u64 = result.processes.iter().map(|p| p.thread_time).sum();
    if total * 1000 < all || total == 0 {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Unexplained time, by call and kernel stack")?;
    let mut seen = BTreeMap::new();
    for u in result.unexplained.iter().take(5) {
        let stack: Vec<&str> =
            u.stack.iter().map(String::as_str).filter(|f| !is_scheduler(f)).take(6).collect();
        let stack =
            if stack.is_empty() { "(shorter than the stack threshold)".into() } else { stack.join(" < ") };
        *seen.entry((std::cmp::Reverse(u.time), u.syscall.clone(), stack)).or_insert(0) += u.waits;
    }
    for ((time, call, stack), waits) in seen {
        let line = format!("{} in {} waits, {call}: {stack}", units::duration(time.0), units::count(waits));
        writeln!(out, "  {}", if out.whole() { line } else { wrapped_to(&line, 4, COLUMNS) })?;
    }
    Ok(())
}
