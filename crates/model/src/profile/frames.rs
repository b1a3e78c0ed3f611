// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack's frames. A program with deep stacks has nearly as many stacks as samples, but far fewer
//! frames that differ, so stacks name them by their place.

use super::Frame;

/// What a place that no table has stands for.
const NONE: Frame = Frame { function: u32::MAX, address: 0, line: 0, inlined: false };

/// Frames of a stack, innermost first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frames<'a> {
    places: &'a [u32],
    all: &'a [Frame],
}

impl<'a> Frames<'a> {
    /// Those at some places of a table.
    pub fn new(places: &'a [u32], all: &'a [Frame]) -> Self {
        Self { places, all }
    }

    /// Their places in [`super::Profile::frames`].
    pub fn places(self) -> &'a [u32] {
        self.places
    }

    pub fn iter(self) -> impl DoubleEndedIterator<Item = &'a Frame> + ExactSizeIterator + Clone {
        let all = self.all;
        self.places.iter().map(move |place| all.get(*place as usize).unwrap_or(&NONE))
    }

    pub fn get(self, at: usize) -> Option<&'a Frame> {
        self.iter().nth(at)
    }

    pub fn first(self) -> Option<&'a Frame> {
        self.get(0)
    }

    pub fn last(self) -> Option<&'a Frame> {
        self.iter().next_back()
    }

    pub fn len(self) -> usize {
        self.places.len()
    }

    /// Whether there are none: no stack was taken.
    pub fn is_empty(self) -> bool {
        self.places.is_empty()
    }

    /// Without the innermost `n`.
    #[must_use]
    pub fn skip(self, n: usize) -> Self {
        Self { places: self.places.get(n..).unwrap_or(&[]), ..self }
    }

    /// The innermost `n`.
    #[must_use]
    pub fn take(self, n: usize) -> Self {
        Self { places: self.places.get(..n).unwrap_or(self.places), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_stack_keep_its_order() {
        let all = [1, 2, 3].map(|function| Frame { function, ..NONE });
        let frames = Frames::new(&[2, 0, 0, 1, 9], &all);
        let functions = |f: Frames<'_>| f.iter().map(|f| f.function).collect::<Vec<_>>();
        assert_eq!(functions(frames), [3, 1, 1, 2, u32::MAX], "the last is in no table");
        assert_eq!(functions(frames.skip(3)), [2, u32::MAX]);
        assert_eq!(functions(frames.take(2)), [3, 1]);
        assert_eq!((frames.skip(9).len(), frames.take(9).len()), (0, 5));
        assert_eq!(frames.first().map(|f| f.function), Some(3));
        assert_eq!(frames.take(4).last().map(|f| f.function), Some(2));
    }
}
