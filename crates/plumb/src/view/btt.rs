// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view btt's own tables: layers, merges, seeks, queue.

use super::text::{label, mean, notes, value};
use super::Ground;
use anyhow::Result;
use plumb_model::views::btt::{BLOCKS, D_SEEK, IN_FLIGHT, LAYERS, Q_SEEK, WAITING};
use plumb_model::views::{Group, Groups, Unit};
use plumb_report::terminal::Table;
use plumb_trace::units;
use std::collections::HashMap;
use std::io::Write;

/// Groups that are shown, most I/Os first.
const MOST: usize = 40;

type Kinds<'a> = HashMap<&'static str, &'a Group>;

/// Groups by key, most bios first; a group without a bio has its requests only.
fn groups(table: &Groups) -> Vec<(u64, Kinds<'_>)> {
    let mut found: HashMap<u64, Kinds<'_>> = HashMap::new();
    for (kind, key, group) in table.rows() {
        found.entry(key).or_default().insert(kind, group);
    }
    let mut out: Vec<_> = found.into_iter().collect();
    out.sort_by_key(|(key, kinds)| {
        (std::cmp::Reverse(kinds.get(WAITING).map_or(0, |g| g.values.count)), *key)
    });
    out.truncate(MOST);
    out
}

fn layers(rows: &[(String, Kinds<'_>)], key: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "btt: layers by {key} [per bio: Q queued, G got a request, M merged, I inserted, D issued, C completed]")?;
    let first = format!("<{key}");
    let mut table = Table::new(&[&first, "<layer", "N", "min", "avg", "median", "p99", "max"]);
    for (name, kinds) in rows {
        for layer in LAYERS {
            let Some(h) = kinds.get(layer).map(|g| &g.values) else { continue };
            let time = |v| value(v, Unit::Time);
            table.row(vec![
                name.clone(),
                layer.to_string(),
                units::count(h.count),
                time(h.min),
                mean(h.mean(), Unit::Time),
                time(h.quantile(0.5)),
                time(h.quantile(0.99)),
                time(h.max),
            ]);
        }
    }
    table.write(out)?;
    writeln!(out)?;
    Ok(())
}

fn merges(rows: &[(String, Kinds<'_>)], key: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "btt: merges by {key} [#D: issued with data; blocks of 512 bytes]")?;
    let first = format!("<{key}");
    let mut table = Table::new(&[
        &first,
        "#Q",
        "#D",
        "#Q / #D",
        "blocks min",
        "blocks avg",
        "blocks max",
        "blocks total",
    ]);
    for (name, kinds) in rows {
        let Some(d) = kinds.get(BLOCKS).map(|g| &g.values) else { continue };
        let q = kinds.get(WAITING).map_or(0, |g| g.values.count);
        table.row(vec![
            name.clone(),
            units::count(q),
            units::count(d.count),
            format!("{:.2}", q as f64 / d.count.max(1) as f64),
            units::count(d.min),
            format!("{:.1}", d.mean()),
            units::count(d.max),
            units::count(u64::try_from(d.sum).unwrap_or(u64::MAX)),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    Ok(())
}

fn seeks(rows: &[(String, Kinds<'_>)], key: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "btt: seeks by {key} [sectors from the device's last I/O; sequential: they touch or overlap]"
    )?;
    let first = format!("<{key}");
    let mut table = Table::new(&[&first, "<of", "N", "mean", "median", "max", "sequential"]);
    for (name, kinds) in rows {
        for (word, kind) in [("Q", Q_SEEK), ("D", D_SEEK)] {
            let Some(h) = kinds.get(kind).map(|g| &g.values) else { continue };
            table.row(vec![
                name.clone(),
                word.into(),
                units::count(h.count),
                mean(h.mean(), Unit::Sectors),
                units::count(h.quantile(0.5)),
                units::count(h.max),
                format!("{:.1} %", h.zeros as f64 * 100.0 / h.count.max(1) as f64),
            ]);
        }
    }
    table.write(out)?;
    writeln!(out)?;
    Ok(())
}

fn queue(rows: &[(String, Kinds<'_>)], key: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "btt: device queue depth at Q by {key}")?;
    let first = format!("<{key}");
    let heads = [&first, "#Q", "not issued: mean", "median", "max", "in flight: mean", "median", "max"];
    let mut table = Table::new(&heads);
    for (name, kinds) in rows {
        let (Some(waiting), Some(flight)) = (kinds.get(WAITING), kinds.get(IN_FLIGHT)) else { continue };
        let mut row = vec![name.clone(), units::count(waiting.values.count)];
        for h in [&waiting.values, &flight.values] {
            row.extend([format!("{:.2}", h.mean()), units::count(h.quantile(0.5)), units::count(h.max)]);
        }
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)?;
    Ok(())
}

pub(super) fn statistics(
    ground: &Ground<'_>,
    tables: &[Groups],
    items: u64,
    out: &mut dyn Write,
) -> Result<()> {
    for table in tables {
        let key = table.by.by.name();
        let groups = groups(table);
        let rows: Vec<(String, Kinds<'_>)> = groups
            .into_iter()
            .map(|(value, kinds)| {
                let any = kinds.values().next().expect("a group is made by an item");
                (label(table, value, any, ground.names), kinds)
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        layers(&rows, key, out)?;
        merges(&rows, key, out)?;
        seeks(&rows, key, out)?;
        queue(&rows, key, out)?;
    }
    notes(ground, items, out)
}
