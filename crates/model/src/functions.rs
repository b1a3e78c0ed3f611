// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of user stacks, however the trace tells them.

use plumb_trace::reader::State;
use std::collections::{HashMap, HashSet};

/// Names of the functions of some user stacks by the stack's number, innermost first, inlined
/// ones too; what has no name is left out. Traces have `state_user_stack` and `state_function`,
/// older ones `state_stack` with build ids and `state_symbol`.
pub fn user_functions<'a>(state: &'a State, wanted: &HashSet<u32>) -> HashMap<u32, Vec<&'a str>> {
    if wanted.is_empty() {
        return HashMap::new();
    }
    let symbols: HashMap<(&str, u64), &str> =
        state.symbols.iter().map(|s| ((s.build_id.as_str(), s.offset), s.name.as_str())).collect();
    let older = state.stacks.iter().filter(|s| s.user == 1 && wanted.contains(&s.stack)).map(|s| {
        let frames = s.text.split(';').zip(&s.frames);
        (s.stack, frames.filter_map(|(id, at)| symbols.get(&(id, *at)).copied()).collect())
    });
    let functions: HashMap<(u64, u64), &str> =
        state.functions.iter().map(|f| ((u64::from(f.module), f.offset), f.names.as_str())).collect();
    let newer = state.user_stacks.iter().filter(|s| wanted.contains(&s.stack)).map(|s| {
        let places = s.frames.iter().filter_map(|f| state.user_stacks.place(*f));
        let names = places.filter_map(|place| functions.get(&place));
        (s.stack, names.flat_map(|n| n.split('\n')).filter(|n| !n.is_empty()).collect())
    });
    older.chain(newer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::schema::{StateFunction, StateStack, StateSymbol, StateUserStack};
    use std::sync::Arc;

    #[test]
    fn both_kinds_of_traces_tell_functions() {
        let symbol = |offset, name: &str| StateSymbol { offset, build_id: "ab".into(), name: name.into() };
        let function = |module, offset, names: &str| StateFunction {
            module,
            offset,
            names: names.into(),
            ..StateFunction::default()
        };
        let told = |stack| StateUserStack {
            stack,
            modules: vec![1, 2, 1],
            offsets: vec![10, 10, 99],
            ..StateUserStack::default()
        };
        let state = State {
            stacks: vec![
                StateStack { stack: 1, user: 1, frames: vec![10, 20, 30], text: "ab;cd;ab".into() },
                StateStack { stack: 2, user: 0, frames: vec![10], text: "schedule".into() },
            ],
            symbols: vec![symbol(10, "unlock"), symbol(20, "elsewhere"), symbol(30, "main")],
            user_stacks: Arc::new([told(3), told(4)].into_iter().collect()),
            functions: vec![
                function(1, 10, "drop\nunlock"),
                function(2, 10, "main"),
                function(3, 10, "other"),
            ],
            ..State::default()
        };
        let names = user_functions(&state, &HashSet::from([1, 2, 3]));
        assert_eq!(names[&1], ["unlock", "main"], "the second frame is of another file");
        assert_eq!(names[&3], ["drop", "unlock", "main"]);
        assert!(!names.contains_key(&2), "a kernel stack");
        assert!(!names.contains_key(&4), "not asked for");
    }
}
