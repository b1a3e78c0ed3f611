// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as comma-separated values after RFC 4180: a file a table, a header line, CRLF.
//!
//! A cell that is none is empty; a text that is empty is `""`. Readers that tell the two apart
//! (DuckDB, PostgreSQL, pyarrow) get back what was there.

use crate::csv_field::inert;
use crate::table::{Cell, Sink, Table, TABLES};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of a file that are written at once.
const BUFFER: usize = 1 << 16;

/// Appends a line of cells, its end among them.
pub fn line<'a>(cells: impl IntoIterator<Item = Cell<'a>>, end: &str, out: &mut Vec<u8>) {
    for (i, cell) in cells.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        // Writing to memory cannot fail.
        let _ = match cell {
            Cell::None => Ok(()),
            Cell::Integer(v) => write!(out, "{v}"),
            // Debug has what reads back as the same number.
            Cell::Real(v) => write!(out, "{v:?}"),
            Cell::Text(v) => {
                text(v, out);
                Ok(())
            }
        };
    }
    out.extend_from_slice(end.as_bytes());
}

fn text(text: &str, out: &mut Vec<u8>) {
    let text = &*inert(text);
    let special = |b: u8| matches!(b, b',' | b'"' | b'\n' | b'\r');
    // Readers trim blanks that stand bare.
    let plain = !text.is_empty() && !text.bytes().any(special) && text.trim().len() == text.len();
    if plain {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for b in text.bytes() {
        if b == b'"' {
            out.push(b'"');
        }
        out.push(b);
    }
    out.push(b'"');
}

struct Open {
    path: PathBuf,
    file: BufWriter<File>,
    rows: u64,
}

/// Writes `NAME.csv` for every table into a directory, empty ones too.
pub struct Csv {
    files: Vec<Open>,
    buffer: Vec<u8>,
    failed: Option<anyhow::Error>,
}

impl Csv {
    /// Makes the files; the directory is made where it is not there.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("directory {}", dir.display()))?;
        let mut buffer = Vec::new();
        let mut files = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            let path = dir.join(format!("{}.csv", table.name));
            let file = File::create(&path).with_context(|| path.display().to_string())?;
            let mut file = BufWriter::with_capacity(BUFFER, file);
            buffer.clear();
            line(table.columns.iter().map(|c| Cell::Text(c.name)), "\r\n", &mut buffer);
            file.write_all(&buffer).with_context(|| path.display().to_string())?;
            files.push(Open { path, file, rows: 0 });
        }
        Ok(Self { files, buffer, failed: None })
    }

    /// Writes what is left; tells the rows of each table, in the order of [`TABLES`].
    ///
    /// # Errors
    /// A file could not be written; what came before in it is there.
    pub fn finish(mut self) -> Result<Vec<u64>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for open in &mut self.files {
            open.file.flush().with_context(|| open.path.display().to_string())?;
        }
        Ok(self.files.iter().map(|o| o.rows).collect())
    }
}

impl Sink for Csv {
    fn wants(&self, _: &'static Table) -> bool {
        self.failed.is_none()
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        if self.failed.is_some() {
            return;
        }
        let open = &mut self.files[table.place as usize];
        self.buffer.clear();
        line(cells.iter().copied(), "\r\n", &mut self.buffer);
        open.rows += 1;
        if let Err(error) = open.file.write_all(&self.buffer) {
            self.failed = Some(anyhow::Error::new(error).context(open.path.display().to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: &[Cell<'_>]) -> String {
        let mut out = Vec::new();
        line(cells.iter().copied(), "\r\n", &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_is_special_is_quoted() {
        let cells = ["a,b", "say \"hi\"", "two\nlines", "", " blank", "plain"].map(Cell::Text);
        assert_eq!(of(&cells), "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"\",\" blank\",plain\r\n");
    }

    #[test]
    fn none_is_empty_and_numbers_read_back() {
        let cells = [Cell::None, Cell::Integer(i64::MIN), Cell::Real(0.1), Cell::Real(1e300), Cell::None];
        assert_eq!(of(&cells), ",-9223372036854775808,0.1,1e300,\r\n");
    }
}
