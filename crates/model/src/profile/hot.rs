// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few functions that a finding names.

use super::ignored_frames::{call, is_library_source, tells};
use super::{Entry, Frame, Function, Origin, Profile};
use crate::account::{Category, CATEGORIES};
use crate::result::HotRow;
use crate::wait_frames::is_probe;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const MOST: usize = 8;
const DEEP: usize = 8;

/// A function under a category, before its callers are chosen.
#[derive(Debug, Default)]
struct Sum<'a> {
    time: u64,
    count: u64,
    /// Time by callers that tell, innermost first.
    chains: FxHashMap<Vec<&'a str>, u64>,
    calls: BTreeMap<String, u64>,
}

impl Sum<'_> {
    /// From each function to the caller that most of its time comes from.
    fn under(mut self) -> Vec<String> {
        let mut out = Vec::new();
        for depth in 0..DEEP {
            let mut times: BTreeMap<&str, u64> = BTreeMap::new();
            for (chain, time) in &self.chains {
                let Some(name) = chain.get(depth) else { continue };
                *times.entry(name).or_default() += time;
            }
            let Some((most, _)) = times.into_iter().max_by_key(|(_, time)| *time) else { break };
            self.chains.retain(|chain, _| chain.get(depth) == Some(&most));
            out.push(most.to_string());
        }
        out
    }
}

/// The frame that a stack's time is told by: on a CPU the innermost one; of a wait the user
/// code that waits; of a lock of the kernel the kernel's function that wants it.
fn teller(category: Category, functions: &[(&Function, bool)]) -> Option<usize> {
    let find = |kernel: bool| {
        functions.iter().position(|(f, tells)| (f.origin == Origin::Kernel) == kernel && *tells)
    };
    match category {
        Category::Running | Category::Interrupted => (!functions.is_empty()).then_some(0),
        Category::KernelLock | Category::Spinning => find(true).or_else(|| find(false)),
        _ => find(false)
            .or_else(|| functions.iter().position(|(f, _)| f.origin != Origin::Kernel))
            .or_else(|| find(true)),
    }
}

/// The name under which [`hot`] has the time that the recording's own tracepoints take of the target.
pub const PROBES: &str = "tracepoints of the recording";

/// The functions with most time in each category, kernel and user code apart; at most a few each. `counts`: which
/// processes are looked at.
pub fn hot(profile: &Profile, counts: impl Fn(u32) -> bool) -> Vec<HotRow> {
    type Key<'a> = (Category, Origin, &'a str, &'a str, &'a str);
    let mut sums: BTreeMap<Key<'_>, Sum<'_>> = BTreeMap::new();
    let telling: Vec<bool> = profile.functions.iter().map(|f| tells(profile, f)).collect();
    let library: Vec<bool> = profile.lines.iter().map(|place| is_library_source(place)).collect();
    let counted = |e: &&Entry| profile.threads.get(e.thread as usize).is_none_or(|t| counts(t.pid));
    for Entry { category, who, stack, time, count, .. } in profile.entries.iter().filter(counted) {
        let frames = profile.frames_of(*stack);
        let of = |f: &Frame| {
            let (function, line) = (f.function as usize, f.line as usize);
            let in_library = library.get(line).is_some_and(|l| *l);
            Some((profile.functions.get(function)?, telling[function] && !in_library))
        };
        let functions: Vec<(&Function, bool)> = frames.iter().filter_map(of).collect();
        let kernel =
            functions.iter().map_while(|(f, _)| (f.origin == Origin::Kernel).then_some(f.name.as_str()));
        if *category == Category::Running && is_probe(&kernel.collect::<Vec<_>>()) {
            let sum = sums.entry((*category, Origin::Kernel, "", "kernel", PROBES)).or_default();
            sum.time += time;
            sum.count += count;
            continue;
        }
        let Some(at) = teller(*category, &functions) else { continue };
        let (function, _) = functions[at];
        let module = profile.modules.get(function.module as usize).map_or("", |m| m.name());
        let who = profile.whos.get(*who as usize).map_or("", String::as_str);
        let sum = sums.entry((*category, function.origin, who, module, &function.name)).or_default();
        sum.time += time;
        sum.count += count;
        let callers = functions[at + 1..].iter().filter(|(_, tells)| *tells);
        let mut chain: Vec<&str> = callers.map(|(f, _)| f.name.as_str()).collect();
        // A function that calls itself is one caller.
        chain.dedup();
        chain.truncate(DEEP);
        *sum.chains.entry(chain).or_default() += time;
        *sum.calls.entry(call(profile, frames)).or_default() += time;
    }
    let mut rows: Vec<HotRow> = Vec::new();
    for (category, ..) in CATEGORIES {
        // Waits are told by user code, whatever is known of it: one list.
        let groups: &[fn(Origin) -> bool] = match category {
            Category::Running => &[|o| o == Origin::Kernel, |o| o != Origin::Kernel],
            _ => &[|_| true],
        };
        for group in groups {
            let keys = sums.keys().filter(|k| k.0 == *category && group(k.1)).copied();
            let mut keys: Vec<(u64, Key<'_>)> = keys.map(|k| (sums[&k].time, k)).collect();
            keys.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            keys.truncate(MOST);
            rows.extend(keys.into_iter().filter_map(|(_, key)| Some(row(key, sums.remove(&key)?))));
        }
    }
    rows
}

fn row(
    (category, origin, who, module, function): (Category, Origin, &str, &str, &str),
    sum: Sum<'_>,
) -> HotRow {
    let call = sum.calls.iter().max_by_key(|(_, time)| **time).map(|(call, _)| call.clone());
    HotRow {
        category,
        who: who.into(),
        function: function.into(),
        module: module.into(),
        origin,
        call: call.unwrap_or_default(),
        count: sum.count,
        time: sum.time,
        under: sum.under(),
        instruction: None,
    }
}
