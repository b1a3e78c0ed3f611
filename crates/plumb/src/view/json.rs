// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A view as JSON.

use super::text::label;
use super::Ground;
use anyhow::Result;
use plumb_model::views::{Groups, Key, Names, Sample, Spec, Unit, NONE};
use serde::Serialize;
use serde_json::{json, Map, Value};
use std::io::Write;

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    unit: &'static str,
    /// Value of the key; none where the items lack it.
    id: Option<u64>,
    label: String,
    count: u64,
    sum: u64,
    min: u64,
    mean: f64,
    median: u64,
    p90: u64,
    p99: u64,
    max: u64,
    zeros: u64,
    #[serde(skip_serializing_if = "Map::is_empty")]
    parts: Map<String, Value>,
    /// From, below, count.
    distribution: Vec<(u64, u64, u64)>,
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "ns",
        Unit::Count => "count",
        Unit::Sectors => "sector",
    }
}

fn narrow(v: u128) -> u64 {
    u64::try_from(v).unwrap_or(u64::MAX)
}

fn parts(spec: &Spec, kind: &str, values: [u64; 2]) -> Map<String, Value> {
    let named = spec.parts_of(kind).into_iter().zip(values).filter(|(name, _)| !name.is_empty());
    named.map(|(name, v)| (name.to_string(), v.into())).collect()
}

/// Statistics and distributions of every group.
pub(super) fn document(
    ground: &Ground<'_>,
    tables: &[Groups],
    items: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let spec = ground.spec;
    let tables: Vec<Value> = tables
        .iter()
        .map(|table| {
            let rows = table.rows();
            let rows = rows.iter().map(|(kind, key, group)| {
                let h = &group.values;
                Row {
                    kind,
                    unit: unit(spec.unit_of(kind)),
                    id: (*key != NONE && !group.rest).then_some(*key),
                    label: label(table, *key, group, ground.names),
                    count: h.count,
                    sum: narrow(h.sum),
                    min: h.min,
                    mean: h.mean(),
                    median: h.quantile(0.5),
                    p90: h.quantile(0.9),
                    p99: h.quantile(0.99),
                    max: h.max,
                    zeros: h.zeros,
                    parts: parts(spec, kind, group.parts.map(narrow)),
                    distribution: h.distribution(),
                }
            });
            json!({ "by": table.by.by.name(), "rows": rows.collect::<Vec<_>>() })
        })
        .collect();
    let document = json!({
        "view": spec.name,
        "begin": ground.begin,
        "from": ground.filter_from,
        "to": ground.filter_to,
        "items": items,
        "tables": tables,
        "notes": ground.notes,
        "quality": ground.quality,
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    Ok(())
}

pub(super) fn line(spec: &Spec, s: &Sample, names: &Names, begin: u64, out: &mut dyn Write) -> Result<()> {
    let mut item = Map::new();
    // Signed: an item may begin before the trace does.
    let at = |ts: u64| ts as i64 - begin as i64;
    item.insert("kind".into(), s.kind.into());
    item.insert("begin".into(), at(s.begin).into());
    item.insert("end".into(), at(s.end).into());
    item.insert("value".into(), s.value.into());
    item.insert("unit".into(), unit(spec.unit_of(s.kind)).into());
    for key in spec.keys.iter().filter(|k| s.get(**k) != NONE) {
        let v = s.get(*key);
        let value = match key {
            Key::Process | Key::Thread | Key::Instead | Key::Cpu | Key::Priority => v.into(),
            _ => key.label(v, names).into(),
        };
        item.insert(key.name().into(), value);
    }
    let parts = parts(spec, s.kind, s.parts);
    if !parts.is_empty() {
        item.insert("parts".into(), parts.into());
    }
    serde_json::to_writer(&mut *out, &item).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
