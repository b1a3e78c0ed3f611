// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What recordings found of each cell: the kind of its limit, in the diagnosis' words.

use crate::table::{Row, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellVerdict {
    pub cell: usize,
    pub label: String,
    /// Kind of limit that most of its repetitions have: `CPU busy`, `CPU idle: device`, `lock contention`.
    pub kind: String,
    pub with_kind: usize,
    /// Of so many that were recorded.
    pub recorded: usize,
    /// First sentence of the first one with that kind.
    pub sentence: String,
    /// Directory of that one, within the plan's; `chain.txt` in it is its chain of evidence.
    pub dir: PathBuf,
}

/// Of every cell that was recorded, in the plan's order.
pub fn of(table: &Table) -> Vec<CellVerdict> {
    let mut cells: BTreeMap<usize, Vec<(&Row, &str)>> = BTreeMap::new();
    for row in &table.rows {
        if let Some(kind) = &row.kind {
            cells.entry(row.cell).or_default().push((row, kind));
        }
    }
    let verdict = |(cell, mut rows): (usize, Vec<(&Row, &str)>)| {
        rows.sort_by_key(|(row, _)| row.repetition);
        let with = |kind: &str| rows.iter().filter(|(_, k)| *k == kind).count();
        // Of equally frequent kinds the first repetition's: max_by_key would take the last.
        let (row, kind) = rows.iter().rev().max_by_key(|(_, kind)| with(kind))?;
        Some(CellVerdict {
            cell,
            label: row.label.clone(),
            kind: kind.to_string(),
            with_kind: with(kind),
            recorded: rows.len(),
            sentence: row.verdict.clone().unwrap_or_default(),
            dir: row.dir.clone(),
        })
    };
    cells.into_iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Design;
    use super::*;

    #[test]
    fn the_kind_of_most_repetitions_with_its_sentence() {
        let mut table = Design::new(&[("a", 2)], 3).table(|_| 1.0, 0.0);
        for row in &mut table.rows {
            if row.levels == [1] {
                let kind = if row.repetition == 2 { "CPU busy" } else { "CPU idle: device" };
                row.kind = Some(kind.into());
                row.verdict = Some(format!("{kind}, repetition {}.", row.repetition));
            }
        }
        let got = of(&table);
        assert_eq!(got.len(), 1, "the other cell was not recorded");
        assert_eq!((got[0].kind.as_str(), got[0].with_kind, got[0].recorded), ("CPU idle: device", 2, 3));
        assert_eq!(got[0].sentence, "CPU idle: device, repetition 1.");
    }
}
