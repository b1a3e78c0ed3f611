// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile with a size, for a page.

use super::{Entry, Profile, Stack};
use crate::account::Category;
use plumb_trace::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// New places of what is used, in the order of first use.
#[derive(Default)]
struct Places {
    new: FxHashMap<u32, u32>,
    old: Vec<u32>,
}

impl Places {
    fn of(&mut self, old: u32) -> u32 {
        *self.new.entry(old).or_insert_with(|| {
            self.old.push(old);
            self.old.len() as u32 - 1
        })
    }

    fn pick<T: Clone>(&self, from: &[T]) -> Vec<T> {
        self.old.iter().filter_map(|at| from.get(*at as usize).cloned()).collect()
    }
}

impl Profile {
    /// The entries with most time one by one, and those of the rest, by thread and category, without a stack: it adds up
    /// to the same. Only functions, files and lines that are left have places.
    #[must_use]
    pub fn compact(&self, most: usize) -> Self {
        if self.entries.len() <= most {
            return self.clone();
        }
        let (kept, rest) = self.entries.split_at(most);
        let mut sums: BTreeMap<(u32, Category), (u64, u64)> = BTreeMap::new();
        for e in rest {
            let sum = sums.entry((e.thread, e.category)).or_default();
            *sum = (sum.0 + e.time, sum.1 + e.count);
        }
        let sum = |((thread, category), (time, count))| Entry {
            thread,
            cpu: None,
            category,
            who: 0,
            stack: 0,
            time,
            count,
        };
        let mut entries: Vec<Entry> = kept.iter().cloned().chain(sums.into_iter().map(sum)).collect();
        entries.sort_by_key(|e| Reverse(e.time));
        let [mut stacks, mut frames, mut functions, mut lines, mut modules] = <[Places; 5]>::default();
        // The empty stack, no line, the kernel.
        for places in [&mut stacks, &mut lines, &mut modules] {
            places.of(0);
        }
        entries.iter_mut().for_each(|e| e.stack = stacks.of(e.stack));
        let stacks: Vec<Stack> = stacks
            .pick(&self.stacks)
            .into_iter()
            .map(|s| Stack { frames: s.frames.iter().map(|f| frames.of(*f)).collect(), ..s })
            .collect();
        let mut frames = frames.pick(&self.frames);
        for f in &mut frames {
            (f.function, f.line) = (functions.of(f.function), lines.of(f.line));
        }
        let mut functions = functions.pick(&self.functions);
        functions.iter_mut().for_each(|f| f.module = modules.of(f.module));
        let mut notes = self.notes.clone();
        notes.push(format!(
            "{} of {} stacks, those with least time, were left out: their time has no stack here",
            units::count(rest.len() as u64),
            units::count(self.entries.len() as u64)
        ));
        Self {
            stacks,
            frames,
            functions,
            lines: lines.pick(&self.lines),
            modules: modules.pick(&self.modules),
            entries,
            notes,
            code: BTreeMap::new(),
            threads: self.threads.clone(),
            whos: self.whos.clone(),
            clock: self.clock.clone(),
            ..*self
        }
    }
}
