// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables by columns, small enough to stand in a page: LEB128, then raw deflate, then base64.

use crate::document::Packed;
use anyhow::{bail, ensure, Context, Result};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::Compression;
use std::io::{Read, Write};

/// A table that grows row by row.
#[derive(Debug)]
pub struct Table {
    rows: u64,
    names: &'static [&'static str],
    /// LEB128.
    columns: Vec<Vec<u8>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self { rows: 0, names, columns: vec![Vec::new(); names.len()] }
    }

    /// Adds a row, in the order of the columns.
    ///
    /// # Panics
    /// In debug builds, when it has not a number for every column.
    pub fn push(&mut self, row: &[u64]) {
        debug_assert_eq!(row.len(), self.columns.len());
        for (column, number) in self.columns.iter_mut().zip(row) {
            leb128(*number, column);
        }
        self.rows += 1;
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// As it stands in a document.
    ///
    /// # Errors
    /// The compressor's.
    pub fn pack(self) -> Result<Packed> {
        let columns = self.names.iter().zip(self.columns).map(|(name, bytes)| {
            let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
            deflate.write_all(&bytes)?;
            Ok(((*name).to_string(), STANDARD.encode(deflate.finish()?)))
        });
        Ok(Packed { rows: self.rows, columns: columns.collect::<Result<_>>()? })
    }
}

impl Packed {
    /// A column's numbers, as they were put in: a difference is not added up.
    ///
    /// # Errors
    /// There is no such column; it is damaged, or has not one number a row.
    pub fn column(&self, name: &str) -> Result<Vec<u64>> {
        let text = self.columns.get(name).with_context(|| format!("the table has no column {name:?}"))?;
        unpack(text, self.rows).with_context(|| format!("column {name:?}"))
    }
}

fn unpack(text: &str, rows: u64) -> Result<Vec<u64>> {
    let packed = STANDARD.decode(text).context("is not base64")?;
    // A number takes ten bytes at most: what is longer is not unpacked to its end.
    let most = rows.saturating_mul(10).saturating_add(1);
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed.as_slice()).take(most).read_to_end(&mut bytes).context("is not deflated")?;
    let (mut out, mut number, mut shift) = (Vec::new(), 0u64, 0u32);
    for byte in bytes {
        let part = u64::from(byte & 0x7f);
        ensure!(shift < 63 || (shift == 63 && part < 2), "has a number of more than 64 bits");
        number |= part << shift;
        if byte & 0x80 == 0 {
            out.push(number);
            (number, shift) = (0, 0);
        } else {
            shift += 7;
        }
    }
    ensure!(shift == 0, "ends within a number");
    if out.len() as u64 != rows {
        bail!("has {} numbers for {rows} rows", out.len());
    }
    Ok(out)
}

fn leb128(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let mut table = Table::new(&["a", "b"]);
        let numbers: Vec<u64> =
            (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]).collect();
        for n in &numbers {
            table.push(&[*n, 7]);
        }
        assert_eq!(table.rows(), 129);
        let packed = table.pack().expect("memory");
        assert_eq!(packed.column("a").expect("a"), numbers);
        assert_eq!(packed.column("b").expect("b"), vec![7; 129]);
        assert_eq!(packed.column("c").expect_err("none").to_string(), "the table has no column \"c\"");
    }

    #[test]
    fn other_programs_can_decode_it() {
        // 0, 127, 128, 300 as LEB128, deflated by Python's zlib with wbits=-15, in base64.
        let known = Packed { rows: 4, columns: [("a".into(), KNOWN.into())].into() };
        assert_eq!(known.column("a").expect("a"), [0, 127, 128, 300]);
    }

    const KNOWN: &str = "Y6hvYFzDBAA=";

    #[test]
    fn an_empty_table_has_empty_columns() {
        let packed = Table::new(&["a"]).pack().expect("memory");
        assert_eq!((packed.rows, packed.column("a").expect("a")), (0, Vec::new()));
    }

    #[test]
    fn damage_is_told() {
        let column = |rows: u64, bytes: &[u8]| {
            let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
            deflate.write_all(bytes).expect("memory");
            let text = STANDARD.encode(deflate.finish().expect("memory"));
            let packed = Packed { rows, columns: [("a".into(), text)].into() };
            packed.column("a").map_err(|e| format!("{e:#}"))
        };
        assert_eq!(column(2, &[1, 0x82]), Err("column \"a\": ends within a number".into()));
        assert_eq!(column(2, &[1]), Err("column \"a\": has 1 numbers for 2 rows".into()));
        assert_eq!(column(1, &[0xff; 10]), Err("column \"a\": has a number of more than 64 bits".into()));
        assert!(column(1, &[0; 100_000]).is_err(), "more than there are rows");
        let text = |text: &str| {
            let packed = Packed { rows: 1, columns: [("a".into(), text.into())].into() };
            packed.column("a").map_err(|e| format!("{e:#}")).expect_err("damaged")
        };
        assert!(text("!").starts_with("column \"a\": is not base64"), "{}", text("!"));
        assert!(text("////").starts_with("column \"a\": is not deflated"), "{}", text("////"));
    }
}
