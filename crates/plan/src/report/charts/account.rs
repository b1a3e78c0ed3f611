// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of each of a load's steps went: stacked bars, from the spans of the recordings or from the load's own account.

use super::plot::{level, titled};
use crate::analysis::cells::CellFigures;
use crate::analysis::time::group;
use crate::analysis::words::Format;
use crate::file::Chart;
use crate::table::{Row, Table, TimeOf, Unit};
use anyhow::{bail, Result};
use plumb_report::chart::axis::Axis;
use plumb_report::chart::canvas::{sheet, Fill, HPos, Sheet};
use plumb_report::palette::Kind;
use std::collections::BTreeMap;

/// Pixels of a bar with its distance to the next one, and of the bar.
const STEP: i32 = 22;
const BAR: i32 = 16;
/// Distance between steps that have several bars.
const GAP: i32 = 8;
const NAME: usize = 44;
/// Of more steps, or of spans that no step names, those with most time.
const MOST: usize = 30;

/// Parts in the order of the bars: what it is called, whose colour it has, whether it is striped.
#[rustfmt::skip]
const PARTS: [(&str, Kind, bool); 16] = [
    ("on a CPU", Kind::User, false),
    ("interrupts, recorder", Kind::Cpu, true),
    ("waiting for a CPU", Kind::Cpu, false),
    ("stolen by the hypervisor", Kind::Kernel, true),
    ("block device: service", Kind::Device, false),
    ("block device: queue", Kind::Device, true),
    ("device reads", Kind::Device, false),
    ("device writes", Kind::Device, true),
    ("device flushes", Kind::Journal, true),
    ("journal, write-back", Kind::Journal, false),
    ("locks", Kind::Lock, false),
    ("memory", Kind::Memory, false),
    ("other threads", Kind::Other, false),
    ("network, pipes", Kind::Other, true),
    ("sleeping", Kind::Sleep, false),
    ("other", Kind::Unknown, false),
];

/// Place in [`PARTS`] of a category of the account, or of a part of the load's own.
pub(super) fn part(name: &str) -> usize {
    PARTS.iter().position(|p| p.0 == group(name)).unwrap_or(PARTS.len() - 1)
}

/// A step under a level of `by`: its mean time in each of [`PARTS`], ns; none where nothing is known.
struct Bar {
    name: String,
    parts: Option<[f64; PARTS.len()]>,
    top: i32,
}

impl Bar {
    fn whole(&self) -> f64 {
        self.parts.iter().flatten().sum()
    }

    fn has(&self, part: usize) -> bool {
        self.parts.is_some_and(|parts| parts[part] > 0.0)
    }
}

/// One chart: the steps of these cells, each `by` level with a bar of its own.
pub(super) fn draw(
    table: &Table,
    chart: &Chart,
    by: Option<usize>,
    suffix: &str,
    cells: &[CellFigures],
) -> Result<String> {
    let spans = chart.figure == "spans";
    let (what, none) = match spans {
        true => ("span", "no span was recorded"),
        false => ("operation", "no account"),
    };
    let bars = bars(table, spans, by, cells);
    if bars.iter().all(|bar| bar.parts.is_none()) {
        bail!("no repetition has an account of its {}", chart.figure);
    }
    let longest = longest(table, spans);
    let format = Format::of(Unit::Ns, longest);
    let label = format!("Mean time of each {what} [{}]", format.unit);
    let axis = Axis::linear(label, std::iter::once(longest * format.by));
    let shown: Vec<usize> = (0..PARTS.len()).filter(|p| bars.iter().any(|bar| bar.has(*p))).collect();
    let page = Sheet {
        title: titled(chart, suffix),
        description: bars.iter().map(|bar| described(bar, format, none)).collect::<Vec<_>>().join("; "),
        height: bars.last().map_or(0, |bar| bar.top) + STEP,
        left_letters: bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0),
        legend: shown.iter().map(|p| PARTS[*p].0.to_string()).collect(),
        fills: shown.iter().map(|p| fill(*p)).collect(),
        ..Sheet::default()
    };
    sheet(&page, |canvas| {
        canvas.horizontal(&axis, true)?;
        let (left, _, above, _) = canvas.ends();
        for bar in &bars {
            let (top, bottom) = (above + bar.top, above + bar.top + BAR);
            let x = |ns: f64| axis.place(ns * format.by).map_or(left, |place| canvas.x(place));
            canvas.text(&bar.name, (left - 8, top + BAR / 2), HPos::Right)?;
            let mut sum = 0.0;
            for (part, ns) in bar.parts.iter().flatten().enumerate() {
                let (from, to) = (x(sum), x(sum + ns));
                if to > from {
                    canvas.area_of((from, top), (to, bottom), fill(part))?;
                }
                sum += ns;
            }
            let said = if bar.parts.is_some() { format.text(sum) } else { none.into() };
            let end = x(sum);
            // Beyond the middle there may be no room behind the bar.
            let (at, side) = match axis.place(sum * format.by) > Some(0.85) {
                true => (end - 4, HPos::Right),
                false => (end + 4, HPos::Left),
            };
            canvas.text(&said, (at, top + BAR / 2), side)?;
        }
        Ok(())
    })
}

