// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Call stacks by number, in words.

use super::{table, Context, Sink};
use plumb_trace::reader::{State, UserStack, UserStacks};
use std::collections::HashMap;

table!(STACKS, Stacks, Trace, "stacks", "Call stacks that waits and samples name",
stack(r: (u32, &str, u64, bool, &str), c) {
    stack: Integer = r.0, "Number; kernel and user stacks have numbers of their own";
    side: Text = r.1, "kernel or user";
    frames: Integer = r.2, "Frames";
    cut: Integer = r.3, "1: its outer frames are missing";
    functions: Text = r.4, "Functions, innermost first, separated by `;`";
});

/// Function at a place, without what was inlined there; `libfoo.so+0x12` where no symbol tells.
struct Places<'a> {
    names: HashMap<(u32, u64), &'a str>,
    modules: HashMap<u32, &'a str>,
}

impl Places<'_> {
    fn words(&self, stack: UserStack<'_>, stacks: &UserStacks) -> String {
        let mut out = String::new();
        for (module, offset) in stack.frames.iter().filter_map(|f| stacks.place(*f)) {
            if !out.is_empty() {
                out.push(';');
            }
            let number = u32::try_from(module).unwrap_or(u32::MAX);
            match self.names.get(&(number, offset)).filter(|name| !name.is_empty()) {
                // A C++ operator or a path may hold one.
                Some(name) => out.extend(name.chars().map(|c| if c == ';' { ':' } else { c })),
                None => {
                    let module = self.modules.get(&number).copied().unwrap_or("[unknown]");
                    out += &format!("{module}+{offset:#x}");
                }
            }
        }
        out
    }
}

/// Hands them to a sink.
pub(super) fn tell<S: Sink + ?Sized>(state: &State, c: &Context, sink: &mut S) {
    if !sink.wants(&STACKS) {
        return;
    }
    for s in state.stacks.iter().filter(|s| s.user == 0) {
        let frames = if s.text.is_empty() { 0 } else { s.text.split(';').count() as u64 };
        stack(sink, c, (s.stack, "kernel", frames, false, &s.text));
    }
    let last = |names: &'_ str| names.rfind('\n').map_or(0, |at| at + 1);
    let places = Places {
        names: state.functions.iter().map(|f| ((f.module, f.offset), &f.names[last(&f.names)..])).collect(),
        modules: state
            .modules
            .iter()
            .map(|m| (m.module, m.path.rsplit('/').next().unwrap_or_default()))
            .filter(|(_, name)| !name.is_empty())
            .collect(),
    };
    for s in state.user_stacks.iter() {
        let words = places.words(s, &state.user_stacks);
        stack(sink, c, (s.stack, "user", s.frames.len() as u64, s.cut != 0, &words));
    }
}
