// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a preset says of its result: its parameters before and after, its
//! tables, and operations one by one from the logs.

use super::Outcome;
use crate::job::Cell;
use crate::log::{LogError, LogReader, Row};
use crate::preset::{ran, Preset};
use crate::result::Table;
use plumb_trace::units;
use serde::Serialize;

/// A preset's part of the result.
#[derive(Debug, Serialize)]
pub struct PresetResult {
    pub name: &'static str,
    /// What the jobs were told.
    pub parameters: Vec<(String, String)>,
    /// The same as the results say it, where it is not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_after: Option<Vec<(String, String)>>,
    pub tables: Vec<Table>,
}

impl PresetResult {
    /// Asks the preset.
    ///
    /// # Errors
    /// A log that was just written cannot be read.
    pub fn of(preset: &Preset, cells: &[Cell], outcome: &Outcome) -> Result<PresetResult, LogError> {
        let parameters = preset.parameters(cells);
        // A session that ended early has not run all of them.
        let early = outcome.interrupted || outcome.error.is_some();
        let after = if early { parameters.clone() } else { preset.parameters(&ran(&outcome.cells)) };
        let mut tables = match outcome.turn_ns {
            Some(turn_ns) => preset.figures_in_turns(&outcome.cells, outcome.ticks_per_ns, turn_ns),
            None => preset.figures(&outcome.cells, outcome.ticks_per_ns),
        };
        for log in &outcome.logs {
            let label =
                if log.step == log.cell { log.cell.clone() } else { format!("{}, {}", log.cell, log.step) };
            let mut failed = None;
            let mut rows =
                LogReader::open(&log.path)?.map_while(|row| row.map_err(|e| failed = Some(e)).ok());
            tables.extend(preset.figures_of_log(&label, &mut rows));
            if let Some(e) = failed {
                return Err(e);
            }
            if let Some((from, to)) = preset.listing() {
                let rows = LogReader::open(&log.path)?;
                tables.push(listed(&label, log.round, rows, from, to)?);
            }
        }
        let parameters_after = (after != parameters).then_some(after);
        Ok(PresetResult { name: preset.name(), parameters, parameters_after, tables })
    }
}

/// The operations `from` to `to` of a log, counted from 0. The synchronisation
/// behind a write is no operation by itself, but time that the write took.
fn listed(
    label: &str,
    round: usize,
    rows: impl Iterator<Item = Result<Row, LogError>>,
    from: u64,
    to: u64,
) -> Result<Table, LogError> {
    let mut listed: Vec<(u64, Row, Option<u64>)> = Vec::new();
    let mut number = 0;
    for row in rows {
        let row = row?;
        if row.kind.word() == "sync" {
            let write = listed.iter_mut().rev().find(|(_, write, _)| write.worker == row.worker);
            if let Some((_, _, durable @ None)) = write {
                *durable = Some(row.end_ns);
            }
            continue;
        }
        if number > to {
            break;
        }
        if number >= from {
            listed.push((number, row, None));
        }
        number += 1;
    }
    let since = |row: &Row, end: u64| units::duration(end.saturating_sub(row.begin_ns));
    let line = |(number, row, durable): &(u64, Row, Option<u64>)| {
        vec![
            number.to_string(),
            row.worker.to_string(),
            row.kind.word().into(),
            units::count(row.offset),
            since(row, row.end_ns),
            durable.map_or_else(|| "-".into(), |end| since(row, end)),
            row.result.to_string(),
        ]
    };
    Ok(Table {
        title: format!("{label}, round {round}: operations {from} to {to}"),
        head: ["number", "worker", "<kind", "offset", "service", "until synchronised", "result"]
            .map(String::from)
            .to_vec(),
        rows: listed.iter().map(line).collect(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::load::OperationKind::{Sync, Write};

    #[test]
    fn a_listed_write_has_its_synchronisation() {
        let row =
            |kind, worker, begin_ns, end_ns| Ok(Row { kind, worker, begin_ns, end_ns, ..Row::default() });
        let rows = [
            row(Write, 0, 0, 10),
            row(Sync, 0, 10, 100),
            row(Write, 0, 1000, 1010),
            row(Write, 1, 1000, 1500),
            row(Sync, 0, 1010, 1200),
            row(Write, 0, 2000, 2001),
        ];
        let table = listed("a", 1, rows.into_iter(), 1, 2).expect("rows");
        let times: Vec<_> = table.rows.iter().map(|r| [r[0].as_str(), &r[1], &r[4], &r[5]]).collect();
        assert_eq!(times, [["1", "0", "10 ns", "200 ns"], ["2", "1", "500 ns", "-"]]);
    }
}
