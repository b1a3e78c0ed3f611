// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks as paths of names: what folded stacks and flame graphs are made of.

use crate::palette::Kind;
use plumb_model::profile::{Entry, Origin, Profile, Root};
use plumb_model::Category;
use std::collections::HashMap;

/// The frame of time on a CPU without a sample.
pub const NOT_SAMPLED: &str = "[not sampled]";
/// The frame below which a stack's outer frames are missing.
pub const CUT: &str = "[outer frames missing]";

/// A name of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Without `;`, line ends and control characters.
    pub text: String,
    pub kind: Kind,
}

/// A stack with its process, thread and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Places in [`Paths::labels`], outermost first.
    pub path: Vec<u32>,
    /// Time of the first and of the second profile, ns.
    pub time: [u64; 2],
}

/// The stacks of one profile or of two, each path once.
#[derive(Debug, Default)]
pub struct Paths {
    pub labels: Vec<Label>,
    index: HashMap<(String, Kind), u32>,
    lines: HashMap<Vec<u32>, [u64; 2]>,
}

/// Whether XML 1.0 has no form at all for a character, or an editor takes it for a line's end.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// A sentence with names in it, as XML can have it.
pub fn plain(text: &str) -> String {
    text.replace(is_odd, "_")
}

/// A name that neither a line of folded stacks nor XML takes for something else.
fn clean(name: &str) -> String {
    let text = plain(name).replace(';', ":");
    let mut text = text.trim().to_string();
    // Readers take a last word of digits for the value, and a line that begins with `# ` for a remark.
    if let Some(space) = text.rfind(' ') {
        if text[space + 1..].chars().all(|c| c.is_ascii_digit() || c == '.') {
            text.replace_range(space..=space, "_");
        }
    }
    if text.starts_with("# ") {
        text.replace_range(1..2, "_");
    }
    if text.is_empty() {
        text.push_str("[no name]");
    }
    text
}

impl Paths {
    fn label(&mut self, name: &str, kind: Kind, suffix: &str) -> u32 {
        let text = clean(name) + suffix;
        let labels = &mut self.labels;
        *self.index.entry((text, kind)).or_insert_with_key(|(text, kind)| {
            labels.push(Label { text: text.clone(), kind: *kind });
            labels.len() as u32 - 1
        })
    }

    /// Adds a profile's entries, as the first (0) or the second (1).
    pub fn add(&mut self, profile: &Profile, side: usize) {
        let mut known = HashMap::new();
        for entry in &profile.entries {
            let mut path = Vec::new();
            self.task(profile, entry, &mut path);
            self.code(profile, entry, &mut known, &mut path);
            let time = self.lines.entry(path).or_default();
            time[side] = time[side].saturating_add(entry.time);
        }
    }

    /// Process, and thread where its name says something more.
    fn task(&mut self, profile: &Profile, entry: &Entry, path: &mut Vec<u32>) {
        let Some(thread) = profile.threads.get(entry.thread as usize) else {
            path.push(self.label("", Kind::Task, ""));
            return;
        };
        let process = if thread.process.is_empty() { &thread.comm } else { &thread.process };
        path.push(self.label(process, Kind::Task, ""));
        if thread.comm != *process && !thread.comm.is_empty() {
            path.push(self.label(&thread.comm, Kind::Task, ""));
        }
    }

    fn code(
        &mut self,
        profile: &Profile,
        entry: &Entry,
        known: &mut HashMap<(u32, bool), u32>,
        path: &mut Vec<u32>,
    ) {
        let stack = profile.stacks.get(entry.stack as usize);
        if let Some(stack) = stack {
            if stack.root == Root::Cut {
                path.push(self.label(CUT, Kind::Unknown, ""));
            }
            for frame in profile.frames_of(entry.stack).iter().rev() {
                let Some(function) = profile.functions.get(frame.function as usize) else { continue };
                let key = (frame.function, frame.inlined);
                let label = known.get(&key).copied().unwrap_or_else(|| {
                    let kind = Kind::of_code(function.origin, frame.inlined);
                    let suffix = match function.origin {
                        _ if frame.inlined => "_[i]",
                        Origin::Kernel => "_[k]",
                        Origin::Jit => "_[j]",
                        Origin::User => "",
                    };
                    self.label(&function.name, kind, suffix)
                });
                known.insert(key, label);
                path.push(label);
            }
        }
        let state = profile.state(entry);
        if let Some(state) = state {
            path.push(self.label(&state, Kind::of_state(entry.category), ""));
        } else if stack.is_none_or(|s| s.frames.is_empty()) {
            path.push(self.label(NOT_SAMPLED, Kind::of_state(Category::Running), ""));
        }
    }

    /// The paths, by their names.
    pub fn lines(&self) -> Vec<Line> {
        let mut rank: Vec<u32> = (0..self.labels.len() as u32).collect();
        rank.sort_by_key(|i| {
            let label = &self.labels[*i as usize];
            (label.text.as_str(), label.kind)
        });
        let mut place = vec![0u32; rank.len()];
        rank.iter().enumerate().for_each(|(at, label)| place[*label as usize] = at as u32);
        let mut lines: Vec<_> = self
            .lines
            .iter()
            .map(|(path, time)| {
                let key: Vec<u32> = path.iter().map(|l| place[*l as usize]).collect();
                (key, Line { path: path.clone(), time: *time })
            })
            .collect();
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// A path's text, outermost first.
    pub fn text(&self, path: &[u32]) -> String {
        let names: Vec<&str> = path.iter().map(|l| self.labels[*l as usize].text.as_str()).collect();
        names.join(";")
    }
}

/// Divides by `unit` so that the parts add up to the whole's rounded quotient: who lost most
/// by rounding down gets one more (the largest-remainder method).
pub fn round(values: &[u64], unit: u64) -> Vec<u64> {
    let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
    let mut out: Vec<u64> = values.iter().map(|v| v / unit).collect();
    let floor: u128 = out.iter().map(|v| u128::from(*v)).sum();
    let rest = (sum + u128::from(unit / 2)) / u128::from(unit) - floor;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(values[*i] % unit));
    // Fewer than there are remainders: each of them is below one unit.
    order.into_iter().take(rest as usize).for_each(|i| out[i] += 1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_a_line() {
        assert_eq!(clean("a;b\nc\u{1}d"), "a:b_c_d");
        assert_eq!(clean("file.js 12"), "file.js_12");
        assert_eq!(clean("operator new"), "operator new");
        assert_eq!(clean("# x"), "#_x");
        assert_eq!(clean("  "), "[no name]");
        assert_eq!(clean("a\u{ffff}"), "a_");
    }

    #[test]
    fn rounding_keeps_the_sum() {
        assert_eq!(round(&[1_400, 1_400, 1_200], 1_000), [2, 1, 1]);
        assert_eq!(round(&[499], 1_000), [0]);
        assert_eq!(round(&[500], 1_000), [1]);
        assert_eq!(round(&[u64::MAX / 1_000 * 1_000, 700], 1_000), [u64::MAX / 1_000, 1]);
        assert_eq!(round(&[], 1_000), [0u64; 0]);
    }
}
