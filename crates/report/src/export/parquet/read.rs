// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of a row group that was written here: the encodings of [`super::column`], backwards. Bytes may be anybody's.

use super::column::{physical, DELTA_BINARY_PACKED, PLAIN, RLE_DICTIONARY};
use super::encode::{BLOCK, MINIS};
use super::footer::{begin, Value};
use super::thrift::read_uleb;
use super::GROUP;
use crate::table::{Cell, Kind};
use anyhow::{bail, ensure, Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Data pages and dictionary pages, as parquet.thrift numbers them.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;

/// Values of a column that are there, in the order of the rows.
enum Values<'a> {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<&'a str>),
}

/// A column's values, and in which rows they are.
struct Decoded<'a> {
    /// 1 where there is a value.
    there: Vec<u32>,
    values: Values<'a>,
}

/// A column whose values are read.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub name: &'a str,
    pub kind: Kind,
    /// Where a row gets its value.
    pub place: usize,
}

/// Hands the rows of a row group on, of `width` cells; those that no column is wanted for are none, and so are those of columns
/// that the file has not. `schema`: the footer's list. Nothing is handed on before all is decoded.
///
/// # Errors
/// It is not what plumb writes.
pub fn rows(
    file: &File,
    group: &Value,
    schema: &[Value],
    (wanted, width): (&[Wanted<'_>], usize),
    row: &mut dyn FnMut(&[Cell<'_>]),
) -> Result<()> {
    let count = group.field(3).and_then(Value::number).and_then(|n| usize::try_from(n).ok());
    let count = count.filter(|n| *n <= GROUP).context("a row group has more rows than plumb writes")?;
    let chunks = group.field(1).map_or(&[][..], Value::items);
    let mut there = Vec::new();
    for column in wanted {
        let named = |s: &Value| s.field(4).is_some_and(|n| n.bytes() == column.name.as_bytes());
        // The first is the table itself.
        let Some(at) = schema.iter().skip(1).position(named) else { continue };
        let kind = schema[at + 1].field(1).and_then(Value::number);
        ensure!(kind == Some(physical(column.kind).into()), "column {}: it has another type", column.name);
        let meta = chunks.get(at).and_then(|c| c.field(3)).context("a column without a place")?;
        there.push((column, meta, bytes(file, meta)?));
    }
    let mut columns = Vec::new();
    for (column, meta, bytes) in &there {
        let one = decoded(bytes, meta, physical(column.kind), count);
        columns.push(one.with_context(|| format!("column {}", column.name))?);
    }
    let mut next = vec![0; columns.len()];
    let mut cells = vec![Cell::None; width];
    for i in 0..count {
        for (((wanted, ..), column), next) in there.iter().zip(&columns).zip(&mut next) {
            cells[wanted.place] = match &column.values {
                _ if column.there[i] == 0 => Cell::None,
                Values::Integers(v) => v.get(*next).copied().into(),
                Values::Reals(v) => v.get(*next).copied().into(),
                Values::Texts(v) => v.get(*next).copied().into(),
            };
            *next += usize::from(column.there[i] != 0);
        }
        row(&cells);
    }
    Ok(())
}

/// The pages of a column; where they lie was looked at when the file was opened.
fn bytes(file: &File, meta: &Value) -> Result<Vec<u8>> {
    let number = |field| meta.field(field).and_then(Value::number).and_then(|v| u64::try_from(v).ok());
    ensure!(meta.field(4).and_then(Value::number) == Some(0), "a column is compressed");
    let from = number(11).or(number(9)).context("a column without a place")?;
    let length = number(7).context("a column without a length")?;
    ensure!(from.saturating_add(length) <= file.metadata()?.len(), "a column lies outside of the file");
    let mut bytes = vec![0; usize::try_from(length)?];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

fn decoded<'a>(mut bytes: &'a [u8], meta: &Value, kind: i32, rows: usize) -> Result<Decoded<'a>> {
    let mut out = Decoded {
        there: Vec::new(),
        values: match kind {
            super::column::INT64 => Values::Integers(Vec::new()),
            super::column::DOUBLE => Values::Reals(Vec::new()),
            _ => Values::Texts(Vec::new()),
        },
    };
    let mut dictionary = Vec::new();
    ensure!(meta.field(5).and_then(Value::number) == Some(rows as i64), "it has not a value for each row");
    while out.there.len() < rows {
        let (head, rest) = begin(bytes)?;
        let number = |field| head.field(field).and_then(Value::number);
        let size = number(3).and_then(|n| usize::try_from(n).ok()).context("a page without a size")?;
        ensure!(size <= rest.len(), "a page is longer than its column");
        let body;
        (body, bytes) = rest.split_at(size);
        match (number(1), head.field(5)) {
            (Some(DICTIONARY), _) => dictionary = texts(body, None)?,
            (Some(DATA), Some(page)) => {
                let of = |field| page.field(field).and_then(Value::number);
                let count = of(1).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
                let count =
                    count.filter(|n| *n <= rows - out.there.len()).context("a page has too many rows")?;
                data(body, count, of(2).unwrap_or(-1), &dictionary, &mut out)?;
            }
            _ => bail!("a page that plumb does not write"),
        }
    }
    Ok(out)
}

/// The values of a page of so many rows.
fn data<'a>(
    body: &'a [u8],
    count: usize,
    encoding: i64,
    dictionary: &[&'a str],
    out: &mut Decoded<'a>,
) -> Result<()> {
    let (length, rest) = body.split_first_chunk::<4>().context("a page is too short")?;
    let length = u32::from_le_bytes(*length) as usize;
    ensure!(length <= rest.len(), "a page is too short");
    let (levels, body) = rest.split_at(length);
    let before = out.there.len();
    runs(levels, 1, count, &mut out.there)?;
    let values = out.there[before..].iter().filter(|t| **t != 0).count();
    match (&mut out.values, i32::try_from(encoding).unwrap_or(-1)) {
        (Values::Integers(all), DELTA_BINARY_PACKED) => deltas(body, values, all)?,
        (Values::Reals(all), PLAIN) => {
            ensure!(body.len() == values * 8, "a page has not as many values as it says");
            all.extend(body.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))));
        }
        (Values::Texts(all), PLAIN) => all.extend(texts(body, Some(values))?),
        (Values::Texts(all), RLE_DICTIONARY) => {
            let (bits, body) = body.split_first().context("a page is too short")?;
            ensure!(*bits <= 32, "numbers of texts have more than 32 bits");
            let mut codes = Vec::new();
            runs(body, (*bits).into(), values, &mut codes)?;
            for code in codes {
                all.push(dictionary.get(code as usize).context("a text that is not in the dictionary")?);
            }
        }
        _ => bail!("an encoding that plumb does not write"),
    }
    Ok(())
}

