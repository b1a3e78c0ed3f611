// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a statement found: an aligned table, CSV or JSON.

use super::Wrong;
use crate::export::csv;
use crate::plain;
use crate::table::Cell;
use anyhow::Result;
use plumb_machine::json::{self, Output};
use rusqlite::types::ValueRef;
use rusqlite::Statement;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write;

/// Rows that the widths of columns are taken from.
const SEEN: usize = 10_000;
/// A cell that is wider moves what stands behind it.
const WIDEST: usize = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns below each other; reals are rounded to six digits behind the point.
    Table,
    /// RFC 4180 with the line ends of this system.
    Csv,
    /// Objects, a line each.
    Json,
}

/// Written row by row: there may be more than memory holds.
#[derive(Debug, Serialize)]
pub struct Rows {
    /// Column to value.
    rows: Vec<Map<String, Value>>,
}

impl Output for Rows {
    const FORMAT: &'static json::Format = &json::formats::QUERY;
}

/// A blob can only come from the statement itself: as SQL writes it.
fn blob(bytes: &[u8]) -> String {
    let hex = bytes.iter().fold(String::new(), |mut hex, b| {
        let _ = write!(hex, "{b:02x}");
        hex
    });
    format!("x'{hex}'")
}

/// Names that are there once each: a JSON object has none twice.
fn names(statement: &Statement<'_>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in statement.column_names() {
        let mut own = name.to_string();
        let mut n = 1;
        while out.contains(&own) {
            n += 1;
            own = format!("{name}_{n}");
        }
        out.push(own);
    }
    out
}

/// Runs a statement and writes its rows; how many they were.
pub fn write(statement: &mut Statement<'_>, sql: &str, format: Format, out: &mut dyn Write) -> Result<u64> {
    let names = names(statement);
    let mut rows = statement.raw_query();
    let mut table = Aligned { heads: names.clone(), ..Aligned::default() };
    let mut line = Vec::new();
    let mut count = 0;
    match format {
        Format::Csv => {
            csv::line(names.iter().map(|n| Cell::Text(n)), "\n", &mut line);
            out.write_all(&line)?;
        }
        Format::Json => json::begin_list::<Rows>(&mut *out, "rows")?,
        Format::Table => {}
    }
    while let Some(row) = rows.next().map_err(|e| Wrong::of(sql, e))? {
        line.clear();
        let values = (0..names.len()).map(|i| row.get_ref(i));
        let values: Vec<ValueRef<'_>> =
            values.collect::<rusqlite::Result<_>>().map_err(|e| Wrong::of(sql, e))?;
        match format {
            Format::Csv => {
                let texts: Vec<Option<String>> = values.iter().map(owned).collect();
                csv::line(values.iter().zip(&texts).map(cell), "\n", &mut line);
                out.write_all(&line)?;
            }
            Format::Json => {
                line.extend_from_slice(if count == 0 { b"\n{" } else { b",\n{" });
                for (i, (name, value)) in names.iter().zip(&values).enumerate() {
                    if i > 0 {
                        line.push(b',');
                    }
                    serde_json::to_writer(&mut line, name)?;
                    line.push(b':');
                    value_as_json(value, &mut line)?;
                }
                line.push(b'}');
                out.write_all(&line)?;
            }
            Format::Table => table.row(values.iter().map(words).collect(), out)?,
        }
        count += 1;
    }
    match format {
        Format::Json => writeln!(out, "{}]}}", if count > 0 { "\n" } else { "" })?,
        Format::Table => table.finish(out)?,
        Format::Csv => {}
    }
    Ok(count)
}

fn owned(value: &ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(t) => Some(String::from_utf8_lossy(t).into_owned()),
        ValueRef::Blob(b) => Some(blob(b)),
        _ => None,
    }
}

fn cell<'a>((value, text): (&ValueRef<'_>, &'a Option<String>)) -> Cell<'a> {
    match value {
        ValueRef::Null => Cell::None,
        ValueRef::Integer(v) => Cell::Integer(*v),
        ValueRef::Real(v) => Cell::from(*v),
        _ => text.as_deref().map_or(Cell::None, Cell::Text),
    }
}

fn value_as_json(value: &ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Integer(v) => write!(out, "{v}")?,
        // What is not finite becomes null.
        ValueRef::Real(v) => serde_json::to_writer(out, v)?,
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            serde_json::to_writer(out, &owned(value).unwrap_or_default())?
        }
    }
    Ok(())
}

/// A cell's text, and whether it is a number.
fn words(value: &ValueRef<'_>) -> (String, bool) {
    match value {
        ValueRef::Null => ("-".into(), false),
        ValueRef::Integer(v) => (v.to_string(), true),
        ValueRef::Real(v) => (rounded(*v), true),
        ValueRef::Text(_) | ValueRef::Blob(_) => {
            let text = owned(value).unwrap_or_default();
            (plain::name(&text).into_owned(), false)
        }
    }
}

fn rounded(v: f64) -> String {
    let size = v.abs();
    if v != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{v:e}");
    }
    let text = format!("{v:.6}");
    let text = text.trim_end_matches('0');
    let text = text.strip_suffix('.').map_or_else(|| text.to_string(), |t| format!("{t}.0"));
    text
}

/// Columns as wide as their widest cell among the first rows; numbers to the right.
#[derive(Default)]
struct Aligned {
    heads: Vec<String>,
    kept: Vec<Vec<(String, bool)>>,
    /// Width and whether it holds numbers; empty while rows are kept.
    columns: Vec<(usize, bool)>,
}

impl Aligned {
    fn row(&mut self, row: Vec<(String, bool)>, out: &mut dyn Write) -> Result<()> {
        if self.columns.is_empty() {
            self.kept.push(row);
            if self.kept.len() < SEEN {
                return Ok(());
            }
            return self.settle(out);
        }
        self.line(&row, out)
    }

    fn settle(&mut self, out: &mut dyn Write) -> Result<()> {
        let wide = |text: &str| text.chars().count().min(WIDEST);
        self.columns = self.heads.iter().map(|h| (wide(h), false)).collect();
        for (i, (width, numbers)) in self.columns.iter_mut().enumerate() {
            let cells = self.kept.iter().filter_map(|r| r.get(i));
            *width = cells.clone().map(|(text, _)| wide(text)).max().unwrap_or(0).max(*width);
            *numbers = cells.clone().any(|(_, number)| *number);
        }
        let heads: Vec<_> = self.heads.iter().map(|h| (h.clone(), false)).collect();
        self.line(&heads, out)?;
        for row in std::mem::take(&mut self.kept) {
            self.line(&row, out)?;
        }
        Ok(())
    }

    fn line(&self, row: &[(String, bool)], out: &mut dyn Write) -> Result<()> {
        let mut line = String::new();
        for ((text, _), (width, right)) in row.iter().zip(&self.columns) {
            if !line.is_empty() {
                line += "  ";
            }
            let pad = " ".repeat(width.saturating_sub(text.chars().count()));
            line += &if *right { format!("{pad}{text}") } else { format!("{text}{pad}") };
        }
        Ok(writeln!(out, "{}", line.trim_end())?)
    }

    fn finish(mut self, out: &mut dyn Write) -> Result<()> {
        if self.columns.is_empty() {
            self.settle(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn reals_are_short_and_not_wrong() {
        assert_eq!([0.0, 1.5, 1234567.0, 0.1234567].map(rounded), ["0.0", "1.5", "1234567.0", "0.123457"]);
        assert_eq!([1e-9, 2.5e20].map(rounded), ["1e-9", "2.5e20"]);
    }
}
