// SPDX-License-Identifier: Apache-2.0 OR MIT
//! speedscope's JSON: <https://www.speedscope.app/file-format-schema.json>, as
//! `src/lib/file-format-spec.ts` of the program documents it. A "sampled" profile each process.

use super::labels::{CUT, NOT_SAMPLED};
use super::words;
use anyhow::Result;
use plumb_model::profile::{Origin, Profile, Root};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

#[derive(Serialize)]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared,
    profiles: Vec<Sampled>,
    name: String,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    exporter: String,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize, Clone, PartialEq, Eq, Hash)]
struct Frame {
    name: String,
    /// The module: speedscope gives each file a colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

#[derive(Default)]
struct Frames {
    list: Vec<Frame>,
    index: HashMap<Frame, usize>,
}

impl Frames {
    fn add(&mut self, name: &str, file: Option<&str>) -> usize {
        let frame = Frame { name: name.to_string(), file: file.map(str::to_string) };
        if let Some(at) = self.index.get(&frame) {
            return *at;
        }
        self.list.push(frame.clone());
        self.index.insert(frame, self.list.len() - 1);
        self.list.len() - 1
    }
}

fn file(profile: &Profile) -> File {
    let mut frames = Frames::default();
    // Of each process: its threads, and its stacks in the order of their times.
    let mut processes: BTreeMap<(u32, &str), (u64, BTreeSet<u32>)> = BTreeMap::new();
    let process = |thread: u32| {
        profile.threads.get(thread as usize).map_or((0, ""), |t| {
            (t.pid, if t.process.is_empty() { t.comm.as_str() } else { t.process.as_str() })
        })
    };
    for entry in &profile.entries {
        let (time, threads) = processes.entry(process(entry.thread)).or_default();
        *time += entry.time;
        threads.insert(entry.thread);
    }
    let mut order: Vec<(u32, &str)> = processes.keys().copied().collect();
    order.sort_by_key(|p| std::cmp::Reverse(processes[p].0));
    let place: HashMap<(u32, &str), usize> = order.iter().enumerate().map(|(i, p)| (*p, i)).collect();
    let mut profiles: Vec<Sampled> = order
        .iter()
        .map(|(pid, name)| Sampled {
            kind: "sampled",
            name: if *pid == 0 { name.to_string() } else { format!("{name} ({pid})") },
            unit: "nanoseconds",
            start_value: 0,
            end_value: processes[&(*pid, *name)].0,
            samples: Vec::new(),
            weights: Vec::new(),
        })
        .collect();

    let mut functions: Vec<Option<usize>> = vec![None; profile.functions.len()];
    for entry in &profile.entries {
        let key = process(entry.thread);
        let mut sample = Vec::new();
        if processes[&key].1.len() > 1 {
            if let Some(t) = profile.threads.get(entry.thread as usize) {
                let name = if t.tid == 0 { t.comm.clone() } else { format!("{} ({})", t.comm, t.tid) };
                sample.push(frames.add(&name, Some("[threads]")));
            }
        }
        let stack = profile.stacks.get(entry.stack as usize);
        if stack.is_some_and(|s| s.root == Root::Cut) {
            sample.push(frames.add(CUT, None));
        }
        let inner = profile.frames_of(entry.stack);
        for frame in inner.iter().rev() {
            let (Some(function), Some(known)) =
                (profile.functions.get(frame.function as usize), functions.get_mut(frame.function as usize))
            else {
                continue;
            };
            let at = *known.get_or_insert_with(|| {
                let module = profile.modules.get(function.module as usize).map(|m| m.path.as_str());
                let kernel = function.origin == Origin::Kernel;
                frames.add(&function.name, if kernel { Some("kernel") } else { module })
            });
            sample.push(at);
        }
        match profile.state(entry) {
            Some(state) => sample.push(frames.add(&state, Some("[waiting]"))),
            None if inner.is_empty() => sample.push(frames.add(NOT_SAMPLED, None)),
            None => {}
        }
        let to = &mut profiles[place[&key]];
        to.samples.push(sample);
        to.weights.push(entry.time);
    }
    File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        shared: Shared { frames: frames.list },
        profiles,
        name: format!("wall-clock time: {}", words::what(profile)),
        active: 0,
        exporter: concat!("plumb ", env!("CARGO_PKG_VERSION")).to_string(),
    }
}

/// Writes it. Its order of time means nothing, as the profile has sums: largest first.
///
/// # Errors
/// The writer's.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer(&mut *out, &file(profile))?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use serde_json::{json, Value};

    fn value(profile: &Profile) -> Value {
        serde_json::to_value(file(profile)).expect("JSON")
    }

    #[test]
    fn small() {
        let v = value(&sample::small());
        assert_eq!(v["$schema"], "https://www.speedscope.app/file-format-schema.json");
        assert_eq!(v["profiles"].as_array().map(Vec::len), Some(1));
        let p = &v["profiles"][0];
        assert_eq!(p["type"], "sampled");
        assert_eq!(p["unit"], "nanoseconds");
        assert_eq!(p["name"], "app (10)");
        assert_eq!((&p["startValue"], &p["endValue"]), (&json!(0), &json!(98_000)));
        assert_eq!(p["weights"], json!([50_000, 30_000, 8_000, 6_000, 4_000]));
        let name = |i: &Value| v["shared"]["frames"][i.as_u64().expect("place") as usize]["name"].clone();
        let names: Vec<Value> = p["samples"][0].as_array().expect("frames").iter().map(name).collect();
        assert_eq!(names, ["app (10)", "main", "read", "sys_read", "[block.device sda]"].map(Value::from));
        assert_eq!(v["shared"]["frames"][4], json!({"name": "[block.device sda]", "file": "[waiting]"}));
    }

    /// What the schema asks for: known keys only, places within the table, one weight a sample.
    #[test]
    fn the_schema_is_kept() {
        let profile = sample::random(5, 500);
        let v = value(&profile);
        let keys = |v: &Value| -> Vec<String> { v.as_object().expect("object").keys().cloned().collect() };
        assert_eq!(keys(&v), ["$schema", "activeProfileIndex", "exporter", "name", "profiles", "shared"]);
        let frames = v["shared"]["frames"].as_array().expect("frames");
        assert!(frames.iter().all(|f| f["name"].is_string() && f["file"].as_str() != Some("")));
        let mut sum = 0;
        for p in v["profiles"].as_array().expect("profiles") {
            assert_eq!(keys(p), ["endValue", "name", "samples", "startValue", "type", "unit", "weights"]);
            let (samples, weights) =
                (p["samples"].as_array().expect("s"), p["weights"].as_array().expect("w"));
            assert_eq!(samples.len(), weights.len());
            let places = samples.iter().flat_map(|s| s.as_array().expect("stack"));
            assert!(places.into_iter().all(|i| i.as_u64().is_some_and(|i| i < frames.len() as u64)));
            let weight: u64 = weights.iter().filter_map(Value::as_u64).sum();
            assert_eq!(Some(weight), p["endValue"].as_u64());
            sum += weight;
        }
        assert_eq!(sum, profile.time());
    }
}
