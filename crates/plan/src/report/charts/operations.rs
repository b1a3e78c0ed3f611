// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every operation's latency by its number, from the log of a cell's first repetition. Where
//! a turn of its disk is known (the load's `turn_ns`, or the device's model), turns are lines: a synchronous write
//! that just missed its sector waits for one.

use super::plot::{level, titled};
use crate::analysis::cells::CellFigures;
use crate::analysis::words::{several, value, Format};
use crate::file::{Chart, PlanFile, Settings};
use crate::state::{End, State};
use crate::table::{Table, Unit};
use anyhow::{bail, Context, Result};
use plumb_load::log::{LogReader, Row, PACED, WARM_UP};
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::HPos;
use plumb_report::chart::canvas::{sheet, Sheet, INK};
use plumb_sim::spec::Spec;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

const HEIGHT: i32 = 360;
const TURNS: u32 = 3;
/// A line whose value is more than this times the longest operation is left out.
const FAR: f64 = 1.3;

/// One chart: operations of these cells, each `by` level in its colour.
pub(super) fn draw(
    dir: &Path,
    state: &State,
    table: &Table,
    chart: &Chart,
    by: Option<usize>,
    suffix: &str,
    cells: &[CellFigures],
) -> Result<String> {
    let mut shown: Vec<(usize, Vec<f64>)> = Vec::new();
    for cell in cells {
        let log = log(dir, state, cell.cell)?;
        let latencies = latencies(&log, &chart.figure)?;
        if latencies.is_empty() {
            bail!("{}: no operation of the kind {}", log.display(), chart.figure);
        }
        shown.push((by.map_or(0, |f| cell.levels[f]), latencies));
    }
    let longest = shown.iter().flat_map(|s| &s.1).copied().fold(0.0, f64::max);
    let format = Format::of(Unit::Ns, longest);
    let mut lines: Vec<(f64, String)> = chart.lines.iter().map(|ns| (*ns, format.text(*ns))).collect();
    lines.extend(turns(dir, state, cells));
    lines.retain(|(ns, _)| *ns <= longest * FAR);
    let values =
        || shown.iter().flat_map(|s| &s.1).chain(lines.iter().map(|l| &l.0)).map(|ns| ns * format.by);
    let label = format!("Time of a {} [{}]", chart.figure, format.unit);
    let log_axis = if chart.log { Axis::log(label.clone(), values()) } else { None };
    let up = log_axis.unwrap_or_else(|| Axis::linear(label, values()));
    let most = shown.iter().map(|s| s.1.len()).max().unwrap_or(0);
    let across = Axis::linear(format!("Number of the {}", chart.figure), std::iter::once(most as f64));
    let page = Sheet {
        title: titled(chart, suffix),
        description: described(table, by, &shown, &lines, &up, format),
        height: HEIGHT,
        left_letters: up.ticks.iter().map(|t| t.1.chars().count()).max().unwrap_or(0),
        legend: by.map_or(Vec::new(), |f| table.factors[f].levels.clone()),
        ..Sheet::default()
    };
    sheet(&page, |canvas| {
        canvas.vertical(&up)?;
        canvas.horizontal(&across, false)?;
        for (number, latencies) in &shown {
            // Thousands of points fall on the same pixel: one of them is enough.
            let mut drawn = BTreeSet::new();
            for (i, ns) in latencies.iter().enumerate() {
                let (Some(x), Some(y)) = (across.place((i + 1) as f64), up.place(ns * format.by)) else {
                    continue;
                };
                drawn.insert((canvas.x(x), canvas.y(y)));
            }
            for at in drawn {
                canvas.point(at, *number)?;
            }
        }
        let (left, right, _, _) = canvas.ends();
        for (ns, name) in &lines {
            let Some(place) = up.place(ns * format.by) else { continue };
            let y = canvas.y(place);
            canvas.dashed((left, y), (right, y), INK)?;
            canvas.text(name, (right - 4, y - 9), HPos::Right)?;
        }
        Ok(())
    })
}

fn described(
    table: &Table,
    by: Option<usize>,
    shown: &[(usize, Vec<f64>)],
    lines: &[(f64, String)],
    up: &Axis,
    format: Format,
) -> String {
    let mut said: Vec<String> = Vec::new();
    for (number, latencies) in shown {
        let mut levels = vec![0; table.factors.len()];
        by.into_iter().for_each(|f| levels[f] = *number);
        let name = level(table, by, &levels);
        let median = plumb_stats::repetitions::median(latencies);
        let (low, high) = crate::analysis::cells::ends(latencies);
        let begin = if name.is_empty() { String::new() } else { format!("{name}: ") };
        said.push(format!(
            "{begin}{}, median {}, from {} to {}",
            several(latencies.len(), "operation"),
            value(median, Unit::Ns),
            value(low, Unit::Ns),
            value(high, Unit::Ns)
        ));
        let without = latencies.iter().filter(|ns| up.place(**ns * format.by).is_none()).count();
        if without > 0 {
            said.push(format!("{without} of 0 have no place on a logarithmic axis"));
        }
    }
    said.extend(lines.iter().map(|(_, name)| format!("line at {name}")));
    said.join("; ")
}

