// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which combination is best, which worst, and which cannot be told from the best.

use super::cells::CellFigures;
use crate::table::Unit;
use plumb_stats::repetitions::{self, Difference, Interval};
use serde::Serialize;

/// A cell beside the best one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    pub cell: usize,
    pub label: String,
    /// Its median as a multiple of the best one's; none where that is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of that.
    pub interval: Option<Interval>,
    /// Whether it can be told from the best one; none of the best one itself, and where
    /// repetitions are too few to know.
    pub told_apart: Option<bool>,
}

/// All cells, best first; by rising figure where neither more nor less is better.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ranking {
    /// Whether there is a best.
    pub directed: bool,
    pub places: Vec<Place>,
}

impl Ranking {
    pub fn of(cells: &[CellFigures], unit: Unit) -> Ranking {
        let mut order: Vec<&CellFigures> = cells.iter().collect();
        let more = unit.more_is_better();
        order.sort_by(|a, b| match more {
            Some(true) => b.median.total_cmp(&a.median),
            _ => a.median.total_cmp(&b.median),
        });
        let Some(best) = order.first().copied() else { return Ranking::default() };
        let differences: Vec<Option<Difference>> = order
            .iter()
            .map(|c| (c.cell != best.cell).then(|| Difference::of(&best.values, &c.values))?)
            .collect();
        // A rank test only where it can find anything; the more cells, the more must be found by chance.
        let testable: Vec<usize> = (0..order.len())
            .filter(|i| {
                differences[*i].is_some() && repetitions::can_find(best.values.len(), order[*i].values.len())
            })
            .collect();
        let p: Vec<f64> = testable.iter().filter_map(|i| differences[*i]).map(|d| d.p).collect();
        let q = repetitions::false_discovery(&p);
        let place = |(i, cell): (usize, &&CellFigures)| {
            let difference = differences[i];
            let by_rank = testable.iter().position(|t| *t == i).is_none_or(|at| q[at] <= repetitions::LEVEL);
            Place {
                cell: cell.cell,
                label: cell.label.clone(),
                ratio: (best.median != 0.0).then(|| cell.median / best.median),
                interval: difference
                    .and_then(|d| d.relative)
                    .filter(|_| best.median > 0.0)
                    .map(|r| Interval { low: 1.0 + r.low, high: 1.0 + r.high }),
                told_apart: difference.map(|d| d.interval.excludes_zero() && by_rank),
            }
        };
        Ranking { directed: more.is_some(), places: order.iter().enumerate().map(place).collect() }
    }

    /// Cells that cannot be told from the best one.
    pub fn as_good(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|p| p.told_apart == Some(false))
    }

    /// Whether nothing could be told apart for want of repetitions.
    pub fn unknown(&self) -> bool {
        self.places.len() > 1 && self.places.iter().all(|p| p.told_apart.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::super::synthetic::Design;
    use super::*;

    fn ranking(repeat: u32, unit: Unit) -> Ranking {
        // b1 is 1 % above b0, b2 twice as high.
        let of = |l: &[usize]| 1e6 * [1.0, 1.01, 2.0][l[0]];
        let table = Design::new(&[("b", 3)], repeat).table(of, 0.03);
        Ranking::of(&cells::of(&table, "write.mean").0, unit)
    }

    #[test]
    fn the_best_what_is_as_good_and_the_worst() {
        for repeat in [3, 5, 8] {
            let got = ranking(repeat, Unit::Ns);
            assert_eq!(got.places[2].label, "b2");
            assert_eq!(got.places[2].told_apart, Some(true), "{repeat}: {got:?}");
            let ratio = got.places[2].interval.expect("repeated");
            assert!(ratio.low < 2.0 && 2.0 < ratio.high * 1.05, "{ratio:?}");
            assert_eq!(got.places[0].told_apart, None);
            assert_eq!(got.as_good().count(), 1, "{repeat}: {got:?}");
        }
    }

    #[test]
    fn more_of_a_rate_is_better_and_of_a_share_nothing_is() {
        let got = ranking(4, Unit::PerSecond);
        assert_eq!(got.places[0].label, "b2");
        assert!(got.places[2].ratio.expect("not 0") < 0.6);
        assert!(!ranking(4, Unit::Share).directed);
    }

    #[test]
    fn two_repetitions_tell_nothing_apart() {
        let got = ranking(2, Unit::Ns);
        assert!(got.unknown() && got.as_good().count() == 0, "{got:?}");
        assert!(!Ranking::of(&[], Unit::Ns).unknown());
    }
}
