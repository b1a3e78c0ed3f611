// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pprof's format: a compressed protocol buffer.

pub mod proto;

use super::words;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use plumb_model::profile::{Frame, Frames, Origin, Profile};
use plumb_model::Category;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// Mapping, address, functions with their lines.
type Place = (u64, u64, Vec<(u64, i64)>);

/// Thread, place of the category in the account, who, stack.
type Key = (u32, usize, u32, u32);

/// Makes the tables of a message, each thing once.
struct Maker<'a> {
    profile: &'a Profile,
    out: proto::Profile,
    strings: HashMap<String, i64>,
    functions: HashMap<(String, String, String), u64>,
    locations: HashMap<Place, u64>,
    /// Of each module; 0 for one without code in the profile.
    mappings: Vec<u64>,
}

/// Source file and line number of `FILE:LINE`.
pub fn source(text: &str) -> Option<(&str, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

impl<'a> Maker<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut maker = Self {
            profile,
            out: proto::Profile::default(),
            strings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            mappings: vec![0; profile.modules.len()],
        };
        // The format wants the empty string first.
        maker.string("");
        maker
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(at) = self.strings.get(text) {
            return *at;
        }
        let at = self.out.string_table.len() as i64;
        self.out.string_table.push(text.to_string());
        self.strings.insert(text.to_string(), at);
        at
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.string(kind), unit: self.string(unit) }
    }

    /// The modules that have code here, the program with the most time first: it is the profile's
    /// main binary by the format's rule.
    fn modules(&mut self) {
        let profile = self.profile;
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for entry in &profile.entries {
            for frame in profile.frames_of(entry.stack).iter() {
                if let Some(function) = profile.functions.get(frame.function as usize) {
                    let own = if function.origin == Origin::User { entry.time } else { 0 };
                    *times.entry(function.module).or_default() += own;
                }
            }
        }
        let mut order: Vec<(u32, u64)> = times.into_iter().collect();
        order.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let lines = profile.lines.iter().any(|l| !l.is_empty());
        for (module, _) in order {
            let Some(of) = profile.modules.get(module as usize) else { continue };
            let id = self.out.mapping.len() as u64 + 1;
            self.mappings[module as usize] = id;
            let mapping = proto::Mapping {
                id,
                filename: self.string(&of.path),
                build_id: self.string(&of.build_id),
                // Readers leave the names alone then: the addresses are of the file, not of a process.
                has_functions: true,
                has_filenames: lines,
                has_line_numbers: lines,
                has_inline_frames: true,
            };
            self.out.mapping.push(mapping);
        }
    }

    fn function(&mut self, name: &str, module: &str, file: &str) -> u64 {
        let key = (name.to_string(), module.to_string(), file.to_string());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.out.function.len() as u64 + 1;
        let name = self.string(name);
        let filename = self.string(file);
        self.out.function.push(proto::Function { id, name, system_name: name, filename, start_line: 0 });
        self.functions.insert(key, id);
        id
    }

    fn location(&mut self, mapping_id: u64, address: u64, lines: Vec<(u64, i64)>) -> u64 {
        let next = self.out.location.len() as u64 + 1;
        let key = (mapping_id, address, lines);
        if let Some(id) = self.locations.get(&key) {
            return *id;
        }
        let line =
            key.2.iter().map(|(function_id, line)| proto::Line { function_id: *function_id, line: *line });
        self.out.location.push(proto::Location { id: next, mapping_id, address, line: line.collect() });
        self.locations.insert(key, next);
        next
    }

    fn line(&mut self, frame: &Frame) -> Option<(u64, i64)> {
        let profile = self.profile;
        let function = profile.functions.get(frame.function as usize)?;
        let at = profile.lines.get(frame.line as usize).and_then(|l| source(l));
        let module = profile.modules.get(function.module as usize).map_or("", |m| &m.path);
        let id = self.function(&function.name, module, at.map_or("", |a| a.0));
        Some((id, at.map_or(0, |a| i64::from(a.1))))
    }

    /// Innermost first; inlined functions are lines of the location that they were put into.
    fn frames(&mut self, frames: Frames<'_>) -> Vec<u64> {
        let mut out = Vec::new();
        let mut lines = Vec::new();
        for (i, frame) in frames.iter().enumerate() {
            lines.extend(self.line(frame));
            if frame.inlined && i + 1 < frames.len() {
                continue;
            }
            let module = self.profile.functions.get(frame.function as usize).map_or(0, |f| f.module);
            let mapping = self.mappings.get(module as usize).copied().unwrap_or(0);
            out.push(self.location(mapping, frame.address, std::mem::take(&mut lines)));
        }
        out
    }

    /// A frame without code: a state.
    fn note(&mut self, text: &str) -> u64 {
        let function = self.function(text, "", "");
        self.location(0, 0, vec![(function, 0)])
    }

    fn text_label(&mut self, key: &str, text: &str) -> proto::Label {
        proto::Label { key: self.string(key), str: self.string(text), ..proto::Label::default() }
    }

    fn samples(&mut self) {
        let profile = self.profile;
        // CPUs are no label: without them fewer samples say the same.
        // In the account's order of categories, which is not that of their names.
        let mut sums: BTreeMap<Key, (Category, [i64; 2])> = BTreeMap::new();
        for e in &profile.entries {
            let key = (e.thread, e.category as usize, e.who, e.stack);
            let (_, sum) = sums.entry(key).or_insert((e.category, [0, 0]));
            sum[0] = sum[0].saturating_add(i64::try_from(e.count).unwrap_or(i64::MAX));
            sum[1] = sum[1].saturating_add(i64::try_from(e.time).unwrap_or(i64::MAX));
        }
        for ((thread, _, who, stack), (category, value)) in sums {
            let frames = profile.frames_of(stack);
            let cause = profile.whos.get(who as usize).map_or("", String::as_str);
            let mut location_id = Vec::new();
            if category != Category::Running {
                let end = if cause.is_empty() { String::new() } else { format!(" {cause}") };
                location_id.push(self.note(&format!("[{}{end}]", category.name())));
            } else if frames.is_empty() {
                location_id.push(self.note(super::labels::NOT_SAMPLED));
            }
            location_id.extend(self.frames(frames));
            if profile.stacks.get(stack as usize).is_some_and(|s| s.root == plumb_model::profile::Root::Cut) {
                location_id.push(self.note(super::labels::CUT));
            }
            let mut label = vec![self.text_label("state", category.name())];
            if !cause.is_empty() {
                label.push(self.text_label("cause", cause));
            }
            if let Some(t) = profile.threads.get(thread as usize) {
                label.push(self.text_label("thread", &t.comm));
                label.push(self.text_label("process", &t.process));
                for (key, number) in [("tid", t.tid), ("pid", t.pid)] {
                    let key = self.string(key);
                    label.push(proto::Label { key, num: i64::from(number), ..proto::Label::default() });
                }
            }
            self.out.sample.push(proto::Sample { location_id, value: value.to_vec(), label });
        }
    }
}

