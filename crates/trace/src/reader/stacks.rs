// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User stacks in little memory: of a program with deep stacks nearly every sample's differs from
//! all others, but all go through the same places. So each place is kept once, and a frame is its
//! number: a quarter of what the trace takes.

use crate::schema::StateUserStack;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// What is kept of a stack beside its frames.
#[derive(Debug, Clone, Copy)]
struct Head {
    stack: u32,
    cut: u8,
    /// Where its frames end; they begin where the last one's end.
    end: usize,
}

/// User stacks in the order in which the trace tells them.
#[derive(Debug, Clone, Default)]
pub struct UserStacks {
    places: IndexSet<(u64, u64), FxBuildHasher>,
    frames: Vec<u32>,
    heads: Vec<Head>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// Its number.
    pub stack: u32,
    /// `StateUserStack::cut`.
    pub cut: u8,
    /// Its frames, innermost first: numbers for [`UserStacks::place`].
    pub frames: &'a [u32],
}

impl UserStacks {
    /// One more.
    pub fn push(&mut self, told: &StateUserStack) {
        for place in told.modules.iter().copied().zip(told.offsets.iter().copied()) {
            let (number, _) = self.places.insert_full(place);
            // A trace has fewer bytes than would be needed for more.
            self.frames.push(number as u32);
        }
        self.heads.push(Head { stack: told.stack, cut: told.cut, end: self.frames.len() });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The stack at a place in the order in which they were told.
    pub fn get(&self, at: usize) -> Option<UserStack<'_>> {
        let Head { stack, cut, end } = *self.heads.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.heads[before].end);
        Some(UserStack { stack, cut, frames: &self.frames[begin..end] })
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = UserStack<'_>> {
        let mut begin = 0;
        self.heads.iter().map(move |head| {
            let frames = &self.frames[begin..head.end];
            begin = head.end;
            UserStack { stack: head.stack, cut: head.cut, frames }
        })
    }

    /// Module and offset of a frame, as `StateUserStack` has them; `None` for no frame's number.
    pub fn place(&self, frame: u32) -> Option<(u64, u64)> {
        self.places.get_index(frame as usize).copied()
    }

    /// How many places there are; their numbers are below.
    pub fn places(&self) -> usize {
        self.places.len()
    }
}

impl FromIterator<StateUserStack> for UserStacks {
    fn from_iter<I: IntoIterator<Item = StateUserStack>>(stacks: I) -> Self {
        let mut out = Self::default();
        stacks.into_iter().for_each(|s| out.push(&s));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_come_back_as_they_were_told() {
        let told = |stack, cut, places: &[(u64, u64)]| StateUserStack {
            stack,
            cut,
            modules: places.iter().map(|p| p.0).collect(),
            offsets: places.iter().map(|p| p.1).collect(),
        };
        let all = [
            told(7, 0, &[(1, 0x10), (1, 0x20), (2, 0x10)]),
            told(9, 1, &[]),
            told(8, 0, &[(2, 0x10), (1, 0x20)]),
        ];
        let stacks: UserStacks = all.iter().cloned().collect();
        let back = |s: UserStack<'_>| {
            let places: Vec<_> = s.frames.iter().map(|f| stacks.place(*f).expect("a place")).collect();
            told(s.stack, s.cut, &places)
        };
        assert_eq!(stacks.iter().map(back).collect::<Vec<_>>(), all);
        let one_by_one: Vec<_> = (0..4).filter_map(|at| stacks.get(at)).collect();
        assert_eq!(one_by_one, stacks.iter().collect::<Vec<_>>());
        assert_eq!((stacks.len(), stacks.places(), stacks.place(3)), (3, 3, None));
    }
}