/// Texts, each behind its length: so many, or all that there are.
fn texts(mut bytes: &[u8], count: Option<usize>) -> Result<Vec<&str>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>().context("a text is cut off")?;
        let length = u32::from_le_bytes(*length) as usize;
        ensure!(length <= rest.len(), "a text is cut off");
        let text;
        (text, bytes) = rest.split_at(length);
        out.push(std::str::from_utf8(text).context("a text is not UTF-8")?);
    }
    ensure!(count.is_none_or(|n| n == out.len()), "a page has not as many values as it says");
    Ok(out)
}

/// The value of `width` bits (1 to 64) at a place among packed ones; the bytes hold it.
fn packed(bytes: &[u8], width: u32, at: usize) -> u64 {
    let first = at * width as usize;
    let (byte, shift) = (first / 8, first % 8);
    let mut word = [0; 16];
    let held = &bytes[byte..bytes.len().min(byte + 9)];
    word[..held.len()].copy_from_slice(held);
    (u128::from_le_bytes(word) >> shift) as u64 & (u64::MAX >> (64 - width))
}

/// RLE: runs of one value, and packed groups between them.
fn runs(mut bytes: &[u8], width: u32, count: usize, out: &mut Vec<u32>) -> Result<()> {
    let end = out.len() + count;
    while out.len() < end {
        let head = read_uleb(&mut bytes)?;
        let left = end - out.len();
        if head & 1 == 1 {
            let length = (head >> 1).checked_mul(width.into()).filter(|n| *n <= bytes.len() as u64);
            let (groups, rest) = bytes.split_at(length.context("a run is cut off")? as usize);
            // Eight values a group; without bits all of them are 0.
            let values = usize::try_from(head >> 1).unwrap_or(usize::MAX).saturating_mul(8).min(left);
            ensure!(values > 0, "a run of nothing");
            let value = |i| if width == 0 { 0 } else { packed(groups, width, i) as u32 };
            out.extend((0..values).map(value));
            bytes = rest;
        } else {
            let length = width.div_ceil(8) as usize;
            ensure!(head > 0 && length <= bytes.len(), "a run of nothing");
            let (value, rest) = bytes.split_at(length);
            let mut word = [0; 4];
            word[..length].copy_from_slice(value);
            let values = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            out.extend(std::iter::repeat_n(u32::from_le_bytes(word), values));
            bytes = rest;
        }
    }
    Ok(())
}

