// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What differs between two environments.

use super::Environment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One fact that two environments do not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact by its place in the result: `memory.total`, `devices.0.scheduler`.
    pub what: String,
    pub a: String,
    /// In the second.
    pub b: String,
}

/// What differs from one second to the next and makes no other machine.
const ALWAYS_DIFFERENT: &[&str] = &["utc", "load", "pressure", "memory.available", "memory.swap_free"];

pub(super) fn differences(a: &Environment, b: &Environment) -> Vec<Difference> {
    let (a, b) = (facts(a), facts(b));
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    let said = |facts: &BTreeMap<String, String>, key: &String| {
        facts.get(key).cloned().unwrap_or_else(|| "not known".into())
    };
    let all =
        keys.into_iter().map(|key| Difference { what: key.clone(), a: said(&a, key), b: said(&b, key) });
    all.filter(|d| d.a != d.b).collect()
}

fn facts(environment: &Environment) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    // Maps with text keys and plain values always become JSON.
    let value = serde_json::to_value(environment).unwrap_or_default();
    flatten(String::new(), &value, &mut found);
    found
}

fn flatten(key: String, value: &Value, found: &mut BTreeMap<String, String>) {
    if ALWAYS_DIFFERENT.contains(&key.as_str()) {
        return;
    }
    let below = |part: &str| if key.is_empty() { part.to_string() } else { format!("{key}.{part}") };
    match value {
        Value::Null => {}
        Value::Object(map) => map.iter().for_each(|(part, value)| flatten(below(part), value, found)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| flatten(below(&i.to_string()), value, found));
        }
        Value::String(text) => drop(found.insert(key, text.clone())),
        other => drop(found.insert(key, other.to_string())),
    }
}
