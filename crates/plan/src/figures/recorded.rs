// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of time, spans and the verdict from a recording's `result.json` (`plumb run`).

use super::Found;
use crate::table::{Unit, Work};
use plumb_trace::units;
use serde_json::Value;
use std::collections::BTreeMap;

/// Adds `time.CATEGORY` over all processes of the target, `span.NAME`, the diagnosis, and what was lost.
pub(super) fn figures(result: &Value, found: &mut Found) -> Result<(), String> {
    let processes = result["processes"].as_array().ok_or("result.json has no processes")?;
    let mut account: BTreeMap<&str, f64> = BTreeMap::new();
    let mut whole = 0.0;
    for process in processes {
        whole += process["thread_time"].as_f64().unwrap_or(0.0);
        for (category, ns) in process["account"].as_object().into_iter().flatten() {
            *account.entry(category).or_default() += ns.as_f64().unwrap_or(0.0);
        }
    }
    found.work = work(processes);
    for part in result["path"]["parts"].as_array().into_iter().flatten() {
        if let (Some(who), Some(category), Some(ns)) =
            (part["who"].as_str(), part["category"].as_str(), part["time"].as_f64())
        {
            *found.path.entry(who.into()).or_default().entry(category.into()).or_default() += ns;
        }
    }
    if whole > 0.0 {
        for (category, ns) in account {
            found.add(&format!("time.{category}"), Unit::Share, ns / whole);
        }
    }
    let mut spans: BTreeMap<&str, f64> = BTreeMap::new();
    for span in result["spans"].as_array().into_iter().flatten() {
        if let (Some(name), Some(total)) = (span["name"].as_str(), span["total"].as_f64()) {
            *spans.entry(name).or_default() += total;
        }
    }
    for (name, ns) in spans {
        found.add(&format!("span.{name}"), Unit::Ns, ns);
    }
    let word = |value: &Value| value.as_str().filter(|w| !w.is_empty()).map(String::from);
    found.kind = word(&result["kind"]);
    found.verdict = word(&result["verdict"][0]);
    let quality = &result["quality"];
    for (key, words) in [
        ("lost", "events were lost by the recording"),
        ("operation_events_lost", "events of the load's operations were lost"),
        ("missed", "events were missed by recursion"),
    ] {
        if let Some(n) = quality[key].as_u64().filter(|n| *n > 0) {
            found.doubt(format!("{} {words}", units::count(n)));
        }
    }
    if quality["damage"].as_array().is_some_and(|d| !d.is_empty()) {
        found.doubt("parts of the trace cannot be read".into());
    }
    if quality["cut_off"] == Value::Bool(true) {
        found.doubt("the recording was cut off".into());
    }
    Ok(())
}

/// Time by system call and category, of processes that did the same kinds of operations together.
fn work(processes: &[Value]) -> Vec<Work> {
    let rows = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut all: Vec<Work> = Vec::new();
    for process in processes {
        let mut one = Work::default();
        for row in rows(&process["operations"]) {
            if let (Some(kind), Some(count)) = (row["kind"].as_str(), row["count"].as_u64()) {
                *one.operations.entry(kind.into()).or_default() += count;
            }
        }
        let mut add = |call: &str, account: &Value, sign: f64| {
            for (category, ns) in account.as_object().into_iter().flatten() {
                let part = one.parts.entry(call.into()).or_default().entry(category.clone()).or_default();
                *part += sign * ns.as_f64().unwrap_or(0.0);
            }
        };
        add("", &process["account"], 1.0);
        for call in rows(&process["syscalls"]) {
            add(call["name"].as_str().unwrap_or("unknown"), &call["account"], 1.0);
            add("", &call["account"], -1.0);
        }
        match all.iter_mut().find(|w| w.operations.keys().eq(one.operations.keys())) {
            Some(same) => same.add(one),
            None => all.push(one),
        }
    }
    all
}

impl Work {
    fn add(&mut self, other: Work) {
        for (kind, count) in other.operations {
            *self.operations.entry(kind).or_default() += count;
        }
        for (call, account) in other.parts {
            let own = self.parts.entry(call).or_default();
            for (category, ns) in account {
                *own.entry(category).or_default() += ns;
            }
        }
    }
}
