// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of spans, and of what programs say that they wait for.

use super::screen::Screen;
use super::table::{middle_out, seconds, Table};
use anyhow::Result;
use plumb_model::{CauseRow, RunResult};
use plumb_trace::units;
use std::io::Write;

/// Rows that a table shows.
const MOST: usize = 40;
/// Columns of a key.
const KEY: usize = 44;

/// The largest parts of `total`, in words.
fn parts(causes: &[CauseRow], total: u64) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for c in causes {
        let what = if c.event.is_empty() { c.category.name() } else { &c.event };
        match sums.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sum)) => *sum += c.time,
            None => sums.push((what, c.time)),
        }
    }
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let shown = sums.iter().filter(|(_, ns)| ns * 20 >= total).take(3);
    let words = shown.map(|(what, ns)| format!("{what} {:.0} %", *ns as f64 * 100.0 / total.max(1) as f64));
    words.collect::<Vec<_>>().join(", ")
}

/// Spans by what names them: how many, how long, and where the time went; what the slowest have more of.
///
/// # Errors
/// The writer's.
pub fn spans(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    if result.spans.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Spans [ms; most time first]")?;
    let head = ["<span", "<key", "count", "time", "mean", "p50", "p99", "max", "<where the time went"];
    let mut table = Table::new(&head).least(&["p50", "max", "time"]);
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    for s in result.spans.iter().take(MOST) {
        table.row(vec![
            s.name.clone(),
            middle_out(&s.key, KEY),
            units::count(s.count),
            ms(s.total),
            ms(s.total / s.count.max(1)),
            ms(s.p50),
            ms(s.p99),
            ms(s.max),
            parts(&s.causes, s.total),
        ]);
    }
    out.table(&table)?;
    if result.spans.len() > MOST {
        writeln!(out, "  {} more: --json, or the table 'spans' of plumb query", result.spans.len() - MOST)?;
    }
    let unfinished: u64 = result.spans.iter().map(|s| s.unfinished).sum();
    if unfinished > 0 {
        writeln!(
            out,
            "  {} did not end while it was recorded and are not counted",
            units::count(unfinished)
        )?;
    }
    Ok(())
}

/// What the target's programs said that they waited for, and who ended the waits.
///
/// # Errors
/// The writer's.
pub fn wait_events(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    if result.wait_events.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Wait events [s; as the program names them]")?;
    let head = ["<wait event", "waits", "time", "mean", "longest", "<mostly", "<ended by", "<in or after"];
    let mut table = Table::new(&head).least(&["in or after", "mean"]);
    for w in result.wait_events.iter().take(MOST) {
        let ender = w.ended_by.first().filter(|e| e.time * 4 >= w.time);
        let most = w.account.iter().max_by_key(|(_, ns)| **ns).map_or("", |(c, _)| c.name());
        table.row(vec![
            w.name.clone(),
            units::count(w.waits),
            seconds(w.time),
            units::duration(w.time / w.waits.max(1)),
            units::duration(w.max),
            most.into(),
            ender.map_or(String::new(), |e| format!("{} ({})", e.comm, e.thread)),
            ender.map_or(String::new(), |e| middle_out(&e.span, KEY)),
        ]);
    }
    out.table(&table)?;
    Ok(())
}
