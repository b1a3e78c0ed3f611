// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan's figures say: pure code on a [`Table`].
//!
//! Data flows: table -> [`cells`] (one figure's repetitions cell by cell; outliers, drift)
//! -> [`plumb_stats::fit`] (least squares) -> [`effects`] (of levels, of two factors together, shares of
//! variation), [`rank`] (best, worst, what cannot be told from the best) and [`changes`] (the parts of the
//! account behind a difference), [`together`] (which loads tell what another one takes) -> [`answer`] (a paragraph). [`verdicts`] gathers what recordings found. Everything random has a fixed seed.

pub mod answer;
pub mod cells;
pub mod changes;
pub mod drift;
pub mod effects;
pub mod environments;
pub mod rank;
#[cfg(test)]
pub mod synthetic;
pub mod time;
pub mod together;
pub mod variation;
pub mod verdicts;
pub mod words;

use super::table::{Table, Unit};
use cells::CellFigures;
use changes::Changes;
use drift::Drift;
use effects::Effects;
use rank::Ranking;
use serde::Serialize;
use together::Together;

/// All that is said of one figure.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// Its name, as in `write.mean`.
    pub figure: String,
    pub unit: Unit,
    /// The paragraph that answers the plan's question.
    pub answer: String,
    /// Its cells, in the plan's order.
    pub cells: Vec<CellFigures>,
    pub ranking: Ranking,
    /// Effects of levels, and of two factors together.
    pub effects: Effects,
    /// Pairs of cells that differ in one factor, and where the time went that one takes more.
    pub changes: Changes,
    /// How the times of different loads go together.
    pub together: Vec<Together>,
    /// How it moved from the first to the last repetition, where that can be known.
    pub drift: Option<Drift>,
    /// Repetitions that have no such figure, or one that is no number.
    pub left_out: usize,
}

impl Analysis {
    /// Of one figure; `None` when the table has no such figure.
    pub fn of(table: &Table, figure: &str) -> Option<Analysis> {
        let unit = *table.units.get(figure)?;
        let (cells, left_out) = cells::of(table, figure);
        let ranking = Ranking::of(&cells, unit);
        let effects = Effects::of(table, &cells, unit);
        let drift = Drift::of(&cells, unit);
        let changes = changes::of(table, &cells, figure, unit);
        let together = together::of(table, &cells, figure);
        let mut analysis = Analysis {
            figure: figure.into(),
            unit,
            answer: String::new(),
            cells,
            ranking,
            effects,
            changes,
            together,
            drift,
            left_out,
        };
        analysis.answer = answer::paragraph(&analysis, table);
        Some(analysis)
    }

    /// Whether no combination was repeated, so that noise cannot be told from what factors do.
    pub fn single(&self) -> bool {
        self.cells.iter().all(|c| c.values.len() < 2)
    }
}

/// The figure that a report is about when the plan names none: the mean time of the kind of
/// operation that most repetitions have, else the elapsed time, else the first.
pub fn main_figure(table: &Table) -> Option<String> {
    let rows = |name: &str| table.rows.iter().filter(|r| r.figures.contains_key(name)).count();
    let means = table.units.keys().filter(|name| name.ends_with(".mean"));
    // Of equal ones the first: max_by_key would take the last.
    let most = means.rev().max_by_key(|name| rows(name));
    let elapsed = || table.units.keys().find(|name| *name == "elapsed");
    most.or_else(elapsed).or_else(|| table.units.keys().next()).cloned()
}

#[cfg(test)]
mod tests {
    use super::synthetic::Design;
    use super::*;

    #[test]
    fn a_report_without_figures_is_about_the_most_frequent_mean() {
        let mut table = Design::new(&[("a", 2)], 2).table(|_| 1.0, 0.0);
        assert_eq!(main_figure(&table).as_deref(), Some("write.mean"));
        let unit = table.units.remove("write.mean").expect("there");
        assert_eq!(main_figure(&table), None);
        table.units.insert("elapsed".into(), unit);
        assert_eq!(main_figure(&table).as_deref(), Some("elapsed"));
        assert!(Analysis::of(&table, "nothing").is_none());
    }
}
