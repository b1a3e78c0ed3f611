// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A view as text: tables, distributions with bars, lines.

use super::Ground;
use anyhow::Result;
use plumb_model::views::{Group, Groups, Histogram, Key, Names, Sample, Spec, Unit, NONE};
use plumb_report::terminal::Table;
use plumb_trace::units;
use std::io::Write;

/// Groups that a table shows; the rest is added up in one row.
const MOST_ROWS: usize = 40;
/// Groups whose distribution is shown.
const MOST_DISTRIBUTIONS: usize = 12;
/// Length of the longest bar.
const BAR: usize = 40;

/// A value in its unit.
pub(super) fn value(v: u64, unit: Unit) -> String {
    match unit {
        Unit::Time => units::duration(v),
        Unit::Count | Unit::Sectors => units::count(v),
    }
}

/// A mean in its unit.
pub(super) fn mean(v: f64, unit: Unit) -> String {
    match unit {
        Unit::Time => units::duration(v.round() as u64),
        Unit::Count | Unit::Sectors => format!("{v:.1}"),
    }
}

fn sum(v: u128) -> u64 {
    u64::try_from(v).unwrap_or(u64::MAX)
}

pub(super) fn label(table: &Groups, key: u64, group: &Group, names: &Names) -> String {
    if group.rest {
        "further ones".into()
    } else {
        table.by.by.label(key, names)
    }
}

fn merged<'a>(groups: impl Iterator<Item = &'a Group>) -> Group {
    let mut all = Group::default();
    for group in groups {
        all.values.merge(&group.values);
        all.parts.iter_mut().zip(group.parts).for_each(|(a, b)| *a += b);
    }
    all
}

fn cells(spec: &Spec, label: String, kind: &str, g: &Group, whole: u128) -> Vec<String> {
    let unit = spec.unit_of(kind);
    let h = &g.values;
    let mut row = vec![label, units::count(h.count)];
    if unit == Unit::Time {
        row.push(value(sum(h.sum), unit));
        row.push(format!("{:.1} %", h.sum as f64 * 100.0 / whole.max(1) as f64));
    }
    row.push(value(h.min, unit));
    row.push(mean(h.mean(), unit));
    row.extend([0.5, 0.9, 0.99].map(|q| value(h.quantile(q), unit)));
    row.push(value(h.max, unit));
    if !spec.parts_of(kind)[0].is_empty() {
        let per_item = |v: u128| v as f64 / h.count.max(1) as f64;
        row.extend(g.parts.iter().map(|p| match unit {
            Unit::Time => value(sum(*p), unit),
            _ => mean(per_item(*p), unit),
        }));
    }
    row
}