/// DELTA_BINARY_PACKED.
fn deltas(mut bytes: &[u8], count: usize, out: &mut Vec<i64>) -> Result<()> {
    let signed = |v: u64| (v >> 1) as i64 ^ -((v & 1) as i64);
    let head = [read_uleb(&mut bytes)?, read_uleb(&mut bytes)?, read_uleb(&mut bytes)?];
    ensure!(head == [BLOCK as u64, MINIS as u64, count as u64], "blocks that plumb does not write");
    let mut last = signed(read_uleb(&mut bytes)?);
    let mut left = count;
    if left > 0 {
        out.push(last);
        left -= 1;
    }
    while left > 0 {
        let least = signed(read_uleb(&mut bytes)?);
        let (widths, mut rest) = bytes.split_first_chunk::<MINIS>().context("a block is cut off")?;
        for width in *widths {
            let values = BLOCK / MINIS;
            let length = values * usize::from(width) / 8;
            ensure!(width <= 64 && length <= rest.len(), "a block is cut off");
            let (mini, behind) = rest.split_at(length);
            for i in 0..values.min(left) {
                let above = if width == 0 { 0 } else { packed(mini, width.into(), i) };
                last = last.wrapping_add(least).wrapping_add(above as i64);
                out.push(last);
            }
            left -= values.min(left);
            rest = behind;
        }
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn differences_come_back(values in proptest::collection::vec(
            prop_oneof![any::<i64>(), -3..3i64, Just(i64::MIN), Just(i64::MAX)], 0..400)
        ) {
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            encode::deltas(&values, &mut bytes);
            deltas(&bytes, values.len(), &mut out).expect("as written");
            prop_assert_eq!(out, values);
        }

        #[test]
        fn runs_come_back(values in proptest::collection::vec((any::<u32>(), 1..20usize), 0..50), width in 1..33u32) {
            let mask = u32::MAX >> (32 - width);
            let values: Vec<u32> =
                values.iter().flat_map(|(v, n)| std::iter::repeat_n(v & mask, *n)).collect();
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            encode::runs(&values, width, &mut bytes);
            runs(&bytes, width, values.len(), &mut out).expect("as written");
            prop_assert_eq!(out, values);
        }

        #[test]
        fn other_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0..500usize) {
            let _ = deltas(&bytes, count, &mut Vec::new());
            for width in [0, 1, 7, 32] {
                let mut out = Vec::new();
                if runs(&bytes, width, count, &mut out).is_ok() {
                    prop_assert_eq!(out.len(), count);
                }
            }
            let _ = texts(&bytes, None);
        }
    }
}
