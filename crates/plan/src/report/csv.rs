// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures as lines: one for each repetition and figure, then one for each cell and figure.

use crate::analysis::cells;
use crate::table::Table;
use anyhow::Result;
use plumb_report::csv_field::text;
use std::io::Write;

/// Writes them; what is not known is empty. Of a cell: the median, its 95 % interval, the
/// number of repetitions. A factor's column is `factor.NAME`, so that none is called as another column. Values are in the units of the column `unit`.
///
/// # Errors
/// The writer's.
pub fn write(table: &Table, out: &mut dyn Write) -> Result<()> {
    write!(out, "row,cell,label")?;
    for factor in &table.factors {
        write!(out, ",{}", text(&format!("factor.{}", factor.name)))?;
    }
    writeln!(out, ",repetition,place,figure,unit,value,low,high,repetitions,valid,doubts")?;
    let unit = |figure: &str| {
        table
            .units
            .get(figure)
            .and_then(|u| serde_json::to_value(u).ok())
            .map_or(String::new(), |v| v.as_str().unwrap_or_default().to_string())
    };
    let levels = |levels: &[usize]| -> String {
        let name = |(l, f): (&usize, &crate::table::FactorNames)| {
            format!(",{}", text(f.levels.get(*l).map_or("", String::as_str)))
        };
        levels.iter().zip(&table.factors).map(name).collect()
    };
    for row in &table.rows {
        for (figure, value) in &row.figures {
            let (cell, label, levels) = (row.cell + 1, text(&row.label), levels(&row.levels));
            write!(out, "repetition,{cell},{label}{levels},{},{}", row.repetition, row.place + 1)?;
            // The sentences are in report.json: on every line they would drown the figures.
            let valid = if row.doubts.iter().any(|d| d.starts_with(cells::NOT_VALID)) { "no" } else { "yes" };
            writeln!(out, ",{},{},{value},,,,{valid},{}", text(figure), unit(figure), row.doubts.len())?;
        }
    }
    for figure in table.units.keys() {
        for cell in cells::of(table, figure).0 {
            let (number, label, levels) = (cell.cell + 1, text(&cell.label), levels(&cell.levels));
            write!(out, "cell,{number},{label}{levels},,,{},{},{}", text(figure), unit(figure), cell.median)?;
            match cell.interval {
                Some(i) => write!(out, ",{},{}", i.low, i.high)?,
                None => write!(out, ",,")?,
            }
            writeln!(out, ",{},,", cell.values.len())?;
        }
    }
    Ok(())
}
