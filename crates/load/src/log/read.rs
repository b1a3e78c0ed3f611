// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a log, one chunk in memory at a time, and never trusts a length that
//! it finds there.

use super::code::crc32c;
use super::columns::{Cursor, COLUMNS};
use super::{
    Head, LogError, Row, CHUNK_HEAD, CHUNK_MAGIC, CHUNK_ROWS, END_LENGTH, END_MAGIC, HEAD_LIMIT, MAGIC,
    VERSION,
};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// A number takes up to ten bytes.
const COLUMN_LIMIT: usize = CHUNK_ROWS * 10;

/// A log being read: an iterator over its rows, each worker's in their order,
/// the workers' by chunks. After an error it ends.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    head: Head,
    first_chunk: u64,
    at: u64,
    chunk: Cursor,
    rows: u64,
    complete: bool,
    note: Option<String>,
    ended: bool,
}

/// What stands at a place in the log.
enum Next {
    Chunk(Box<Cursor>, u64),
    End(u64),
    /// Bytes that are neither; how so.
    Torn(&'static str),
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(half)
}

impl LogReader {
    /// Opens the log and reads its head.
    ///
    /// # Errors
    /// A file that cannot be read, is no log, is of another version, or whose
    /// head is damaged.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let failed = |source: io::Error| LogError::Io { path: path.to_owned(), source };
        let foreign = || LogError::Foreign { path: path.to_owned() };
        let damaged = |what: String| LogError::Damaged { path: path.to_owned(), at: 12, what };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut fixed = [0; 16];
        file.read_exact(&mut fixed).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => foreign(),
            _ => failed(e),
        })?;
        if fixed[..8] != MAGIC {
            return Err(foreign());
        }
        let version = half(&fixed, 8);
        if version != VERSION {
            return Err(LogError::Version { path: path.to_owned(), found: version });
        }
        let json_length = half(&fixed, 12) as usize;
        let first_chunk = 16 + json_length as u64 + 4;
        if json_length > HEAD_LIMIT || first_chunk > length {
            return Err(damaged(format!("a head of {json_length} bytes in a file of {length}")));
        }
        let mut json = vec![0; json_length + 4];
        file.read_exact(&mut json).map_err(failed)?;
        if half(&json, json_length) != crc32c([&json[..json_length]]) {
            return Err(damaged("the head's checksum is wrong".into()));
        }
        let head = serde_json::from_slice(&json[..json_length])
            .map_err(|e| damaged(format!("the head cannot be read ({e})")))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
            head,
            first_chunk,
            at: first_chunk,
            chunk: Cursor::default(),
            rows: 0,
            complete: false,
            note: None,
            ended: false,
        })
    }

    /// What the log says of itself.
    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the run wrote the log to its end; known when all rows were read.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// What was left out at the end, in words; known when all rows were read.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Starts again with the first row.
    ///
    /// # Errors
    /// [`LogError::Io`] with the path.
    pub fn rewind(&mut self) -> Result<(), LogError> {
        self.seek(self.first_chunk)?;
        self.chunk = Cursor::default();
        self.rows = 0;
        self.complete = false;
        self.note = None;
        self.ended = false;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> LogError {
        LogError::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, what: String) -> LogError {
        LogError::Damaged { path: self.path.clone(), at: self.at, what }
    }

    fn seek(&mut self, at: u64) -> Result<(), LogError> {
        let here = self.file.stream_position().map_err(|e| self.failed(e))?;
        // Relative, since an absolute one throws the buffer away.
        self.file.seek_relative(at as i64 - here as i64).map_err(|e| self.failed(e))?;
        self.at = at;
        Ok(())
    }

    /// What stands at `self.at`; the file's position is anywhere afterwards.
    fn look(&mut self) -> io::Result<Next> {
        let left = self.length - self.at;
        let mut magic = [0; 4];
        if left < 4 {
            return Ok(Next::Torn("too few bytes for a chunk"));
        }
        self.file.read_exact(&mut magic)?;
        if magic == END_MAGIC && left >= END_LENGTH as u64 {
            let mut rest = [0; END_LENGTH - 4];
            self.file.read_exact(&mut rest)?;
            if half(&rest, 8) != crc32c([&magic[..], &rest[..8]]) {
                return Ok(Next::Torn("the end's checksum is wrong"));
            }
            return Ok(Next::End(u64::from(half(&rest, 4)) << 32 | u64::from(half(&rest, 0))));
        }
        if magic != CHUNK_MAGIC || left < CHUNK_HEAD as u64 {
            return Ok(Next::Torn("no chunk begins here"));
        }
        let mut head = [0; CHUNK_HEAD - 4];
        self.file.read_exact(&mut head)?;
        let (worker, rows) = (half(&head, 0), half(&head, 4));
        let lengths: [usize; COLUMNS] = std::array::from_fn(|i| half(&head, 8 + 4 * i) as usize);
        if rows as usize > CHUNK_ROWS || lengths.iter().any(|&l| l > COLUMN_LIMIT) {
            return Ok(Next::Torn("a chunk's lengths are impossible"));
        }
        let payload: usize = lengths.iter().sum();
        let whole = (CHUNK_HEAD + payload + 4) as u64;
        if whole > left {
            return Ok(Next::Torn("the chunk goes beyond the file's end"));
        }
        let mut bytes = vec![0; payload + 4];
        self.file.read_exact(&mut bytes)?;
        if half(&bytes, payload) != crc32c([&magic[..], &head, &bytes[..payload]]) {
            return Ok(Next::Torn("a chunk's checksum is wrong"));
        }
        bytes.truncate(payload);
        Ok(Next::Chunk(Box::new(Cursor::new(worker, rows, &lengths, bytes)), whole))
    }

    /// Whether a whole chunk or the end stands anywhere after `self.at`: then
    /// what is broken here is no torn end.
    fn goes_on(&mut self) -> Result<bool, LogError> {
        let begin = self.at;
        let mut window = vec![0; 1 << 16];
        let mut from = begin + 1;
        while from + 4 <= self.length {
            self.seek(from)?;
            let take = window.len().min((self.length - from) as usize);
            self.file.read_exact(&mut window[..take]).map_err(|e| self.failed(e))?;
            let found: Vec<u64> = window[..take]
                .windows(4)
                .enumerate()
                .filter(|(_, w)| *w == CHUNK_MAGIC || *w == END_MAGIC)
                .map(|(i, _)| from + i as u64)
                .collect();
            for at in found {
                self.seek(at)?;
                let next = self.look().map_err(|e| self.failed(e))?;
                if !matches!(next, Next::Torn(_)) {
                    self.at = begin;
                    return Ok(true);
                }
            }
            from += take as u64 - 3;
        }
        self.at = begin;
        Ok(false)
    }

    /// Takes up the next chunk; false at the end.
    fn advance(&mut self) -> Result<bool, LogError> {
        if self.at == self.length {
            self.note = Some(format!(
                "log {} has no end: the run was cut off, and its last operations are unknown",
                self.path.display()
            ));
            return Ok(false);
        }
        self.seek(self.at)?;
        match self.look().map_err(|e| self.failed(e))? {
            Next::Chunk(cursor, length) => {
                self.chunk = *cursor;
                self.at += length;
                Ok(true)
            }
            Next::End(rows) if rows == self.rows && self.at + END_LENGTH as u64 == self.length => {
                self.complete = true;
                Ok(false)
            }
            Next::End(rows) => Err(self.damaged(format!(
                "the end says {rows} rows, {} were read, and {} bytes are behind it",
                self.rows,
                (self.length - self.at).saturating_sub(END_LENGTH as u64)
            ))),
            Next::Torn(what) if self.goes_on()? => Err(self.damaged(what.into())),
            Next::Torn(what) => {
                self.note = Some(format!(
                    "log {} is torn: {what} (byte {}); its last {} bytes are left out",
                    self.path.display(),
                    self.at,
                    self.length - self.at
                ));
                Ok(false)
            }
        }
    }
}

impl Iterator for LogReader {
    type Item = Result<Row, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended && self.chunk.left() == 0 {
            match self.advance() {
                Ok(more) => self.ended = !more,
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
        if self.ended {
            return None;
        }
        let row = self.chunk.next();
        self.rows += 1;
        if row.is_none() {
            self.ended = true;
        }
        Some(row.ok_or_else(|| self.damaged("a column of the chunk before it ends too early".into())))
    }
}
