// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A view as JSON.

use super::text::label;
use super::Ground;
use anyhow::Result;
use plumb_analysis::Quality;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_model::views::{Groups, Key, Names, Sample, Spec, Unit, NONE};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Serialize)]
struct Document<'a> {
    view: &'static str,
    /// CLOCK_MONOTONIC, ns; likewise `from` and `to`.
    begin: u64,
    from: u64,
    to: u64,
    items: u64,
    tables: Vec<Table>,
    /// What the reader must know, a sentence each.
    notes: &'a [String],
    quality: &'a Quality,
}

impl Output for Document<'_> {
    const FORMAT: &'static Format = &formats::VIEW;
}

#[derive(Serialize)]
struct Table {
    /// The key that its rows are grouped by.
    by: &'static str,
    rows: Vec<Row>,
}

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
    /// What the sum consists of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parts: BTreeMap<String, u64>,
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

fn parts(spec: &Spec, kind: &str, values: [u64; 2]) -> BTreeMap<String, u64> {
    let named = spec.parts_of(kind).into_iter().zip(values).filter(|(name, _)| !name.is_empty());
    named.map(|(name, v)| (name.to_string(), v)).collect()
}

/// Statistics and distributions of every group.
pub(super) fn document(
    ground: &Ground<'_>,
    tables: &[Groups],
    items: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let spec = ground.spec;
    let tables = tables
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
            Table { by: table.by.by.name(), rows: rows.collect() }
        })
        .collect();
    let document = Document {
        view: spec.name,
        begin: ground.begin,
        from: ground.filter_from,
        to: ground.filter_to,
        items,
        tables,
        notes: ground.notes,
        quality: ground.quality,
    };
    Ok(json::write(out, &document)?)
}

/// An item; times are ns from the trace's begin.
#[derive(Serialize)]
pub(super) struct Item {
    kind: &'static str,
    /// Below 0: before the trace does.
    begin: i64,
    end: i64,
    value: u64,
    unit: &'static str,
    /// The view's keys that it has, numbers or names.
    #[serde(flatten)]
    keys: Map<String, Value>,
    /// What the value consists of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parts: BTreeMap<String, u64>,
}

impl Output for Item {
    const FORMAT: &'static Format = &formats::VIEW_LOG;
}

pub(super) fn line(spec: &Spec, s: &Sample, names: &Names, begin: u64, out: &mut dyn Write) -> Result<()> {
    let mut keys = Map::new();
    let at = |ts: u64| ts as i64 - begin as i64;
    for key in spec.keys.iter().filter(|k| s.get(**k) != NONE) {
        let v = s.get(*key);
        let value = match key {
            Key::Process | Key::Thread | Key::Instead | Key::Cpu | Key::Priority => v.into(),
            _ => key.label(v, names).into(),
        };
        keys.insert(key.name().into(), value);
    }
    let item = Item {
        kind: s.kind,
        begin: at(s.begin),
        end: at(s.end),
        value: s.value,
        unit: unit(spec.unit_of(s.kind)),
        keys,
        parts: parts(spec, s.kind, s.parts),
    };
    Ok(json::line(out, &item)?)
}
