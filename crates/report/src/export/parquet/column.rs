// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of one column until their row group is written.

use super::encode::{deltas, runs, width};
use super::thrift::Fields;
use crate::table::{Cell, Kind};
use std::collections::HashMap;

/// Rows of a page.
const PAGE: usize = 1 << 16;
/// Bytes of texts above which a dictionary must pay.
const DICTIONARY: usize = 1 << 20;
/// A text that is longer is not in the statistics.
const LONGEST: usize = 64;
/// Places in which texts were found lately, a power of two.
const LATELY: usize = 256;

pub const INT64: i32 = 2;
pub const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;

pub const PLAIN: i32 = 0;
const RLE: i32 = 3;
pub const DELTA_BINARY_PACKED: i32 = 5;
pub const RLE_DICTIONARY: i32 = 8;

/// Parquet's number of the type that a kind is written as.
pub fn physical(kind: Kind) -> i32 {
    match kind {
        Kind::Integer => INT64,
        Kind::Real => DOUBLE,
        Kind::Text => BYTE_ARRAY,
    }
}

/// The kind of what is written as this type.
pub fn kind(physical_type: i64) -> Option<Kind> {
    [Kind::Integer, Kind::Real, Kind::Text]
        .into_iter()
        .find(|kind| i64::from(physical(*kind)) == physical_type)
}

/// Texts, each once.
#[derive(Debug, Default)]
struct Texts {
    all: Vec<Box<str>>,
    places: HashMap<Box<str>, u32>,
    bytes: usize,
    /// Address and place of texts that came lately. An address may get another text, so
    /// what stands at the place is compared.
    lately: Vec<(usize, u32)>,
}

impl Texts {
    fn place(&mut self, text: &str) -> u32 {
        if self.lately.is_empty() {
            self.lately.resize(LATELY, (0, 0));
        }
        let address = text.as_ptr() as usize;
        // Texts of one allocation lie close together: Fibonacci hashing takes them apart.
        let at = (address as u64 ^ (text.len() as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let at = at as usize % LATELY;
        let (then, place) = self.lately[at];
        if then == address && self.all.get(place as usize).is_some_and(|t| **t == *text) {
            return place;
        }
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = self.all.len() as u32;
                self.all.push(text.into());
                self.places.insert(text.into(), place);
                self.bytes += text.len() + 4;
                place
            }
        };
        self.lately[at] = (address, place);
        place
    }

    fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
        self.lately.clear();
        self.bytes = 0;
    }
}

/// What the footer says of a column's part of a row group.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Values, none among them.
    pub values: i64,
    /// Of those, none.
    pub nulls: i64,
    /// Where its first data page begins in the file.
    pub data: i64,
    pub dictionary: Option<i64>,
    /// Bytes with headers.
    pub bytes: i64,
    /// Encodings of its pages.
    pub encodings: Vec<i32>,
    pub range: Option<(Vec<u8>, Vec<u8>)>,
}

/// The values of one column.
#[derive(Debug)]
pub struct Column {
    kind: Kind,
    /// Rows, none among them.
    rows: usize,
    /// 1 where there is a value, up to the last row without one; empty where every row has one, as in
    /// most columns.
    there: Vec<u32>,
    integers: Vec<i64>,
    reals: Vec<f64>,
    codes: Vec<u32>,
    texts: Texts,
}

