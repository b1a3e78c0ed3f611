// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report page's form of a profile: tables, and the stacks as one tree.

use crate::palette::{Kind, PAINTS};
use anyhow::Result;
use plumb_model::profile::{Frames as Of, Origin, Profile, Root};
use plumb_model::CATEGORIES;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

/// Rises when a reader of the form before would go wrong.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    begin_ns: u64,
    end_ns: u64,
    time_ns: u64,
    samples: u64,
    clock: &'a str,
    notes: &'a [String],
    kinds: Vec<KindRow>,
    categories: Vec<CategoryRow>,
    whos: &'a [String],
    threads: Vec<ThreadRow<'a>>,
    modules: Vec<ModuleRow<'a>>,
    functions: Functions<'a>,
    lines: &'a [String],
    frames: Frames,
    nodes: Nodes,
    stacks: Stacks,
    entries: Entries,
}

#[derive(Serialize)]
struct KindRow {
    name: &'static str,
    color: String,
}

#[derive(Serialize)]
struct CategoryRow {
    name: &'static str,
    about: &'static str,
    kind: usize,
}

#[derive(Serialize)]
struct ThreadRow<'a> {
    tid: u32,
    pid: u32,
    comm: &'a str,
    process: &'a str,
}

#[derive(Serialize)]
struct ModuleRow<'a> {
    path: &'a str,
    build_id: &'a str,
    lacking: &'a str,
}

/// A table by columns, as the others below.
#[derive(Serialize, Default)]
struct Functions<'a> {
    name: Vec<&'a str>,
    module: Vec<u32>,
    origin: Vec<Origin>,
    named: Vec<bool>,
}

#[derive(Serialize, Default)]
struct Frames {
    function: Vec<u32>,
    line: Vec<u32>,
    inlined: Vec<bool>,
}

#[derive(Serialize, Default)]
struct Nodes {
    /// -1 at a root.
    parent: Vec<i64>,
    frame: Vec<u32>,
}

#[derive(Serialize, Default)]
struct Stacks {
    /// The innermost frame's node, -1 for the empty stack.
    node: Vec<i64>,
    cut: Vec<bool>,
}

#[derive(Serialize, Default)]
struct Entries {
    thread: Vec<u32>,
    /// -1 for waits and time without samples.
    cpu: Vec<i64>,
    category: Vec<u32>,
    who: Vec<u32>,
    stack: Vec<u32>,
    time_ns: Vec<u64>,
    count: Vec<u64>,
}

/// Gives the stacks their nodes: a parent before its children, each prefix once.
fn tree(profile: &Profile) -> (Frames, Nodes, Stacks) {
    let (mut frames, mut nodes, mut stacks) = (Frames::default(), Nodes::default(), Stacks::default());
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

/// The profile in the page's form, described in docs/profile-exports.md.
pub fn document(profile: &Profile) -> impl Serialize + '_ {
    let (frames, nodes, stacks) = tree(profile);
    let mut functions = Functions::default();
    for f in &profile.functions {
        functions.name.push(&f.name);
        functions.module.push(f.module);
        functions.origin.push(f.origin);
        functions.named.push(f.named);
    }
    let mut entries = Entries::default();
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
    Document {
        format: "plumb-profile",
        version: VERSION,
        begin_ns: profile.begin,
        end_ns: profile.end,
        time_ns: profile.time(),
        samples: profile.samples,
        clock: &profile.clock,
        notes: &profile.notes,
        kinds: PAINTS.iter().map(|p| KindRow { name: p.word, color: color(p.rgb) }).collect(),
        categories: CATEGORIES
            .iter()
            .map(|(c, name, about)| CategoryRow { name, about, kind: Kind::of_state(*c) as usize })
            .collect(),
        whos: &profile.whos,
        threads: profile
            .threads
            .iter()
            .map(|t| ThreadRow { tid: t.tid, pid: t.pid, comm: &t.comm, process: &t.process })
            .collect(),
        modules: profile
            .modules
            .iter()
            .map(|m| ModuleRow { path: &m.path, build_id: &m.build_id, lacking: &m.lacking })
            .collect(),
        functions,
        lines: &profile.lines,
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
    serde_json::to_writer(&mut *out, &document(profile))?;
    writeln!(out)?;
    Ok(())
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
        assert_eq!((&v["format"], &v["version"]), (&json!("plumb-profile"), &json!(1)));
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
}
