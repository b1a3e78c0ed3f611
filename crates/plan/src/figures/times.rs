// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of a load's steps, and of a recording's spans, went.

use crate::table::TimeOf;
use plumb_load::witness::Attribution;
use serde_json::Value;
use std::collections::BTreeMap;

/// Of each step, its operations' latency in the parts of the load's own account (`attribution`).
pub(super) fn of_steps(copies: &[Value]) -> Vec<TimeOf> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found: Vec<TimeOf> = Vec::new();
    let rounds = copies.iter().flat_map(|copy| list(&copy["cells"])).flat_map(|cell| list(&cell["rounds"]));
    for step in rounds.flat_map(|round| list(&round)) {
        let Some(label) = step["label"].as_str() else { continue };
        let own = serde_json::from_value::<Attribution>(step["attribution"].clone());
        let known = own.ok().filter(|a| a.operations > 0 && a.scheduling_known);
        let parts = known.iter().flat_map(|a| a.parts()).map(|(part, ns)| (part.to_string(), ns as f64));
        let time = TimeOf {
            name: label.into(),
            count: known.as_ref().map_or(0, |a| a.operations),
            parts: parts.filter(|(_, ns)| *ns > 0.0).collect(),
        };
        add(&mut found, time);
    }
    found
}

/// Of each step of the load, the spans that bear its name: of a key `Q1: select ?` what stands before the colon. Where there are
/// none, the spans by their keys.
pub(super) fn of_spans(result: &Value, steps: &[TimeOf]) -> Vec<TimeOf> {
    let rows: Vec<(&str, &str, TimeOf)> =
        result["spans"].as_array().into_iter().flatten().filter_map(span).collect();
    let mut named: Vec<TimeOf> = Vec::new();
    for step in steps {
        let own = |key: &str| key.split_once(": ").map_or(key, |(head, _)| head) == step.name;
        // A statement may lie within a span of another kind with the same key: the kind with most time has all of it.
        let mut kinds: BTreeMap<&str, Vec<TimeOf>> = BTreeMap::new();
        for (kind, _, time) in rows.iter().filter(|(_, key, _)| own(key)) {
            add(kinds.entry(kind).or_default(), TimeOf { name: step.name.clone(), ..time.clone() });
        }
        let longest = kinds.into_values().flatten().max_by(|a, b| a.whole().total_cmp(&b.whole()));
        named.extend(longest);
    }
    if named.is_empty() {
        rows.into_iter().for_each(|(_, _, time)| add(&mut named, time));
        named.sort_by(|a, b| b.whole().total_cmp(&a.whole()));
    }
    named
}

/// A row's kind and key, and its time under the key, or the kind's name where it has none.
fn span(row: &Value) -> Option<(&str, &str, TimeOf)> {
    let (kind, key) = (row["name"].as_str()?, row["key"].as_str().unwrap_or_default());
    let count = row["count"].as_u64().filter(|n| *n > 0)?;
    let parts =
        row["account"].as_object()?.iter().map(|(part, ns)| (part.clone(), ns.as_f64().unwrap_or(0.0)));
    let name = if key.is_empty() { kind } else { key };
    Some((kind, key, TimeOf { name: name.into(), count, parts: parts.collect() }))
}

/// Adds it to what has its name.
fn add(times: &mut Vec<TimeOf>, time: TimeOf) {
    match times.iter_mut().find(|t| t.name == time.name) {
        Some(same) => same.add(&time),
        None => times.push(time),
    }
}