impl Column {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            rows: 0,
            there: Vec::new(),
            integers: Vec::new(),
            reals: Vec::new(),
            codes: Vec::new(),
            texts: Texts::default(),
        }
    }

    /// Adds a value; one of another kind is none.
    #[inline]
    pub fn push(&mut self, cell: Cell<'_>) {
        match (self.kind, cell) {
            (Kind::Integer, Cell::Integer(v)) => self.integers.push(v),
            (Kind::Real, Cell::Real(v)) => self.reals.push(v),
            (Kind::Text, Cell::Text(v)) => {
                let place = self.texts.place(v);
                self.codes.push(place);
            }
            _ => {
                self.there.resize(self.rows, 1);
                self.there.push(0);
            }
        }
        self.rows += 1;
    }

    /// Bytes of texts that it keeps.
    pub fn text_bytes(&self) -> usize {
        self.texts.bytes
    }

    /// Appends its pages to `out`, whose first byte lies at `at` in the file, and begins anew.
    pub fn write(&mut self, at: u64, out: &mut Vec<u8>) -> Chunk {
        let first = out.len();
        let nulls = self.there.iter().filter(|t| **t == 0).count();
        self.there.resize(self.rows, 1);
        let mut chunk = Chunk {
            values: self.rows as i64,
            nulls: nulls as i64,
            range: self.range(),
            encodings: vec![RLE],
            ..Chunk::default()
        };
        let place = |out: &Vec<u8>| (at + out.len() as u64) as i64;
        // A dictionary of texts that come once each is twice their size.
        let plain = self.texts.bytes > DICTIONARY && self.texts.all.len() > self.codes.len() / 2;
        let encoding = match self.kind {
            Kind::Integer => DELTA_BINARY_PACKED,
            Kind::Real => PLAIN,
            Kind::Text if plain => PLAIN,
            Kind::Text => RLE_DICTIONARY,
        };
        let mut body = Vec::new();
        if encoding == RLE_DICTIONARY {
            self.texts.all.iter().for_each(|t| text(t, &mut body));
            chunk.dictionary = Some(place(out));
            dictionary_page(self.texts.all.len() as i32, &body, out);
            chunk.encodings.push(PLAIN);
        }
        chunk.encodings.push(encoding);
        chunk.data = place(out);
        let bits = width((self.texts.all.len().max(2) - 1) as u64);
        let mut value = 0;
        for there in self.there.chunks(PAGE) {
            body.clear();
            levels(there, &mut body);
            let none = if nulls == 0 { 0 } else { there.iter().filter(|t| **t == 0).count() };
            let values = value..value + there.len() - none;
            value = values.end;
            match encoding {
                DELTA_BINARY_PACKED => deltas(&self.integers[values], &mut body),
                RLE_DICTIONARY => {
                    body.push(bits as u8);
                    runs(&self.codes[values], bits, &mut body);
                }
                _ if self.kind == Kind::Real => {
                    self.reals[values].iter().for_each(|v| body.extend_from_slice(&v.to_le_bytes()));
                }
                _ => self.codes[values].iter().for_each(|c| text(&self.texts.all[*c as usize], &mut body)),
            }
            data_page(there.len() as i32, encoding, &body, out);
        }
        chunk.bytes = (out.len() - first) as i64;
        self.rows = 0;
        self.there.clear();
        self.integers.clear();
        self.reals.clear();
        self.codes.clear();
        self.texts.clear();
        chunk
    }

    fn range(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self.kind {
            Kind::Integer => {
                let (least, most) = (self.integers.iter().min()?, self.integers.iter().max()?);
                Some((least.to_le_bytes().into(), most.to_le_bytes().into()))
            }
            Kind::Real => {
                let least = self.reals.iter().copied().min_by(f64::total_cmp)?;
                let most = self.reals.iter().copied().max_by(f64::total_cmp)?;
                // Readers compare the zeros as equal: the range must hold both.
                let least = if least == 0.0 { -0.0 } else { least };
                let most = if most == 0.0 { 0.0 } else { most };
                Some((least.to_le_bytes().into(), most.to_le_bytes().into()))
            }
            Kind::Text => {
                let (least, most) = (self.texts.all.iter().min()?, self.texts.all.iter().max()?);
                let short = least.len() <= LONGEST && most.len() <= LONGEST;
                short.then(|| (least.as_bytes().into(), most.as_bytes().into()))
            }
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Which values are there: runs of one bit, their length before them.
fn levels(there: &[u32], out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    runs(there, 1, out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// parquet.thrift: PageHeader with its DataPageHeader.
fn data_page(values: i32, encoding: i32, body: &[u8], out: &mut Vec<u8>) {
    let mut head = Fields::new(out);
    head.i32(1, 0).i32(2, body.len() as i32).i32(3, body.len() as i32);
    head.nested(5, |page| {
        page.i32(1, values).i32(2, encoding).i32(3, RLE).i32(4, RLE);
    });
    head.end();
    out.extend_from_slice(body);
}

/// parquet.thrift: PageHeader with its DictionaryPageHeader.
fn dictionary_page(values: i32, body: &[u8], out: &mut Vec<u8>) {
    let mut head = Fields::new(out);
    head.i32(1, 2).i32(2, body.len() as i32).i32(3, body.len() as i32);
    head.nested(7, |page| {
        page.i32(1, values).i32(2, PLAIN);
    });
    head.end();
    out.extend_from_slice(body);
}