/// The message, uncompressed.
pub fn message(profile: &Profile) -> proto::Profile {
    let mut maker = Maker::new(profile);
    maker.out.sample_type =
        vec![maker.value_type("samples", "count"), maker.value_type("wall", "nanoseconds")];
    maker.out.default_sample_type = maker.string("wall");
    maker.out.duration_nanos = i64::try_from(profile.end.saturating_sub(profile.begin)).unwrap_or(i64::MAX);
    if let Some(rate) = words::rate(profile) {
        maker.out.period_type = Some(maker.value_type("cpu", "nanoseconds"));
        maker.out.period = (1e9 / rate).round() as i64;
    }
    maker.modules();
    maker.samples();
    let mut comment = vec![maker.string(&words::what(profile))];
    comment.extend(profile.notes.iter().map(|n| maker.string(n)));
    maker.out.comment = comment;
    maker.out
}

/// Writes the profile, compressed. It has no time of day: a trace's clock is CLOCK_MONOTONIC.
///
/// # Errors
/// The writer's.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    // Without a time in its head the same profile gives the same bytes.
    let mut zip = GzBuilder::new().mtime(0).write(out, Compression::default());
    zip.write_all(&message(profile).encode_to_vec()).context("cannot write the profile")?;
    zip.finish().context("cannot write the profile")?;
    Ok(())
}

#[cfg(test)]
mod tests;
