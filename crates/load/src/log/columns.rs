// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows as columns: neighbours in a column are alike, so that their
//! differences take one or two bytes. What is encoded is in `Columns::push`;
//! `Cursor::next` is its mirror.

use super::code::{put, take, unzigzag, zigzag};
use super::{kind_of, Row};

/// Intended start, wait, service, kind and flags, file, offset, result,
/// generation.
pub(super) const COLUMNS: usize = 8;

/// Rows of one worker that are being encoded.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) rows: u32,
    pub(super) bytes: [Vec<u8>; COLUMNS],
    last: Row,
}

impl Columns {
    pub(super) fn push(&mut self, row: &Row) {
        let last = &self.last;
        let [intended, wait, service, kind, file, offset, result, generation] = &mut self.bytes;
        put(intended, zigzag(row.intended_ns, last.intended_ns));
        put(wait, row.begin_ns.wrapping_sub(row.intended_ns));
        put(service, row.end_ns.wrapping_sub(row.begin_ns));
        put(kind, u64::from(row.kind as u8) | u64::from(row.flags) << 4);
        put(file, zigzag(row.file.into(), last.file.into()));
        put(offset, zigzag(row.offset, last.offset));
        put(result, zigzag(row.result as u64, last.result as u64));
        put(generation, zigzag(row.generation, last.generation));
        self.last = *row;
        self.rows += 1;
    }

    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.last = Row::default();
        self.bytes.iter_mut().for_each(Vec::clear);
    }
}

/// One chunk that is being decoded.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    bytes: Vec<u8>,
    at: [usize; COLUMNS],
    end: [usize; COLUMNS],
    left: u32,
    last: Row,
}

impl Cursor {
    /// `lengths` must add up to the bytes.
    pub(super) fn new(worker: u32, rows: u32, lengths: &[usize; COLUMNS], bytes: Vec<u8>) -> Self {
        let mut cursor =
            Self { bytes, left: rows, last: Row { worker, ..Row::default() }, ..Self::default() };
        let mut sum = 0;
        for (i, length) in lengths.iter().enumerate() {
            cursor.at[i] = sum;
            sum += length;
            cursor.end[i] = sum;
        }
        cursor
    }

    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next row; none where a column ends too early or holds nonsense.
    pub(super) fn next(&mut self) -> Option<Row> {
        let (last, bytes, at, end) = (self.last, &self.bytes, &mut self.at, &self.end);
        let mut column = |i: usize| take(bytes.get(..end[i])?, &mut at[i]);
        let intended_ns = unzigzag(column(0)?, last.intended_ns);
        let begin_ns = intended_ns.wrapping_add(column(1)?);
        let end_ns = begin_ns.wrapping_add(column(2)?);
        let kind = column(3)?;
        let row = Row {
            worker: last.worker,
            kind: kind_of(kind as u8 & 0xf),
            flags: (kind >> 4) as u8,
            file: unzigzag(column(4)?, last.file.into()) as u32,
            intended_ns,
            begin_ns,
            end_ns,
            offset: unzigzag(column(5)?, last.offset),
            result: unzigzag(column(6)?, last.result as u64) as i32,
            generation: unzigzag(column(7)?, last.generation),
        };
        self.left = self.left.checked_sub(1)?;
        self.last = row;
        Some(row)
    }
}
