// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Firefox profiler's processed format, version 48, which profiler.firefox.com turns into its
//! newest one while it loads: `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of
//! <https://github.com/firefox-devtools/profiler>.

mod tables;

use super::labels::{CUT, NOT_SAMPLED};
use super::words;
use crate::palette::{Kind, PAINTS};
use anyhow::Result;
use plumb_model::profile::{Entry, Profile, Root, Thread};
use plumb_model::Category;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use tables::Maker;

/// The version of the processed format.
const PROCESSED: u32 = 48;
/// The version of Firefox's own format at that time, which the file must tell too.
const GECKO: u32 = 27;

/// ns as the format's ms.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A symbol server's id of a module: the first 16 bytes of the build id as a GUID, and an age of 0.
fn breakpad(build_id: &str) -> String {
    let mut hex = build_id.to_ascii_uppercase();
    hex.retain(|c| c.is_ascii_hexdigit());
    hex.truncate(32);
    let id = format!("{hex:0<32}");
    // Its first three fields are little-endian numbers there.
    let swapped = [3, 2, 1, 0, 5, 4, 7, 6].iter().map(|byte| &id[byte * 2..byte * 2 + 2]);
    swapped.collect::<String>() + &id[16..] + "0"
}

fn libs(profile: &Profile) -> Vec<Value> {
    let lib = |m: &plumb_model::profile::Module| {
        let code = (!m.build_id.is_empty()).then_some(&m.build_id);
        json!({
            "arch": "", "name": m.name(), "path": m.path, "debugName": m.name(), "debugPath": m.path,
            "breakpadId": breakpad(&m.build_id), "codeId": code,
        })
    };
    profile.modules.iter().map(lib).collect()
}

fn meta(profile: &Profile) -> Value {
    // The format calls its default category by its colour: the first grey one.
    let categories: Vec<Value> = PAINTS
        .iter()
        .map(|p| json!({"name": p.word, "color": p.firefox, "subcategories": ["Other"]}))
        .collect();
    let row = |label: &str, value: &str| json!({"label": label, "format": "string", "value": value});
    let mut about = vec![row("Profile", &words::what(profile))];
    about.extend(profile.notes.iter().map(|n| row("Note", n)));
    json!({
        "interval": words::rate(profile).map_or(1.0, |rate| 1e3 / rate),
        "startTime": 0,
        "processType": 0,
        "product": words::processes(profile),
        "importedFrom": "plumb",
        "stackwalk": 1,
        "version": GECKO,
        "preprocessedProfileVersion": PROCESSED,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true,
        "sourceCodeIsNotOnSearchfox": true,
        "keepProfileThreadOrder": true,
        "categories": categories,
        "markerSchema": [],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "extensions": {"baseURL": [], "id": [], "name": [], "length": 0},
        "extra": [{"label": "plumb", "entries": about}],
    })
}

fn thread(profile: &Profile, of: &Thread, tid: &str, entries: &[&Entry]) -> Value {
    let mut maker = Maker::new(profile);
    let mut functions: HashMap<(u32, u32, bool), u32> = HashMap::new();
    let (mut stacks, mut times, mut weights, mut now) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
    for entry in entries {
        let stack = profile.stacks.get(entry.stack as usize);
        let mut at = None;
        if stack.is_some_and(|s| s.root == Root::Cut) {
            let frame = maker.note(CUT, Kind::Unknown);
            at = Some(maker.stack(at, frame));
        }
        for frame in profile.frames_of(entry.stack).iter().rev() {
            let key = (frame.function, frame.line, frame.inlined);
            let place = match functions.get(&key) {
                Some(place) => *place,
                None => {
                    let Some(place) = maker.code(frame) else { continue };
                    functions.insert(key, place);
                    place
                }
            };
            at = Some(maker.stack(at, place));
        }
        let state = profile.state(entry);
        if let Some(state) = state {
            let frame = maker.note(&state, Kind::of_state(entry.category));
            at = Some(maker.stack(at, frame));
        } else if at.is_none() {
            let frame = maker.note(NOT_SAMPLED, Kind::of_state(Category::Running));
            at = Some(maker.stack(at, frame));
        }
        stacks.push(at);
        times.push(ms(now));
        weights.push(ms(entry.time));
        now = now.saturating_add(entry.time);
    }
    let process = if of.process.is_empty() { &of.comm } else { &of.process };
    let mut out = json!({
        "processType": "default",
        "processName": process,
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": of.comm,
        "isMainThread": of.pid != 0 && of.tid == of.pid,
        "pid": of.pid.to_string(),
        "tid": tid,
        "samples": {
            "stack": stacks, "time": times, "weight": weights, "weightType": "tracing-ms",
            "length": entries.len(),
        },
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0,
        },
    });
    if let (Value::Object(out), Value::Object(tables)) = (&mut out, maker.tables()) {
        out.extend(tables);
    }
    out
}

/// The file: a thread of the profile each, that with the most time first.
fn file(profile: &Profile) -> Value {
    let mut by_thread: BTreeMap<u32, (u64, Vec<&Entry>)> = BTreeMap::new();
    for entry in &profile.entries {
        let (time, entries) = by_thread.entry(entry.thread).or_default();
        *time += entry.time;
        entries.push(entry);
    }
    let mut order: Vec<(u32, (u64, Vec<&Entry>))> = by_thread.into_iter().collect();
    order.sort_by_key(|(_, (time, _))| std::cmp::Reverse(*time));
    // The viewer wants each number once; several threads in one row have none.
    let mut taken = HashSet::new();
    let mut threads = Vec::new();
    for (i, (_, entries)) in &order {
        let Some(of) = profile.threads.get(*i as usize) else { continue };
        let mut tid = of.tid.to_string();
        if of.tid == 0 || !taken.insert(tid.clone()) {
            tid = format!("{tid}-{i}");
            taken.insert(tid.clone());
        }
        threads.push(thread(profile, of, &tid, entries));
    }
    json!({ "meta": meta(profile), "libs": libs(profile), "pages": [], "threads": threads })
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
mod tests;
