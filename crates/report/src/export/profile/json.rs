// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report page's form of a profile: tables, and the stacks as one tree.

use crate::palette::{Kind, PAINTS};
use anyhow::Result;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_model::profile::{Frames as Of, Origin, Profile, Root};
use plumb_model::CATEGORIES;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;

/// A wall-clock profile in the page's form, as docs/profile-exports.md describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileDocument {
    /// CLOCK_MONOTONIC, ns.
    pub begin_ns: u64,
    /// CLOCK_MONOTONIC, ns.
    pub end_ns: u64,
    /// Sum of all entries, ns.
    pub time_ns: u64,
    /// Samples of the target.
    pub samples: u64,
    /// The sampling clock; empty: no samples were taken.
    pub clock: String,
    /// Sentences for the reader.
    pub notes: Vec<String>,
    /// The legend.
    pub kinds: Vec<ProfileKind>,
    /// The account's categories.
    pub categories: Vec<ProfileCategory>,
    /// Names of causes; 0 is nobody.
    pub whos: Vec<String>,
    pub threads: Vec<ProfileThread>,
    /// Files with code; 0 is the kernel.
    pub modules: Vec<ProfileModule>,
    pub functions: FunctionColumns,
    /// `FILE:LINE`; 0 is not known.
    pub lines: Vec<String>,
    pub frames: FrameColumns,
    pub nodes: NodeColumns,
    pub stacks: StackColumns,
    pub entries: EntryColumns,
}

impl Output for ProfileDocument {
    const FORMAT: &'static Format = &formats::PROFILE_EXPORT;
}

/// A kind of time in the legend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileKind {
    pub name: String,
    /// `#rrggbb`.
    pub color: String,
}

/// A category of the account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileCategory {
    pub name: String,
    pub about: String,
    /// Row of [`ProfileDocument::kinds`].
    pub kind: usize,
}

/// A thread, or threads of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileThread {
    pub tid: u32,
    /// 0: several.
    pub pid: u32,
    pub comm: String,
    pub process: String,
}

/// A file with code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileModule {
    pub path: String,
    pub build_id: String,
    /// What it lacks for names.
    pub lacking: String,
}

/// Functions, by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionColumns {
    pub name: Vec<String>,
    /// Row of [`ProfileDocument::modules`].
    pub module: Vec<u32>,
    pub origin: Vec<Origin>,
    /// The name is a symbol, no address.
    pub named: Vec<bool>,
}

/// Places in functions, by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameColumns {
    /// Row of [`ProfileDocument::functions`].
    pub function: Vec<u32>,
    /// Row of [`ProfileDocument::lines`].
    pub line: Vec<u32>,
    pub inlined: Vec<bool>,
}

/// The stacks as one tree, by columns; a parent stands before its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeColumns {
    /// Row of the same table; -1 at a root.
    pub parent: Vec<i64>,
    /// Row of [`ProfileDocument::frames`].
    pub frame: Vec<u32>,
}

/// Stacks, by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackColumns {
    /// The innermost frame's row of [`ProfileDocument::nodes`]; -1 for the empty stack.
    pub node: Vec<i64>,
    /// Outer frames are missing.
    pub cut: Vec<bool>,
}

/// The time, by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryColumns {
    /// Row of [`ProfileDocument::threads`].
    pub thread: Vec<u32>,
    /// -1 for waits and time without samples.
    pub cpu: Vec<i64>,
    /// Row of [`ProfileDocument::categories`].
    pub category: Vec<u32>,
    /// Row of [`ProfileDocument::whos`].
    pub who: Vec<u32>,
    /// Row of [`ProfileDocument::stacks`].
    pub stack: Vec<u32>,
    pub time_ns: Vec<u64>,
    /// Samples, or waits.
    pub count: Vec<u64>,
}

/// Gives the stacks their nodes: a parent before its children, each prefix once.
fn tree(profile: &Profile) -> (FrameColumns, NodeColumns, StackColumns) {
    let (mut frames, mut nodes, mut stacks) =
        (FrameColumns::default(), NodeColumns::default(), StackColumns::default());
    let mut frame_of: HashMap<(u32, u32, bool), u32> = HashMap::new();
    let mut node_of: HashMap<(i64, u32), i64> = HashMap::new();
    for stack in &profile.stacks {
        let mut at = -1;
        for f in Of::new(&stack.frames, &profile.frames).iter().rev() {
            let frame = *frame_of.entry((f.function, f.line, f.inlined)).or_insert_with(|| {
                frames.function.push(f.function);
                frames.line.push(f.line);
                frames.inlined.push(f.inlined);
                frames.function.len() as u32 - 1
            });
            at = *node_of.entry((at, frame)).or_insert_with(|| {
                nodes.parent.push(at);
                nodes.frame.push(frame);
                nodes.frame.len() as i64 - 1
            });
        }
        stacks.node.push(at);
        stacks.cut.push(stack.root == Root::Cut);
    }
    (frames, nodes, stacks)
}

