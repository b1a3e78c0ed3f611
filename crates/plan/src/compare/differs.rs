// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is not the same of two plans, and of the machines that they ran on.

use crate::state::State;
use plumb_machine::Environment;
use serde::Serialize;
use serde_json::Value;

/// One thing that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differs {
    pub what: String,
    pub a: String,
    pub b: String,
}

/// What of the plans, the machine and the system is not the same.
pub fn of(a: &State, b: &State) -> Vec<Differs> {
    let mut out = Vec::new();
    let mut add = |what: &str, a: Value, b: Value| flat_differences(what, &a, &b, &mut out);
    add("plan", json(&a.plan.name), json(&b.plan.name));
    add("plumb", json(&a.plumb), json(&b.plumb));
    add("repetitions", json(&a.plan.repeat), json(&b.plan.repeat));
    add("device", json(&a.plan.devices), json(&b.plan.devices));
    for cell in &a.cells {
        if let Some(other) = b.cells.iter().find(|o| o.label == cell.label) {
            add(&cell.label, json(&cell.settings), json(&other.settings));
        }
    }
    if let (Some(a), Some(b)) = (&a.environment, &b.environment) {
        out.extend(
            Environment::differences(a, b).into_iter().filter(|d| d.what != "plumb").map(|d| Differs {
                what: d.what,
                a: d.a,
                b: d.b,
            }),
        );
    }
    out
}

/// What of two values is not the same, key by key.
pub fn between(a: &impl Serialize, b: &impl Serialize) -> Vec<Differs> {
    let mut out = Vec::new();
    flat_differences("", &json(a), &json(b), &mut out);
    out
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn flat_differences(what: &str, a: &Value, b: &Value, out: &mut Vec<Differs>) {
    if let (Value::Object(x), Value::Object(y)) = (a, b) {
        let mut keys: Vec<&String> = x.keys().chain(y.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let of = |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or_default();
            let place = if what.is_empty() { key.clone() } else { format!("{what}.{key}") };
            flat_differences(&place, &of(x), &of(y), out);
        }
    } else if a != b {
        let text = |value: &Value| match value {
            Value::Null => "-".into(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.push(Differs { what: what.into(), a: text(a), b: text(b) });
    }
}
