// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread's samples stand for, and how a time is spread over them.

use super::collect::{Place, Seen};
use crate::samples::At;
use rustc_hash::FxHashMap;

/// So many threads of one name that the clock never met are one.
pub(super) const ALONE: usize = 16;

/// Samples at one place; how much of the time is theirs is told by their number.
pub(super) type Samples = Vec<(Place, u64)>;

/// Parts of `time` in proportion to `weights`, which add up to it: each is rounded down,
/// and what is left goes to the largest remainders, the first ones first.
pub(super) fn spread(time: u64, weights: &[u64]) -> Vec<u64> {
    let all: u128 = weights.iter().map(|w| u128::from(*w)).sum();
    if all == 0 {
        return vec![0; weights.len()];
    }
    let exact = |w: &u64| u128::from(time) * u128::from(*w);
    // A part is at most the whole.
    let mut parts: Vec<u64> = weights.iter().map(|w| u64::try_from(exact(w) / all).unwrap_or(time)).collect();
    let left = time - parts.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(exact(&weights[*i]) % all));
    order.iter().take(left as usize).for_each(|i| parts[*i] += 1);
    parts
}

/// What a thread's samples stand for.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) running: Samples,
    pub(super) spinning: Samples,
    pub(super) interrupted: Samples,
}

impl Split {
    /// Time order tells nothing of which sample hit an interrupt: its stack does. Samples
    /// of a kind of which the account has no time count as running.
    pub(super) fn of(seen: &mut Seen, places: &FxHashMap<u32, At>) -> Self {
        let mut split = Self::default();
        // Taken out: by a fast clock they are much, and would be there twice.
        let mut all: Samples = std::mem::take(&mut seen.samples).into_iter().collect();
        all.sort_unstable();
        for (place, n) in all {
            let kind = match places.get(&place.kernel) {
                Some(At::Spin) if seen.on_cpu[1] > 0 => &mut split.spinning,
                Some(At::Interrupt) if seen.on_cpu[2] > 0 => &mut split.interrupted,
                _ => &mut split.running,
            };
            kind.push((place, n));
        }
        split
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.spinning.is_empty() && self.interrupted.is_empty()
    }

    pub(super) fn all(&self) -> Samples {
        [&self.running, &self.spinning, &self.interrupted].into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn parts_add_up() {
        assert_eq!(spread(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(spread(2, &[1, 1, 1]), [1, 1, 0]);
        assert_eq!(spread(7, &[1, 2]), [2, 5]);
        assert_eq!(spread(7, &[]), Vec::<u64>::new());
        let parts = spread(u64::MAX, &[u64::MAX, u64::MAX, 1]);
        assert_eq!(parts.iter().map(|p| u128::from(*p)).sum::<u128>(), u128::from(u64::MAX));
    }
}