/// The directory of a cell's first repetition that was measured.
fn first(dir: &Path, state: &State, cell: usize) -> Option<PathBuf> {
    let measured = state.made.iter().filter(|m| m.cell == cell && m.end == End::Measured);
    measured.min_by_key(|m| m.repetition).map(|made| dir.join(&made.dir))
}

/// The log of a cell's first repetition.
fn log(dir: &Path, state: &State, cell: usize) -> Result<PathBuf> {
    let Some(dir) = first(dir, state, cell) else { bail!("no repetition was measured") };
    let log = dir.join("log");
    // Of several steps each has its own, the first one `log.1`.
    let first = dir.join("log.1");
    match (log.exists(), first.exists()) {
        (true, _) => Ok(log),
        (false, true) => Ok(first),
        _ => bail!("{}: there is no log of operations", log.display()),
    }
}

/// Latencies of a kind's operations in their order, ns; a write's with its synchronisation,
/// as the load counts it (`--time-sync in`).
pub(super) fn latencies(path: &Path, kind: &str) -> Result<Vec<f64>> {
    let reader = LogReader::open(path)?;
    let jobs = reader.head().job["jobs"].as_array().cloned().unwrap_or_default();
    let inside = |job: &serde_json::Value| job["time-sync"] == "in" && job["depth"] == 1;
    let sync_in = kind != "sync" && !jobs.is_empty() && jobs.iter().all(inside);
    let mut found: Vec<(u64, f64)> = Vec::new();
    // Each worker's last operation, if it is of the kind and may have its synchronisation behind it.
    let mut open: HashMap<u32, usize> = HashMap::new();
    for row in reader {
        let row: Row = row.with_context(|| path.display().to_string())?;
        let begin = if row.flags & PACED != 0 { row.intended_ns } else { row.begin_ns };
        if row.kind.word() == kind && row.flags & WARM_UP == 0 && row.result >= 0 {
            found.push((begin, row.end_ns.saturating_sub(begin) as f64));
            open.insert(row.worker, found.len() - 1);
        } else if let Some(at) = open.remove(&row.worker) {
            if sync_in && row.kind.word() == "sync" && row.result >= 0 {
                found[at].1 = row.end_ns.saturating_sub(found[at].0) as f64;
            }
        }
    }
    // Rows of different workers stand chunk by chunk.
    found.sort_by_key(|f| f.0);
    Ok(found.into_iter().map(|f| f.1).collect())
}

/// Lines at one, two and three turns of the cells' disk, where they have one and the same.
fn turns(dir: &Path, state: &State, cells: &[CellFigures]) -> Vec<(f64, String)> {
    let mut turns: Vec<f64> = Vec::new();
    for cell in cells {
        let of_load = first(dir, state, cell.cell).and_then(|dir| told(&dir));
        let of_model = || state.cells.get(cell.cell).and_then(|c| turn(&state.plan, &c.settings));
        let Some(turn) = of_load.or_else(of_model) else {
            return Vec::new();
        };
        if turns.iter().all(|t| (t - turn).abs() > 1.0) {
            turns.push(turn);
        }
    }
    let line = |turn: f64, n: u32| {
        let ns = turn * f64::from(n);
        (ns, format!("{} ({})", several(n as usize, "turn"), value(ns, Unit::Ns)))
    };
    match turns.as_slice() {
        [turn] => (1..=TURNS).map(|n| line(*turn, n)).collect(),
        _ => Vec::new(),
    }
}

/// A turn of the disk as the load tells it, ns.
fn told(dir: &Path) -> Option<f64> {
    let text = std::fs::read(dir.join(plumb_report::run_directory::LOAD)).ok()?;
    serde_json::from_slice::<serde_json::Value>(&text).ok()?["turn_ns"].as_f64()
}

/// How long a turn of the cell's (first) disk takes, ns; none of what does not turn.
pub(super) fn turn(plan: &PlanFile, settings: &Settings) -> Option<f64> {
    let device = *settings.device.as_ref()?.all().first()?;
    let device = plan.devices.get(device)?;
    Spec::load(device.model.as_deref()?, &device.set).ok()?.turn_ns()
}
