// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the log as the run goes: head, chunks, an end. The file only grows,
//! so that after a crash all but the last chunk can be read.

use super::code::crc32c;
use super::columns::Columns;
use super::{Head, LogError, Row, CHUNK_HEAD, CHUNK_MAGIC, CHUNK_ROWS, END_MAGIC, MAGIC, VERSION};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The log while it is written.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    open: BTreeMap<u32, Columns>,
    out: Vec<u8>,
    rows: u64,
}

impl LogWriter {
    /// Makes the file and writes the head. The name must not be taken.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path.
    pub fn create(path: &Path, head: &Head) -> Result<Self, LogError> {
        let failed = |source: io::Error| LogError::Io { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).open(path).map_err(failed)?;
        let json = serde_json::to_vec(head).map_err(|e| failed(e.into()))?;
        let mut out = Vec::with_capacity(24 + json.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(json.len() as u32).to_le_bytes());
        out.extend_from_slice(&json);
        out.extend_from_slice(&crc32c([&json[..]]).to_le_bytes());
        let mut writer = Self { path: path.to_owned(), file, open: BTreeMap::new(), out, rows: 0 };
        writer.send()?;
        Ok(writer)
    }

    fn failed(&self, source: io::Error) -> LogError {
        LogError::Io { path: self.path.clone(), source }
    }

    fn send(&mut self) -> Result<(), LogError> {
        let result = self.file.write_all(&self.out);
        self.out.clear();
        result.map_err(|e| self.failed(e))
    }

    /// Adds rows of one worker (their own `worker` is not looked at). A chunk
    /// that is full goes to the file.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path; the log then ends in a torn chunk.
    pub fn append(&mut self, worker: u32, rows: &[Row]) -> Result<(), LogError> {
        let columns = self.open.entry(worker).or_default();
        for row in rows {
            columns.push(row);
            if columns.rows as usize == CHUNK_ROWS {
                close_chunk(&mut self.out, worker, columns);
            }
        }
        self.rows += rows.len() as u64;
        if self.out.is_empty() {
            return Ok(());
        }
        self.send()
    }

    /// Sends all rows to the file, those of chunks that are not full too: what
    /// was appended until here outlives this process.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path.
    pub fn flush(&mut self) -> Result<(), LogError> {
        for (worker, columns) in &mut self.open {
            if columns.rows > 0 {
                close_chunk(&mut self.out, *worker, columns);
            }
        }
        self.send()
    }

    /// `flush`, and the file is durable: what was appended until here outlives
    /// a crash of the machine.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.flush()?;
        self.file.sync_data().map_err(|e| self.failed(e))
    }

    /// Sends what is left, marks the log as whole and makes it durable; how
    /// many rows it has.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path.
    pub fn finish(mut self) -> Result<u64, LogError> {
        self.flush()?;
        let mut end = END_MAGIC.to_vec();
        end.extend_from_slice(&self.rows.to_le_bytes());
        let crc = crc32c([&end[..]]);
        end.extend_from_slice(&crc.to_le_bytes());
        self.out = end;
        self.send()?;
        self.file.sync_all().map_err(|e| self.failed(e))?;
        Ok(self.rows)
    }
}

fn close_chunk(out: &mut Vec<u8>, worker: u32, columns: &mut Columns) {
    let begin = out.len();
    out.extend_from_slice(&CHUNK_MAGIC);
    out.extend_from_slice(&worker.to_le_bytes());
    out.extend_from_slice(&columns.rows.to_le_bytes());
    for column in &columns.bytes {
        out.extend_from_slice(&(column.len() as u32).to_le_bytes());
    }
    debug_assert_eq!(out.len() - begin, CHUNK_HEAD);
    for column in &columns.bytes {
        out.extend_from_slice(column);
    }
    let crc = crc32c([&out[begin..]]);
    out.extend_from_slice(&crc.to_le_bytes());
    columns.clear();
}
