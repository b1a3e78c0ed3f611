// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills tables from a run directory: queries and exports read runs by the same way.

use crate::query::RunDir;
use crate::table::{absent, load, read, windows, Part, Sink, Table};
use anyhow::{Context, Result};
use plumb_trace::reader::Trace;
use plumb_trace::units;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

pub struct Filled {
    /// No events of it are lost or cannot be read.
    pub valid: bool,
    /// What the reader must know, a sentence each.
    pub words: Vec<String>,
    /// Tables without rows, and why, a sentence each.
    pub absent: Vec<String>,
}

/// Hands the tables that are used, of one run, to a sink; `stop` ends it when it becomes true.
///
/// # Errors
/// The trace or a `load.json` cannot be read.
pub fn fill(run: &RunDir, used: &[&'static Table], sink: &mut dyn Sink, stop: &AtomicBool) -> Result<Filled> {
    let mut filled = Filled { valid: true, words: Vec::new(), absent: Vec::new() };
    // Tables by why they have no rows.
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let of = |part: fn(Part) -> bool| -> Vec<&'static Table> {
        used.iter().copied().filter(|t| part(t.part)).collect()
    };
    let (of_loads, of_windows) = (of(|p| p == Part::Load), of(|p| p == Part::Windows));
    let of_trace = of(|p| !matches!(p, Part::Load | Part::Windows));
    if run.windows.is_empty() {
        let why = "no plumb watch kept windows there";
        of_windows.iter().for_each(|t| lacking.entry(why).or_default().push(t.name));
    }
    if run.loads.is_empty() {
        let why = "the run has no load.json; a plan's cells have one, and 'plumb load --json > DIR/load.json' makes one";
        of_loads.iter().for_each(|t| lacking.entry(why).or_default().push(t.name));
    }
    if !run.trace {
        let why = "the run has no trace; plumb run records one";
        of_trace.iter().for_each(|t| lacking.entry(why).or_default().push(t.name));
    }
    if run.trace && !of_trace.is_empty() {
        let trace = Trace::open(&run.path).with_context(|| run.name.clone())?;
        let seen = read(&run.name, &trace, stop, sink).with_context(|| run.name.clone())?;
        let (env, q) = (&seen.environment, &seen.quality);
        for table in of_trace {
            if let Some(why) = absent(table, env, q.operation_events > 0) {
                lacking.entry(why).or_default().push(table.name);
            }
        }
        let lost = q.lost + q.operation_events_lost;
        for (set, ratio) in &q.thinned {
            let of = "counts, bytes and sums that come from them are of that part alone";
            filled.words.push(format!("one event in {ratio} of {set} was recorded; {of}"));
        }
        if lost > 0 {
            filled.words.push(format!("{} events were lost; sums are of what is left", units::count(lost)));
        }
        filled.words.extend(
            q.damage.iter().map(|d| format!("damaged: {d}; what follows it in this file is left out")),
        );
        if q.cut_off {
            filled.words.push("the recording was cut off: its end is not in the trace".into());
        }
        filled.valid = lost == 0 && q.damage.is_empty();
    }
    if !of_loads.is_empty() {
        for (copy, path) in (1..).zip(&run.loads) {
            let text = std::fs::read(path).with_context(|| path.display().to_string())?;
            let value = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
            load(&run.name, &value, copy, sink);
        }
    }
    if !of_windows.is_empty() {
        for path in &run.windows {
            let lines = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            windows(&run.name, &lines, sink);
        }
    }
    for (why, tables) in lacking {
        let are = if tables.len() == 1 { "has" } else { "have" };
        filled.absent.push(format!("{} {are} no rows: {why}", tables.join(", ")));
    }
    Ok(filled)
}
