// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One chart: its factors, its levels' names and its title.

use crate::analysis::cells::CellFigures;
use crate::file::Chart;
use crate::table::{Table, Unit};

/// What bars and lines are drawn from.
pub(super) struct Plot<'a> {
    pub table: &'a Table,
    pub chart: &'a Chart,
    pub unit: Unit,
    pub over: Option<usize>,
    pub by: Option<usize>,
    /// The other factors' levels that this chart is of.
    pub suffix: &'a str,
}

impl Plot<'_> {
    pub fn title(&self) -> String {
        titled(self.chart, self.suffix)
    }

    /// Name of a level of a factor; empty of none.
    pub fn level(&self, factor: Option<usize>, cell: &CellFigures) -> &str {
        level(self.table, factor, &cell.levels)
    }
}

pub(super) fn level<'a>(table: &'a Table, factor: Option<usize>, levels: &[usize]) -> &'a str {
    let name = factor.and_then(|f| table.factors.get(f)?.levels.get(*levels.get(f)?));
    name.map_or("", String::as_str)
}

pub(super) fn titled(chart: &Chart, suffix: &str) -> String {
    if suffix.is_empty() {
        chart.title.clone()
    } else {
        format!("{}: {suffix}", chart.title)
    }
}
