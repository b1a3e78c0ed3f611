// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A preset's part of the result, for people: what its jobs will be told, and its tables.

use plumb_load::job::Cell;
use plumb_load::preset::Preset;
use plumb_load::session::PresetResult;
use plumb_report::terminal;
use std::io::{self, Write};

/// What the jobs will be told, to be seen before they run.
///
/// # Errors
/// The writer's.
pub fn announce(preset: &Preset, cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {} cells. Parameters:", preset.name(), cells.len())?;
    for (key, value) in preset.parameters(cells) {
        writeln!(out, "  {key}: {value}")?;
    }
    out.flush()
}

/// Writes it for people.
///
/// # Errors
/// The writer's.
pub fn write(result: &PresetResult, out: &mut dyn Write) -> io::Result<()> {
    match &result.parameters_after {
        None => writeln!(out, "Parameters afterwards: the same.")?,
        Some(after) => {
            writeln!(out, "Parameters afterwards: NOT THE SAME, do not trust the results:")?;
            for (key, value) in after.iter().filter(|pair| !result.parameters.contains(pair)) {
                writeln!(out, "  {key}: {value}")?;
            }
        }
    }
    for table in &result.tables {
        writeln!(out, "\n{}", table.title)?;
        let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
        let mut drawn = terminal::Table::new(&head);
        table.rows.iter().for_each(|row| drawn.row(row.clone()));
        drawn.write(out)?;
        for note in &table.notes {
            writeln!(out, "  {note}")?;
        }
    }
    writeln!(out)
}
