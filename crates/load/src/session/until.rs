// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When rounds have shown enough.

use super::rounds::{self, Figure};
use crate::result::CellResult;
use plumb_stats::repetitions;
use std::str::FromStr;

/// `--until p99:5%`: the 95 % interval of a figure's median over rounds, and how
/// far its ends may lie from the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    pub figure: Figure,
    /// Largest distance of the interval's ends, percent of the median.
    pub within: f64,
}

impl FromStr for Until {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let known = Figure::ALL.map(Figure::word).join(", ");
            format!("'{text}' is not FIGURE:PERCENT; example: p99:5%; figures: {known}")
        };
        let (word, within) = text.split_once(':').ok_or_else(bad)?;
        let figure = Figure::ALL.into_iter().find(|f| f.word() == word.trim()).ok_or_else(bad)?;
        let within: f64 = within.trim().trim_end_matches('%').parse().map_err(|_| bad())?;
        if within > 0.0 && within < 100.0 {
            Ok(Until { figure, within })
        } else {
            Err(bad())
        }
    }
}

impl Until {
    /// Whether the rounds of every cell agree so far on what its jobs are for.
    /// A figure that too few operations give (p99.9 of 100) never does.
    pub fn reached(&self, cells: &[CellResult]) -> bool {
        cells.iter().all(|cell| {
            let all = rounds::of(cell);
            let mut main = all.iter().filter(|kind| kind.main).peekable();
            main.peek().is_some() && main.all(|kind| self.narrow(&kind.values(self.figure)))
        })
    }

    fn narrow(&self, values: &[f64]) -> bool {
        let Some(interval) = repetitions::median_interval(values) else { return false };
        let median = repetitions::median(values);
        let far = (interval.high - median).max(median - interval.low);
        median > 0.0 && far <= median * self.within / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_bad_ones_named() {
        assert_eq!("p99.9:5%".parse(), Ok(Until { figure: Figure::P99_9, within: 5.0 }));
        assert_eq!("rate:2".parse(), Ok(Until { figure: Figure::Rate, within: 2.0 }));
        for bad in ["p99", "p77:5%", "mean:0%", "mean:x"] {
            assert!(bad.parse::<Until>().is_err_and(|e| e.contains(bad)), "{bad}");
        }
    }

    #[test]
    fn narrow_needs_three_rounds_that_agree() {
        let until: Until = "mean:5%".parse().expect("a test");
        assert!(!until.narrow(&[100.0, 100.0]), "two rounds have no interval");
        assert!(until.narrow(&[100.0, 101.0, 99.0]));
        assert!(!until.narrow(&[100.0, 130.0, 70.0]));
    }
}
