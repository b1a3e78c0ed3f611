// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Items added up by kind and key.

use super::sample::{Sample, NONE};
use super::Grouping;
use crate::histogram::Histogram;
use std::collections::HashMap;

/// Groups that are kept apart; items of further ones are added up in one.
const MOST_GROUPS: usize = 1 << 14;

#[derive(Debug, Clone, Default)]
pub struct Group {
    pub values: Histogram,
    /// Sums of the values' parts.
    pub parts: [u128; 2],
    /// It stands for all groups beyond the number that is kept.
    pub rest: bool,
}

/// The groups of one table.
#[derive(Debug)]
pub struct Groups {
    /// Which items, by what.
    pub by: Grouping,
    groups: HashMap<(&'static str, u64), Group>,
}

/// Where a kind stands among those of its view.
fn order(kind: &'static str) -> (usize, &'static str) {
    let steps = super::netroute::STEPS.iter().chain(super::btt::LAYERS);
    (steps.into_iter().position(|s| *s == kind).unwrap_or(usize::MAX), kind)
}

impl Groups {
    pub fn new(by: Grouping) -> Self {
        Self { by, groups: HashMap::new() }
    }

    /// Adds an item, if the table is about its kind.
    pub fn add(&mut self, s: &Sample) {
        if !self.by.wants(s.kind) {
            return;
        }
        let mut key = (s.kind, s.get(self.by.by));
        let full = self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key);
        if full {
            // No key has this value: NONE itself is taken by items without the field.
            key.1 = NONE - 1;
        }
        let group = self.groups.entry(key).or_default();
        group.rest |= full;
        group.values.add(s.value);
        for (sum, part) in group.parts.iter_mut().zip(s.parts) {
            *sum += u128::from(part);
        }
    }

    /// The groups of each kind, greatest sum first: kind, value of the key, group.
    /// Kinds stand in the order of an item's way, where it passes several.
    pub fn rows(&self) -> Vec<(&'static str, u64, &Group)> {
        let mut rows: Vec<_> = self.groups.iter().map(|((kind, key), g)| (*kind, *key, g)).collect();
        rows.sort_by(|a, b| {
            order(a.0).cmp(&order(b.0)).then(b.2.values.sum.cmp(&a.2.values.sum)).then_with(|| a.1.cmp(&b.1))
        });
        rows
    }
}
