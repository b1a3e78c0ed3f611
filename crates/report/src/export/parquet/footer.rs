// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The footer of a Parquet file of ours, as it was read.

use super::thrift::{read_uleb, BINARY, I32, I64, LIST, STRUCT};
use super::MAGIC;
use anyhow::{bail, ensure, Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Structs in structs; Parquet's own go down six.
const DEEP: u32 = 12;
/// Bytes of a footer: one of ours has 2 KiB a row group.
const LARGEST: u64 = 1 << 28;

const TRUE: u8 = 1;
const FALSE: u8 = 2;

/// A value of Thrift's compact protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    /// Fields by their numbers, in their order.
    Struct(Vec<(i16, Value)>),
}

impl Value {
    /// A struct's field.
    pub fn field(&self, number: i16) -> Option<&Value> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(n, _)| *n == number).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn items(&self) -> &[Value] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(v) => Some(*v),
            _ => None,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// Reads values from bytes that anybody may have written.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().context("it ends too early")?;
        self.0 = rest;
        Ok(*first)
    }

    fn length(&mut self) -> Result<usize> {
        let length = read_uleb(&mut self.0)?;
        // An item has a byte at least.
        ensure!(length <= self.0.len() as u64, "it ends too early");
        Ok(length as usize)
    }

    fn value(&mut self, kind: u8, deep: u32) -> Result<Value> {
        ensure!(deep < DEEP, "structs in structs, too deep");
        Ok(match kind {
            TRUE | FALSE => Value::Bool(kind == TRUE),
            I32 | I64 => {
                let v = read_uleb(&mut self.0)?;
                Value::Number((v >> 1) as i64 ^ -((v & 1) as i64))
            }
            BINARY => {
                let length = self.length()?;
                let (bytes, rest) = self.0.split_at(length);
                self.0 = rest;
                Value::Bytes(bytes.to_vec())
            }
            LIST => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.length()? } else { usize::from(head >> 4) };
                let kind = head & 15;
                ensure!(kind != TRUE && kind != FALSE, "a list of truths");
                Value::List((0..length).map(|_| self.value(kind, deep + 1)).collect::<Result<_>>()?)
            }
            STRUCT => {
                let (mut fields, mut last) = (Vec::new(), 0i16);
                loop {
                    let head = self.byte()?;
                    if head == 0 {
                        break;
                    }
                    ensure!(head >> 4 != 0, "fields that are far apart");
                    last = last.checked_add((head >> 4).into()).context("too many fields")?;
                    fields.push((last, self.value(head & 15, deep + 1)?));
                }
                Value::Struct(fields)
            }
            _ => bail!("a type {kind} that plumb does not write"),
        })
    }
}

/// Parses the struct with which bytes begin; also what is behind it.
///
/// # Errors
/// The bytes are none, or have what plumb never writes.
pub fn begin(bytes: &[u8]) -> Result<(Value, &[u8])> {
    let mut reader = Reader(bytes);
    Ok((reader.value(STRUCT, 0)?, reader.0))
}

/// Parses a footer.
///
/// # Errors
/// The bytes are none, or have what plumb never writes.
pub fn parse(bytes: &[u8]) -> Result<Value> {
    let (footer, rest) = begin(bytes)?;
    ensure!(rest.is_empty(), "bytes behind the end");
    Ok(footer)
}

/// Fields of a footer.
pub const SCHEMA: i16 = 2;
pub const ROWS: i16 = 3;
pub const GROUPS: i16 = 4;
pub const WORDS: i16 = 5;
const CREATED_BY: i16 = 6;

/// What a footer's words say to a key.
pub fn word<'a>(footer: &'a Value, key: &str) -> Option<&'a [u8]> {
    let words = footer.field(WORDS)?.items();
    Some(words.iter().find(|w| w.field(1).is_some_and(|k| k.bytes() == key.as_bytes()))?.field(2)?.bytes())
}

/// The footer of a file, and where it begins.
///
/// # Errors
/// It cannot be read, or is no Parquet file of plumb's.
pub fn read(file: &File) -> Result<(Value, u64)> {
    let length = file.metadata()?.len();
    let mut tail = [0; 8];
    ensure!(length > 12, "it is too short for a Parquet file");
    file.read_exact_at(&mut tail, length - 8)?;
    ensure!(&tail[4..] == MAGIC, "it does not end as a Parquet file");
    let size = u64::from(u32::from_le_bytes(tail[..4].try_into().expect("four bytes")));
    ensure!(size <= (length - 12).min(LARGEST), "its footer is longer than the file");
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, length - 8 - size)?;
    let footer = parse(&bytes)?;
    ensure!(
        footer.field(CREATED_BY).map_or(&[][..], Value::bytes).starts_with(b"plumb version "),
        "plumb did not write it"
    );
    for field in [SCHEMA, ROWS, GROUPS, WORDS] {
        ensure!(footer.field(field).is_some(), "its footer is not whole");
    }
    Ok((footer, length - 8 - size))
}

#[cfg(test)]
mod tests {
    use super::super::thrift::Fields;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = Vec::new();
        let mut fields = Fields::new(&mut bytes);
        let many: Vec<i32> = (-20..20).collect();
        fields.i32(1, -3).i64(2, i64::MIN).binary(4, b"text").i32s(5, &many);
        fields.structs(7, &[1, 2], |v, f| {
            f.i64(1, *v).nested(3, |f| {
                f.texts(2, &["a", ""]);
            });
        });
        fields.end();
        let value = parse(&bytes).expect("a struct");
        assert_eq!(value.field(2).and_then(Value::number), Some(i64::MIN));
        assert_eq!(value.field(5).map(|l| l.items().len()), Some(40));
        let nested = value.field(7).and_then(|l| l.items().get(1)?.field(3)?.field(2)).map(Value::items);
        assert_eq!(nested.map(|texts| [texts[0].bytes(), texts[1].bytes()]), Some([&b"a"[..], b""]));
        for cut in 0..bytes.len() {
            parse(&bytes[..cut]).expect_err("cut off");
        }
    }

    #[test]
    fn what_is_no_footer_is_refused() {
        for (bytes, word) in [
            (&[0x1c; 64][..], "deep"),
            (&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f], "early"),
            (&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], "64 bits"),
            (&[0x17, 0, 0], "type 7"),
            (&[0, 0], "behind"),
        ] {
            let error = parse(bytes).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