/// Kinds of a table's rows, each with its rows.
fn by_kind(table: &Groups) -> Vec<(&'static str, Vec<(u64, &Group)>)> {
    let mut out: Vec<(&'static str, Vec<(u64, &Group)>)> = Vec::new();
    for (kind, key, group) in table.rows() {
        match out.last_mut() {
            Some((k, rows)) if *k == kind => rows.push((key, group)),
            _ => out.push((kind, vec![(key, group)])),
        }
    }
    out
}

pub(super) fn statistics(
    ground: &Ground<'_>,
    tables: &[Groups],
    items: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let spec = ground.spec;
    for table in tables {
        for (kind, rows) in by_kind(table) {
            let unit = spec.unit_of(kind);
            let key = table.by.by.name();
            writeln!(out, "{}: {kind} by {key}", spec.name)?;
            let first = format!("<{key}");
            let mut head = vec![first.as_str(), "count"];
            if unit == Unit::Time {
                head.extend(["sum", "share"]);
            }
            head.extend(["min", "mean", "median", "p90", "p99", "max"]);
            let parts = spec.parts_of(kind);
            let means = parts.map(|p| format!("mean {p}"));
            if !parts[0].is_empty() {
                head.extend(match unit {
                    Unit::Time => parts,
                    _ => [means[0].as_str(), means[1].as_str()],
                });
            }
            let all = merged(rows.iter().map(|r| r.1));
            let whole = all.values.sum;
            let mut text = Table::new(&head);
            for (key, group) in rows.iter().take(MOST_ROWS) {
                text.row(cells(spec, label(table, *key, group, ground.names), kind, group, whole));
            }
            if rows.len() > MOST_ROWS {
                let rest = merged(rows[MOST_ROWS..].iter().map(|r| r.1));
                let name = format!("{} others", rows.len() - MOST_ROWS);
                text.row(cells(spec, name, kind, &rest, whole));
            }
            if rows.len() > 1 {
                text.row(Vec::new());
                text.row(cells(spec, "all".into(), kind, &all, whole));
            }
            text.write(out)?;
            writeln!(out)?;
        }
    }
    notes(ground, items, out)
}

/// The words for a step of a distribution.
fn step(v: u64, unit: Unit) -> String {
    if unit != Unit::Time {
        return units::count(v);
    }
    match v {
        0..=999 => format!("{v} ns"),
        1_000..=999_999 => format!("{} us", v / 1_000),
        1_000_000..=999_999_999 => format!("{} ms", v / 1_000_000),
        _ => format!("{} s", units::count(v / 1_000_000_000)),
    }
}

fn bars(h: &Histogram, unit: Unit, out: &mut dyn Write) -> Result<()> {
    let steps = h.distribution();
    let most = steps.iter().map(|s| s.2).max().unwrap_or(1).max(1);
    let mut table = Table::new(&["from", "below", "count", "share", "<"]);
    for (begin, end, n) in steps {
        let length = (n as f64 * BAR as f64 / most as f64).ceil() as usize;
        table.row(vec![
            step(begin, unit),
            step(end, unit),
            units::count(n),
            format!("{:.1} %", n as f64 * 100.0 / h.count.max(1) as f64),
            "#".repeat(length),
        ]);
    }
    table.write(out)?;
    Ok(())
}

/// Distribution of every group, greatest sum first.
pub(super) fn distribution(
    ground: &Ground<'_>,
    tables: &[Groups],
    items: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let spec = ground.spec;
    for table in tables {
        for (kind, rows) in by_kind(table) {
            let unit = spec.unit_of(kind);
            let key = table.by.by.name();
            for (value, group) in rows.iter().take(MOST_DISTRIBUTIONS) {
                let h = &group.values;
                writeln!(
                    out,
                    "{}: {kind}, {key} {}: {} items, mean {}, max {}",
                    spec.name,
                    label(table, *value, group, ground.names),
                    units::count(h.count),
                    mean(h.mean(), unit),
                    self::value(h.max, unit),
                )?;
                bars(h, unit, out)?;
                writeln!(out)?;
            }
            if rows.len() > MOST_DISTRIBUTIONS {
                let rest = merged(rows[MOST_DISTRIBUTIONS..].iter().map(|r| r.1));
                writeln!(out, "{}: {kind}, {} others", spec.name, rows.len() - MOST_DISTRIBUTIONS)?;
                bars(&rest.values, unit, out)?;
                writeln!(out)?;
            }
        }
    }
    notes(ground, items, out)
}

pub(super) fn line(spec: &Spec, s: &Sample, names: &Names, begin: u64, out: &mut dyn Write) -> Result<()> {
    let at = |ts: u64| (ts as f64 - begin as f64) / 1e9;
    let unit = spec.unit_of(s.kind);
    write!(out, "{:.9} {:.9} {} {}", at(s.begin), at(s.end), s.kind, value(s.value, unit))?;
    let thread = s.get(Key::Thread);
    for key in spec.keys {
        let v = s.get(*key);
        let said = match key {
            // The thread tells both, unless it is not its process's first.
            Key::Comm => true,
            Key::Process => v == thread,
            _ => false,
        };
        if v != NONE && !said {
            write!(out, ", {} {}", key.name(), key.label(v, names))?;
        }
    }
    for (name, part) in spec.parts_of(s.kind).iter().zip(s.parts) {
        if !name.is_empty() {
            write!(out, ", {name} {}", value(part, unit))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// What the reader must know of the trace and the items.
pub(super) fn notes(ground: &Ground<'_>, items: u64, out: &mut dyn Write) -> Result<()> {
    let from = units::duration(ground.filter_from.saturating_sub(ground.begin));
    let to = units::duration(ground.filter_to.saturating_sub(ground.begin));
    writeln!(out, "{} items that ended from {from} to {to}.", units::count(items))?;
    for note in ground.notes {
        writeln!(out, "{note}")?;
    }
    let q = ground.quality;
    if q.lost > 0 {
        writeln!(
            out,
            "{} events lost in {} intervals: items open there are left out.",
            units::count(q.lost),
            q.gaps.len()
        )?;
    }
    for place in &q.damage {
        writeln!(out, "damaged: {place}; the rest of this file is skipped")?;
    }
    Ok(())
}