/// The profile in the page's form.
pub fn document(profile: &Profile) -> ProfileDocument {
    let (frames, nodes, stacks) = tree(profile);
    let mut functions = FunctionColumns::default();
    for f in &profile.functions {
        functions.name.push(f.name.clone());
        functions.module.push(f.module);
        functions.origin.push(f.origin);
        functions.named.push(f.named);
    }
    let mut entries = EntryColumns::default();
    for e in &profile.entries {
        entries.thread.push(e.thread);
        entries.cpu.push(e.cpu.map_or(-1, i64::from));
        entries.category.push(e.category as u32);
        entries.who.push(e.who);
        entries.stack.push(e.stack);
        entries.time_ns.push(e.time);
        entries.count.push(e.count);
    }
    let color = |[r, g, b]: [u8; 3]| format!("#{r:02x}{g:02x}{b:02x}");
    ProfileDocument {
        begin_ns: profile.begin,
        end_ns: profile.end,
        time_ns: profile.time(),
        samples: profile.samples,
        clock: profile.clock.clone(),
        notes: profile.notes.clone(),
        kinds: PAINTS.iter().map(|p| ProfileKind { name: p.word.into(), color: color(p.rgb) }).collect(),
        categories: CATEGORIES
            .iter()
            .map(|(c, name, about)| ProfileCategory {
                name: (*name).into(),
                about: (*about).into(),
                kind: Kind::of_state(*c) as usize,
            })
            .collect(),
        whos: profile.whos.clone(),
        threads: profile
            .threads
            .iter()
            .map(|t| ProfileThread {
                tid: t.tid,
                pid: t.pid,
                comm: t.comm.clone(),
                process: t.process.clone(),
            })
            .collect(),
        modules: profile
            .modules
            .iter()
            .map(|m| ProfileModule {
                path: m.path.clone(),
                build_id: m.build_id.clone(),
                lacking: m.lacking.clone(),
            })
            .collect(),
        functions,
        lines: profile.lines.clone(),
        frames,
        nodes,
        stacks,
        entries,
    }
}

/// Writes it.
///
/// # Errors
/// The writer's.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    Ok(json::write_in_a_line(out, &document(profile))?)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use serde_json::{json, Value};

    fn value(profile: &Profile) -> Value {
        serde_json::to_value(document(profile)).expect("JSON")
    }

    #[test]
    fn small() {
        let v = value(&sample::small());
        assert_eq!(v["time_ns"], 98_000);
        // `main` is there twice: two lines would be two frames, one line is one.
        assert_eq!(
            v["frames"],
            json!({
                "function": [0, 1, 2, 3, 4], "line": [1, 2, 0, 0, 0],
                "inlined": [false, true, false, false, false]
            })
        );
        assert_eq!(v["nodes"], json!({ "parent": [-1, 0, 0, 2, -1], "frame": [0, 1, 2, 3, 4] }));
        assert_eq!(v["stacks"], json!({ "node": [-1, 1, 3, 4], "cut": [false, false, false, true] }));
        assert_eq!(v["entries"]["time_ns"], json!([50_000, 30_000, 8_000, 6_000, 4_000]));
        assert_eq!(v["entries"]["cpu"], json!([-1, 1, 1, -1, -1]));
        let category = v["entries"]["category"][0].as_u64().expect("place") as usize;
        assert_eq!(v["categories"][category]["name"], "block.device");
        assert_eq!(
            v["kinds"][v["categories"][category]["kind"].as_u64().expect("place") as usize]["name"],
            "waiting for I/O"
        );
        assert_eq!(v["functions"]["origin"], json!(["user", "user", "user", "kernel", "jit"]));
    }

    #[test]
    fn the_tree_has_every_stack() {
        let profile = sample::random(9, 400);
        let v = value(&profile);
        let number = |v: &Value| v.as_i64().expect("number");
        for i in 0..profile.stacks.len() {
            let (mut at, mut functions) = (number(&v["stacks"]["node"][i]), Vec::new());
            while at >= 0 {
                let frame = number(&v["nodes"]["frame"][at as usize]) as usize;
                functions.push(number(&v["frames"]["function"][frame]) as u32);
                let parent = number(&v["nodes"]["parent"][at as usize]);
                assert!(parent < at);
                at = parent;
            }
            assert_eq!(functions, profile.frames_of(i as u32).iter().map(|f| f.function).collect::<Vec<_>>());
        }
        let sum: u64 =
            v["entries"]["time_ns"].as_array().expect("times").iter().filter_map(Value::as_u64).sum();
        assert_eq!(sum, profile.time());
    }

    #[test]
    fn a_compact_profile_adds_up_and_names_what_it_has() {
        let whole = sample::random(9, 400);
        let compact = whole.compact(60);
        assert_eq!((compact.time(), compact.account()), (whole.time(), whole.account()));
        assert!(
            compact.entries.len() < whole.entries.len() && compact.functions.len() <= whole.functions.len()
        );
        let names = |p: &Profile, stack: u32| -> Vec<String> {
            p.frames_of(stack).iter().map(|f| p.functions[f.function as usize].name.clone()).collect()
        };
        for e in &whole.entries[..60] {
            let same = compact.entries.iter().find(|c| {
                (c.thread, c.cpu, c.category, c.who, c.time) == (e.thread, e.cpu, e.category, e.who, e.time)
                    && names(&compact, c.stack) == names(&whole, e.stack)
            });
            assert!(same.is_some(), "{e:?}");
        }
        assert!(compact.notes.last().is_some_and(|n| n.contains("left out")));
        assert_eq!(whole.compact(usize::MAX).entries, whole.entries);
    }
}