fn fill(part: usize) -> Fill {
    let (_, kind, striped) = PARTS[part];
    Fill { rgb: kind.paint().rgb, striped }
}

fn times(row: &Row, spans: bool) -> &[TimeOf] {
    if spans {
        &row.spans
    } else {
        &row.steps
    }
}

/// The mean time of the longest step of any cell, ns: charts of the same plan have the same scale.
fn longest(table: &Table, spans: bool) -> f64 {
    let mut all: BTreeMap<(usize, &str), TimeOf> = BTreeMap::new();
    for (row, time) in table.rows.iter().flat_map(|row| times(row, spans).iter().map(move |t| (row, t))) {
        all.entry((row.cell, &time.name)).or_default().add(time);
    }
    let whole = |time: &TimeOf| mean(time).map_or(0.0, |parts| parts.iter().sum());
    all.values().map(whole).fold(0.0, f64::max)
}

/// Every step of the table, so that charts of the same plan have the same bars, with a bar for each level of `by`.
fn bars(table: &Table, spans: bool, by: Option<usize>, cells: &[CellFigures]) -> Vec<Bar> {
    // In the order of the load, which a recording does not know.
    let mut whole: Vec<(&str, f64)> = Vec::new();
    let ours = table.rows.iter().flat_map(|row| row.steps.iter().map(|step| (step, 0.0)));
    let theirs = table.rows.iter().flat_map(|row| times(row, spans).iter().map(|t| (t, t.whole())));
    for (time, ns) in ours.chain(theirs) {
        match whole.iter_mut().find(|(name, _)| *name == time.name) {
            Some((_, sum)) => *sum += ns,
            None => whole.push((&time.name, ns)),
        }
    }
    if whole.len() > MOST {
        whole.sort_by(|a, b| b.1.total_cmp(&a.1));
        whole.truncate(MOST);
    }
    let steps = whole.into_iter().map(|(name, _)| name.to_owned());
    let mut levels: Vec<usize> = by.map_or(vec![0], |f| cells.iter().map(|c| c.levels[f]).collect());
    levels.sort_unstable();
    levels.dedup();
    let mut bars = Vec::new();
    let mut top = 6;
    for step in steps {
        for number in &levels {
            let own = |row: &&Row| {
                cells.iter().any(|c| c.cell == row.cell && by.is_none_or(|f| c.levels[f] == *number))
            };
            let mut all = TimeOf::default();
            for row in table.rows.iter().filter(own) {
                times(row, spans).iter().filter(|t| t.name == step).for_each(|t| all.add(t));
            }
            let mut levels = vec![0; table.factors.len()];
            by.into_iter().for_each(|f| levels[f] = *number);
            let name = format!("{step} {}", level(table, by, &levels));
            let name = match name.trim() {
                long if long.chars().count() > NAME => long.chars().take(NAME - 1).chain(['~']).collect(),
                short => short.to_string(),
            };
            bars.push(Bar { name, parts: mean(&all), top });
            top += STEP;
        }
        top += if levels.len() > 1 { GAP } else { 0 };
    }
    bars
}

/// The mean of each part over operations or spans.
fn mean(time: &TimeOf) -> Option<[f64; PARTS.len()]> {
    let mut parts = [0.0; PARTS.len()];
    time.parts.iter().for_each(|(name, ns)| parts[part(name)] += ns / time.count.max(1) as f64);
    (time.count > 0).then_some(parts)
}

fn described(bar: &Bar, format: Format, none: &str) -> String {
    let Some(parts) = bar.parts else { return format!("{}: {none}", bar.name) };
    let there = parts.iter().enumerate().filter(|(_, ns)| **ns > 0.0);
    let said = there.map(|(part, ns)| format!("{} {}", format.text(*ns), PARTS[part].0));
    format!("{}: {}: {}", bar.name, format.text(bar.whole()), said.collect::<Vec<_>>().join(", "))
}
