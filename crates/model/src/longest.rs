// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest waits of each category, as evidence.

use crate::account::{Category, CATEGORIES};
use crate::parts::Piece;
use crate::path::{keep, Step};

/// Waits kept of each category.
const EACH: usize = 4;

#[derive(Debug)]
pub struct Longest(Vec<Vec<Step>>);

impl Default for Longest {
    fn default() -> Self {
        Self(vec![Vec::new(); CATEGORIES.len()])
    }
}

impl Longest {
    /// A thread of the target waited.
    pub fn wait(&mut self, tid: u32, name: u32, p: &Piece) {
        let step = Step { tid, name, part: p.part, from: p.from, to: p.to };
        keep(&mut self.0[p.part.category as usize], EACH, step);
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        for (own, steps) in self.0.iter_mut().zip(&other.0) {
            steps.iter().for_each(|step| keep(own, EACH, *step));
        }
    }

    /// Those of one category, longest first.
    pub fn of(&self, category: Category) -> Vec<Step> {
        let mut out = self.0[category as usize].clone();
        out.sort_by_key(|w| std::cmp::Reverse(w.to - w.from));
        out
    }
}
