// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use plumb_stats::random::SplitMix64;

/// Messages over two clocks: B's is `truth` of A's. Delays are at least `least` ns, and mostly longer.
struct Wire<'a> {
    truth: &'a dyn Fn(i64) -> i64,
    least: (i64, i64),
    random: SplitMix64,
}

impl Wire<'_> {
    fn delay(&mut self, least: i64) -> i64 {
        let long = if self.random.below(4) == 0 { 200_000 } else { 3_000 };
        least + self.random.below(long) as i64
    }

    /// `n` exchanges, one every `every` ns of A's clock.
    fn messages(&mut self, n: i64, every: i64) -> (Vec<Point>, Vec<Point>) {
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for i in 0..n {
            let sent = i * every + self.random.below(every as u64 / 2) as i64;
            let came = sent + self.delay(self.least.0);
            above.push((sent, (self.truth)(came) - sent));
            let back = came + 1_000 + self.random.below(5_000) as i64;
            let home = back + self.delay(self.least.1);
            below.push((home, (self.truth)(back) - home));
        }
        (above, below)
    }
}

fn wire(truth: &dyn Fn(i64) -> i64, seed: u64) -> Wire<'_> {
    Wire { truth, least: (800, 850), random: SplitMix64::new(seed) }
}

/// Both at the same scale as numbers of the clock: a rate of parts in a million without floating point.
fn line(t: i64, offset: i64, ppb: i64) -> i64 {
    t + offset + (i128::from(t) * i128::from(ppb) / 1_000_000_000) as i64
}

#[test]
fn the_width_always_contains_the_truth() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(1_000 + seed);
        let offset = random.below(10_000_000_000_000) as i64 - 5_000_000_000_000;
        let ppb = random.below(400_000) as i64 - 200_000;
        let truth = move |t| line(t, offset, ppb);
        let (n, every) = [(3, 1_000_000), (50, 10_000_000), (2_000, 12_000_000)][seed as usize % 3];
        let (above, below) = wire(&truth, seed).messages(n, every);
        let alignment = Alignment::of(above, below).expect("both sent");
        for i in -10..60 {
            let t = n * every * i / 50;
            let bounds = alignment.at(t);
            let real = truth(t);
            assert!(bounds.low <= real && real <= bounds.high, "seed {seed}, {t}: {bounds:?}, really {real}");
        }
    }
}

#[test]
fn it_is_as_narrow_as_the_shortest_delays() {
    let truth = |t| line(t, 1_200_000_000, 37_000);
    let (above, below) = wire(&truth, 1).messages(10_000, 1_000_000);
    let alignment = Alignment::of(above, below).expect("both sent");
    for t in [1_000_000_000, 5_000_000_000, 9_000_000_000] {
        let bounds = alignment.at(t);
        assert!(bounds.high - bounds.low < 2_500, "{t}: {bounds:?}");
        assert!((bounds.middle() - truth(t)).abs() < 300, "{t}: {bounds:?}, really {}", truth(t));
    }
    let (slow, fast) = alignment.drift();
    assert!(slow <= 37e-6 && 37e-6 <= fast && fast - slow < 2e-6, "{slow} {fast}");
    assert_eq!(alignment.pieces(), 1);
}

#[test]
fn a_clock_that_is_set_begins_a_piece() {
    let truth = |t: i64| if t < 3_000_000_000 { t } else { t + 40_000_000 };
    let (above, below) = wire(&truth, 3).messages(6_000, 1_000_000);
    let alignment = Alignment::of(above, below).expect("both sent");
    assert!(alignment.pieces() > 1);
    for t in [100_000_000, 2_500_000_000, 3_500_000_000, 5_900_000_000] {
        let bounds = alignment.at(t);
        assert!(bounds.low <= truth(t) && truth(t) <= bounds.high, "{t}: {bounds:?}, really {}", truth(t));
    }
}

#[test]
fn without_messages_both_ways_nothing_is_known() {
    assert!(Alignment::of(vec![(1, 1)], Vec::new()).is_none());
    assert!(Alignment::of(Vec::new(), vec![(1, 1)]).is_none());
    // It came before it was sent, in both directions.
    assert!(Alignment::of(vec![(1, -5)], vec![(1, 5)]).is_none());
    let one = Alignment::of(vec![(1_000, 7)], vec![(1_000, 3)]).expect("a point each");
    assert_eq!(one.at(1_000), Bounds { low: 1_003, high: 1_007 });
    assert_eq!((one.at(1_000).middle(), one.at(1_000).width()), (1_005, 2));
}
