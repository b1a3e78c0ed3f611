// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thrift's compact protocol, as far as Parquet's headers need it: structs whose fields are
//! written in the order of their numbers.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

use anyhow::{bail, Context, Result};

/// Unsigned number in LEB128.
pub fn uleb(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Reads one; the bytes may be anybody's.
///
/// # Errors
/// They end too early, or the number has more than 64 bits.
pub fn read_uleb(bytes: &mut &[u8]) -> Result<u64> {
    let mut out = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().context("it ends too early")?;
        *bytes = rest;
        out |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(out);
        }
    }
    bail!("a number has more than 64 bits")
}

/// Signed numbers as unsigned ones, small ones small.
pub fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

/// What a list begins with: the kind of its items, and how many there are.
pub fn list(kind: u8, length: usize, out: &mut Vec<u8>) {
    if length < 15 {
        out.push((length as u8) << 4 | kind);
    } else {
        out.push(0xf0 | kind);
        uleb(length as u64, out);
    }
}

#[derive(Debug)]
pub struct Fields<'a> {
    out: &'a mut Vec<u8>,
    last: i16,
}

impl<'a> Fields<'a> {
    /// Begins a struct; [`Fields::end`] ends it.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: 0 }
    }

    fn head(&mut self, field: i16, kind: u8) {
        let step = field - self.last;
        debug_assert!((1..16).contains(&step), "fields in the order of their numbers");
        self.out.push((step as u8) << 4 | kind);
        self.last = field;
    }

    /// A number of 32 bits, or a word of an enum.
    pub fn i32(&mut self, field: i16, v: i32) -> &mut Self {
        self.head(field, I32);
        uleb(zigzag(v.into()), self.out);
        self
    }

    /// A number of 64 bits.
    pub fn i64(&mut self, field: i16, v: i64) -> &mut Self {
        self.head(field, I64);
        uleb(zigzag(v), self.out);
        self
    }

    /// Bytes or text.
    pub fn binary(&mut self, field: i16, v: &[u8]) -> &mut Self {
        self.head(field, BINARY);
        uleb(v.len() as u64, self.out);
        self.out.extend_from_slice(v);
        self
    }

    pub fn nested(&mut self, field: i16, fill: impl FnOnce(&mut Fields<'_>)) -> &mut Self {
        self.head(field, STRUCT);
        let mut inner = Fields::new(self.out);
        fill(&mut inner);
        inner.end();
        self
    }

    fn list(&mut self, field: i16, kind: u8, length: usize) {
        self.head(field, LIST);
        list(kind, length, self.out);
    }

    pub fn structs<T>(
        &mut self,
        field: i16,
        items: &[T],
        mut fill: impl FnMut(&T, &mut Fields<'_>),
    ) -> &mut Self {
        self.list(field, STRUCT, items.len());
        for item in items {
            let mut inner = Fields::new(self.out);
            fill(item, &mut inner);
            inner.end();
        }
        self
    }

    /// A list of numbers of 32 bits.
    pub fn i32s(&mut self, field: i16, items: &[i32]) -> &mut Self {
        self.list(field, I32, items.len());
        items.iter().for_each(|v| uleb(zigzag((*v).into()), self.out));
        self
    }

    pub fn texts(&mut self, field: i16, items: &[&str]) -> &mut Self {
        self.list(field, BINARY, items.len());
        for item in items {
            uleb(item.len() as u64, self.out);
            self.out.extend_from_slice(item.as_bytes());
        }
        self
    }

    pub fn end(&mut self) {
        self.out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_specification_has_them() {
        let mut out = Vec::new();
        uleb(300, &mut out);
        assert_eq!(out, [0xac, 0x02]);
        assert_eq!([0, -1, 1, -2, i64::MIN].map(zigzag), [0, 1, 2, 3, u64::MAX]);
    }

    #[test]
    fn fields_tell_how_far_they_are_from_the_last() {
        let mut out = Vec::new();
        let mut fields = Fields::new(&mut out);
        fields.i32(1, 3).binary(4, b"ab").structs(5, &[7], |v, f| {
            f.i64(2, *v);
        });
        fields.end();
        assert_eq!(out, [0x15, 6, 0x38, 2, b'a', b'b', 0x19, 0x1c, 0x26, 14, 0, 0]);
    }
}
