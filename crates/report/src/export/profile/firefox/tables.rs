// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread's tables in the Firefox profiler's format: by columns, everything once.

use super::super::pprof::source;
use crate::palette::Kind;
use plumb_model::profile::{Frame, Profile};
use serde_json::{json, Value};
use std::collections::HashMap;

/// What the format writes where there is no resource.
const NONE: i64 = -1;
/// The format's number for a library among its kinds of resources.
const LIBRARY: u32 = 1;

pub struct Maker<'a> {
    profile: &'a Profile,
    strings: Vec<String>,
    string_index: HashMap<String, u32>,
    /// Name, resource, source file.
    funcs: Vec<(u32, i64, Option<u32>)>,
    func_index: HashMap<(u32, i64, Option<u32>), u32>,
    /// Function, kind, line, inlined.
    frames: Vec<(u32, Kind, Option<u32>, bool)>,
    frame_index: HashMap<(u32, Kind, Option<u32>, bool), u32>,
    /// Prefix, frame.
    stacks: Vec<(Option<u32>, u32)>,
    stack_index: HashMap<(Option<u32>, u32), u32>,
    /// Module, name.
    resources: Vec<(u32, u32)>,
    resource_index: HashMap<u32, u32>,
}

/// Place of a thing in a table that has it once.
fn place<T: Clone + std::hash::Hash + Eq>(list: &mut Vec<T>, index: &mut HashMap<T, u32>, thing: T) -> u32 {
    *index.entry(thing).or_insert_with_key(|thing| {
        list.push(thing.clone());
        list.len() as u32 - 1
    })
}

impl<'a> Maker<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            strings: Vec::new(),
            string_index: HashMap::new(),
            funcs: Vec::new(),
            func_index: HashMap::new(),
            frames: Vec::new(),
            frame_index: HashMap::new(),
            stacks: Vec::new(),
            stack_index: HashMap::new(),
            resources: Vec::new(),
            resource_index: HashMap::new(),
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        place(&mut self.strings, &mut self.string_index, text.to_string())
    }

    fn resource(&mut self, module: u32) -> i64 {
        let Some(of) = self.profile.modules.get(module as usize) else { return NONE };
        if let Some(at) = self.resource_index.get(&module) {
            return i64::from(*at);
        }
        let name = self.string(of.name());
        self.resources.push((module, name));
        self.resource_index.insert(module, self.resources.len() as u32 - 1);
        self.resources.len() as i64 - 1
    }

    fn frame(&mut self, func: (u32, i64, Option<u32>), kind: Kind, line: Option<u32>, inlined: bool) -> u32 {
        let func = place(&mut self.funcs, &mut self.func_index, func);
        place(&mut self.frames, &mut self.frame_index, (func, kind, line, inlined))
    }

    /// A frame of code; `None` for a function that the profile does not have.
    pub fn code(&mut self, frame: &Frame) -> Option<u32> {
        let profile = self.profile;
        let function = profile.functions.get(frame.function as usize)?;
        let at = profile.lines.get(frame.line as usize).and_then(|l| source(l));
        let name = self.string(&function.name);
        let resource = self.resource(function.module);
        let file = at.map(|(file, _)| self.string(file));
        let kind = Kind::of_code(function.origin, frame.inlined);
        Some(self.frame((name, resource, file), kind, at.map(|a| a.1), frame.inlined))
    }

    /// A frame without code: a state.
    pub fn note(&mut self, text: &str, kind: Kind) -> u32 {
        let name = self.string(text);
        self.frame((name, NONE, None), kind, None, false)
    }

    /// A frame below a stack.
    pub fn stack(&mut self, prefix: Option<u32>, frame: u32) -> u32 {
        place(&mut self.stacks, &mut self.stack_index, (prefix, frame))
    }

    /// The tables by their names in the format.
    pub fn tables(self) -> Value {
        let nulls = |n: usize| vec![Value::Null; n];
        let (frames, funcs) = (&self.frames, &self.funcs);
        let category = |frame: u32| self.frames[frame as usize].1 as u32;
        json!({
            "stackTable": {
                "frame": self.stacks.iter().map(|s| s.1).collect::<Vec<_>>(),
                "prefix": self.stacks.iter().map(|s| s.0).collect::<Vec<_>>(),
                "category": self.stacks.iter().map(|s| category(s.1)).collect::<Vec<_>>(),
                "subcategory": vec![0; self.stacks.len()],
                "length": self.stacks.len(),
            },
            "frameTable": {
                // Addresses need native symbols, which serve symbolication: these names are there already.
                "address": vec![-1; frames.len()],
                "inlineDepth": frames.iter().map(|f| u32::from(f.3)).collect::<Vec<_>>(),
                "category": frames.iter().map(|f| f.1 as u32).collect::<Vec<_>>(),
                "subcategory": vec![0; frames.len()],
                "func": frames.iter().map(|f| f.0).collect::<Vec<_>>(),
                "nativeSymbol": nulls(frames.len()),
                "innerWindowID": vec![0; frames.len()],
                "implementation": nulls(frames.len()),
                "line": frames.iter().map(|f| f.2).collect::<Vec<_>>(),
                "column": nulls(frames.len()),
                "length": frames.len(),
            },
            "funcTable": {
                "name": funcs.iter().map(|f| f.0).collect::<Vec<_>>(),
                "isJS": vec![false; funcs.len()],
                "relevantForJS": vec![false; funcs.len()],
                "resource": funcs.iter().map(|f| f.1).collect::<Vec<_>>(),
                "fileName": funcs.iter().map(|f| f.2).collect::<Vec<_>>(),
                "lineNumber": nulls(funcs.len()),
                "columnNumber": nulls(funcs.len()),
                "length": funcs.len(),
            },
            "resourceTable": {
                "lib": self.resources.iter().map(|r| r.0).collect::<Vec<_>>(),
                "name": self.resources.iter().map(|r| r.1).collect::<Vec<_>>(),
                "host": nulls(self.resources.len()),
                "type": vec![LIBRARY; self.resources.len()],
                "length": self.resources.len(),
            },
            "nativeSymbols": { "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 },
            "stringArray": self.strings,
        })
    }
}
